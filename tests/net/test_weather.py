# SPDX-License-Identifier: BSD-2-Clause
"""Bad networks of every kind at once, from seeds."""
from cases import each, limit
from rig import check, payload

DATA = 2 << 20
PATIENCE = "50ms"  # ACK timeout: seven of them must outlast a busy machine's pauses


@limit(90)
@each(*[(pmtu, seed) for pmtu in (1024, 4096) for seed in (1, 2)])
def test_loss_duplication_reordering(rig, pmtu, seed):
    sent, received = rig.transfer(
        payload(DATA, seed), "--pmtu", pmtu, "--message-size", 50001, "--ring", 128,
        "--ack-timeout", PATIENCE, timeout=80,
        recv=("--faults", "drop=5%,duplicate=5%,reorder=5%", "--seed", seed))
    for fault in ("dropped", "duplicated", "reordered"):
        check(received["faults"][fault] > 5, "hardly a frame was " + fault, received)
    check(sent["retransmitted_frames"] >= received["faults"]["dropped"] // 2,
          "losses without retransmissions", sent, received)


@limit(90)
def test_loss_of_replies_too(rig):
    sent, received = rig.transfer(
        payload(DATA, 5), "--pmtu", 1024, "--message-size", 50001, "--ring", 64, "--ack-timeout",
        PATIENCE, recv=("--faults", "drop=5%,drop-replies=20%", "--seed", 5), timeout=80)
    check(received["faults"]["dropped_replies"] > 5, "hardly a reply was dropped", received)


@limit(90)
def test_corrupted_data(rig):
    sent, received = rig.transfer(
        payload(DATA, 6), "--pmtu", 1024, "--message-size", 50001, "--ring", 64, "--ack-timeout",
        PATIENCE, recv=("--faults", "corrupt=5%", "--seed", 6), timeout=80)
    corrupted = received["faults"]["corrupted"]
    check(corrupted > 5, "hardly a frame was corrupted", received)
    check(received["bad_icrc"] + received["bad_frames"] + received["foreign_frames"] >= corrupted,
          "corrupted frames were taken for good ones", received)


@limit(90)
def test_corrupted_replies(rig):
    source = rig.file("data.bin", payload(DATA, 8))
    receiver = rig.recv("--faults", "corrupt-replies=20%", "--seed", 8)
    sender = rig.send("--pmtu", 1024, "--message-size", 50001, "--ring", 64, "--ack-timeout",
                      PATIENCE, source)
    _, received = rig.finish(sender, receiver, 80)
    rig.check_content(payload(DATA, 8))
    corrupted = received["faults"]["corrupted_replies"]
    check(corrupted > 5, "hardly a reply was corrupted", received)
    xdp = sender.json()[0]["xdp"]
    check(sum(xdp[reason] for reason in ("bad_icrc", "bad_opcode", "bad_length", "bad_header")) > 0,
          "XDP noticed no corrupted reply", xdp)


@limit(90)
def test_late_frames(rig):
    _, received = rig.transfer(
        payload(DATA, 9), "--pmtu", 2048, "--message-size", 50001, "--ring", 64, "--ack-timeout",
        PATIENCE, recv=("--faults", "delay=2%:3ms", "--seed", 9), timeout=80)
    check(received["faults"]["delayed"] > 5, "hardly a frame was delayed", received)

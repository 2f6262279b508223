# SPDX-License-Identifier: BSD-2-Clause
"""Message sizes at every PMTU, and where PSNs wrap."""
from cases import each
from rig import PROGRAM, RX_IP, check, check_equal, payload

FIRST_PSN = 0xFFFFF0  # the 16th packet has PSN 0xFFFFFF


def packets(size, pmtu):
    return max(1, -(-size // pmtu))


def send_messages(rig, size, pmtu, count, *options):
    """A size of 0 needs the pattern: a file that is empty is one message, and no more."""
    if size:
        return rig.transfer(payload(size * count, size), "--message-size", size, *options)
    receiver = rig.recv()
    sender = rig.send("--pattern", "--messages", count, "--message-size", 0, *options)
    result = rig.finish(sender, receiver)
    rig.check_content(b"")
    return result


def sizes(pmtu):
    return (0, 1, pmtu - 1, pmtu, pmtu + 1, 2 * pmtu)


@each(*[(size, pmtu) for pmtu in (1024, 4096) for size in sizes(pmtu) + ((4 << 20) + 3,)],
      *[(size, pmtu) for pmtu in (256, 512, 2048) for size in (0, pmtu - 1, pmtu + 1, 65537)])
def test_size(rig, size, pmtu):
    count = 3 if size > 1 << 20 else 7
    sent, received = send_messages(rig, size, pmtu, count, "--pmtu", pmtu,
                                   "--start-psn", hex(FIRST_PSN))
    total = count * packets(size, pmtu)
    check_equal(sent["messages"], count, "messages")
    check_equal(sent["next_psn"], (FIRST_PSN + total) & 0xFFFFFF, "next PSN")
    check_equal(sent["una_psn"], sent["next_psn"], "oldest unacknowledged PSN")
    check_equal(sent["msn"], count, "MSN")
    check_equal(sent["frames"] - sent["retransmitted_frames"], total, "packets")
    check_equal(received["frames"], total, "frames executed at the receiver")


def test_last_message_is_shorter(rig):
    data = payload(100001, 1)
    sent, _ = rig.transfer(data, "--message-size", "16KiB")
    check_equal(sent["messages"], 7, "messages")
    check_equal(sent["short_messages"], 0, "short messages: a file's last one is declared")


def test_empty_file_is_one_empty_message(rig):
    sent, _ = rig.transfer(b"")
    check_equal(sent["messages"], 1, "messages")


@each(1, 15, 16, 17)
def test_loss_where_psns_wrap(rig, position):
    sent, received = rig.transfer(payload(64 * 256, position), "--pmtu", 256, "--start-psn",
                                  hex(FIRST_PSN), "--ack-timeout", "200ms",
                                  recv=("--faults", "drop-frame=%d" % position))
    check_equal(sent["next_psn"], (FIRST_PSN + 64) & 0xFFFFFF, "next PSN")
    check_equal(received["faults"]["dropped"], 1, "frames dropped")
    check(sent["retransmitted_frames"] >= 1, "a frame was lost and none was sent again")


def test_eight_streams_at_once(rig):
    files = {"part%d.bin" % i: payload(300000 + i * 100001, i) for i in range(8)}
    receiver = rig.recv("--streams", 8, "--output", rig.make_directory("out"))
    sender = rig.send("--message-size", "64KiB",
                      *[rig.file(name, data) for name, data in files.items()])
    check_equal(sender.finish(30), 0, "exit status of the sender (%s)" % sender.stderr)
    check_equal(receiver.finish(30), 0, "exit status of the receiver (%s)" % receiver.stderr)
    check_equal({stream["name"] for stream in receiver.json()}, set(files), "streams received")
    check(all(stream["delivered"] for stream in sender.json()[0]["streams"]), "not all delivered")
    for name, data in files.items():
        rig.check_content(data, "out/" + name)


def pattern(seed, length):
    """The bytes of --pattern: 64-bit words, each the splitmix64 of the seed and its own index."""
    mask, words = (1 << 64) - 1, []
    for index in range(1, -(-length // 8) + 1):
        z = (seed + index * 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        words.append((z ^ (z >> 31)).to_bytes(8, "little"))
    return b"".join(words)[:length]


def test_streams_of_the_pattern(rig):
    receiver = rig.recv("--streams", 3, "--output", rig.make_directory("out"))
    sender = rig.start(rig.tx, PROGRAM, "send", "--connect", "xdp2roce://" + RX_IP, "--json",
                       "--quiet", "--pattern", "--streams", "3", "--seed", "7", "--messages", "2",
                       "--message-size", "5001")
    check_equal(sender.finish(30), 0, "exit status of the sender (%s)" % sender.stderr)
    check_equal(receiver.finish(30), 0, "exit status of the receiver (%s)" % receiver.stderr)
    received = []
    for name in ("pattern", "pattern.1", "pattern.2"):
        with open(rig.path("out/" + name), "rb") as handle:
            received.append(handle.read())
    check(sorted(received) == sorted(pattern(seed, 10002) for seed in (7, 8, 9)),
          "other content than that of three seeds")


def test_immediate_off(rig):
    """Plain writes: the receiver counts at the end, and has a slot for every message."""
    data = payload(10 * 5000, 2)
    capture = rig.capture_roce()
    sent, received = rig.transfer(data, "--immediate", "off", "--message-size", 5000,
                                  "--pmtu", 1024, recv=("--slots", 10))
    check_equal(received["messages"], 10, "messages")
    check_equal({frame.opcode for frame in capture.frames()}, {0x06, 0x07, 0x08, 0x11}, "opcodes")


def test_standard_input(rig):
    """A stream of unknown length: messages leave when they are complete."""
    data = payload(200001, 3)
    receiver = rig.recv()
    with open(rig.file("data.bin", data), "rb") as source:
        cat = rig.start(rig.tx, "sh", "-c", 'cat | "$0" "$@"', PROGRAM, "send", "--to",
                        RX_IP, "--quiet", "--message-size", "64KiB", "-", stdin=source)
        check_equal(cat.finish(), 0, "exit status of the sender (%s)" % cat.stderr)
    check_equal(receiver.finish(), 0, "exit status of the receiver (%s)" % receiver.stderr)
    rig.check_content(data)

# SPDX-License-Identifier: BSD-2-Clause
"""One loss at every position: what it costs, and that nothing of it lasts."""
from cases import each
from rig import check, check_equal, payload
from wire import transmissions

PMTU = 256
PACKETS = 64
SIZE = PMTU * PACKETS
SPACING = 16  # AckReq on every 16th packet, and on the last
# … and on the very first packet: until a responder has said what credit it gives, the first message
# may send one packet and must wait.
ACKS = 1 + PACKETS // SPACING
AWAITED = (1, ACKS)  # the ACKs that nothing else makes up for
LAST = PACKETS - 1  # PSN of the message's last packet, the first being 0


def acknowledged(frames):
    """The whole first message: with this ACK on the wire the sender has nothing in flight."""
    return any(frame.is_ack and frame.psn == LAST and frame.syndrome < 0x20 for frame in frames)


def send_around_loss(rig, *faults, ring=64):
    """
    A message that meets the faults, and when it is acknowledged another one. Returns what both
    ends count and how often each packet of the first message was sent.
    """
    data = payload(2 * SIZE, 7)
    path, writer = rig.fifo("stream.fifo")
    capture = rig.capture_roce()
    receiver = rig.recv("--faults", ",".join(faults))
    sender = rig.send("--pmtu", PMTU, "--message-size", SIZE, "--ring", ring, "--ack-timeout",
                      "1s", "--start-psn", 0, "--size", 2 * SIZE, path)
    writer.write(data[:SIZE])
    capture.await_frames(acknowledged, "ACK of the first message")
    writer.write(data[SIZE:])
    writer.close()
    sent, received = rig.finish(sender, receiver)
    rig.check_content(data)

    times = transmissions(capture.frames())
    check_equal(list(times), list(range(2 * PACKETS)), "PSNs in the order of their first copies")
    first = [times[psn] for psn in range(PACKETS)]
    second = [times[psn] for psn in range(PACKETS, 2 * PACKETS)]
    check_equal(sent["frames"], sum(times.values()), "frames counted by the sender")
    check_equal(sent["frames"], 2 * PACKETS + sent["retransmitted_frames"], "frames")
    check_equal(second, [1] * PACKETS, "transmissions of the packets after recovery")
    check_equal(received["frames"], 2 * PACKETS, "frames executed")
    return sent, received, first


@each(*range(1, PACKETS + 1))
def test_lost_frame(rig, position):
    sent, received, first = send_around_loss(rig, "drop-frame=%d" % position)
    check_equal(received["faults"]["dropped"], 1, "frames dropped")
    check(first[position - 1] >= 2, "the lost packet was not sent again", first)
    check(sent["retransmitted_frames"] <= 64, "more than a window was sent again", sent)
    if position not in (1, PACKETS):
        check_equal(sent["timeouts"], 0, "timeouts: a NAK tells of the loss")
        check_equal(sent["naks"], 1, "NAKs")
        check_equal(first[:position - 1], [1] * (position - 1), "packets before the lost one")
    else:
        check_equal(sent["timeouts"], 1, "timeouts: no packet behind it tells of the loss")
        check(sent["retransmitted_frames"] <= SPACING, "more than the probe was sent again", sent)


@each(*range(1, ACKS + 1))
def test_lost_ack(rig, position):
    sent, received, first = send_around_loss(rig, "drop-reply=%d" % position)
    check_equal(received["faults"]["dropped_replies"], 1, "replies dropped")
    if position not in AWAITED:
        check_equal(sent["retransmitted_frames"], 0, "retransmissions: a later ACK covers it")
        check_equal(sent["timeouts"], 0, "timeouts")
    else:
        check_equal(sent["timeouts"], 1, "timeouts: nothing else tells of the loss")
        check(1 <= sent["retransmitted_frames"] <= SPACING, "not one probe", first)
        check(received["duplicates"] >= 1, "the responder saw no duplicate", received)


def test_lost_acks(rig):
    """All but the first: the probe is what leads to the first AckReq, and its answer covers all."""
    faults = ["drop-reply=%d" % n for n in range(2, ACKS + 1)]
    sent, received, first = send_around_loss(rig, *faults)
    check_equal(received["faults"]["dropped_replies"], ACKS - 1, "replies dropped")
    check_equal(sent["timeouts"], 1, "timeouts")
    check_equal(sent["retransmitted_frames"], SPACING, "retransmissions: the probe")
    check_equal(first[SPACING + 1:], [1] * (PACKETS - SPACING - 1), "packets behind the probe")


def test_lost_nak(rig):
    """The gap is NAKed once; when that is lost the ACK timer finds it."""
    sent, received, _ = send_around_loss(rig, "drop-frame=20", "drop-reply=3")
    check_equal(received["faults"]["dropped_replies"], 1, "replies dropped")
    check_equal(sent["timeouts"], 1, "timeouts")
    check(sent["retransmitted_frames"] <= 2 * 64, "more than two windows sent again", sent)


def test_lost_again(rig):
    """The first packet, and its first replay too."""
    sent, received, first = send_around_loss(rig, "drop-frame=1", "drop-frame=65")
    check_equal(received["faults"]["dropped"], 2, "frames dropped")
    check(sent["retransmitted_frames"] <= 2 * 64, "more than two windows sent again", sent)


@each(1, 2, 15, 16, 17, 40, 63, 64)
def test_lost_frame_in_small_window(rig, position):
    """At most the window is sent again, however long the message is."""
    sent, received, _ = send_around_loss(rig, "drop-frame=%d" % position, ring=16)
    check_equal(received["faults"]["dropped"], 1, "frames dropped")
    check(1 <= sent["retransmitted_frames"] <= 16, "not within one window", sent)


@each(2, 33, 50)
def test_reordered_frame(rig, position):
    """
    Those that overtake it are NAKed and discarded; when it comes itself, they are a second gap.
    """
    sent, received, _ = send_around_loss(rig, "reorder-frame=%d" % position)
    check_equal(received["faults"]["reordered"], 1, "frames reordered")
    check_equal(sent["timeouts"], 0, "timeouts")
    check(1 <= sent["naks"] <= 2, "not one NAK for each gap", sent)
    check(sent["retransmitted_frames"] <= 64 * sent["naks"], "more than a window for each", sent)


@each(1, 33, 64)
def test_duplicate_frame(rig, position):
    sent, received, _ = send_around_loss(rig, "duplicate-frame=%d" % position)
    check_equal(received["duplicates"], 1, "duplicates seen")
    check_equal(sent["retransmitted_frames"], 0, "retransmissions")


@each(1, 33, 63)
def test_corrupted_frame(rig, position):
    """A frame whose ICRC is wrong is as good as lost."""
    sent, received, first = send_around_loss(rig, "corrupt-frame=%d" % position)
    check_equal(received["faults"]["corrupted"], 1, "frames corrupted")
    check(first[position - 1] >= 2, "the corrupted packet was not sent again", first)
    check(sent["retransmitted_frames"] <= 64, "more than a window was sent again", sent)


@each(1, 2, ACKS)
def test_corrupted_ack(rig, position):
    sent, received, _ = send_around_loss(rig, "corrupt-reply=%d" % position)
    check_equal(received["faults"]["corrupted_replies"], 1, "replies corrupted")
    check_equal(sent["timeouts"], int(position in AWAITED), "timeouts")

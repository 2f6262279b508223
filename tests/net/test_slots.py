# SPDX-License-Identifier: BSD-2-Clause
"""Receivers that hold the sender back: slots, credits, RNR NAKs. No byte is overwritten."""
import os

from cases import each, limit
from rig import check, check_equal, payload, sentence

PMTU = 1024
SIZE = 3 * PMTU + 5  # First, two Middle, Last: three packets land before a receive is needed
MESSAGES = 60
RING = 64
CLOCK = 1e-6  # as exact as timestamps are
TIMERS = {1: 10e-6, 12: 640e-6}  # seconds


def send_messages(rig, *recv, count=MESSAGES, send=(), timeout=40):
    return rig.transfer(payload(SIZE * count, count), "--pmtu", PMTU, "--message-size", SIZE,
                        "--ring", RING, "--ack-timeout", "1s", *send, recv=recv,
                        timeout=timeout)


@each(*[(slots, credits) for slots in (2, 3) for credits in ("unlimited", "posted")])
def test_slow_reader(rig, slots, credits):
    """Every slot is in use most of the time: an overwritten one shows in the content."""
    sent, received = send_messages(rig, "--slots", slots, "--reader-delay", "3ms", "--credits",
                                   credits)
    check_equal(received["messages"], MESSAGES, "messages")
    if credits == "unlimited":
        check(received["rnr_naks"] > 0, "the reader never held the sender back", received)


@each(2, 3)
def test_reader_that_stalls_in_bad_weather(rig, slots):
    send_messages(rig, "--slots", slots, "--reader-delay", "2ms", "--faults",
                  "drop=2%,reorder=2%,duplicate=2%", "--seed", slots,
                  send=("--ack-timeout", "50ms"))


@each("unlimited", "posted", 0, 1, 2, 5, 30)
def test_credits(rig, credits):
    """Whatever credit the receiver claims, true or not, everything arrives."""
    sent, _ = send_messages(rig, "--credits", credits, count=30)
    check(sent["retransmitted_frames"] <= sent["rnr_naks"] * (RING + 1),
          "retransmissions without RNR NAKs", sent)


@limit(40)
@each(*[(timer, credits) for timer in (1, 12) for credits in ("unlimited", "posted")])
def test_rnr_storm(rig, timer, credits):
    """No receive for 20 ms after every second message; the timer asks to come back much sooner."""
    count = 20
    capture = rig.capture_roce()
    sent, received = send_messages(rig, "--faults", "withhold=20ms:2", "--rnr-timer", timer,
                                   "--credits", credits, count=count)
    check(received["faults"]["withheld"] >= count // 2 - 1, "receives were not withheld", received)
    check(sent["rnr_naks"] >= count // 2 - 1, "no storm", sent)
    # While it is refused only the refused packet goes out; once it is taken, those behind it.
    check(sent["retransmitted_frames"] <= received["rnr_naks"] + received["faults"]["withheld"] *
          RING, "packets behind a refused one were sent again and again", sent, received)
    check_equal(sent["timeouts"], 0, "timeouts: an RNR wait is no silence")
    check_waits(capture.frames(), TIMERS[timer])


def check_waits(frames, seconds):
    """A refused packet comes again, and not before the time that the responder asked for."""
    refused = {}
    # By time: a frame may reach the responder, and its answer us, before the frame itself does.
    for frame in sorted(frames, key=lambda frame: frame.time):
        if frame.is_ack and frame.syndrome >> 5 == 1:
            refused[frame.psn] = frame.time
        elif not frame.is_ack and frame.psn in refused:
            waited = frame.time - refused.pop(frame.psn)
            check(waited >= seconds - CLOCK, "PSN %d came again too early" % frame.psn, waited, seconds)
    check(not refused, "refused and never sent again", refused)


def test_waiting_costs_no_processor_time(rig):
    """Everything is handed over, and the receiver asks to come back in 655 ms, twice."""
    receiver = rig.recv("--faults", "withhold=1s:1", "--rnr-timer", 0)
    sender = rig.send("--pmtu", PMTU, "--message-size", SIZE,
                      rig.file("data.bin", payload(SIZE * 3)))
    before = os.times()
    sent, received = rig.finish(sender, receiver)
    after = os.times()
    check(sent["rnr_wait_ns"] > 1e9, "the receiver did not hold the sender back", sent)
    used = sum(after[2:4]) - sum(before[2:4])
    check(used < 0.5, "seconds of processor time that both ends used", used)


def test_rnr_without_end(rig):
    """rnr_retry counts, and its end is told with PSN, tries and syndrome."""
    receiver = rig.recv("--faults", "withhold=60s:1", "--rnr-timer", 12)
    sender = rig.send("--pmtu", PMTU, "--message-size", SIZE, "--rnr-retry", 2, "--start-psn", 16,
                      rig.file("data.bin", payload(SIZE * 4)))
    # Message 1 has PSN 16 to 19; the last packet of message 2, which needs a receive, has PSN 23.
    sentence(sender, "not ready for PSN 0x000017", r"\b3 times", "syndrome 0x2c")
    error = sender.sent()["error"]
    check_equal((error["psn"], error["tries"], error["syndrome"]), (23, 3, 0x2C), "error")
    sentence(receiver, "gave up")

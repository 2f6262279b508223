# SPDX-License-Identifier: BSD-2-Clause
"""Ends that die, stop or pause."""
import signal
import time

from cases import each
from rig import RX_IP, TX_IP, check, check_equal, payload, sentence
from wire import requests

PMTU = 1024


def start_endless(rig, *send, recv=()):
    """A stream that will not end by itself before the test does, and has begun."""
    capture = rig.capture_roce()
    receiver = rig.recv("--output", "/dev/null", "--reader-delay", "1ms", *recv)
    sender = rig.send("--pattern", "--messages", 1000000, "--message-size", "16KiB", "--pmtu", PMTU,
                      "--ring", 64, "--ack-timeout", "50ms", *send)
    capture.await_frames(lambda frames: len(requests(frames)) > 200, "a running stream")
    return sender, receiver


def check_told(sender):
    stream = sender.sent()
    error, rnr_naks = stream["error"], stream["rnr_naks"]
    sentence(sender, r"does not answer", r"PSN 0x%06x" % error["psn"],
             r"sent %d times" % error["tries"], r"syndrome 0x[0-9a-f]{2}")
    check(8 <= error["tries"] <= 8 + rnr_naks, "tries: once, seven more, and RNR NAKs", error)
    check("syndrome" in error, "no last syndrome", error)


def test_receiver_dies(rig):
    rig.allow_icmp_from(RX_IP)
    sender, receiver = start_endless(rig)
    receiver.kill()
    died = time.monotonic()
    check(sender.finish(10) > 0, "exit status of a sender whose receiver died", sender.stderr)
    check(time.monotonic() - died < 5, "the sender took too long to give up")
    check_told(sender)
    rig.check_no_program()
    rig.check_works()


def test_receiver_freezes(rig):
    """Its connection stays, its guard on UDP 4791 too: only the silence tells."""
    rig.allow_icmp_from(TX_IP)  # answers that come when the sender has ended
    sender, receiver = start_endless(rig)
    receiver.signal(signal.SIGSTOP)
    check(sender.finish(10) > 0, "exit status of a sender without answers", sender.stderr)
    check_told(sender)
    receiver.signal(signal.SIGCONT)
    sentence(receiver, "gave up", "does not answer")


def test_receiver_is_interrupted(rig):
    sender, receiver = start_endless(rig)
    receiver.signal(signal.SIGTERM)
    sentence(receiver, "interrupted")
    sentence(sender, "receiver 192.0.2.2 gave up: .*interrupted", timeout=2)


def test_receiver_cannot_write(rig):
    capture = rig.capture_roce()
    receiver = rig.recv("--output", "/dev/full")
    sender = rig.send("--pmtu", PMTU, rig.file("data.bin", payload(8 << 20)))
    sentence(sender, "receiver 192.0.2.2 gave up", "No space left")
    sentence(receiver, "cannot write the output: No space left")
    check(len(requests(capture.frames())) > 100, "nothing was sent")


@each("immediate", "while it drains")
def test_sender_is_killed(rig, when):
    rig.allow_icmp_from(TX_IP)
    sender, receiver = start_endless(rig)
    check(rig.xdp_program(), "no XDP program is attached while the stream runs")
    if when == "while it drains":
        sender.signal(signal.SIGTERM)
    sender.kill()
    rig.check_no_program()
    sentence(receiver, "closed the connection")
    rig.check_works()


@each("SIGINT", "SIGTERM", "SIGHUP")
def test_signal_drains(rig, name):
    """What was started is delivered, and both ends know how much that was."""
    sender, receiver = start_endless(rig)
    sender.signal(getattr(signal, name))
    sentence(sender, "stopped before its end; what was started is delivered", timeout=8)
    sentence(receiver, "gave up", "stopped")
    sent, received = sender.sent(), receiver.received()
    check_equal(sent["delivered"], False, "delivered")
    check(sent["messages"] > 0, "nothing was delivered", sent)
    check_equal(received["messages"], sent["messages"], "messages at the receiver")
    check_equal(received["bytes"], sent["bytes"], "bytes at the receiver")
    rig.check_works()


def start_stuck(rig):
    """In the middle of a message, and no more comes: a drain has to wait for it."""
    path, writer = rig.fifo("stuck.fifo")
    capture = rig.capture_roce()
    receiver = rig.recv()
    sender = rig.send("--pmtu", PMTU, "--message-size", "64KiB", "--size", "64KiB", path)
    writer.write(payload(20 * PMTU))
    capture.await_frames(lambda frames: len(requests(frames)) == 20, "half a message")
    return sender, receiver, writer


def test_second_signal_ends_at_once(rig):
    sender, receiver, _ = start_stuck(rig)
    sender.signal(signal.SIGINT)
    check(not sender.ends_within(0.5), "the first signal ended it in mid-message", sender.stderr)
    sender.signal(signal.SIGINT)
    start = time.monotonic()
    sentence(sender, "stopped: 0 of 1 messages")
    check(time.monotonic() - start < 1, "the second signal did not end it at once")
    sentence(receiver, "gave up")


def test_drain_ends_in_time(rig):
    sender, receiver, _ = start_stuck(rig)
    start = time.monotonic()
    sender.signal(signal.SIGTERM)
    sentence(sender, "stopped: 0 of 1 messages", timeout=10)
    took = time.monotonic() - start
    check(4 < took < 7, "drain_timeout is five seconds", took)
    sentence(receiver, "gave up")


def test_message_open_at_signal_is_finished(rig):
    sender, receiver, writer = start_stuck(rig)
    data = payload(64 << 10)
    sender.signal(signal.SIGTERM)
    writer.write(data[20 * PMTU:])
    # It was the stream's last message: nothing is missing, whatever the signal wanted.
    sender.finish(8)
    receiver.finish(8)
    rig.check_content(data)


@each(4, 16, 17, 40)
def test_source_pauses_in_mid_message(rig, packets):
    """Ten ACK timeouts in mid-message, packets unacknowledged: not a frame, not a retry."""
    ack_timeout = 0.1
    data = payload(64 << 10, packets)
    path, writer = rig.fifo("pause.fifo")
    capture = rig.capture_roce()
    receiver = rig.recv()
    sender = rig.send("--pmtu", PMTU, "--message-size", len(data), "--size", len(data),
                      "--ack-timeout", "100ms", path)
    cut = packets * PMTU + 100  # and a part of the next packet, which may not leave
    writer.write(data[:cut])
    capture.await_frames(lambda frames: len(requests(frames)) == packets, "the first part")
    time.sleep(10 * ack_timeout)  # this is the pause
    check_equal(len(requests(capture.frames())), packets, "frames sent before and in the pause")
    writer.write(data[cut:])
    writer.close()
    sent, _ = rig.finish(sender, receiver)
    rig.check_content(data)
    for counter in ("timeouts", "naks", "retransmitted_frames", "short_messages"):
        check_equal(sent[counter], 0, counter)
    check_equal(sent["frames"], 64, "frames")


def send_two(rig, fifo_options=()):
    path, writer = rig.fifo("A.fifo")
    data = payload(3 << 20, 11)
    receiver = rig.recv("--streams", 2, "--output", rig.make_directory("out"))
    sender = rig.send("--pmtu", PMTU, "--message-size", "64KiB", *fifo_options, path,
                      rig.file("B.bin", data))
    return writer, data, sender, receiver


@each("mid-message", "complete messages", "nothing")
def test_writer_that_stops(rig, how):
    """A stands still, B is delivered: told by the receiver while A still stands."""
    options = ("--size", "1MiB") if how == "mid-message" else ()
    first = b"" if how == "nothing" else payload(30000, 12)
    writer, data, sender, receiver = send_two(rig, options)
    writer.write(first)
    receiver.await_text("stdout", r'^\{"name":"B.bin".*"state":"complete"', timeout=10)
    rig.check_content(data, "out/B.bin")
    check(sender.running(), "the sender ended although A is not at its end", sender.stderr)
    rest = payload((1 << 20) - len(first), 13) if options else payload(5000, 13)
    writer.write(rest)
    writer.close()
    check_equal(sender.finish(20), 0, "exit status of the sender (%s)" % sender.stderr)
    check_equal(receiver.finish(20), 0, "exit status of the receiver (%s)" % receiver.stderr)
    rig.check_content(first + rest, "out/A.fifo")


def test_slow_source(rig):
    """A trickles for a second, as from a slow disk; B does not wait for it."""
    writer, data, sender, receiver = send_two(rig, ("--size", "40KiB"))
    trickle = payload(40 << 10, 14)
    for at in range(0, len(trickle), 1024):
        writer.write(trickle[at:at + 1024])
        time.sleep(0.025)  # this is how slow it is
    writer.close()
    check_equal(sender.finish(20), 0, "exit status of the sender (%s)" % sender.stderr)
    check_equal(receiver.finish(20), 0, "exit status of the receiver (%s)" % receiver.stderr)
    rig.check_content(data, "out/B.bin")
    rig.check_content(trickle, "out/A.fifo")
    seconds = {stream["name"]: stream["seconds"] for stream in receiver.json()}
    check(seconds["A.fifo"] > 0.9, "A was not slow", seconds)
    check(seconds["B.bin"] < seconds["A.fifo"] / 2, "B waited for A", seconds)


def test_source_that_ends_early(rig):
    """A message is declared, its source ends: filled with zeros, counted, and told as a failure."""
    path, writer = rig.fifo("short.fifo")
    capture = rig.capture_roce()
    receiver = rig.recv()
    sender = rig.send("--pmtu", PMTU, "--message-size", 10000, "--size", 10000, path)
    writer.write(payload(3333))
    capture.await_frames(lambda frames: len(requests(frames)) == 3, "what there is")
    writer.close()
    sentence(sender, "ended before the 10000 bytes that --size promised", "zeros")
    check_equal(sender.sent()["short_messages"], 1, "short messages")
    receiver.finish()
    rig.check_content(payload(3333) + bytes(6667))

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Loss, refusals, errors and crashes between `xdp2roce send` and soft-RoCE. Prints TAP; exit status
77 where no guest can run."""
import itertools
import json
import os
import re
import statistics
import sys

sys.dont_write_bytecode = True

from rxe import (HERE, Dropper, SecondSender, Session, comment, only, payload, rig,  # noqa: E402
                 wire)
from tap import cases, check, main  # noqa: E402

INVALID_REQUEST, ACCESS_ERROR = 0x61, 0x62
NEVER = 1e-6  # as exact as timestamps are
RNR_TIMERS = {0: 655.36e-3, 1: 10e-6, 12: 640e-6}  # seconds
SLOTS, PACKETS = 16, 8  # of the receiver, of a message
proxy_ports = itertools.count(18600)  # one is not free at once when its connection ends


# Loss on the path.

@cases(("data", 3, 0), ("acks", 0, 10), ("both", 2, 5), ("both", 10, 10))
def test_everything_arrives_despite_loss(guest, which, data, acks):
    """Many small messages have many acknowledgements; percent of each are lost."""
    with Session(guest) as session, Dropper(session, "tx1", data + 1, data), \
            Dropper(session, "tap0", acks + 2, acks):
        sent, _ = session.transfer([payload(200000, data + acks)], "--pmtu", 1024,
                                   "--message-size", 5000, "--ack-timeout", "200ms")
        stream = only(sent)
        check(stream["retransmitted_frames"] + stream["timeouts"] > 0 or not data, stream)
        comment("%d frames, %d retransmitted, %d NAKs, %d timeouts", stream["frames"],
                stream["retransmitted_frames"], stream["naks"], stream["timeouts"])


def test_one_long_message_despite_loss(guest):
    with Session(guest) as session, Dropper(session, "tx1", 7, 1), Dropper(session, "tap0", 8, 5):
        sent, _ = session.transfer([payload((1 << 20) + 3, 8)], "--pmtu", 1024, "--message-size",
                                   "2MiB", "--start-psn", 0xFFFF00, "--ack-timeout", "200ms")
        check(only(sent)["naks"] > 0, sent)


# A receiver that is not ready.

# An emulated guest wants all processors: this is about the sender's lateness, not the scheduler's.
AT_ONCE = ("chrt", "-f", "50")


@cases((0, 2, "50ms", 8), (12, 2, "60ms", 12), (1, 2, "60ms", 12), (12, 3, "60ms", 12))
def test_receiver_without_receives(guest, timer, slots, delay, count):
    """Never earlier than told, no storm, and the stalled reader gets every byte."""
    with Session(guest) as session:
        capture = session.capture()
        sent, _ = session.transfer(
            [payload(1000 * count, timer)], "--pmtu", 1024, "--message-size", 1000, "--ring", 16,
            recv=("--slots", slots, "--reader-delay", delay, "--rnr-timer", timer),
            prefix=AT_ONCE)
        stream = only(sent)
        waits = rnr_waits(capture.frames())
        check(len(waits) == stream["rnr_naks"] >= count - slots - 1, len(waits), stream)
        late = sorted(wait - RNR_TIMERS[timer] for wait in waits)
        comment("%d waits, late by %.0f us at least, %.0f us in the median, %.0f us at most",
                len(late), late[0] * 1e6, statistics.median(late) * 1e6, late[-1] * 1e6)
        check(late[0] >= -NEVER, late[:5])
        check(statistics.median(late) < 20e-3, late)
        # While it is refused, only the refused packet goes out; then those that were behind it.
        check(stream["retransmitted_frames"] <= stream["rnr_naks"] + count * 16, stream)
        check(stream["timeouts"] == 0, stream)


def rnr_waits(frames):
    """How long after each RNR NAK the refused packet came again."""
    refused, waits = {}, []
    for frame in frames:
        if frame.is_ack and frame.syndrome >> 5 == 1:
            refused[frame.psn] = frame.time
        elif not frame.is_ack and frame.psn in refused:
            waits.append(frame.time - refused.pop(frame.psn))
    check(not refused, "never sent again", refused)
    return waits


# Errors.

def send_through_proxy(session, changes, *send):
    """A receiver that stays, a proxy, and a sender that is told something else."""
    receiver = session.recv("--streams", "0", "--slots", SLOTS)
    port = next(proxy_ports)
    proxy = session.in_guest(os.path.join(HERE, "proxy.py"), port,
                             session.guest.ADDRESS + ":%d" % rig.PORT, json.dumps(changes))
    proxy.await_text("stdout", "ready", 30)
    return receiver, proxy, session.send(*send, to="%s:%d" % (session.guest.ADDRESS, port))


def failed_stream(sender, *patterns):
    """The sender ends with one sentence; what it says of its stream."""
    status = sender.finish(60)
    check(status == 1, status, sender.stderr)
    lines = sender.stderr.strip().splitlines()
    check(len(lines) == 1, *lines)
    for pattern in patterns:
        check(re.search(pattern, lines[0]), lines[0], pattern)
    comment("%s", lines[0])
    stream = sender.sent()
    check(not stream["delivered"] and stream["state"] == "error", stream)
    return stream


# What the proxy changes, the syndrome, and how many packets are taken before.
ERRORS = {
    "wrong rkey": ({"answer": {"rkey": "+1"}}, ACCESS_ERROR, 0),
    "address before the slots": ({"answer": {"address": "-8192"}}, ACCESS_ERROR, 0),
    # As if the slots began half their number later; few enough to draw no RNR NAK before.
    "address behind the slots": ({"answer": {"address": "+%d" % (SLOTS // 2 * PACKETS * 1024)}},
                                 ACCESS_ERROR, SLOTS // 2 * PACKETS),
    "larger PMTU": ({"offer": {"pmtu": 512}, "answer": {"pmtu": 1024}}, INVALID_REQUEST, 0),
    "smaller PMTU": ({"offer": {"pmtu": 2048}, "answer": {"pmtu": 1024}}, INVALID_REQUEST, 0),
}


@cases(*[(what,) for what in ERRORS])
def test_access_error(guest, what):
    changes, syndrome, packets = ERRORS[what]
    start = 0xFFFFFE
    psn = (start + packets) % wire.PSNS
    with Session(guest) as session:
        capture = session.capture()
        _, _, sender = send_through_proxy(
            session, changes, "--pmtu", 1024, "--start-psn", start, "--message-size",
            PACKETS * 1024, session.file("data", payload((SLOTS - 3) * PACKETS * 1024)))
        stream = failed_stream(sender, "syndrome 0x%02x" % syndrome, "PSN 0x%06x" % psn)
        error = stream["error"]
        check(error["syndrome"] == syndrome and error["tries"] == 1, error)
        check(stream["naks"] == 1, stream)
        naks = [frame for frame in wire.replies(capture.frames()) if frame.syndrome >= 0x60]
        check([(nak.psn, nak.syndrome) for nak in naks] == [(psn, syndrome)],
              *[(nak.psn, nak.syndrome) for nak in naks])
        check(stream["retransmitted_frames"] == 0, stream)


def test_queue_pair_that_is_gone(guest):
    """The receiver is killed, and nobody tells the sender, who had nothing in flight."""
    with Session(guest) as session:
        capture = session.capture()
        path, feed = session.fifo("feed")
        receiver, _, sender = send_through_proxy(session, {}, "--message-size", 512, "--retry", 2,
                                                 "--ack-timeout", "500ms", path)
        feed.write(payload(3 * 512))
        capture.await_frames(lambda frames: len(wire.replies(frames)) >= 3, "acknowledgements", 30)
        psn = wire.requests(capture.frames())[-1].psn + 1 & wire.PSNS - 1
        session.kill_in_guest()
        receiver.finish(30)
        feed.write(payload(512))
        stream = failed_stream(sender, "does not answer", "PSN 0x%06x was sent 3 times" % psn)
        check(stream["error"]["tries"] == stream["timeouts"] == 3, stream)
        check(stream["messages"] == 3, stream)
        check(wire.transmissions(capture.frames())[psn] == 3, psn)


def test_receiver_that_is_killed(guest):
    """In the middle of it all; its end of the connection goes with it."""
    with Session(guest) as session:
        capture = session.capture()
        receiver = session.recv("--streams", "0", "--slots", "2", "--reader-delay", "100ms")
        sender = session.send("--pattern", "--messages", 100000, "--message-size", 8192,
                              "--retry", 1)
        capture.await_frames(lambda frames: len(frames) > 10, "traffic", 30)
        session.kill_in_guest()
        receiver.finish(30)
        check(failed_stream(sender, "does not answer")["timeouts"] == 2)


# Reconnection.

@cases(("sender",), ("receiver",))
def test_four_connections_in_a_row(guest, killed):
    """Each is ended by kill -9 in the middle, and the next one works at once."""
    psns, qpns = (0, 0xFFFFFD, 0x7FFFFF, 5), []
    with Session(guest) as session:
        receiver = None
        for psn in psns:
            receiver = receiver or session.recv("--streams", "0", "--slots", "2", "--reader-delay",
                                                "20ms")
            capture = session.capture()
            sender = session.send("--pattern", "--messages", 100000, "--message-size", 3000,
                                  "--start-psn", psn, "--retry", 1)
            capture.await_frames(lambda frames: len(frames) > 20, "traffic", 30)
            first = wire.requests(capture.frames())[0]
            answer = wire.replies(capture.frames())[0]
            check(first.psn == psn, first.psn, psn)
            qpns.append((first.data[47:50], answer.data[47:50]))
            if killed == "sender":
                sender.kill()
            else:
                session.kill_in_guest()
                receiver.finish(30)
                receiver = None
                check(sender.finish(60) == 1, sender.stderr)
        for end in zip(*qpns):
            check(len(set(end)) == len(psns), end)
        if receiver:
            session.end(receiver)
        session.transfer([payload(30000, 4)], "--start-psn", 0)


# Many senders.

def test_two_senders_with_four_streams_each(guest):
    with Session(guest) as session, SecondSender(guest) as second:
        contents = {"%s-%d" % (who, number): payload(60000 + number, number)
                    for who in ("one", "two") for number in range(4)}
        files = {name: session.file(name, data) for name, data in contents.items()}
        receiver = session.recv("--streams", "8")
        senders = [session.send("--message-size", 7000, *[files[name] for name in contents
                                                          if name.startswith(who)],
                                namespace=namespace)
                   for who, namespace in (("one", None), ("two", second.namespace))]
        for sender in senders:
            check(sender.finish(60) == 0, sender.stderr)
        check(receiver.finish(60) == 0, receiver.stderr)
        received = receiver.json()
        check([stream["state"] for stream in received] == ["complete"] * 8, received)
        check(len({stream["peer"].split(":")[0] for stream in received}) == 2, received)
        session.check_contents(contents)


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))

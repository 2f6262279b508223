#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What arrives in the memory of soft-RoCE: every opcode, PMTU and size, RC and UC. Prints TAP; exit
status 77 where no guest can run."""
import sys

sys.dont_write_bytecode = True

from rxe import Dropper, Session, comment, only, opcodes, payload, wire  # noqa: E402
from tap import cases, check, main  # noqa: E402

PMTUS = (256, 512, 1024, 2048, 4096)
PLAIN = {wire.WRITE_ONLY, wire.WRITE_FIRST, wire.WRITE_MIDDLE, wire.WRITE_LAST}
WITH_IMMEDIATE = {wire.WRITE_ONLY_IMM, wire.WRITE_FIRST, wire.WRITE_MIDDLE, wire.WRITE_LAST_IMM}
UC = 0x20
WHOLE = ("--transport", "uc", "--segmentation", "message")


def sizes(pmtu):
    return [payload(size, pmtu + size) for size in
            (0, 1, pmtu - 1, pmtu, pmtu + 1, 2 * pmtu, 3 * pmtu + 5)]


@cases(*[(pmtu, immediate) for pmtu in PMTUS for immediate in ("on", "off")])
def test_every_size_and_opcode(guest, pmtu, immediate):
    """Every size is a stream of one message."""
    with Session(guest) as session:
        capture = session.capture()
        sent, _ = session.transfer(sizes(pmtu), "--pmtu", pmtu, "--immediate", immediate,
                                   "--message-size", "64KiB")
        check(all(stream["messages"] == 1 for stream in sent.values()), sent)
        found = opcodes(capture.frames())
        check(found == (WITH_IMMEDIATE if immediate == "on" else PLAIN), found)


@cases((1024,), (4096,))
def test_one_message_of_4_MiB_and_3(guest, pmtu):
    with Session(guest) as session:
        sent, received = session.transfer([payload((4 << 20) + 3, pmtu)], "--pmtu", pmtu,
                                          "--message-size", (4 << 20) + 3, recv=("--slots", 2))
        stream = only(sent)
        check(stream["messages"] == 1, stream)
        comment("%d frames, %d of them retransmitted, %.1f s", stream["frames"],
                stream["retransmitted_frames"], only(received)["seconds"])


@cases((0xFFFFF0, 1), (0xFFFFFF, 1), (0xFFFFFE, 3))
def test_psn_wraps(guest, psn, packets):
    pmtu = 512
    with Session(guest) as session:
        capture = session.capture()
        sent, _ = session.transfer([payload(40 * pmtu * packets - 7, psn)], "--pmtu", pmtu,
                                   "--message-size", pmtu * packets, "--start-psn", psn)
        check(only(sent)["una_psn"] == psn + 40 * packets - wire.PSNS, sent)
        found = wire.transmissions(capture.frames())
        check(next(iter(found)) == psn and 0 in found, list(found)[:20])


def test_many_messages_of_many_packets(guest):
    """The last message is short, and slots are used again."""
    with Session(guest) as session:
        sent, received = session.transfer([payload(300001, 3)], "--message-size", 7001, "--pmtu",
                                          1024, recv=("--slots", 4))
        check(only(received)["messages"] == 43, received)


@cases(*[(pmtu,) for pmtu in PMTUS])
def test_uc_messages_of_many_packets(guest, pmtu):
    """On a clean path, and slowly enough for the guest: UC does not wait for anybody."""
    with Session(guest) as session:
        capture = session.capture()
        session.transfer(sizes(pmtu), *WHOLE, "--pmtu", pmtu, "--message-size",
                         "64KiB")
        found = opcodes(capture.frames())
        check(found == {opcode | UC for opcode in WITH_IMMEDIATE}, found)
        check(not wire.replies(capture.frames()), "an answer to UC")


@cases((256,), (1024,), (4096,))
def test_uc_writes_of_one_packet(guest, pmtu):
    """How UC sends unless told otherwise."""
    with Session(guest) as session:
        capture = session.capture()
        session.transfer(sizes(pmtu), "--transport", "uc", "--pmtu", pmtu, "--message-size",
                         "64KiB")
        found = opcodes(capture.frames())
        check(found == {UC | wire.WRITE_ONLY, UC | wire.WRITE_ONLY_IMM}, found)


@cases((10,), (30,))
def test_uc_messages_of_one_packet_under_loss(guest, percent):
    """Nobody repairs it. What arrived is whole, in order and counted; what was lost is counted."""
    arrived, lost = lossy_uc(guest, 1024, percent)
    check(arrived > 100 * (100 - 2 * percent) // 100 and lost > 0, arrived, lost)


def test_uc_messages_of_many_packets_under_loss(guest):
    """Soft-RoCE takes nothing more after a Middle or Last was lost, a defect of its own
    (README.md). What arrived before is right, and the rest is missed."""
    lossy_uc(guest, 3 * 1024, 2)


def lossy_uc(guest, size, percent, count=100):
    data = payload(size * count, percent)
    with Session(guest) as session, Dropper(session, "tx1", 1, percent):
        receiver = session.recv("--slots", 256)
        sender = session.send(*WHOLE, "--pmtu", 1024, "--message-size", size,
                              session.file("lossy", data))
        sender_status, receiver_status = sender.finish(60), receiver.finish(60)
        check(sender_status == 1 and receiver_status == 1, sender.stderr, receiver.stderr)
        received = receiver.received()
        arrived, lost = received["messages"], received["lost_messages"]
        comment("%d of %d messages arrived, with %d %% of packets lost", arrived, count, percent)
        # What was lost after the last one that arrived leaves no gap.
        check(arrived < count and arrived + lost <= count, received)
        check(received["bytes"] == arrived * size, received)
        check_subsequence(data, session.read("lossy"), size, arrived)
        return arrived, lost


def check_subsequence(data, found, size, count):
    """found consists of count of the messages of data, in their order."""
    check(len(found) == count * size, len(found))
    messages = iter(data[i:i + size] for i in range(0, len(data), size))
    for n in range(0, len(found), size):
        check(found[n:n + size] in messages, "message %d that arrived is not one that follows" %
              (n // size))


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))

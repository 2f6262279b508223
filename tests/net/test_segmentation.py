# SPDX-License-Identifier: BSD-2-Clause
"""Packet mode and the record, from end to end, over RC and UC."""
import struct
import time

from cases import each
from rig import check, check_equal, payload, sentence
from test_bad_input import Peer, answer, finish_clean
from wire import WRITE_ONLY, WRITE_ONLY_IMM, requests

PMTU = 1024
RECORD = struct.Struct("<4sHHIIQQQQ16s")
UC = 0x20


def crc32c(data):
    """By its polynomial, a byte at a time."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def send_sizes(rig, size, count, *options, recv=()):
    """A size of 0 needs the pattern: a file that is empty is one message, and no more."""
    options = ("--pmtu", PMTU, "--message-size", size, *options)
    if size:
        return rig.transfer(payload(size * count, size), *options, recv=recv)
    receiver = rig.recv(*recv)
    result = rig.finish(rig.send("--pattern", "--messages", count, *options), receiver)
    rig.check_content(b"")
    return result


@each(*[(transport, segmentation, record, size)
        for transport, segmentation, record in (
            ("rc", "message", "on"), ("rc", "packet", "off"), ("rc", "packet", "on"),
            ("uc", "message", "off"), ("uc", "message", "on"), ("uc", "packet", "on"))
        for size in (0, 1, PMTU, PMTU + 1, 100000)])
def test_size(rig, transport, segmentation, record, size):
    count = 7
    capture = rig.capture_roce()
    sent, received = send_sizes(rig, size, count, "--transport", transport, "--segmentation",
                                segmentation, "--record", record)
    check_equal((received["transport"], received["segmentation"], received["record"]),
                (transport, segmentation, record == "on"), "what the receiver tells")
    check_equal(received["messages"], count, "messages")
    packets = -(-size // PMTU) if record == "on" else max(1, -(-size // PMTU))
    check_equal(sent["frames"] - sent["retransmitted_frames"],
                count * (packets + (record == "on")), "packets")
    for counter in ("lost_messages", "overruns", "bad_records", "bad_frames"):
        check_equal(received[counter], 0, counter)
    if segmentation == "packet":
        check({frame.opcode & 0x1F for frame in requests(capture.frames())} <=
              {WRITE_ONLY, WRITE_ONLY_IMM}, "another opcode than Write Only in packet mode")


def test_uc_by_default(rig):
    _, received = rig.transfer(payload(100001), "--transport", "uc")
    check_equal((received["segmentation"], received["record"]), ("packet", True), "defaults of UC")


def test_what_the_record_says(rig):
    """Read off the wire by the contract alone."""
    data = payload(5 * 3000 + 1234, 3)
    capture = rig.capture_roce()
    before = time.clock_gettime_ns(time.CLOCK_TAI)
    rig.transfer(data, "--pmtu", PMTU, "--message-size", 3000, "--record", "on")
    after = time.clock_gettime_ns(time.CLOCK_TAI)
    records = [frame.payload for frame in requests(capture.frames())
               if frame.opcode == WRITE_ONLY_IMM]
    check_equal(len(records), 6, "records")
    for number, raw in enumerate(records):
        magic, version, flags, stream, crc, message, tai, length, missing, rest = \
            RECORD.unpack(raw)
        message_bytes = data[number * 3000:(number + 1) * 3000]
        check_equal((magic, version, flags, stream, message, length, missing, rest),
                    (b"X2CR", 1, 0, 0, number, len(message_bytes), 0, bytes(16)), "record")
        check_equal(crc, crc32c(message_bytes), "CRC-32C")
        check(before <= tai <= after, "time is not TAI", before, tai, after)
        before = tai


@each("message", "packet")
def test_rc_with_loss(rig, segmentation):
    _, received = rig.transfer(
        payload(1000001, 5), "--pmtu", PMTU, "--message-size", 40000, "--ack-timeout", "50ms",
        "--segmentation", segmentation, "--record", "on",
        recv=("--slots", 3, "--seed", 5, "--faults", "drop=2%,reorder=1%,corrupt=1%,duplicate=1%"))
    check(received["faults"]["dropped"] > 5, "hardly a frame was lost", received)


def test_rc_slow_reader(rig):
    """Receives are for messages, and not for packets: nothing is overwritten."""
    rig.transfer(payload(40 * 5000, 6), "--pmtu", PMTU, "--message-size", 5000, "--segmentation",
                 "packet", "--record", "on", recv=("--slots", 2, "--reader-delay", "3ms"))


def delivered(rig, data, size):
    """The numbers of the messages that were written out; all else in the output is a failure."""
    messages = [data[at:at + size] for at in range(0, len(data), size)]
    number_of = {message: number for number, message in enumerate(messages)}
    output, numbers = rig.read("received"), []
    check_equal(len(output) % size, 0, "bytes behind the last whole message")
    for at in range(0, len(output), size):
        check(output[at:at + size] in number_of, "a message that was never sent", at // size)
        numbers.append(number_of[output[at:at + size]])
    check(numbers == sorted(set(numbers)), "messages are not in order, each once", numbers)
    return numbers


def write_slowly(writer, data, size):
    """So that a reader keeps up: UC does not wait for it."""
    for at in range(0, len(data), size):
        writer.write(data[at:at + size])
        time.sleep(0.002)
    writer.close()


def send_lossy(rig, data, size, *options, recv=(), slowly=False):
    receiver = rig.recv(*recv)
    if slowly:
        path, writer = rig.fifo("data.fifo")
    else:
        path = rig.file("data.bin", data)
    sender = rig.send("--pmtu", PMTU, "--message-size", size, "--transport", "uc", *options, path)
    if slowly:
        write_slowly(writer, data, size)
    sentence(sender, "the receiver counted")
    sentence(receiver, "the sender sent %d messages" % (len(data) // size), "lost")
    received, numbers = receiver.received(), delivered(rig, data, size)
    check_equal(received["messages"], len(numbers), "messages")
    check_equal(received["bytes"], len(numbers) * size, "bytes")
    check_equal(received["messages"] + received["lost_messages"] + received["overruns"],
                len(data) // size, "messages right, lost and overrun together")
    check_equal(received["bad_records"], 0, "bad records")
    return received, numbers


@each("message", "packet")
def test_uc_with_loss(rig, segmentation):
    """What is delivered is right, whatever was lost; slots are used many times."""
    received, numbers = send_lossy(
        rig, payload(200 * 5000, 7), 5000, "--segmentation", segmentation, "--record", "on",
        recv=("--slots", 64, "--seed", 7, "--faults", "drop=2%,reorder=1%,duplicate=1%"),
        slowly=True)
    check(received["faults"]["dropped"] > 5, "hardly a frame was lost", received)
    check(len(numbers) > 50, "hardly a message came through", received)


@each(*{"first payload": 1, "last payload": 3, "record": 4, "last record": 20}.items())
def test_uc_loses_one(rig, name, position):
    """3 packets and a record each."""
    data = payload(5 * 3000, 8)
    received, numbers = send_lossy(rig, data, 3000, recv=("--faults", "drop-frame=%d" % position))
    check_equal(received["lost_messages"], 1, "lost messages")
    check_equal(numbers, [n for n in range(5) if n != (position - 1) // 4], "messages delivered")


def test_uc_slow_reader(rig):
    """Slots are overwritten while they are read: what is not right is left out."""
    send_lossy(rig, payload(300 * 5000, 9), 5000,
               recv=("--slots", 4, "--reader-delay", "2ms"))


@each(("rc", "message"), ("rc", "packet"), ("uc", "packet"))
def test_record_without_immediates(rig, transport, segmentation):
    capture = rig.capture_roce()
    data = payload(9 * 5000 + 123, 10)
    _, received = rig.transfer(data, "--transport", transport, "--segmentation", segmentation,
                               "--record", "on", "--immediate", "off", "--message-size", 5000,
                               "--pmtu", PMTU, recv=("--slots", 10))
    check_equal(received["messages"], 10, "messages")
    check(all(frame.opcode & 0x1F not in (9, 11) for frame in capture.frames()), "an immediate")


def test_uc_without_immediates_loses_one(rig):
    received, _ = send_lossy(rig, payload(5 * 3000, 11), 3000, "--immediate", "off",
                             recv=("--faults", "drop-frame=8"))
    check_equal(received["lost_messages"], 1, "lost messages")


def test_packet_mode_without_record_or_immediates(rig):
    rig.transfer(payload(6 * 5000, 12), "--segmentation", "packet", "--immediate", "off",
                 "--message-size", 5000, "--pmtu", PMTU)


# Sources.

@each(("message", "ended before the 10000 bytes that --size promised"),
      ("packet", "ended after 3333 of the 10000 bytes that --size promised"))
def test_source_that_ends_early(rig, segmentation, told):
    """The record tells what there was: no zeros in the output."""
    path, writer = rig.fifo("short.fifo")
    capture = rig.capture_roce()
    receiver = rig.recv()
    sender = rig.send("--pmtu", PMTU, "--message-size", 10000, "--size", 10000, "--record", "on",
                      "--segmentation", segmentation, path)
    writer.write(payload(3333))
    capture.await_frames(lambda frames: len(requests(frames)) == 3, "what there is")
    writer.close()
    sentence(sender, told)
    receiver.finish()
    rig.check_content(payload(3333))
    check_equal(receiver.received()["messages"], 1, "messages")


@each("whole", "cut")
def test_fifo_of_unknown_length(rig, end):
    """Packets leave before the end is known."""
    data = payload(3 * 10000 if end == "whole" else 25000, 13)
    path, writer = rig.fifo("open.fifo")
    capture = rig.capture_roce()
    receiver = rig.recv()
    sender = rig.send("--pmtu", PMTU, "--message-size", 10000, "--record", "on",
                      "--segmentation", "packet", path)
    writer.write(data[:2 * PMTU + 1])
    capture.await_frames(lambda frames: len(requests(frames)) == 2, "two packets")
    writer.write(data[2 * PMTU + 1:])
    writer.close()
    _, received = rig.finish(sender, receiver)
    check_equal(received["messages"], 3, "messages")
    rig.check_content(data)


# What is refused.

@each("a file", "a FIFO")
def test_packet_mode_needs_one_size(rig, what):
    if what == "a FIFO":
        path, _ = rig.fifo("data.fifo")
    else:
        path = rig.file("data.bin", payload(100001))
    sender = rig.send("--segmentation", "packet", "--message-size", 10000, path)
    sentence(sender, "messages of one size", "--record on")


def test_uc_packet_mode_needs_a_record(rig):
    receiver = rig.recv()
    sender = rig.send("--transport", "uc", "--segmentation", "packet", "--record", "off",
                      "--message-size", 10000, rig.file("data.bin", payload(10000)))
    sentence(sender, "refused", "lost packets nor overruns", "--record on")
    receiver.kill()


def test_answer_must_leave_room_for_the_record(rig):
    speech = answer(slot_size=20000)
    peer = Peer(rig, lambda connection: (connection.sendall(speech), connection.recv(65536)))
    finish_clean(rig, rig.send("--record", "on", "--message-size", 20000,
                               rig.file("data.bin", payload(20000))),
                 "20000 bytes and their records of 64 do not fit the receiver's slots of 20000",
                 "--message-size 19936")
    peer.close()


def test_slot_must_hold_the_record(rig):
    receiver = rig.recv("--slot-size", 4096)
    path = rig.file("data.bin", payload(20000))
    sentence(rig.send("--message-size", 4033, "--record", "on", path), "refused",
             "4033 bytes and their records of 64 do not fit", "4096", "--slot-size")
    rig.finish(rig.send("--message-size", 4032, "--record", "on", path), receiver)
    rig.check_content(payload(20000))

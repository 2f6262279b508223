#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`xdp2roce recv --soft` against a sender written here: raw sockets, zlib and go-back-N, nothing of ours.

Usage: recv_soft.py COMMAND…   (such as build/xdp2roce recv), as root. Makes two network namespaces with a
veth pair, and removes them. Exit 0 when every case passes, 77 when namespaces cannot be made.
"""
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib

COMMAND = sys.argv[1:]
A, B = f"softa{os.getpid()}", f"softb{os.getpid()}"
MAC_A, MAC_B = bytes.fromhex("02000000000a"), bytes.fromhex("02000000000b")
PORT = 18515
ADDRESS = {4: ("192.0.2.1", "192.0.2.2"), 6: ("fd00::1", "fd00::2")}


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


def make_network():
    if os.geteuid() or subprocess.run(["ip", "netns", "add", A], capture_output=True).returncode:
        print("skipped: network namespaces cannot be made here")
        sys.exit(77)
    ip("netns", "add", B)
    ip("link", "add", "veth0", "netns", A, "address", "02:00:00:00:00:0a", "mtu", "4300", "type", "veth",
       "peer", "name", "veth0", "netns", B, "address", "02:00:00:00:00:0b", "mtu", "4300")
    for space, n in ((A, 0), (B, 1)):
        ip("-n", space, "addr", "add", ADDRESS[4][n] + "/24", "dev", "veth0")
        ip("-n", space, "addr", "add", ADDRESS[6][n] + "/64", "dev", "veth0", "nodad")
        ip("-n", space, "link", "set", "lo", "up")
        ip("-n", space, "link", "set", "veth0", "up")


def enter(space):
    with open(f"/run/netns/{space}") as file:
        os.setns(file.fileno(), os.CLONE_NEWNET)


def packed(address):
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def icrc(packet):
    six = packet[0] >> 4 == 6
    header = 40 if six else 20
    masked = bytearray(packet)
    if six:
        masked[0] |= 0x0F
        masked[1:4] = b"\xff" * 3
        masked[7] = 0xFF
    else:
        masked[1] = masked[8] = masked[10] = masked[11] = 0xFF
    masked[header + 6] = masked[header + 7] = masked[header + 12] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + masked))


def checksum(header):
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class Sender:
    """One stream: the TCP exchange, and frames over a packet socket."""

    def __init__(self, version=4, pmtu=1024, uc=False, immediate=True, message_size=65536, vlan=None, segmentation="message", record=False,
                 name="stream.bin", psn=0xFFFFF0):
        self.version, self.pmtu, self.uc, self.immediate = version, pmtu, uc, immediate
        self.vlan, self.psn, self.number = vlan, psn, 0
        self.packet_mode, self.record = segmentation == "packet", record
        self.source, self.destination = ADDRESS[version]
        self.qpn = random.randrange(2, 1 << 24)
        self.packets = []  # (opcode, headers and payload, AckReq)
        self.naks = self.rnrs = self.timeouts = 0
        self.frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.frames.bind(("veth0", 0))
        self.control = socket.create_connection((self.destination, PORT), timeout=10)
        self.reader = self.control.makefile("r")
        self.say(offer={"name": name, "ip": self.source, "qpn": self.qpn, "psn": psn,
                        "transport": "uc" if uc else "rc", "immediate": immediate,
                        "segmentation": segmentation, "record": record, "pmtu": pmtu,
                        "message_size": message_size})
        self.answer = self.hear("answer")

    def say(self, **message):
        self.control.sendall(json.dumps({"xdp2roce": 1, **message}).encode() + b"\n")

    def hear(self, kind):
        line = self.reader.readline()
        message = json.loads(line) if line else {"error": "closed"}
        if kind not in message:
            raise ConnectionError(message["error"])
        return message[kind]

    def add_write(self, offset, payload, immediate):
        """One RDMA Write to this place in the message's slot."""
        slot = self.number % self.answer["slot_count"]
        reth = struct.pack(">QII", self.answer["address"] + slot * self.answer["slot_size"] + offset,
                           self.answer["rkey"], len(payload))
        parts = [payload[i:i + self.pmtu] for i in range(0, len(payload), self.pmtu)] or [b""]
        for i, part in enumerate(parts):
            first, last = i == 0, i == len(parts) - 1
            tells = last and immediate
            opcode = (0x0A if last else 0x06) if first else (0x08 if last else 0x07)
            body = (reth if first else b"") + (struct.pack(">I", self.number & 0xFFFFFFFF) if tells else b"")
            self.packets.append((opcode + tells, body, part, last or i % 8 == 7))

    def add_message(self, payload, **lies):
        """lies: other values for fields of the record."""
        step = self.pmtu if self.packet_mode else max(len(payload), 1)
        starts = range(0, len(payload), step) or ([] if self.record else [0])
        for at in starts:
            end = at + step >= len(payload)
            self.add_write(at, payload[at:at + step], self.immediate and end and not self.record)
        if self.record:
            fields = {"magic": b"X2CR", "version": 1, "flags": 0, "stream": 0, "crc": crc32c(payload),
                      "message": self.number, "tai": 0, "length": len(payload), "missing": 0} | lies
            self.add_write(self.answer["slot_size"] - 64,
                           struct.pack("<4sHHIIQQQQ16x", *fields.values()), self.immediate)
        self.number += 1

    def frame(self, index):
        opcode, headers, payload, ackreq = self.packets[index]
        pad = -len(payload) & 3
        bth = struct.pack(">BBHII", opcode | (0x20 if self.uc else 0), 0x40 | pad << 4, 0xFFFF,
                          self.answer["qpn"],
                          (0x80000000 if ackreq and not self.uc else 0) | (self.psn + index) & 0xFFFFFF)
        udp = struct.pack(">HHHH", 0xC123, 4791, 8 + len(bth) + len(headers) + len(payload) + pad + 4, 0)
        rest = udp + bth + headers + payload + bytes(pad)
        if self.version == 6:
            header = struct.pack(">IHBB", 0x60000000, len(rest) + 4, 17, 64) + packed(self.source) + \
                packed(self.destination)
        else:
            header = struct.pack(">BBHHHBBH", 0x45, 0, 24 + len(rest), 0, 0x4000, 64, 17, 0) + \
                packed(self.source) + packed(self.destination)
            header = header[:10] + struct.pack(">H", checksum(header)) + header[12:]
        tag = struct.pack(">HH", 0x8100, self.vlan) if self.vlan is not None else b""
        kind = b"\x86\xdd" if self.version == 6 else b"\x08\x00"
        return MAC_B + MAC_A + tag + kind + header + rest + icrc(header + rest)

    def replies(self, timeout):
        """(syndrome, PSN) of good replies; the kernel shows the VLAN tag beside the frame."""
        if not select.select([self.frames], [], [], timeout)[0]:
            return
        while select.select([self.frames], [], [], 0)[0]:
            data, auxiliary, _, address = self.frames.recvmsg(5000, 64)
            if address[2] == socket.PACKET_OUTGOING or data[12:14] not in (b"\x08\x00", b"\x86\xdd"):
                continue
            at = 14 + (40 if data[12] == 0x86 else 20)
            packet = data[14:]
            protocol = packet[6] if data[12] == 0x86 else packet[9]
            if protocol == 1 or (protocol == 58 and packet[40] == 1):
                raise AssertionError("ICMP on the wire")
            if protocol != 17 or data[at + 2:at + 4] != b"\x12\xb7":
                continue
            if struct.unpack(">I", b"\0" + data[at + 13:at + 16])[0] != self.qpn:
                continue
            if icrc(packet[:-4]) != packet[-4:]:
                continue
            yield data[at + 20], struct.unpack(">I", b"\0" + data[at + 17:at + 20])[0]

    def index(self, psn, una):
        ahead = (psn - self.psn - una) & 0xFFFFFF
        return una + (ahead - (1 << 24) if ahead >> 23 else ahead)

    def run(self, window=64, timeout=0.05, tries=100):
        una = next_index = 0
        deadline = time.monotonic() + timeout
        while una < len(self.packets):
            while next_index < len(self.packets) and next_index < una + window:
                self.frames.send(self.frame(next_index))
                next_index += 1
            heard = False
            for syndrome, psn in self.replies(max(deadline - time.monotonic(), 0)):
                index = self.index(psn, una)
                if syndrome < 0x20 and una <= index < len(self.packets):
                    una, heard = index + 1, True
                elif syndrome & 0xE0 == 0x20 and index >= una:
                    una = next_index = index
                    self.rnrs += 1
                    heard = True
                    time.sleep(0.001)
                elif syndrome == 0x60 and index >= una:
                    una = next_index = index
                    self.naks += 1
                    heard = True
                elif syndrome > 0x60:
                    raise ConnectionError(f"NAK {syndrome:#x}")
            next_index = max(next_index, una)
            if heard:
                deadline = time.monotonic() + timeout
            elif time.monotonic() >= deadline:
                deadline = time.monotonic() + timeout
                self.timeouts += 1
                assert self.timeouts < tries, f"no answer, {una} of {len(self.packets)} acknowledged"
                next_index = una

    def run_uc(self, lose=()):
        for index in range(len(self.packets)):
            if index not in lose:
                self.frames.send(self.frame(index))

    def finish(self, messages, size):
        self.say(done={"messages": messages, "bytes": size})
        return self.hear("received")

    def close(self):
        self.reader.close()
        self.control.close()
        self.frames.close()


RUNNING = []


class Receiver:
    def __init__(self, *options, listen=True):
        self.process = subprocess.Popen(
            [*COMMAND, "--soft", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: enter(B))
        RUNNING.append(self.process)
        self.errors = ""
        while listen:
            line = self.process.stderr.readline()
            self.errors += line
            if line.startswith("listening on"):
                break
            assert line, f"it did not start: {self.errors}"

    def end(self, expect=0, timeout=10):
        try:
            output, errors = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("the receiver did not exit")
        self.errors += errors
        assert (self.process.returncode == 0) == (expect == 0), \
            f"exit status {self.process.returncode}: {self.errors}"
        return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def payloads(*sizes, seed=1):
    generator = random.Random(seed)
    return [generator.randbytes(size) for size in sizes]


def transfer(messages, options=(), expect=0, directory=None, **sender_options):
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "out")
        receiver = Receiver("--json", "--output", path, "--timeout", "30s", *options)
        sender = Sender(message_size=max(map(len, messages)), **sender_options)
        try:
            for message in messages:
                sender.add_message(message)
            sender.run()
            size = sum(map(len, messages))
            received = sender.finish(len(messages), size)
            assert received == {"messages": len(messages), "bytes": size}, received
            report, = receiver.end(expect)
            with open(path, "rb") as file:
                assert file.read() == b"".join(messages), "the payload differs"
        finally:
            sender.close()
            receiver.process.kill()
        assert report["ring_drops"] == 0 and report["send_errors"] == 0, report
        return sender, report


SIZES = (0, 1, 1023, 1024, 1025, 2048, 65536, 5, 4099, 0)


def case_clean():
    for pmtu in (256, 1024, 4096):
        sender, report = transfer(payloads(*SIZES), pmtu=pmtu)
        assert report["state"] == "complete" and report["frames"] == len(sender.packets), report
        assert report["naks"] == report["duplicates"] == report["bad_icrc"] == 0, report
        assert sender.naks == sender.timeouts == 0


def case_ipv6():
    transfer(payloads(*SIZES), version=6, pmtu=4096)


def case_vlan():
    transfer(payloads(*SIZES), vlan=0x6000)  # priority only: the namespace has no VLAN interface


def case_more_messages_than_slots():
    transfer(payloads(*[3000] * 100), ("--slots", "4"))


def case_credits():
    transfer(payloads(*[3000] * 20), ("--credits", "posted"))
    transfer(payloads(*[3000] * 20), ("--credits", "30"))


def case_two_slots_and_a_slow_reader():
    sender, report = transfer(payloads(*[5000] * 20), ("--slots", "2", "--reader-delay", "5ms"))
    assert report["rnr_naks"] > 0 and sender.rnrs > 0, report


def case_withheld_receives():
    sender, report = transfer(payloads(*[3000] * 20), ("--faults", "withhold=10ms:4"))
    assert report["faults"]["withheld"] == 5 and report["rnr_naks"] >= 4, report


def case_exact_faults():
    sender, report = transfer(payloads(*[1000] * 20), ("--faults", "drop-frame=3,corrupt-frame=30"))
    assert report["faults"]["dropped"] == 1 and report["faults"]["corrupted"] == 1, report
    assert report["bad_icrc"] + report["bad_frames"] + report["foreign_frames"] >= 1, report
    assert report["naks"] >= 1 and sender.naks >= 1, report


def case_random_faults():
    sender, report = transfer(
        payloads(*[20000] * 60), ("--seed", "5", "--faults",
                                  "drop=2%,duplicate=2%,reorder=2%,corrupt=1%,delay=1%:3ms,"
                                  "drop-replies=3%,corrupt-replies=2%"))
    for name in ("dropped", "duplicated", "reordered", "corrupted", "delayed", "dropped_replies"):
        assert report["faults"][name] > 0, report
    assert report["duplicates"] > 0 and report["gaps"] > 0, report


def case_plain_writes():
    sender, report = transfer(payloads(*[3000] * 16), immediate=False)
    receiver = Receiver("--output", "/dev/null")
    sender = Sender(immediate=False)
    for message in payloads(*[3000] * 17):
        sender.add_message(message)
    sender.run()
    try:
        sender.finish(17, 51000)
        raise AssertionError("overruns were not noticed")
    except ConnectionError as refusal:
        assert "--immediate" in str(refusal), refusal
    receiver.end(1)
    sender.close()


def case_uc():
    receiver = Receiver("--json")
    sender = Sender(uc=True)
    for message in payloads(*[3000] * 10):
        sender.add_message(message)
    sender.run_uc()
    assert sender.finish(10, 30000) == {"messages": 10, "bytes": 30000}
    report, = receiver.end(0)
    assert report["transport"] == "uc" and report["acks"] == 0, report
    sender.close()
    receiver = Receiver("--json")
    sender = Sender(uc=True)
    for message in payloads(*[3000] * 10):
        sender.add_message(message)
    sender.run_uc(lose=(4,))
    assert sender.finish(10, 30000) == {"messages": 9, "bytes": 27000}
    report, = receiver.end(1)
    assert report["lost_messages"] == 1 and report["state"] == "failed", report
    sender.close()


def case_records():
    for segmentation in ("message", "packet"):
        for immediate in (True, False):
            sender, report = transfer(payloads(*SIZES), record=True, segmentation=segmentation,
                                      immediate=immediate)
            assert report["record"] and report["segmentation"] == segmentation, report
    transfer(payloads(*[3000] * 40), ("--slots", "3", "--reader-delay", "1ms"), record=True,
             segmentation="packet")
    transfer(payloads(*[3000] * 40), segmentation="packet")  # the offer is of the largest


LIES = {"magic": b"XXXX", "version": 2, "flags": 0x100, "crc": 1, "message": 3, "length": 1 << 40}


def case_bad_records_of_rc():
    for field, value in LIES.items():
        with tempfile.NamedTemporaryFile() as output:
            receiver = Receiver("--json", "--output", output.name)
            sender = Sender(record=True)
            first, second = payloads(3000, 2000)
            sender.add_message(first)
            sender.add_message(second, **{field: value})
            sender.run()
            try:
                sender.finish(2, 5000)
                raise AssertionError(f"a bad record was taken: {field}")
            except ConnectionError as refusal:
                assert "record of message 1 is bad" in str(refusal), refusal
            report, = receiver.end(1)
            assert report["bad_records"] == 1 and report["messages"] == 1, report
            assert output.read() == first, "other payload was written"
            sender.close()


def case_bad_records_of_uc():
    """The stream goes on: what is wrong is left out and counted."""
    with tempfile.NamedTemporaryFile() as output:
        receiver = Receiver("--json", "--output", output.name, "--slots", "32")
        sender = Sender(record=True, uc=True, segmentation="packet")
        messages = payloads(*[3000] * (2 * len(LIES)))
        lies = iter(LIES.items())
        for n, message in enumerate(messages):
            sender.add_message(message, **(dict([next(lies)]) if n % 2 else {}))
        sender.run_uc()
        assert sender.finish(len(messages), 3000 * len(messages)) == \
            {"messages": len(LIES), "bytes": 3000 * len(LIES)}
        report, = receiver.end(1)
        assert report["bad_records"] == len(LIES) - 1, report  # a wrong CRC is a loss
        assert report["lost_messages"] == len(LIES), report
        assert "the record of message 1 is bad: it does not start" in report["error"], report
        assert output.read() == b"".join(messages[::2]), "other payload was written"
        sender.close()


def case_packet_mode_of_other_sizes():
    """Without a record only the last packet's length is seen, and the sum at the end."""
    receiver = Receiver("--json")
    sender = Sender(segmentation="packet", message_size=3000)
    for size in (3000, 2999):
        sender.add_message(payloads(size)[0])
    sender.run()
    try:
        sender.finish(2, 5999)
        raise AssertionError("another size was taken")
    except ConnectionError as refusal:
        assert "message 1 ends with a packet of 951 bytes" in str(refusal), refusal
        assert "--record on" in str(refusal), refusal
    receiver.end(1)
    sender.close()
    receiver = Receiver("--json")
    sender = Sender(segmentation="packet", message_size=3000)
    sender.add_message(payloads(3000 - 1024)[0])
    sender.run()
    assert sender.finish(1, 1976) == {"messages": 1, "bytes": 3000}
    receiver.end(1)
    sender.close()


def case_uc_duplicates_and_late_ones():
    """Each message once, in order, whatever comes twice or behind its successor."""
    for record in (True, False):
        with tempfile.NamedTemporaryFile() as output:
            receiver = Receiver("--json", "--output", output.name)
            sender = Sender(record=record, uc=True)
            messages = payloads(*[500] * 6)
            for message in messages:
                sender.add_message(message)
            per_message = len(sender.packets) // 6
            for n in (0, 1, 1, 3, 2, 4, 0, 5):
                for index in range(n * per_message, (n + 1) * per_message):
                    sender.frames.send(sender.frame(index))
            assert sender.finish(6, 3000) == {"messages": 5, "bytes": 2500}
            report, = receiver.end(1)
            assert report["lost_messages"] == 1, report
            assert output.read() == b"".join(messages[:2] + messages[3:]), "another order"
            sender.close()


def case_streams_at_once():
    with tempfile.TemporaryDirectory() as scratch:
        receiver = Receiver("--json", "--streams", "3", "--output", scratch)
        senders = [Sender(name="same name") for _ in range(3)]
        contents = [payloads(*[30000] * 20, seed=n) for n in range(3)]

        def serve(sender, messages):
            for message in messages:
                sender.add_message(message)
            sender.run()
            sender.finish(len(messages), sum(map(len, messages)))

        threads = [threading.Thread(target=serve, args=pair) for pair in zip(senders, contents)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(receiver.end(0)) == 3
        names = sorted(os.listdir(scratch))
        assert names == ["same name", "same name.1", "same name.2"], names
        found = sorted(open(os.path.join(scratch, name), "rb").read() for name in names)
        assert found == sorted(b"".join(messages) for messages in contents)
        for sender in senders:
            sender.close()


def case_slow_output_delays_no_other_stream():
    with tempfile.TemporaryDirectory() as scratch:
        os.mkfifo(os.path.join(scratch, "pipe"))
        keeper = os.open(os.path.join(scratch, "pipe"), os.O_RDWR)
        receiver = Receiver("--json", "--output", os.path.join(scratch, "pipe"))
        stalled = Sender()
        for message in payloads(*[60000] * 10):
            stalled.add_message(message)
        thread = threading.Thread(target=stalled.run, kwargs={"tries": 10000})
        thread.start()
        time.sleep(0.3)
        assert receiver.process.poll() is None
        got = b""
        while len(got) < 600000:
            got += os.read(keeper, 65536)
        thread.join()
        stalled.finish(10, 600000)
        receiver.end(0)
        assert got == b"".join(payloads(*[60000] * 10))
        os.close(keeper)
        stalled.close()


def case_fifo_without_a_reader():
    with tempfile.TemporaryDirectory() as scratch:
        pipe = os.path.join(scratch, "pipe")
        os.mkfifo(pipe)
        receiver = Receiver("--json", "--output", pipe)
        keeper = []
        timer = threading.Timer(0.3, lambda: keeper.append(os.open(pipe, os.O_RDONLY)))
        timer.start()
        sender = Sender()
        timer.join()
        sender.add_message(b"abcd")
        sender.run()
        sender.finish(1, 4)
        receiver.end(0)
        assert os.read(keeper[0], 10) == b"abcd"
        os.close(keeper[0])
        sender.close()


def refused(options, sentence, **sender_options):
    receiver = Receiver(*options)
    try:
        Sender(**sender_options).close()
        raise AssertionError("the offer was taken")
    except ConnectionError as refusal:
        assert sentence in str(refusal), refusal
    receiver.process.send_signal(signal.SIGTERM)
    receiver.end(1)
    assert sentence in receiver.errors, receiver.errors


def case_refusals():
    refused(("--memory", "1MiB"), "--memory", message_size=1 << 20)
    refused(("--slot-size", "4096"), "--slot-size", message_size=5000)
    refused(("--slot-size", "4096"), "and their records of 64", message_size=4033, record=True)
    refused((), "--record on", uc=True, segmentation="packet")
    ip("-n", B, "link", "set", "veth0", "mtu", "1500")
    try:
        refused((), "needs an MTU of 4160, but the receiver's veth0 has 1500", pmtu=4096)
        refused((), "needs an MTU of 4180", pmtu=4096, version=6)
    finally:
        ip("-n", B, "link", "set", "veth0", "mtu", "4300")


def case_sender_that_goes_away():
    receiver = Receiver("--json")
    sender = Sender()
    sender.add_message(payloads(3000)[0])
    sender.run()
    sender.close()
    report, = receiver.end(1)
    assert report["state"] == "failed" and report["messages"] == 1, report


def case_wrong_count():
    receiver = Receiver("--json")
    sender = Sender()
    sender.add_message(b"abcd")
    sender.run()
    assert sender.finish(2, 8) == {"messages": 1, "bytes": 4}
    receiver.end(1)
    sender.close()


def case_fatal_nak():
    receiver = Receiver("--json")
    sender = Sender()
    sender.answer["rkey"] ^= 1
    sender.add_message(b"abcd")
    try:
        sender.run()
        raise AssertionError("a wrong rkey was taken")
    except ConnectionError as refusal:
        assert "0x62" in str(refusal)
    sender.close()
    report, = receiver.end(1)
    assert report["qp_error"] and report["naks"] == 1, report


def case_signals():
    receiver = Receiver("--streams", "0")
    receiver.process.send_signal(signal.SIGINT)
    receiver.end(0)
    receiver = Receiver("--json")
    sender = Sender()
    receiver.process.send_signal(signal.SIGTERM)
    report, = receiver.end(1)
    assert "interrupted" in report["error"], report
    sender.close()
    receiver = Receiver("--timeout", "200ms")
    receiver.end(1, timeout=2)
    assert "no stream finished" in receiver.errors


def case_options():
    for options in (["--slots", "1"], ["--faults", "drop=1"], ["--credits", "31"], ["--memory", "x"],
                    ["--listen", "192.0.2.2:99999"], ["--streams", "2", "--output", "/dev/null"]):
        receiver = Receiver(*options, listen=False)
        receiver.end(1, timeout=2)
        assert receiver.errors.strip(), options
    receiver = Receiver("--listen", "192.0.2.77", listen=False)
    receiver.end(1)
    assert "192.0.2.77" in receiver.errors


def main():
    failed = 0
    make_network()
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        enter(A)
        for name, case in sorted(globals().items()):
            if not name.startswith("case_"):
                continue
            start = time.monotonic()
            try:
                case()
                print(f"passed  {name[5:]} ({time.monotonic() - start:.2f} s)", flush=True)
            except Exception as problem:  # every case is reported, whatever stops one
                failed += 1
                for process in RUNNING:
                    process.kill()
                print(f"FAILED  {name[5:]}: {type(problem).__name__}: {problem}", flush=True)
    finally:
        os.setns(home, os.CLONE_NEWNET)
        subprocess.run(["ip", "netns", "del", A])
        subprocess.run(["ip", "netns", "del", B])
    return failed != 0


sys.exit(main())

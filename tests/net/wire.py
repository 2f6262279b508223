# SPDX-License-Identifier: BSD-2-Clause
"""Frames as they are on the wire: IPv4, UDP, BTH; and pcap files of them."""
import select
import socket
import struct

BPF = struct.Struct("=HBBI")       # struct sock_filter
FPROG = struct.Struct("@HP")       # struct sock_fprog
TIMESPEC = struct.Struct("=qq")

WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM = 0x06, 0x07, 0x08, 0x09
WRITE_ONLY, WRITE_ONLY_IMM, ACKNOWLEDGE = 0x0A, 0x0B, 0x11
PSNS = 1 << 24


class Frame:
    """One Ethernet frame. The fields of BTH are those of RoCEv2 over IPv4."""

    def __init__(self, time, outgoing, data):
        self.time, self.outgoing, self.data = time, outgoing, data

    @property
    def source_ip(self):
        return socket.inet_ntoa(self.data[26:30]) if self.data[12:14] == b"\x08\x00" else None

    @property
    def port_unreachable(self):
        return self.data[23] == 1 and self.data[34:36] == b"\x03\x03"

    @property
    def opcode(self):
        return self.data[42]

    @property
    def pad(self):
        return self.data[43] >> 4 & 3

    @property
    def ackreq(self):
        return bool(self.data[50] & 0x80)

    @property
    def psn(self):
        return int.from_bytes(self.data[51:54], "big")

    @property
    def syndrome(self):
        return self.data[54]

    @property
    def is_ack(self):
        return self.opcode == ACKNOWLEDGE


def requests(frames):
    return [frame for frame in frames if not frame.is_ack]


def replies(frames):
    return [frame for frame in frames if frame.is_ack]


def transmissions(frames):
    """How often each PSN was sent: {psn: times}, in the order in which they were first sent."""
    times = {}
    for frame in requests(frames):
        times[frame.psn] = times.get(frame.psn, 0) + 1
    return times


def write_pcap(path, frames):
    with open(path, "wb") as out:
        out.write(struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))  # ns, Ethernet
        for frame in frames:
            seconds = int(frame.time)
            out.write(struct.pack("=IIII", seconds, int((frame.time - seconds) * 1e9),
                                  len(frame.data), len(frame.data)))
            out.write(frame.data)


def wait_readable(handle, timeout):
    return bool(select.select([handle], [], [], timeout)[0])

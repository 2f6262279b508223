# SPDX-License-Identifier: BSD-2-Clause
"""Frames as they are on the wire: VLAN, IPv4 or IPv6, UDP, BTH; and pcap files of them."""
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
    """One Ethernet frame; data is without its VLAN tag, of which tci is what follows the type."""

    def __init__(self, time, outgoing, data, tci=None):
        self.time, self.outgoing, self.data, self.tci = time, outgoing, data, tci
        self.ipv6 = data[12:14] == b"\x86\xdd"
        self.bth = 14 + (40 if self.ipv6 else 20) + 8

    @property
    def whole(self):
        """As it was on the wire."""
        if self.tci is None:
            return self.data
        return self.data[:12] + struct.pack(">HH", 0x8100, self.tci) + self.data[12:]

    @property
    def traffic_class(self):
        return (int.from_bytes(self.data[14:16], "big") >> 4 & 0xFF) if self.ipv6 else self.data[15]

    @property
    def ttl(self):
        return self.data[21 if self.ipv6 else 22]

    @property
    def source_ip(self):
        return socket.inet_ntoa(self.data[26:30]) if self.data[12:14] == b"\x08\x00" else None

    @property
    def port_unreachable(self):
        return self.data[23] == 1 and self.data[34:36] == b"\x03\x03"

    @property
    def opcode(self):
        return self.data[self.bth]

    @property
    def pad(self):
        return self.data[self.bth + 1] >> 4 & 3

    @property
    def ackreq(self):
        return bool(self.data[self.bth + 8] & 0x80)

    @property
    def psn(self):
        return int.from_bytes(self.data[self.bth + 9:self.bth + 12], "big")

    @property
    def syndrome(self):
        return self.data[self.bth + 12]

    @property
    def is_ack(self):
        return self.opcode == ACKNOWLEDGE

    @property
    def payload(self):
        """Of an RDMA Write, RC or UC: without headers, pad and ICRC."""
        kind = self.opcode & 0x1F
        extra = 16 * (kind in (WRITE_FIRST, WRITE_ONLY, WRITE_ONLY_IMM)) + \
            4 * (kind in (WRITE_LAST_IMM, WRITE_ONLY_IMM))
        return self.data[self.bth + 12 + extra:len(self.data) - 4 - self.pad]


def vlan_tag(auxdata):
    """The tag that struct tpacket_auxdata tells of, or None."""
    status, _, _, _, _, tci, _ = struct.unpack("=IIIHHHH", auxdata[:20])
    return tci if status & 1 << 4 else None


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
                                  len(frame.whole), len(frame.whole)))
            out.write(frame.whole)


def wait_readable(handle, timeout):
    return bool(select.select([handle], [], [], timeout)[0])

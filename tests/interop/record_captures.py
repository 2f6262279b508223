#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Records captures/rc.pcapng and captures/uc.pcapng: one session each of `xdp2roce send` with
soft-RoCE, as the path between them sees it. Needs root and the lab."""
import os
import struct
import sys

sys.dont_write_bytecode = True

from guest import Guest  # noqa: E402
from rxe import HERE, ROCE, Session, payload, rig  # noqa: E402

EVERYTHING = "%s or tcp port %d" % (ROCE, rig.PORT)


def block(kind, body):
    body += bytes(-len(body) % 4)
    size = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + size + body + size


def write_pcapng(path, frames):
    """Section header, Ethernet interface with timestamps in ns, enhanced packets."""
    with open(path, "wb") as out:
        out.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
        out.write(block(1, struct.pack("<HHIHHB3xI", 1, 0, 65535, 9, 1, 9, 0)))
        for frame in frames:
            time = int(frame.time * 1e9)
            out.write(block(6, struct.pack("<IIIII", 0, time >> 32, time & 0xFFFFFFFF,
                                           len(frame.data), len(frame.data)) + frame.data))


def record(guest, name, streams, *send, recv=()):
    with Session(guest) as session:
        capture = session.capture(EVERYTHING)
        session.transfer(streams, *send, recv=recv)
        write_pcapng(os.path.join(HERE, "captures", name + ".pcapng"), capture.frames())


def main():
    os.makedirs(os.path.join(HERE, "captures"), exist_ok=True)
    with Guest() as guest:
        # The PSN wraps, and a slow reader with two slots draws RNR NAKs.
        record(guest, "rc", [payload(5000, 1), payload(100, 2), b""], "--pmtu", 256, "--start-psn",
               0xFFFFF8, "--message-size", 1001, "--ring", 16,
               recv=("--slots", "2", "--reader-delay", "20ms", "--rnr-timer", "18"))
        record(guest, "uc", [payload(5000, 3), payload(100, 4), b""], "--transport", "uc",
               "--segmentation", "message", "--pmtu", 256, "--start-psn", 0xFFFFF8,
               "--message-size", 1001)


if __name__ == "__main__":
    main()

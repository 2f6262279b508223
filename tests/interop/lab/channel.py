# SPDX-License-Identifier: BSD-2-Clause
"""Frames that carry commands to the guest's agent and their output back, many at a time.

A frame is a header and its payload. The channel tells commands apart; the supervisor numbers them.
A client of the supervisor speaks the same frames about its one command, on channel 0.

    to the guest     RUN       JSON: argv; cwd; tty: the terminal's type, or false for pipes
                     INPUT     bytes for standard input; none: end of input
                     SIGNAL    a signal's number, for the command's process group
                     SIZE      JSON: rows and columns of the terminal
    from the guest   READY     JSON: release, uptime; once, on channel 0
                     OUTPUT    bytes of standard output
                     ERROR     bytes of standard error
                     EXIT      the exit status, 128 + N after signal N; ends the channel
"""
import json
import struct

RUN, INPUT, SIGNAL, SIZE, READY, OUTPUT, ERROR, EXIT = range(1, 9)
HEADER = struct.Struct("!IBI")  # channel, kind, length of the payload
CHUNK = 32768


def frame(channel, kind, payload=b""):
    if isinstance(payload, dict):
        payload = json.dumps(payload).encode()
    elif isinstance(payload, int):
        payload = b"%d" % payload
    return HEADER.pack(channel, kind, len(payload)) + payload


async def read(reader):
    """(channel, kind, payload) of the next frame from an asyncio stream."""
    channel, kind, length = HEADER.unpack(await reader.readexactly(HEADER.size))
    return channel, kind, await reader.readexactly(length)


def read_blocking(stream):
    """The same from a blocking buffered stream; None at its end."""
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    channel, kind, length = HEADER.unpack(header)
    return channel, kind, stream.read(length)

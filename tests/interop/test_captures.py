#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""tshark's view of the sessions in captures/, which record_captures.py made. Prints TAP; needs no
guest."""
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True

from guest import TOP  # noqa: E402
from tap import UNAVAILABLE, cases, check, collect, run_one  # noqa: E402

NUMBERS = ("infiniband.bth.opcode", "infiniband.bth.psn", "infiniband.aeth.syndrome")
FIELDS = NUMBERS + ("infiniband.bth.destqp", "infiniband.immdt", "infiniband.reth.dmalen")
# Opcodes of requests; RC's are answered with 0x11.
FIRST, MIDDLE, LAST_IMM, ONLY_IMM, ACKNOWLEDGE, UC = 0x06, 0x07, 0x09, 0x0B, 0x11, 0x20
REQUESTS = {FIRST, MIDDLE, LAST_IMM, ONLY_IMM}
LARGEST = 100000


def tshark(name, *arguments):
    path = os.path.join(TOP, "tests/interop/captures", name + ".pcapng")
    check(os.path.getsize(path) < LARGEST, os.path.getsize(path))
    return subprocess.check_output(["tshark", "-n", "-r", path, *arguments], text=True,
                                   stderr=subprocess.DEVNULL)


def frames(name):
    """One dictionary per RoCE frame; a field that it does not have is empty."""
    text = tshark(name, "-Y", "infiniband", "-T", "fields", "-E", "separator=;",
                  *[word for field in FIELDS for word in ("-e", field)])
    for line in text.splitlines():
        yield {field.split(".")[-1]: int(value, 0) if value and field in NUMBERS else value
               for field, value in zip(FIELDS, line.split(";"))}


@cases(("rc",), ("uc",))
def test_nothing_is_malformed(_, name):
    found = tshark(name, "-o", "ip.check_checksum:TRUE", "-Y",
                   "_ws.malformed || ip.checksum.status == 0 || icmp")
    check(not found, found)


@cases(("rc",), ("uc",))
def test_opcodes(_, name):
    found = {frame["opcode"] for frame in frames(name)}
    unreliable = {opcode | UC for opcode in REQUESTS}
    check(found == (REQUESTS | {ACKNOWLEDGE} if name == "rc" else unreliable), found)


@cases(("rc",), ("uc",))
def test_headers_fit_the_opcode(_, name):
    for frame in frames(name):
        opcode = frame["opcode"] & ~UC
        check(bool(frame["dmalen"]) == (opcode in (FIRST, ONLY_IMM)), frame)
        check(bool(frame["immdt"]) == (opcode in (LAST_IMM, ONLY_IMM)), frame)


@cases(("rc",), ("uc",))
def test_psns_wrap_without_a_gap(_, name):
    seen = {}
    for frame in frames(name):
        if frame["opcode"] != ACKNOWLEDGE:
            seen.setdefault(frame["destqp"], {})[frame["psn"]] = True
    check(len(seen) == 3, seen.keys())
    for psns in seen.values():
        expected = [n % (1 << 24) for n in range(0xFFFFF8, 0xFFFFF8 + len(psns))]
        check(list(psns) == expected, *psns)


def test_rnr_naks_and_acknowledgements(_):
    found = {frame["syndrome"] for frame in frames("rc") if frame["opcode"] == ACKNOWLEDGE}
    check({0x1F, 0x20 | 18} <= found <= {0x1F, 0x20 | 18, 0x60}, found)


def run():
    if not shutil.which("tshark"):
        print("1..0 # SKIP tshark is not installed")
        return UNAVAILABLE
    module = sys.modules[__name__]
    tests = list(collect(module))
    print("1..%d" % len(tests))
    return bool(sum([run_one(None, number, "captures", test)
                     for number, test in enumerate(tests, 1)]))


if __name__ == "__main__":
    sys.exit(run())

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The sender on the guest's own kernel: the XDP program loads, tests/bpf and some of tests/net pass
there. Prints TAP; exit status 77 where no guest can run."""
import glob
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True

from guest import TOP  # noqa: E402
from tap import cases, check, main  # noqa: E402

BUILD = "build/release-gcc/tests/bpf/"
BPF = sorted(os.path.basename(path)[:-2]
             for path in glob.glob(os.path.join(TOP, "tests/bpf/test_*.c")))
NET = ["sizes.size 65537 256", "sizes.size 1025 1024", "sizes.size 2049 2048",
       "sizes.eight_streams", "loss.lost_frame 33", "loss.lost_acks", "slots.rnr_without_end",
       "slots.slow_reader 2 posted"]
LARGEST = "sizes.size 4097 4096"  # AF_XDP sends it in several buffers, since Linux 6.6


@cases(*[(name,) for name in BPF])
def test_bpf(guest, name):
    subprocess.run(["make", "-s", "-C", TOP, BUILD + name], check=True, stdout=sys.stderr)
    guest.run(os.path.join(TOP, BUILD + name), "--tap=" + guest.share(name), "--timeout", "300",
              timeout=300)
    with open(guest.share(name)) as handle:
        found = handle.read()
    passed = len(re.findall("^ok", found, re.M))
    print("# %d tests of %s" % (passed, name))
    check(passed and not re.search("^not ok|SKIP", found, re.M), found)


def test_sender_over_veth(guest):
    names = NET + ([LARGEST] if linux(guest) >= (6, 6) else [])
    found = guest.run(os.path.join(TOP, "tests/net/run"), *names, timeout=300)
    print("# %d tests of tests/net" % len(names))
    check(len(re.findall("^ok", found, re.M)) == len(names), found)
    check(not re.search("SKIP", found), found)


def linux(guest):
    return tuple(map(int, guest.run("uname", "-r").split(".")[:2]))


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))

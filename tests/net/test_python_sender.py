# SPDX-License-Identifier: BSD-2-Clause
"""The receiver against a sender that shares nothing with it: recv_soft.py."""
import os

from cases import limit
from rig import PROGRAM, Skip, check_equal

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recv_soft.py")


@limit(180)
def test_recv_soft(rig):
    process = rig.start(rig.tx, "python3", SCRIPT, PROGRAM, "recv")
    status = process.finish(170)
    if status == 77:
        raise Skip(process.stdout.strip())
    check_equal(status, 0, "exit status of recv_soft.py, which ended with %r," %
                (process.stdout + process.stderr)[-2000:])

# SPDX-License-Identifier: BSD-2-Clause
"""xdp2roce_receive: a program of one's own as receiver, here tests/net/receiver.c."""
import glob
import os
import subprocess
import time

from rig import RX_IP, TOP, Skip, check, check_equal, payload, sentence

SIZE = 5000


def receiver(rig, *arguments, listen=RX_IP):
    found = (glob.glob(os.path.join(TOP, "build/release-gcc/tests/net/receiver")) +
             glob.glob(os.path.join(TOP, "build/*/tests/net/receiver")))
    if not found:
        raise Skip("tests/net/receiver is not built: make tests")
    process = rig.start(rig.rx, found[0], listen, rig.path("received"), *arguments,
                        stdin=subprocess.PIPE)
    return process


def await_port(rig):
    deadline = time.monotonic() + 10
    while not subprocess.run(["ip", "netns", "exec", rig.rx, "ss", "-Hltn", "sport = :18515"],
                             capture_output=True, check=True).stdout:
        check(time.monotonic() < deadline, "nothing listens")
        time.sleep(0.02)


def test_callback(rig):
    data = payload(SIZE * 20 + 1, 3)
    program = receiver(rig)
    await_port(rig)
    sender = rig.send("--message-size", SIZE, rig.file("data.bin", data))
    check_equal(sender.finish(20), 0, "exit status of the sender, which said %r" % sender.stderr)
    check_equal(program.finish(10), 0, "exit status of the receiver: %r" % program.stderr)
    rig.check_content(data)
    lines = program.stdout.split("\n")[:-1]
    check_equal(len(lines), 21, "messages")
    check_equal(lines[20].split()[0::2], ["data.bin", "20"], "stream and number of the last")
    check(lines[0].split()[1].startswith("192.0.2.1"), "the peer", lines[0])
    check_equal(program.stderr, "", "a library prints nothing")


def test_callback_ends_the_stream(rig):
    program = receiver(rig, "3")
    await_port(rig)
    sender = rig.send("--message-size", SIZE, rig.file("data.bin", payload(SIZE * 20)))
    sentence(sender, "the receiving program ended the stream at message 3", "code 7")
    check_equal(program.finish(10), 1, "exit status of the receiver")
    check("receiver: -5 the receiving program ended" in program.stderr, "its error", program.stderr)


def test_stop(rig):
    program = receiver(rig)
    await_port(rig)
    program.popen.stdin.close()
    check_equal(program.finish(5), 1, "exit status of the receiver")
    check("interrupted" in program.stderr, "its error", program.stderr)


def test_bad_configuration(rig):
    program = receiver(rig, listen="192.0.2.2:99999")
    check_equal(program.finish(5), 1, "exit status of the receiver")
    check("99999" in program.stderr, "its error", program.stderr)

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The lab itself: boots it once and prints TAP. Exit status 77 where no guest can run."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback

sys.dont_write_bytecode = True

from guest import TOP, Guest, Skip  # noqa: E402

STATE = "/run/xdp2roce-lab"
DEAD = "x2r-lab-4194305"  # no process can have this number


def leave_a_dead_lab():
    """What remains of a lab whose supervisor was killed."""
    os.makedirs(os.path.join(STATE, DEAD), exist_ok=True)
    open(os.path.join(STATE, DEAD, "lock"), "w").close()
    for name in (DEAD, DEAD + "-path"):
        subprocess.run(["ip", "netns", "add", name], check=True)


def remove_the_dead_lab():
    shutil.rmtree(os.path.join(STATE, DEAD), ignore_errors=True)
    for name in (DEAD, DEAD + "-path"):
        subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


def namespaces():
    return os.listdir("/run/netns")


def check(condition, *found):
    if not condition:
        raise AssertionError("found " + ", ".join(map(str, found)))


def test_a_dead_lab_was_swept_away(guest):
    check(not any(name.startswith(DEAD) for name in namespaces() + os.listdir(STATE)), namespaces())


def test_soft_roce_device_is_active(guest):
    found = guest.run("rdma", "link")
    check("rxe0/1 state ACTIVE" in found and "netdev eth0" in found, found)
    found = guest.run("ibv_devinfo", "-d", "rxe0")
    check("PORT_ACTIVE" in found and found.count("4096 (5)") == 2, found)


def test_whole_frames_pass_both_ways(guest):
    big = ("-c", "3", "-i", "0.2", "-W", "5", "-M", "do", "-s", "4172")
    found = guest.sender("ping", *big, guest.ADDRESS)
    check(" 0% packet loss" in found, found)
    found = guest.run("ping", *big, guest.SENDER)
    check(" 0% packet loss" in found, found)


def test_path_sees_the_frames(guest):
    def passed():
        found = subprocess.check_output(["ip", "-n", guest.path, "-j", "-s", "link", "show", "tx1"])
        return json.loads(found)[0]["stats64"]["rx"]["packets"]

    before = passed()
    guest.sender("ping", "-c", "2", "-i", "0.2", guest.ADDRESS)
    check(passed() >= before + 2, before, passed())


def test_tree_is_the_same_and_the_share_is_written_by_both(guest):
    with open(__file__) as here:
        check(guest.run("cat", os.path.abspath(__file__)) == here.read(), "another file")
    with open(guest.share("from_host"), "w") as handle:
        handle.write("content")
    guest.run("cp", guest.share("from_host"), guest.share("from_guest"))
    with open(guest.share("from_guest")) as handle:
        check(handle.read() == "content", "other content")


def test_guest_changes_nothing_of_the_host(guest):
    name = os.path.join(TOP, "build/written-by-the-guest")
    guest.run("sh", "-c", "echo x >%s && cat %s" % (name, name))
    check(not os.path.exists(name), name)


def test_exit_status_output_and_time_limit(guest):
    found = guest.run("sh", "-c", "echo out; echo err >&2; exit 42", status=42)
    check(found == "out\n", found)
    guest.run("sh", "-c", "kill -9 $$", status=137)
    guest.run("no-such-program", status=127)
    start = time.monotonic()
    guest.run("sleep", "1000", timeout=1, status=124)
    check(time.monotonic() - start < 30, time.monotonic() - start)


def test_many_commands_at_once(guest):
    each = [guest.popen("sh", "-c", "seq 20000; echo %d" % number, stdout=subprocess.PIPE)
            for number in range(6)]
    for number, process in enumerate(each):
        lines = process.communicate(timeout=60)[0].split()
        check(len(lines) == 20001 and int(lines[-1]) == number, len(lines), lines[-1:])


def test_a_killed_client_takes_its_command_along(guest):
    for number in (signal.SIGTERM, signal.SIGKILL):
        process = guest.popen("sleep", "4242")
        running = ["sh", "-c",
                   "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 424[2]'; :"]
        await_output(guest, running, "1")
        process.send_signal(number)
        process.wait(20)
        await_output(guest, running, "0")


def await_output(guest, command, expected):
    deadline = time.monotonic() + 20
    while (found := guest.run(*command).strip()) != expected:
        check(time.monotonic() < deadline, found)


def test_perftest_in_the_guest(guest):
    both_ends(guest, "ib_write_bw", "-d", "rxe0", "-x", "1", "-u", "20", "-F", "-n", "50",
              "-s", "65536")


def test_rc_pingpong_in_the_guest(guest):
    both_ends(guest, "ibv_rc_pingpong", "-d", "rxe0", "-g", "1", "-n", "50")


def both_ends(guest, *command):
    """The same program as server and as client, both in the guest."""
    server = guest.popen(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    guest.run("sh", "-c", "until ss -Hltn | grep -q :18515; do sleep 0.2; done", timeout=30)
    guest.run(*command, guest.ADDRESS)
    told = server.communicate(timeout=60)[0]
    check(server.returncode == 0, server.returncode, told)


def report(number, name, problem=None):
    print("%s %d - lab: %s" % ("not ok" if problem else "ok", number, name), flush=True)
    for line in (problem or "").splitlines():
        print("#   " + line)
    return bool(problem)


def attempt(function, *arguments):
    try:
        function(*arguments)
        return None
    except Exception:
        return traceback.format_exc()


def nothing_is_left(guest):
    check(not any(guest.name in name for name in namespaces() + os.listdir(STATE)), namespaces())
    command = subprocess.run("cat /proc/[0-9]*/cmdline", shell=True, capture_output=True).stdout
    check(b"qemu-system" not in command or guest.name.encode() not in command, "qemu still runs")


def main():
    tests = [(name[5:].replace("_", " "), function) for name, function in globals().items()
             if name.startswith("test_")]
    failed = 0
    try:
        if os.geteuid():
            raise Skip("needs root")
        leave_a_dead_lab()
        with Guest() as guest:
            print("1..%d\n# %s" % (len(tests) + 1, guest.description), flush=True)
            for number, (name, function) in enumerate(tests, 1):
                failed += report(number, name, attempt(function, guest))
    except Skip as reason:
        print("1..0 # SKIP %s" % reason)
        return 77
    finally:
        remove_the_dead_lab()
    failed += report(len(tests) + 1, "nothing is left", attempt(nothing_is_left, guest))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

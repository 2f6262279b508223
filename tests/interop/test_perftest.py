#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Debian's own ib_write_bw, ibv_rc_pingpong and ibv_uc_pingpong, unmodified, as receivers of
`xdp2roce send --connect`. Prints TAP; exit status 77 where no guest can run."""
import json
import os
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True

from guest import TOP  # noqa: E402
from tap import cases, check, main  # noqa: E402

PROGRAM = os.path.abspath(os.environ.get("XDP2ROCE", os.path.join(TOP, "build/xdp2roce")))
RECEIVED = "/sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts"
LIMIT = 60  # seconds for either end


class Server:
    """A server program in the guest, which listens."""

    def __init__(self, guest, *command):
        self.guest = guest
        self.process = guest.popen(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True)
        guest.run("sh", "-c", "until ss -Hltn | grep -q :18515; do sleep 0.2; done", timeout=30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate(timeout=LIMIT)

    def kill(self):
        self.guest.run("sh", "-c", "kill -9 $(ss -Htnp state established sport = :18515 | "
                                   "sed 's/.*pid=\\([0-9]*\\).*/\\1/')")

    def end(self):
        """Its exit status and what it printed."""
        text = self.process.communicate(timeout=LIMIT)[0]
        return self.process.returncode, text


def ib_write_bw(guest, *options):
    return Server(guest, "ib_write_bw", "-d", "rxe0", "-x", "1", *options)


class Sender:
    def __init__(self, guest, scheme, *options):
        # 67 ms, the default, is too short for an emulated guest.
        command = [PROGRAM, "send", "--connect", "%s://%s" % (scheme, guest.ADDRESS),
                   "--ack-timeout", "1s", "--json", *options]
        self.process = subprocess.Popen(["ip", "netns", "exec", guest.namespace, *command],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)

    def end(self, status=0):
        self.stdout, self.stderr = self.process.communicate(timeout=LIMIT)
        check(self.process.returncode == status, self.process.returncode, self.stderr, self.stdout)
        return self

    def json(self):
        return json.loads(self.stdout)


def send(guest, *options, scheme="perftest", status=0):
    return Sender(guest, scheme, *options).end(status)


def table(text):
    """Bytes, iterations, peak, average and message rate, as the server prints them."""
    found = re.search(r"#bytes\s+#iterations.*\n" + r"\s+([\d.]+)" * 5, text)
    check(found, text)
    return int(found[1]), int(found[2]), *map(float, found.group(3, 4, 5))


def transfer(guest, transport, size, pairs, messages, *options, server_options=()):
    """The server ends well and prints what was sent; its device took the frames. Our JSON."""
    before = int(guest.run("cat", RECEIVED))
    with ib_write_bw(guest, "-c", transport.upper(), "-q", str(pairs), "-s", str(size),
                     *server_options) as server:
        sender = send(guest, "--pattern", "--streams", str(pairs), "--messages", str(messages),
                      "--message-size", str(size), "--transport", transport, *options)
        status, text = server.end()
    check(status == 0, status, text)
    found = table(text)
    check(found[:2] == (size, messages * pairs), found, text)
    check(found[3] > 0, found)
    result = sender.json()
    check(len(result["streams"]) == pairs, result)
    check(result["bytes"] == size * messages * pairs, result)
    frames = sum(stream["frames"] for stream in result["streams"])
    needed = -(-size // result["pmtu"]) * messages * pairs
    received = int(guest.run("cat", RECEIVED)) - before
    # What UC sends faster than an emulated guest takes it is lost.
    least = needed if transport == "rc" else 1
    check(needed <= frames and least <= received <= frames, needed, frames, received)
    return result


@cases(("rc", 1024), ("rc", 65536), ("rc", 1 << 20), ("uc", 1024), ("uc", 65536), ("uc", 1 << 20))
def test_every_size(guest, transport, size):
    transfer(guest, transport, size, 1, 8)


@cases(("rc",), ("uc",))
def test_four_queue_pairs(guest, transport):
    transfer(guest, transport, 16384, 4, 8)


def test_the_server_has_the_smaller_mtu(guest):
    check(transfer(guest, "rc", 65536, 1, 4, server_options=("-m", "1024"))["pmtu"] == 1024)


def test_the_sender_has_the_smaller_mtu(guest):
    check(transfer(guest, "rc", 65536, 1, 4, "--pmtu", "512")["pmtu"] == 512)


def test_files_are_streams(guest):
    names = [guest.share(name) for name in ("one", "two")]
    for name in names:
        with open(name, "wb") as handle:
            handle.write(os.urandom(100000))
    with ib_write_bw(guest, "-q", "2", "-s", "32768") as server:
        result = send(guest, "--message-size", "32KiB", *names).json()
        status, text = server.end()
    check(status == 0 and table(text)[:2] == (32768, 8), status, text)
    check([stream["name"] for stream in result["streams"]] == ["one", "two"], result)
    check(result["bytes"] == 200000, result)


@cases((1, 2, "has 1 queue pair, expected one for each stream"),
       (3, 2, r"more queue pairs \(-q\) than the 2 streams here"))
def test_queue_pairs_of_server_and_sender(guest, pairs, streams, sentence):
    with ib_write_bw(guest, "-q", str(pairs)) as server:
        sender = send(guest, "--pattern", "--streams", str(streams), "--message-size", "4KiB",
                      status=1)
        check(re.search(sentence, sender.stderr), sender.stderr)
        check(server.end()[0] != 0)


def test_messages_beyond_the_server_s_memory(guest):
    with ib_write_bw(guest, "-s", "4096") as server:
        sender = send(guest, "--pattern", "--message-size", "64KiB", status=1)
        check(sender.json()["streams"][0]["error"]["syndrome"] == 0x62, sender.stdout)
        check("start ib_write_bw with an -s" in sender.stderr, sender.stderr)
        check(server.end()[0] != 0)


def test_server_that_is_killed(guest):
    with ib_write_bw(guest, "-s", "65536") as server:
        sender = Sender(guest, "perftest", "--pattern", "--message-size", "64KiB",
                        "--messages", "100000", "--retry", "2")
        time.sleep(4)
        server.kill()
        sender.end(1)
        check(re.search("does not answer|ended the connection|failed at PSN", sender.stderr),
              sender.stderr)


def test_server_with_another_exchange(guest):
    with Server(guest, "ibv_rc_pingpong", "-d", "rxe0", "-g", "1"):
        sender = send(guest, "--pattern", status=1)
        check("closed the connection before its version" in sender.stderr, sender.stderr)


def test_rc_pingpong(guest):
    with Server(guest, "ibv_rc_pingpong", "-d", "rxe0", "-g", "1") as server:
        sender = send(guest, scheme="pingpong")
        status, text = server.end()
    stream = sender.json()["streams"][0]
    check(not stream["delivered"] and stream["naks"] == 1, stream)
    check(stream["error"]["syndrome"] == 0x61 and stream["error"]["tries"] == 1, stream)
    check("both are connected" in sender.stderr, sender.stderr)
    # It learned of us what we told, and its queue pair is in error: it took the frame.
    check("GID ::ffff:%s" % guest.SENDER in text and status == 1, status, text)
    check("PSN 0x%06x, GID ::ffff:%s" % (stream["error"]["psn"], guest.SENDER) in text, text)


def test_uc_pingpong(guest):
    before = int(guest.run("cat", RECEIVED))
    with Server(guest, "ibv_uc_pingpong", "-d", "rxe0", "-g", "1"):
        stream = send(guest, "--transport", "uc", scheme="pingpong").json()["streams"][0]
        check(stream["frames"] == 1, stream)
        check(int(guest.run("cat", RECEIVED)) == before + 1)


def test_rc_pingpong_without_a_gid(guest):
    with Server(guest, "ibv_rc_pingpong", "-d", "rxe0"):
        sender = send(guest, scheme="pingpong", status=1)
        check("started with -g" in sender.stderr, sender.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))

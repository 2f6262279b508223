# SPDX-License-Identifier: BSD-2-Clause
"""`xdp2roce recv` with the soft-RoCE of a guest, `xdp2roce send` on this host, and the wire between
them.

    with Session(guest) as session:
        session.transfer([payload(1000)], "--pmtu", 1024)

What is received stays in the guest's memory, and sha256sum compares it there."""
import os
import subprocess
import sys

from guest import LAB, TOP
from tap import check

sys.path.insert(0, os.path.join(TOP, "tests/net"))

import rig  # noqa: E402
from rig import payload, sha256  # noqa: E402, F401
import wire  # noqa: E402

PROGRAM = rig.PROGRAM
HERE = os.path.dirname(os.path.abspath(__file__))
ROCE = "udp dst port %d" % rig.ROCE_PORT
# 67 ms, the default, is too short for an emulated guest.
PATIENCE = ("--ack-timeout", "1s")
LIMIT = 60  # seconds for either end


class Session:
    """The processes, files and captures of one test. Whatever happens, they end with it."""

    numbers = iter(range(1 << 30))

    def __init__(self, guest):
        self.guest = guest
        self.processes, self.closers = [], []
        self.directory = guest.share("session-%d" % next(self.numbers))  # the sender's files
        self.received = "/tmp/received-" + os.path.basename(self.directory)  # in the guest

    def __enter__(self):
        os.makedirs(self.directory)
        self.guest.run("mkdir", self.received)
        return self

    def __exit__(self, kind, value, _):
        if kind:
            value.add_note("\n".join(process.describe() for process in self.processes[-4:]))
        for process in self.processes:
            self.end(process)
        for closer in self.closers:
            closer.close()
        self.guest.run("rm", "-r", self.received)

    def end(self, process):
        """SIGTERM lets the client in front of a guest's command take the command along."""
        if process.running():
            process.popen.terminate()
            if not process.ends_within(20):
                process.kill()

    def file(self, name, data):
        path = os.path.join(self.directory, name)
        with open(path, "wb") as handle:
            handle.write(data)
        return path

    def fifo(self, name):
        """A FIFO, and its writing end: unbuffered, and open before the reader comes."""
        path = os.path.join(self.directory, name)
        os.mkfifo(path)
        writer = open(os.open(path, os.O_RDWR), "wb", buffering=0)
        self.closers.append(writer)
        return path, writer

    # Both ends.

    def in_guest(self, *argv):
        return rig.Process(self, [LAB, "exec", *map(str, argv)], env=self.guest.environment)

    def recv(self, *arguments):
        """A receiver that is ready for its senders."""
        if "--output" not in arguments:
            arguments += ("--output", self.received)
        receiver = self.in_guest(PROGRAM, "recv", "--json", *arguments)
        receiver.await_text("stderr", r"^listening on ", LIMIT)
        return receiver

    def kill_in_guest(self):
        """kill -9 of the receiver there."""
        self.guest.run("sh", "-c", "kill -9 $(ss -Hltnp sport = :%d | "
                                   "sed 's/.*pid=\\([0-9]*\\).*/\\1/')" % rig.PORT)

    def send(self, *arguments, to=None, namespace=None, prefix=()):
        namespace = namespace or self.guest.namespace
        return rig.Process(self, ["ip", "netns", "exec", namespace, *prefix, PROGRAM, "send",
                                  "--to", to or self.guest.ADDRESS, "--json", "--quiet", *PATIENCE,
                                  *map(str, arguments)])

    # A whole transfer.

    def transfer(self, streams, *send, recv=(), limit=LIMIT, prefix=()):
        """Each element of streams is the content of a file, and of a stream. Returns what both ends
        say of them, contents compared in the guest."""
        names = ["stream-%02d" % number for number in range(len(streams))]
        files = [self.file(name, data) for name, data in zip(names, streams)]
        receiver = self.recv("--streams", len(streams), *recv)
        sender = self.send(*send, *files, prefix=prefix)
        sent, received = self.finish(sender, receiver, limit)
        self.check_contents(dict(zip(names, streams)))
        return sent, received

    def finish(self, sender, receiver, limit=LIMIT):
        """Both end well, and count the same. What they say of the streams, by name."""
        status = sender.finish(limit)
        check(status == 0, status, sender.stderr)
        status = receiver.finish(limit)
        check(status == 0, status, receiver.stderr)
        sent = {stream["name"]: stream for stream in sender.json()[0]["streams"]}
        received = {stream["name"]: stream for stream in receiver.json()}
        check(sent.keys() == received.keys(), sent.keys(), received.keys())
        for name, stream in sent.items():
            check(stream["delivered"], stream)
            check(received[name]["state"] == "complete", received[name])
            for count in ("messages", "bytes"):
                check(stream[count] == received[name][count], stream, received[name])
        return sent, received

    def hashes(self, names):
        lines = self.guest.run("sh", "-c", "cd %s && sha256sum %s" %
                               (self.received, " ".join(names)))
        return dict(reversed(line.split()) for line in lines.splitlines())

    def read(self, name):
        """The content of a file that was received."""
        path = self.file("copy", b"")
        self.guest.run("cp", os.path.join(self.received, name), path)
        with open(path, "rb") as handle:
            return handle.read()

    def check_contents(self, contents):
        """contents: by the name of the stream, whose file in the guest has it too."""
        expected = {name: sha256(data) for name, data in contents.items()}
        found = self.hashes(sorted(contents))
        wrong = [name for name in expected if found.get(name) != expected[name]]
        check(not wrong, "other content in", *wrong)

    # The wire.

    def capture(self, expression=ROCE, interface="tx1"):
        """What passes the path: at tx1 requests come in and replies go out."""
        capture = rig.Capture(self.guest.path, interface, expression)
        self.closers.append(capture)
        return capture


def only(streams):
    """The only stream of those that a transfer returned."""
    check(len(streams) == 1, streams)
    return next(iter(streams.values()))


def opcodes(frames):
    return {frame.opcode for frame in wire.requests(frames)}


def comment(text, *values):
    """A figure for the reader of the TAP."""
    print("# " + text % values, flush=True)


class Dropper:
    """An XDP program on an interface of the path that drops some of the RoCE frames that come in:
    "tx1" has data, "tap0" has acknowledgements. The same seed, the same sequence."""

    def __init__(self, session, interface, seed, percent):
        self.namespace, self.interface = session.guest.path, interface
        self.object = os.path.join(session.directory, "dropper-%s.o" % interface)
        rig.run("clang", "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror",
                "-I/usr/include/" + os.uname().machine + "-linux-gnu",
                "-DSEED=%du" % seed, "-DPERCENT=%du" % percent,
                "-c", os.path.join(HERE, "dropper.bpf.c"), "-o", self.object)

    def __enter__(self):
        self._attach("obj", self.object, "sec", "xdp")
        return self

    def __exit__(self, *_):
        self._attach("off")

    def _attach(self, *what):
        rig.run("ip", "-n", self.namespace, "link", "set", "dev", self.interface, "xdpgeneric",
                *what)


class SecondSender:
    """Another namespace on the same path, with an address of its own."""

    ADDRESS = "192.0.2.3"

    def __init__(self, guest):
        self.path, self.namespace = guest.path, guest.name + "-two"

    def __enter__(self):
        rig.run("ip", "netns", "add", self.namespace)
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make(self):
        rig.run("ip", "link", "add", "tx0", "mtu", "4200", "netns", self.namespace, "type", "veth",
                "peer", "name", "tx2", "mtu", "4200", "netns", self.path)
        for namespace, *lines in (
                (self.path, "link set tx2 addrgenmode none", "link set tx2 master bridge0",
                 "link set tx2 up"),
                (self.namespace, "link set lo up", "link set tx0 addrgenmode none",
                 "addr add %s/24 dev tx0" % self.ADDRESS, "link set tx0 up")):
            rig.run("ip", "-n", namespace, "-batch", "-", text="\n".join(lines) + "\n")

    def __exit__(self, *_):
        subprocess.run(["ip", "netns", "del", self.namespace], stderr=subprocess.DEVNULL)

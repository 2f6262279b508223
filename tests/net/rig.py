# SPDX-License-Identifier: BSD-2-Clause
"""Two network namespaces with a veth pair between them, a sender in one and a receiver in the other.

    tx (192.0.2.1, interface tx0)  ────────────  rx (192.0.2.2, interface rx0)

A Rig is a context manager. Whatever happens, its processes are ended and its namespaces removed. At
its end it checks what must hold in every test: no ICMP on the wire, no XDP program left, no process
left.
"""
import atexit
import ctypes
import errno
import hashlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import wire

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.abspath(os.environ.get("XDP2ROCE", os.path.join(TOP, "build/xdp2roce")))
TX_IP, RX_IP = "192.0.2.1", "192.0.2.2"
TX_IP6, RX_IP6 = "fd00::1", "fd00::2"
PORT = 18515
ROCE_PORT = 4791
ICMP = "icmp or (icmp6 and not (ip6[40] >= 133 and ip6[40] <= 137))"  # but neighbour discovery


class Failure(AssertionError):
    """The product did not do what it must."""


class Skip(Exception):
    """The test cannot run here; the text says why."""


def check(condition, text, *found):
    if not condition:
        raise Failure(text + (": " + ", ".join(map(repr, found)) if found else ""))


def check_equal(found, expected, what):
    if found != expected:
        raise Failure("%s is %r, expected %r" % (what, found, expected))


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Skip("%s is not installed" % program)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def payload(length, seed=0):
    return random.Random(seed).randbytes(length)


def run(*argv, text=None, timeout=20):
    """A command of the system's own; its output, or an exception with all it said."""
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=timeout)
    if done.returncode:
        raise RuntimeError("%s: exit %d: %s%s" % (" ".join(argv), done.returncode, done.stdout,
                                                  done.stderr))
    return done.stdout


class Process:
    """A program under test. Its output is collected as it comes and can be waited for."""

    def __init__(self, rig, argv, stdin=subprocess.DEVNULL, env=None):
        self.argv = argv
        self.news = threading.Condition()
        self.text = {"stdout": "", "stderr": ""}
        self.popen = subprocess.Popen(argv, stdin=stdin, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, cwd=rig.directory, env=env)
        self.pid = self.popen.pid
        self.readers = [threading.Thread(target=self._read, args=(name,), daemon=True)
                        for name in self.text]
        for reader in self.readers:
            reader.start()
        rig.processes.append(self)

    def _read(self, name):
        pipe = getattr(self.popen, name)
        while data := os.read(pipe.fileno(), 65536):
            with self.news:
                self.text[name] += data.decode(errors="replace")
                self.news.notify_all()
        with self.news:
            self.news.notify_all()

    @property
    def stdout(self):
        return self.text["stdout"]

    @property
    def stderr(self):
        return self.text["stderr"]

    def await_text(self, name, pattern, timeout=10):
        """Waits until the stream matches; the match."""
        expression = re.compile(pattern, re.M)
        reader = self.readers[list(self.text).index(name)]
        deadline = time.monotonic() + timeout
        with self.news:
            while not (match := expression.search(self.text[name])):
                left = deadline - time.monotonic()
                if left <= 0 or not reader.is_alive():
                    raise Failure("%s did not print %r on %s within %g s" %
                                  (self.argv, pattern, name, timeout))
                self.news.wait(min(left, 0.2))
        return match

    def finish(self, timeout=30):
        """Waits for the end; the exit status."""
        try:
            status = self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Failure("%s did not end within %g s" % (self.argv, timeout)) from None
        for reader in self.readers:
            reader.join(10)
        return status

    def ends_within(self, seconds):
        try:
            self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def running(self):
        return self.popen.poll() is None

    def signal(self, number):
        self.popen.send_signal(number)

    def kill(self):
        if self.running():
            self.popen.kill()
        self.popen.wait(10)

    def describe(self):
        status = self.popen.poll()
        return "$ %s\n  status %s\n  stdout: %s\n  stderr: %s" % (
            " ".join(self.argv), "running" if status is None else status,
            self.stdout[-3000:].strip(), self.stderr[-3000:].strip())

    # What both commands print with --json.

    def json(self):
        check(self.stdout.strip(), "no JSON on standard output of %s" % self.argv, self.stderr)
        return [json.loads(line) for line in self.stdout.splitlines()]

    def sent(self):
        """The sender's only stream."""
        streams = self.json()[0]["streams"]
        check_equal(len(streams), 1, "number of streams")
        return streams[0]

    def received(self):
        """The receiver's only stream."""
        streams = self.json()
        check_equal(len(streams), 1, "number of streams")
        return streams[0]


class Capture:
    """A packet socket with a filter. The kernel keeps the frames until they are asked for."""

    BUFFER = 256 << 20
    SO_TIMESTAMPNS, SOL_PACKET, PACKET_STATISTICS, PACKET_AUXDATA = 35, 263, 6, 8
    PACKET_OUTGOING = 4
    filters = {}

    def __init__(self, namespace, interface, expression):
        self.name = "%s in %s" % (interface, namespace)
        self.interface = interface
        self.taken = []
        self.socket = in_namespace(namespace, lambda: self._open(expression))

    def _open(self, expression):
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        program = self._compile(expression)
        opened.setsockopt(socket.SOL_SOCKET, 26, program)  # SO_ATTACH_FILTER
        opened.setsockopt(socket.SOL_SOCKET, 33, self.BUFFER)  # SO_RCVBUFFORCE
        opened.setsockopt(socket.SOL_SOCKET, self.SO_TIMESTAMPNS, 1)
        opened.setsockopt(self.SOL_PACKET, self.PACKET_AUXDATA, 1)
        opened.bind((self.interface, 3))  # ETH_P_ALL
        opened.setblocking(False)
        return opened

    def _compile(self, expression):
        """struct sock_fprog of what tcpdump makes of the expression."""
        if expression not in self.filters:
            lines = run("tcpdump", "-y", "EN10MB", "-ddd", expression).splitlines()[1:]
            code = b"".join(wire.BPF.pack(*map(int, line.split())) for line in lines)
            self.filters[expression] = (len(lines), ctypes.create_string_buffer(code))
        count, code = self.filters[expression]
        return wire.FPROG.pack(count, ctypes.addressof(code))

    def _take(self):
        while True:
            try:
                data, extra, _, address = self.socket.recvmsg(65536, 128)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENETDOWN:  # told once when a test takes the link down
                    raise
                continue
            stamp = next((wire.TIMESPEC.unpack(value[:16]) for level, kind, value in extra
                          if kind == self.SO_TIMESTAMPNS), (0, 0))
            # The kernel takes the VLAN tag out of the frame and tells it beside it.
            tag = next((wire.vlan_tag(value) for level, kind, value in extra
                        if (level, kind) == (self.SOL_PACKET, self.PACKET_AUXDATA)), None)
            self.taken.append(wire.Frame(stamp[0] + stamp[1] / 1e9,
                                         address[2] == self.PACKET_OUTGOING, data, tag))

    def frames(self):
        """All frames until now, oldest first; it is a failure to have missed one."""
        self._take()
        statistics = self.socket.getsockopt(self.SOL_PACKET, self.PACKET_STATISTICS, 12)
        check(not int.from_bytes(statistics[4:8], "little"), "the capture lost frames", self.name)
        return self.taken

    def await_frames(self, enough, what, timeout=10):
        """Waits until enough(frames) is true."""
        deadline = time.monotonic() + timeout
        while not enough(self.frames()):
            left = deadline - time.monotonic()
            if left <= 0:
                raise Failure("%s: not seen within %g s, %d frames were" %
                              (what, timeout, len(self.taken)))
            wire.wait_readable(self.socket, min(left, 1))

    def close(self):
        self.socket.close()


def in_namespace(namespace, action):
    """Runs action in a thread of its own that has entered the namespace; sockets stay there."""
    result = []

    def enter():
        try:
            with open("/run/netns/" + namespace, "rb") as handle:
                os.setns(handle, os.CLONE_NEWNET)
            result.append((action(), None))
        except BaseException as error:  # handed on to the caller
            result.append((None, error))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    value, error = result[0]
    if error:
        raise error
    return value


class Rig:
    def __init__(self, mtu=4200):
        self.mtu = mtu
        self.tx, self.rx = ("x2r-%d-%s" % (os.getpid(), end) for end in ("tx", "rx"))
        self.processes = []
        self.captures = []
        self.closers = []
        self.directory = None
        self.icmp_from = set()
        self.open = False

    # Life.

    def __enter__(self):
        if not os.access(PROGRAM, os.X_OK):
            raise Skip("%s is not built" % PROGRAM)
        if os.geteuid():
            raise Skip("network namespaces need root")
        need("ip", "tcpdump")
        self.open = True
        atexit.register(self.close)
        self.directory = tempfile.mkdtemp(prefix="x2r-")
        os.chmod(self.directory, 0o755)
        try:
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def _make(self):
        for namespace in (self.tx, self.rx):
            run("ip", "netns", "add", namespace)
        run("ip", "link", "add", "tx0", "mtu", str(self.mtu), "netns", self.tx, "type", "veth",
            "peer", "name", "rx0", "mtu", str(self.mtu), "netns", self.rx)
        for namespace, interface, address in ((self.tx, "tx0", TX_IP), (self.rx, "rx0", RX_IP)):
            # Without IPv6 addresses nothing but the test itself is on the wire.
            self.ip(namespace, "link set lo up", "link set %s addrgenmode none" % interface,
                    "addr add %s/24 dev %s" % (address, interface), "link set %s up" % interface)
        self.watchers = [self.capture("tx0", ICMP), self.capture("rx0", ICMP)]

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                self.check_clean()
        finally:
            if kind is not None and not issubclass(kind, Skip):
                self.diagnosis = self.diagnose()
                value.add_note(self.diagnosis)
            self.close()

    def close(self):
        if not self.open:
            return
        self.open = False
        for process in self.processes:
            process.kill()
        for closer in self.captures + self.closers:
            closer.close()
        for namespace in (self.tx, self.rx):
            subprocess.run(["ip", "netns", "del", namespace], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.directory, ignore_errors=True)
        atexit.unregister(self.close)

    def ip(self, namespace, *lines):
        return run("ip", "-n", namespace, "-batch", "-", text="\n".join(lines) + "\n")

    def add_ipv6(self):
        """And link-local addresses, which neighbour discovery asks from."""
        for namespace, interface, address in ((self.tx, "tx0", TX_IP6), (self.rx, "rx0", RX_IP6)):
            self.ip(namespace, "addr add %s/64 dev %s nodad" % (address, interface),
                    "addr add %s/64 dev %s nodad" % (address.replace("fd00", "fe80"), interface))

    def allow_icmp_from(self, address):
        """For the end whose process is killed: its guard on UDP 4791 dies with it."""
        self.icmp_from.add(address)

    # What must hold in every test.

    def check_clean(self):
        for process in self.processes:
            check(not process.running(), "the test left a process running", process.argv)
            check("Sanitizer" not in process.stderr, "a sanitizer spoke", process.stderr)
        for namespace in (self.tx, self.rx):
            left = run("ip", "netns", "pids", namespace).split()
            check(not left, "processes left in " + namespace, left)
        self.check_no_program()
        self.check_no_icmp()

    def check_no_icmp(self):
        for watcher in self.watchers:
            found = [frame for frame in watcher.frames()
                     if not (frame.source_ip in self.icmp_from and frame.port_unreachable)]
            check(not found, "ICMP on %s" % watcher.name,
                  [frame.data[:60].hex() for frame in found])

    def xdp_program(self, interface="tx0", namespace=None):
        """Id of the XDP program on the interface, or None."""
        links = json.loads(run("ip", "-j", "-n", namespace or self.tx, "link", "show", interface))
        xdp = links[0].get("xdp")
        return xdp and xdp.get("prog", {}).get("id", -1)

    def check_no_program(self):
        check_equal(self.xdp_program(), None, "XDP program left on tx0")
        check_equal(self.xdp_program("rx0", self.rx), None, "XDP program left on rx0")

    def diagnose(self):
        text = [process.describe() for process in self.processes[-4:]]
        for namespace in (self.tx, self.rx):
            done = subprocess.run(["ip", "-n", namespace, "-s", "link", "show", "type", "veth"],
                                  capture_output=True, text=True)
            text.append(done.stdout.rstrip())
        return "\n".join(text)

    # Programs and files.

    def path(self, name):
        return os.path.join(self.directory, name)

    def file(self, name, data):
        with open(self.path(name), "wb") as handle:
            handle.write(data)
        return self.path(name)

    def make_directory(self, name):
        os.mkdir(self.path(name))
        return self.path(name)

    def fifo(self, name):
        """A FIFO, and its writing end: unbuffered, and open before the reader comes."""
        os.mkfifo(self.path(name))
        writer = open(os.open(self.path(name), os.O_RDWR), "wb", buffering=0)
        self.closers.append(writer)
        return self.path(name), writer

    def read(self, name):
        with open(self.path(name), "rb") as handle:
            return handle.read()

    def start(self, namespace, *argv, **more):
        return Process(self, ["ip", "netns", "exec", namespace, *map(str, argv)], **more)

    def recv(self, *arguments, listening=True):
        """A receiver, ready for its senders. Output goes to the file "received"."""
        arguments = list(arguments)
        if "--output" not in arguments:
            arguments += ["--output", self.path("received")]
        process = self.start(self.rx, PROGRAM, "recv", "--soft", "--json", *arguments)
        if listening:
            process.await_text("stderr", r"^listening on ")
        return process

    def send(self, *arguments, to=RX_IP, prefix=(), **more):
        return self.start(self.tx, *prefix, PROGRAM, "send", "--to", to, "--json", "--quiet",
                          *arguments, **more)

    def capture(self, interface, expression):
        capture = Capture(self.tx if interface == "tx0" else self.rx, interface, expression)
        self.captures.append(capture)
        return capture

    def capture_roce(self):
        """RoCEv2 at the receiver's end: frames of AF_XDP cannot be seen where they leave."""
        return self.capture("rx0", "udp dst port %d" % ROCE_PORT)

    # A whole transfer.

    def transfer(self, data, *send, recv=(), timeout=30, name="data.bin"):
        """Sends data as a file. Returns what both ends say of the stream, contents compared."""
        source = self.file(name, data)
        receiver = self.recv(*recv)
        sender = self.send(*send, source)
        sent, received = self.finish(sender, receiver, timeout)
        self.check_content(data)
        check_equal(sent["bytes"], len(data), "bytes sent")
        return sent, received

    def finish(self, sender, receiver, timeout=30):
        """Both end well, and count the same."""
        status = sender.finish(timeout)
        check_equal(status, 0, "exit status of the sender, which said %r," % sender.stderr)
        status = receiver.finish(timeout)
        check_equal(status, 0, "exit status of the receiver, which said %r," % receiver.stderr)
        sent, received = sender.sent(), receiver.received()
        check(sent["delivered"], "the stream is not delivered", sent)
        check_equal(received["state"], "complete", "state at the receiver")
        for count in ("messages", "bytes"):
            check_equal(received[count], sent[count], count + " at the receiver")
        return sent, received

    def check_content(self, data, name="received"):
        found = self.read(name)
        check_equal(len(found), len(data), "length of what was received")
        check_equal(sha256(found), sha256(data), "SHA-256 of what was received")

    def check_works(self):
        """After whatever went wrong, the next run works at once."""
        data = payload(50000, 99)
        self.transfer(data, name="again.bin")


def sentence(process, *patterns, timeout=10, status=None, option=False):
    """The process ends with a non-zero status and one sentence that matches every pattern."""
    found = process.finish(timeout)
    check(found != 0, "exit status 0 of a run that must fail", process.argv)
    check(found > 0, "ended by signal %d" % -found, process.argv)
    if status is not None:
        check_equal(found, status, "exit status")
    lines = [line for line in process.stderr.strip().splitlines()
             if not line.startswith("listening on ")]
    if option and len(lines) == 2 and lines[1].startswith("Try `"):
        lines.pop()
    check_equal(len(lines), 1, "number of lines in %r" % process.stderr)
    check(re.match(r"xdp2roce (send|recv): ", lines[0]), "no sentence of the program", lines[0])
    for pattern in patterns:
        check(re.search(pattern, lines[0]), "the sentence does not match %r" % pattern, lines[0])
    return lines[0]


def stop_by_signal(*_):
    raise SystemExit("stopped by a signal")


signal.signal(signal.SIGTERM, stop_by_signal)
signal.signal(signal.SIGINT, stop_by_signal)

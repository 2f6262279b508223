# SPDX-License-Identifier: BSD-2-Clause
"""Runs in the guest: executes what arrives on the virtio port, see channel.py.

Every command is a session of its own. What a command leaves behind in the background goes on
running; its output then belongs into a file."""
import fcntl
import glob
import json
import os
import pty
import queue
import struct
import subprocess
import termios
import threading
import time

from channel import (CHUNK, ERROR, EXIT, INPUT, OUTPUT, READY, RUN, SIGNAL, SIZE, frame,
                     read_blocking)

DEVICE = "/sys/class/infiniband/rxe0"


class Port:
    def __init__(self):
        name, = (path for path in glob.glob("/sys/class/virtio-ports/*/name")
                 if open(path).read().strip() == "lab")
        device = os.open("/dev/" + name.split("/")[-2], os.O_RDWR)
        self.input = open(device, "rb", buffering=65536, closefd=False)
        self.device = device
        self.lock = threading.Lock()

    def send(self, channel, kind, payload=b""):
        data = memoryview(frame(channel, kind, payload))
        with self.lock:
            while data:
                data = data[os.write(self.device, data):]


class Command:
    def __init__(self, port, channel, request, ended):
        self.port, self.channel, self.ended = port, channel, ended
        self.terminal = None
        spawn = self._spawn_terminal if request["tty"] else self._spawn_pipes
        self.child = spawn(request["argv"], cwd=request["cwd"], start_new_session=True,
                           env=dict(os.environ, TERM=request["tty"] or "dumb"))
        self.pending = queue.SimpleQueue()

    def start(self):
        for target in (self._follow, self._feed):
            threading.Thread(target=target, daemon=True).start()

    def _spawn_pipes(self, argv, **more):
        child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, bufsize=0, **more)
        self.input = child.stdin
        self.outputs = [(child.stdout, OUTPUT), (child.stderr, ERROR)]
        return child

    def _spawn_terminal(self, argv, **more):
        master, slave = pty.openpty()
        child = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave,
                                 preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), **more)
        os.close(slave)
        self.terminal = open(master, "rb", buffering=0)
        self.input = open(os.dup(master), "wb", buffering=0)
        self.outputs = [(self.terminal, OUTPUT)]
        return child

    def _follow(self):
        """Passes output on until the command ends."""
        readers = [threading.Thread(target=self._copy, args=output, daemon=True)
                   for output in self.outputs]
        for reader in readers:
            reader.start()
        status = self.child.wait()
        for reader in readers:
            # What it left in the background may hold the pipes for ever.
            reader.join(0.5)
        self.ended(self.channel)
        self.port.send(self.channel, EXIT, status if status >= 0 else 128 - status)
        self.write(b"")

    def _copy(self, output, kind):
        while True:
            try:
                data = os.read(output.fileno(), CHUNK)
            except OSError:  # the terminal's last user is gone
                return
            if not data:
                return
            self.port.send(self.channel, kind, data)

    def _feed(self):
        with self.input:
            while data := memoryview(self.pending.get()):
                try:
                    while data:
                        data = data[os.write(self.input.fileno(), data):]
                except OSError:  # it does not read any more
                    return

    def write(self, data):
        """Bytes for the command; none ends its input."""
        self.pending.put(data)

    def signal(self, number):
        try:
            os.killpg(self.child.pid, number)
        except ProcessLookupError:
            pass

    def resize(self, rows, columns):
        if self.terminal:
            fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Agent:
    def __init__(self):
        self.port = Port()
        self.commands = {}

    def serve(self):
        while not os.path.exists(DEVICE):
            time.sleep(0.05)
        with open("/proc/uptime") as uptime:
            self.port.send(0, READY, {"release": os.uname().release,
                                      "uptime": float(uptime.read().split()[0])})
        while received := read_blocking(self.port.input):
            self.handle(*received)

    def handle(self, channel, kind, payload):
        if kind == RUN:
            self.run(channel, json.loads(payload))
            return
        command = self.commands.get(channel)
        if command is None:  # it has just ended
            return
        if kind == INPUT:
            command.write(payload)
        elif kind == SIGNAL:
            command.signal(int(payload))
        elif kind == SIZE:
            command.resize(**json.loads(payload))

    def run(self, channel, request):
        try:
            command = Command(self.port, channel, request, self.commands.pop)
        except OSError as error:
            self.port.send(channel, ERROR, ("lab: cannot run %s: %s\n" % (
                request["argv"][0], error.strerror)).encode())
            self.port.send(channel, EXIT, 127 if isinstance(error, FileNotFoundError) else 126)
            return
        self.commands[channel] = command
        command.start()


if __name__ == "__main__":
    Agent().serve()

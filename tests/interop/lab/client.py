# SPDX-License-Identifier: BSD-2-Clause
"""Runs one command in the guest, as a client of the supervisor."""
import fcntl
import os
import signal
import socket
import struct
import sys
import termios
import threading
import tty

import channel

TIMED_OUT, LAB_GONE = 124, 125
GRACE = 10  # seconds from SIGKILL until the guest must have answered


class Client:
    def __init__(self, path, terminal):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.lock = threading.Lock()
        self.terminal = terminal
        self.timed_out = False

    def send(self, kind, payload=b""):
        try:
            with self.lock:
                self.socket.sendall(channel.frame(0, kind, payload))
        except OSError:  # the lab has ended; receive() finds it too
            pass

    def run(self, argv, cwd, timeout):
        """The command's exit status."""
        self.send(channel.RUN, {"argv": argv, "cwd": cwd,
                                "tty": self.terminal and os.environ.get("TERM", "dumb")})
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: self._later(channel.SIGNAL, int(number)))
        if timeout:
            self._after(timeout, self._expire)
        threading.Thread(target=self._feed, daemon=True).start()
        if not self.terminal:
            return self._receive()
        saved = termios.tcgetattr(0)
        try:
            tty.setraw(0)
            signal.signal(signal.SIGWINCH, lambda *_: self._resize())
            self._resize()
            return self._receive()
        finally:
            termios.tcsetattr(0, termios.TCSADRAIN, saved)

    def _later(self, *frame):
        # A handler may have interrupted send(), which holds the lock.
        threading.Thread(target=self.send, args=frame, daemon=True).start()

    def _resize(self):
        rows, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))
        self._later(channel.SIZE, {"rows": rows, "columns": columns})

    def _after(self, seconds, action):
        timer = threading.Timer(seconds, action)
        timer.daemon = True
        timer.start()

    def _expire(self):
        self.timed_out = True
        self.send(channel.SIGNAL, int(signal.SIGKILL))
        self._after(GRACE, lambda: self.socket.shutdown(socket.SHUT_RDWR))

    def _feed(self):
        while True:
            try:
                data = os.read(0, channel.CHUNK)
            except OSError:  # closed
                data = b""
            self.send(channel.INPUT, data)
            if not data:
                return

    def _receive(self):
        stream = self.socket.makefile("rb")
        while received := channel.read_blocking(stream):
            _, kind, payload = received
            if kind == channel.EXIT:
                return TIMED_OUT if self.timed_out else int(payload)
            try:
                while payload:
                    payload = payload[os.write(2 if kind == channel.ERROR else 1, payload):]
            except BrokenPipeError:  # the command gets SIGTERM, see the supervisor
                return 128 + signal.SIGPIPE
        if self.timed_out:
            return TIMED_OUT
        print("lab: the guest ended before the command did", file=sys.stderr)
        return LAB_GONE

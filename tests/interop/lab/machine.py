# SPDX-License-Identifier: BSD-2-Clause
"""The supervisor of one guest: it makes the network, runs qemu, passes commands between clients and
the guest's agent, and removes everything when it ends.

qemu dies with the supervisor, however that ends; the namespaces that a killed one left are removed
when the next lab starts. What belongs to a running lab is in RUN/NAME: a lock that is held as long
as the supervisor lives, the socket for clients, the guest's console and what qemu complained of.
The name ends with the supervisor's process id."""
import asyncio
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import channel
import kernel
import network

RUN = "/run/xdp2roce-lab"
QEMU = "qemu-system-x86_64"
SHARE = os.path.join(kernel.STORE, "share")
BOOT_LIMIT = 240  # seconds; emulated on an idle machine it takes about 10
BACKLOG_LIMIT = 64 << 20  # bytes of output that a client has not read
PR_SET_PDEATHSIG = 1
TAKEN_BACK = 1  # seconds between SIGTERM and SIGKILL for a command whose client is gone


def die_with_parent(number):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


def exclusively():
    """Held while labs are made or swept away: a lock that nobody holds yet is not a dead lab's."""
    os.makedirs(RUN, mode=0o700, exist_ok=True)
    lock = open(RUN + ".lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def alive(name):
    """The supervisor's process id, or None when it is dead."""
    try:
        with open(os.path.join(RUN, name, "lock")) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return int(name.rpartition("-")[2])
    except FileNotFoundError:
        pass
    return None


def running():
    """Names of the labs that can be used."""
    return [name for name in (os.listdir(RUN) if os.path.isdir(RUN) else ())
            if alive(name) and os.path.exists(os.path.join(RUN, name, "socket"))]


def sweep():
    """Removes what labs left that were killed."""
    for name in os.listdir(RUN):
        if not alive(name):
            network.remove(name)
            shutil.rmtree(os.path.join(RUN, name), ignore_errors=True)


def has_kvm():
    """Whether KVM is worth a trial: some hosts have the device without the processor's support."""
    with open("/proc/cpuinfo") as information:
        flags = next((line.split() for line in information if line.startswith("flags")), ())
    return ("vmx" in flags or "svm" in flags) and os.access("/dev/kvm", os.R_OK | os.W_OK)


def text_of(path):
    try:
        with open(path, errors="replace") as handle:
            return handle.read()
    except OSError:
        return ""


class BootFailed(Exception):
    """The guest did not come up; the text says what is known."""


class Machine:
    def __init__(self, name, linux):
        self.name = name
        self.linux = linux
        self.directory = os.path.join(RUN, name)
        self.console = os.path.join(self.directory, "console")
        self.complaints = os.path.join(self.directory, "qemu")
        self.qemu = None
        self.clients = {}
        self.last_channel = 0

    # Life.

    def create(self):
        os.makedirs(SHARE, exist_ok=True)
        with exclusively():
            sweep()
            os.makedirs(self.directory, mode=0o700)
            self.lock = open(os.path.join(self.directory, "lock"), "w")
            fcntl.flock(self.lock, fcntl.LOCK_EX)

    def remove(self):
        if self.qemu:
            self.qemu.kill()
            self.qemu.wait()
        network.remove(self.name)
        shutil.rmtree(self.directory, ignore_errors=True)

    async def boot(self):
        """Boots with KVM where that works, else emulated; what the guest says of itself."""
        if has_kvm():
            try:
                return await self._boot("kvm", "host")
            except BootFailed as error:
                print("lab: KVM does not work here, the guest is emulated: %s" % error,
                      file=sys.stderr)
        return await self._boot("tcg,thread=multi", "max")

    async def _boot(self, accelerator, processor):
        network.remove(self.name)
        self.start = time.monotonic()
        tap = network.create(self.name)
        ours, theirs = socket.socketpair()
        with open(self.complaints, "w") as complaints:
            self.qemu = subprocess.Popen(
                self._arguments(accelerator, processor, tap, theirs.fileno()),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=complaints,
                pass_fds=(tap, theirs.fileno()), preexec_fn=lambda: die_with_parent(signal.SIGKILL))
        os.close(tap)
        theirs.close()
        self.from_guest, self.to_guest = await asyncio.open_connection(sock=ours)
        try:
            _, _, told = await asyncio.wait_for(self._first_frame(), BOOT_LIMIT)
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError, BootFailed) as error:
            self.qemu.kill()
            self.qemu.wait()
            raise BootFailed(self._why(error)) from None
        return dict(json.loads(told), accelerator=accelerator.split(",")[0],
                    seconds=time.monotonic() - self.start)

    async def _first_frame(self):
        """The agent's READY. A processor that KVM cannot run makes qemu stop, not end."""
        ready = asyncio.ensure_future(channel.read(self.from_guest))
        while not ready.done():
            await asyncio.wait((ready,), timeout=0.5)
            if "internal error" in text_of(self.complaints):
                ready.cancel()
                raise BootFailed(text_of(self.complaints).split("\n")[0])
        return ready.result()

    def _why(self, error):
        if isinstance(error, BootFailed):
            return str(error)
        told = text_of(self.complaints) + text_of(self.console)[-2000:]
        what = ("was not ready within %d s" % BOOT_LIMIT if isinstance(error, TimeoutError) else
                "ended before it was ready")
        return "the guest %s: %s" % (what, told.strip())

    def _arguments(self, accelerator, processor, tap, agent):
        return [
            QEMU, "-name", self.name, "-accel", accelerator, "-cpu", processor,
            "-smp", "2", "-m", "2048",
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", self.linux.image, "-initrd", self.linux.initramfs, "-append",
            "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable no_timer_check "
            "random.trust_cpu=on lab.tree=%s lab.modules=%s lab.mtu=%d lab.address=%s" %
            (kernel.TOP, self.linux.modules, network.MTU, network.GUEST),
            "-serial", "file:" + self.console,
            "-device", "virtio-serial-pci", "-chardev", "socket,id=agent,fd=%d" % agent,
            "-device", "virtserialport,chardev=agent,name=lab",
            "-netdev", "tap,id=wire,fd=%d" % tap,
            "-device", "virtio-net-pci,netdev=wire,host_mtu=%d,romfile=" % network.MTU,
            "-fsdev", "local,id=root,path=/,security_model=passthrough,readonly=on,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=root,mount_tag=root",
            "-fsdev", "local,id=share,path=%s,security_model=passthrough" % SHARE,
            "-device", "virtio-9p-pci,fsdev=share,mount_tag=share"]

    async def listen(self):
        self.server = await asyncio.start_unix_server(self._client,
                                                      os.path.join(self.directory, "socket"))

    async def serve(self):
        """Passes frames on until the guest ends."""
        try:
            while True:
                self._from_guest(*await channel.read(self.from_guest))
        except (asyncio.IncompleteReadError, ConnectionError):
            for client in self.clients.values():
                client.close()

    def _from_guest(self, number, kind, payload):
        client = self.clients.get(number)
        if client is None:
            return
        # Never waits for a client: others would wait too.
        client.write(channel.frame(0, kind, payload))
        if client.transport.get_write_buffer_size() > BACKLOG_LIMIT:
            client.transport.abort()
        if kind == channel.EXIT:
            del self.clients[number]
            client.close()

    async def _client(self, reader, writer):
        self.last_channel += 1
        number = self.last_channel
        self.clients[number] = writer
        try:
            while True:
                _, kind, payload = await channel.read(reader)
                self._to_guest(number, kind, payload)
                await self.to_guest.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        if self.clients.pop(number, None):
            self._to_guest(number, channel.SIGNAL, int(signal.SIGTERM))
            await asyncio.sleep(TAKEN_BACK)
            self._to_guest(number, channel.SIGNAL, int(signal.SIGKILL))
        writer.close()

    def _to_guest(self, number, kind, payload):
        self.to_guest.write(channel.frame(number, kind, payload))


async def supervise(name, linux, report):
    """Runs a lab until SIGTERM or the guest's end; report(information) is called when it is up."""
    machine = Machine(name, linux)
    task = asyncio.current_task()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        machine.create()
        information = await machine.boot()
        await machine.listen()
        report(information)
        await machine.serve()
    except asyncio.CancelledError:
        pass
    finally:
        machine.remove()

# SPDX-License-Identifier: BSD-2-Clause
"""What a person can get wrong: one sentence with the cure, a non-zero exit, nothing left behind."""
import json
import os
import socket
import threading

from cases import each, mtu
from rig import (PORT, PROGRAM, RX_IP, TX_IP, Skip, check, check_equal, in_namespace, need, payload,
                 run, sentence)
from test_life import start_endless


class Peer:
    """Something else than an xdp2roce receiver that listens at its port."""

    def __init__(self, rig, speak):
        self.speak = speak
        self.listener = in_namespace(rig.rx, lambda: socket.create_server((RX_IP, PORT)))
        self.connection = None
        threading.Thread(target=self._serve, daemon=True).start()
        rig.closers.append(self)

    def _serve(self):
        try:
            self.connection = self.listener.accept()[0]
            self.speak(self.connection)
        except OSError:
            pass

    def close(self):
        self.listener.close()
        if self.connection:
            self.connection.close()


def some_file(rig):
    return rig.file("data.bin", payload(20000))


def without(*capabilities):
    names = ",".join(capabilities)
    return "setpriv", "--inh-caps", names, "--bounding-set", names


def finish_clean(rig, sender, *patterns, **more):
    sentence(sender, *patterns, **more)
    rig.check_no_program()


# The source.

def test_missing_file(rig):
    finish_clean(rig, rig.send("/nonexistent/file"), "/nonexistent/file cannot be opened",
                 "No such")
    rig.check_works()


def test_unreadable_file(rig):
    need("setpriv")
    path = some_file(rig)
    os.chmod(path, 0)
    sender = rig.send(path, prefix=without("-dac_override", "-dac_read_search"))
    finish_clean(rig, sender, "data.bin cannot be opened", "Permission denied", "readable file")
    os.chmod(path, 0o644)
    rig.check_works()


def test_directory(rig):
    finish_clean(rig, rig.send("/usr"), "/usr is a directory", "expected")


def test_one_bad_source_of_two(rig):
    """Nothing is sent of the good one."""
    receiver = rig.recv("--timeout", "2s")
    finish_clean(rig, rig.send(some_file(rig), "/nonexistent"), "/nonexistent cannot be opened")
    sentence(receiver, "no stream finished")


# The way.

def test_no_such_interface(rig):
    finish_clean(rig, rig.send("--interface", "nosuch0", some_file(rig)), "no interface nosuch0",
                 "ip link")
    rig.check_works()


def test_wrong_interface(rig):
    """It exists, but the receiver is elsewhere."""
    rig.ip(rig.tx, "link add other0 type veth peer name other1", "link set other0 up",
           "addr add 203.0.113.1/24 dev other0", "link set other1 up")
    finish_clean(rig, rig.send("--interface", "other0", some_file(rig)), "other0", "tx0")


def test_interface_that_is_down(rig):
    rig.ip(rig.tx, "link set tx0 down")
    finish_clean(rig, rig.send("--interface", "tx0", some_file(rig)), "tx0", "down")
    rig.ip(rig.tx, "link set tx0 up")
    rig.check_works()


def test_interface_without_ethernet(rig):
    finish_clean(rig, rig.send("--interface", "lo", some_file(rig)), r"\blo\b")


def test_no_route(rig):
    finish_clean(rig, rig.send(some_file(rig), to="198.51.100.7"), "no route to 198.51.100.7",
                 "gateway|address")
    rig.check_works()


def test_nobody_has_the_address(rig):
    finish_clean(rig, rig.send(some_file(rig), to="192.0.2.77"), "192.0.2.77 does not answer ARP",
                 timeout=15)
    # The kernel of this end tells its own sockets, never the wire.


@each(TX_IP, "127.0.0.1", "localhost")
def test_address_of_this_machine(rig, address):
    finish_clean(rig, rig.send(some_file(rig), to=address), "address of this machine",
                 "another host or in another network namespace")
    rig.check_works()


@each("0.0.0.0", "224.0.0.5", "255.255.255.255", "192.0.2.255")
def test_address_of_no_single_host(rig, address):
    finish_clean(rig, rig.send(some_file(rig), to=address), address.replace(".", r"\."))


def test_unknown_host(rig):
    finish_clean(rig, rig.send(some_file(rig), to="nosuch.invalid"), "nosuch.invalid", timeout=30)


@mtu(1500)
def test_mtu_too_small(rig):
    path = some_file(rig)
    finish_clean(rig, rig.send("--pmtu", 4096, path), "PMTU 4096 needs an MTU of 4[0-9]{3}",
                 "found 1500", "ip link set tx0 mtu", "smaller --pmtu")
    sent, _ = rig.transfer(payload(20000))
    check_equal(sent["frames"], 20, "frames: with MTU 1500 the PMTU is 1024")


def test_mtu_too_small_at_the_receiver(rig):
    rig.ip(rig.rx, "link set rx0 mtu 1500")
    receiver = rig.recv()
    path = some_file(rig)
    finish_clean(rig, rig.send("--pmtu", 4096, path), "receiver 192.0.2.2 refused", "4096", "1500",
                 "rx0")
    sender = rig.send("--pmtu", 1024, path)
    check_equal(sender.finish(), 0, "exit status of the same with --pmtu 1024 (%s)" % sender.stderr)
    check_equal(receiver.finish(), 0, "exit status of the receiver (%s)" % receiver.stderr)
    rig.check_content(payload(20000))


def test_port_closed(rig):
    finish_clean(rig, rig.send(some_file(rig)), "nothing listens at 192.0.2.2:18515", "recv")
    rig.check_works()


# The other end.

ANSWER = {"ip": RX_IP, "qpn": 77, "psn": 5, "pmtu": 4096, "rkey": 1, "address": 4096,
          "slot_size": 1 << 20, "slot_count": 4}


def line(**members):
    return json.dumps({"xdp2roce": 1, **members}).encode() + b"\n"


def answer(**changes):
    return line(answer={key: value for key, value in (ANSWER | changes).items()
                        if value is not None})


@each(*{
    "another version": (b'{"xdp2roce":2,"answer":{}}\n', "version 2", "version 1", "same version"),
    "ssh": (b"SSH-2.0-OpenSSH_10.0p2 Debian-7\r\n", "not an xdp2roce receiver", "host and port"),
    "http": (b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "not an xdp2roce receiver"),
    "binary": (bytes(range(256)) + b"\n", "not an xdp2roce receiver"),
    "other JSON": (b'{"hello":"world"}\n', "not an xdp2roce receiver"),
    "endless line": (b"{" * 10000, "longer than 4096 bytes"),
    "refusal": (line(error="the cellar is full"), "refused", "the cellar is full"),
    "refusal with control bytes": (line(error="a\x1b[31m\nb"), "refused"),
    "no QPN": (answer(qpn=None), r'no "qpn"'),
    "QPN 0": (answer(qpn=0), '"qpn": 0', "from 2"),
    "QPN beyond 24 bit": (answer(qpn=1 << 24), "qpn"),
    "negative rkey": (answer(rkey=-1), "rkey"),
    "rkey in words": (answer(rkey="1"), "rkey"),
    "other PMTU": (answer(pmtu=1024), "PMTU", "1024"),
    "no PMTU at all": (answer(pmtu=1000), "pmtu"),
    "small slots": (answer(slot_size=4096), "slots? of 4096"),
    "one slot": (answer(slot_count=1), "slot"),
    "memory beyond its end": (answer(address=(1 << 64) - 4096), "64-bit address space"),
    "other address": (answer(ip="192.0.2.9"), "another address"),
    "multicast address": (answer(ip="224.0.0.1"), "ip"),
}.items())
def test_peer(rig, name, row):
    speech, *patterns = row
    peer = Peer(rig, lambda connection: (connection.sendall(speech), connection.recv(65536)))
    finish_clean(rig, rig.send(some_file(rig)), *patterns)
    peer.close()


def test_peer_closes(rig):
    peer = Peer(rig, lambda connection: connection.close())
    finish_clean(rig, rig.send(some_file(rig)),
                 "closed the connection before its answer|lost the connection")
    peer.close()
    rig.check_works()


def test_peer_says_nothing(rig):
    Peer(rig, lambda connection: connection.recv(1))
    finish_clean(rig, rig.send(some_file(rig)), "sent no answer within|did not answer", "xdp2roce",
                 timeout=12)


@each(*{
    "another version": (b'{"xdp2roce":2,"offer":{}}\n', "version 2"),
    "http": (b"GET / HTTP/1.1\r\nHost: receiver\r\n\r\n", "not an xdp2roce sender"),
    "binary": (bytes(range(1, 256)) + b"\n", "not an xdp2roce sender"),
    "nothing": (b"", "closed the connection"),
    "endless line": (b"{" * 10000, "4096 bytes|lost the connection"),
}.items())
def test_stranger_at_the_receiver(rig, name, row):
    """The receiver says who that was, and goes on."""
    speech, pattern = row
    receiver = rig.recv()
    stranger = in_namespace(rig.tx, lambda: socket.create_connection((RX_IP, PORT), 5))
    try:
        stranger.sendall(speech)
        stranger.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the receiver has heard enough
    receiver.await_text("stderr", "^xdp2roce recv: refused 192.0.2.1: .*(%s)" % pattern)
    stranger.close()
    data = payload(20000)
    sender = rig.send(rig.file("data.bin", data))
    rig.finish(sender, receiver)
    rig.check_content(data)
    check_equal(len(receiver.stderr.splitlines()), 2, "lines of the receiver: " + receiver.stderr)


def test_receiver_port_in_use(rig):
    receiver = rig.recv()
    sentence(rig.recv(listening=False), "18515 is in use", "stop the program")
    receiver.kill()


# Privileges.

@each(*{
    "all, MAC unknown": (("-all",), False, r"root|CAP_"),
    "all, MAC known": (("-all",), True, r"CAP_"),
    "BPF": (("-bpf", "-sys_admin"), True, "CAP_BPF"),
    "network administration": (("-net_admin", "-sys_admin"), True, "CAP_NET_ADMIN"),
    "raw sockets": (("-net_raw",), True, "CAP_NET_RAW"),
}.items())
def test_missing_privilege(rig, name, row):
    need("setpriv")
    capabilities, mac_known, pattern = row
    if mac_known:
        mac = json.loads(run("ip", "-j", "-n", rig.rx, "link", "show", "rx0"))[0]["address"]
        rig.ip(rig.tx, "neigh replace %s lladdr %s dev tx0" % (RX_IP, mac))
    receiver = rig.recv()
    path = some_file(rig)
    finish_clean(rig, rig.send(path, prefix=without(*capabilities)), pattern, "root|grant")
    sender = rig.send(path)
    rig.finish(sender, receiver)


def test_receiver_without_privilege(rig):
    need("setpriv")
    receiver = rig.start(rig.rx, *without("-all"), PROGRAM, "recv", "--soft", "--json")
    match = receiver.await_text("stderr", "^(listening on|xdp2roce recv: .*CAP_NET_RAW)")
    if match.group(0).startswith("listening"):
        finish_clean(rig, rig.send(some_file(rig)), "refused", "CAP_NET_RAW", "root")
        receiver.await_text("stderr", "^xdp2roce recv: .*CAP_NET_RAW")
    receiver.kill()
    rig.check_works()


# Interfaces with an owner.

def test_interface_of_another_xdp2roce(rig):
    sender, receiver = start_endless(rig)
    program = rig.xdp_program()
    sentence(rig.send(some_file(rig)), r"tx0 is in use by xdp2roce, pid %d\b" % sender.pid,
             "stop it")
    check_equal(rig.xdp_program(), program, "XDP program of the first sender")
    check(sender.running(), "the first sender was disturbed", sender.stderr)
    sender.signal(15)
    sentence(sender, "stopped")
    receiver.finish()
    rig.check_works()


FOREIGN = """
#define SEC(name) __attribute__((section(name), used))
SEC("xdp") int watchman(void *context) { return 2; }
char _license[] SEC("license") = "GPL";
"""


@mtu(1500)  # native mode without fragments takes no more
@each("xdpgeneric", "xdpdrv")
def test_interface_with_another_program(rig, mode):
    need("clang")
    source = rig.file("watchman.c", FOREIGN.encode())
    run("clang", "--target=bpf", "-O2", "-g", "-c", "-o", rig.path("watchman.o"), source)
    try:
        rig.ip(rig.tx, "link set dev tx0 %s obj %s sec xdp" % (mode, rig.path("watchman.o")))
    except RuntimeError as error:
        raise Skip("ip cannot attach a program here: %s" % error) from None
    program = rig.xdp_program()
    check(program, "the foreign program is not attached")
    receiver = rig.recv()
    path = some_file(rig)
    sentence(rig.send(path), r"tx0 already has an XDP program", "watchman", r"\b%d\b" % program,
             "%s off" % mode)
    check_equal(rig.xdp_program(), program, "the foreign program's id afterwards")
    rig.ip(rig.tx, "link set dev tx0 %s off" % mode)
    rig.finish(rig.send(path), receiver)

# SPDX-License-Identifier: BSD-2-Clause
"""The wire between the sender's namespace and the guest.

    sender's namespace NAME        namespace NAME-path                    guest
    tx0, 192.0.2.1  ─────────────  tx1 ── bridge0 ── tap0  ─────────────  eth0, 192.0.2.2, rxe0
                        veth                            virtio-net

The path's namespace is where a test puts what loses, delays or changes frames: data comes in at
tx1, acknowledgements come in at tap0."""
import fcntl
import os
import struct
import subprocess
import threading

SENDER, GUEST = "192.0.2.1", "192.0.2.2"
MTU = 4200  # PMTU 4096 with its headers
TUNSETIFF, IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x400454CA, 2, 0x1000, 0x4000


def path_of(name):
    return name + "-path"


def create(name):
    """Makes both namespaces; a descriptor of the tap, which lives as long as the descriptor."""
    path = path_of(name)
    for namespace in (name, path):
        ip("netns", "add", namespace)
    ip("link", "add", "tx0", "mtu", str(MTU), "netns", name, "type", "veth",
       "peer", "name", "tx1", "mtu", str(MTU), "netns", path)
    # Without IPv6 addresses nothing but the test itself is on the wire.
    batch(name, "link set lo up", "link set tx0 addrgenmode none",
          "addr add %s/24 dev tx0" % SENDER, "link set tx0 up")
    tap = open_tap(path)
    batch(path, "link add bridge0 type bridge stp_state 0 mcast_snooping 0",
          *("link set %s addrgenmode none" % interface for interface in ("bridge0", "tap0", "tx1")),
          *("link set %s mtu %d" % (interface, MTU) for interface in ("bridge0", "tap0")),
          *("link set %s master bridge0" % interface for interface in ("tap0", "tx1")),
          *("link set %s up" % interface for interface in ("tx1", "tap0", "bridge0")))
    return tap


def remove(name):
    for namespace in (name, path_of(name)):
        subprocess.run(["ip", "netns", "del", namespace], stderr=subprocess.DEVNULL)


def open_tap(namespace):
    result = []

    def enter():
        try:
            with open("/run/netns/" + namespace, "rb") as handle:
                os.setns(handle, os.CLONE_NEWNET)
            tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", b"tap0",
                                                    IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
            result.append(tap)
        except OSError as error:  # handed on to the caller
            result.append(error)

    # A thread can be in a namespace of its own.
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if isinstance(result[0], OSError):
        raise result[0]
    return result[0]


def ip(*argv, text=None):
    done = subprocess.run(["ip", *argv], input=text, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError("ip %s: %s" % (" ".join(argv), done.stderr.strip()))


def batch(namespace, *lines):
    ip("-n", namespace, "-batch", "-", text="\n".join(lines) + "\n")

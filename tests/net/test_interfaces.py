# SPDX-License-Identifier: BSD-2-Clause
"""Other interfaces than a plain veth."""
from cases import each
from rig import PORT, RX_IP, TX_IP, check_equal, need, payload, run


@each(1024, 4096)
def test_generic_mode(rig, pmtu):
    """macvlan knows no native XDP: the program falls back, and says so."""
    rig.ip(rig.tx, "addr flush dev tx0",
           "link add link tx0 name mv0 mtu %d type macvlan mode bridge" % rig.mtu,
           "link set mv0 addrgenmode none", "addr add %s/24 dev mv0" % TX_IP, "link set mv0 up")
    data = payload(300000, pmtu)
    receiver = rig.recv("--faults", "drop=2%", "--seed", 3)
    sender = rig.send("--pmtu", pmtu, "--message-size", 50001, "--ring", 64,
                      rig.file("data.bin", data))
    rig.finish(sender, receiver)
    rig.check_content(data)
    whole = sender.json()[0]
    check_equal((whole["interface"], whole["xdp_mode"]), ("mv0", "generic"), "interface and mode")
    check_equal(rig.xdp_program("mv0"), None, "XDP program left on mv0")


def test_gateway(rig):
    """The receiver is behind a router: its MAC is the router's."""
    far = "198.51.100.2"
    rig.ip(rig.tx, "route add 198.51.100.0/24 via %s" % RX_IP)
    rig.ip(rig.rx, "addr add %s/32 dev rx0" % far)
    data = payload(100000, 1)
    receiver = rig.recv()
    sender = rig.send(rig.file("data.bin", data), to="%s:%d" % (far, PORT))
    rig.finish(sender, receiver)
    rig.check_content(data)


def test_second_address(rig):
    """The frames come from the address that the route prefers, as the exchange said."""
    rig.ip(rig.tx, "addr add 192.0.2.5/24 dev tx0",
           "route replace 192.0.2.0/24 dev tx0 src 192.0.2.5")
    capture = rig.capture_roce()
    rig.transfer(payload(50000, 2))
    sources = {frame.source_ip for frame in capture.frames() if not frame.is_ack}
    check_equal(sources, {"192.0.2.5"}, "source addresses of the frames")


def test_many_queues(rig):
    """ACKs may come in on any queue."""
    need("ethtool")
    run("ip", "netns", "exec", rig.tx, "ethtool", "-L", "tx0", "rx", "2", "tx", "2")
    data = payload(2 << 20, 3)
    receiver = rig.recv("--faults", "drop=1%", "--seed", 5)
    sender = rig.send("--queue", 1, "--pmtu", 1024, rig.file("data.bin", data))
    rig.finish(sender, receiver)
    rig.check_content(data)

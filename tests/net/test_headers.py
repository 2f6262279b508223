# SPDX-License-Identifier: BSD-2-Clause
"""IPv6, VLAN, DSCP, ECN and TTL: what is asked for is what is on the wire."""
import json

from cases import each, limit, mtu
from rig import (RX_IP, RX_IP6, TX_IP, Skip, check, check_equal, need, payload, run,
                 sentence)
from test_eyes import dissect, number
from wire import requests

FAULTS = "drop=2%,duplicate=1%,reorder=1%,corrupt=1%,drop-replies=2%"


def send(rig, data, *options, to=RX_IP, recv=()):
    receiver = rig.recv(*recv)
    result = rig.finish(rig.send(*options, rig.file("data.bin", data), to=to), receiver)
    rig.check_content(data)
    return result


@each(RX_IP6, "[%s]" % RX_IP6, "[%s]:18515" % RX_IP6)
def test_ipv6(rig, to):
    rig.add_ipv6()
    capture = rig.capture_roce()
    sent, received = send(rig, payload(1000001), "--pmtu", 1024, "--message-size", 40000, to=to,
                          recv=("--seed", 6))
    check_equal({frame.ipv6 for frame in capture.frames()}, {True}, "IPv6")
    check_equal(sent["retransmitted_frames"], 0, "retransmissions")


@each("rc", "rc with records", "uc")
def test_ipv6_with_loss(rig, how):
    rig.add_ipv6()
    options = {"rc": (), "uc": ("--transport", "uc"),
               "rc with records": ("--segmentation", "packet", "--record", "on")}[how]
    faults = FAULTS if how != "uc" else "duplicate-frame=1000000"
    _, received = send(rig, payload(600001), "--pmtu", 1024, "--message-size", 40000,
                       "--ack-timeout", "50ms", *options, to=RX_IP6,
                       recv=("--slots", 64, "--seed", 6, "--faults", faults))
    check(how == "uc" or received["faults"]["dropped"] > 3, "hardly a frame was lost", received)


@mtu(4170)
def test_ipv6_is_20_bytes_longer(rig):
    rig.add_ipv6()
    path = rig.file("data.bin", payload(20000))
    sentence(rig.send("--pmtu", 4096, path, to=RX_IP6), "PMTU 4096 needs an MTU of 4180",
             "found 4170")
    sent, _ = send(rig, payload(20000), to=RX_IP6)
    check_equal(sent["frames"], 10, "frames of PMTU 2048")


@each(("fe80::1", "link-local"), ("fd00::77", "fd00::77 does not answer"),
      ("fd01::1", "no route to fd01::1"), ("::1", "address of this machine|no Ethernet"),
      ("ff02::1", "ff02::1"))
def test_ipv6_address_that_cannot_be(rig, to, pattern):
    rig.add_ipv6()
    sentence(rig.send(rig.file("data.bin", payload(20000)), to=to), pattern, timeout=15)
    rig.check_no_program()


def scapy_icrc(frames):
    try:
        from scapy.contrib.roce import BTH
        from scapy.layers.l2 import Ether
    except ImportError as error:
        raise Skip("python3-scapy with scapy.contrib.roce is needed: %s" % error) from None
    for frame in frames:
        packet = Ether(frame.whole)
        check(BTH in packet, "scapy sees no BTH", frame.whole[:80].hex())
        packet[BTH].icrc = None
        check_equal(bytes(packet)[-4:].hex(), frame.data[-4:].hex(), "ICRC, scapy's against ours")


@limit(90)
@each(*[(ip, fields) for ip in ("IPv4", "IPv6") for fields in ((0, 0, 64), (46, 2, 1), (63, 3, 255))])
def test_dscp_ecn_ttl(rig, ip, fields):
    need("tshark")
    rig.add_ipv6()
    dscp, ecn, ttl = fields
    capture = rig.capture_roce()
    send(rig, payload(50001), "--pmtu", 1024, "--dscp", dscp, "--ecn", ecn, "--ttl", ttl,
         to=RX_IP if ip == "IPv4" else RX_IP6, recv=("--faults", "drop-frame=9"))
    frames = requests(capture.frames())
    check_equal({(frame.traffic_class, frame.ttl, frame.tci) for frame in frames},
                {(dscp << 2 | ecn, ttl, None)}, "traffic class, TTL, VLAN tag")
    names = (("ip.dsfield.dscp", "ip.dsfield.ecn", "ip.ttl") if ip == "IPv4" else
             ("ipv6.tclass.dscp", "ipv6.tclass.ecn", "ipv6.hlim"))
    rows = dissect(rig, frames, "infiniband.bth.opcode", *names)
    check_equal({tuple(number(cell) for cell in row[1:]) for row in rows}, {fields}, "tshark's")
    check(all(row[0] for row in rows), "tshark sees no BTH")
    scapy_icrc(frames)


@each((1, 0), (5, 3), (4094, 7))
def test_vlan(rig, vid, pcp):
    """
    No VLAN interface is needed: the receiver's packet socket on rx0 takes tagged frames too. TCP and
    the answers are untagged.
    """
    need("tshark")
    capture = rig.capture_roce()
    sent, received = send(rig, payload(300001), "--pmtu", 1024, "--vlan-id", vid, "--vlan-pcp", pcp,
                          "--ack-timeout", "50ms", recv=("--seed", 3, "--faults", FAULTS))
    check(received["faults"]["dropped"] > 0, "no frame was lost", received)
    frames = requests(capture.frames())
    check_equal({frame.tci for frame in frames}, {pcp << 13 | vid}, "VLAN tag")
    rows = dissect(rig, frames, "vlan.id", "vlan.priority", "infiniband.bth.opcode")
    check_equal({tuple(row[:2]) for row in rows}, {(str(vid), str(pcp))}, "tshark's VLAN tag")
    scapy_icrc(frames)


def make_vlan(rig, namespace, interface, vid):
    try:
        rig.ip(namespace, "link add link %s name vlan%d type vlan id %d" % (interface, vid, vid),
               "link set vlan%d up" % vid)
    except RuntimeError as error:
        raise Skip("no VLAN interface can be made here: %s" % error) from None


def test_vlan_to_a_vlan_interface(rig):
    """
    The receiver is at a VLAN interface. TCP reaches it through the sender's, by a rule; the route
    that the sender finds is through tx0, so it has to tag its frames itself.
    """
    make_vlan(rig, rig.rx, "rx0", 5)
    make_vlan(rig, rig.tx, "tx0", 5)
    mac = json.loads(run("ip", "-j", "-n", rig.rx, "link", "show", "rx0"))[0]["address"]
    rig.ip(rig.rx, "addr del %s/24 dev rx0" % RX_IP, "addr add %s/24 dev vlan5" % RX_IP)
    rig.ip(rig.tx, "neigh replace %s lladdr %s dev tx0" % (RX_IP, mac),
           "route add 192.0.2.0/24 dev vlan5 table 100", "rule add ipproto tcp lookup 100")
    send(rig, payload(300001), "--pmtu", 1024, "--vlan-id", 5)


def test_vlan_interfaces(rig):
    """Both ends on VLAN interfaces: tagged by the kernel, nothing to be asked for."""
    for namespace, interface, address in ((rig.rx, "rx0", RX_IP), (rig.tx, "tx0", TX_IP)):
        make_vlan(rig, namespace, interface, 7)
        rig.ip(namespace, "addr del %s/24 dev %s" % (address, interface),
               "addr add %s/24 dev vlan7" % address)
    send(rig, payload(300001), "--pmtu", 1024)

# SPDX-License-Identifier: BSD-2-Clause
"""Other people's eyes: tshark and scapy on what we send and on what the responder answers."""
import collections

import wire
from cases import each, limit
from rig import Skip, check, check_equal, need, payload, run

PMTUS = (256, 512, 1024, 2048, 4096)
PADS = (0, 1, 2, 3)  # bytes less than a multiple of four


def send_sizes(rig, pmtu, sizes, *options, slots=16):
    """Messages of these sizes in one stream each; all frames on the receiver's side."""
    capture = rig.capture_roce()
    for size in sizes:
        receiver = rig.recv("--slots", slots)
        source = ("--pattern", "--messages", 3, "--message-size", size, "--ack-timeout", "2s")
        rig.finish(rig.send("--pmtu", pmtu, *source, *options), receiver)
    return capture.frames()


def sample(rig, pmtu, immediate):
    """Only and First/Middle/Last, every pad count in both, nothing at all."""
    sizes = [0] + [100 - pad for pad in PADS] + [3 * pmtu - pad for pad in PADS]
    return send_sizes(rig, pmtu, sizes, "--immediate", immediate)


def expected_opcodes(immediate):
    ends = ((wire.WRITE_LAST_IMM, wire.WRITE_ONLY_IMM) if immediate == "on" else
            (wire.WRITE_LAST, wire.WRITE_ONLY))
    return {wire.WRITE_FIRST, wire.WRITE_MIDDLE, wire.ACKNOWLEDGE, *ends}


def dissect(rig, frames, *fields):
    """tshark's view: one list of field values per frame."""
    wire.write_pcap(rig.path("frames.pcap"), frames)
    tshark = ["tshark", "-n", "-r", rig.path("frames.pcap"), "-o", "ip.check_checksum:TRUE",
              "-o", "udp.ignore_ipv6_zero_checksum:TRUE"]  # RFC 6935; the ICRC covers all
    malformed = run(*tshark, "-Y", "_ws.malformed || _ws.expert.severity >= 0x00600000",
                    timeout=60)  # warnings and errors
    check(not malformed, "tshark calls frames malformed", malformed[:1000])
    check(not run(*tshark, "-Y", "ip.checksum.status == 0", timeout=60), "bad IP checksums")
    lines = run(*tshark, "-T", "fields", "-E", "separator=;",
                *[word for field in fields for word in ("-e", field)], timeout=60).splitlines()
    check_equal(len(lines), len(frames), "frames that tshark sees")
    return [line.split(";") for line in lines]


def number(text):
    return int(text, 0)


@limit(90)
@each(*[(pmtu, immediate) for pmtu in PMTUS for immediate in ("on", "off")])
def test_tshark(rig, pmtu, immediate):
    need("tshark")
    frames = sample(rig, pmtu, immediate)
    check_equal({frame.opcode for frame in frames}, expected_opcodes(immediate), "opcodes sent")
    rows = dissect(rig, frames, "frame.protocols", "infiniband.bth.opcode", "infiniband.bth.psn",
                   "infiniband.bth.a", "infiniband.bth.padcnt", "infiniband.bth.destqp",
                   "infiniband.reth.dmalen", "infiniband.immdt", "infiniband.aeth.syndrome",
                   "udp.dstport", "ip.flags.df", "ip.ttl", "udp.checksum")
    expected = {}
    for frame, row in zip(frames, rows):
        (protocols, opcode, psn, ackreq, pad, qpn, length, immediate_data, syndrome, port, df, ttl,
         checksum) = row
        check("infiniband" in protocols, "not dissected as RRoCE", protocols)
        check_equal(number(opcode), frame.opcode, "tshark's opcode")
        check_equal(number(psn), frame.psn, "tshark's PSN")
        check_equal(number(pad), frame.pad, "tshark's pad count")
        check_equal((port, number(ttl), number(checksum)), ("4791", 64, 0), "port, TTL, checksum")
        check(df in ("1", "True"), "DF is not set", df)
        if frame.is_ack:
            check(syndrome, "no AETH in an acknowledgement", row)
            continue
        first = frame.opcode in (wire.WRITE_FIRST, wire.WRITE_ONLY, wire.WRITE_ONLY_IMM)
        last = frame.opcode not in (wire.WRITE_FIRST, wire.WRITE_MIDDLE)
        check_equal(bool(length), first, "RETH in opcode 0x%02x" % frame.opcode)
        check_equal(bool(immediate_data), last and immediate == "on",
                    "ImmDt in opcode 0x%02x" % frame.opcode)
        check(not last or ackreq in ("1", "True"), "no AckReq at a message's end", row)
        # In order, without a gap, in each stream.
        if qpn in expected:
            check_equal(frame.psn, expected[qpn], "PSN in the stream to QPN " + qpn)
        expected[qpn] = (frame.psn + 1) % wire.PSNS
    seen = collections.Counter(frame.pad for frame in wire.requests(frames))
    check_equal(set(seen), set(PADS), "pad counts sent")


@limit(90)
@each(*[(pmtu, immediate) for pmtu in PMTUS for immediate in ("on", "off")])
def test_scapy_icrc(rig, pmtu, immediate):
    """scapy takes each frame apart, forgets its ICRC, and computes it again from what it knows."""
    try:
        from scapy.contrib.roce import BTH
        from scapy.layers.l2 import Ether
    except ImportError as error:
        raise Skip("python3-scapy with scapy.contrib.roce is needed: %s" % error) from None
    frames = sample(rig, pmtu, immediate)
    kinds = set()
    for frame in frames:
        packet = Ether(frame.data)
        check(BTH in packet, "scapy sees no BTH", frame.data[:64].hex())
        check_equal(packet[BTH].psn, frame.psn, "scapy's PSN")
        check_equal(packet[BTH].opcode, frame.opcode, "scapy's opcode")
        packet[BTH].icrc = None
        check_equal(bytes(packet)[-4:].hex(), frame.data[-4:].hex(),
                    "ICRC, scapy's against ours, of opcode 0x%02x, pad %d" % (frame.opcode,
                                                                              frame.pad))
        kinds.add(frame.opcode)
    check_equal(kinds, expected_opcodes(immediate), "opcodes that scapy saw")


def test_naks_to_tshark_and_scapy(rig):
    """The responder's other answers: NAK of a gap, RNR NAK."""
    need("tshark")
    try:
        from scapy.contrib.roce import AETH, BTH
        from scapy.layers.l2 import Ether
    except ImportError as error:
        raise Skip("python3-scapy with scapy.contrib.roce is needed: %s" % error) from None
    capture = rig.capture_roce()
    rig.transfer(payload(200000), "--pmtu", 1024, "--message-size", 20000, recv=(
        "--faults", "drop-frame=30,withhold=5ms:3", "--rnr-timer", 14, "--slots", 4, "--credits",
        "unlimited"))
    frames = wire.replies(capture.frames())
    rows = dissect(rig, frames, "infiniband.aeth.syndrome", "infiniband.bth.opcode")
    syndromes = {number(row[0]) for row in rows}
    check({0x60, 0x2E, 0x1F} <= syndromes, "ACK, NAK and RNR NAK are not all there", syndromes)
    for frame in frames:
        packet = Ether(frame.data)
        check_equal(packet[AETH].syndrome, frame.syndrome, "scapy's syndrome")
        packet[BTH].icrc = None
        check_equal(bytes(packet)[-4:].hex(), frame.data[-4:].hex(), "ICRC of an answer")


def test_replayed_frames_are_the_same_bytes(rig):
    """A frame is built once: what goes out again is what went out first."""
    capture = rig.capture_roce()
    rig.transfer(payload(300000), "--pmtu", 1024, "--message-size", 20000, "--ring", 64,
                 "--ack-timeout", "50ms", recv=("--faults", "drop=5%", "--seed", 4))
    first, again = {}, 0
    for frame in wire.requests(capture.frames()):
        again += frame.psn in first
        check_equal(frame.data, first.setdefault(frame.psn, frame.data), "a replayed frame")
    check(again > 3, "hardly a frame was replayed", again)


def test_pattern_is_what_it_says(rig):
    """The pattern depends on the seed alone, and is no trivial one."""
    contents = []
    for seed in (0, 0, 1):
        receiver = rig.recv()
        rig.finish(rig.send("--pattern", "--messages", 3, "--message-size", 10000, "--seed", seed),
                   receiver)
        contents.append(rig.read("received"))
    check_equal(len(contents[0]), 30000, "length")
    check(contents[0] == contents[1] != contents[2], "the seed does not decide the pattern")
    check(len(set(contents[0])) == 256, "not every byte value occurs")

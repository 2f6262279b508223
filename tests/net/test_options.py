# SPDX-License-Identifier: BSD-2-Clause
"""Bad options: one sentence that names the option or the value, and exit status 2."""
import os
import re

from cases import each
from rig import PROGRAM, RX_IP, Skip, check, sentence

SEND = [
    ("--nosuch", "nosuch"),
    ("--pmtu", "pmtu"),
    ("--queue x", "queue.*'x'"), ("--queue 65536", "queue.*65536"), ("--queue -1", "queue.*-1"),
    ("--message-size 3XB", "3XB"), ("--message-size -1", "-1"), ("--message-size 3GiB", "2 GiB"),
    ("--message-size 0", "message-size 0"),
    ("--message-size 99999999999999999999", "too many digits"),
    ("--size x", "'x'"),
    ("--immediate maybe", "immediate.*maybe"),
    ("--pmtu 1000", "PMTU.*1000"), ("--pmtu 128", "PMTU.*128"), ("--pmtu 8192", "PMTU.*8192"),
    ("--pmtu x", "PMTU.*'x'"),
    ("--ring 8", "ring.*8"), ("--ring 100", "ring.*100"), ("--ring 65536", "ring.*65536"),
    ("--ack-timeout 5", "'5'.*500us"), ("--ack-timeout -1ms", "-1ms"), ("--ack-timeout 1y", "1y"),
    ("--retry 8", "retry.*8"), ("--retry x", "retry.*'x'"),
    ("--rnr-retry 8", "rnr-retry.*8"), ("--rnr-retry -1", "rnr-retry.*-1"),
    ("--start-psn 0x1000000", "start-psn.*0x1000000"), ("--start-psn x", "start-psn.*'x'"),
    ("--to 192.0.2.2:0", "port.*0"), ("--to 192.0.2.2:65536", "port.*65536"),
    ("--to 192.0.2.2:x", "port.*'x'"), ("--to :1", "':1'"), ("--to []", r"'\[\]'"),
    ("--to [fd00::2", "ADDR"), ("--to [fd00::2]1", "ADDR"), ("--to [fd00::2]:0", "port.*0"),
    ("--segmentation x", "segmentation.*'x'"), ("--record yes", "record.*'yes'"),
    ("--dscp 64", "dscp.*64"), ("--ecn 4", "ecn.*4"), ("--ttl 0", "ttl.*0"),
    ("--ttl 256", "ttl.*256"), ("--vlan-id 0", "vlan-id.*0"), ("--vlan-id 4095", "vlan-id.*4095"),
    ("--vlan-id 5 --vlan-pcp 8", "vlan-pcp.*8"), ("--vlan-pcp 3", "--vlan-id"),
    ("--pattern", "exclude each other"), ("--streams 2", "--streams is for --pattern"),
    ("--connect perftest://192.0.2.2", "--to and --connect exclude each other"),
]
PATTERN = [
    ("--messages 0", "messages.*0"), ("--messages x", "messages.*'x'"), ("--seed x", "seed.*'x'"),
    ("--seed 18446744073709551616", "seed"),
    ("--streams 0", "streams.*0"), ("--streams 63", "streams.*63"), ("--streams x", "streams.*'x'"),
]
CONNECT = [
    ("", "requires an argument"),
    ("192.0.2.2", "expected xdp2roce://, perftest:// or pingpong://"),
    ("http://192.0.2.2", "--connect http://192.0.2.2"), ("Perftest://192.0.2.2", "Perftest://"),
    ("://192.0.2.2", "--connect ://192.0.2.2"), ("perftest:192.0.2.2", "perftest:192.0.2.2"),
    ("perftest://", "--connect.*''"), ("perftest://:1", "':1'"),
    ("perftest://192.0.2.2:0", "port.*0"), ("perftest://192.0.2.2:65536", "port.*65536"),
    ("perftest://[2001:db8::1", "ADDR"),
    ("perftest://192.0.2.2 --segmentation packet", "perftest:// takes whole messages"),
    ("perftest://192.0.2.2 --record on", "perftest:// takes whole messages"),
    ("perftest://192.0.2.2 --transport uc --record on", "perftest:// takes whole messages"),
    ("perftest://192.0.2.2 --immediate on", "takes no immediates"),
    ("perftest://192.0.2.2 --to 192.0.2.2", "exclude each other"),
    ("pingpong://192.0.2.2", "takes no RDMA Writes: name no source"),
]
RECV = [
    ("--nosuch", "nosuch"), ("argument", "argument"), ("--listen", "listen"),
    ("--listen 192.0.2.2:65536", "port.*65536"), ("--listen 192.0.2.2:x", "port.*'x'"),
    ("--streams x", "streams.*'x'"), ("--streams -1", "streams.*-1"),
    ("--slots 1", "slots.*1"), ("--slots 65537", "slots.*65537"), ("--slots x", "slots.*'x'"),
    ("--slot-size 100", "slot-size"), ("--slot-size 0", "slot-size"), ("--slot-size 4GiB", "2GiB"),
    ("--memory x", "'x'"),
    ("--credits 31", "credits.*31"), ("--credits many", "credits.*many"),
    ("--rnr-timer 32", "rnr-timer.*32"),
    ("--faults nosuch=1%", "nosuch=1%"), ("--faults drop", "drop"), ("--faults drop=101%", "101%"),
    ("--faults drop=x", "drop=x"), ("--faults drop-frame=0", "drop-frame=0"),
    ("--faults delay=1%", "delay=1%"), ("--faults withhold=1ms", "withhold=1ms"),
    ("--faults drop=1%,drop=2%", "twice"), ("--faults delay-frame=3", "delay-frame"),
    ("--seed x", "seed.*'x'"), ("--reader-delay 5", "'5'"), ("--timeout x", "'x'"),
    ("--streams 2 --output /nonexistent", "directory"), ("--output -", "standard output"),
]


def check_rows(rig, rows, *command):
    """All rows at once: each is a process that ends by itself."""
    started = [(rig.start(rig.tx, PROGRAM, *command, *row[0].split()), *row) for row in rows]
    for process, arguments, pattern in started:
        text = sentence(process, status=2, option=True)
        check(re.search(pattern, text), "%s: %r is not in it" % (arguments, pattern), text)


def test_send(rig):
    data = rig.file("data.bin", b"x")
    check_rows(rig, SEND, "send", "--to", RX_IP, data)


def test_send_pattern(rig):
    check_rows(rig, PATTERN, "send", "--to", RX_IP, "--pattern")


def test_send_connect(rig):
    check_rows(rig, CONNECT, "send", "--pattern", "--connect")


@each("perftest", "pingpong")
def test_send_connect_to_nobody(rig, scheme):
    source = ("--pattern",) if scheme == "perftest" else ()
    sender = rig.start(rig.tx, PROGRAM, "send", "--connect", "%s://%s:1234" % (scheme, RX_IP),
                       *source)
    sentence(sender, "nothing listens at 192.0.2.2:1234", "ib_write_bw|ibv_rc_pingpong")
    rig.check_no_program()


def test_send_connect_to_xdp2roce(rig):
    """Another exchange than the receiver's own: either end says what the other is."""
    rig.recv("--timeout", "2s")
    sender = rig.start(rig.tx, PROGRAM, "send", "--connect", "perftest://" + RX_IP, "--pattern")
    sentence(sender, "is xdp2roce itself and not a perftest server: use --to")
    rig.check_no_program()
    rig.processes[0].kill()


def test_send_incomplete(rig):
    check_rows(rig, [("", "nothing to send")], "send", "--to", RX_IP)
    check_rows(rig, [("", "--to HOST is missing")], "send", "--pattern")


def test_recv(rig):
    check_rows(rig, RECV, "recv", "--soft", "--json")


DEVICE = [
    ("--soft --device rxe0", "--soft"),
    ("--soft --gid-index 1", "--soft"),
    ("--gid-index 1", "--device"),
    ("--device :1", "NAME"),
    ("--device rxe0:0", "port"),
    ("--device rxe0 --gid-index 256", "--gid-index"),
    ("--faults drop=1%", "--soft"),
    ("--credits 3", "--soft"),
    ("--seed 1", "--soft"),
]


def test_recv_device_options(rig):
    check_rows(rig, DEVICE, "recv")


def test_recv_without_device(rig):
    if os.path.exists("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"):
        raise Skip("this machine has an RDMA device")
    sentence(rig.start(rig.rx, PROGRAM, "recv"), "no RDMA device", "rdma_rxe", "--soft", status=1)


@each(("--listen 198.51.100.9", "198.51.100.9.*not an address of this machine"),
      ("--listen nosuch.invalid", "nosuch.invalid"))
def test_recv_cannot_listen(rig, arguments, pattern):
    sentence(rig.recv(*arguments.split(), listening=False), pattern, timeout=30)


def test_queue_that_is_not_there(rig):
    rig.recv("--timeout", "2s")
    sentence(rig.send("--queue", 7, rig.file("data.bin", b"x")), "queue 7")
    rig.check_no_program()
    rig.processes[0].kill()


def test_output_that_cannot_be_written(rig):
    receiver = rig.recv("--output", "/nonexistent/directory/file")
    sentence(rig.send(rig.file("data.bin", b"x")), "refused", "/nonexistent/directory/file")
    receiver.await_text("stderr", "cannot write to /nonexistent/directory/file")
    receiver.kill()


@each("", "nosuch")
def test_command(rig, command):
    process = rig.start(rig.tx, PROGRAM, *command.split())
    check(process.finish() == 2, "exit status of a command that is not there")
    check("Usage: xdp2roce COMMAND" in process.stderr, "no usage", process.stderr)
    check(not command or "no command 'nosuch'" in process.stderr, "not named", process.stderr)


@each("--help", "send --help", "recv --help")
def test_help(rig, arguments):
    process = rig.start(rig.tx, PROGRAM, *arguments.split())
    check(process.finish() == 0 and not process.stderr, "help is no error", process.stderr)
    check("Usage: xdp2roce" in process.stdout, "no usage on standard output", process.stdout)

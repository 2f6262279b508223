#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The essence of the other files with Linux 6.1, Debian 12's, in the guest. Prints TAP; exit status
77 where no guest can run."""
import os
import sys

sys.dont_write_bytecode = True
os.environ["LAB_KERNEL"] = "6.1"

import test_guest_kernel as kernel  # noqa: E402
import test_rxe_data as data  # noqa: E402
import test_rxe_trouble as trouble  # noqa: E402
from tap import cases, main  # noqa: E402

test_every_size_and_opcode = cases((1024, "on"), (4096, "off"))(
    lambda *row: data.test_every_size_and_opcode(*row))
test_psn_wraps = cases((0xFFFFFE, 3))(lambda *row: data.test_psn_wraps(*row))
test_uc_messages_of_many_packets = cases((2048,))(
    lambda *row: data.test_uc_messages_of_many_packets(*row))
test_uc_messages_of_one_packet_under_loss = cases((10,))(
    lambda *row: data.test_uc_messages_of_one_packet_under_loss(*row))
test_everything_arrives_despite_loss = cases(("both", 2, 5))(
    lambda *row: trouble.test_everything_arrives_despite_loss(*row))
test_receiver_without_receives = cases((12, 2, "60ms", 12))(
    lambda *row: trouble.test_receiver_without_receives(*row))
test_access_error = cases(("wrong rkey",), ("larger PMTU",))(
    lambda *row: trouble.test_access_error(*row))
test_two_senders_with_four_streams_each = trouble.test_two_senders_with_four_streams_each
test_bpf = kernel.test_bpf
test_sender_over_veth = kernel.test_sender_over_veth

if __name__ == "__main__":
    sys.exit(main(sys.modules[__name__]))

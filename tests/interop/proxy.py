#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Stands between a sender and a receiver and changes what they tell each other.

    proxy.py PORT HOST:PORT JSON

JSON is such as {"offer": {"pmtu": 1024}, "answer": {"rkey": 1}}: members of the one offer and the
one answer that get another value; a text such as "+4096" is added to what was there. When the
receiver's end of the connection goes, the sender's stays open: the sender is left alone with
silence."""
import json
import socket
import sys
import threading


def changed(line, changes):
    message = json.loads(line)
    for kind, members in changes.items():
        for name, value in members.items() if kind in message else ():
            old = message[kind][name]
            message[kind][name] = old + int(value) if isinstance(value, str) else value
    return json.dumps(message).encode() + b"\n"


def pass_on(source, sink, changes):
    try:
        for line in source.makefile("rb"):
            sink.sendall(changed(line, changes))
    except OSError:  # either end has gone
        pass


def main():
    port, target, changes = int(sys.argv[1]), sys.argv[2].split(":"), json.loads(sys.argv[3])
    with socket.create_server(("", port)) as listener:
        print("ready", flush=True)
        sender, _ = listener.accept()
    receiver = socket.create_connection((target[0], int(target[1])))
    threading.Thread(target=pass_on, args=(receiver, sender, changes), daemon=True).start()
    pass_on(sender, receiver, changes)


if __name__ == "__main__":
    main()

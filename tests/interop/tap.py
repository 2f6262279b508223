# SPDX-License-Identifier: BSD-2-Clause
"""Runs a test file: every function test_…(guest) of a module, in one guest, as TAP.

A function with the attribute `cases`, a list of tuples, is run once with each as further
arguments."""
import os
import re
import sys
import time
import traceback

from guest import Guest, Skip

UNAVAILABLE = 77


def check(condition, *found):
    if not condition:
        raise AssertionError("found " + ", ".join(map(str, found)))


def cases(*rows):
    def mark(function):
        function.cases = rows
        return function
    return mark


def collect(module):
    for name, function in vars(module).items():
        if not name.startswith("test_"):
            continue
        for row in getattr(function, "cases", [()]):
            yield " ".join([name[5:].replace("_", " "), *map(str, row)]), function, row


def run_one(guest, number, room, test):
    name, function, row = test
    start = time.monotonic()
    try:
        function(guest, *row)
        problem = ""
    except Exception:
        problem = traceback.format_exc()
    print("%s %d - %s: %s # %.1f s" % ("not ok" if problem else "ok", number, room, name,
                                       time.monotonic() - start), flush=True)
    for line in problem.splitlines():
        print("#   " + line)
    return bool(problem)


def main(module):
    """The exit status. Arguments: parts of the names of the tests to run, default all."""
    wanted = sys.argv[1:]
    tests = [test for test in collect(module)
             if not wanted or any(re.search(part, test[0]) for part in wanted)]
    room = os.path.basename(module.__file__)[5:-3]
    try:
        if os.geteuid():
            raise Skip("needs root")
        with Guest() as guest:
            print("1..%d\n# %s" % (len(tests), guest.description), flush=True)
            failed = sum([run_one(guest, number, room, test)
                          for number, test in enumerate(tests, 1)])
    except Skip as reason:
        print("1..0 # SKIP %s" % reason)
        return UNAVAILABLE
    return 1 if failed else 0

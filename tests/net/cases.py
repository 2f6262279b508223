# SPDX-License-Identifier: BSD-2-Clause
"""Decorators of tests: the rows of a table, the time limit, the MTU."""


def each(*rows):
    """One test per row; a row is a value or a tuple of arguments. Words and numbers name it."""
    rows = [row if isinstance(row, tuple) else (row,) for row in rows]

    def decorate(function):
        function.cases = [(" ".join(str(cell) for cell in row if not isinstance(cell, tuple)), row)
                          for row in rows]
        return function
    return decorate


def limit(seconds):
    def decorate(function):
        function.limit = seconds
        return function
    return decorate


def mtu(size):
    def decorate(function):
        function.mtu = size
        return function
    return decorate

# SPDX-License-Identifier: BSD-2-Clause
"""A cpio archive as the kernel unpacks it into its first root file system ("newc")."""


class Archive:
    def __init__(self):
        self.parts = []
        self.count = 0

    def _entry(self, name, mode, data=b"", major=0, minor=0):
        self.count += 1
        name = name.encode() + b"\0"
        fields = (self.count, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name), 0)
        header = b"070701" + b"".join(b"%08x" % field for field in fields) + name
        for part in (header, data):
            self.parts.append(part + bytes(-len(part) % 4))

    def directory(self, name):
        self._entry(name, 0o040755)

    def file(self, name, data):
        self._entry(name, 0o100755, data)

    def device(self, name, major, minor):
        self._entry(name, 0o020600, b"", major, minor)

    def finish(self):
        self._entry("TRAILER!!!", 0)
        return b"".join(self.parts)

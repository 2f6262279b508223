# SPDX-License-Identifier: BSD-2-Clause
"""scripts/lab for tests: one running guest.

    with Guest() as guest:
        server = guest.popen("ib_write_bw", "-d", "rxe0", stdout=…)  # goes on beside the test
        guest.run("rdma", "link")                                    # waits; its output
        guest.sender("ping", "-c", "1", guest.ADDRESS)               # in the sender's namespace
        guest.share("result.bin")                                    # a path that both sides write
"""
import os
import shutil
import subprocess
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LAB = os.path.join(TOP, "scripts/lab")
UNAVAILABLE = 77


class Skip(Exception):
    """The test cannot run here; the text says why."""


class Guest:
    SENDER, ADDRESS = "192.0.2.1", "192.0.2.2"

    def __init__(self, kernel=None):
        """kernel: "6.12" or "6.1"; else what the environment or the lab's default says."""
        self.environment = dict(os.environ, **({"LAB_KERNEL": kernel} if kernel else {}))

    def __enter__(self):
        done = self._lab("start", capture_output=True, text=True)
        if done.returncode == UNAVAILABLE:
            raise Skip(done.stderr.strip())
        self.description = self._expect(done).strip()
        self.name = self.description.split(":")[0]
        self.environment["LAB"] = self.name
        self.namespace, self.path = self.name, self.name + "-path"
        shared = self._lab("share", capture_output=True, text=True).stdout.strip()
        self.directory = tempfile.mkdtemp(dir=shared)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory, ignore_errors=True)
        self._lab("stop", stderr=subprocess.DEVNULL)

    def _lab(self, *argv, **more):
        return subprocess.run([LAB, *argv], env=self.environment, stdin=subprocess.DEVNULL, **more)

    def _expect(self, done, status=0):
        if done.returncode != status:
            raise AssertionError("%s: exit %d, expected %d: %s%s" % (
                " ".join(map(str, done.args)), done.returncode, status, done.stdout, done.stderr))
        return done.stdout

    def run(self, *argv, timeout=60, status=0):
        """A command in the guest; its standard output."""
        return self._expect(self._lab("exec", "-t", str(timeout), *argv, capture_output=True,
                                      text=True), status)

    def popen(self, *argv, **more):
        """A command in the guest that goes on beside the test. Its signals and its end are the
        command's."""
        return subprocess.Popen([LAB, "exec", *argv], env=self.environment,
                                stdin=subprocess.DEVNULL, **more)

    def sender(self, *argv, timeout=60, status=0):
        """A command of this host in the sender's namespace; its standard output."""
        return self._expect(subprocess.run(["ip", "netns", "exec", self.namespace, *argv],
                                           capture_output=True, text=True, timeout=timeout), status)

    def share(self, name):
        """The path, here and in the guest, of a file in a directory of this test's own."""
        return os.path.join(self.directory, name)

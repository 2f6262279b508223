# SPDX-License-Identifier: BSD-2-Clause
"""The guest's kernel: Debian's own package, fetched by apt and unpacked, never installed; and an
initramfs around it. Both are kept in build/lab."""
import fcntl
import glob
import lzma
import os
import shutil
import subprocess

import cpio
import vmlinux

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
HERE = os.path.dirname(os.path.abspath(__file__))
STORE = os.path.join(TOP, "build/lab")
BUSYBOX = "/usr/bin/busybox"
META_PACKAGE = "linux-image-amd64"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
RELEASES = {"6.12": "trixie", "6.1": "bookworm"}
MODULES = ("virtio_pci virtio_console virtio_net 9p 9pnet_virtio overlay rdma_rxe ib_uverbs "
           "rdma_ucm").split()


class Unavailable(Exception):
    """The lab cannot run here; the text says why."""


class Kernel:
    def __init__(self, version):
        if version not in RELEASES:
            raise ValueError("LAB_KERNEL is %r, expected one of %s" %
                             (version, ", ".join(RELEASES)))
        self.version = version
        self.directory = os.path.join(STORE, "linux-" + version)
        os.makedirs(STORE, exist_ok=True)
        with open(os.path.join(STORE, "lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.isdir(self.directory):
                self._unpack()
            self.image = os.path.join(self.directory, "vmlinux")
            self.modules = os.path.join(self.directory, "lib/modules")
            self.release, = os.listdir(self.modules)
            self.initramfs = os.path.join(self.directory, "initramfs")
            sources = [os.path.join(HERE, "init"), os.path.join(HERE, "kernel.py"), BUSYBOX]
            if not newer(self.initramfs, sources):
                self._make_initramfs()

    def _unpack(self):
        building = self.directory + ".new"
        shutil.rmtree(building, ignore_errors=True)
        os.makedirs(building)
        package = fetch(self.version, building)
        run("dpkg-deb", "-x", package, building)
        os.unlink(package)
        packed, = glob.glob(building + "/boot/vmlinuz-*")
        with open(building + "/vmlinux", "wb") as image:
            image.write(vmlinux.unpack(read(packed)))
        # The package has its modules in /lib or in /usr/lib, and depmod looks in either.
        os.makedirs(building + "/usr/lib", exist_ok=True)
        if os.path.isdir(building + "/lib"):
            os.symlink("../../lib/modules", building + "/usr/lib/modules")
        else:
            os.symlink("usr/lib", building + "/lib")
        run("depmod", "-b", building, os.listdir(building + "/lib/modules")[0])
        os.rename(building, self.directory)

    def _make_initramfs(self):
        archive = cpio.Archive()
        for name in ("bin", "dev", "proc", "modules", "lower", "upper", "new"):
            archive.directory(name)
        archive.device("dev/console", 5, 1)
        archive.file("bin/busybox", read(BUSYBOX))
        archive.file("init", read(os.path.join(HERE, "init")))
        order = []
        for path in self._in_order(MODULES):
            data = read(os.path.join(self.modules, self.release, path))
            name = os.path.basename(path).split(".")[0] + ".ko"
            archive.file("modules/" + name, lzma.decompress(data) if path.endswith(".xz") else data)
            order.append(name)
        archive.file("modules/order", "\n".join(order).encode() + b"\n")
        with open(self.initramfs + ".new", "wb") as output:
            output.write(archive.finish())
        os.rename(self.initramfs + ".new", self.initramfs)

    def _in_order(self, names):
        """Paths of the modules and of all that they need, each after what it needs."""
        needs = {}
        dependencies = read(os.path.join(self.modules, self.release, "modules.dep")).decode()
        for line in dependencies.splitlines():
            path, colon, rest = line.partition(":")
            if colon:
                needs[os.path.basename(path).split(".")[0].replace("-", "_")] = path, rest.split()
        built_in = read(os.path.join(self.modules, self.release, "modules.builtin")).decode()
        order = []
        for name in names:
            if name in needs:
                path, rest = needs[name]
                order += [path for path in [*reversed(rest), path] if path not in order]
            elif "/%s.ko" % name not in built_in.replace("-", "_"):
                raise Unavailable("Linux %s has no module %s" % (self.release, name))
        return order


def read(path):
    with open(path, "rb") as handle:
        return handle.read()


def newer(path, sources):
    return os.path.exists(path) and all(os.stat(source).st_mtime < os.stat(path).st_mtime
                                        for source in sources)


def run(*argv, **more):
    """A command's output; Unavailable with what it said when it fails."""
    done = subprocess.run(argv, capture_output=True, text=True, **more)
    if done.returncode:
        raise Unavailable("%s: exit %d: %s" % (" ".join(argv), done.returncode,
                                               (done.stderr or done.stdout).strip()[-600:]))
    return done.stdout


def fetch(version, directory):
    """Fetches the package into the directory, from what this machine's apt knows, else from the
    same archives' release that has this kernel; its path."""
    try:
        return download(version, directory)
    except Unavailable:
        return download(version, directory, *other_release(RELEASES[version]))


def download(version, directory, *options):
    options += "-o", "APT::Sandbox::User=root"
    told = run("apt-cache", *options, "depends", META_PACKAGE)
    names = [line.split()[1] for line in told.splitlines() if line.strip().startswith("Depends:")]
    if not names or not names[0].startswith("linux-image-%s." % version):
        raise Unavailable("the package sources offer %s, expected Linux %s" %
                          (names[0] if names else "no kernel", version))
    run("apt-get", "-qq", *options, "download", names[0], cwd=directory)
    package, = glob.glob(directory + "/*.deb")
    return package


def other_release(release):
    """Options for apt: the archives that this machine uses, but another release of Debian."""
    told = run("apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)",
               "Created-By: Packages")
    suites = {"Debian": release, "Debian-Security": release + "-security"}
    lines = set()
    for line in told.splitlines():
        origin, label, uri = line.split(" ", 2)
        if origin == "Debian" and label in suites:
            lines.add("deb [signed-by=%s] %s %s main\n" % (KEYRING, uri, suites[label]))
    if not lines:
        raise Unavailable("no Debian archive among the package sources (apt-get update, /etc/apt)")
    apt = os.path.join(STORE, "apt-" + release)
    for name in ("lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(apt, name), exist_ok=True)
    with open(os.path.join(apt, "sources.list"), "w") as sources:
        sources.writelines(sorted(lines))
    options = []
    for name, value in (("Dir::Etc::SourceList", apt + "/sources.list"),
                        ("Dir::Etc::SourceParts", "/dev/null"),
                        ("Dir::State::Lists", apt + "/lists"), ("Dir::Cache", apt + "/cache")):
        options += ["-o", "%s=%s" % (name, value)]
    run("apt-get", "-qq", *options, "-o", "APT::Sandbox::User=root", "update")
    return options

"""What the host has: processes, mounts, cgroups, loop devices, interfaces.

Read from /proc and /sys, so that tests can say that nothing is left over and that
nothing grows. Linux only, like Warren.
"""

import ctypes
import os
import re


class Process:
    """A process named so that a reused pid is not taken for it."""

    def __init__(self, pid, parent, start, state, command):
        self.pid, self.parent, self.start, self.state, self.command = pid, parent, start, state, command

    @property
    def key(self):
        return (self.pid, self.start)

    def __repr__(self):
        return f"{self.pid} ({self.command}, {self.state}, child of {self.parent})"


def process(pid):
    """The process of that pid, or None."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read().decode(errors="replace")
    except OSError:
        return None
    command = text[text.index("(") + 1:text.rindex(")")]
    fields = text[text.rindex(")") + 2:].split()
    return Process(int(pid), int(fields[1]), int(fields[19]), fields[0], command)


def processes():
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            one = process(name)
            if one:
                found[one.pid] = one
    return found


def descendants(pid):
    """All processes below `pid`, not itself."""
    everything = processes()
    children = {}
    for one in everything.values():
        children.setdefault(one.parent, []).append(one)
    found, todo = [], [pid]
    while todo:
        for child in children.get(todo.pop(), []):
            found.append(child)
            todo.append(child.pid)
    return found


def alive(one):
    now = process(one.pid)
    return now is not None and now.start == one.start


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def status_field(pid, name):
    """A field of /proc/PID/status as text, or None."""
    try:
        with open(f"/proc/{pid}/status") as file:
            for line in file:
                if line.startswith(name + ":"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return None


def resident_bytes(pid):
    value = status_field(pid, "VmRSS")
    return int(value.split()[0]) * 1024 if value else 0


def anonymous_bytes(pid):
    """Resident memory without mapped files."""
    value = status_field(pid, "RssAnon")
    return int(value.split()[0]) * 1024 if value else 0


def peak_bytes(pid):
    value = status_field(pid, "VmHWM")
    return int(value.split()[0]) * 1024 if value else 0


def reset_peak(pid):
    with open(f"/proc/{pid}/clear_refs", "w") as file:
        file.write("5")


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def descriptor_targets(pid):
    targets = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            targets.append(re.sub(r"\d+", "N", os.readlink(f"/proc/{pid}/fd/{name}")))
        except OSError:
            pass
    return sorted(targets)


def mounts(pid="self"):
    with open(f"/proc/{pid}/mountinfo") as file:
        return file.read().splitlines()


def mounts_of(text, pid="self"):
    return [line for line in mounts(pid) if text in line]


def loop_devices_of(text):
    """Loop devices whose backing file has `text` in its path."""
    found = []
    for name in os.listdir("/sys/block"):
        if name.startswith("loop"):
            try:
                with open(f"/sys/block/{name}/loop/backing_file") as file:
                    backing = file.read()
            except OSError:
                continue
            if text in backing:
                found.append((name, backing.strip()))
    return found


def cgroups():
    """Every cgroup folder of every mounted hierarchy."""
    found = set()
    for root, folders, _ in os.walk("/sys/fs/cgroup"):
        found.update(os.path.join(root, folder) for folder in folders)
    return found


def cgroups_with(text):
    return sorted(path for path in cgroups() if text in path)


def cgroups_of(pid):
    """The text of /proc/PID/cgroup; empty for a process that has ended."""
    try:
        with open(f"/proc/{pid}/cgroup") as file:
            return file.read()
    except OSError:
        return ""


def interfaces():
    return sorted(os.listdir("/sys/class/net"))


def children_in_namespace_of(pid):
    """Host pids of the processes in the same PID namespace as `pid`."""
    try:
        wanted = os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return []
    found = []
    for other in processes():
        try:
            if os.readlink(f"/proc/{other}/ns/pid") == wanted:
                found.append(other)
        except OSError:
            pass
    return found


class Undying:
    """A process that does not die while this is entered: the kernel keeps what is traced and killed
    until whoever traces it (this thread) has looked, and its process 1 waits for it. It is killed by others."""

    PTRACE_SEIZE = 0x4206
    WALL = 0x40000000

    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        libc.ptrace.restype = ctypes.c_long
        assert libc.ptrace(self.PTRACE_SEIZE, self.pid, None, None) == 0, os.strerror(ctypes.get_errno())
        return self

    def __exit__(self, *_):
        self.let_go()

    def let_go(self):
        while self.pid:
            _, status = os.waitpid(self.pid, self.WALL)
            if os.WIFSIGNALED(status) or os.WIFEXITED(status):
                self.pid = None

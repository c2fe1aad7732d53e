"""What a fork into another sandbox takes along besides memory.

The kernel copies the memory; the new process has the descriptors, the working folder
and the umask of the process it was made from, not of this one. So this one notes what it has
(`pack`) before it forks, and the new one puts it in place (`unpack`) before any code of
the user's goes on. Both run unprivileged, inside their own sandbox.
"""

import fcntl
import os
import random
import signal
import socket
import stat
import sys
import threading

from .generators import draw_anew
from .left_behind import LeftBehind

# Files that have no name any more travel in memory up to this size altogether.
_MOST_UNNAMED = 64 << 20
_MODE_FLAGS = os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_SYNC
_SIGNALS = tuple(int(s) for s in signal.valid_signals() if s not in (signal.SIGKILL, signal.SIGSTOP))


class Luggage:
    """`kept` are the descriptors that the new process gets from outside, `names` the session's
    variables."""

    def __init__(self, kept, keep_random, names):
        self.not_copied = {}
        self._keep_random = keep_random
        self._names = names
        self._umask = os.umask(0o77)
        os.umask(self._umask)
        try:
            self._folder = os.getcwd()
        except OSError:
            self._folder = None  # it is gone
        self._handlers = {s: signal.getsignal(s) for s in _SIGNALS}
        self._random = random.getstate() if keep_random else None
        self._left_behind = LeftBehind()
        self._unnamed = _MOST_UNNAMED
        self._files = []
        dead = []
        for number in _descriptors():
            if number in kept:
                continue
            packed = self._pack(number)
            if packed is None:
                continue
            self._files.append(packed)
            if packed.what:
                dead.append(f"{number}: {packed.what}")
        threads = len(sys._current_frames()) - 1
        if threads > 0:
            self.not_copied["threads"] = threads
        if dead:
            self.not_copied["descriptors"] = dead

    def _pack(self, number):
        try:
            status = os.fstat(number)
            target = os.readlink(f"/proc/self/fd/{number}")
            flags = fcntl.fcntl(number, fcntl.F_GETFL)
            inherited = not fcntl.fcntl(number, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
        except OSError:
            return None  # closed meanwhile
        packed = _Packed(number, flags & _MODE_FLAGS, inherited)
        kind = stat.S_IFMT(status.st_mode)
        if kind == stat.S_IFREG:
            packed.offset = os.lseek(number, 0, os.SEEK_CUR)
            if _same_file(target, status):
                packed.path = target
            elif status.st_size <= self._unnamed:
                packed.content = _content(number, status.st_size)
                if packed.content is not None:
                    self._unnamed -= len(packed.content)
                    return packed
                packed.what = target
            else:
                packed.what = f"{target}, too large"
        elif kind in (stat.S_IFDIR, stat.S_IFCHR) and target.startswith("/") and not target.startswith("/dev/pts/"):
            packed.path = target
        else:
            packed.what = target
        return packed

    def unpack(self):
        os.umask(self._umask)
        try:
            os.chdir(self._folder or "/root")
        except OSError:
            pass
        for number, handler in self._handlers.items():
            if handler is not None and handler != signal.SIG_DFL:
                try:
                    signal.signal(number, handler)
                except (OSError, ValueError):
                    pass
        for packed in self._files:
            packed.open()
        self._left_behind.tell()
        self._draw_anew()

    def _draw_anew(self):
        """Random numbers that nobody else draws, unless the caller wants the same."""
        openssl = sys.modules.get("_ssl")
        if openssl is not None:
            # It notices a fork by the process's number, which may be the same over there.
            openssl.RAND_add(os.urandom(64), 64.0)
        if self._keep_random:
            random.setstate(self._random)  # the interpreter has reseeded it
            return
        random.seed()
        draw_anew(self._names)


class _Packed:
    def __init__(self, number, flags, inherited):
        self.number, self.flags, self.inherited = number, flags, inherited
        self.path = self.content = None
        self.offset = 0
        self.what = None  # why it cannot be there again

    def open(self):
        """Takes the number again, by a dead end where nothing else can be had, so that no
        other file gets it."""
        fd = None
        try:
            if self.content is not None:
                fd = _unnamed_file(self.content, self.flags)
            elif self.path is not None:
                fd = os.open(self.path, self.flags | os.O_CLOEXEC)
            if fd is not None and self.offset:
                os.lseek(fd, self.offset, os.SEEK_SET)
        except OSError:
            if fd is not None:
                os.close(fd)
            fd = None
        if fd is None:
            fd = _dead_end()
        if fd != self.number:
            os.dup2(fd, self.number, inheritable=self.inherited)
            os.close(fd)
        elif self.inherited:
            os.set_inheritable(fd, True)


def _descriptors():
    """The numbers of all open descriptors but the one that lists them."""
    numbers = []
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        try:
            os.fstat(number)
        except OSError:
            continue
        numbers.append(number)
    return sorted(numbers)


def _same_file(path, status):
    try:
        there = os.stat(path, follow_symlinks=False)
    except (OSError, ValueError):
        return False
    return (there.st_dev, there.st_ino) == (status.st_dev, status.st_ino)


def _content(number, size):
    parts, at = [], 0
    try:
        while at < size:
            part = os.pread(number, size - at, at)
            if not part:
                break
            parts.append(part)
            at += len(part)
    except OSError:  # opened for writing only
        return None
    return b"".join(parts)


def _unnamed_file(content, flags):
    folder = "/dev/shm" if len(content) < 1 << 20 else "/tmp"
    fd = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    fcntl.fcntl(fd, fcntl.F_SETFL, flags & (os.O_APPEND | os.O_NONBLOCK))
    return fd


def _dead_end():
    """A socket whose connection has been reset."""
    mine, other = socket.socketpair()
    # A byte that its owner will not read makes the other's end a reset.
    mine.send(b"\0")
    other.close()
    return mine.detach()

"""Shell commands run by the session itself: `!command`, `x = !command` and
os.system().

C's system(3) ignores SIGINT while its command runs, so os.system("sleep 60") could
not be interrupted; here the command is ended and KeyboardInterrupt raised. Each command
has its own process group, so that what it leaves in the background is not hit by an
interrupt of a later call.
"""

import os
import signal
import subprocess

# How long an interrupted command has between SIGINT and SIGKILL, in seconds.
_GRACE = 0.5


def run(command, shell=None):
    """Runs `command` with `shell` (default /bin/sh) and returns its status as
    subprocess does: the exit code, or the negated number of the signal."""
    child = subprocess.Popen(command, shell=True, executable=shell, process_group=0)
    try:
        return child.wait()
    except BaseException:
        _end(child)
        raise


def output(command, shell=None):
    """What `command` writes, to either stream, as text."""
    child = subprocess.Popen(
        command, shell=True, executable=shell, process_group=0, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        return child.communicate()[0].decode("utf-8", "surrogateescape")
    except BaseException:
        _end(child)
        raise


def _end(child):
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            pass
        try:
            child.wait(_GRACE)
            if number == signal.SIGINT:
                continue  # the shell is gone; what it had started may not be
            return
        except subprocess.TimeoutExpired:
            pass


def system(command):
    """os.system(), interruptible: returns the status as wait(2) does."""
    status = run(os.fsdecode(command))
    return status << 8 if status >= 0 else -status

"""Attacks process 1, Warren's agent, in every way that comes to mind; prints what came of it."""
import ctypes
import json
import os
import subprocess

libc = ctypes.CDLL(None, use_errno=True)


def attempt(action):
    try:
        return f"done: {action()!r}"
    except OSError as error:
        return error.errno


def opened(path, flags):
    descriptor = os.open(path, flags)
    try:
        return os.read(descriptor, 64).hex() if flags == os.O_RDONLY else "opened"
    finally:
        os.close(descriptor)


def ptrace(request):
    ctypes.set_errno(0)
    if libc.ptrace(request, 1, 0, 0) == -1:
        raise OSError(ctypes.get_errno(), "")
    return "attached"


found = {}
for name in ("mem", "environ", "auxv", "maps", "smaps", "pagemap", "stack", "syscall", "io", "personality", "timers",
             "clear_refs", "attr/current", "coredump_filter"):
    found[f"read {name}"] = attempt(lambda: opened(f"/proc/1/{name}", os.O_RDONLY))
for name in ("mem", "oom_score_adj", "clear_refs", "coredump_filter", "comm", "uid_map", "gid_map", "setgroups",
             "timerslack_ns", "attr/current", "autogroup", "loginuid"):
    found[f"write {name}"] = attempt(lambda: opened(f"/proc/1/{name}", os.O_WRONLY))
for name in ("fd", "fdinfo", "map_files", "task/1/fd"):
    found[f"list {name}"] = attempt(lambda: os.listdir(f"/proc/1/{name}"))
for name in ("exe", "cwd", "root"):
    found[f"link {name}"] = attempt(lambda: os.readlink(f"/proc/1/{name}"))
for number in range(8):
    found[f"open fd {number}"] = attempt(lambda: opened(f"/proc/1/fd/{number}", os.O_RDWR | os.O_NONBLOCK))
found["execute exe"] = attempt(lambda: subprocess.run(["/proc/1/exe"], stdin=subprocess.DEVNULL, capture_output=True, timeout=5))
found["write exe"] = attempt(lambda: opened("/proc/1/exe", os.O_WRONLY))
found["chmod exe"] = attempt(lambda: os.chmod("/proc/1/exe", 0o777))
found["setxattr exe"] = attempt(lambda: os.setxattr("/proc/1/exe", "user.x", b"1"))
for name in os.listdir("/proc/self/ns"):
    found[f"ns {name}"] = attempt(lambda: os.readlink(f"/proc/1/ns/{name}"))
found["attach"] = attempt(lambda: ptrace(16))
found["seize"] = attempt(lambda: ptrace(0x4206))
for number in list(range(1, 32)) + [34, 35, 63, 64]:
    found[f"signal {number}"] = attempt(lambda: os.kill(1, number))
found["setpriority"] = attempt(lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
found["affinity"] = attempt(lambda: os.sched_setaffinity(1, {0}))
found["scheduler"] = attempt(lambda: os.sched_setscheduler(1, os.SCHED_FIFO, os.sched_param(50)))
print(json.dumps(found))

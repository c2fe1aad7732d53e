"""System calls that a sandbox has no business with are refused, whatever the way in."""

import errno

EPERM, ENOSYS = errno.EPERM, errno.ENOSYS

# The errno that each call answers: EPERM as a container usually refuses it, ENOSYS
# where programs have a way round for kernels that lack the call.
EXPECTED = {
    **{f"unshare {name}": EPERM for name in ("user", "mount", "pid", "net", "ipc", "uts", "cgroup", "time")},
    **{f"clone {name}": EPERM for name in ("user", "mount", "pid", "net", "ipc", "uts", "cgroup", "parent")},
    **{name: EPERM for name in (
        "setns", "mount tmpfs", "mount proc", "bind mount", "remount", "umount2", "umount2 proc", "pivot_root", "bpf",
        "perf_event_open", "userfaultfd", "userfaultfd user mode", "init_module", "finit_module", "delete_module",
        "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff", "open_by_handle_at", "fanotify_init",
        "quotactl", "quotactl_fd", "acct", "syslog read all", "settimeofday", "clock_settime", "adjtimex set", "iopl",
        "ioperm", "lookup_dcookie", "process_vm_readv of 1", "ptrace attach 1", "ptrace seize 1", "kcmp with 1",
        "vhangup", "modify_ldt", "pidfd_getfd of 1", "process_madvise of 1")},
    **{name: ENOSYS for name in (
        "clone3", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr",
        "io_uring_setup", "io_uring_enter", "io_uring_register", "add_key", "request_key", "keyctl", "nfsservctl",
        "uselib", "ustat", "sysfs", "_sysctl", "number -1", "number 10000")},
    # Over the sandbox's own host name: allowed to have a wrong length, no more.
    "sethostname": (EPERM, errno.EINVAL),
}


def test_each_is_refused_with_the_errno_that_programs_expect(probe):
    found = probe("syscalls.py")
    assert found.keys() == EXPECTED.keys()
    wrong = {}
    for name, result in found.items():
        expected = EXPECTED[name] if isinstance(EXPECTED[name], tuple) else (EXPECTED[name],)
        if result not in expected:
            wrong[name] = errno.errorcode.get(result, result) if isinstance(result, int) else result
    assert not wrong, wrong


def test_the_other_system_call_entries_are_shut(probe):
    for name, result in probe("other_abi.c").items():
        expected = -EPERM if name == "unshare with high bits" else -ENOSYS
        # Where the kernel has no 32-bit entry at all, the instruction itself faults.
        assert result == expected or (name.startswith("int 0x80") and result == "killed by 11"), (name, result)


def test_ordinary_work_is_not_refused(sandbox):
    """What the filter must let through: threads, processes, sockets, debuggers of one's own, files of every kind."""
    sandbox.bash_ok(r"""
set -e
python3 - <<'END'
import asyncio, mmap, multiprocessing, os, select, socket, sqlite3, subprocess, threading, tempfile, fcntl, signal
t = threading.Thread(target=lambda: None); t.start(); t.join()
with multiprocessing.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()
c = socket.create_connection(s.getsockname()); c.sendall(b'x'); assert s.accept()[0].recv(1) == b'x'
socket.socket(socket.AF_INET6).bind(('::1', 0))
a, b = socket.socketpair(); a.send(b'y'); assert b.recv(1) == b'y'
select.epoll(); mmap.mmap(-1, 4096); os.memfd_create('x'); os.eventfd(0)
asyncio.run(asyncio.sleep(0)); sqlite3.connect(':memory:').execute('select 1')
subprocess.run(['true'], check=True)
with tempfile.NamedTemporaryFile() as f: fcntl.flock(f, fcntl.LOCK_EX); os.fsync(f.fileno()); os.posix_fallocate(f.fileno(), 0, 4096)
os.sched_getaffinity(0); os.setpgid(0, 0); os.nice(1); os.getrandom(8)
os.chown('/tmp', 0, 0); os.mkfifo('/tmp/fifo'); os.link('/tmp/fifo', '/tmp/fifo2'); os.symlink('a', '/tmp/sym')
os.setxattr('/root', 'user.x', b'1')
END
node -e 'console.log([1,2].map(x => x * 2))'
git init -q /tmp/repo
cd /tmp && printf 'int main(){return 0;}' > m.c && gcc m.c -o m && ./m
su -s /bin/sh nobody -c id | grep -q nobody
chroot / true
tar cf - /etc/hostname 2>/dev/null | tar tf - >/dev/null
python3 -m venv --without-pip /tmp/venv
""", timeout_seconds=100)


def test_a_process_may_trace_its_own_child(sandbox):
    """Debuggers work on what is one's own."""
    sandbox.put("/root/trace.py", b"""
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
child = os.fork()
if child == 0:
    libc.ptrace(0, 0, 0, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(7)
_, status = os.waitpid(child, 0)
assert os.WIFSTOPPED(status), status
libc.ptrace(7, child, 0, 0)
print(os.WEXITSTATUS(os.waitpid(child, 0)[1]))
""")
    assert sandbox.bash_ok("python3 /root/trace.py") == "7\n"


def test_the_core_limit_cannot_be_lowered_below_one(sandbox):
    """A limit of 0 would still start a piped core handler as the host's root; 1 does not."""
    assert sandbox.bash_ok("ulimit -Hc; ulimit -Sc").split() in (["0", "0"], ["1", "1"])
    run = sandbox.python("import resource\nprint(resource.getrlimit(resource.RLIMIT_CORE))\n"
                         "try: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); print('lowered')\n"
                         "except (ValueError, OSError, PermissionError) as e: print('refused')")
    assert run.text.splitlines() == ["(1, 1)", "refused"], run


def test_socket_families_of_the_kernel_are_not_offered(sandbox):
    run = sandbox.python("""
import errno, socket
for family, kind in [(17, 3), (38, 5), (40, 1), (29, 3), (31, 3), (21, 5), (30, 1), (44, 3), (15, 3)]:
    try:
        socket.socket(family, kind)
        print('open', family)
    except OSError as error:
        print('refused', family, errno.errorcode[error.errno])
""")
    opened = [line for line in run.text.splitlines() if line.startswith("open")]
    assert not opened, run.text

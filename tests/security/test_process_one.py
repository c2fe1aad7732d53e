"""Process 1 inside is Warren's agent: it cannot be read, changed, stopped or ended from inside."""

import errno
import http.client

from warren_client import eventually

REFUSED = {errno.EPERM, errno.EACCES, errno.ENOENT, errno.ENOSYS, errno.EROFS, errno.EINVAL, errno.ESRCH, errno.ELOOP,
           errno.ENXIO, errno.EBADF, errno.ETXTBSY, errno.EOPNOTSUPP}
# Reads that tell nothing worth keeping, and signals that a process 1 does not hear.
HARMLESS = ("read smaps_rollup", "read attr/current", "write attr/current", "read coredump_filter", "signal ", "write comm",
            "write autogroup", "write timerslack_ns")


def test_nothing_of_it_can_be_read_or_changed(probe, sandbox):
    found = probe("process_one.py")
    assert len(found) > 80
    done = {name: result for name, result in found.items()
            if result not in REFUSED and not name.startswith(HARMLESS)}
    assert not done, done
    sandbox.works()


def test_it_survives_every_signal(sandbox):
    sandbox.bash("for s in $(seq 1 64); do kill -$s 1 2>/dev/null; done; true")
    sandbox.bash("kill -STOP 1; kill -KILL 1; true")
    sandbox.works()


def test_killing_everything_leaves_a_working_sandbox(sandbox):
    sandbox.python_ok("x = 1")
    run = sandbox.bash("kill -9 -1; echo survived", wait=60)
    assert run.code in (137, 0)
    sandbox.python("1")  # is told that the session was killed, or finds a new one
    sandbox.works()
    sandbox.python("import os; os.kill(-1, 9)", wait=60)  # does not reach the caller itself
    sandbox.python("1")
    sandbox.works()
    sandbox.bash("python3 -c 'import os, signal; os.kill(-1, signal.SIGSTOP)'", wait=60)
    sandbox.python("1", timeout_seconds=5)
    sandbox.works()


def test_a_queued_signal_that_claims_to_come_from_outside_does_not_end_it(sandbox):
    """rt_sigqueueinfo(2) lets its caller write the sender's number."""
    sandbox.python("import ctypes, struct\n"
                   "libc = ctypes.CDLL(None, use_errno=True)\n"
                   "info = ctypes.create_string_buffer(struct.pack('iiiiii', 15, 0, -1, 0, 0, 0), 128)\n"
                   "print(libc.syscall(129, 1, 15, info))")
    sandbox.works()


def test_it_has_its_limits_and_priority_from_outside_only(sandbox):
    """Root inside owns it, as far as the kernel is concerned, and could end or starve it."""
    run = sandbox.python("""
import ctypes, os, resource
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, action):
    try: action(); print("done", name)
    except OSError as error: print(error.errno, name)
def call(number, *arguments):
    if libc.syscall(number, *arguments) == -1: raise OSError(ctypes.get_errno(), "")
for name in [n for n in dir(resource) if n.startswith("RLIMIT_")]:
    attempt(name, lambda: resource.prlimit(1, getattr(resource, name), (1, 1)))
for which, who in (0, 1), (1, 1), (2, 0):
    attempt(f"priority {which}", lambda: os.setpriority(which, who, 19))
    attempt(f"ioprio {which}", lambda: call(251, which + 1, who, 3 << 13))
attempt("affinity", lambda: os.sched_setaffinity(1, {0}))
for policy in os.SCHED_BATCH, os.SCHED_IDLE, os.SCHED_OTHER:
    attempt(f"policy {policy}", lambda: os.sched_setscheduler(1, policy, os.sched_param(0)))
attempt("attributes", lambda: call(314, 1, ctypes.create_string_buffer(48), 0))
resource.prlimit(1, resource.RLIMIT_CPU)  # reading is free
""")
    lines = run.text.splitlines()
    assert len(lines) > 20 and all(line.startswith("1 ") for line in lines), run
    sandbox.works()


def test_what_it_opens_cannot_be_put_into_its_way(sandbox):
    """Files that it might open while it serves a call, made such that open(2) would wait."""
    sandbox.python_ok("1")
    sandbox.bash_ok("rm -f /dev/null /dev/ptmx; mkfifo /dev/null /dev/ptmx; rm -rf /tmp/.warren; mkfifo /tmp/.warren; mkfifo /root/pipe")
    assert sandbox.bash_ok("echo still") == "still\n"
    assert sandbox.bash_ok("seq 100000 | tail -1", timeout_seconds=10) == "100000\n"
    assert sandbox.python_ok("print('there')") == "there\n"
    assert sandbox.client.request("GET", sandbox.file_path("/root/pipe")).status == 400


STOPPER = b"""
import os, signal, time
open('/root/ready', 'w').close()
while not os.path.exists('/root/go'): time.sleep(0.05)  # the call that started this has ended by then
open('/root/begun', 'w').close()
end = time.monotonic() + 120
me = os.getpid()
while not os.path.exists('/root/enough') and time.monotonic() < end:
    for name in os.listdir('/proc'):
        if name.isdigit() and int(name) not in (1, me):
            try: os.kill(int(name), signal.SIGSTOP)
            except OSError: pass
open('/root/ended', 'w').close()
"""


def test_a_process_that_stops_whatever_starts_does_not_stop_it(sandbox):
    """SIGSTOP meets programs before they are executed."""
    sandbox.python_ok("1")
    sandbox.put("/root/stopper.py", STOPPER)
    sandbox.bash_ok("setsid /usr/bin/python3 /root/stopper.py >/dev/null 2>&1 &")
    eventually(lambda: sandbox.get_status("/root/ready") == 200)
    sandbox.put("/root/go", b"")
    eventually(lambda: sandbox.get_status("/root/begun") == 200)
    for _ in range(3):
        # A program is stopped before it has begun, which is told, or after, which its deadline ends.
        try:
            answer = sandbox.client.request("POST", sandbox.path + "/exec",
                                            {"code": "echo ok", "language": "bash", "timeout_seconds": 1}, wait=60)
            assert answer.status == 200 or b"has not begun" in answer.body, answer.body
        except http.client.IncompleteRead as cut:
            assert b"has not begun" in cut.partial, cut.partial
        assert sandbox.get("/root/stopper.py") == STOPPER
    sandbox.put("/root/enough", b"")
    eventually(lambda: sandbox.get_status("/root/ended") == 200)
    assert sandbox.bash_ok("echo ok") == "ok\n"
    sandbox.python("1", timeout_seconds=2)  # the session has been stopped, too
    sandbox.works()


def test_no_file_can_be_leased(sandbox):
    """A lease would hold up whoever opens the file, this one of all."""
    assert sandbox.python_ok("import fcntl\nf = open('/root/x', 'w')\ntry: fcntl.fcntl(f, 1024, fcntl.F_WRLCK)\n"
                             "except OSError as error: print(error.errno)") == "22\n"


def test_its_socket_is_no_one_else_s(sandbox):
    """No unix socket of the agent can be seen or reached, by path or by abstract name."""
    text = sandbox.bash_ok("cat /proc/net/unix; ss -xapn 2>/dev/null || true")
    assert "warren" not in text.replace("warren-agent", "") and "@" not in text.replace("@/tmp", ""), text
    run = sandbox.bash("find / -xdev -type s 2>/dev/null")
    assert run.text.strip() == "", run


def test_a_process_renamed_to_look_like_the_agent_gains_nothing(sandbox):
    sandbox.bash_ok("cp /bin/sleep /tmp/warren-agent; setsid /tmp/warren-agent 909 >/dev/null 2>&1 &")
    sandbox.works()


def test_own_executables_of_the_template_cannot_be_changed_for_others(sandbox, sibling):
    """chmod and setxattr through /proc/self/exe stay in the sandbox's own layer."""
    before = sibling.bash_ok("stat -c %a /usr/bin/python3.11 /bin/bash; sha256sum /usr/bin/python3.11")
    sandbox.python("import os\nos.chmod('/proc/self/exe', 0o4777)\n"
                   "try: os.setxattr('/proc/self/exe', 'user.x', b'1')\nexcept OSError: pass")
    sandbox.bash("chmod 4777 /bin/bash /usr/bin/python3.11; echo x >> /usr/bin/python3.11")
    assert sibling.bash_ok("stat -c %a /usr/bin/python3.11 /bin/bash; sha256sum /usr/bin/python3.11") == before
    fresh = sibling.client.create()
    try:
        assert fresh.bash_ok("stat -c %a /usr/bin/python3.11 /bin/bash; sha256sum /usr/bin/python3.11") == before
    finally:
        fresh.destroy()

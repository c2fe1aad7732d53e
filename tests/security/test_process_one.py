"""Process 1 inside is Warren's agent: it cannot be read, changed, stopped or ended from inside."""

import errno

REFUSED = {errno.EPERM, errno.EACCES, errno.ENOENT, errno.ENOSYS, errno.EROFS, errno.EINVAL, errno.ESRCH, errno.ELOOP,
           errno.ENXIO, errno.EBADF, errno.ETXTBSY, errno.EOPNOTSUPP}
# Reads that tell nothing worth keeping, and signals that a process 1 does not hear.
HARMLESS = ("read smaps_rollup", "read attr/current", "write attr/current", "read coredump_filter", "signal ", "write comm", "setpriority",
            "affinity", "write autogroup", "write timerslack_ns")


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


def test_a_sandbox_that_cripples_its_own_agent_hurts_only_itself(client, make_sandbox):
    """Root inside may lower the limits of any process of its own ids, process 1 included."""
    sandbox = make_sandbox()
    sandbox.python("import resource\nfor limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE):\n"
                   "  resource.prlimit(1, limit, (1, 1))")
    for _ in range(3):
        answer = client.request("POST", sandbox.path + "/exec", {"code": "echo ok", "language": "bash", "timeout_seconds": 5},
                                wait=60)
        assert answer.status in (200, 409, 500, 503), answer.body
    assert sandbox.exists()
    sandbox.destroy()
    make_sandbox().works()


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

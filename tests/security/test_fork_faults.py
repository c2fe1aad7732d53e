"""Forks that once went wrong: what a session may not reach, and what must not be left of a fork that fails."""

import host
from test_hostile_forks import (BOUND, MIB, TOOLS, Family, family, hostile, is_ordinary, nothing_stays, ordinary)  # noqa: F401

# fork()'s own argument says where the kernel writes the new process's number: here into the pointer to the filter
# that the keeper has laid out for the new session. It then points to one of the session's own making.
FILTER = """
import ctypes
SCRATCH = 256 << 10
def next_mapping():
    at = libc.mmap(None, SCRATCH, RW, PRIVATE | ANONYMOUS, -1, 0)
    call(MUNMAP, at, SCRATCH)
    return at
low = next_mapping() >> 40 << 40
assert libc.mmap(low, 16 << 20, RW, PRIVATE | ANONYMOUS | 0x100000, -1, 0) == low
ctypes.memmove(low, bytes([6, 0, 0, 0, 0, 0, 0xff, 0x7f]) * (2 << 20), 16 << 20)
def fork():
    return call(CLONE, FORK, 0, 0, next_mapping() + {offset} + 1)
os.fork = fork
"""


def test_where_the_child_s_number_is_written_cannot_be_its_filter(family, hostile):
    attempts = "print(*[call(*a) for a in ((272, 0x10000000), (323, 1), (425, 8, 0), (101, 0))])"
    refused = hostile.python_ok(attempts)
    assert refused == "-1 -1 -1 -1\n"
    # 64 bytes, then each program and its head, all at multiples of 16: wherever the pointers lie.
    for offset in range(64 + 8, 16_384, 16):
        if offset not in (6760, 10312):
            continue  # those of today's filters (835 and 441 instructions); all of them take minutes
        hostile.python_ok(FILTER.replace("{offset}", str(offset)) if offset == 6760 else f"def fork():\n  return call(CLONE, FORK, 0, 0, next_mapping() + {offset + 1})\nos.fork = fork")
        for child in family.ask(hostile, 2).children:
            assert child.python_ok(attempts) == refused


def test_a_slow_handler_does_not_make_two_sessions_of_one(family, hostile):
    """A fork that was given up must not happen after all, inside."""
    hostile.python_ok("slow = True\nos.register_at_fork(before=lambda: time.sleep(3) if slow else None)")
    family.ask(hostile)
    assert len({hostile.python_ok("slow = False\nprint(os.getpid())") for _ in range(6)}) == 1
    assert hostile.bash_ok("pgrep -fc [r]epl/main.py") == "1\n"


def test_a_second_fork_without_a_keeper_does_not_make_two_sessions_of_one(family, hostile):
    hostile.python_ok(r"map_page(file_with(with_code(b'\xcc\xcc')), PRIVATE)")
    family.refused(hostile)
    family.refused(hostile)
    assert len({hostile.python_ok("print(os.getpid())") for _ in range(6)}) == 1
    assert hostile.bash_ok("pgrep -fc [r]epl/main.py") == "1\n"


def test_a_fork_inside_a_handler_does_not_make_two_sessions_of_one(family, hostile):
    """The nested one is taken for the fork; the real one must not happen inside after it."""
    hostile.python_ok("busy = False\ndef nested():\n  global busy\n  if busy: return\n  busy = True\n"
                      "  if os.fork() == 0 and os.getppid() != 0: os._exit(0)\nos.register_at_fork(before=nested)")
    child, = family.fork(hostile)
    for sandbox in (hostile, child):
        assert len({sandbox.python_ok("print(os.getpid())") for _ in range(6)}) == 1
        assert sandbox.bash_ok("pgrep -fc [r]epl/main.py") == "1\n"


def test_a_session_that_cannot_say_which_fork_it_means(family, hostile):
    """It has made itself another user, who may not write to what /proc tells of it."""
    hostile.python_ok("os.setresuid(0, 1000, 1000)")
    family.refused(hostile, "cannot be forked", "PermissionError")
    hostile.python_ok("os.setresuid(0, 0, 0)")
    hostile.works()


def test_a_session_that_cannot_pack(family, hostile):
    hostile.python_ok("R = sys.modules['_warren_repl.runner']\nmine, R.Luggage = R.Luggage, lambda *a: 1 / 0")
    family.refused(hostile, "cannot be forked", "ZeroDivisionError")
    hostile.python_ok("R.Luggage = mine")
    family.fork(hostile)[0].works()


def test_a_session_that_never_packs(family, hostile):
    """The fork ends within a minute, and the sandbox works again."""
    hostile.python_ok("R = sys.modules['_warren_repl.runner']\nR.Luggage = lambda *a: time.sleep(100000)")
    family.refused(hostile)
    hostile.python("1", timeout_seconds=2)
    family.recovers(hostile)


def test_copies_of_shared_memory_are_charged_to_the_account(warren, family, hostile):
    hostile.python_ok("m = mmap.mmap(-1, 60 << 20)\nfor i in range(0, 60 << 20, 4096): m[i] = 1")
    family.fork(hostile)
    groups = [path for path in host.cgroups_with(f"/{warren.cgroup}/") if path.endswith("/forks")]
    assert groups and all("/acc_" in path for path in groups), groups


def test_nobody_waits_for_a_gadget_that_never_ends(family, hostile, client):
    """Creates of others go on while such a fork runs (they stand still for 2 s today)."""
    import threading
    import time
    hostile.python_ok(r"map_page(file_with(with_code(b'\xeb\xfe')), PRIVATE)")
    longest, stop = 0.0, threading.Event()

    def others():
        nonlocal longest
        while not stop.is_set():
            began = time.monotonic()
            one = client.create()
            one.destroy()
            longest = max(longest, time.monotonic() - began)

    thread = threading.Thread(target=others)
    thread.start()
    time.sleep(0.5)
    family.ask(hostile)
    stop.set()
    thread.join(BOUND)
    assert longest < 1.5, longest


def test_a_sandbox_whose_session_was_killed_while_it_was_made_can_be_forked_again(family, sandbox):
    """Once the agent has started a session by itself, it does so for ever, and none of them can be forked."""
    from warren_client import eventually
    sandbox.put("/root/killer.py", b"import os, time\nend = time.monotonic() + 6\nwhile time.monotonic() < end:\n"
                                   b"  for n in os.listdir('/proc'):\n    if n.isdigit() and int(n) not in (1, os.getpid()):\n"
                                   b"      try: os.kill(int(n), 9)\n      except OSError: pass\nopen('/root/ended', 'w').close()\n")
    sandbox.bash_ok("setsid python3 /root/killer.py >/dev/null 2>&1 & true")
    eventually(lambda: sandbox.get_status("/root/ended") == 200, BOUND)
    family.recovers(sandbox)


def test_a_traced_session_is_refused_with_a_sentence(family, hostile):
    pid = hostile.python_ok("print(os.getpid())").strip()
    hostile.bash_ok(f"setsid python3 -c 'import ctypes, time; ctypes.CDLL(None).ptrace(0x4206, {pid}, 0, 0); time.sleep(20)' >/dev/null 2>&1 & sleep 1; true")
    family.refused(hostile, "traced")


def test_a_copy_that_dies_is_told_as_that(family, hostile):
    """Children of a copy whose keeper has been killed at its first call: ESRCH is no internal error."""
    for _ in range(5):
        hostile.python(TOOLS)
        hostile.python_ok("fd = file_with(whole)\nclone(before=[(MADVISE, page, 4096, DONTFORK)], after=[(MADVISE, page, 4096, DOFORK)])")
        family.ask(hostile, 8)


def test_shared_code_that_may_not_be_made_again(family, hostile):
    """Memory that is written to and executed is refused to the process from now on (prctl(2), PR_SET_MDWE)."""
    hostile.python_ok("shared = libc.mmap(None, 4096, RWX, SHARED | ANONYMOUS, -1, 0)\nassert call(157, 65, 1) == 0")
    family.refused(hostile, "shares")
    family.recovers(hostile)


# At the gadget: a jump to code that changes what a call is about to read (the filter that seccomp(2) gets in its third
# argument), waits until the call stands there again, and takes it. The file below shows the one and the other in turn.
REWRITE = r"""
stub2 = libc.mmap(page + (256 << 20), 4096, RWX, PRIVATE | ANONYMOUS, -1, 0)
taken = stub2 + 2048
rewrite = (bytes.fromhex('3d3d0100007511' '488b4a08' '49bb060000000000ff7f' '4c8919' '48b9') + taken.to_bytes(8, 'little') +
           bytes.fromhex('f0ff01' '48b9') + gadget.to_bytes(8, 'little') + bytes.fromhex('6681390f0575f9' 'ffe1'))
ctypes.memmove(stub2, rewrite, len(rewrite))
plain = whole[gadget - page:gadget - page + 5]
jump = b'\xe9' + (stub2 - gadget - 5).to_bytes(4, 'little', signed=True)
fd = os.open('/root/page', os.O_RDWR | os.O_CREAT, 0o755)
os.write(fd, whole)
map_page(fd, PRIVATE)
if os.fork() == 0:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        for code in jump, plain, plain: os.pwrite(fd, code, gadget - page)
    os._exit(0)
"""


def test_code_at_the_gadget_that_rewrites_what_a_call_reads(family, hostile):
    refused = ordinary_attempts(hostile)
    hostile.python_ok(REWRITE)
    for _ in range(8):
        for child in family.ask(hostile, 3).children:
            assert ordinary_attempts(child) == refused
    family.recovers(hostile)


def ordinary_attempts(sandbox):
    """What a session's own filter refuses: unshare, open_tree, io_uring and ptrace."""
    return sandbox.python_ok("import ctypes\n"
                             "print(*[ctypes.CDLL(None).syscall(*a) for a in ((272, 0x10000000), (428, -100, 0, 0), (425, 8, 0), (101, 0))])")

"""Forks of live sandboxes whose session does its worst. Whatever it does, the host, the parent and everybody else go
on, a fork succeeds or is refused with a sentence, what it makes has no right that a sandbox has not, and nothing stays.

The keeper of a session (docs/architecture.md, "Twin fork") takes its calls through a call instruction in memory that the
session can change: the "gadget", the first one in the first executable mapping."""

import os
import threading
import time

import pytest

import host
from warren_client import Sandbox, eventually

MIB = 1 << 20
# Far beyond what any step of a fork may take, on a machine that does much else.
BOUND = 60

# What a hostile session works with. `clone` is what stands in the place of os.fork(); `calls` takes system calls
# one after the other from machine code, while nothing else of the process runs.
TOOLS = r"""
import ctypes, errno, mmap, os, resource, signal, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = libc.syscall.restype = ctypes.c_long
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.syscall.argtypes = [ctypes.c_long] * 7
MMAP, MPROTECT, MUNMAP, MADVISE, CLONE = 9, 10, 11, 28, 56
FORK = 0x01200011  # the flags of libc's fork()
RW, RX, RWX = 3, 5, 7
PRIVATE, SHARED, FIXED, ANONYMOUS = 2, 1, 16, 32
DONTFORK, DOFORK, WIPEONFORK = 10, 11, 18

def call(number, *arguments):
    return libc.syscall(number, *arguments, *[0] * (6 - len(arguments)))

code = bytes.fromhex('5341544889fb4989f4' '488b03488b7b08488b7310488b53184c8b53204c8b43284c8b4b300f05'
                     '488943384883c34049ffcc75d6' '415c5bc3')
stub = libc.mmap(None, 4096, RWX, PRIVATE | ANONYMOUS, -1, 0)
ctypes.memmove(stub, code, len(code))
run_stub = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_long)(stub)

def calls(*them):
    table = (ctypes.c_long * (8 * len(them)))()
    for i, one in enumerate(them):
        for j, word in enumerate(one):
            table[8 * i + j] = word
    run_stub(ctypes.addressof(table), len(them))
    return [table[8 * i + 7] for i in range(len(them))]

def clone(*, flags=FORK, before=(), after=()):
    def fork():
        return calls(*before, (CLONE, flags), *after)[len(before)]
    os.fork = fork

def executable():
    for line in open('/proc/self/maps'):
        span, permissions, offset, _, _, *name = line.split()
        begin, end = (int(x, 16) for x in span.split('-'))
        if 'x' in permissions and name[:1] != ['[vsyscall]']:
            yield begin, end, int(offset, 16), (name or [''])[0]

def find_gadget():
    for begin, end, _, _ in executable():
        at = ctypes.string_at(begin, end - begin).find(b'\x0f\x05')
        if at >= 0: return begin + at

gadget = find_gadget()
page = gadget & ~4095
whole = ctypes.string_at(page, 4096)

def with_code(code):
    return whole[:gadget - page] + code + whole[gadget - page + len(code):]

def file_with(content):
    fd = os.memfd_create('page'); os.write(fd, content); return fd

def map_page(fd, kind, protection=RWX):
    assert libc.mmap(page, 4096, protection, kind | FIXED, fd, 0) == page

assert calls((39,), (39,)) == [os.getpid()] * 2
"""

SESSION_ENDS = "import os\nos.kill(os.getpid(), 9)"


class Family:
    """Forks of sandboxes, which are destroyed at the end."""

    def __init__(self, warren):
        self.client, self.log, self.children = warren.client, warren.log, []

    def ask(self, parent, n=1, wait=BOUND, **options):
        """The answer, whichever it is: children, or a sentence that says why not."""
        answer = self.client.request("POST", f"{parent.path}/fork", {"n": n, **options}, wait=wait)
        if answer.status == 200:
            made = [Sandbox(self.client, {"id": one}) for one in answer.json()["children"]]
            assert len(made) == n
            self.children += made
            answer.children = made
        else:
            assert answer.status in (409, 413, 422, 429, 503, 504), (answer.status, answer.body, self.log()[-600:])
            assert len(answer.error()) > 15, answer.body
            answer.children = []
        return answer

    def fork(self, parent, n=1, **options):
        answer = self.ask(parent, n, **options)
        assert answer.status == 200, answer.body
        return answer.children

    def refused(self, parent, *words, n=1):
        answer = self.ask(parent, n)
        assert answer.status != 200
        for word in words:
            assert word in answer.error(), answer.body
        return answer

    def recovers(self, parent):
        """Its commands and its session work; after the session's end, if not before, it can be forked again."""
        parent.works()
        parent.python(SESSION_ENDS, timeout_seconds=5, wait=BOUND)
        parent.works()
        self.fork(parent)[0].works()


def memory_group(warren, sandbox):
    """The folder of the sandbox's cgroup. Its name is not the sandbox's where that was kept ready before it had one."""
    token = str(900_000 + int.from_bytes(os.urandom(3), "big"))
    sandbox.bash_ok(f"setsid sleep {token} >/dev/null 2>&1 & true")
    process, = warren.inside("sleep", token)
    path, = [line.split(":", 2)[2] for line in host.cgroups_of(process.pid).splitlines() if line.split(":")[1] == "memory"]
    sandbox.bash_ok(f"pkill -f 'sleep {token}'")
    return f"/sys/fs/cgroup/memory{path}"


def is_ordinary(sandbox):
    """What runs as the session has what every sandbox has, and no more, as seen from inside."""
    text = sandbox.python_ok("""
import os
print(*[line for line in open('/proc/self/status') if line.split(':')[0] in
        ('Uid', 'Gid', 'Groups', 'CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp', 'Seccomp_filters', 'TracerPid')],
      sep='', end='')
print(open('/proc/self/uid_map').read().split()[0::2], open('/proc/self/cgroup').read().count(':/\\n'), os.getsid(0) == os.getpid())
""")
    return text


@pytest.fixture(scope="module")
def ordinary(shared_server):
    """How it is in a sandbox that was not forked."""
    # Sandboxes of both templates are kept ready from here on.
    shared_server.client.create(template="python-datasci").destroy()
    one = shared_server.client.create()
    # The account's group for forks is there from its first fork on.
    child, = one.client.request("POST", f"{one.path}/fork", {}).json()["children"]
    one.client.request("DELETE", f"/v1/sandboxes/{child}")
    eventually(lambda: steady(shared_server, 20))
    yield is_ordinary(one)
    one.destroy()


def books(warren):
    return {"cgroups": len(warren.cgroup_folders()), "layers": len(warren.uppers()),
            "processes": len(host.descendants(warren.runtime_pid))}


@pytest.fixture(autouse=True)
def nothing_stays(warren, ordinary, sibling):
    """What a test has begun with is all there is after it; a new sandbox comes at once."""
    warren.client.create().destroy()
    before = steady(warren)
    yield
    warren.client.create().destroy()
    try:
        eventually(lambda: books(warren) == before, BOUND)
    except AssertionError:
        raise AssertionError(f"before {before}, now {books(warren)}\n{warren.log()[-3000:]}") from None


def steady(warren, times=4):
    """The books when they do not change any more: sandboxes are kept ready in the background."""
    last, same = books(warren), 0
    while same < times:
        time.sleep(0.05)
        now = books(warren)
        same = same + 1 if now == last else 0
        last = now
    return last


@pytest.fixture
def family(warren):
    one = Family(warren)
    yield one
    for child in one.children:
        warren.client.request("DELETE", child.path)


@pytest.fixture
def hostile(sandbox):
    """A sandbox with the tools in its session."""
    sandbox.python_ok(TOOLS)
    return sandbox


# The instruction through which a keeper takes its calls.

OTHERS = {"nothing": b"\x90\x90", "no call": b"\x31\xc0", "a 32-bit call": b"\xcd\x80", "no instruction": b"\x0f\x0b",
          "a trap": b"\xcc\xcc", "a halt": b"\xf4\xf4"}


@pytest.mark.parametrize("code", OTHERS.values(), ids=OTHERS)
def test_another_instruction_in_the_gadget_s_place(family, hostile, code):
    hostile.python_ok(f"map_page(file_with(with_code({code!r})), PRIVATE)")
    family.refused(hostile)
    hostile.works()
    family.recovers(hostile)


def test_a_gadget_that_never_ends(family, hostile):
    """Within the deadline of the call, others waiting meanwhile."""
    hostile.python_ok(r"map_page(file_with(with_code(b'\xeb\xfe')), PRIVATE)")
    family.refused(hostile, "in time")
    family.recovers(hostile)


GONE = {
    "unmapped": "before=[(MUNMAP, page, 4096)]",
    "not executable": "before=[(MPROTECT, page, 4096, RW)]",
    "not readable": "before=[(MPROTECT, page, 4096, 0)]",
    "not forked": "before=[(MADVISE, page, 4096, DONTFORK)]",
    "wiped": "before=[(MADVISE, page, 4096, WIPEONFORK)]",
    "shared, then unmapped": "before=[(MMAP, page, 4096, RWX, SHARED | FIXED, fd, 0), (MUNMAP, page, 4096)]",
}


@pytest.mark.parametrize("how", GONE.values(), ids=GONE)
def test_a_gadget_that_is_gone_while_the_fork_runs(family, hostile, how):
    hostile.python_ok("fd = file_with(whole)\n"
                      "assert libc.mmap(page, 4096, RW, PRIVATE | FIXED | ANONYMOUS, -1, 0) == page\n"
                      "ctypes.memmove(page, whole, 4096)\nassert libc.mprotect(ctypes.c_void_p(page), 4096, RX) == 0\n"
                      f"clone({how}, after=[(MMAP, page, 4096, RX, PRIVATE | FIXED, fd, 0)])")
    family.ask(hostile)
    family.recovers(hostile)


LIBC = {
    "not executable": ("(MPROTECT, b, e - b, 0)", "(MPROTECT, b, e - b, RX)"),
    "unmapped": ("(MUNMAP, b, e - b)", "(MMAP, b, e - b, RX, PRIVATE | FIXED, fd, o)"),
    "not forked": ("(MADVISE, b, e - b, DONTFORK)", "(MADVISE, b, e - b, DOFORK)"),
}


@pytest.mark.parametrize("before, after", LIBC.values(), ids=LIBC)
def test_all_of_libc_is_gone_while_the_fork_runs(family, hostile, before, after):
    hostile.python_ok("(b, e, o, name), = [x for x in executable() if '/libc.so' in x[3]]\nfd = os.open(name, os.O_RDONLY)\n"
                      f"clone(before=[{before}], after=[{after}])")
    family.ask(hostile)
    family.recovers(hostile)


FLIP = r"""
fd = file_with(whole)
map_page(fd, SHARED)
def flip(end):
    while time.monotonic() < end:
        for code in b'\x31\xc0', b'\xcd\x80', b'\x90\x90', b'\x0f\x05', b'\x0f\x05':
            os.pwrite(fd, code, gadget - page)
    os.pwrite(fd, b'\x0f\x05', gadget - page)
"""


def test_a_gadget_that_another_thread_flips(family, hostile):
    hostile.python_ok(FLIP + "threading.Thread(target=flip, args=(time.monotonic() + 6,), daemon=True).start()")
    for _ in range(6):
        for child in family.ask(hostile).children:
            child.python("1", timeout_seconds=20)
    family.recovers(hostile)


def test_a_gadget_that_another_process_flips(family, hostile):
    hostile.python_ok(FLIP + "if os.fork() == 0:\n  flip(time.monotonic() + 8)\n  os._exit(0)")
    for _ in range(6):
        for child in family.ask(hostile).children:
            assert child.bash_ok("grep -h CapEff /proc/self/status") == "CapEff:\t00000000a00405fb\n"
    family.recovers(hostile)


def test_a_gadget_that_an_earlier_child_flips(family, hostile, ordinary):
    """What the parent shared is not shared with it any more: it changes its own memory only."""
    hostile.python_ok("map_page(file_with(whole), PRIVATE)\nshared = mmap.mmap(file_with(bytes(4096)), 4096)")
    child, = family.fork(hostile)
    child.python_ok("import threading\nshared[:4] = b'mine'\n"
                    "def forever():\n  while True:\n    for code in (0x31, 0xcd, 0x90):\n"
                    "      ctypes.c_ubyte.from_address(gadget).value = code\n"
                    "threading.Thread(target=forever, daemon=True).start()")
    assert hostile.python_ok("print(bytes(shared[:4]), ctypes.string_at(page, 4096) == whole)") == f"{bytes(4)} True\n"
    for grandchild in family.fork(hostile, 4):
        assert is_ordinary(grandchild) == ordinary
    assert child.bash_ok("echo ok") == "ok\n"


def test_a_gadget_in_a_file_that_the_parent_writes_while_its_children_are_made(family, hostile):
    """A private mapping shows what is written to its file until it is written to itself."""
    hostile.python_ok("fd = os.open('/root/page', os.O_RDWR | os.O_CREAT, 0o755)\nos.write(fd, whole)\nmap_page(fd, PRIVATE)\n"
                      "def fork():\n  r = call(CLONE, FORK)\n"
                      "  if r:\n    for _ in range(2000):\n"
                      r"      for code in b'\x31\xc0', b'\x0f\x05': os.pwrite(fd, code, gadget - page)" "\n"
                      "  return r\nos.fork = fork")
    for _ in range(6):
        for child in family.ask(hostile).children:
            assert child.bash_ok("grep -h CapEff /proc/self/status") == "CapEff:\t00000000a00405fb\n"
            # Its session's own filter: no namespaces, and no io_uring (425).
            assert child.python_ok("import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"
                                   "print(libc.unshare(0x10020000), libc.syscall(425, 0, 0, 0, 0, 0, 0), ctypes.get_errno())") == "-1 -1 38\n"
    family.recovers(hostile)


# What the session does instead of forking.

INSTEAD = {
    "it ends": "os._exit(3)",
    "it is killed": "os.kill(os.getpid(), 9)",
    "it crashes": "ctypes.string_at(8)",
    "it becomes another program": "os.execv('/bin/sleep', ['sleep', '1000'])",
    "a thread becomes another program": "threading.Thread(target=lambda: os.execv('/bin/sleep', ['sleep', '1000'])).start(); time.sleep(1000)",
    "it stops itself": "os.kill(os.getpid(), 19)",
    "it kills its group": "os.killpg(0, 9)",
    "it kills all it can": "os.kill(-1, 9); os.kill(os.getpid(), 9)",
    "it hangs": "time.sleep(1000)",
    "its main thread ends": "libc.pthread_exit(None)",
    "it raises": "1 / 0",
}


@pytest.mark.parametrize("what", INSTEAD.values(), ids=INSTEAD)
def test_what_it_does_instead(family, hostile, what):
    hostile.python_ok(f"def fork():\n  os.fork = real\n  {what}\nreal, os.fork = os.fork, fork")
    family.refused(hostile)
    hostile.python("1", timeout_seconds=2)  # finds an ended session or ends one that hangs
    family.recovers(hostile)


@pytest.mark.parametrize("flags", [0x8000, 0x10000000, 0x2000], ids=["CLONE_PARENT", "CLONE_NEWUSER", "CLONE_PTRACE"])
def test_a_clone_of_other_flags_is_no_fork(family, hostile, flags):
    hostile.python_ok(f"def fork():\n  os.fork = real\n  r = call(CLONE, FORK | {flags})\n  if r == 0: os._exit(0)\n"
                      "  open('/root/result', 'w').write(str(r))\n  raise OSError(1, 'no')\nreal, os.fork = os.fork, fork")
    family.refused(hostile)
    assert hostile.get("/root/result") == b"-1"
    family.recovers(hostile)


def test_a_clone_that_shares_its_memory_is_no_fork(family, hostile):
    hostile.python_ok("stack = libc.mmap(None, 1 << 20, RW, PRIVATE | ANONYMOUS, -1, 0) + (1 << 20)\n"
                      "def fork():\n  os.fork = real\n  global r\n"
                      # Its child finds no return address on its stack, and crashes.
                      "  r = calls((CLONE, 0x100 | 17, stack))[0]\n  raise OSError(1, 'no')\nreal, os.fork = os.fork, fork")
    family.refused(hostile)
    hostile.python("1", timeout_seconds=2)
    family.recovers(hostile)


# Tracing and signals.


def test_it_cannot_have_itself_traced(family, hostile):
    assert hostile.python_ok("print(call(101, 0), ctypes.get_errno())") == "-1 1\n"
    child, = family.fork(hostile)
    assert child.python_ok("print(call(101, 0), ctypes.get_errno())") == "-1 1\n"


def test_a_session_that_another_process_traces(family, hostile):
    """Who has a debugger cannot be forked; when it has left, it can."""
    pid = hostile.python_ok("print(os.getpid())").strip()
    hostile.put("/root/trace.py", f"""
import ctypes, os, time
libc = ctypes.CDLL(None)
print(libc.ptrace(0x4206, {pid}, 0, 0), flush=True)
open('/root/traced', 'w').close()
while not os.path.exists('/root/leave'): time.sleep(0.05)
""".encode())
    hostile.bash_ok("setsid python3 /root/trace.py >/root/said 2>&1 & true")
    eventually(lambda: hostile.get_status("/root/traced") == 200)
    assert hostile.get("/root/said") == b"0\n"
    assert hostile.client.request("POST", f"{hostile.path}/fork", {"n": 1}).status >= 400
    assert hostile.python_ok("print(6 * 7)") == "42\n"
    hostile.put("/root/leave", b"")
    eventually(lambda: hostile.bash_ok(f"grep TracerPid /proc/{pid}/status") == "TracerPid:\t0\n")
    family.fork(hostile)[0].works()
    hostile.works()


STORM = """
heard = 0
def hear(*_):
    global heard
    heard += 1
for each in signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGUSR1, signal.SIGRTMIN, signal.SIGCHLD, signal.SIGTRAP:
    signal.signal(each, hear)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
signal.setitimer(signal.ITIMER_PROF, 0.002, 0.002)
"""


def test_a_storm_of_timers(family, hostile):
    hostile.python_ok(STORM)
    for child in family.fork(hostile, 2):
        assert child.python_ok("print(signal.getsignal(signal.SIGALRM) is hear, signal.getitimer(signal.ITIMER_REAL))") == "True (0.0, 0.0)\n"
    assert int(hostile.python_ok("print(heard)")) > 0
    hostile.python_ok("signal.setitimer(signal.ITIMER_REAL, 0)\nsignal.setitimer(signal.ITIMER_PROF, 0)")
    hostile.works()


def test_a_flood_of_signals_from_another_process(family, hostile):
    hostile.python_ok(STORM + "signal.setitimer(signal.ITIMER_REAL, 0)\nsignal.setitimer(signal.ITIMER_PROF, 0)\n")
    pid = hostile.python_ok("print(os.getpid())").strip()
    hostile.put("/root/flood.py", f"import os, signal, time\nwhile not os.path.exists('/root/enough'):\n"
                                  f"  for s in (10, 12, 17, 5, 34):\n    if s != 12: os.kill({pid}, s)\n".encode())
    hostile.bash_ok("setsid python3 /root/flood.py >/dev/null 2>&1 & true")
    for _ in range(3):
        for child in family.ask(hostile, 2).children:
            assert child.bash_ok("echo ok") == "ok\n"
    hostile.put("/root/enough", b"")
    family.recovers(hostile)


def test_a_session_that_is_stopped_and_continued_meanwhile(family, hostile):
    pid = hostile.python_ok("print(os.getpid())").strip()
    hostile.bash_ok(f"setsid sh -c 'until [ -e /root/enough ]; do kill -STOP {pid}; kill -CONT {pid}; done' >/dev/null 2>&1 & true")
    for _ in range(3):
        family.ask(hostile)
    hostile.put("/root/enough", b"")
    hostile.bash_ok(f"sleep 0.2; kill -CONT {pid}")
    family.recovers(hostile)


# What it maps.


def test_too_many_mappings(family, hostile):
    hostile.python_ok("base = libc.mmap(None, 65000 * 4096, 1, PRIVATE | ANONYMOUS, -1, 0)\n"
                      "for i in range(0, 64000, 2): libc.mprotect(ctypes.c_void_p(base + i * 4096), 4096, RW)")
    family.refused(hostile, "mappings")
    hostile.python_ok("call(MUNMAP, base, 65000 * 4096)\nx = 1")
    assert family.fork(hostile)[0].python_ok("print(x)") == "1\n"


def test_128_gib_of_zero_page(family, hostile):
    """Which costs page tables only, and those are copied, too. Not every virtual machine's kernel has a zero page
    that is shared: there it costs memory, which the session has not got."""
    run = hostile.python("base = libc.mmap(None, 128 << 30, 1, PRIVATE | ANONYMOUS | 0x4000, -1, 0)\nassert base > 0\n"
                         "call(MADVISE, base, 128 << 30, 15)\nassert call(MADVISE, base, 128 << 30, 22) == 0",
                         timeout_seconds=50)
    if run.code == 0:
        family.refused(hostile, "maps too much memory")
        hostile.python_ok("call(MUNMAP, base, 128 << 30)")
    else:
        assert run.exit["oom"] and run.exit["restarted"], run
    hostile.python_ok("x = 1")
    assert family.fork(hostile)[0].python_ok("print(x)") == "1\n"


def test_one_file_mapped_again_and_again(family, hostile):
    """As page tables go, the same on every kernel."""
    hostile.python_ok("f = file_with(bytes(64 << 20))\nmaps = [libc.mmap(None, 64 << 20, 1, PRIVATE, f, 0) for _ in range(400)]\n"
                      "assert all(call(MADVISE, one, 64 << 20, 22) == 0 for one in maps)", timeout_seconds=50)
    family.refused(hostile, "maps too much memory")
    hostile.python_ok("for one in maps: call(MUNMAP, one, 64 << 20)\nos.close(f); x = 1")
    assert family.fork(hostile)[0].python_ok("print(x)") == "1\n"


def test_too_much_shared_memory(family, hostile):
    hostile.python_ok("base = libc.mmap(None, 65 << 20, RW, SHARED | ANONYMOUS, -1, 0)\nassert base > 0")
    family.refused(hostile, "65 MiB", "64 MiB")
    hostile.python_ok("call(MUNMAP, base, 65 << 20)\nx = 1")
    assert family.fork(hostile)[0].python_ok("print(x)") == "1\n"


SHARED = {
    "anonymous": "at = libc.mmap(None, 4096, RW, SHARED | ANONYMOUS, -1, 0)",
    "memfd": "at = libc.mmap(None, 4096, RW, SHARED, file_with(bytes(4096)), 0)",
    "POSIX": "open('/dev/shm/x', 'wb').write(bytes(4096)); f = open('/dev/shm/x', 'r+b'); at = libc.mmap(None, 4096, RW, SHARED, f.fileno(), 0)",
    "file": "open('/root/x', 'wb').write(bytes(4096)); f = open('/root/x', 'r+b'); at = libc.mmap(None, 4096, RW, SHARED, f.fileno(), 0)",
    "System V": "libc.shmat.restype = ctypes.c_long; at = libc.shmat(libc.shmget(0, 4096, 0o1600), None, 0)",
    "asynchronous I/O": "r = ctypes.c_long(0); assert call(206, 8, ctypes.addressof(r)) == 0; at = r.value + 2048",
}


@pytest.mark.parametrize("kind", SHARED.values(), ids=SHARED)
def test_shared_memory_is_each_one_s_own(family, hostile, kind):
    hostile.python_ok(kind + "\nassert at > 4096\ndef read(): return ctypes.string_at(at, 5)\n"
                      "def write(b): ctypes.memmove(at, b, 5)\nwrite(b'old!!')")
    one, other = family.fork(hostile, 2)
    assert one.python_ok("print(read())\nwrite(b'child')") == "b'old!!'\n"
    hostile.python_ok("assert read() == b'old!!'\nwrite(b'mine!')")
    assert other.python_ok("print(read())") == "b'old!!'\n"
    assert one.python_ok("print(read())") == "b'child'\n"
    grandchild, = family.fork(one)
    assert grandchild.python_ok("print(read())\nwrite(b'grand')") == "b'child'\n"
    assert one.python_ok("print(read())") == "b'child'\n"


def test_a_sealed_shared_mapping(family, hostile):
    """mseal(2), where there is one, keeps a mapping from being replaced."""
    hostile.python_ok("at = libc.mmap(None, 4096, RW, SHARED | ANONYMOUS, -1, 0)\nsealed = call(462, at, 4096) == 0")
    answer = family.ask(hostile)
    assert (answer.status != 200) == (hostile.python_ok("print(sealed)") == "True\n"), answer.body
    family.recovers(hostile)


def test_calls_that_would_reach_into_a_fork_are_refused(family, hostile):
    """userfaultfd, io_uring, keyrings, packet rings, moving pages, another core limit."""
    attempts = """
def attempt(*a): return 'done' if call(*a) >= 0 else errno.errorcode[ctypes.get_errno()]
print(attempt(323, 1), attempt(425, 8, 0), attempt(250, 1, 0), attempt(248, 0, 0, 0, 0, -3), attempt(41, 17, 3, 0),
      attempt(279, 0, 0), attempt(272, 0x10000000), attempt(308, 3, 0), attempt(438, 3, 0), attempt(435, 0, 0),
      attempt(312, os.getpid(), os.getpid(), 1), open('/proc/keys').read() == '')
for number in (resource.RLIMIT_CORE,):
    try: resource.setrlimit(number, (0, 0)); print('done')
    except (OSError, ValueError) as error: print('refused', resource.getrlimit(number))
"""
    said = hostile.python_ok(attempts)
    assert "done" not in said and "refused (1, 1)" in said, said
    for child in family.fork(hostile, 2):
        assert child.python_ok(attempts) == said


def test_its_program_cannot_be_changed(family, hostile, sibling):
    """The session's own /proc/self/exe lies on a mount that nothing inside can write to."""
    digest = "sha256sum /usr/bin/python3.11; stat -c %a:%i /usr/bin/python3.11"
    before = sibling.bash_ok(digest)
    attempts = """
exe = '/proc/self/exe'
for attempt in (lambda: os.chmod(exe, 0o4777), lambda: os.setxattr(exe, 'user.x', b'1'), lambda: os.utime(exe),
                lambda: os.chown(exe, 0, 0), lambda: open(exe, 'r+b'), lambda: os.truncate(exe, 1)):
    try: attempt(); print('done')
    except OSError as error: print(errno.errorcode[error.errno])
"""
    for one in [hostile, *family.fork(hostile, 2)]:
        said = one.python_ok(attempts).split()
        assert len(said) == 6 and "done" not in said, said
    assert sibling.bash_ok(digest) == before


# Limits.


def test_at_the_memory_limit(warren, family, hostile):
    """A fork whose parent has next to nothing left kills nobody."""
    pid = hostile.python_ok("print(os.getpid())")
    hostile.python_ok("""
hoard = []
limit = resource.getrlimit(resource.RLIMIT_AS)
def used(): return int([l for l in open('/proc/self/status') if l.startswith('VmRSS')][0].split()[1]) << 10
while used() < (1024 - 90) << 20:
    hoard.append(b'x' * (1 << 20))
""", timeout_seconds=50)
    path = memory_group(warren, hostile)

    def free():
        with open(f"{path}/memory.limit_in_bytes") as limit, open(f"{path}/memory.usage_in_bytes") as usage:
            return int(limit.read()) - int(usage.read())

    while free() > 2 * MIB:
        hostile.python_ok(f"hoard.append(b'x' * {max(MIB, (free() - MIB) // 2)})")
    answer = family.ask(hostile)
    assert hostile.python_ok("print(os.getpid())") == pid, answer.body
    with open(f"{path}/memory.oom_control") as control:
        assert "oom_kill 0" in control.read()
    for child in answer.children:
        assert int(child.python_ok("print(len(hoard))")) > 100


def test_at_the_limit_of_processes(family, hostile):
    """Keepers are not counted among the sandbox's own."""
    hostile.python_ok("sleepers = []\ntry:\n  while True:\n    pid = os.fork()\n"
                      "    if pid == 0: os.execlp('sleep', 'sleep', '1000')\n    sleepers.append(pid)\nexcept BlockingIOError: pass",
                      timeout_seconds=50)
    answer = family.ask(hostile, 2)
    assert answer.status == 200, answer.body
    assert len(answer.json()["not_copied"]["processes"]) > 50
    for child in answer.children:
        child.works()
        assert child.bash("pgrep sleep").code == 1
    hostile.python_ok("for pid in sleepers: os.kill(pid, 9)\nfor pid in sleepers: os.waitpid(pid, 0)")
    hostile.works()


def test_with_a_full_disk(family, hostile):
    hostile.bash("dd if=/dev/zero of=/root/full bs=1M count=4096; sync -f /root", timeout_seconds=90)
    assert hostile.bash("dd if=/dev/zero of=/root/more bs=1M count=64").code != 0
    hostile.python_ok("x = 'kept'")
    for child in family.ask(hostile, 2).children:
        assert child.python_ok("print(x)") == "kept\n"
        assert child.bash_ok("stat -c %s /root/full") == hostile.bash_ok("stat -c %s /root/full")
    hostile.bash_ok("rm -f /root/full /root/more")
    hostile.works()


def test_among_spinners_and_writers(family, hostile):
    """Everything in it must be frozen: what runs all the time, and what waits for the disk."""
    hostile.bash_ok("for i in $(seq 64); do setsid sh -c 'while :; do :; done' >/dev/null 2>&1 & done; "
                    "for i in 1 2 3 4; do setsid sh -c 'while :; do dd if=/dev/zero of=/root/w'$i' bs=64k count=64 conv=fsync; done' "
                    ">/dev/null 2>&1 & done; sleep 0.5")
    hostile.python_ok("x = 1", timeout_seconds=50)
    for _ in range(2):
        for child in family.ask(hostile, 2).children:
            assert child.python_ok("print(x)") == "1\n"
    assert hostile.bash_ok("pgrep -c '^sh$'; pkill -9 '^sh$'; true", timeout_seconds=50) == "68\n"
    family.recovers(hostile)


# What it has done before and after forks.


def test_a_handler_that_raises(family, hostile):
    hostile.python_ok("def bad(): raise RuntimeError('no')\nos.register_at_fork(before=bad, after_in_parent=bad, after_in_child=bad)\nx = 1")
    for child in family.fork(hostile, 2):
        assert child.python_ok("print(x)") == "1\n"
    hostile.works()


def test_a_handler_that_hangs_before(family, hostile):
    hostile.python_ok("os.register_at_fork(before=lambda: time.sleep(1000))")
    family.refused(hostile, "in time")
    hostile.python("1", timeout_seconds=2)
    family.recovers(hostile)


def test_a_handler_that_hangs_in_the_child(family, hostile):
    hostile.python_ok("mine = os.getpid()\nos.register_at_fork(after_in_child=lambda: time.sleep(1000))\nx = 1")
    for child in family.ask(hostile, 2).children:
        assert child.bash_ok("echo ok") == "ok\n"
    assert hostile.python_ok("print(x)") == "1\n"


def test_a_handler_that_ends_its_process_in_the_child(family, hostile):
    hostile.python_ok("os.register_at_fork(after_in_child=lambda: os._exit(1))\nx = 1")
    for child in family.ask(hostile, 2).children:
        child.works()
    assert hostile.python_ok("print(x)") == "1\n"


LIES = {
    "packed at once": r"""b'{"op":"packed","not_copied":{}}\n'""",
    "forked at once": r"""b'{"op":"packed","not_copied":{}}\n{"op":"forked"}\n'""",
    "much not copied": r"""b'{"op":"packed","not_copied":{"threads":-1,"descriptors":[' + b'"' + b'x' * 5000 + b'",' + b'[],{},' * 9000 + b'1],"processes":7,"more":{}}}\n'""",
    "nothing known": r"""b'{"op":"packed","not_copied":[[[[]]]]}\n{"op":"packed"}\n{"op":5}\n{}\n'""",
    "ready": r"""b'{"op":"ready"}\n' * 100""",
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_session_that_lies_to_its_agent(family, hostile, lie):
    hostile.python_ok("R = sys.modules['_warren_repl.runner']\nhonest = R.Luggage\n"
                      f"def luggage(*a):\n  R.Luggage = honest\n  os.write(251, {lie})\n  return honest(*a)\nR.Luggage = luggage\nx = 1")
    answer = family.ask(hostile)
    assert len(answer.body) < 50_000
    for child in answer.children:
        child.works()
    family.recovers(hostile)


@pytest.mark.parametrize("garbage", [r"b'garbage\n'", r"b'{\"op\":' * 1000 + b'\n'", r"bytes(1 << 20) + b'\n'"], ids=["words", "nested", "zeros"])
def test_a_session_that_sends_garbage(family, hostile, garbage):
    hostile.python_ok("R = sys.modules['_warren_repl.runner']\n"
                      f"def luggage(*a):\n  os.write(251, {garbage})\n  time.sleep(1000)\nR.Luggage = luggage")
    family.refused(hostile)
    family.recovers(hostile)


def test_a_session_that_closes_its_descriptors(family, hostile):
    hostile.python_ok("R = sys.modules['_warren_repl.runner']\ndef luggage(*a):\n  os.close(250); os.close(251)\n  time.sleep(1000)\nR.Luggage = luggage")
    family.refused(hostile)
    family.recovers(hostile)


def test_it_is_destroyed_while_it_hangs_in_a_fork(family, hostile, client):
    hostile.python_ok("os.register_at_fork(before=lambda: time.sleep(1000))")
    answers = []
    thread = threading.Thread(target=lambda: answers.append(client.request("POST", hostile.path + "/fork", {"n": 4}, wait=BOUND)))
    thread.start()
    eventually(lambda: hostile.bash("grep -l nanosleep /proc/[0-9]*/wchan /proc/[0-9]*/stack 2>/dev/null; true").code == 0)
    client.request("DELETE", hostile.path)
    thread.join(BOUND)
    assert answers and answers[0].status >= 400 and answers[0].error()


# What a child has.


def test_a_child_inherits_nothing_of_the_host(family, hostile, ordinary):
    child, = family.fork(hostile)
    grandchild, = family.fork(child)
    for one in child, grandchild:
        assert is_ordinary(one) == ordinary
        opened = one.python_ok("print(*[n + '=' + os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}')])")
        assert not any(word in opened for word in ("anon_inode", "cgroup", "pidfd", "252=", "253=", "254=")), opened
        links = one.python_ok("print(*[os.readlink(f'/proc/self/fd/{n}').split(':')[0] for n in (0, 1, 2, 250, 251)])").split()
        assert links == ["/dev/null", "pipe", "pipe", "pipe", "pipe"]
        # Nobody else is there: no keeper, no process of the host's.
        assert one.python_ok("print(len([n for n in os.listdir('/proc') if n.isdigit()]), os.getppid(), os.getpgid(0) == os.getpid())") == "2 0 True\n"
        assert one.python_ok("print(open('/proc/self/oom_score_adj').read(), open('/proc/self/mountinfo').read().count('cgroup'))").split()[1] == "0"


def session_of(group):
    """The session's process and its keeper, as the host sees them."""
    with open(f"{group}/cgroup.procs") as file:
        inside = [int(line) for line in file]
    sessions = [pid for pid in inside if host.command_line(pid)[:1] == ["/usr/bin/python3"]]
    keepers = [pid for pid in sessions if len((host.status_field(pid, "NSpid") or "").split()) == 1]
    return [pid for pid in sessions if pid not in keepers], keepers


def test_keepers_are_charged_and_neither_frozen_nor_counted(warren, family, hostile):
    for one in [hostile, *family.fork(hostile, 2)]:
        group = memory_group(warren, one)
        (session,), (keeper,) = session_of(group)
        assert host.process(keeper).parent == warren.runtime_pid == host.process(session).parent
        assert host.process(keeper).state == "t"
        groups = dict(line.split(":", 2)[1:] for line in host.cgroups_of(keeper).splitlines())
        assert [name for name, path in groups.items() if os.path.basename(group) in path and name != "memory"] == []
        assert host.status_field(keeper, "SigBlk").lower().startswith("fffffff")
        assert sorted(os.readlink(f"/proc/{keeper}/fd/{n}").split(":")[0] for n in os.listdir(f"/proc/{keeper}/fd")) == \
            ["/dev/null"] * 3 + ["anon_inode"]
        assert host.status_field(session, "NSpid").split()[1] != "1"


def test_memory_is_charged_to_whom_it_belongs(warren, family, hostile):
    """Along a chain of forks, each of which has written memory of its own."""
    def charged(sandbox):
        with open(f"{memory_group(warren, sandbox)}/memory.usage_in_bytes") as file:
            return int(file.read())

    one = hostile
    one.python_ok("all = []")
    for _ in range(3):
        before = charged(one)
        one.python_ok("own = bytearray(os.urandom(1 << 20)) * 64\nall.append(own)")
        assert charged(one) >= before + 60 * MIB
        child, = family.fork(one)
        assert charged(child) < before + 60 * MIB
        # What it writes to is its own from then on.
        before = charged(child)
        child.python_ok("for i in range(0, len(own), 4096): own[i] ^= 1")
        assert charged(child) >= before + 60 * MIB
        one = child


def test_a_chain_whose_ancestors_have_ended(family, make_sandbox):
    one = make_sandbox()
    one.python_ok("trail = []\nimport mmap\nshared = mmap.mmap(-1, 4096)")
    pids = set()
    for i in range(40):
        pids.add(one.python_ok(f"import os\ntrail.append({i})\nshared[{i}] = {i}\nopen('/root/{i}', 'w').close()\nprint(os.getpid())"))
        child, = family.fork(one)
        one.destroy()
        one = child
    assert one.python_ok("print(trail == list(range(40)), list(shared[:40]) == trail)") == "True True\n"
    assert one.bash_ok("ls /root | wc -l") == "40\n"
    assert len(pids) > 30
    one.works()


DRAW = """
import os, random, ssl, uuid, secrets, tempfile
print(ssl.RAND_bytes(16).hex(), os.urandom(16).hex(), random.random(), uuid.uuid4(), secrets.token_hex(), next(tempfile._get_candidate_names()))
"""


def test_random_numbers_differ(family, make_sandbox):
    parent = make_sandbox(template="python-datasci")
    draw = DRAW + "import numpy\nprint(numpy.random.random())\n"
    parent.python_ok(draw)
    drawn = [one.python_ok(draw).split() for one in [*family.fork(parent, 4), parent]]
    for each in zip(*drawn):
        assert len(set(each)) == 5, drawn


def test_process_numbers_differ(family, hostile):
    numbers = {one.python_ok("import os\nprint(os.getpid())") for one in [*family.fork(hostile, 8), hostile]}
    assert len(numbers) == 9


# A session that ends, in a sandbox where others run.


def test_a_session_killed_for_memory_is_replaced_and_can_be_forked(family, hostile):
    run = hostile.python("x = [bytearray(1 << 20) for _ in range(4096)]", wait=BOUND)
    assert run.exit.get("oom"), run
    family.recovers(hostile)


AMBUSH = """
import ctypes, os, signal, sys, time
libc = ctypes.CDLL(None, use_errno=True)
known = {{int(n) for n in os.listdir('/proc') if n.isdigit()}}
met, took = 0, []
def attempt(name, action):
    try:
        action()
        took.append(name)
    except OSError: pass
def syscall(*a):
    if libc.syscall(*a) < 0: raise OSError(ctypes.get_errno(), '')
buffer = ctypes.create_string_buffer(64)
what = {what!r}
os.kill({session}, 9)
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    for name in os.listdir('/proc'):
        if not name.isdigit() or int(name) in known: continue
        pid = int(name); met += 1
        try: exec(what)
        except OSError: pass
open('/root/ending', 'w').write(f'{{met}} {{sorted(set(took))}}')
os.rename('/root/ending', '/root/ended')
"""

AMBUSHES = {
    "stops it": "attempt('stop', lambda: os.kill(pid, signal.SIGSTOP))",
    "kills it": "attempt('kill', lambda: os.kill(pid, signal.SIGKILL))",
    "signals it": "[attempt('signal', lambda: os.kill(pid, s)) for s in range(1, 65) if s not in (9, 19)]",
    "slows it": "attempt('idle', lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))); attempt('nice', lambda: os.setpriority(0, pid, 19)); "
                "attempt('pin', lambda: os.sched_setaffinity(pid, {0})); attempt('pin', lambda: os.sched_setaffinity(pid, {1}))",
}


@pytest.mark.parametrize("what", AMBUSHES.values(), ids=AMBUSHES)
def test_a_new_session_that_others_lie_in_wait_for(sandbox, client, ordinary, what):
    session = sandbox.python_ok("import os\nprint(os.getpid())").strip()
    sandbox.put("/root/ambush.py", AMBUSH.format(session=session, seconds=4, what=what).encode())
    sandbox.bash_ok("setsid python3 /root/ambush.py >/root/said 2>&1 & true")
    until = time.monotonic() + BOUND
    while sandbox.get_status("/root/ended") != 200:
        client.create().destroy()  # nobody else is held up
        assert time.monotonic() < until, sandbox.get("/root/said")
    assert int(sandbox.get("/root/ended").split()[0]) > 0
    sandbox.bash("pkill -CONT python3; true")
    sandbox.python("1", timeout_seconds=3)
    sandbox.works()
    sandbox.python(SESSION_ENDS, timeout_seconds=5, wait=BOUND)
    assert is_ordinary(sandbox) == ordinary


def test_a_new_session_cannot_be_taken_over_before_it_is_one_of_the_sandbox_s(sandbox, ordinary):
    """Whoever gets hold of its memory or descriptors has what is inside anyway: the same ids, capabilities and filter."""
    session = sandbox.python_ok("import os\nprint(os.getpid())").strip()
    what = ("status = open(f'/proc/{pid}/status').read()\n"
            "attempt('trace', lambda: syscall(101, 0x4206, pid, 0, 0))\n"
            "attempt('write', lambda: syscall(311, pid, buffer, 0, buffer, 0, 0))\n"
            "handle = os.pidfd_open(pid)\nattempt('descriptor', lambda: syscall(438, handle, 252, 0))\nos.close(handle)\n"
            "attempt('compare', lambda: syscall(312, pid, pid, 1, 0, 0))\n"
            "[attempt(name, lambda: os.open(f'/proc/{pid}/{name}', os.O_RDWR)) for name in ('fd/252', 'fd/253', 'fd/254', 'ns/user', 'root/sys/fs/cgroup/memory')]\n"
            "seen = dict(l.split(':', 1) for l in status.splitlines() if ':' in l)\n"
            "if 'trace' in took and int(seen.get('CapEff', '0'), 16) & ~0xa00405fb: took.append('RIGHTS')\n")
    sandbox.put("/root/ambush.py", AMBUSH.format(session=session, seconds=3, what=what).encode())
    sandbox.bash_ok("setsid python3 /root/ambush.py >/root/said 2>&1 & true")
    eventually(lambda: sandbox.get_status("/root/ended") == 200)
    said = sandbox.get("/root/ended").decode()
    for never in "RIGHTS", "descriptor", "compare", "fd/252", "fd/253", "fd/254", "cgroup":
        assert never not in said, said
    sandbox.python("1", timeout_seconds=3)
    sandbox.works()


def test_a_session_killed_again_and_again(sandbox, client):
    sandbox.put("/root/killer.py", b"import os, time\nend = time.monotonic() + 6\nwhile time.monotonic() < end:\n"
                                   b"  for n in os.listdir('/proc'):\n    if n.isdigit() and int(n) not in (1, os.getpid()):\n"
                                   b"      try: os.kill(int(n), 9)\n      except OSError: pass\nopen('/root/ended', 'w').close()\n")
    sandbox.bash_ok("setsid python3 /root/killer.py >/dev/null 2>&1 & true")
    until = time.monotonic() + BOUND
    while sandbox.get_status("/root/ended") != 200:
        assert time.monotonic() < until
        other = client.create()
        other.works()
        other.destroy()
    sandbox.works()

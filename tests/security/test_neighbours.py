"""Two sandboxes on one machine have nothing of each other: files, processes, IPC, names, counters."""

import ctypes
import os
import socket

import pytest

import host


@pytest.fixture
def pair(make_sandbox):
    return make_sandbox(), make_sandbox()


def test_files_and_processes(pair):
    one, other = pair
    token = os.urandom(8).hex()
    for folder in ("/root", "/tmp", "/dev/shm", "/run", "/var/tmp", "/etc", "/usr/bin"):
        one.bash_ok(f"echo {token} > {folder}/{token}")
    one.bash_ok(f"setsid sh -c 'exec -a {token} sleep 1000' >/dev/null 2>&1 & true")
    found = other.bash_ok(f"find / -name {token} -not -path '/proc/*' 2>/dev/null; ps -eo args | grep {token}; true")
    lines = [line for line in found.splitlines() if not any(own in line for own in ("find", "bash", "grep"))]
    assert lines == [], found


def test_interprocess_communication(pair):
    one, other = pair
    one.bash_ok("ipcmk -Q -S 1 -M 4096 >/dev/null; python3 - <<'END'\n"
                "import ctypes\nlibc = ctypes.CDLL(None)\nassert libc.shmget(0x5f0c, 4096, 0o1666) >= 0\nEND")
    assert "0x00005f0c" in one.bash_ok("ipcs -m")
    text = other.bash_ok("ipcs -m -q -s; cat /proc/sysvipc/shm; ls -A /dev/shm /dev/mqueue 2>/dev/null; true")
    assert "5f0c" not in text and "24332" not in text


ABSTRACT_SERVER = """
import socket, time
s = socket.socket(socket.AF_UNIX); s.bind('\\0probe-socket'); s.listen()
open('/tmp/listening', 'w').close()
time.sleep(1000)
"""


def test_abstract_sockets(pair):
    one, other = pair
    one.put("/tmp/server.py", ABSTRACT_SERVER.encode())
    one.bash_ok("setsid python3 /tmp/server.py >/dev/null 2>&1 & while [ ! -e /tmp/listening ]; do sleep 0.05; done")
    code = ("import socket\ns = socket.socket(socket.AF_UNIX)\n"
            "try: s.connect('\\0probe-socket'); print('connected')\nexcept OSError as e: print('refused')")
    assert one.python_ok(code) == "connected\n"
    assert other.python_ok(code) == "refused\n"
    assert "probe-socket" not in other.bash_ok("cat /proc/net/unix")


def test_abstract_sockets_of_the_host(sandbox):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0warren-test-of-the-host")
        listener.listen()
        code = ("import socket\ns = socket.socket(socket.AF_UNIX)\n"
                "try: s.connect('\\0warren-test-of-the-host'); print('connected')\nexcept OSError: print('refused')")
        assert sandbox.python_ok(code) == "refused\n"


INOTIFY_HOG = """
import ctypes, time, sys
libc = ctypes.CDLL(None, use_errno=True)
count = 0
while libc.inotify_init1(0) >= 0: count += 1
print(count, ctypes.get_errno(), flush=True)
time.sleep(1000)
"""


def test_inotify_and_other_user_counters(pair):
    """One sandbox takes all inotify instances it can get, as many users; another, and the host, still get theirs."""
    one, other = pair
    one.put("/tmp/hog.py", INOTIFY_HOG.encode())
    one.bash_ok("for u in 0 1 2 3 65534; do setpriv --reuid $u --regid $u --clear-groups setsid python3 /tmp/hog.py "
                ">/tmp/hog-$u 2>&1 & done; sleep 1; true")
    code = ("import ctypes\nlibc = ctypes.CDLL(None)\n"
            "print(sum(libc.inotify_init1(0) >= 0 for _ in range(10)))")
    assert other.python_ok(code) == "10\n"
    libc = ctypes.CDLL(None)
    descriptors = [libc.inotify_init1(0) for _ in range(10)]
    assert min(descriptors) >= 0, "the host's own inotify instances were used up"
    for one_descriptor in descriptors:
        os.close(one_descriptor)


def test_signals_pending_do_not_use_up_a_neighbour_s(pair):
    one, other = pair
    one.python("""
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
import ctypes
libc = ctypes.CDLL(None)
for _ in range(200_000):
    if libc.sigqueue(os.getpid(), int(signal.SIGRTMIN), 0) != 0: break
""", timeout_seconds=20)
    assert other.python_ok("""
import ctypes, os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
print(ctypes.CDLL(None).sigqueue(os.getpid(), int(signal.SIGRTMIN), 0))
signal.sigtimedwait({signal.SIGRTMIN}, 1)
""") == "0\n"


def test_keyrings_are_refused(sandbox):
    assert sandbox.bash("cat /proc/keys").stdout.strip() == b""


def test_file_locks_of_a_sandbox_s_own_files_are_its_own(pair):
    """(Locks on files of the template cross sandboxes: docs/security.md says so.)"""
    one, other = pair
    for sandbox in pair:
        sandbox.bash_ok("touch /root/lock")
    one.bash_ok("setsid flock -x /root/lock sleep 1000 >/dev/null 2>&1 & sleep 0.3; true")
    assert other.bash("flock -xn /root/lock true").code == 0


def test_a_sandbox_that_ends_takes_all_of_it_along(warren, client):
    sandbox = client.create()
    sandbox.bash_ok("setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 911; done' >/dev/null 2>&1 & true")
    sandbox.bash_ok("python3 -c 'import os\nfor _ in range(3):\n  if os.fork(): os._exit(0)\n  os.setsid()\n"
                    "os.execvp(\"sleep\", [\"sleep\", \"911\"])'")
    inside = warren.inside("sleep", "911", count=2)
    group = {p.pid: p for pid in [inside[0].pid] for q in host.children_in_namespace_of(pid) if (p := host.process(q))}
    sandbox.destroy()
    left = [p for p in group.values() if host.alive(p) and host.process(p.pid).state != "Z"]
    assert left == []

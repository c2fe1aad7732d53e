"""A sandbox that takes all it can get hurts itself only. Every attack here is bounded from outside too."""

import errno
import os
import pty
import signal
import socket
import threading
import time

import pytest

import host
from warren_client import ApiError, eventually

pytestmark = pytest.mark.alone  # the memory that the host has left is looked at

MIB = 1 << 20
BOUND = 90


def answers(sandbox):
    """Whether the sandbox still takes a command; it may be busy dying."""
    try:
        return sandbox.bash("echo ok", wait=30, timeout_seconds=20).stdout == b"ok\n"
    except (ApiError, OSError):
        return False


def host_is_well():
    """The host still starts processes at once and has memory left."""
    started = time.monotonic()
    assert os.spawnvp(os.P_WAIT, "true", ["true"]) == 0
    assert time.monotonic() - started < 20
    with open("/proc/meminfo") as file:
        available = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
    assert available > 1024 * 1024


def test_a_fork_bomb(sandbox, sibling):
    stream = sandbox.exec_stream("b() { b | b & }; b; echo started; sleep 600", "bash", timeout_seconds=20)
    time.sleep(1)
    host_is_well()
    assert sibling.bash_ok("echo ok") == "ok\n"
    sibling.client.create().destroy()
    stream.cut()
    # It can be ended whatever it does.
    sandbox.destroy()
    assert not sandbox.exists()


def test_a_fork_bomb_s_deadline_holds(sandbox, sibling):
    run = sandbox.bash("while :; do sleep 100 & done 2>/dev/null", timeout_seconds=2, wait=BOUND)
    assert run.code != 0
    assert sibling.bash_ok("echo ok") == "ok\n"
    eventually(lambda: answers(sandbox), BOUND, "the sandbox's recovery")


def test_the_number_of_processes_is_limited(sandbox):
    run = sandbox.python("import os\nn = 0\ntry:\n  while n < 2000:\n    if os.fork() == 0: os.execlp('sleep', 'sleep', '20')\n"
                         "    n += 1\nexcept OSError as e: print(n, e.errno)", wait=BOUND)
    assert run.stdout.split()[-1] == b"11", run  # EAGAIN
    assert int(run.stdout.split()[0]) < 256


def test_threads_count_too(sandbox):
    run = sandbox.python("import threading, time\nn = 0\ntry:\n  while n < 2000:\n"
                         "    threading.Thread(target=time.sleep, args=(5,), daemon=True).start(); n += 1\n"
                         "except RuntimeError: pass\nprint(n)", wait=BOUND)
    assert int(run.stdout) < 256
    eventually(lambda: answers(sandbox), BOUND)


@pytest.mark.parametrize("how", [
    "python3 -c 'b = []\nwhile True: b.append(b\"\\1\" * 10_000_000)'",
    "head -c 4G /dev/zero > /dev/shm/fill",
    "head -c 4G /dev/zero > /tmp/fill; head -c 4G /dev/zero > /run/fill",
    "for i in $(seq 40); do python3 -c 'x = b\"\\1\" * 100_000_000; import time; time.sleep(30)' & done; wait",
    "tail /dev/zero",
    "python3 -c 'import os, mmap\nfor _ in range(100):\n  f = os.memfd_create(\"x\"); os.truncate(f, 1 << 27)\n"
    "  m = mmap.mmap(f, 1 << 27); m.write(b\"\\1\" * (1 << 27))'",
    "python3 -c 'import socket\nl = []\nwhile True:\n  a, b = socket.socketpair(); a.setblocking(False); l.append((a, b))\n"
    "  try:\n    while True: a.send(b\"x\" * 65536)\n  except OSError: pass'",
    "mkfifo /tmp/p; python3 -c 'import os, fcntl\nl = []\nwhile True:\n  r, w = os.pipe(); l.append((r, w))\n"
    "  fcntl.fcntl(w, 1031, 1 << 20); os.write(w, b\"x\" * (1 << 20))'",
], ids=["heap", "shm", "tmp", "many", "tail", "memfd", "sockets", "pipes"])
def test_memory_is_limited(how, warren, sandbox, sibling):
    """1 GiB is the limit of this instance's tier."""
    peak = 0
    stop = threading.Event()

    def watch():
        nonlocal peak
        while not stop.is_set():
            with open("/proc/meminfo") as file:
                available = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
            peak = max(peak, before - available)
            time.sleep(0.1)

    with open("/proc/meminfo") as file:
        before = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        try:
            sandbox.bash(how, timeout_seconds=25, wait=BOUND)
        except ApiError as error:
            assert error.status in (409, 503), error
        assert sibling.bash_ok("echo ok") == "ok\n"
    finally:
        stop.set()
        watcher.join()
    assert peak < 6 * 1024 * 1024, f"the host's memory shrank by {peak >> 10} MiB"
    host_is_well()
    warren.client.create().destroy()
    eventually(lambda: answers(sandbox), BOUND, "the sandbox's recovery")


def test_an_out_of_memory_command_is_told_as_that(sandbox):
    run = sandbox.bash("python3 -c 'b = []\nwhile True: b.append(b\"\\1\" * 10_000_000)'", wait=BOUND)
    assert run.code == 137 and run.exit.get("oom") is True, run


def test_a_kill_is_not_told_as_out_of_memory_when_a_neighbour_runs_out(sandbox, make_sandbox):
    other = make_sandbox()
    stream = sandbox.exec_stream("echo waits; until [ -e /root/go ]; do sleep 0.05; done; kill -9 $$", "bash", wait=BOUND)
    stream.wait_for_output(b"waits")
    run = other.bash("python3 -c 'b = []\nwhile True: b.append(b\"\\1\" * 10_000_000)'", wait=BOUND)
    assert run.exit.get("oom") is True, run
    sandbox.put("/root/go", b"")
    last = list(stream)[-1]
    assert last["type"] == "exit" and last["data"] == 137 and not last.get("oom"), last


def test_disk_is_limited_and_comes_back(start_server):
    server = start_server(limits={"disk_mib": 200, "memory_mib": 512})
    one, other = server.client.create(), server.client.create()
    run = one.bash("head -c 1G /dev/urandom > /root/fill; ls -l /root/fill | awk '{print $5}'", timeout_seconds=60)
    assert b"quota" in run.stderr.lower() or b"space" in run.stderr.lower(), run
    assert int(run.text) <= 220 * MIB
    # Not through holes, links, removed open files or sparse rewriting either.
    one.bash("rm -f /root/fill; exec 3>/root/open; rm /root/open; head -c 1G /dev/urandom >&3", timeout_seconds=60)
    one.bash("python3 -c 'import os\nf = os.open(\"/root/alloc\", os.O_CREAT | os.O_RDWR)\nos.posix_fallocate(f, 0, 1 << 30)'")
    assert server.pool_bytes() < 600 * MIB
    other.put("/root/mine", b"x" * (50 * MIB))
    other.works()
    one.bash("rm -f /root/*")
    eventually(lambda: one.bash("head -c 20M /dev/urandom > /root/again").code == 0, BOUND, "the freed space")
    one.destroy()
    server.client.create().works()


def test_inodes_are_limited_by_the_disk_they_take(start_server):
    server = start_server(limits={"disk_mib": 16})
    one, other = server.client.create(), server.client.create()
    run = one.bash("mkdir /root/many; cd /root/many; python3 -c '\nn = 0\ntry:\n  while n < 1_000_000:\n"
                   "    open(str(n), \"w\").close(); n += 1\nexcept OSError as e: print(e.errno, n)'",
                   timeout_seconds=80, wait=BOUND)
    code, count = map(int, run.text.split())
    assert code == errno.EDQUOT and count < 200_000
    other.put("/root/mine", b"x" * MIB)
    other.works()
    one.destroy()
    server.client.create().works()


def test_descriptors_are_limited(sandbox, sibling):
    run = sandbox.python("import os\nheld = []\ntry:\n  while True: held.append(os.open('/dev/null', 0))\n"
                         "except OSError as e: print(len(held), e.errno)\nfor h in held: os.close(h)")
    count, code = map(int, run.stdout.split())
    assert code == 24 and count < 1100
    # Many processes with many each.
    sandbox.bash("for i in $(seq 100); do python3 -c 'import os, time\ntry:\n  while True: os.open(\"/dev/null\", 0)\n"
                 "except OSError: time.sleep(5)' & done; wait", timeout_seconds=30, wait=BOUND)
    assert sibling.bash_ok("echo ok") == "ok\n"
    with open("/proc/sys/fs/file-nr") as file:
        used, _, most = map(int, file.read().split())
    assert used < most // 2


def test_terminals_are_limited_to_the_sandbox(sandbox, sibling):
    """So that a few sandboxes do not use up kernel.pty.max (4096), and whoever opens one too many is told so."""
    run = sandbox.python("import os\nheld = []\ntry:\n  while len(held) < 5000: held.append(os.openpty())\n"
                         "except OSError as e: print(len(held), e.errno)")
    count, code = map(int, run.stdout.split())
    assert 16 <= count <= 64 and code == errno.ENOSPC, run
    # They are held still, by the session.
    assert sibling.python_ok("import os\na, b = os.openpty(); os.close(a); os.close(b); print('ok')") == "ok\n"
    for descriptor in pty.openpty():
        os.close(descriptor)
    assert sandbox.python_ok("for a, b in held: os.close(a); os.close(b)\nos.openpty(); print('ok')") == "ok\n"


def test_a_flood_of_output_from_many_commands_stays_bounded(warren, sandbox, sibling):
    server, runtime = warren.server_pid, warren.runtime_pid
    before = host.anonymous_bytes(server), host.anonymous_bytes(runtime)
    streams = [sandbox.exec_stream("yes", "bash", timeout_seconds=20) for _ in range(16)]  # nobody reads
    time.sleep(3)
    assert sibling.bash_ok("echo ok") == "ok\n"
    assert sandbox.bash_ok("echo ok") == "ok\n"
    assert host.anonymous_bytes(server) - before[0] < 256 * MIB
    assert host.anonymous_bytes(runtime) - before[1] < 64 * MIB
    for stream in streams:
        stream.cut()
    eventually(lambda: sandbox.bash("pgrep -xc yes").text == "0\n", BOUND, "the end of the floods")


def test_output_does_not_fill_the_log(warren, sandbox):
    size = os.path.getsize(warren.log_path)
    sandbox.bash("yes | head -c 20M; yes | head -c 5M >&2")
    for _ in range(50):
        sandbox.bash("exit 1")
        warren.client.request("GET", "/v1/sandboxes/sbx_" + "0" * 32)
    assert os.path.getsize(warren.log_path) - size < MIB


def test_many_calls_at_once_are_refused_not_fatal(sandbox, sibling):
    outcomes = []

    def call():
        try:
            outcomes.append(sandbox.bash("sleep 2", wait=BOUND, timeout_seconds=30).code)
        except (ApiError, OSError) as error:
            outcomes.append(getattr(error, "status", str(error)))

    threads = [threading.Thread(target=call) for _ in range(200)]
    for thread in threads:
        thread.start()
    assert sibling.bash_ok("echo ok") == "ok\n"
    for thread in threads:
        thread.join(BOUND)
    assert len(outcomes) == 200 and 500 not in outcomes, outcomes
    eventually(lambda: answers(sandbox), BOUND)


def test_many_silent_connections_stall_nobody(warren, sibling):
    held = []
    try:
        for _ in range(1500):
            held.append(socket.create_connection((warren.client.host, warren.client.port), timeout=10))
        for one in held[::2]:
            one.sendall(b"POST /v1/sandboxes HTTP/1.1\r\nHost: a\r\n")
        assert sibling.bash_ok("echo ok") == "ok\n"
    finally:
        for one in held:
            one.close()


def test_spooled_output_counts_as_the_sandbox_s_own(start_server):
    server = start_server(limits={"disk_mib": 128, "memory_mib": 256})
    sandbox = server.client.create()
    result = server.client.tool("run_bash", sandbox_id=sandbox.id, command="yes | head -c 600M", wait=BOUND)
    assert result["structuredContent"]["truncated"] is True
    sandbox.works()
    server.client.create().works()


def test_deep_folders_and_long_chains_of_links(sandbox):
    sandbox.python_ok("import os\nos.makedirs('/tmp/d', exist_ok=True)\nos.chdir('/tmp/d')\n"
                      "for i in range(3000):\n  os.mkdir('d'); os.chdir('d')\nos.chdir('/')\n"
                      "for i in range(200): os.symlink(f'/tmp/l{i+1}', f'/tmp/l{i}')")
    assert sandbox.get_status("/tmp/l0") in (400, 404)
    listing = sandbox.client.tool("list_files", sandbox_id=sandbox.id, path="/tmp/d")
    assert not listing.get("isError")
    sandbox.works()


def test_an_agent_that_stands_still_stalls_only_its_own_sandbox(warren, client, make_sandbox, sibling):
    """The host's own hand stops process 1: calls to that sandbox fail in bounded time, others go on."""
    sandbox = make_sandbox()
    sandbox.bash_ok("setsid sleep 912 >/dev/null 2>&1 & true")
    inside = warren.inside("sleep", "912")[0]
    agent = next(pid for pid in host.children_in_namespace_of(inside.pid)
                 if host.status_field(pid, "NSpid").split()[-1] == "1")
    os.kill(agent, signal.SIGSTOP)
    stuck = []

    def call():
        try:
            stuck.append(sandbox.bash("true", timeout_seconds=1, wait=BOUND).code)
        except (ApiError, OSError) as error:
            stuck.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    try:
        assert sibling.bash_ok("echo ok") == "ok\n"
        client.create().destroy()
        assert sandbox.exists()
        sandbox.destroy()
        assert not sandbox.exists()
        caller.join(BOUND)
        assert not caller.is_alive() and stuck and stuck[0] != 0
    finally:
        if host.process(agent):
            try:
                os.kill(agent, signal.SIGCONT)
            except ProcessLookupError:
                pass

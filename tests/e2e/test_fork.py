"""A live sandbox is copied: what its children have, what they do not, and that nobody else notices."""

import concurrent.futures
import os
import threading
import time

import pytest

import host
from warren_client import ApiError, eventually

BOUND = 60
# So that the sandboxes that there are can be counted.
NO_STOCK = {"stock": 0}


def test_children_have_what_the_parent_has_and_go_their_own_ways(sandbox, fork):
    sandbox.python_ok("import os, math as m, signal, sys\n"
                      "x = {'a': [1, 2, 3]}\n"
                      "def double(n): return 2 * n\n"
                      "class Thing:\n    value = 7\n"
                      "thing = Thing()\n"
                      "os.makedirs('/root/work'); os.chdir('/root/work')\n"
                      "os.environ['MARK'] = 'set'\n"
                      "old = os.umask(0o027)\n"
                      "caught = []\n"
                      "previous = signal.signal(signal.SIGUSR1, lambda *_: caught.append('usr1'))\n"
                      "sys.path.insert(0, '/root/lib'); sys.setrecursionlimit(3000)\n"
                      "open('/root/note', 'w').write('kept')")
    sandbox.bash_ok("mkdir -p /var/data && echo deep > /var/data/file && ln -s file /var/data/link && chmod 640 /var/data/file && "
                    "apt-get --version > /dev/null && rm /etc/motd; touch /tmp/in-tmp")
    child, = fork(sandbox)
    seen = child.python_ok("print(x, double(4), thing.value, m.pi > 3, os.getcwd(), os.environ['MARK'], oct(os.umask(0o027)))\n"
                           "os.kill(os.getpid(), signal.SIGUSR1)\n"
                           "print(caught, sys.path[0], sys.getrecursionlimit(), open('/root/note').read())")
    assert seen == "{'a': [1, 2, 3]} 8 7 True /root/work set 0o27\n['usr1'] /root/lib 3000 kept\n"
    assert child.bash_ok("cat /var/data/link; stat -c %a /var/data/file; test ! -e /etc/motd && ls /tmp/in-tmp") == "deep\n640\n/tmp/in-tmp\n"

    # Later work is seen by nobody else.
    sandbox.python_ok("x['a'].append(4); y = 1; open('/root/note', 'w').write('changed'); open('/root/later', 'w')")
    assert child.python_ok("print(x, 'y' in globals(), open('/root/note').read(), os.path.exists('/root/later'))") == "{'a': [1, 2, 3]} False kept False\n"
    child.python_ok("x = 'mine'; open('/root/note', 'w').write('mine'); os.remove('/var/data/file')")
    assert sandbox.python_ok("print(x, open('/root/note').read(), open('/var/data/link').read())") == "{'a': [1, 2, 3, 4]} changed deep\n\n"
    info = child.refresh()
    assert info["state"] == "ready" and info["template"] == sandbox.info["template"] and info["fork_copies"] == "runner"
    child.works()
    sandbox.works()


def test_children_have_the_parents_lifetime_and_limits(client, make_sandbox, fork):
    parent = make_sandbox(ttl_seconds=900, persistent=True, name="a name")
    child, = fork(parent)
    info, own = child.refresh(), parent.refresh()
    assert info["persistent"] is True and info["name"] == "" and info["egress"] == own["egress"]
    assert info["expires_at"] > own["expires_at"] or info["created_at"] >= own["created_at"]
    limits = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; df --output=size / | tail -1; nproc; ulimit -n"
    assert child.bash_ok(limits) == parent.bash_ok(limits)
    run = child.python("block = bytearray(3 << 30)", wait=BOUND)
    assert run.code == 137 or run.errors, run
    parent.works()


def test_five_at_once_are_five(sandbox, fork):
    sandbox.python_ok("base = list(range(1000))")
    children = fork(sandbox, 5)
    assert len({c.id for c in children}) == 5
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        sums = list(pool.map(lambda pair: pair[1].python_ok(f"base.append({pair[0]}); print(sum(base))"), enumerate(children)))
    assert sums == [f"{499500 + i}\n" for i in range(5)]
    assert sandbox.python_ok("print(sum(base))") == "499500\n"


def test_a_sandbox_that_has_not_been_used_can_be_forked(sandbox, fork):
    for child in fork(sandbox, 2):
        child.works()


@pytest.mark.parametrize("body", [{"n": 0}, {"n": 33}, {"n": -1}, {"n": "x"}, {"n": 1.5}, {"n": [1]}, {"keep_random": "yes"}, {"m": 1}, [1]])
def test_what_cannot_be_asked_is_refused(client, module_sandbox, body):
    before = client.ids()
    answer = client.request("POST", module_sandbox.path + "/fork", body)
    assert answer.status == 400 and answer.error()
    assert client.ids() == before


@pytest.mark.parametrize("body,children", [({"n": None}, 1), ({"keep_random": None}, 1), ({"n": 2.0}, 2), ({"n": 1e0}, 1)])
def test_null_is_as_if_absent_and_a_whole_number_may_have_a_point(client, module_sandbox, body, children):
    """As everywhere in both faces."""
    made = client.expect(200, "POST", module_sandbox.path + "/fork", body).json()["children"]
    assert len(made) == children
    for one in made:
        client.sandbox(one).destroy()


def test_an_empty_body_means_one_child(client, module_sandbox):
    answer = client.expect(200, "POST", module_sandbox.path + "/fork", b"").json()
    assert set(answer) == {"children", "fork_copies", "not_copied"} and answer["fork_copies"] == "runner"
    one, = answer["children"]
    client.sandbox(one).destroy()


def test_a_sandbox_that_is_not_there_for_one_cannot_be_forked(warren, client, module_sandbox):
    before = client.ids()
    other = warren.new_account("stranger-to-forks")
    for who, path in ((client, "/v1/sandboxes/sbx_" + "0" * 32), (other, module_sandbox.path)):
        answer = who.request("POST", path + "/fork", {})
        assert answer.status == 404 and answer.error()
    assert client.ids() == before and other.ids() == set()


# Randomness.

DRAW = ("import os, random, uuid, ssl, tempfile, secrets\n"
        "print(os.urandom(8).hex(), random.random(), uuid.uuid4(), ssl.RAND_bytes(8).hex(), secrets.token_hex(8), tempfile.mktemp())")


def test_no_two_of_a_family_draw_the_same_numbers(sandbox, fork):
    sandbox.python_ok(DRAW + "\nrandom.seed(1)")
    children = fork(sandbox, 3)
    grandchild, = fork(children[0])
    drawn = [one.python_ok(DRAW).split() for one in (sandbox, *children, grandchild)]
    for numbers in zip(*drawn):
        assert len(set(numbers)) == 5, numbers


def test_no_two_of_a_family_draw_the_same_numbers_with_numpy(make_sandbox, fork):
    parent = make_sandbox(template="python-datasci")
    parent.python_ok("import numpy; numpy.random.seed(1)")
    drawn = [one.python_ok("print(numpy.random.random(), numpy.random.default_rng().random())").split() for one in (parent, *fork(parent, 3))]
    for numbers in zip(*drawn):
        assert len(set(numbers)) == 4, numbers


def test_random_numbers_are_kept_when_that_is_asked(make_sandbox, fork):
    parent = make_sandbox(template="python-datasci")
    parent.python_ok("import random, numpy, os; random.seed(5); numpy.random.seed(5)")
    children = fork(parent, 2, keep_random=True)
    drawn = {one.python_ok("print(random.random(), numpy.random.random())") for one in (parent, *children)}
    assert len(drawn) == 1, drawn
    assert len({one.python_ok("print(os.urandom(8).hex())") for one in (parent, *children)}) == 3


# Clocks.

@pytest.mark.parametrize("clock", ["CLOCK_REALTIME", "CLOCK_MONOTONIC", "CLOCK_BOOTTIME", "CLOCK_MONOTONIC_RAW", "CLOCK_TAI"])
def test_clocks_are_right_in_the_children(sandbox, fork, clock):
    """A clock that shows what the host's own shows, between two looks at that, is right however long ago the memory was
    copied: nothing of it lies in the memory, or it would show the time of the copy. The template's session, from which
    all others come, is as old as the server; that of a grandchild has been copied twice since."""
    number = getattr(time, clock) if clock != "CLOCK_TAI" else 11
    read = f"import time; print(time.clock_gettime_ns({number}))"
    seen = [int(sandbox.python_ok(read))]
    child, = fork(sandbox)
    grandchild, = fork(child)
    for one in (sandbox, child, grandchild):
        before = time.clock_gettime_ns(number)
        seen.append(int(one.python_ok(read)))
        assert before <= seen[-1] <= time.clock_gettime_ns(number), (clock, one)
    assert seen == sorted(seen)


def test_what_python_makes_of_clocks_is_right_in_the_children(sandbox, fork):
    sandbox.python_ok("import time, datetime; at = time.perf_counter()")
    child, = fork(sandbox)
    drawn = "print(time.time(), time.monotonic(), time.perf_counter(), datetime.datetime.now(datetime.timezone.utc).timestamp())"
    before = time.time(), time.monotonic(), time.perf_counter(), time.time()
    inside = [float(n) for n in child.python_ok(drawn).split()]
    after = time.time(), time.monotonic(), time.perf_counter(), time.time()
    slack = 1e-3  # they are printed as floats
    assert all(b - slack <= i <= a + slack for b, i, a in zip(before, inside, after)), (before, inside, after)
    assert float(child.python_ok("print(time.perf_counter() - at)")) > 0
    asked = time.time()
    assert asked - 1 <= float(child.bash_ok("date +%s.%N")) <= time.time() + 1
    # Waiting takes its time: the child's timers run.
    assert float(child.python_ok("at = time.monotonic(); time.sleep(0.2); print(time.monotonic() - at)")) >= 0.2


# Descriptors.

def test_a_file_open_for_reading_and_one_for_appending(sandbox, fork):
    sandbox.python_ok("open('/root/in', 'w').write(''.join(f'line {i}\\n' for i in range(9)))\n"
                      "reading = open('/root/in'); first = reading.readline()\n"
                      "import os\n"
                      "raw = os.open('/root/in', os.O_RDONLY); head = os.read(raw, 7)\n"
                      "log = open('/root/log', 'a'); log.write('before\\n'); log.flush()")
    a, b = fork(sandbox, 2)
    for one in (a, b, sandbox):
        assert one.python_ok("print(reading.readline(), os.read(raw, 6), sep='', end='')") == "line 1\nb'line 1'"
    for name, one in (("a", a), ("b", b), ("parent", sandbox)):
        one.python_ok(f"print(log.write('{name}\\n')); log.flush()")
    for name, one in (("a", a), ("b", b), ("parent", sandbox)):
        assert one.python_ok("print(open('/root/log').read(), end='')") == f"before\n{name}\n"


def test_a_deleted_file_a_folder_and_a_pipe(sandbox, fork):
    sandbox.python_ok("import os, tempfile\n"
                      "gone = tempfile.TemporaryFile('w+'); gone.write('unnamed'); gone.flush(); gone.seek(2)\n"
                      "folder = os.open('/etc', os.O_RDONLY)\n"
                      "r, w = os.pipe(); os.write(w, b'in the pipe')\n"
                      "null = open('/dev/null', 'w'); devzero = open('/dev/zero', 'rb')")
    child, = fork(sandbox)
    assert child.python_ok("print(gone.read(), 'passwd' in os.listdir(folder), null.write('x'), devzero.read(2))") == "named True 1 b'\\x00\\x00'\n"
    run = child.python("os.read(r, 5)")
    assert run.errors[0]["name"] in ("ConnectionResetError", "OSError"), run
    assert any("pipe" in one for one in child.not_copied["descriptors"]), child.not_copied
    assert sandbox.python_ok("print(os.read(r, 11), gone.read())") == "b'in the pipe' named\n"


def test_shared_memory_is_shared_no_more(sandbox, fork):
    sandbox.python_ok("import mmap, os\n"
                      "anonymous = mmap.mmap(-1, 4096); anonymous[:5] = b'start'\n"
                      "f = open('/root/mapped', 'w+b'); f.write(bytes(4096)); f.flush()\n"
                      "file = mmap.mmap(f.fileno(), 4096); file[:5] = b'start'")
    child, = fork(sandbox)
    assert child.python_ok("print(anonymous[:5], file[:5])\nanonymous[:5] = b'child'; file[:5] = b'child'") == "b'start' b'start'\n"
    assert sandbox.python_ok("print(anonymous[:5], file[:5], open('/root/mapped', 'rb').read(5))") == "b'start' b'start' b'start'\n"


# What runs in the parent.

def test_a_command_that_runs_in_the_parent_is_not_disturbed(sandbox, fork):
    stream = sandbox.exec_stream("for i in $(seq 300); do echo $i; sleep 0.01; done; exit 7", "bash")
    stream.wait_for_output(b"1")
    children = fork(sandbox, 3)
    rest = list(stream)
    text = "".join(e["data"] for e in rest if e["type"] == "stdout")
    assert text.split()[-250:] == [str(n) for n in range(51, 301)]
    assert rest[-1]["type"] == "exit" and rest[-1]["data"] == 7
    for child in children:
        assert child.bash_ok("pgrep -c sleep || true") == "0\n"
        assert any("seq 300" in one for one in child.not_copied["processes"]), child.not_copied


def test_a_fork_waits_for_the_python_call_that_runs(sandbox, fork):
    stream = sandbox.exec_stream("import time; print('begun', flush=True); time.sleep(2); done = True", "python")
    stream.wait_for_output(b"begun")
    began = time.monotonic()
    child, = fork(sandbox)
    assert time.monotonic() - began > 1
    assert child.python_ok("print(done)") == "True\n"
    assert list(stream)[-1]["data"] == 0


def test_who_goes_away_while_the_fork_waits_leaves_no_child(sandbox):
    client = sandbox.client
    before = client.ids()
    stream = sandbox.exec_stream("import time; print('begun', flush=True); time.sleep(3)", "python")
    stream.wait_for_output(b"begun")
    with pytest.raises(TimeoutError):
        client.request("POST", sandbox.path + "/fork", {"n": 3}, wait=0.5)
    assert list(stream)[-1]["data"] == 0
    sandbox.works()
    assert client.ids() == before


def test_two_forks_of_one_parent_at_once(sandbox, fork):
    sandbox.python_ok("x = 5")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        families = list(pool.map(lambda _: fork(sandbox, 2), range(4)))
    children = [one for family in families for one in family]
    assert len({one.id for one in children}) == 8
    for one in children:
        assert one.python_ok("print(x)") == "5\n"


def test_background_processes_threads_and_sockets_are_named(sandbox, fork):
    sandbox.bash_ok("setsid sleep 925 >/dev/null 2>&1 & true")
    sandbox.python_ok("import socket, threading, time\n"
                      "threads = [threading.Thread(target=time.sleep, args=(600,), daemon=True) for _ in range(2)]\n"
                      "for t in threads: t.start()\n"
                      "listening = socket.create_server(('127.0.0.1', 0))\n"
                      "mine, other = socket.socketpair()")
    child, = fork(sandbox)
    left = child.not_copied
    assert left["threads"] == 2, left
    assert any("sleep 925" in one for one in left["processes"]), left
    assert sum("socket" in one for one in left["descriptors"]) == 3, left
    assert child.python_ok("print([t.is_alive() for t in threads], threading.active_count())") == "[False, False] 1\n"
    for attempt in ("mine.send(b'x'); mine.recv(1)", "listening.accept()"):
        assert child.python(attempt).errors, attempt
    assert sandbox.python_ok("print(mine.send(b'x'), other.recv(1), [t.is_alive() for t in threads])") == "1 b'x' [True, True]\n"
    assert sandbox.bash_ok("pgrep -c -f 'sleep 925'") == "1\n"


# Generations.

def test_forty_deep_and_the_ancestors_end(client, make_sandbox, fork):
    one = make_sandbox()
    one.python_ok("line = [0]")
    line = [one]
    for depth in range(1, 41):
        one, = fork(one)
        one.python_ok(f"line.append({depth}); open('/root/{depth}', 'w').write('{depth}')")
        line.append(one)
        if depth % 5 == 0:  # the generations before are not needed
            for old in line[:-1]:
                if old.exists():
                    old.destroy()
    assert one.python_ok("import os; print(line == list(range(41)), len([n for n in os.listdir('/root') if n.isdigit()]))") == "True 40\n"
    one.works()


def test_the_end_of_an_ancestor_touches_no_descendant(make_sandbox, fork):
    parent = make_sandbox()
    parent.python_ok("data = bytes(10_000_000)")
    child, = fork(parent)
    grandchild, = fork(child)
    child.destroy()
    parent.destroy()
    assert grandchild.python_ok("print(len(data), sum(data))") == "10000000 0\n"
    grandchild.works()


# What fails.

def test_a_fork_that_fails_half_way_leaves_no_half_child(start_server):
    warren = start_server(sandboxes={"max_per_account": 6}, runtime=NO_STOCK)
    client = warren.client
    parent = client.create()
    parent.python_ok("x = 1")
    answer = client.request("POST", parent.path + "/fork", {"n": 8})
    assert answer.status == 429 and answer.error(), answer.body
    assert client.ids() == {parent.id} and len(warren.agents()) == 1
    for child in parent.fork(3):
        assert child.python_ok("print(x)") == "1\n"


def test_a_fork_whose_children_do_not_all_start_leaves_none(start_server):
    """New agents are killed as soon as they are seen."""
    warren = start_server(runtime=NO_STOCK)
    client = warren.client
    parent = client.create()
    parent.python_ok("x = 1")
    known = {p.pid for p in warren.agents()}
    stop = threading.Event()

    def kill_new():
        while not stop.is_set():
            for one in warren.agents():
                if one.pid not in known:
                    try:
                        os.kill(one.pid, 9)
                    except ProcessLookupError:
                        pass

    killer = threading.Thread(target=kill_new)
    killer.start()
    try:
        answer = client.request("POST", parent.path + "/fork", {"n": 6})
    finally:
        stop.set()
        killer.join()
    if answer.status != 200:  # else all six were told of before they were killed
        assert answer.status in (409, 500, 503), answer.body
        assert client.ids() == {parent.id}
        eventually(lambda: len(warren.agents()) == 1, BOUND, "the end of the half-made")
    assert parent.python_ok("print(x)") == "1\n"
    for child in parent.fork(2):
        assert child.python_ok("print(x)") == "1\n"


def test_a_session_that_has_just_died_is_forked_as_a_fresh_one(sandbox, fork):
    sandbox.python_ok("x = 1")
    assert sandbox.python("import os; os._exit(9)", wait=BOUND).code == 9
    child, = fork(sandbox)
    assert child.python_ok("print('x' in globals())") == "False\n"
    sandbox.works()


def test_the_fork_of_a_dead_sandbox_is_refused(start_server):
    warren = start_server(runtime=NO_STOCK)
    client = warren.client
    one = client.create()
    known = {p.pid for p in warren.agents()}
    other = client.create()
    agent, = {p.pid for p in warren.agents()} - known
    os.kill(agent, 9)
    eventually(lambda: other.refresh()["state"] == "dead", BOUND, "its death")
    answer = client.request("POST", other.path + "/fork", {})
    assert answer.status == 409 and "ended" in answer.error()
    with pytest.raises(ApiError):
        one.merge(other)
    one.works()


def test_nothing_is_left_of_forks(start_server):
    warren = start_server(runtime=NO_STOCK)
    client = warren.client
    client.create().destroy()
    uppers, cgroups = warren.uppers(), len(warren.cgroup_folders())
    parent = client.create()

    def children_of_runtime():
        return len([p for p in host.processes().values() if p.parent == warren.runtime_pid])

    parent.fork(1)[0].destroy()
    before = children_of_runtime()
    for _ in range(5):
        for child in parent.fork(4):
            child.destroy()
    eventually(lambda: children_of_runtime() <= before, BOUND, "no more processes than before")
    parent.destroy()
    eventually(lambda: warren.uppers() == uppers, BOUND, "no subvolume more than before")
    eventually(lambda: len(warren.cgroup_folders()) <= cgroups, BOUND, "no cgroup more than before")

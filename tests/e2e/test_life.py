"""How sandboxes live and end: lifetimes, and what thousands of them leave behind."""

import datetime
import threading
import time

import pytest

import host
from warren_client import eventually


def in_parallel(calls):
    """Runs the calls at once; returns their results in order, and fails if one failed."""
    results, failures = [None] * len(calls), []

    def run(index):
        try:
            results[index] = calls[index]()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not failures, failures[0]
    return results


def seconds_until(stamp):
    """From now to an RFC 3339 time, by this machine's clock, which is also the server's."""
    return datetime.datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp() - time.time()


def test_a_sandbox_is_ready_when_create_returns(client, make_sandbox):
    sandbox = make_sandbox(name="mine")
    assert sandbox.id.startswith("sbx_") and len(sandbox.id) == 36
    info = sandbox.refresh()
    assert info["state"] == "ready" and info["template"] == "default" and info["name"] == "mine"
    assert info["isolation"] == "namespace" and info["egress"] == "none"
    assert sandbox.id in client.ids()


def test_twenty_created_at_once_live_their_time_and_no_longer(start_server):
    ttl = 25
    warren = start_server(sandboxes={"min_ttl_seconds": 1})
    client = warren.client
    sandboxes = in_parallel([lambda: client.create(ttl_seconds=ttl) for _ in range(20)])
    assert len({s.id for s in sandboxes}) == 20
    ends = {s.id: seconds_until(s.info["expires_at"]) + time.monotonic() for s in sandboxes}
    for sandbox in sandboxes:
        assert ttl - 15 < ends[sandbox.id] - time.monotonic() <= ttl + 1
    while ends:
        looked_at = time.monotonic()
        living = client.ids()
        for sandbox_id, end in list(ends.items()):
            if sandbox_id not in living:
                assert time.monotonic() > end - 1.5, "a sandbox died before its time"
                del ends[sandbox_id]
            else:
                assert looked_at < end + 30, "a sandbox outlived its time"
        time.sleep(0.5)
    warren.look()
    eventually(lambda: not warren.agents(), 30, "the end of their processes")


def test_using_a_sandbox_never_shortens_its_life(warren, make_sandbox):
    sandbox = make_sandbox(ttl_seconds=3000)
    first = sandbox.refresh()["expires_at"]
    sandbox.bash_ok("true")
    sandbox.python_ok("1")
    sandbox.put("/root/x", b"x")
    sandbox.get("/root/x")
    sandbox.client.tool("list_files", sandbox_id=sandbox.id)
    stream = sandbox.exec_stream("sleep 600", "bash")
    stream.cut()
    assert sandbox.refresh()["expires_at"] >= first


def test_lifetimes_outside_the_tier_s_bounds_are_refused_with_the_bounds(client):
    for ttl in (0, -1, 1, 10**7):
        answer = client.request("POST", "/v1/sandboxes", {"ttl_seconds": ttl})
        assert answer.status == 400 and "ttl_seconds" in answer.error() and any(c.isdigit() for c in answer.error())


def test_an_idle_sandbox_ends_a_busy_or_persistent_one_does_not(start_server):
    warren = start_server(sandboxes={"idle_timeout_seconds": 6})
    client = warren.client
    idle, busy, persistent = client.create(), client.create(), client.create(persistent=True)
    assert persistent.info["persistent"] is True
    stream = busy.exec_stream("sleep 14; echo still-here", "bash")
    eventually(lambda: idle.id not in client.ids(), 60, "the idle sandbox's end")
    assert {busy.id, persistent.id} <= client.ids()
    events = list(stream)
    assert events[-1]["type"] == "exit" and events[-1]["data"] == 0
    assert persistent.bash_ok("echo ok") == "ok\n"
    eventually(lambda: busy.id not in client.ids(), 60, "the end of the one that fell idle")
    assert persistent.id in client.ids()


def test_no_more_sandboxes_than_the_tier_has(start_server):
    warren = start_server(sandboxes={"max_per_account": 3})
    client = warren.client
    made = [client.create() for _ in range(3)]
    answer = client.request("POST", "/v1/sandboxes", {})
    assert answer.status == 429 and "3" in answer.error()
    assert "3" in client.tool_error("create_sandbox")
    made[0].destroy()
    client.create().works()


def test_a_sandbox_that_is_dying_holds_up_nobody(warren, client, make_sandbox):
    dying = make_sandbox()
    dying.bash_ok("setsid sleep 913 >/dev/null 2>&1 & true")
    destroyed = threading.Thread(target=dying.destroy)
    with host.Undying(warren.inside("sleep", "913")[0].pid):
        destroyed.start()
        eventually(lambda: not dying.exists(), 60, "the destroy's beginning")
        for _ in range(3):
            other = client.create()
            other.works()
            other.destroy()
            assert not other.exists()
        assert destroyed.is_alive(), "it was told to be gone while its processes were there"
    destroyed.join(60)
    assert not destroyed.is_alive()


def test_unwritten_data_of_one_sandbox_delays_no_end(client, make_sandbox):
    """Four writers that wait for the disk: what they wrote goes with the sandbox and is not written out first."""
    dirty = make_sandbox()
    dirty.bash_ok("for i in 1 2 3 4; do setsid dd if=/dev/zero of=/root/$i bs=1M count=200 conv=fsync "
                  ">/dev/null 2>&1 & done; true")
    done, _ = in_parallel([lambda: dirty.destroy() or True, lambda: client.create().destroy()])
    assert done and not dirty.exists()


def books(warren):
    """What the instance has, for comparison before and after."""
    runtime, server = warren.runtime_pid, warren.server_pid
    return {
        "processes": len(host.descendants(warren.pid)),
        "cgroups": len(warren.cgroup_folders()),
        "mounts of the runtime": len(host.mounts(runtime)),
        "mounts of the host": len(host.mounts()),
        "loop devices": len(host.loop_devices_of(warren.home)),
        "interfaces": host.interfaces(),
        "uppers": warren.uppers(),
        "quota groups": warren.quota_groups(),
        "runtime descriptors": host.descriptors(runtime),
        "server descriptors": host.descriptors(server),
    }


def settled_books(warren):
    """The books once nothing of any sandbox is there."""
    def empty():
        return not (warren.agents() or warren.uppers() or [path for path in warren.cgroup_folders() if "/acc_" in path]
                    or len(warren.quota_groups()) > 1 + len(warren.templates_sandboxes()))

    eventually(empty, 120, "the end of all that the sandboxes had")
    return books(warren)


def assert_settles_to(warren, before):
    settled_books(warren)
    try:
        eventually(lambda: books(warren) == before, 60)
    except AssertionError:
        assert books(warren) == before


@pytest.mark.alone
@pytest.mark.parametrize("rounds,at_once", [(125, 8)])
def test_a_thousand_created_and_destroyed_leave_nothing(start_server, rounds, at_once):
    warren = start_server()
    client = warren.client

    def one():
        sandbox = client.create()
        sandbox.destroy()

    in_parallel([one] * at_once)  # whatever is made once and kept is made now
    before = settled_books(warren)
    memory = host.anonymous_bytes(warren.runtime_pid), host.anonymous_bytes(warren.server_pid)
    started = time.monotonic()
    for _ in range(rounds):
        in_parallel([one] * at_once)
    took = time.monotonic() - started
    print(f"{rounds * at_once} created and destroyed in {took:.1f} s")
    assert_settles_to(warren, before)
    grown = (host.anonymous_bytes(warren.runtime_pid) - memory[0], host.anonymous_bytes(warren.server_pid) - memory[1])
    assert max(grown) < 16 << 20, f"runtime and server grew by {grown} bytes"
    client.create().works()


@pytest.mark.alone
def test_used_sandboxes_leave_nothing_either(start_server):
    warren = start_server()
    client = warren.client

    def one():
        sandbox = client.create()
        sandbox.bash_ok("mkdir -p /root/a/b; head -c 3M /dev/urandom > /root/a/b/c; sleep 1000 & mkfifo /tmp/f")
        sandbox.python_ok("open('/tmp/open', 'w')")
        stream = sandbox.exec_stream("sleep 600", "bash")
        sandbox.destroy()
        stream.cut()

    in_parallel([one] * 4)
    before = settled_books(warren)
    for _ in range(10):
        in_parallel([one] * 4)
    assert_settles_to(warren, before)

"""The server, the runtime or the supervisor is killed: nothing is orphaned, nothing promised is lost."""

import http.client
import os
import signal
import threading
import time

import pytest

import host
from warren_client import eventually

BOUND = 90


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def replaced(warren, role, old):
    """Waits for a new process in that role."""
    eventually(lambda: warren.child(role) != old, BOUND, f"a new {role}")
    warren.wait_healthy()


def test_sandboxes_survive_the_server_s_death_with_their_state(start_server):
    warren = start_server()
    client = warren.client
    sandbox = client.create(name="kept", ttl_seconds=1800)
    sandbox.python_ok("x = 41")
    sandbox.bash_ok("echo file > /root/kept; setsid sleep 900 >/dev/null 2>&1 &")
    key, _ = warren.new_key("kept")
    stream = sandbox.exec_stream("echo up; sleep 600; exit 0", "bash")
    stream.wait_for_output(b"up")
    old_server, runtime = warren.server_pid, warren.runtime_pid
    kill(old_server)
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        rest = list(stream)
        assert not [e for e in rest if e["type"] == "exit"], "an exit was invented"
        raise ConnectionError
    replaced(warren, "server", old_server)
    assert warren.runtime_pid == runtime
    info = eventually(lambda: sandbox.exists() and sandbox.refresh(), BOUND, "the sandbox's return")
    assert info["name"] == "kept" and info["state"] == "ready" and info["expires_at"] == sandbox.info["expires_at"]
    assert sandbox.python_ok("print(x + 1)") == "42\n"
    assert sandbox.bash_ok("cat /root/kept; pgrep -c sleep") == "file\n1\n"
    assert client.with_key(key).list() == [] or sandbox.id in client.with_key(key).ids()
    sandbox.destroy()
    client.create().works()


def test_the_runtime_s_death_is_told_and_nothing_is_orphaned(start_server):
    warren = start_server()
    client = warren.client
    client.create().destroy()
    clean_uppers, clean_cgroups = warren.uppers(), len(warren.cgroup_folders())
    sandboxes = [client.create() for _ in range(4)]
    sandboxes[0].bash_ok("setsid sleep 901 >/dev/null 2>&1 &")
    warren.look()
    old_runtime, server = warren.runtime_pid, warren.server_pid
    below = host.descendants(old_runtime)
    assert len(below) >= 5
    kill(old_runtime)
    replaced(warren, "runtime", old_runtime)
    eventually(lambda: not [p for p in below if host.alive(p)], BOUND, "the end of the old runtime's sandboxes")
    assert warren.server_pid == server

    def told(sandbox):
        answer = client.request("POST", sandbox.path + "/exec", {"code": "true", "language": "bash"})
        assert answer.status not in (200, 500), answer.body
        return answer.status in (404, 409, 503)

    for sandbox in sandboxes:
        eventually(lambda: told(sandbox), BOUND)
        if sandbox.exists():
            assert sandbox.refresh()["state"] == "dead"
            sandbox.destroy()
        assert not sandbox.exists()

    def can_create():
        answer = client.request("POST", "/v1/sandboxes", {})
        return client.sandbox(answer.json()["id"]) if answer.status == 201 else None

    new = eventually(can_create, BOUND, "a new sandbox")
    new.works()
    new.destroy()
    eventually(lambda: warren.uppers() == clean_uppers, BOUND, "the removal of the old uppers")
    eventually(lambda: len(warren.cgroup_folders()) <= clean_cgroups, BOUND, "the removal of the old cgroups")


@pytest.mark.parametrize("role", ["server", "runtime"])
def test_killed_while_creating_and_running_nothing_is_orphaned(start_server, role):
    warren = start_server()
    client = warren.client
    client.create().destroy()
    clean_uppers, clean_cgroups = warren.uppers(), len(warren.cgroup_folders())
    stop = threading.Event()

    def work():
        while not stop.is_set():
            try:
                sandbox = client.create()
                sandbox.bash("echo hello; sleep 0.01")
                sandbox.destroy()
            except Exception:
                time.sleep(0.02)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(4):
            time.sleep(1)
            warren.look()
            old = warren.child(role)
            kill(old)
            replaced(warren, role, old)
    finally:
        stop.set()
        for worker in workers:
            worker.join(BOUND)
    for info in client.list():
        client.request("DELETE", f"/v1/sandboxes/{info['id']}")

    def create_and_use():
        try:
            sandbox = client.create()
        except Exception:
            return False
        sandbox.works()
        sandbox.destroy()
        return True

    eventually(create_and_use, BOUND, "work as before")
    # What the runtime has is what the server knows: nothing, but for prepared ones.
    eventually(lambda: not warren.agents(), BOUND, "no orphan")
    eventually(lambda: warren.uppers() == clean_uppers, BOUND, "no orphaned subvolume")
    eventually(lambda: len(warren.cgroup_folders()) <= clean_cgroups, BOUND, "no orphaned cgroup")


def test_the_supervisor_s_death_ends_everything(start_server):
    warren = start_server()
    sandbox = warren.client.create()
    sandbox.bash_ok("setsid sleep 902 >/dev/null 2>&1 &")
    warren.look()
    kill(warren.pid)
    warren.process.wait(30)
    warren.assert_nothing_left(BOUND)
    # And the next start on the same home works, with its keys as they were.
    key = warren.key
    warren.launch()
    assert warren.key == key
    eventually(lambda: not warren.client.list() or all(s["state"] == "dead" for s in warren.client.list()), BOUND)
    warren.client.create().works()


def test_all_killed_at_once_leave_nothing_and_the_next_start_works(start_server):
    warren = start_server()
    for _ in range(3):
        warren.client.create().bash_ok("setsid sleep 903 >/dev/null 2>&1 &")
    before = warren.look()
    for pid in (warren.pid, *warren.children("server"), *warren.children("runtime")):
        kill(pid)
    warren.process.wait(30)
    time.sleep(1)
    warren.launch()
    eventually(lambda: not warren.left_over(of=before), BOUND, "the end of what was there before")
    eventually(lambda: len(host.loop_devices_of(warren.home)) == 1, BOUND, "one loop device")
    warren.client.create().works()


def test_a_restart_by_sigterm_ends_sandboxes_and_says_so(start_server):
    warren = start_server()
    warren.client.create()
    warren.stop()
    warren.launch()
    eventually(lambda: all(s["state"] == "dead" for s in warren.client.list()), BOUND)
    warren.client.create().works()


def dying_sandbox(warren):
    """A sandbox in which a process will not die, and the thread that is to destroy it."""
    sandbox = warren.client.create()
    sandbox.bash_ok("setsid sleep 914 >/dev/null 2>&1 & true")

    def destroy():
        try:
            warren.client.request("DELETE", sandbox.path)
        except (OSError, http.client.HTTPException):
            pass

    return sandbox, host.Undying(warren.inside("sleep", "914")[0].pid), threading.Thread(target=destroy)


@pytest.mark.parametrize("role", ["server", "runtime"])
def test_killed_while_a_sandbox_is_dying_nothing_is_orphaned(start_server, role):
    warren = start_server()
    warren.client.create().destroy()
    clean_cgroups = len(warren.cgroup_folders())
    sandbox, undying, destroyed = dying_sandbox(warren)
    old = warren.child(role)
    with undying:
        destroyed.start()
        eventually(lambda: not sandbox.exists(), BOUND, "the destroy's beginning")
        warren.look()
        kill(old)
        destroyed.join(BOUND)
    replaced(warren, role, old)
    assert not sandbox.exists()
    eventually(lambda: not warren.agents(), BOUND, "no orphan")
    eventually(lambda: warren.uppers() == [], BOUND, "no orphaned subvolume")
    eventually(lambda: len(warren.cgroup_folders()) <= clean_cgroups, BOUND, "no orphaned cgroup")


def test_a_sigterm_while_a_sandbox_is_dying_leaves_nothing(start_server):
    warren = start_server()
    sandbox, undying, destroyed = dying_sandbox(warren)
    stopped = threading.Thread(target=warren.stop)
    with undying:
        destroyed.start()
        eventually(lambda: not sandbox.exists(), BOUND, "the destroy's beginning")
        stopped.start()
        eventually(lambda: "sandboxes end" in warren.log(), BOUND, "the runtime's stop")
    stopped.join(BOUND)
    destroyed.join(BOUND)
    assert not stopped.is_alive() and warren.process.poll() == 0, warren.log()
    warren.assert_nothing_left()

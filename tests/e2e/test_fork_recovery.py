"""The server or the runtime is killed in the middle of forks and merges: nothing is left over."""

import os
import signal
import threading
import time

import pytest

import host
from warren_client import eventually

BOUND = 90
# So that the sandboxes that there are can be counted.
NO_STOCK = {"stock": 0}


def branch_for_ever(client, stop, failures):
    while not stop.is_set():
        try:
            parent = client.create()
            parent.python_ok("data = bytearray(5_000_000)")
            children = parent.fork(3)
            children[0].python_ok("data[0] = 7")
            parent.merge(children[0])
            if parent.python_ok("print(data[0])") != "7\n":
                failures.append("the parent has not the winner's state")
            grandchild, = parent.fork()
            for one in (parent, *children[1:], grandchild):
                one.destroy()
        except Exception:
            time.sleep(0.05)


@pytest.mark.parametrize("role", ["server", "runtime"])
def test_killed_in_the_middle_of_forks_nothing_is_left(start_server, role):
    warren = start_server(runtime=NO_STOCK)
    client = warren.client
    client.create().destroy()
    uppers, cgroups = warren.uppers(), len(warren.cgroup_folders())

    def held():
        return len([p for p in host.processes().values() if p.parent == warren.runtime_pid and p.state in "tT"])

    held_before = held()
    stop, failures = threading.Event(), []
    workers = [threading.Thread(target=branch_for_ever, args=(client, stop, failures)) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        for pause in (0.7, 1.3, 0.4, 1.1, 0.9):
            time.sleep(pause)
            old = warren.child(role)
            warren.look()
            os.kill(old, signal.SIGKILL)
            eventually(lambda: warren.child(role) != old, BOUND, f"a new {role}")
            warren.wait_healthy()
    finally:
        stop.set()
        for worker in workers:
            worker.join(BOUND)
    assert not failures
    for info in client.list():
        client.request("DELETE", f"/v1/sandboxes/{info['id']}")

    def branches():
        try:
            parent = client.create()
        except Exception:
            return False
        # One that was made before the new runtime's templates were warm cannot be forked.
        is_fork = parent.python_ok("import os; x = 1; print(os.getppid())") == "0\n"
        if not is_fork:
            parent.destroy()
            return False
        child, = parent.fork()
        assert child.python_ok("print(x)") == "1\n"
        child.destroy()
        parent.destroy()
        return True

    eventually(branches, BOUND, "work as before")
    eventually(lambda: not warren.agents(), BOUND, "no orphan")
    eventually(lambda: warren.uppers() == uppers, BOUND, "no orphaned subvolume")
    eventually(lambda: len(warren.cgroup_folders()) <= cgroups, BOUND, "no orphaned cgroup")
    eventually(lambda: held() <= held_before, BOUND, "no keeper but the templates'")


def test_children_that_were_told_of_survive_the_server_s_death(start_server):
    warren = start_server(runtime=NO_STOCK)
    client = warren.client
    parent = client.create()
    parent.python_ok("x = 1")
    children = parent.fork(3)
    old = warren.server_pid
    os.kill(old, signal.SIGKILL)
    eventually(lambda: warren.child("server") != old, BOUND, "a new server")
    warren.wait_healthy()
    eventually(lambda: client.ids() == {parent.id, *(c.id for c in children)}, BOUND, "all four")
    for one in (parent, *children):
        assert one.python_ok("print(x)") == "1\n"
    assert children[0].fork()[0].python_ok("print(x)") == "1\n"

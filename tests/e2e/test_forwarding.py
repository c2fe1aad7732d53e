"""Hosts that pass no packets on, which is how machines come: while a server runs they do for sandboxes, and are
nobody else's router; afterwards all is as it was. With the settings that people get."""

import os
import signal

import pytest

from egress_probes import REACH, REFUSED, reach
from little_internet import PRIVATE, PUBLIC, PUBLIC6, LittleInternet, devices, nft, setting
from warren_client import eventually
from warren_server import Warren

# All of [egress] but this is as people get it: a little internet has a nameserver of its own.
AS_IT_COMES = {"dns": [PUBLIC[0]]}


@pytest.fixture(scope="module")
def internet():
    with LittleInternet(forwarding="0") as net:
        yield net


@pytest.fixture
def start(internet):
    started = []

    def one(**egress):
        started.append(Warren.start(egress={**AS_IT_COMES, **egress}))
        return started[-1]

    try:
        yield one
        for server in started:
            server.stop()
    finally:
        for server in started:
            server.discard()
    assert not any(name.startswith("wup") for name in devices())
    assert "table inet warren_" not in nft("list tables") and not forwards("eth0") and not forwards("all")


def forwards(device):
    return setting(f"ipv4/conf/{device}/forwarding") == "1"


def guarded():
    """The devices at which instances that are there, or were killed, have it on."""
    tables = [line.split()[-1] for line in nft("list tables inet").splitlines() if " warren_" in line]
    return [line for table in tables for line in nft(f"list set inet {table} forwarding").splitlines() if "eth0" in line]


def reaches(server):
    sandbox = server.client.create()
    try:
        assert sandbox.info["egress"] == "open", sandbox.info
        sandbox.python_ok(REACH)
        return reach(sandbox, PUBLIC[0]) == "answered"
    finally:
        sandbox.destroy()


def test_sandboxes_reach_the_internet_and_the_setting_stays(start):
    server = start()
    assert reaches(server)
    assert forwards("eth0") and guarded() and setting("ipv4/ip_forward") == "0"
    assert "for sandboxes, and nobody else, at eth0" in server.log()
    told = server.command("doctor").stdout
    assert "for sandboxes, and for nobody else" in told, told


def test_what_nobody_may_reach_is_refused_there_too(start):
    server = start()
    sandbox = server.client.create()
    try:
        sandbox.python_ok(REACH)
        assert reach(sandbox, PRIVATE) in REFUSED
        assert reach(sandbox, PUBLIC6) in REFUSED, "of IPv6 the operator decides"
    finally:
        sandbox.destroy()


def test_names_are_resolved_there_too(start):
    server = start()
    sandbox = server.client.create()
    try:
        assert eventually(lambda: sandbox.bash("curl -sS --max-time 5 http://one.example.com/").code == 0, 30, "an answer")
    finally:
        sandbox.destroy()


def test_a_killed_runtime_leaves_it_guarded_and_the_next_one_goes_on(start):
    server = start()
    killed = server.runtime_pid
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: server.runtime_pid not in (None, killed), 60, "another runtime")
    server.wait_healthy()
    server.wait_warm()
    assert reaches(server) and guarded()


def test_a_killed_server_leaves_it_guarded_and_the_next_start_puts_it_back(start):
    server = start()
    # Nobody is left who could put anything back, nor start another runtime.
    os.kill(server.pid, signal.SIGSTOP)
    server.look()
    os.kill(server.runtime_pid, signal.SIGKILL)
    server.process.kill()
    server.process.wait(30)
    assert forwards("eth0") and guarded(), "what is left on"
    server.launch()
    assert reaches(server)


def test_a_start_without_a_network_puts_it_back_too(start):
    server = start()
    os.kill(server.pid, signal.SIGSTOP)
    server.look()
    os.kill(server.runtime_pid, signal.SIGKILL)
    server.process.kill()
    server.process.wait(30)
    assert forwards("eth0")
    path = os.path.join(server.home, "warren.toml")
    with open(path) as file:
        settings = file.read()
    with open(path, "w") as file:
        file.write(settings.replace("[egress]\n", "[egress]\nenabled = false\n"))
    server.launch()
    assert not forwards("eth0") and not guarded()


def test_two_servers_share_it(start):
    one, other = start(), start()
    assert reaches(one) and reaches(other)
    one.stop()
    assert forwards("eth0") and reaches(other)


def test_the_operator_may_keep_it_off(start):
    server = start(set_forwarding=False)
    sandbox = server.client.create(egress="open")
    try:
        assert sandbox.info["egress"] == "none" and "ip_forward" in " ".join(sandbox.info["notes"])
        answer = server.client.request("PUT", f"{sandbox.path}/egress", {"egress": "open"})
        assert answer.status == 503 and "sysctl -w net.ipv4.ip_forward=1" in answer.error(), answer.body
        assert not forwards("eth0")
        assert "egress.set_forwarding is false" in server.command("doctor").stdout
    finally:
        sandbox.destroy()

"""What a server with a network leaves on its host: one device and one table while it runs, nothing
afterwards, and not a packet for sandboxes that may reach nothing."""

import os
import signal
import socket
import urllib.request

import pytest

from little_internet import HOST, PUBLIC, LittleInternet, devices, nft
from warren_client import eventually
from warren_server import Warren


@pytest.fixture(scope="module")
def internet():
    with LittleInternet() as net:
        yield net


@pytest.fixture
def server(internet):
    one = Warren.start(egress={"enabled": True, "dns": [PUBLIC[0]]})
    try:
        yield one
        one.stop()
    finally:
        one.discard()


def uplinks():
    return {name: index for name, index in devices().items() if name.startswith("wup")}


def tables():
    return [line for line in nft("list tables").splitlines() if line.startswith("table inet warren_")]


def test_the_little_internet_answers(internet):
    """Or the other tests would prove nothing."""
    with urllib.request.urlopen(f"http://{PUBLIC[1]}/x", timeout=5) as answer:
        assert b'"path": "/x"' in answer.read()
    with socket.create_connection((PUBLIC[0], 8080), timeout=5) as connection:
        assert connection.getsockname()[0] == HOST[0]
    query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03one\x07example\x03com\x00\x00\x01\x00\x01"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(5)
        asking.sendto(query, (PUBLIC[0], 53))
        assert socket.inet_aton(PUBLIC[0]) in asking.recv(512)
    eventually(lambda: any(p["port"] == 53 for p in internet.arrived()), 5, "the query in the world's log")


def test_one_device_and_one_table(server):
    assert len(uplinks()) == 1
    assert len(tables()) == 1


def test_a_sandbox_that_may_reach_nothing_sends_nothing(internet, server):
    before = len(internet.arrived())
    sandbox = server.client.create(egress="none")
    try:
        said = sandbox.bash(f"cat /proc/net/dev; for to in {PUBLIC[0]} {HOST[0]} 198.18.0.1; do "
                            "timeout 2 bash -c \"echo x > /dev/tcp/$to/80\"; timeout 2 bash -c \"echo x > /dev/udp/$to/53\"; done")
        assert b"eth0" not in said.stdout, said
    finally:
        server.client.request("DELETE", sandbox.path)
    assert internet.arrived()[before:] == []


def test_a_killed_runtime_is_followed_by_one_that_clears_up(server):
    before = uplinks()
    killed = server.runtime_pid
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: server.runtime_pid not in (None, killed), 60, "another runtime")
    server.wait_healthy()
    eventually(lambda: len(uplinks()) == 1 and uplinks() != before, 60, "another uplink in the place of the old one")
    assert len(tables()) == 1


def test_nothing_is_left_after_the_end(internet):
    server = Warren.start(egress={"enabled": True})
    try:
        assert len(uplinks()) == 1
        server.stop()
    finally:
        server.discard()
    assert uplinks() == {}
    assert tables() == []

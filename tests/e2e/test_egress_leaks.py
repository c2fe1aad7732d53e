"""Five hundred sandboxes with a network come and go, and nothing of them is left: no device, no element of a set, no rule, no
descriptor of the runtime's."""

import concurrent.futures
import os
import re

import pytest

from egress_probes import resolver_of, set_egress
from little_internet import PUBLIC, PUBLIC6, LittleInternet, devices, nft, where
from warren_client import eventually
from warren_server import Warren

SANDBOXES = 500
AT_ONCE = 4
POLICIES = ["open", [PUBLIC[0]], "none", [f"{PUBLIC[0]}:80", f"[{PUBLIC6}]:80", "192.0.2.0/24:8000-9000/udp"], ["0.0.0.0/0", "::/0"], []]


@pytest.fixture(scope="module")
def server():
    with LittleInternet():
        one = Warren.start(egress={"enabled": True, "dns": [PUBLIC[0]]})
        try:
            yield one
            one.stop()
        finally:
            one.discard()


def rules(text):
    """What nft says without what is counted."""
    return re.sub(r"packets \d+ bytes \d+", "", text)


def look(server):
    """All that a sandbox's network consists of, but for what is the sandbox's own and ends with it."""
    with where(eventually(lambda: resolver_of(server), 30, "the resolver, which is in the router")):
        router = {"devices": sorted(devices()), "rules": rules(nft("list table inet warren"))}
    return {**router, "devices on the host": sorted(devices()), "rules on the host": rules(nft("list ruleset")),
            "descriptors": len(os.listdir(f"/proc/{server.runtime_pid}/fd"))}


def live(server, number):
    """One sandbox's life: it comes with one policy, uses the network, and mostly gets another."""
    sandbox = server.client.create(egress=POLICIES[number % len(POLICIES)])
    try:
        sandbox.bash(f"timeout 5 bash -c 'echo > /dev/tcp/{PUBLIC[0]}/80; echo > /dev/udp/{PUBLIC[0]}/9; "
                     f"echo > /dev/tcp/{PUBLIC6}/80; echo > /dev/tcp/10.1.1.1/80' 2>/dev/null")
        if number % 3:
            set_egress(sandbox, POLICIES[(number // 3) % len(POLICIES)])
        if number % 25 == 0:
            for child in sandbox.fork(2):
                child.bash(f"timeout 5 bash -c 'echo > /dev/tcp/{PUBLIC[1]}/80' 2>/dev/null")
                child.destroy()
    finally:
        sandbox.destroy()


def test_nothing_is_left_of_sandboxes_with_a_network(server):
    live(server, 0)
    before = eventually(lambda: settled(server), 60, "a server at rest")
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda number: live(server, number), range(SANDBOXES)))
    try:
        eventually(lambda: look(server) == before, 60)
    except AssertionError:
        after = look(server)
        raise AssertionError({what: (before[what], after[what]) for what in before if before[what] != after[what]}) from None


def settled(server):
    """How it is once two looks have found the same, and no sandbox's device."""
    first = look(server)
    return first if not any(name.startswith("wn") for name in first["devices"]) and look(server) == first else None

"""Policies and probes drawn at random, against a model of a few lines: what a sandbox may reach it reaches, and of the rest
not a packet arrives; connections live exactly as long as policies allow them. WARREN_FUZZ_SEED repeats a run."""

import ipaddress
import json
import os
import random
import socket

import pytest

from egress_probes import set_egress
from little_internet import HOST, METADATA, PRIVATE, PUBLIC, PUBLIC6, LittleInternet
from warren_client import eventually
from warren_server import Warren

ROUNDS = 40
PROBES = 25
PLACES = [*PUBLIC, PUBLIC6, PRIVATE, METADATA, *HOST, "10.1.1.2", "198.18.0.1", "192.168.0.1", "fd00::1"]
WEB = [(address, port) for address in (*PUBLIC, PUBLIC6) for port in (80, 8080)]
NETWORKS = ["203.0.113.10", "203.0.113.11", "203.0.113.10/31", "203.0.113.8/29", "203.0.113.0/24", "0.0.0.0/0", "128.0.0.0/1", PUBLIC6,
            "2001:db8::/64", "2001:db8::/28", "::/0", PRIVATE, "10.0.0.0/8", METADATA, "169.254.0.0/16", *HOST, "198.18.0.0/15", "192.0.2.0/24"]

# probe(): what becomes of each of some probes, all at once. keep() and asked(): connections that stay.
INSIDE = """
import errno, json, socket, struct, threading
def open_one(host, port, kind):
    s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
    s.settimeout(10)
    # No packet of it comes later than its end.
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return s
def probe(probes):
    said = [None] * len(probes)
    def one(n, host, port, protocol):
        with open_one(host, port, socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM) as s:
            try:
                s.connect((host, port))
                if protocol == "udp":
                    s.send(b"hello")
                said[n] = "sent"
            except OSError as e:
                said[n] = errno.errorcode.get(e.errno, "silence")
    threads = [threading.Thread(target=one, args=(n, *each)) for n, each in enumerate(probes)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return said
kept = {}
def keep(host, port):
    kept[host, port] = open_one(host, port, socket.SOCK_STREAM)
    kept[host, port].connect((host, port))
def asked(host, port):
    s = kept[host, port]
    try:
        s.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
        return b"HTTP/1.1 200" in s.recv(4096)
    except OSError:
        return False
"""


class Model:
    """What a policy allows, in the words of docs/api/podflare.md."""

    def __init__(self, allowed_by_operator=()):
        self.allowed_by_operator = [ipaddress.ip_network(one) for one in allowed_by_operator]

    def is_for_nobody(self, address):
        if str(address) in HOST:
            return True
        if any(address in one for one in self.allowed_by_operator):
            return False
        # Of the places that the probes go to, only the public ones.
        return str(address) not in (*PUBLIC, PUBLIC6)

    def allows(self, policy, host, port, protocol):
        address = ipaddress.ip_address(host)
        if policy == "none" or self.is_for_nobody(address):
            return False
        if policy == "open":
            return True
        return port not in (53, 853) and any(self.covers(entry, address, port, protocol) for entry in policy)

    @staticmethod
    def covers(entry, address, port, protocol):
        network, ports = entry, None
        if entry.startswith("["):
            network, ports = entry[1:].split("]:")
        elif entry.count(":") == 1:
            network, ports = entry.split(":")
        if address not in ipaddress.ip_network(network):
            return False
        if ports is None:
            return True
        ports, _, named = ports.partition("/")
        first, _, last = ports.partition("-")
        return protocol == (named or "tcp") and int(first) <= port <= int(last or first)


def draw_policy(dice, ports):
    kind = dice.random()
    if kind < 0.12:
        return "none"
    if kind < 0.3:
        return "open"
    return [draw_entry(dice, ports) for _ in range(dice.choice([0, 1, 1, 2, 3, 5, 20]))]


def draw_entry(dice, ports):
    network = dice.choice(NETWORKS)
    if dice.random() < 0.35:
        return network
    first = dice.choice(ports)
    words = str(first) if dice.random() < 0.6 else f"{first}-{min(65535, first + dice.choice([0, 1, 100, 30000]))}"
    if words in ("53", "853"):
        words = "52-54"
    words += "/udp" if dice.random() < 0.4 else ""
    return f"[{network}]:{words}" if ":" in network else f"{network}:{words}"


def draw_probes(dice, ports):
    """Some probes; what goes to none of the ports that everybody knows goes to one that nothing else does."""
    probes = [[*dice.choice(WEB), "tcp"] for _ in range(PROBES // 3)]
    probes += [[dice.choice(PLACES), dice.choice([22, 53, 443, 853]), dice.choice(["tcp", "udp"])] for _ in range(PROBES // 5)]
    probes += [[dice.choice(PLACES), port, dice.choice(["tcp", "udp"])] for port in ports]
    return probes


@pytest.mark.parametrize("allowed", [[], [PRIVATE, "169.254.169.0/24"]], ids=["as_it_comes", "with_ranges_of_the_operator"])
def test_random_policies_and_probes(allowed):
    seed = int(os.environ.get("WARREN_FUZZ_SEED") or random.randrange(1 << 32))
    print(f"WARREN_FUZZ_SEED={seed}")
    with LittleInternet() as internet:
        server = Warren.start(egress={"enabled": True, "dns": [PUBLIC[0]], "allow": allowed})
        try:
            Walk(random.Random(seed), internet, server, Model(allowed), f"WARREN_FUZZ_SEED={seed}").go()
            server.stop()
        finally:
            server.discard()


class Walk:
    def __init__(self, dice, internet, server, model, seed):
        self.dice, self.internet, self.server, self.model, self.seed = dice, internet, server, model, seed
        self.probed = self.reached = self.markers = 0
        # Each of them for one probe of one round; below those that the kernel takes for connections.
        self.ports = dice.sample(range(1024, 32768), 2000)
        self.seen = 0
        self.kept = set()

    def go(self):
        self.sandbox = self.server.client.create(egress="none")
        self.sandbox.python_ok(INSIDE)
        for number in range(ROUNDS):
            ports = [self.ports.pop() for _ in range(PROBES // 2)]
            policy = draw_policy(self.dice, [*ports, 80, 443, 8080, 53])
            self.where = f"{self.seed}, round {number}, policy {policy}"
            assert set_egress(self.sandbox, policy), self.where
            self.look_at_connections(policy)
            self.probe(policy, draw_probes(self.dice, ports), ports)
            self.open_connections(policy)
            if number % 10 == 9:
                self.go_on_as_a_fork()
        print(f"{self.probed} probes, {self.reached} of them allowed")
        assert self.probed >= 500 and self.probed > self.reached > 50, "most of it was tried, and both ways"
        self.sandbox.destroy()

    def probe(self, policy, probes, ports):
        said = json.loads(self.sandbox.python_ok(f"print(json.dumps(probe({probes!r})))"))
        expected = set()
        for (host, port, protocol), result in zip(probes, said):
            here = f"{self.where}: {protocol} to {host} port {port}: {result}"
            allowed = self.model.allows(policy, host, port, protocol)
            self.probed += 1
            self.reached += allowed
            assert result != "silence", here
            if (host, port) in WEB and protocol == "tcp":
                assert (result == "sent") == allowed, here
            elif protocol == "tcp" and not allowed:
                assert result != "sent", here
            if allowed and port in ports:
                expected.add((host, protocol, port))
        assert self.arrived(ports) == expected, self.where

    def arrived(self, ports):
        """What of these ports has arrived in the world, all that was sent before now included."""
        self.markers += 1
        marker = {"destination": PUBLIC[0], "protocol": 17, "port": 40000 + self.markers, "source": HOST[0]}
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
            sending.sendto(b"x", (PUBLIC[0], marker["port"]))
        packets = eventually(lambda: (lambda all: all if marker in all else None)(self.internet.arrived()), 30, "the marker")
        later, self.seen = packets[self.seen:], len(packets)
        known = {p["port"] for p in later} - set(ports) - {22, 53, 80, 443, 853, 8080}
        assert not known & set(self.ports), f"{self.where}: ports of rounds to come"
        return {(p["destination"], {6: "tcp", 17: "udp"}[p["protocol"]], p["port"]) for p in later if p["port"] in ports}

    def look_at_connections(self, policy):
        for host, port in sorted(self.kept):
            lives = self.sandbox.python_ok(f"print(asked({host!r}, {port}))") == "True\n"
            assert lives == self.model.allows(policy, host, port, "tcp"), f"{self.where}: a connection to {host} port {port}"
            if not lives:
                self.kept.remove((host, port))

    def open_connections(self, policy):
        for host, port in WEB:
            if (host, port) not in self.kept and self.model.allows(policy, host, port, "tcp"):
                self.sandbox.python_ok(f"keep({host!r}, {port})")
                self.kept.add((host, port))

    def go_on_as_a_fork(self):
        """Which has its parent's policy, and none of its connections."""
        child, = self.sandbox.fork()
        assert child.refresh()["egress"] == self.sandbox.refresh()["egress"], self.where
        self.sandbox.destroy()
        self.sandbox = child
        self.sandbox.python_ok("kept.clear()")
        self.kept.clear()

"""Fixtures of the black-box tests: a real server, sandboxes in it, and the books kept."""

import pytest

import host
from warren_server import Warren


@pytest.fixture(scope="session")
def shared_server():
    """The instance that tests share which harm nothing but their own sandboxes."""
    server = Warren.start()
    try:
        yield server
        server.stop()
    finally:
        server.discard()


@pytest.fixture
def warren(shared_server):
    """The shared instance. A test must leave it healthy, and with its processes the same ones."""
    before = (shared_server.server_pid, shared_server.runtime_pid)
    shared_server.look()
    yield shared_server
    after = (shared_server.server_pid, shared_server.runtime_pid)
    assert before == after, f"a process of the server was replaced during the test:\n{shared_server.log()}"
    shared_server.wait_healthy()


@pytest.fixture
def client(warren):
    return warren.client


@pytest.fixture
def sandbox(warren, client):
    """A fresh sandbox, destroyed at the end."""
    one = client.create()
    warren.look()
    yield one
    client.request("DELETE", one.path)


@pytest.fixture
def make_sandbox(warren, client):
    """Makes sandboxes that are destroyed at the end."""
    made = []

    def make(**spec):
        made.append(client.create(**spec))
        return made[-1]

    yield make
    for one in made:
        client.request("DELETE", one.path)


@pytest.fixture
def fork(client):
    """Forks sandboxes; the children are destroyed at the end."""
    made = []

    def make(parent, n=1, **options):
        made.extend(parent.fork(n, **options))
        return made[-n:]

    yield make
    for one in made:
        client.request("DELETE", one.path)


@pytest.fixture(scope="module")
def module_sandbox(shared_server):
    """One sandbox for all tests of a file that leave nothing behind in it."""
    client = shared_server.client
    one = client.create()
    yield one
    client.request("DELETE", one.path)


@pytest.fixture
def start_server():
    """Starts instances of the test's own, for tests that kill things or need their own limits."""
    started = []

    def start(**options):
        started.append(Warren.start(**options))
        return started[-1]

    try:
        yield start
        for server in started:
            server.stop()
    finally:
        for server in started:
            server.discard()


@pytest.fixture(scope="session", autouse=True)
def host_stays_as_it_was():
    """The host's own mounts and interfaces are the same after all tests as before."""
    mounts = {line.split()[4] for line in host.mounts()}
    interfaces = host.interfaces()
    yield
    grown = {line.split()[4] for line in host.mounts()} - mounts
    assert not grown, f"new mounts on the host: {grown}"
    assert host.interfaces() == interfaces

"""Fixtures of the escape suite: probes that run inside, and a sibling that must not notice."""

import json
import pathlib

import pytest

PROBES = pathlib.Path(__file__).parent / "probes"


class Prober:
    """Runs the programs of probes/ inside a sandbox."""

    def __init__(self, sandbox):
        self.sandbox = sandbox

    def run(self, name, *arguments, timeout=60, **options):
        """Uploads a probe, compiles it where it is C, runs it; what it printed, as JSON."""
        source = (PROBES / name).read_bytes()
        path = f"/tmp/probes/{name}"
        self.sandbox.put(path, source)
        words = " ".join("'" + str(a).replace("'", "'\\''") + "'" for a in arguments)
        if name.endswith(".c"):
            self.sandbox.bash_ok(f"gcc -O0 -w -o {path}.out {path}", timeout_seconds=60)
            command = f"{path}.out {words}"
        else:
            command = f"/usr/bin/python3 {path} {words}"
        run = self.sandbox.bash(command, timeout_seconds=timeout, **options)
        assert run.code == 0, run
        return json.loads(run.stdout)


@pytest.fixture
def probe(sandbox):
    return Prober(sandbox).run


@pytest.fixture(scope="session")
def sibling(shared_server):
    """A sandbox that minds its own business while others attack."""
    one = shared_server.client.create(name="sibling", persistent=True)
    one.python_ok("state = 'untouched'")
    one.put("/root/mine", b"untouched")
    one.bash_ok("setsid sleep 100000 >/dev/null 2>&1 &")
    yield one
    shared_server.client.request("DELETE", one.path)


@pytest.fixture(autouse=True)
def the_sibling_does_not_notice(request, sibling):
    yield
    assert sibling.python_ok("print(state)") == "untouched\n"
    assert sibling.get("/root/mine") == b"untouched"
    assert sibling.bash_ok("pgrep -c sleep") == "1\n"

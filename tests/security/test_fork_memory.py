"""A chain of forks, each of which writes to all of its memory, under a limit of memory of its account."""

import pathlib
import threading
import time

import pytest

import host
from test_exhaustion import host_is_well
from warren_client import ApiError, eventually

MIB = 1 << 20
BOUND = 120
# What each link of the chain writes, and what the account may have.
EACH = 90
ACCOUNT = 400
LINKS = 8


def memory_of(folder):
    """What is charged to a group, in bytes, by either version of cgroups."""
    for name in ("memory.usage_in_bytes", "memory.current"):
        try:
            return int(pathlib.Path(folder, name).read_text())
        except FileNotFoundError:
            continue
    return None


def account_groups(warren):
    """The groups of accounts, in which their sandboxes' and forks' are."""
    return [path for path in host.cgroups_with(f"/{warren.cgroup}/")
            if path.rpartition("/")[0].endswith(warren.cgroup) and "/templates" not in path and memory_of(path) is not None]


class Watch(threading.Thread):
    """Looks at a group's memory all the time."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder, self.peak, self.over = folder, 0, threading.Event()

    def run(self):
        while not self.over.wait(0.02):
            self.peak = max(self.peak, memory_of(self.folder) or 0)


@pytest.fixture
def limited(start_server):
    return start_server(limits={"memory_mib": 300}, sandboxes={"account_memory_mib": ACCOUNT})


def test_a_chain_of_forks_stays_within_the_limit_of_its_account(limited):
    attacker, other = limited.new_account("chain"), limited.new_account("other")
    neighbour = other.create()
    neighbour.python_ok("state = 'untouched'")
    before = set(account_groups(limited))
    parent = attacker.create()
    group, = set(account_groups(limited)) - before
    watch = Watch(group)
    watch.start()
    parent.python_ok(f"data = bytearray({EACH} << 20)\nlink = 0")
    # Written page by page, so that each link has pages of its own.
    write = "link += 1\nfor at in range(0, len(data), 4096): data[at] = link % 256\nprint(link, sum(data[::4096]) == link % 256 * len(data[::4096]))"
    chain, said = [parent], []
    for _ in range(LINKS):
        try:
            child, = chain[-1].fork()
        except ApiError as error:
            said.append(error)
            break
        chain.append(child)
        try:
            run = child.python(write, wait=BOUND)
        except ApiError as error:
            said.append(error)
            break
        if run.code != 0:
            said.append(run)
            break
        assert run.stdout == f"{len(chain) - 1} True\n".encode(), run
    watch.over.set()
    watch.join()
    # As many links as there is room for, and one that was told why not.
    assert 2 <= len(chain) - 1 <= ACCOUNT // EACH + 1 and len(said) == 1, (len(chain), said)
    assert watch.peak <= ACCOUNT * MIB, watch.peak >> 20
    if isinstance(said[0], ApiError):
        assert said[0].status in (409, 413, 429, 503) and said[0].args, said
    else:
        assert said[0].exit.get("oom") or "memory" in said[0].text.lower() or "memory" in str(said[0].errors), said
    host_is_well()
    assert neighbour.python_ok("print(state)") == "untouched\n"
    neighbour.fork()[0].destroy()
    # The chain lives: who was not killed has what it had, who was has a new session and says so.
    for one in chain:
        one.bash_ok("true")
        one.works()
    for one in chain[1:]:
        one.destroy()
    parent.works()
    eventually(lambda: memory_of(group) < 200 * MIB, BOUND, "the return of the chain's memory")
    parent.python_ok("data = None")
    parent.fork()[0].works()


def test_forks_of_one_that_has_all_of_its_account_s_memory_are_refused_or_work(limited):
    client = limited.new_account("full")
    parent = client.create()
    second = client.create()
    second.python_ok(f"data = bytearray({ACCOUNT // 2} << 20)")
    parent.python_ok(f"data = bytearray({ACCOUNT // 4} << 20)\nmark = 'kept'")
    made = []
    started = time.monotonic()
    for _ in range(4):
        try:
            made += parent.fork(2)
        except ApiError as error:
            assert error.status in (409, 413, 429, 503), error
    assert time.monotonic() - started < BOUND
    assert parent.python_ok("print(mark)") == "kept\n"
    for one in made:
        one.works()
    host_is_well()

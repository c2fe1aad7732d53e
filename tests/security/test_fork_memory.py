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
# In MiB: what each link of the chain writes, and what the account may have.
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
    parent.bash_ok("echo kept > /root/kept")
    # Written page by page, so that each link has pages of its own.
    look = "print(link, sum(data[::4096]) == link % 256 * len(data[::4096]))"
    write = "link += 1\nfor at in range(0, len(data), 4096): data[at] = link % 256\n" + look
    chain = [parent]
    for number in range(1, LINKS + 1):
        child, = chain[-1].fork()
        chain.append(child)
        run = child.python(write, wait=BOUND)
        # Whose process the kernel ends when there is no room is its own choice; whoever writes is told.
        if run.code != 0:
            assert run.exit.get("oom") or run.exit.get("restarted"), run
            break
        assert run.stdout == f"{number} True\n".encode(), run
    watch.over.set()
    watch.join()
    assert len(chain) * EACH > ACCOUNT, "the chain has not come to the limit"
    assert watch.peak <= ACCOUNT * MIB, watch.peak >> 20
    host_is_well()
    assert neighbour.python_ok("print(state)") == "untouched\n"
    neighbour.fork()[0].destroy()
    # Each has what it had, or says that its session is a new one; none has anything else, and all live.
    intact = 0
    for number, one in enumerate(chain):
        run = one.python(look, wait=BOUND)
        if run.code == 0:
            assert run.stdout == f"{number} True\n".encode(), run
            intact += number > 0
        else:
            assert run.exit.get("restarted") or run.exit.get("oom") or one is chain[-1], run
        one.works()
        assert one.bash_ok("cat /root/kept") == "kept\n"
    assert intact * EACH <= ACCOUNT, intact
    for one in chain[1:]:
        one.destroy()
    parent.works()
    eventually(lambda: memory_of(group) < 200 * MIB, BOUND, "the return of the chain's memory")
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

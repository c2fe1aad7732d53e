"""Sandboxes that are ready before anybody asks: how many, whose, how fresh, and what is left of them."""

import os
import pathlib
import re
import shutil
import signal
import time

import pytest

import host
from warren_client import eventually
from warren_server import build_folder, templates_folder

BOUND = 120
SIZE = 3
SHELLS = 1  # of a kind of which nothing has been forked: process 1 without files
NOTHING = {"ready": 0, "wanted": 0, "hits": 0, "misses": 0, "shells": 0, "wanted_shells": 0}


def stock(client):
    return client.expect(200, "GET", "/v1/capacity").json()["stock"]


def full(client, kinds=1):
    """Waits until there are as many as there should be."""
    return eventually(lambda: (now := stock(client))["ready"] == now["wanted"] == SIZE * kinds and now["shells"] == now["wanted_shells"] and now,
                      BOUND, "a full stock")


@pytest.fixture
def stocked(start_server):
    warren = start_server(runtime={"stock": SIZE})
    warren.client.create().destroy()
    full(warren.client)
    return warren


def test_capacity_tells_of_the_stock(start_server):
    client = start_server(runtime={"stock": SIZE}).client
    assert stock(client) == NOTHING
    first = client.create()
    now = full(client)
    assert (now["hits"], now["misses"]) == (0, 1)
    second = client.create()
    now = full(client)
    assert (now["hits"], now["misses"]) == (1, 1)
    # Those that nobody has asked for are nobody's sandboxes.
    capacity = client.expect(200, "GET", "/v1/capacity").json()
    assert capacity["sandboxes"] == 2 and client.ids() == {first.id, second.id}
    first.works()
    second.works()


def test_as_many_shells_are_kept_as_the_last_forks_took(stocked):
    client = stocked.client
    assert full(client)["wanted_shells"] == 1
    parent = client.create()
    parent.python_ok("x = 41")
    for count in (3, 3, 2):  # the second from shells only, the others from some
        children = parent.fork(count)
        for child in children:
            assert child.python_ok("print(x + 1)") == "42\n"
        assert full(client)["wanted_shells"] == 3
    many = parent.fork(9)
    assert full(client)["wanted_shells"] == 8, "no more than eight are kept"
    assert {child.python_ok("print(x)") for child in many} == {"41\n"}


def test_more_than_there_are_ready_come_all_the_same(stocked):
    client = stocked.client
    made = [client.create() for _ in range(SIZE * 3)]
    now = stock(client)
    assert now["hits"] + now["misses"] == len(made) + 1, now
    for one in made:
        one.works()
        assert one.python_ok("import os; print(os.getppid())") == "0\n", "its session is no fork"
    for one in made:
        one.destroy()
    full(client)


def test_other_limits_of_the_server_s_own_are_kept(start_server):
    client = start_server(runtime={"stock": SIZE}, sandboxes={"max_per_account": 2}).client
    client.create()
    full(client)
    client.create()
    assert client.request("POST", "/v1/sandboxes", {}).status == 429


def test_without_a_stock_everything_works(start_server):
    warren = start_server(runtime={"stock": 0})
    client = warren.client
    for _ in range(2):
        client.create().works()
    assert stock(client) == NOTHING
    assert len(warren.agents()) == 2


def test_each_template_has_a_stock_of_its_own(stocked):
    client = stocked.client
    before = stock(client)
    science = client.create(template="python-datasci")
    assert stock(client)["misses"] == before["misses"] + 1
    full(client, kinds=2)
    again = client.create(template="python-datasci")
    assert stock(client)["hits"] == before["hits"] + 1
    for one in (science, again):
        assert one.python_ok("import numpy, os; print(numpy.arange(3).sum(), os.getppid())") == "3 0\n"
    assert client.create().bash("python3 -c 'import numpy' 2>/dev/null").code == 1


def test_two_accounts_never_share(stocked):
    client = stocked.client
    other = stocked.new_account("other")
    ready = {account_of(p.pid) for p in stocked.agents()}
    before = stock(client)
    theirs = other.create()
    now = stock(client)
    assert (now["hits"], now["misses"]) == (before["hits"], before["misses"] + 1), "an account got what was kept for another"
    full(client, kinds=2)
    accounts = [account_of(p.pid) for p in stocked.agents()]
    assert len(ready) == 1 and sorted(map(accounts.count, set(accounts))) == [SIZE + SHELLS, SIZE + SHELLS + 1], accounts
    assert accounts.count(*ready) == SIZE + SHELLS, "the other's sandbox is in the first one's group"
    mine = client.create()
    theirs.bash_ok("echo secret > /root/secret")
    theirs.destroy()
    assert other.create().bash_ok("ls /root") == mine.bash_ok("ls /root")


def account_of(pid):
    """Whose group of control the process is in."""
    return re.search(r"/([^/]+)/sbx_", host.cgroups_of(pid)).group(1)


FRESH = ("import os, random, uuid, secrets, socket, tempfile, time\n"
         "print(os.urandom(8).hex(), random.random(), uuid.uuid4(), secrets.token_hex(8), socket.gethostname(), tempfile.mktemp())")
LOOK = ("find /root /tmp /var/tmp /srv /home /mnt /run -mindepth 1 -printf '%p %y %m %s\\n' 2>/dev/null | sort; env | grep -v '^_\\|^WARREN_CALL=' | sort; ulimit -a; "
        "seen=$(ps -eo args --no-headers); echo \"$seen\" | grep -v 'ps -eo\\|bash'; ls -l /proc/1/fd 2>&1 | head -1")


def test_one_from_the_stock_is_as_fresh_as_any(stocked, start_server):
    client = stocked.client
    ready = [client.create() for _ in range(SIZE)]
    assert stock(client)["hits"] == SIZE
    plain = start_server(runtime={"stock": 0}).client.create()
    drawn = [one.python_ok(FRESH).split() for one in (*ready, plain)]
    for values in zip(*drawn):
        assert len(set(values)) == SIZE + 1, values
    expected = plain.bash_ok(LOOK)
    for one in ready:
        assert one.bash_ok(LOOK) == expected
        assert one.python_ok("print(sorted(n for n in globals() if not n.startswith('_')))") == plain.python_ok("print(sorted(n for n in globals() if not n.startswith('_')))")
        info = one.refresh()
        assert info["state"] == "ready"
        inside = float(one.python_ok("import time; print(time.time())"))
        assert abs(inside - time.time()) < 60
    assert len({one.id for one in ready}) == SIZE


def test_a_lifetime_begins_when_it_is_asked_for(stocked):
    client = stocked.client
    one, other = client.create(ttl_seconds=300), client.create(ttl_seconds=300)
    assert stock(client)["hits"] == 2
    assert other.info["created_at"] >= one.info["created_at"] and other.info["expires_at"] >= one.info["expires_at"]
    plain = client.create(ttl_seconds=600, name="named")
    assert plain.refresh()["name"] == "named"


def test_it_can_be_forked_and_merged(stocked):
    client = stocked.client
    parent = client.create()
    assert stock(client)["hits"] == 1
    parent.python_ok("x = 1; open('/root/f', 'w').write('0')")
    child, = parent.fork()
    child.python_ok("x += 1; open('/root/f', 'w').write('1')")
    parent.client.expect(200, "POST", f"{parent.path}/merge_into/{child.id}", {"mode": "files"})
    assert parent.python_ok("print(x, open('/root/f').read())") == "1 1\n"
    parent.merge(child)
    assert parent.python_ok("print(x)") == "2\n"


def test_what_has_died_in_the_stock_is_not_given_out(stocked):
    client = stocked.client
    for one in stocked.agents():
        os.kill(one.pid, signal.SIGKILL)
    # Until the runtime has heard of it a create may fail, but none gives a dead one.
    made = []
    for _ in range(SIZE):
        answer = eventually(lambda: (now := client.request("POST", "/v1/sandboxes", {})).status == 201 and now, BOUND, "a create")
        made.append(client.sandbox(answer.json()["id"]))
        made[-1].works()
    full(client)
    eventually(lambda: len(stocked.agents()) == 2 * SIZE + SHELLS, BOUND, "no more than those")
    assert client.ids() == {one.id for one in made}


def test_a_template_built_again_is_not_served_from_the_old_stock(start_server, tmp_path, monkeypatch):
    """Its definition changes, and what is built from that is there: here another template, by which it is known."""
    build, templates = tmp_path / "build", tmp_path / "templates"
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents:
        if folder.owner() == "root" and str(folder) not in ("/", "/tmp"):
            folder.chmod(folder.stat().st_mode | 0o055)
    shutil.copytree(build_folder() / "bin", build / "bin", symlinks=True)
    templates.mkdir()
    built = {path.name.rpartition("-")[0]: path for path in pathlib.Path(templates_folder()).iterdir() if path.is_dir()}
    (templates / built["default"].name).symlink_to(built["default"])
    monkeypatch.setenv("WARREN_BUILD", str(build))
    monkeypatch.setenv("WARREN_TEST_TEMPLATES", str(templates))
    warren = start_server(runtime={"stock": SIZE})
    client = warren.client
    old = client.create()
    before = full(client)
    assert old.bash("python3 -c 'import numpy' 2>/dev/null").code == 1

    definition = build / "bin" / "templates" / "default.toml"
    definition.write_text(definition.read_text().replace('"netbase"', '"netbase", "rsync"'))
    digest, = re.findall("^default .* ([0-9a-f]{16}) ", warren.command("template", "list").stdout, re.MULTILINE)
    assert digest != built["default"].name.rpartition("-")[2]
    answer = client.request("POST", "/v1/sandboxes", {})
    assert answer.status in (400, 409) and "built" in answer.error(), answer.body
    (templates / f"default-{digest}").symlink_to(built["python-datasci"])
    new = client.create()
    assert new.bash_ok("python3 -c 'import numpy; print(1)'") == "1\n"
    assert stock(client)["hits"] == before["hits"]
    # In time the old ones are replaced.
    eventually(lambda: (now := stock(client))["ready"] == now["wanted"] == SIZE and len(warren.agents()) == SIZE + SHELLS + 2, BOUND, "a stock of the new")
    hits = stock(client)["hits"]
    for _ in range(SIZE):
        assert client.create().bash_ok("python3 -c 'import numpy; print(1)'") == "1\n"
    assert stock(client)["hits"] > hits
    old.works()
    new.works()


# Who is killed.

def test_the_stock_outlives_the_server(stocked):
    client = stocked.client
    agents = {p.pid for p in stocked.agents()}
    old = stocked.server_pid
    os.kill(old, signal.SIGKILL)
    eventually(lambda: stocked.child("server") != old, BOUND, "a new server")
    stocked.wait_healthy()
    client.create().works()
    full(client)
    # At most the one that was given out is more than before.
    eventually(lambda: len(stocked.agents()) == len(agents) + 1, BOUND, "no agent that nobody knows")


def test_nothing_of_the_stock_outlives_the_runtime(stocked):
    client = stocked.client
    stock_of_old, old = stocked.agents(), stocked.runtime_pid
    uppers, folders = stocked.uppers(), stocked.cgroup_folders()
    assert len(stock_of_old) == SIZE + SHELLS and len(uppers) == SIZE
    stocked.look()
    os.kill(old, signal.SIGKILL)
    eventually(lambda: stocked.child("runtime") != old, BOUND, "a new runtime")
    stocked.wait_healthy()
    eventually(lambda: not stocked.left_over(of=stock_of_old), BOUND, "the end of the stock")
    eventually(lambda: not set(stocked.uppers()) & set(uppers), BOUND, "no subvolume of the old stock")
    eventually(lambda: not [f for f in stocked.cgroup_folders() if f.rpartition("/")[2] in uppers], BOUND, "no cgroup of the old stock")
    assert folders
    eventually(lambda: client.request("POST", "/v1/sandboxes", {}).status == 201, BOUND, "a create")
    full(client)


def test_killed_whole_it_leaves_nothing(stocked):
    stocked.look()
    os.kill(stocked.pid, signal.SIGKILL)
    stocked.process.wait(30)
    eventually(lambda: not [p for p in stocked.ever_seen.values() if host.alive(p)], BOUND, "the end of all processes")
    assert not host.mounts_of(stocked.home)
    stocked.launch()
    eventually(lambda: not stocked.uppers() and not stocked.agents(), BOUND, "nothing of the old stock")


def test_stopped_while_it_fills_it_leaves_nothing(start_server):
    warren = start_server(runtime={"stock": 16})
    warren.client.create()
    warren.client.create(template="python-datasci")
    warren.stop()


def test_what_is_ready_goes_with_its_account(stocked):
    client = stocked.client
    other = stocked.new_account("leaving")
    other.create()
    full(client, kinds=2)
    removed = stocked.command("account", "rm", "leaving")
    assert removed.returncode == 0, removed
    now = stock(client)
    assert (now["ready"], now["wanted"]) == (SIZE, SIZE), now
    eventually(lambda: len(stocked.agents()) == SIZE + SHELLS and len(stocked.uppers()) == SIZE, BOUND, "the end of what was ready")
    # Another account's is not anybody's else to end.
    assert client.with_key("wrn_nonsense").request("DELETE", "/stock").status == 401
    stranger = stocked.new_account("stays")
    assert stranger.request("DELETE", "/stock").status == 204
    assert stock(client)["ready"] == SIZE
    client.create().works()

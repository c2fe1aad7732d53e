"""What sandboxes reach of a little internet, as clients ask for it in each face, while they run and
across forks, merges and restarts; and what they are told of what they were refused."""

import json
import os
import pwd
import signal

import pytest

from egress_probes import REACH, REFUSED, explain, reach, resolver_of, set_egress
from little_internet import HOST, METADATA, PRIVATE, PUBLIC, PUBLIC6, LittleInternet
from warren_client import eventually
from warren_server import Warren


@pytest.fixture(scope="module")
def internet():
    with LittleInternet() as net:
        yield net


@pytest.fixture(scope="module")
def server(internet):
    one = Warren.start(egress={"enabled": True, "dns": [PUBLIC[0]]}, runtime={"stock": 2})
    try:
        yield one
        one.stop()
    finally:
        one.discard()


@pytest.fixture
def make(server):
    made = []

    def create(**spec):
        made.append(server.client.create(**spec))
        made[-1].python_ok(REACH)
        return made[-1]

    yield create
    for one in made:
        server.client.request("DELETE", one.path)


def own_address(sandbox):
    return json.loads(sandbox.bash_ok("ip -json -4 address show dev eth0"))[0]["addr_info"][0]["local"]


def test_open_is_what_who_says_nothing_gets(make):
    sandbox = make()
    assert sandbox.info["egress"] == "open" and "notes" not in sandbox.info
    assert reach(sandbox, PUBLIC[0]) == "answered"
    assert reach(sandbox, PUBLIC6) == "answered"
    assert reach(sandbox, PUBLIC[1], 8080) == "answered"


def test_what_nobody_may_reach_is_refused_under_every_policy(make):
    other = make()
    neighbour = own_address(other)
    for egress in ("open", [PRIVATE, METADATA, *HOST, neighbour, "198.18.0.0/15"]):
        sandbox = make(egress=egress)
        for host in (PRIVATE, METADATA, *HOST, neighbour):
            assert reach(sandbox, host) in REFUSED, (egress, host)
        said = explain(sandbox, (PRIVATE, 80), (METADATA, 80), (HOST[0], 80))
        assert all(one["why"] and one["protocol"] == "tcp" and one["port"] == 80 for one in said["latest"]), said
        assert said["refused"]["never"] >= 2 and said["refused"]["host"] >= 1, said


def test_none_is_not_a_packet(internet, make):
    sandbox = make(egress=False)
    assert sandbox.info["egress"] == "none"
    before = len(internet.arrived())
    for host in (PUBLIC[0], PUBLIC6, PRIVATE):
        assert reach(sandbox, host) in REFUSED
        assert reach(sandbox, host, 53, udp=True) in REFUSED
    assert internet.arrived()[before:] == []


def test_a_list_is_all_that_is_reached(make):
    wanted = [f"{PUBLIC[0]}:80", f"[{PUBLIC6}]:8080"]
    sandbox = make(egress=wanted)
    assert sandbox.info["egress"] == wanted
    assert reach(sandbox, PUBLIC[0]) == "answered"
    assert reach(sandbox, PUBLIC6, 8080) == "answered"
    for host, port in ((PUBLIC[0], 8080), (PUBLIC[1], 80), (PUBLIC6, 80)):
        assert reach(sandbox, host, port) in REFUSED, (host, port)
    assert reach(sandbox, PUBLIC[0], 53, udp=True) in REFUSED
    said = explain(sandbox, (PUBLIC[0], 8080), (PUBLIC[1], 80))
    assert said["egress"] == wanted and said["refused"]["policy"] >= 3


def test_a_change_holds_at_once_and_cuts_what_it_does_not_allow(make):
    sandbox = make(egress="open")
    sandbox.python_ok("kept, cut = [socket.create_connection((host, 80), timeout=10) for host in "
                      f"({PUBLIC[0]!r}, {PUBLIC[1]!r})]")
    assert set_egress(sandbox, [PUBLIC[0]])["egress"] == [PUBLIC[0]]
    asked = ("def asked(s):\n    try:\n        s.sendall(b'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'); return s.recv(4)\n"
             "    except OSError as e: return errno.errorcode[e.errno]\n")
    assert sandbox.python_ok(asked + "print(asked(kept))") == "b'HTTP'\n"
    assert "HTTP" not in sandbox.python_ok("print(asked(cut))")
    assert reach(sandbox, PUBLIC[1]) in REFUSED
    assert sandbox.refresh()["egress"] == [PUBLIC[0]]
    set_egress(sandbox, "none")
    assert "HTTP" not in sandbox.python_ok("print(asked(kept))")
    assert reach(sandbox, PUBLIC[0]) in REFUSED
    set_egress(sandbox, True)
    assert reach(sandbox, PUBLIC[1]) == "answered"


def test_one_that_began_with_none_can_be_opened(make):
    sandbox = make(egress="none")
    set_egress(sandbox, {"mode": "list", "allow": [PUBLIC[1]]})
    assert reach(sandbox, PUBLIC[1]) == "answered"
    assert reach(sandbox, PUBLIC[0]) in REFUSED


def test_forks_have_their_parents(make):
    parent = make(egress=[PUBLIC[0]])
    children = parent.fork(2)
    try:
        for child in children:
            assert child.refresh()["egress"] == [PUBLIC[0]]
            assert reach(child, PUBLIC[0]) == "answered"
            assert reach(child, PUBLIC[1]) in REFUSED
        set_egress(children[0], "none")
        assert reach(children[0], PUBLIC[0]) in REFUSED
        assert reach(children[1], PUBLIC[0]) == reach(parent, PUBLIC[0]) == "answered"
    finally:
        for child in children:
            child.destroy()


def test_what_is_merged_into_a_sandbox_has_its(make):
    parent = make(egress="none")
    child, = parent.fork()
    set_egress(child, "open")
    assert reach(child, PUBLIC[0]) == "answered"
    parent.merge(child)
    assert parent.refresh()["egress"] == "none"
    assert reach(parent, PUBLIC[0]) in REFUSED


def test_the_server_may_be_killed(server, make):
    sandbox = make(egress="open")
    set_egress(sandbox, [PUBLIC[0]])
    killed = server.server_pid
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: server.server_pid not in (None, killed), 60, "another server")
    server.wait_healthy()
    assert sandbox.refresh()["egress"] == [PUBLIC[0]]
    assert reach(sandbox, PUBLIC[0]) == "answered"
    assert reach(sandbox, PUBLIC[1]) in REFUSED


def test_over_mcp(server):
    client = server.client
    made = client.tool("create_sandbox", egress=[PUBLIC[0]])["structuredContent"]
    sandbox = client.sandbox(made["sandbox_id"])
    try:
        assert made["egress"] == [PUBLIC[0]] and "egress_note" not in made
        sandbox.python_ok(REACH)
        assert reach(sandbox, PUBLIC[1]) in REFUSED
        explain(sandbox, (PUBLIC[1], 80))
        result = client.tool("explain", sandbox_id=sandbox.id)
        assert result["structuredContent"]["egress"] == [PUBLIC[0]]
        assert f"tcp {PUBLIC[1]} port 80: the sandbox's egress does not allow it" in result["content"][0]["text"]
        changed = client.tool("set_egress", sandbox_id=sandbox.id, egress="open")["structuredContent"]
        assert changed == {"sandbox_id": sandbox.id, "egress": "open"}
        assert reach(sandbox, PUBLIC[1]) == "answered"
        assert "egress is missing" in client.tool_error("set_egress", sandbox_id=sandbox.id)
        assert "list_sandboxes" in client.tool_error("explain", sandbox_id="sbx_" + "0" * 32)
    finally:
        sandbox.destroy()


def test_on_the_command_line(server):
    made = server.command("sandbox", "create", "--egress", f"{PUBLIC[0]},{PUBLIC6}").stdout.strip()
    try:
        assert server.command("sandbox", "egress", made).stdout == f"{PUBLIC[0]} {PUBLIC6}\n"
        assert server.command("sandbox", "explain", made).stdout == f"egress: {PUBLIC[0]} {PUBLIC6}\nnothing was refused\n"
        assert server.command("sandbox", "egress", made, "none").stdout == "none\n"
        server.command("sandbox", "exec", made, f"timeout 5 bash -c 'echo > /dev/tcp/{PUBLIC[0]}/80' || true")
        explain(server.client.sandbox(made), (PUBLIC[0], 80))
        assert "the sandbox's egress does not allow it" in server.command("sandbox", "explain", made).stdout
    finally:
        server.command("sandbox", "rm", made)


BAD = [(7, "egress must be"), ("some", "egress must be"), (["a b"], "a b"), (["10.0.0.0/33"], "10.0.0.0/33"), ([7], "list of strings"),
       ({"mode": "list"}, "allow is missing"), ({"allow": [], "more": 1}, "more"), (["x" * 300], "egress"), (["1.2.3.4"] * 300, "256"),
       (["api.example.com"], "opens addresses, not names")]


@pytest.mark.parametrize("egress,word", BAD, ids=[word for _, word in BAD])
def test_what_is_no_policy_is_refused_and_changes_nothing(server, make, egress, word):
    sandbox = make(egress="none")
    before = server.client.ids()
    for method, path in (("POST", "/v1/sandboxes"), ("PUT", f"{sandbox.path}/egress")):
        answer = server.client.request(method, path, {"egress": egress})
        assert answer.status == 400 and word in answer.json()["error"], answer
    for tool, arguments in (("create_sandbox", {}), ("set_egress", {"sandbox_id": sandbox.id})):
        assert word in server.client.tool_error(tool, egress=egress, **arguments)
    assert server.client.ids() == before and sandbox.refresh()["egress"] == "none"


def test_another_accounts_sandbox_is_not_there(server, make):
    sandbox = make(egress="none")
    stranger = server.new_account("stranger")
    for method, path, body in (("PUT", "egress", {"egress": "open"}), ("GET", "explain", None)):
        assert stranger.request(method, f"{sandbox.path}/{path}", body).status == 404
    assert sandbox.refresh()["egress"] == "none"


def test_the_operator_chooses_what_who_says_nothing_gets_and_opens_ranges(internet):
    server = Warren.start(egress={"enabled": True, "default": "none", "allow": [PRIVATE], "dns": [PUBLIC[0]]})
    try:
        sandbox = server.client.create()
        sandbox.python_ok(REACH)
        assert sandbox.info["egress"] == "none"
        assert reach(sandbox, PRIVATE) in REFUSED
        set_egress(sandbox, "open")
        assert reach(sandbox, PRIVATE) == "answered"
        assert reach(sandbox, METADATA) in REFUSED
        sandbox.destroy()
        server.stop()
    finally:
        server.discard()


LOOK_UP = """
import socket
def look_up(name, family=socket.AF_UNSPEC):
    try:
        return sorted({one[4][0] for one in socket.getaddrinfo(name, 80, family, socket.SOCK_STREAM)})
    except socket.gaierror as e:
        return e.errno
"""


def look_up(sandbox, name):
    return sandbox.python_ok(LOOK_UP + f"print(look_up({name!r}))").strip()


def test_names_lead_to_addresses(internet, make):
    sandbox = make(egress="open")
    assert eventually(lambda: look_up(sandbox, "one.example.com") == f"['{PUBLIC[0]}']", 20, "the resolver")
    assert PUBLIC6 in look_up(sandbox, "deep.one.example.org")
    said = json.loads(sandbox.bash_ok("curl -sS http://two.example.com/x"))
    assert said == {"address": PUBLIC[1], "host": "two.example.com", "path": "/x"}
    assert look_up(sandbox, "nothing.example.com").startswith("-"), "there is no such name"
    assert sandbox.bash_ok("cat /etc/resolv.conf") == "nameserver 198.18.0.1\n"


def test_names_lead_nowhere_where_nobody_may_go(make):
    sandbox = make(egress="open")
    for name in ("rebinding.example.com", "metadata.example.com", "localhost.example.com"):
        assert look_up(sandbox, name).startswith("-"), name
    assert sandbox.bash("curl -sS --max-time 20 http://metadata.example.com/").code != 0


def test_who_may_reach_nothing_by_name_hears_so_at_once_and_nobody_is_asked(internet, make):
    for egress in ("none", [PUBLIC[0]]):
        sandbox = make(egress=egress)
        before = len(internet.arrived())
        run = sandbox.python(LOOK_UP + "import time\nbegan = time.monotonic()\nprint(look_up('one.example.com'), time.monotonic() - began < 4)")
        assert run.stdout.startswith(b"-") and run.stdout.endswith(b"True\n"), run
        assert [p for p in internet.arrived()[before:] if p["port"] == 53] == []


def test_a_resolver_that_is_killed_comes_again(server, make):
    sandbox = make(egress="open")
    eventually(lambda: look_up(sandbox, "one.example.com") == f"['{PUBLIC[0]}']", 20, "the resolver")
    killed = resolver_of(server)
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: resolver_of(server) not in (None, killed), 30, "another resolver")
    eventually(lambda: look_up(sandbox, "one.example.com") == f"['{PUBLIC[0]}']", 20, "its answer")


def test_the_resolver_has_no_rights(server):
    pid = eventually(lambda: resolver_of(server), 20, "the resolver")
    with open(f"/proc/{pid}/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    user = pwd.getpwnam("warren-gateway")
    assert status["Uid"].split() == [str(user.pw_uid)] * 4 and status["Gid"].split() == [str(user.pw_gid)] * 4
    assert {status[kind] for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2" and status["Groups"].strip() == ""

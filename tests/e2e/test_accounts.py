"""Accounts: what is one's no other can see, touch or use up."""

import json

import pytest

from warren_client import Client

UNKNOWN = "sbx_" + "0" * 32


@pytest.fixture
def stranger(warren):
    """A client of another account, which goes with all it has."""
    yield warren.new_account("stranger")
    removed = warren.command("account", "rm", "stranger")
    assert removed.returncode == 0, removed


def test_accounts_are_made_listed_and_removed(warren):
    for name in ("Upper", "-rf", "a/b", "", "operator"):
        refused = warren.command("account", "create", "--", name)
        assert refused.returncode == 125 and "account" in refused.stderr, refused
    made = warren.command("account", "create", "team.one")
    assert made.returncode == 0 and "warren key create --account team.one" in made.stdout
    again = warren.command("account", "create", "team.one")
    assert again.returncode == 125 and "already" in again.stderr

    key, key_id = warren.new_key("laptop", "--account", "team.one")
    keys = warren.command("key", "list").stdout
    assert any({key_id, "team.one", "laptop"} <= set(line.split()) for line in keys.splitlines())
    own = warren.command("key", "list", "--account", "team.one").stdout
    assert key_id in own and "operator" not in own
    unlabelled = warren.command("key", "create", "--account", "team.one")
    assert unlabelled.returncode == 0 and unlabelled.stdout.startswith("wrn_")
    nameless = warren.command("key", "create")
    assert nameless.returncode == 125 and "warren key create NAME" in nameless.stderr
    nobody = warren.command("key", "create", "x", "--account", "nobody")
    assert nobody.returncode == 125 and 'no account "nobody"' in nobody.stderr

    client = Client(warren.url, key)
    sandbox = client.create()
    listed = [line.split()[:3] for line in warren.command("account", "list").stdout.splitlines()]
    assert ["team.one", "2", "1"] in listed
    assert warren.command("key", "revoke", warren.new_key("spare", "-a", "team.one")[1]).returncode == 0

    removed = warren.command("account", "rm", "team.one")
    assert removed.returncode == 0 and "team.one is removed" in removed.stdout, removed
    assert client.request("GET", "/v1/sandboxes").status == 401
    assert client.rpc("tools/list").status == 401
    assert sandbox.id not in warren.uppers()
    assert "team.one" not in warren.command("account", "list").stdout + warren.command("key", "list").stdout
    gone = warren.command("account", "rm", "team.one")
    assert gone.returncode == 125 and 'no account "team.one"' in gone.stderr
    kept = warren.command("account", "rm", "operator")
    assert kept.returncode == 125 and "operator" in kept.stderr and warren.client.list() is not None


def test_an_account_is_removed_without_a_server_too(start_server):
    warren = start_server()
    client = warren.new_account("guests")
    client.create()
    mine = warren.client.create(persistent=True)
    warren.stop()
    removed = warren.command("account", "rm", "guests")
    assert removed.returncode == 0, removed
    warren.launch()
    assert client.request("GET", "/v1/sandboxes").status == 401
    assert warren.client.ids() == {mine.id}


def without_id(body, sandbox_id):
    return body.replace(sandbox_id.encode(), b"ID")


def same_as_unknown(client, sandbox, method, path, body=None, headers=None):
    """Asks for the sandbox and for one that never was: both must be 404 with one sentence."""
    theirs = client.request(method, sandbox.path + path, body, headers)
    nobodys = client.request(method, f"/v1/sandboxes/{UNKNOWN}{path}", body, headers)
    assert theirs.status == nobodys.status == 404, (method, path, theirs.status, nobodys.status)
    assert without_id(theirs.body, sandbox.id) == without_id(nobodys.body, UNKNOWN)
    assert set(theirs.headers) == set(nobodys.headers)


@pytest.mark.parametrize("key", ["sandboxes", "admin"])
def test_another_account_s_sandbox_is_as_one_that_never_was_for_rest(key, warren, client, sandbox, stranger):
    if key == "admin":
        stranger = Client(warren.url, warren.new_key("all", "--account", "stranger", "--scope", "admin")[0])
    sandbox.put("/root/kept", b"mine")
    for method, path, body in (("GET", "", None), ("DELETE", "", None),
                               ("POST", "/exec", {"code": "1"}),
                               ("POST", "/exec", {"code": "touch /root/seen", "language": "bash"}),
                               ("POST", "/terminals", {}),
                               ("GET", "/files?path=/root/kept", None), ("HEAD", "/files?path=/root/kept", None),
                               ("PUT", "/files?path=/root/kept", b"theirs"),
                               ("DELETE", "/files?path=/root/kept", None),
                               ("GET", "/list", None), ("GET", "/list?path=/root", None)):
        same_as_unknown(stranger, sandbox, method, path, body)
    assert stranger.list() == []
    own = stranger.create(name="own")
    assert stranger.ids() == {own.id} and own.id not in client.ids()
    # The counts are each account's own.
    assert stranger.expect(200, "GET", "/v1/capacity").json()["sandboxes"] == 1
    same_as_unknown(client, own, "GET", "")
    assert sandbox.get("/root/kept") == b"mine"
    assert sandbox.bash("test -e /root/seen").code == 1
    sandbox.works()


def test_another_account_s_terminal_takes_no_input(client, sandbox, stranger):
    connection, response = client.open("POST", sandbox.path + "/terminals", {"command": "cat"})
    try:
        name = response.headers["Warren-Terminal"]
        own = stranger.create()
        for where in (sandbox.path, own.path):
            for path, body in (("input", b"typed by another\n"), ("resize", {"rows": 9, "columns": 9})):
                answer = stranger.request("POST", f"{where}/terminals/{name}/{path}", body)
                assert answer.status == 404 and "no such terminal" in answer.error()
        client.expect(204, "POST", f"{sandbox.path}/terminals/{name}/input", b"mine\n\x04")
        seen = response.read()
        assert b"mine" in seen and b"typed by another" not in seen
    finally:
        connection.close()


def test_another_account_s_sandbox_is_as_one_that_never_was_for_mcp(client, sandbox, stranger):
    sandbox.put("/root/kept", b"mine")
    for tool, arguments in (("run_python", {"code": "1"}), ("run_bash", {"command": "true"}),
                            ("upload", {"path": "/root/kept", "content_base64": "eA=="}),
                            ("download", {"path": "/root/kept"}), ("list_files", {"path": "/root"}),
                            ("destroy_sandbox", {})):
        theirs = stranger.tool(tool, sandbox_id=sandbox.id, **arguments)
        nobodys = stranger.tool(tool, sandbox_id=UNKNOWN, **arguments)
        assert theirs["isError"] and nobodys["isError"], tool
        assert json.dumps(theirs).replace(sandbox.id, "ID") == json.dumps(nobodys).replace(UNKNOWN, "ID")
    assert stranger.tool("list_sandboxes")["structuredContent"]["sandboxes"] == []
    made = stranger.tool("create_sandbox")["structuredContent"]["sandbox_id"]
    listed = {s["sandbox_id"] for s in client.tool("list_sandboxes")["structuredContent"]["sandboxes"]}
    assert sandbox.id in listed and made not in listed
    assert sandbox.get("/root/kept") == b"mine"
    sandbox.works()


def test_a_name_means_only_the_caller_s_own_sandboxes(warren, make_sandbox, stranger):
    make_sandbox(name="shared-name")
    own = stranger.create(name="shared-name")
    told = warren.command("sandbox", "exec", "shared-name", "touch /root/operator")
    assert told.returncode == 0, told
    assert own.bash("test -e /root/operator").code == 1


def test_limits_are_each_account_s_own(start_server):
    warren = start_server(sandboxes={"max_per_account": 2, "account_memory_mib": 400})
    first, second = warren.new_account("first"), warren.new_account("second")
    one, _ = first.create(), first.create()
    refused = first.request("POST", "/v1/sandboxes", {})
    assert refused.status == 429 and "this account has 2 sandboxes" in refused.error()
    other = second.create()
    # Two accounts, each with sandboxes that may take 1 GiB and 400 MiB together.
    killed = one.bash("head -c 700M /dev/zero | tail -c 700M | wc -c")
    assert killed.text.strip() != str(700 << 20)
    assert other.bash_ok("head -c 100M /dev/zero | tail -c 100M | wc -c").strip() == str(100 << 20)
    other.works()
    one.works()

"""Keys, as the command line and the faces see them."""

import os
import stat

from warren_client import Client, eventually


def test_the_first_start_makes_a_key_only_root_can_read(warren):
    status = os.stat(os.path.join(warren.home, "admin.key"))
    assert stat.S_IMODE(status.st_mode) == 0o600 and status.st_uid == 0
    assert warren.key.startswith("wrn_") and warren.client.list() is not None


def test_create_list_use_revoke(warren):
    key, key_id = warren.new_key("robot")
    mine = Client(warren.url, key)
    sandbox = mine.create()
    sandbox.works()
    listed = warren.command("key", "list")
    assert listed.returncode == 0 and key_id in listed.stdout and "robot" in listed.stdout
    assert key not in listed.stdout and "sandboxes,admin " in listed.stdout
    revoked = warren.command("key", "revoke", key_id)
    assert revoked.returncode == 0, revoked
    eventually(lambda: mine.request("GET", "/v1/sandboxes").status == 401, 30, "the revocation's effect")
    assert mine.rpc("tools/list").status == 401
    again = warren.command("key", "revoke", key_id)
    assert again.returncode == 0
    assert warren.client.list() is not None
    warren.client.request("DELETE", sandbox.path)


def test_revoking_what_is_not_there_is_an_error(warren):
    done = warren.command("key", "revoke", "wrn_zzzzzzzz")
    assert done.returncode != 0 and "no key" in done.stderr


def test_the_database_holds_no_key(warren):
    key, _ = warren.new_key("secretive")
    secret = key.split("_")[-1].encode()
    found = []
    for folder, _, names in os.walk(warren.home):
        for name in names:
            path = os.path.join(folder, name)
            if name.startswith("pool") or name == "admin.key" or not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                if secret in file.read(1 << 24):
                    found.append(path)
    assert found == []


def say_secrets(warren):
    """Says words in every way that a client has to say something; returns them."""
    client, sandbox = warren.client, warren.client.create(name="s3cretname")
    sandbox.bash("echo s3cretcommand", env={"TOKEN": "s3cretvalue"}, cwd="/tmp")
    client.request("POST", sandbox.path + "/exec", {"code": "s3cretcode", "cwd": "/s3cretfolder"})
    sandbox.python("print('s3cret' + 'output'); 's3cretcode'; 1/0", env={"TOKEN": "s3cretvalue"})
    sandbox.python("import os; print('s3cret' + 'output'); os._exit(3)")
    sandbox.bash("sleep 60 # s3cretcommand", timeout_seconds=1)
    sandbox.put("/root/s3cretfile", b"s3cretcontent")
    sandbox.get("/root/s3cretfile")
    client.request("GET", f"{sandbox.path}/list?path=/root/s3cretfolder")
    client.request("GET", sandbox.file_path("/root/s3cretfile/s3cretfile"))
    sandbox.delete("/root/s3cretfile")
    stream = sandbox.exec_stream("echo s3cretcommand; sleep 60", "bash", env={"TOKEN": "s3cretvalue"})
    stream.wait_for_output(b"s3cretcommand")
    stream.cut()
    tools = [("run_bash", {"command": "echo s3cretcommand; exit 3", "env": {"TOKEN": "s3cretvalue"}}),
             ("run_bash", {"command": 7, "env": {"TOKEN": ["s3cretvalue"]}}), ("run_bash", {"command": "true", "cwd": "/s3cretfolder"}),
             ("run_python", {"code": "'s3cretcode'; 1/0"}), ("run_python", {"code": "x", "s3cretvalue": 1}),
             ("upload", {"path": "/root/s3cretfile", "content_base64": "s3cretcontent!"}),
             ("upload", {"path": "/root/s3cretfile", "content_base64": "czNjcmV0Y29udGVudA=="}),
             ("download", {"path": "/root/s3cretfile"}), ("download", {"path": "/root/s3cretfolder"}),
             ("list_files", {"path": "/root/s3cretfolder"})]
    for name, arguments in tools:
        client.tool(name, sandbox_id=sandbox.id, **arguments)
    client.rpc("tools/call", {"name": "s3crettool", "arguments": {"code": "s3cretcode"}})
    client.rpc("s3cretmethod", {"code": "s3cretcode"})
    for path in (sandbox.path + "/exec", "/v1/sandboxes", "/mcp"):
        client.request("POST", path, b'{"code": "s3cretcode", ')
        client.request("POST", path, b'{"s3cretvalue": "s3cretcode"}')
    client.request("GET", "/v1/s3cretpath?s3cretquery", headers={"X-Token": "s3cretvalue", "Cookie": "s3cretvalue"})
    Client(warren.url, "wrn_aaaaaaaa_s3cretkey").request("GET", "/v1/sandboxes")
    made, _ = warren.new_key("s3cretlabel")
    Client(warren.url, made).request("GET", "/v1/sandboxes")
    for arguments in (["exec", sandbox.id, "echo s3cretcommand"], ["python", sandbox.id, "-c", "'s3cretcode'"]):
        warren.command("sandbox", *arguments)
    warren.command("mcp", input='{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_bash",'
                                '"arguments":{"command":"echo s3cretcommand"}}}\n')
    sandbox.destroy()
    return ["s3cret", "czNjcmV0", made.split("_")[-1], warren.key.split("_")[-1]]


def assert_log_without(warren, words):
    with open(warren.log_path, errors="replace") as file:
        log = file.read()
    for word in words:
        assert word not in log, next(line for line in log.splitlines() if word in line)
    return log


def test_nothing_of_a_client_is_in_the_logs(warren):
    assert_log_without(warren, say_secrets(warren))


def test_nor_is_it_in_the_most_talkative_ones(start_server):
    warren = start_server(server={"log_level": "trace"})
    words = say_secrets(warren)
    sandbox = warren.client.create()
    warren.stop()  # what is said about the end counts as well
    assert sandbox.id in assert_log_without(warren, words)

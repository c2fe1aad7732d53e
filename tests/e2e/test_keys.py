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


def test_nothing_of_a_client_is_in_the_logs(warren, client, sandbox):
    words = ["s3cretcommand", "s3cretcode", "s3cretvalue", "s3cretcontent", "s3cretfile", "s3cretoutput"]
    sandbox.bash("echo s3cretcommand", env={"TOKEN": "s3cretvalue"})
    sandbox.python("print('s3cret' + 'output'); 's3cretcode'; 1/0")
    sandbox.put("/root/s3cretfile", b"s3cretcontent")
    sandbox.get("/root/s3cretfile")
    client.tool("run_bash", sandbox_id=sandbox.id, command="echo s3cretcommand; exit 3")
    client.tool_error("upload", sandbox_id=sandbox.id, path="/root/s3cretfile", content_base64="s3cretcontent!")
    client.request("POST", sandbox.path + "/exec", b'{"code": "s3cretcode", ')
    Client(warren.url, "wrn_aaaaaaaa_s3cretkey").request("GET", "/v1/sandboxes")
    with open(warren.log_path, errors="replace") as file:
        log = file.read()
    for word in words + ["s3cretkey", warren.key.split("_")[-1]]:
        assert word not in log

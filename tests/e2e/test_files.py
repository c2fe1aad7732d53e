"""Files through REST: round trips, names, hostile paths, special files, full disks."""

import base64
import hashlib
import http.client
import os
import tempfile
import threading
import urllib.parse

import pytest

from warren_client import ApiError, eventually

MIB = 1 << 20
BOUND = 30


def raw_path(sandbox, name):
    """The files URL of a path given as bytes."""
    return f"{sandbox.path}/files?path={urllib.parse.quote(name, safe='')}"


@pytest.mark.parametrize("size", [0, 1, 18_431, 18_432, 18_433, 262_144, 262_145, 16 * MIB])
def test_what_is_written_is_read_back(module_sandbox, size):
    data = os.urandom(size)
    answer = module_sandbox.put(f"/root/file-{size}", data)
    assert answer.json()["size"] == size
    assert answer.json()["sha256"] == hashlib.sha256(data).hexdigest()
    assert module_sandbox.get(f"/root/file-{size}") == data
    digest = module_sandbox.bash_ok(f"sha256sum < /root/file-{size}").split()[0]
    assert digest == hashlib.sha256(data).hexdigest()


def test_an_upload_without_a_length_is_taken(module_sandbox):
    chunks = [os.urandom(100_000) for _ in range(30)]
    answer = module_sandbox.client.request("PUT", module_sandbox.file_path("/root/chunked"), iter(chunks),
                                           {"Transfer-Encoding": "chunked"})
    assert answer.status in (200, 201), answer.body
    assert module_sandbox.get("/root/chunked") == b"".join(chunks)


def test_a_relative_path_is_from_root_s_home(module_sandbox):
    module_sandbox.put("relative/deep/file.txt", b"made")
    assert module_sandbox.bash_ok("cat /root/relative/deep/file.txt") == "made"


NAMES = ["🤣.txt", "a b", 'a"b', "a'b", "$(id)", "new\nline", "tab\t", "percent%20", "plus+and&amp", "-rf",
         "#hash?", "x" * 255, "🤣" * 63, "..dots", "back\\slash"]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_are_taken_literally(module_sandbox, name):
    data = name.encode()
    module_sandbox.put(f"/tmp/names/{name}", data)
    assert module_sandbox.get(f"/tmp/names/{name}") == data
    listing = module_sandbox.client.tool("list_files", sandbox_id=module_sandbox.id, path="/tmp/names")
    assert name in [entry["name"] for entry in listing["structuredContent"]["entries"]]
    module_sandbox.delete(f"/tmp/names/{name}")
    assert module_sandbox.get_status(f"/tmp/names/{name}") == 404


def test_a_name_that_is_not_utf8_works_or_is_refused_clearly(module_sandbox):
    client = module_sandbox.client
    target = raw_path(module_sandbox, b"/tmp/bytes-\xff\xfe")
    answer = client.request("PUT", target, b"data")
    if answer.status in (200, 201):
        assert client.request("GET", target).body == b"data"
        listing = client.tool("list_files", sandbox_id=module_sandbox.id, path="/tmp")["structuredContent"]
        assert any(entry.get("name_base64") for entry in listing["entries"])
        assert client.request("DELETE", target).status in (200, 204)
    else:
        assert answer.status == 400 and "UTF-8" in answer.error()
    # Made inside, it must not break a listing.
    module_sandbox.bash_ok("touch \"$(printf '/tmp/inside-\\xff')\"")
    listing = client.tool("list_files", sandbox_id=module_sandbox.id, path="/tmp")
    assert not listing.get("isError")


@pytest.mark.parametrize("name", ["x" * 256, "a/" * 3000 + "b", "nul\0byte"], ids=["long", "deep", "nul"])
def test_impossible_names_are_refused_clearly(module_sandbox, name):
    answer = module_sandbox.client.request("PUT", module_sandbox.file_path(f"/tmp/{name}"), b"x")
    assert answer.status in (400, 414), answer.body
    assert answer.error()
    module_sandbox.works()


def test_a_missing_path_argument_is_refused(module_sandbox):
    for method in ("GET", "PUT", "DELETE"):
        answer = module_sandbox.client.request(method, f"{module_sandbox.path}/files", b"" if method == "PUT" else None)
        assert answer.status == 400 and "path" in answer.error()


def test_a_missing_file_is_404_and_a_folder_is_told_as_one(module_sandbox):
    answer = module_sandbox.client.request("GET", module_sandbox.file_path("/no/such/file"))
    assert answer.status == 404 and "/no/such/file" in answer.error()
    answer = module_sandbox.client.request("GET", module_sandbox.file_path("/etc"))
    assert answer.status == 400 and "director" in answer.error()
    answer = module_sandbox.client.request("PUT", module_sandbox.file_path("/etc"), b"x")
    assert answer.status == 400 and "director" in answer.error()


HOST_SECRET = "only-the-host-has-this"


@pytest.fixture
def host_file():
    """A file on the host that everyone there may read, change and remove."""
    with tempfile.TemporaryDirectory(prefix="warren-host-file-") as folder:
        os.chmod(folder, 0o777)
        path = os.path.join(folder, "secret")
        with open(path, "w") as file:
            file.write(HOST_SECRET)
        os.chmod(path, 0o666)
        yield path


def assert_not_the_hosts(answer):
    assert HOST_SECRET.encode() not in answer.body
    assert answer.status in (200, 400, 403, 404), answer.body


def test_links_and_dots_never_reach_the_host(sandbox, host_file):
    client = sandbox.client
    sandbox.bash_ok(f"ln -s {host_file} /root/link; ln -s / /root/rootlink; ln -s ../../../../../../.. /root/up")
    up = "../" * 30
    for path in (host_file, "/root/link", f"/root/rootlink{host_file}", f"/root/up{host_file}", f"/root/{up}{host_file}",
                 f"{up}{host_file}", f"/proc/1/root{host_file}", f"/proc/self/root{host_file}",
                 f"/proc/1/cwd{host_file}"):
        assert_not_the_hosts(client.request("GET", sandbox.file_path(path)))
        answer = client.request("PUT", sandbox.file_path(path), b"overwritten")
        assert answer.status < 500, (path, answer.body)
        with open(host_file) as file:
            assert file.read() == HOST_SECRET, path


def ways_out(path):
    """The command that lays links in a sandbox, and ways to say a path of the host's in there."""
    up = "../" * 30
    lay = (f"ln -sfn {path} /root/link; ln -sfn {os.path.dirname(path)} /root/folder; ln -sfn / /root/rootlink; "
           f"ln -sfn ../../../../../../.. /root/up; ln -sfn /proc/1/root /root/first; mkdir -p /root/a")
    name = os.path.basename(path)
    return lay, [path, "/root/link", f"/root/folder/{name}", f"folder/{name}", f"/root/rootlink{path}", f"/root/up{path}",
                 f"/root/{up}{path}", f"{up}{path}", f"a/{up}{path}", f"/..{path}", f"/root/a/..//../..{path}",
                 f"/root/first{path}", f"/root/first/..{path}", f"/proc/1/root{path}", f"/proc/self/root{path}",
                 f"/proc/1/cwd{path}", f"/proc/self/cwd/..{path}", f"/proc/thread-self/root/..{path}"]


def list_path(sandbox, path):
    return f"{sandbox.path}/list?path={urllib.parse.quote(path, safe='')}"


def assert_untouched(path, content):
    with open(path) as file:
        assert file.read() == content
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def test_no_folder_of_the_host_s_is_listed(sandbox, host_file):
    lay, paths = ways_out(host_file)
    sandbox.bash_ok(lay)
    for path in map(os.path.dirname, paths):
        answer = sandbox.client.request("GET", list_path(sandbox, path))
        assert answer.status in (200, 400, 403, 404), (path, answer.body)
        listed = sandbox.client.tool("list_files", sandbox_id=sandbox.id, path=path)
        assert (answer.status == 200) is not listed.get("isError", False), (path, listed)
        for entries in (answer.json().get("entries", []), listed.get("structuredContent", {}).get("entries", [])):
            assert "secret" not in [entry["name"] for entry in entries], path
    # What is listed is the sandbox's own.
    sandbox.bash_ok(f"mkdir -p {os.path.dirname(host_file)}; touch {os.path.dirname(host_file)}/own")
    for path in ("/root/folder", f"/root/up{os.path.dirname(host_file)}"):
        assert [e["name"] for e in sandbox.client.expect(200, "GET", list_path(sandbox, path)).json()["entries"]] == ["own"]


def test_nothing_of_the_host_s_is_deleted(sandbox, host_file):
    lay, paths = ways_out(host_file)
    for path in paths + [os.path.dirname(path) for path in paths]:
        sandbox.bash_ok(lay)
        answer = sandbox.client.request("DELETE", sandbox.file_path(path))
        assert answer.status in (204, 400, 403, 404, 409), (path, answer.status, answer.body)
        assert_untouched(host_file, HOST_SECRET)
    # A link itself goes, what it names stays.
    sandbox.bash_ok("touch /root/target; ln -sfn target /root/link")
    sandbox.delete("/root/link")
    assert sandbox.bash_ok("cd /root; ls link target 2>/dev/null; true") == "target\n"
    sandbox.works()


def test_over_mcp_links_and_dots_never_reach_the_host(sandbox, host_file):
    client = sandbox.client
    lay, paths = ways_out(host_file)
    for path in paths:
        sandbox.bash_ok(f"rm -rf {os.path.dirname(host_file)}; {lay}")
        assert client.tool_error("download", sandbox_id=sandbox.id, path=path)
        sent = client.tool("upload", sandbox_id=sandbox.id, path=path, content_base64="b3duCg==")
        assert_untouched(host_file, HOST_SECRET)
        got = client.tool("download", sandbox_id=sandbox.id, path=path)
        assert got.get("isError", False) is sent.get("isError", False), path
        if not got.get("isError"):  # a file of that name in the sandbox's own root
            assert base64.b64decode(got["structuredContent"]["content_base64"]) == b"own\n", path
    sandbox.works()


def test_over_both_faces_a_sibling_s_files_are_out_of_reach(warren, make_sandbox):
    one, other = make_sandbox(), make_sandbox()
    client = other.client
    one.bash_ok("mkdir /root/folder; echo theirs > /root/folder/mine")
    upper = f"{warren.home}/pool/uppers/{one.id}"
    ways = [f"/root/../../{one.id}/root", f"/proc/1/root/../../{one.id}/root", f"/proc/1/cwd/../{one.id}/root", f"/../{one.id}/root",
            f"{upper}/data/root", f"../../..{upper}/data/root", f"/proc/1/root{upper}/data/root", "/lower0/root", "/upper/data/root"]
    other.bash_ok("".join(f"ln -s {way} /root/link{i}; " for i, way in enumerate(ways)))
    for folder in [f"{way}/folder" for way in ways] + [f"/root/link{i}/folder" for i in range(len(ways))]:
        path = f"{folder}/mine"
        assert other.get_status(path) in (400, 403, 404), path
        assert client.request("GET", list_path(other, folder)).status in (400, 403, 404), path
        assert client.request("DELETE", other.file_path(path)).status in (400, 403, 404), path
        assert client.tool_error("download", sandbox_id=other.id, path=path)
        assert client.tool_error("list_files", sandbox_id=other.id, path=folder)
        client.tool("upload", sandbox_id=other.id, path=path, content_base64="b3duCg==")
        other.bash_ok(f"rm -rf /{one.id} {warren.home} /lower0 /upper")  # what the upload made in its own root
        assert one.bash_ok("cat /root/folder/*; ls /root/folder") == "theirs\nmine\n", path


def test_a_link_at_the_end_is_followed_inside_the_sandbox(sandbox):
    sandbox.bash_ok("ln -s /etc/hostname /root/x")
    assert sandbox.get("/root/x") == sandbox.bash_ok("cat /etc/hostname").encode()
    sandbox.bash_ok("mkdir /root/real; ln -s /root/real /root/way")
    sandbox.put("/root/way/file", b"through the link")
    assert sandbox.bash_ok("cat /root/real/file") == "through the link"


def test_a_link_swapped_while_it_is_read_never_reaches_the_host(sandbox, host_file):
    sandbox.bash_ok(f"mkdir -p /root/inside{os.path.dirname(host_file)}; echo -n inside > /root/inside{host_file}; "
                    "ln -s / /root/b; ln -s /root/inside /root/a; "
                    "(while [ ! -e /tmp/stop ]; do ln -sfn / /root/way; ln -sfn /root/inside /root/way; done) "
                    ">/dev/null 2>&1 &")
    seen = set()
    for _ in range(150):
        answer = sandbox.client.request("GET", sandbox.file_path(f"/root/way{host_file}"))
        assert_not_the_hosts(answer)
        seen.add(answer.status)
    sandbox.bash_ok("touch /tmp/stop")
    assert seen <= {200, 404}
    sandbox.works()


def test_a_sibling_s_file_is_out_of_reach(make_sandbox):
    one, other = make_sandbox(), make_sandbox()
    one.put("/root/mine", b"mine")
    assert other.get_status("/root/mine") == 404
    assert other.get_status(f"/proc/1/root/../../{one.id}/root/mine") in (400, 403, 404)


SPECIAL = {
    "fifo": "mkfifo /tmp/special",
    "socket": "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/tmp/special\")'",
    "device": "ln -sf /dev/zero /tmp/special",
    "tty": "ln -sf /dev/tty /tmp/special",
    "memory": "ln -sf /proc/self/mem /tmp/special",
    "directory": "mkdir /tmp/special",
    "loop": "ln -s /tmp/special /tmp/special",
}


@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_regular_file_is_refused_at_once(sandbox, kind):
    sandbox.bash_ok(SPECIAL[kind])
    answer = sandbox.client.request("GET", sandbox.file_path("/tmp/special"), wait=BOUND)
    assert 400 <= answer.status < 500, answer.body
    assert answer.error()
    answer = sandbox.client.request("PUT", sandbox.file_path("/tmp/special"), b"data", wait=BOUND)
    assert answer.status < 500, answer.body
    sandbox.works()


@pytest.mark.parametrize("path", ["/proc/self/mem", "/dev/zero", "/dev/random", "/dev/full", "/proc/kmsg"])
def test_endless_and_memory_files_never_hang(sandbox, path):
    answer = sandbox.client.request("GET", sandbox.file_path(path), wait=BOUND)
    assert 400 <= answer.status < 500, answer.body[:200]
    sandbox.works()


def test_a_proc_file_whose_size_is_zero_ends(sandbox):
    answer = sandbox.client.request("GET", sandbox.file_path("/proc/self/status"), wait=BOUND)
    assert answer.status in (200, 400), answer.body
    sandbox.works()


def test_a_file_that_grows_while_it_is_read_ends(sandbox):
    sandbox.bash_ok("(while [ ! -e /tmp/stop ]; do head -c 100000 /dev/zero; done > /tmp/growing) 2>/dev/null & "
                    "sleep 0.2")
    answer = sandbox.client.request("GET", sandbox.file_path("/tmp/growing"), wait=BOUND)
    assert answer.status == 200
    sandbox.bash_ok("touch /tmp/stop")


def test_a_file_cut_while_it_is_read_is_never_taken_for_whole(sandbox):
    sandbox.bash_ok("head -c 200M /dev/zero > /root/shrinking")
    connection, response = sandbox.client.open("GET", sandbox.file_path("/root/shrinking"))
    promised = int(response.headers["Content-Length"])
    assert promised == 200 * MIB
    response.read(65536)
    sandbox.bash_ok("truncate -s 1M /root/shrinking")
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        rest = response.read()
        if len(rest) < promised - 65536:
            raise http.client.IncompleteRead(rest)
    connection.close()
    sandbox.works()


def test_an_upload_that_breaks_off_leaves_the_old_file_whole(sandbox):
    sandbox.put("/root/kept", b"old")
    connection = http.client.HTTPConnection(sandbox.client.host, sandbox.client.port, timeout=BOUND)
    connection.putrequest("PUT", sandbox.file_path("/root/kept"))
    connection.putheader("Authorization", f"Bearer {sandbox.client.key}")
    connection.putheader("Content-Length", str(10 * MIB))
    connection.endheaders(b"x" * MIB)
    connection.close()
    eventually(lambda: sandbox.bash_ok("ls -A /root | grep -v -e '^kept$' -e '^\\.' | wc -l") == "0\n", BOUND,
               "the half-written file's removal")
    assert sandbox.get("/root/kept") == b"old"
    left = sandbox.bash_ok("find /root -size +100k").strip()
    assert left == ""


def test_two_writers_of_one_file_leave_one_of_the_two(sandbox):
    blobs = [bytes([65 + i]) * (4 * MIB) for i in range(4)]
    threads = [threading.Thread(target=sandbox.put, args=("/root/contended", blob)) for blob in blobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sandbox.get("/root/contended") in blobs


def test_the_mode_of_a_script_is_kept_when_it_is_replaced(sandbox):
    sandbox.bash_ok("printf '#!/bin/sh\\necho one\\n' > /root/script; chmod 755 /root/script")
    sandbox.put("/root/script", b"#!/bin/sh\necho two\n")
    assert sandbox.bash_ok("/root/script") == "two\n"


def test_a_full_disk_is_told_and_the_old_file_is_intact(start_server):
    server = start_server(limits={"disk_mib": 256})
    sandbox = server.client.create()
    sandbox.put("/root/old", b"old content")
    answer = sandbox.client.request("PUT", sandbox.file_path("/root/old"), b"\xa5" * (400 * MIB))
    assert answer.status == 409, (answer.status, answer.body)
    assert "full" in answer.error() or "space" in answer.error() or "disk" in answer.error()
    assert sandbox.get("/root/old") == b"old content"
    # The half-written file is gone, so that work goes on.
    sandbox.put("/root/new", b"x" * (10 * MIB))
    run = sandbox.bash("head -c 400M /dev/urandom > /root/fill; echo $?")
    assert run.text.strip() != "0", "the disk limit did not hold"
    # Every way to write tells it; the server and a sibling go on.
    answer = sandbox.client.request("PUT", sandbox.file_path("/root/more"), os.urandom(32 * MIB))
    assert 400 <= answer.status < 600 and answer.status != 500, answer.body
    text = sandbox.client.tool_error("upload", sandbox_id=sandbox.id, path="/root/more",
                                     content_base64="eHh4eHh4eHh4" * 300_000)
    assert "full" in text or "space" in text or "quota" in text
    sandbox.works()
    assert sandbox.client.tool("run_bash", sandbox_id=sandbox.id, command="echo ok")["structuredContent"]["stdout"] == "ok\n"
    assert sandbox.client.tool("run_python", sandbox_id=sandbox.id, code="print(1)")["structuredContent"]["stdout"] == "1\n"
    sibling = server.client.create()
    sibling.works()
    sibling.put("/root/mine", b"y" * (10 * MIB))
    sandbox.bash_ok("rm /root/fill")
    sandbox.works()
    sandbox.put("/root/after", b"z" * (10 * MIB))


def test_mcp_carries_small_files_and_points_to_rest_for_large_ones(sandbox):
    client = sandbox.client
    data = os.urandom(5 * MIB)
    sent = client.tool("upload", sandbox_id=sandbox.id, path="/root/data",
                       content_base64=base64.b64encode(data).decode())["structuredContent"]
    assert sent["size"] == len(data) and sent["sha256"] == hashlib.sha256(data).hexdigest()
    got = client.tool("download", sandbox_id=sandbox.id, path="/root/data")["structuredContent"]
    assert base64.b64decode(got["content_base64"]) == data and got["sha256"] == sent["sha256"]
    sandbox.bash_ok("head -c 7M /dev/zero > /root/large")
    text = client.tool_error("download", sandbox_id=sandbox.id, path="/root/large")
    assert "/files" in text


def test_put_over_rest_of_an_unknown_sandbox_is_404_without_reading_it_all(client):
    with pytest.raises(ApiError) as refused:
        client.sandbox("sbx_" + "0" * 32).put("/root/x", b"x" * MIB)
    assert refused.value.status == 404

"""A host without room: no sandbox is made, whoever asks is told what is short, and those there are go on."""

import ctypes
import json
import os
import subprocess
import tempfile

import pytest

from warren_client import eventually

BOUND = 60
LIBC = ctypes.CDLL(None, use_errno=True)
MIB = 1 << 20
# What the server keeps free on its disk, and a disk that has little more than that.
FLOOR_MIB = 2048
ROOMY_MIB = FLOOR_MIB + 1152


CLONE_NEWNS = 0x20000


class Disk:
    """A file system of the test's own, whose size can be changed while it is used. It is mounted where only this thread
    and what it starts can see it: others on this machine do not stumble over it, and it cannot be left behind."""

    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        self.before = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC), os.getcwd()
        assert LIBC.unshare(CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOMY_MIB}m,mode=755", "warren-test", self.folder], check=True)
        return self

    def __exit__(self, *_):
        namespace, folder = self.before
        assert LIBC.setns(namespace, CLONE_NEWNS) == 0, os.strerror(ctypes.get_errno())
        os.chdir(folder)
        os.close(namespace)

    def resize(self, mib):
        subprocess.run(["mount", "-o", f"remount,size={mib}m", self.folder], check=True)


@pytest.fixture
def disk():
    with tempfile.TemporaryDirectory(prefix="warren-test-disk-") as folder:
        os.chmod(folder, 0o755)
        with Disk(folder) as one:
            yield one


@pytest.fixture
def warren(disk, start_server):
    """The disk comes first among the fixtures, so that the server has ended when it goes."""
    return start_server(below=disk.folder)


def refusals(warren):
    """What each face says to somebody who wants a sandbox, and must say no."""
    client = warren.client
    before = client.ids()
    answer = client.request("POST", "/v1/sandboxes", {})
    assert answer.status == 503, (answer.status, answer.body)
    assert int(answer.headers["Retry-After"]) > 0
    result = client.tool("create_sandbox")
    assert result["isError"] is True and "structuredContent" not in result, result
    assert result["_meta"]["warren/error"] == "unavailable", result
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "run_bash", "arguments": {"command": "true"}}}
    own = json.loads(warren.command("mcp", input=json.dumps(call) + "\n").stdout)["result"]
    assert own["isError"] is True, own
    done = warren.command("sandbox", "create")
    assert done.returncode == 125 and not done.stdout, done
    assert client.ids() == before
    return [answer.error(), *("".join(c["text"] for c in one["content"]) for one in (result, own)), done.stderr]


def assert_told(warren, *words):
    for sentence in refusals(warren):
        for word in words:
            assert word in sentence, sentence


def test_no_sandbox_is_made_while_the_host_s_disk_is_nearly_full(warren, disk):
    client = warren.client
    one = client.create()
    one.python_ok("kept = 41")
    one.put("/root/kept", b"kept")
    disk.resize(FLOOR_MIB - 100)
    assert_told(warren, "disk is nearly full", "MiB free", f"{FLOOR_MIB} MiB are kept")
    # What is there goes on, and ends.
    one.works()
    assert one.python_ok("print(kept + 1)") == "42\n" and one.get("/root/kept") == b"kept"
    one.put("/root/more", os.urandom(MIB))
    assert client.request("GET", "/healthz").status == 200
    one.destroy()
    assert_told(warren, "disk is nearly full")
    disk.resize(ROOMY_MIB)
    client.create().works()


def test_no_sandbox_is_made_while_the_pool_is_nearly_full(warren):
    """One sandbox may write as much as the whole pool holds here: it fills it, and hurts nobody that is there."""
    client = warren.client
    greedy, other = client.create(), client.create()
    other.put("/root/kept", b"kept")
    run = greedy.bash("for i in $(seq 1000); do fallocate -l 16M /root/$i || break; done; ls /root | wc -l", wait=BOUND)
    assert b"space" in run.stderr.lower() and int(run.text) < 200, run
    assert_told(warren, "pool of disk space is nearly full", "MiB free")
    for one in (greedy, other):
        one.works()
    assert other.get("/root/kept") == b"kept"
    greedy.bash_ok("rm -rf /root/*")
    greedy.destroy()
    eventually(lambda: client.request("POST", "/v1/sandboxes", {}).status == 201, BOUND, "a sandbox where there is room again")
    other.works()

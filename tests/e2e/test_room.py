"""A host without room: no sandbox is made, whoever asks is told what is short, and those there are go on."""

import contextlib
import os
import subprocess
import tempfile

import pytest

from warren_client import eventually

BOUND = 60
MIB = 1 << 20
# What the server keeps free on its disk, and a disk that has little more than that.
FLOOR_MIB = 2048
ROOMY_MIB = FLOOR_MIB + 1152


class Disk:
    """A file system of the test's own, whose size can be changed while it is used."""

    def __init__(self, folder):
        self.folder = folder
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOMY_MIB}m,mode=755", "warren-test", folder], check=True)

    def resize(self, mib):
        subprocess.run(["mount", "-o", f"remount,size={mib}m", self.folder], check=True)


@pytest.fixture
def disk():
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="warren-test-disk-"))
        os.chmod(folder, 0o755)
        one = Disk(folder)
        stack.callback(subprocess.run, ["umount", folder], check=True)
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
    done = warren.command("sandbox", "create")
    assert done.returncode == 125 and not done.stdout, done
    assert client.ids() == before
    return [answer.error(), "".join(c["text"] for c in result["content"]), done.stderr]


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

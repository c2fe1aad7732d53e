"""`./run` as people start it: what it prints on a terminal, and that a second start makes nothing again."""

import fcntl
import json
import os
import pty
import re
import shutil
import subprocess
import tempfile
import termios
import threading
import time

import pytest

from warren_client import Client, eventually
from warren_server import REPOSITORY, Warren, build_folder, program, templates_folder

pytestmark = pytest.mark.alone  # builds, and installs what is missing

BOUND = 60
STEPS = ["packages", "build", "template: default", "serve"]


class Run(Warren):
    """`./run` on a terminal of the test's own, on a home of its own. What it prints is kept as its log."""

    tree = None

    def launch(self):
        self.terminal, ours = pty.openpty()
        begun = time.monotonic()
        self.process = subprocess.Popen([os.path.join(self.tree, "run")], env={**self.environment, "TERM": "xterm"}, cwd="/",
                                        stdin=ours, stdout=ours, stderr=ours, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(ours)
        self.reader = threading.Thread(target=self.keep_what_is_printed)
        self.reader.start()
        self.wait_healthy()
        self.took = time.monotonic() - begun
        eventually(lambda: "Ctrl-C stops" in self.log(), BOUND, "what to do next")
        self.wait_warm()

    def keep_what_is_printed(self):
        with open(self.log_path, "wb", buffering=0) as log:
            try:
                while data := os.read(self.terminal, 65536):
                    log.write(data.replace(b"\r\n", b"\n"))
            except OSError:  # nobody has the terminal open any more
                pass

    def press_ctrl_c(self):
        """Ends it as a person does; it must end in good order."""
        self.look()
        os.write(self.terminal, b"\x03")
        assert self.process.wait(BOUND) == 0, self.log()
        self.assert_nothing_left()
        self.close()

    def close(self):
        if self.terminal is not None:
            self.reader.join(BOUND)
            os.close(self.terminal)
            self.terminal = None

    def discard(self):
        super().discard()
        self.close()


@pytest.fixture(scope="module")
def tree():
    """The repository with the build folder under test as its build/; `./run` itself is a copy, for it looks where it lies."""
    assert (build_folder() / "build.ninja").exists(), f"{build_folder()} is no build folder: ./run would compile all of Warren into it"
    folder = tempfile.mkdtemp(prefix="warren-test-tree-")
    try:
        for name in os.listdir(REPOSITORY):
            if name not in ("run", "build"):
                os.symlink(REPOSITORY / name, os.path.join(folder, name))
        os.symlink(build_folder(), os.path.join(folder, "build"))
        shutil.copy(REPOSITORY / "run", folder)
        yield folder
    finally:
        shutil.rmtree(folder)


def made():
    """What a start could make again: the programs and the templates, each with its time."""
    files = [program(), program() + "-agent", *(entry.path for entry in os.scandir(templates_folder()))]
    return {path: os.stat(path).st_mtime_ns for path in files}


@pytest.fixture(scope="module")
def started(tree):
    """A first start on a new home, on a machine on which packages, build and template are there already."""
    one = type("RunOfThatTree", (Run,), {"tree": tree}).start()
    try:
        yield one
        one.press_ctrl_c()
    finally:
        one.discard()


def line_after(text, words):
    return text[text.index(words):].splitlines()[1].strip()


def test_each_step_is_visible(started):
    steps = re.findall(r"^\x1b\[1m== (.*)\x1b\[0m$", started.log(), re.MULTILINE)
    assert steps == STEPS, started.log()


def test_the_key_that_is_printed_is_the_operator_s(started):
    said = re.search(r"The key +(\S+) +\(kept in (\S+)\)", started.log())
    assert said, started.log()
    key, file = said.groups()
    assert key == started.key and os.path.realpath(file) == os.path.realpath(os.path.join(started.home, "admin.key"))
    assert Client(started.url, key).list() == []


def test_the_config_that_is_printed_works_as_pasted(started):
    one = json.loads(line_after(started.log(), "For an agent"))["mcpServers"]["warren"]
    assert one["type"] == "http" and one["url"] == f"{started.url}/mcp"
    bearer = one["headers"]["Authorization"].removeprefix("Bearer ")
    answer = Client(started.url, bearer).rpc("tools/list")
    assert answer.status == 200 and "create_sandbox" in [tool["name"] for tool in answer.json()["result"]["tools"]]


def test_the_curl_and_the_commands_that_are_printed_do_what_they_say(started, tmp_path):
    text = started.log()
    curl = line_after(text, "To try it")
    assert curl.startswith("curl ")
    lines = [line.strip() for line in text[text.index("or in another terminal"):].splitlines()[1:4]]
    assert lines[0].startswith("export PATH=") and all(line.startswith("warren sandbox ") for line in lines[1:]), lines

    def typed(script):
        done = subprocess.run(["bash", "-ec", script], cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=BOUND)
        assert done.returncode == 0, done
        return done.stdout

    sandbox = json.loads(typed(curl))
    assert sandbox["state"] == "ready" and sandbox["id"] in started.client.ids()
    started.client.sandbox(sandbox["id"]).destroy()
    assert typed("\n".join([*lines, "warren sandbox rm first"])).endswith("42\n")


def test_a_second_start_is_quick_and_makes_nothing_again(started):
    key, before, first = started.key, made(), started.log()
    started.press_ctrl_c()
    times = []
    for _ in range(3):
        started.launch()
        printed = started.log()
        assert re.findall(r"== (.*)\x1b", printed) == STEPS
        assert "ninja: no work to do" in printed, printed
        for word in ("setup:", "mmdebstrap", "apt-get", "Building", "Linking", "Configuring", "-- "):
            assert word not in printed[:printed.index("== serve")], printed
        assert made() == before and started.key == key and key in printed
        times.append(started.took)
        if len(times) < 3:
            started.press_ctrl_c()
    started.client.create().works()
    print("a second start took", ", ".join(f"{took:.1f} s" for took in times))
    # Two seconds on a machine that does nothing else; installing, building or making a template takes minutes.
    assert min(times) < 10, first


def test_it_takes_no_arguments(tree):
    done = subprocess.run([os.path.join(tree, "run"), "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BOUND)
    assert done.returncode == 2 and "WARREN_HOME" in done.stderr and "WARREN_LISTEN" in done.stderr

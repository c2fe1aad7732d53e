"""`warren mcp` as a process: its own sandbox ends with it, however it ends."""

import json
import signal
import subprocess
import threading

import pytest

from warren_client import eventually
from warren_server import program

BOUND = 60


class Stdio:
    """One `warren mcp` of this instance, spoken to line by line."""

    def __init__(self, warren, *arguments):
        self.process = subprocess.Popen([program(), "mcp", *arguments], env=warren.environment, cwd="/",
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.sent = 0

    def send(self, method, **params):
        self.sent += 1
        message = {"jsonrpc": "2.0", "id": self.sent, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return self.sent

    def heard(self):
        """The next message; fails if there is none any more."""
        watch = threading.Timer(BOUND, self.process.kill)
        watch.start()
        line = self.process.stdout.readline()
        watch.cancel()
        assert line, f"it ended with {self.process.wait(BOUND)} instead of an answer"
        return json.loads(line)

    def tool(self, name, **arguments):
        sent = self.send("tools/call", name=name, arguments=arguments)
        answer = self.heard()
        assert answer["id"] == sent and not answer["result"].get("isError"), answer
        return answer["result"]["structuredContent"]

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(BOUND)
        for end in self.process.stdin, self.process.stdout:
            try:
                end.close()
            except BrokenPipeError:
                pass


@pytest.fixture
def stdio(warren):
    opened = []

    def start(*arguments):
        opened.append(Stdio(warren, *arguments))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def close_input(one):
    one.process.stdin.close()


def go_away(one):
    """Both ends close, as those of a client that has died."""
    one.process.stdin.close()
    one.process.stdout.close()


def close_output(one):
    """Nobody reads any more: it notices when it writes."""
    one.process.stdout.close()
    one.send("ping")


ENDS = {"SIGTERM": lambda one: one.process.send_signal(signal.SIGTERM),
        "SIGINT": lambda one: one.process.send_signal(signal.SIGINT),
        "SIGHUP": lambda one: one.process.send_signal(signal.SIGHUP),
        "end of input": close_input, "client gone": go_away, "output closed": close_output}


@pytest.mark.parametrize("end", ENDS)
def test_its_own_sandbox_ends_with_it(client, stdio, end):
    before = client.ids()
    one = stdio()
    assert client.ids() == before, "a sandbox was made before anybody used it"
    assert one.tool("run_bash", command="echo here")["stdout"] == "here\n"
    own, = client.ids() - before
    further = one.tool("create_sandbox")["sandbox_id"]
    try:
        ENDS[end](one)
        assert one.process.wait(BOUND) == 0
        # It is gone when the process is, and what was asked for by name stays.
        assert client.ids() - before == {further}
        assert client.request("GET", f"/v1/sandboxes/{own}").status == 404
    finally:
        client.request("DELETE", f"/v1/sandboxes/{further}")


@pytest.mark.parametrize("end", ["SIGTERM", "SIGINT", "SIGHUP", "output closed"])
def test_so_it_does_while_a_call_runs(client, stdio, end):
    before = client.ids()
    one = stdio()
    one.tool("run_bash", command="true")
    own, = client.ids() - before
    one.send("tools/call", name="run_bash", arguments={"command": "touch /root/up; sleep 600"})
    eventually(lambda: client.sandbox(own).get_status("/root/up") == 200, BOUND, "the call's beginning")
    ENDS[end](one)
    assert one.process.wait(BOUND) == 0
    assert client.ids() == before


def test_at_the_end_of_input_calls_that_run_are_answered_first(client, stdio):
    before = client.ids()
    one = stdio()
    one.tool("run_bash", command="true")
    own, = client.ids() - before
    sent = one.send("tools/call", name="run_bash", arguments={
        "command": "touch /root/up; until [ -e /root/go ]; do sleep 0.05; done; echo done"})
    eventually(lambda: client.sandbox(own).get_status("/root/up") == 200, BOUND, "the call's beginning")
    one.process.stdin.close()
    client.sandbox(own).put("/root/go", b"")
    answer = one.heard()
    assert answer["id"] == sent and answer["result"]["structuredContent"]["stdout"] == "done\n", answer
    assert one.process.wait(BOUND) == 0 and client.ids() == before


def test_an_own_sandbox_that_has_ended_is_told_and_followed_by_a_fresh_one(client, stdio):
    before = client.ids()
    one = stdio()
    one.tool("run_python", code="kept = 1")
    own, = client.ids() - before
    client.sandbox(own).destroy()
    one.send("tools/call", name="run_python", arguments={"code": "kept"})
    told = one.heard()["result"]
    assert told["isError"] is True and "sandbox" in told["content"][0]["text"], told
    assert one.tool("run_python", code="print('kept' in globals())")["stdout"] == "False\n"
    assert len(client.ids() - before) == 1
    one.process.send_signal(signal.SIGTERM)
    assert one.process.wait(BOUND) == 0 and client.ids() == before


def test_it_starts_from_the_template_it_is_told(client, stdio):
    before = client.ids()
    one = stdio("--template", "python-datasci")
    assert one.tool("run_python", code="import numpy; print(numpy.arange(3).sum())")["stdout"] == "3\n"
    own, = client.ids() - before
    assert client.sandbox(own).refresh()["template"] == "python-datasci"


def test_a_slow_call_is_kept_alive(stdio):
    """A call that prints nothing says now and then that it runs, to whoever asked for progress."""
    one = stdio()
    one.tool("run_bash", command="true")
    sent = one.send("tools/call", name="run_bash", _meta={"progressToken": "slow"}, arguments={
        "command": "until [ -e /root/go ]; do sleep 0.05; done; echo done"})
    sign = one.heard()
    assert sign["method"] == "notifications/progress" and sign["params"]["progressToken"] == "slow", sign
    assert "running" in sign["params"]["message"] and sign["params"]["progress"] > 1, sign
    free = one.send("tools/call", name="run_bash", arguments={"command": "touch /root/go"})
    answers = {}
    while len(answers) < 2:
        message = one.heard()
        if "id" in message:
            answers[message["id"]] = message["result"]["structuredContent"]
    assert answers[sent]["stdout"] == "done\n" and answers[free]["exit_code"] == 0

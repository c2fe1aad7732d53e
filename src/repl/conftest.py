"""A stand-in for the agent: starts main.py as the agent does and speaks with it."""

import fcntl
import json
import os
import select
import signal
import subprocess
import time

import pytest

MAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "main.py")
LIMIT = 60  # seconds that nothing here takes


class Call:
    """What came of one call: its events in order, and a view for each kind."""

    def __init__(self, number):
        self.id = number
        self.events = []  # ("stdout", bytes), ("stderr", bytes) or (op, message)
        self.done = None

    def stream(self, name):
        return b"".join(data for kind, data in self.events if kind == name)

    def messages(self, op):
        return [message for kind, message in self.events if kind == op]

    @property
    def out(self):
        return self.stream("stdout").decode("utf-8", "surrogateescape")

    @property
    def err(self):
        return self.stream("stderr").decode("utf-8", "surrogateescape")

    @property
    def value(self):
        results = self.messages("result")
        assert len(results) == 1, self.events
        return results[0]["data"]["text/plain"]

    @property
    def error(self):
        errors = self.messages("error")
        assert len(errors) == 1, self.events
        return errors[0]

    @property
    def code(self):
        return self.done["exit_code"]


class Agent:
    def __init__(self, folder):
        (self._out, out), (self._err, err) = os.pipe(), os.pipe()
        (source, self._to), (self._from, target) = os.pipe(), os.pipe()
        for fd in (self._out, self._err):
            os.set_blocking(fd, False)
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 1 << 20)
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}

        def prepare():
            os.setsid()
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for fd in (source, target)]
            for number, fd in enumerate(high, 3):
                os.dup2(fd, number)

        self.process = subprocess.Popen(
            ["/usr/bin/python3", MAIN], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            preexec_fn=prepare, close_fds=False, cwd=folder, env=env,
        )
        for fd in (out, err, source, target):
            os.close(fd)
        self._buffer = b""
        self._next = 1
        self.dropped = 0  # bytes of output that were not kept
        self.keep = 64 << 20
        self.call = Call(0)
        self._until(lambda call: call.messages("ready"))
        self.ready = self.call

    def start(self, code, **more):
        self.call = Call(self._next)
        self._next += 1
        line = json.dumps({"op": "run", "id": self.call.id, "code": code, **more}) + "\n"
        with open(self._to, "wb", closefd=False) as pipe:
            pipe.write(line.encode())
        return self.call

    def finish(self, limit=LIMIT):
        return self._until(lambda call: call.done, limit)

    def run(self, code, limit=LIMIT, **more):
        self.start(code, **more)
        return self.finish(limit)

    def interrupt(self):
        os.kill(self.process.pid, signal.SIGINT)

    def pump(self, seconds):
        """Takes what comes for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._step(left)

    def until_output(self, text, limit=LIMIT):
        return self._until(lambda call: text in call.out, limit)

    def hang_up(self):
        if self._to >= 0:
            os.close(self._to)
            self._to = -1

    def close(self):
        self.hang_up()
        for fd in (self._out, self._err, self._from):
            os.close(fd)
        try:
            self.process.wait(10)
        finally:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def _until(self, condition, limit=LIMIT):
        end = time.monotonic() + limit
        while not condition(self.call):
            left = end - time.monotonic()
            assert left > 0, f"nothing came in {limit} s: {self.call.events}"
            assert self._step(left), f"the runner has ended: {self.call.events}"
        return self.call

    def _step(self, limit):
        ready, _, _ = select.select([self._out, self._err, self._from], [], [], limit)
        data = None
        if self._from in ready:
            data = os.read(self._from, 1 << 20)
        # Output first: what was written before a message belongs before it.
        for fd, name in ((self._out, "stdout"), (self._err, "stderr")):
            self._drain(fd, name)
        if data == b"":
            return False
        self._buffer += data or b""
        while b"\n" in self._buffer:
            line, self._buffer = self._buffer.split(b"\n", 1)
            message = json.loads(line.decode(), parse_constant=_no_json)
            self.call.events.append((message["op"], message))
            if message["op"] == "done":
                assert message["id"] == self.call.id
                self.call.done = message
        return True

    def _drain(self, fd, name):
        while True:
            try:
                data = os.read(fd, 1 << 20)
            except BlockingIOError:
                return
            if not data:
                return
            if self.keep >= len(data):
                self.keep -= len(data)
                self.call.events.append((name, data))
            else:
                self.dropped += len(data)


def _no_json(text):
    raise AssertionError(f"{text} is not JSON")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One session for all tests of a file: each must leave it usable."""
    agent = Agent(tmp_path_factory.mktemp("home"))
    yield agent
    agent.close()


@pytest.fixture
def agent(shared):
    yield shared
    assert shared.run("1+1").value == "2", "the session works after the test"


@pytest.fixture
def fresh(tmp_path):
    """A session of the test's own, for tests that end or spoil it."""
    agent = Agent(tmp_path)
    yield agent
    agent.close()

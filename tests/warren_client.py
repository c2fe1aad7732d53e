"""A small client of Warren's REST and MCP faces, for tests and benchmarks.

Standard library only. Every wait has a deadline, so that a server that hangs
fails a test and does not stop the suite.
"""

import base64
import http.client
import json
import socket
import time
import urllib.parse

DEFAULT_WAIT = 120


class ApiError(Exception):
    """An answer that was not what the caller needed."""

    def __init__(self, answer):
        super().__init__(f"{answer.status}: {answer.body[:500]!r}")
        self.answer = answer
        self.status = answer.status


class Answer:
    """One HTTP answer, read to its end."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body)

    def error(self):
        """The sentence of REST's error shape; fails if the answer is of another shape."""
        document = self.json()
        assert isinstance(document.get("error"), str) and document["error"], document
        return document["error"]


class Run:
    """What one exec streamed: its events, and what they add up to."""

    def __init__(self, events):
        self.events = events
        self.stdout = b"".join(bytes_of(e) for e in events if e["type"] == "stdout")
        self.stderr = b"".join(bytes_of(e) for e in events if e["type"] == "stderr")
        self.exits = [e for e in events if e["type"] == "exit"]
        self.errors = [e["data"] for e in events if e["type"] == "error"]
        self.results = [e["data"] for e in events if e["type"] == "result"]
        self.displays = [e["data"] for e in events if e["type"] == "display"]

    @property
    def exit(self):
        """The exit event; there must be exactly one, and it must be the last."""
        assert len(self.exits) == 1, f"{len(self.exits)} exit events: {self}"
        assert self.events[-1]["type"] == "exit", f"events after the exit: {self}"
        return self.exits[0]

    @property
    def code(self):
        return self.exit["data"]

    @property
    def text(self):
        return self.stdout.decode()

    @property
    def bundles(self):
        """Everything rich that came back, in order."""
        return [e["data"] for e in self.events if e["type"] in ("result", "display")]

    def __repr__(self):
        tail = json.dumps(self.events[-5:])
        return f"Run({len(self.events)} events, stdout {self.stdout[:300]!r}, stderr {self.stderr[:300]!r}, last {tail[:1500]})"


def bytes_of(event):
    if "data_base64" in event:
        return base64.b64decode(event["data_base64"], validate=True)
    return event["data"].encode()


class ExecStream:
    """An exec whose events are read one by one; iterate over it, or close() it half-way."""

    def __init__(self, connection, response):
        self.connection = connection
        self.response = response
        self.buffer = b""

    def __iter__(self):
        while True:
            line = self.response.readline()
            if not line:
                return
            yield json.loads(line)

    def wait_for_output(self, text):
        """Reads until standard output has `text`; returns what was read."""
        seen = b""
        for event in self:
            if event["type"] == "stdout":
                seen += bytes_of(event)
                if text in seen:
                    return seen
        raise AssertionError(f"the stream ended before {text!r}; it had {seen!r}")

    def cut(self):
        """Ends the connection at once, as a client that dies does."""
        sock = self.connection.sock
        if sock is None:  # the response owns it after "Connection: close"
            sock = self.response.fp.raw._sock
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.response.close()
        self.connection.close()
        sock.close()


class Client:
    """One key at one server. Each call uses a connection of its own."""

    def __init__(self, url, key, wait=DEFAULT_WAIT):
        parts = urllib.parse.urlsplit(url)
        self.url, self.host, self.port = url, parts.hostname, parts.port
        self.key = key
        self.wait = wait

    def with_key(self, key):
        return Client(self.url, key, self.wait)

    def open(self, method, path, body=None, headers=None, wait=None):
        """Sends a request; returns (connection, response) with the body unread."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=wait or self.wait)
        all_headers = {}
        if self.key is not None:
            all_headers["Authorization"] = f"Bearer {self.key}"
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            all_headers["Content-Type"] = "application/json"
        all_headers.update(headers or {})
        try:
            connection.request(method, path, body=body, headers=all_headers,
                               encode_chunked="Transfer-Encoding" in all_headers)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server may answer before it has read a body that it refuses
        return connection, connection.getresponse()

    def request(self, method, path, body=None, headers=None, wait=None):
        connection, response = self.open(method, path, body, headers, wait)
        try:
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def expect(self, status, method, path, body=None, headers=None, wait=None):
        answer = self.request(method, path, body, headers, wait)
        if answer.status != status:
            raise ApiError(answer)
        return answer

    # Sandboxes.

    def create(self, **spec):
        return Sandbox(self, self.expect(201, "POST", "/v1/sandboxes", spec).json())

    def sandbox(self, sandbox_id):
        """A sandbox that exists, or is said to."""
        return Sandbox(self, {"id": sandbox_id})

    def list(self):
        document = self.expect(200, "GET", "/v1/sandboxes").json()
        return document["sandboxes"] if isinstance(document, dict) else document

    def ids(self):
        return {s["id"] for s in self.list()}

    # MCP, as the seed's curls speak it: one POST, no session.

    def rpc(self, method, params=None, request_id=1, path="/mcp", wait=None):
        """One JSON-RPC call; the HTTP answer as it came."""
        message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params is not None:
            message["params"] = params
        return self.request("POST", path, message, {"Accept": "*/*"}, wait)

    def tool(self, name, /, wait=None, **arguments):
        """tools/call; the result object. Fails on a JSON-RPC error."""
        answer = self.rpc("tools/call", {"name": name, "arguments": arguments}, wait=wait)
        if answer.status != 200:
            raise ApiError(answer)
        document = answer.json()
        assert "result" in document, document
        return document["result"]

    def tool_error(self, name, /, **arguments):
        """tools/call that must be refused with isError; the text a model reads."""
        result = self.tool(name, **arguments)
        assert result.get("isError") is True, result
        return "".join(c["text"] for c in result["content"] if c["type"] == "text")


class Sandbox:
    def __init__(self, client, info):
        self.client = client
        self.info = info
        self.id = info["id"]

    @property
    def path(self):
        return f"/v1/sandboxes/{self.id}"

    def refresh(self):
        return self.client.expect(200, "GET", self.path).json()

    def exists(self):
        status = self.client.request("GET", self.path).status
        assert status in (200, 404), status
        return status == 200

    def destroy(self):
        self.client.expect(204, "DELETE", self.path)

    def fork(self, n=1, wait=None, **options):
        """Its children; `forked` of each is the whole answer."""
        answer = self.client.expect(200, "POST", f"{self.path}/fork", {"n": n, **options}, wait=wait).json()
        children = [Sandbox(self.client, {"id": one, "forked": answer}) for one in answer["children"]]
        assert len(children) == n, answer
        return children

    def merge(self, winner, **options):
        """`winner` takes this one's place; of files it is the report."""
        status = 200 if options.get("mode") == "files" else 204
        return self.client.expect(status, "POST", f"{self.path}/merge_into/{winner.id}", options)

    @property
    def not_copied(self):
        return self.info["forked"]["not_copied"]

    # Commands.

    def exec_stream(self, code, language, wait=None, **options):
        body = {"code": code, "language": language, **options}
        connection, response = self.client.open("POST", f"{self.path}/exec", body, wait=wait)
        if response.status != 200:
            raise ApiError(Answer(response.status, response.headers, response.read()))
        return ExecStream(connection, response)

    def run(self, code, language, wait=None, **options):
        stream = self.exec_stream(code, language, wait, **options)
        try:
            return Run(list(stream))
        finally:
            stream.connection.close()

    def bash(self, command, **options):
        return self.run(command, "bash", **options)

    def python(self, code, **options):
        return self.run(code, "python", **options)

    def bash_ok(self, command, **options):
        """Runs a command that must succeed; its standard output as text."""
        run = self.bash(command, **options)
        assert run.code == 0, run
        return run.text

    def python_ok(self, code, **options):
        run = self.python(code, **options)
        assert run.code == 0, run
        return run.text

    def works(self):
        """Fails unless both kinds of call still answer."""
        assert self.bash_ok("echo ok") == "ok\n"
        run = self.python("print(6*7)")
        assert run.code == 0 and run.stdout == b"42\n", run

    # Files.

    def file_path(self, path):
        quoted = urllib.parse.quote(path, safe="")
        return f"{self.path}/files?path={quoted}"

    def put(self, path, data, wait=None):
        answer = self.client.request("PUT", self.file_path(path), data, wait=wait)
        if answer.status not in (200, 201, 204):
            raise ApiError(answer)
        return answer

    def get(self, path, wait=None):
        return self.client.expect(200, "GET", self.file_path(path), wait=wait).body

    def get_status(self, path):
        return self.client.request("GET", self.file_path(path)).status

    def delete(self, path):
        answer = self.client.request("DELETE", self.file_path(path))
        if answer.status not in (200, 204):
            raise ApiError(answer)
        return answer


def eventually(condition, deadline=60, what="the condition"):
    """Waits until `condition()` is true; returns what it returned."""
    end = time.monotonic() + deadline
    pause = 0.01
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come to hold within {deadline} s")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.5)

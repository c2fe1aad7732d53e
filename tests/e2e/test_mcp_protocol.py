"""MCP as it goes over the wire: the seed's curls, each era's opening, who may come in."""

import http.client
import json
import re
import socket
import subprocess
import time

import pytest

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}

# As the seed prints them; only the host and the key are others.
SEED_CREATE = r'''curl -sX POST https://mcp.podflare.ai \
  -H "Authorization: Bearer $PODFLARE_API_KEY" \
  -H "content-type: application/json" \
  -d '{
        "jsonrpc":"2.0","id":1,"method":"tools/call",
        "params":{"name":"create_sandbox","arguments":{"template":"default"}}
      }'
'''
SEED_RUN = r'''curl -sX POST https://mcp.podflare.ai \
  -H "Authorization: Bearer $PODFLARE_API_KEY" \
  -H "content-type: application/json" \
  -d '{
        "jsonrpc":"2.0","id":2,"method":"tools/call",
        "params":{"name":"run_python","arguments":{
          "sandbox_id":"SANDBOX_ID_FROM_ABOVE",
          "code":"print(2+2)"
        }}
      }'
'''
SEED_DESTROY = r'''curl -sX POST https://mcp.podflare.ai \
  -H "Authorization: Bearer $PODFLARE_API_KEY" \
  -H "content-type: application/json" \
  -d '{
        "jsonrpc":"2.0","id":9,"method":"tools/call",
        "params":{"name":"destroy_sandbox","arguments":{"sandbox_id":"…"}}
      }'
'''


def shell(warren, text):
    text = text.replace("https://mcp.podflare.ai", warren.url)
    done = subprocess.run(["bash", "-c", text], env={"PATH": "/usr/bin:/bin", "PODFLARE_API_KEY": warren.key},
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_three_curls_of_the_seed(warren):
    made = shell(warren, SEED_CREATE)
    assert made["jsonrpc"] == "2.0" and made["id"] == 1
    sandbox_id = made["result"]["structuredContent"]["sandbox_id"]
    assert re.fullmatch(r"sbx_[0-9a-f]{32}", sandbox_id)
    assert sandbox_id in made["result"]["content"][0]["text"]

    ran = shell(warren, SEED_RUN.replace("SANDBOX_ID_FROM_ABOVE", sandbox_id))
    assert ran["id"] == 2 and ran["result"]["structuredContent"]["stdout"] == "4\n"
    assert "4" in ran["result"]["content"][0]["text"]

    destroyed = shell(warren, SEED_DESTROY.replace("…", sandbox_id))
    assert destroyed["id"] == 9 and destroyed["result"]["structuredContent"]["destroyed"] is True
    again = shell(warren, SEED_DESTROY.replace("…", sandbox_id))
    assert again["result"]["isError"] is True


def test_a_curl_that_waits_for_the_servers_word_before_it_sends_the_body(warren):
    listed = shell(warren, SEED_CREATE.replace("-sX POST", "-sX POST -H 'Expect: 100-continue'"))
    shell(warren, SEED_DESTROY.replace("…", listed["result"]["structuredContent"]["sandbox_id"]))


class Wire:
    """POSTs to one server."""

    def __init__(self, warren):
        self.host, self.port = "127.0.0.1", warren.port
        self.key = warren.key

    def send(self, method, body=None, path="/mcp", key=True, **headers):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if key:
            fields["Authorization"] = f"Bearer {self.key if key is True else key}"
        if body is not None:
            fields.setdefault("Content-Type", "application/json")
        data = None if body is None else body if isinstance(body, (bytes, str)) else json.dumps(body)
        try:
            connection.request(method, path, data, fields)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def post(self, body, **more):
        status, headers, data = self.send("POST", body, **more)
        return status, headers, json.loads(data) if data else None

    def modern(self, method, params=None, name=None, **more):
        body = {"jsonrpc": "2.0", "id": "m", "method": method, "params": {**(params or {}), "_meta": META}}
        headers = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": method}
        if name:
            headers["Mcp_Name"] = name
        return self.post(body, **{**headers, **more})


@pytest.fixture
def wire(warren):
    return Wire(warren)


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


# How each era begins.

@pytest.mark.parametrize("asked,agreed", [("2024-11-05", "2024-11-05"), ("2025-03-26", "2025-03-26"),
                                          ("2025-06-18", "2025-06-18"), ("2025-11-25", "2025-11-25"),
                                          ("2026-07-28", "2025-11-25"), ("1.0", "2025-11-25")])
def test_the_earlier_era_begins_with_initialize(wire, asked, agreed):
    status, headers, answer = wire.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})
    assert status == 200
    assert answer["result"]["protocolVersion"] == agreed
    assert answer["result"]["serverInfo"]["name"] == "warren" and answer["result"]["serverInfo"]["version"]
    assert answer["result"]["capabilities"] == {"tools": {}}
    session = headers["Mcp-Session-Id"]

    status, _, _ = wire.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, Mcp_Session_Id=session)
    assert status == 202
    status, _, answer = wire.post({"jsonrpc": "2.0", "id": "1", "method": "tools/list"}, Mcp_Session_Id=session,
                                  MCP_Protocol_Version=agreed)
    assert status == 200 and answer["id"] == "1" and len(answer["result"]["tools"]) >= 10
    assert "resultType" not in answer["result"]

    assert wire.send("DELETE", Mcp_Session_Id=session)[0] == 204
    status, _, answer = wire.post(PING, Mcp_Session_Id=session)
    assert status == 404 and answer["error"]["code"] == -32001


def test_the_current_era_begins_with_whatever_it_wants(wire):
    status, headers, answer = wire.modern("server/discover")
    assert status == 200 and "Mcp-Session-Id" not in headers
    result = answer["result"]
    assert result["supportedVersions"] == ["2026-07-28"] and result["resultType"] == "complete"
    assert result["capabilities"] == {"tools": {}} and result["ttlMs"] >= 0 and result["cacheScope"] in ("public", "private")
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "warren"

    status, _, answer = wire.modern("tools/call", {"name": "list_sandboxes", "arguments": {}}, name="list_sandboxes")
    assert status == 200 and answer["result"]["resultType"] == "complete"
    assert isinstance(answer["result"]["structuredContent"]["sandboxes"], list)


def test_the_tools_of_the_current_era_may_be_kept_for_a_time(wire):
    status, _, answer = wire.modern("tools/list")
    result = answer["result"]
    assert status == 200 and result["resultType"] == "complete"
    assert isinstance(result["ttlMs"], int) and result["ttlMs"] > 0
    assert result["cacheScope"] in ("public", "private") and "nextCursor" not in result
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "warren"
    # The same list for all eras and each time, so that what is kept is right.
    _, _, again = wire.modern("tools/list", {"cursor": None})
    _, _, legacy = wire.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert result["tools"] == again["result"]["tools"] == legacy["result"]["tools"]
    assert {"resultType", "ttlMs", "cacheScope", "_meta"}.isdisjoint(legacy["result"])
    # What a call answers is of that moment.
    _, _, called = wire.modern("tools/call", {"name": "list_sandboxes", "arguments": {}}, name="list_sandboxes")
    assert {"ttlMs", "cacheScope"}.isdisjoint(called["result"])


def test_what_the_current_era_refuses(wire):
    assert [code(wire.modern(method)) for method in ("ping", "initialize", "logging/setLevel")] == [(404, -32601)] * 3
    assert code(wire.modern("tools/list", Mcp_Method="tools/call")) == (400, -32020)
    assert code(wire.modern("tools/call", {"name": "list_sandboxes"})) == (400, -32020)
    assert code(wire.modern("tools/list", MCP_Protocol_Version="2025-11-25")) == (400, -32020)
    bare = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert code(wire.post(bare, MCP_Protocol_Version="2026-07-28", Mcp_Method="tools/list")) == (400, -32602)
    future = {**META, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}
    answer = wire.post({**bare, "params": {"_meta": future}}, MCP_Protocol_Version="2031-01-01", Mcp_Method="tools/list")
    assert code(answer) == (400, -32022)
    assert answer[2]["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2031-01-01"}


def code(answer):
    return answer[0], answer[2]["error"]["code"]


# What a client takes.

def test_an_accept_of_only_events_is_served(wire):
    status, headers, body = wire.send("POST", PING, Accept="text/event-stream")
    assert status == 200 and headers["Content-Type"] == "text/event-stream"
    assert body == b'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\n\n'


def test_a_slow_call_is_a_stream_only_for_who_takes_one(wire, sandbox):
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "run_bash", "arguments": {"sandbox_id": sandbox.id, "command": "sleep 0.5; echo done"}}}
    status, headers, body = wire.send("POST", call, Accept="*/*")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert json.loads(body)["result"]["structuredContent"]["stdout"] == "done\n"
    _, headers, body = wire.send("POST", call, Accept="application/json, text/event-stream")
    assert headers["Content-Type"] == "text/event-stream" and b'"stdout":"done\\n"' in body


class SlowCall:
    """A call over HTTP that prints nothing and lasts until somebody makes a file; its stream is read line by line."""

    def __init__(self, wire, sandbox, tool, gate, token, modern):
        wait = f"import os, time\nwhile not os.path.exists('{gate}'): time.sleep(0.05)"
        arguments = ({"code": wait} if tool == "run_python" else
                     {"command": f"until [ -e {gate} ]; do sleep 0.05; done"})
        params = {"name": tool, "arguments": {"sandbox_id": sandbox.id, **arguments}, "_meta": dict(META) if modern else {}}
        headers = {"Authorization": f"Bearer {wire.key}", "Content-Type": "application/json",
                   "Accept": "application/json, text/event-stream"}
        if token:
            params["_meta"]["progressToken"] = token
        if modern:
            headers |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}
        self.token = token
        self.connection = http.client.HTTPConnection(wire.host, wire.port, timeout=60)
        self.connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": params}), headers)
        self.response = self.connection.getresponse()
        assert (self.response.status, self.response.headers["Content-Type"]) == (200, "text/event-stream")

    def sign_of_life(self):
        """What is said first, by a server that has nothing to tell: progress or, unasked, a comment."""
        while line := self.response.readline():
            if line.startswith(b":"):
                if not self.token:
                    return True
            elif line.startswith(b"data:") and line[5:].strip():
                message = json.loads(line[5:])
                assert self.token and message["method"] == "notifications/progress", message
                params = message["params"]
                assert params["progressToken"] == self.token and "running" in params["message"] and params["progress"] > 1
                return True
        return False

    def result(self):
        answers = [json.loads(line[5:]) for line in self.response.read().splitlines() if line.startswith(b"data:") and line[5:].strip()]
        self.connection.close()
        assert answers[-1]["id"] == "slow", answers
        return answers[-1]["result"]["structuredContent"]


def test_slow_calls_that_print_nothing_are_kept_alive(wire, make_sandbox):
    kinds = [(tool, token, modern) for tool in ("run_bash", "run_python") for token in ("word", 7, None)
             for modern in (True, False)]
    sandboxes = [make_sandbox() for _ in kinds]
    calls = [SlowCall(wire, one, tool, "/root/go", token, modern) for one, (tool, token, modern) in zip(sandboxes, kinds)]
    for call, kind in zip(calls, kinds):
        assert call.sign_of_life(), f"{kind}: it ended without a sign of life"
    for one, call in zip(sandboxes, calls):
        one.put("/root/go", b"")
        assert call.result()["exit_code"] == 0


def test_a_batch_of_the_revision_that_has_them(wire):
    status, _, answers = wire.post([PING, {"jsonrpc": "2.0", "method": "notifications/x"}, {**PING, "id": "b"}])
    assert status == 200 and {str(answer["id"]) for answer in answers} == {"1", "b"}


# Who may come in.

@pytest.mark.parametrize("origin", ["http://evil.example.com", "null", "http://localhost.evil.example.com",
                                    "http://127.0.0.1.evil.example.com", "https://evil.example.com:7070"])
def test_a_strangers_page_is_refused(wire, origin):
    for method, body in (("POST", PING), ("GET", None), ("DELETE", None), ("OPTIONS", None)):
        status, headers, data = wire.send(method, body, Origin=origin)
        assert status == 403 and "Access-Control-Allow-Origin" not in headers
        assert "id" not in json.loads(data)


@pytest.mark.parametrize("origin", ["http://localhost:6274", "http://127.0.0.1", "http://[::1]:3000"])
def test_a_page_of_this_machine_may_come_in(wire, origin):
    status, headers, _ = wire.send("POST", PING, Origin=origin)
    assert status == 200 and headers["Access-Control-Allow-Origin"] == origin
    status, headers, _ = wire.send("OPTIONS", key=None, Origin=origin)
    assert status == 204 and "mcp-name" in headers["Access-Control-Allow-Headers"].lower()


def test_a_rebound_name_is_refused(wire):
    assert wire.send("POST", PING, Host=f"evil.example.com:{wire.port}")[0] == 403
    assert wire.send("POST", PING, Host=f"localhost:{wire.port}")[0] == 200


def test_without_a_key_there_is_a_challenge_and_no_oauth(wire):
    status, headers, _ = wire.send("POST", PING, key=None)
    assert status == 401 and headers["WWW-Authenticate"] == 'Bearer realm="warren"'
    status, headers, _ = wire.send("POST", PING, key="wrn_aaaaaaaa_" + "b" * 32)
    assert status == 401 and 'error="invalid_token"' in headers["WWW-Authenticate"]
    for method, path in [("GET", "/.well-known/oauth-protected-resource/mcp"),
                         ("GET", "/.well-known/oauth-protected-resource"),
                         ("GET", "/.well-known/oauth-authorization-server/mcp"),
                         ("GET", "/.well-known/openid-configuration"),
                         ("GET", "/mcp/.well-known/openid-configuration"),
                         ("POST", "/register"), ("GET", "/authorize"), ("POST", "/token")]:
        status, headers, body = wire.send(method, path=path, key=None)
        assert status == 404 and headers["Content-Type"].startswith("application/json"), path
        json.loads(body)


def test_a_session_belongs_to_its_key(warren, wire):
    other, _ = warren.new_key("other")
    _, headers, _ = wire.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}})
    session = headers["Mcp-Session-Id"]
    assert wire.post(PING, Mcp_Session_Id=session)[0] == 200
    assert wire.post(PING, Mcp_Session_Id=session, key=other)[0] == 404


# Lost connections.

def call_and_leave(wire, sandbox, command, **headers):
    """Sends a call and goes away once it runs."""
    body = json.dumps({"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": {
        "name": "run_bash", "arguments": {"sandbox_id": sandbox.id, "command": command}}})
    with socket.create_connection((wire.host, wire.port), timeout=30) as connection:
        lines = [f"POST /mcp HTTP/1.1", "Host: localhost", f"Authorization: Bearer {wire.key}",
                 "Content-Type: application/json", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n" + body).encode())
        if "Mcp_Session_Id" in headers:
            heard = b""
            while b"data: \n\n" not in heard:
                heard += connection.recv(65536)
        else:
            time.sleep(1)


def sleepers(wire, sandbox, seconds):
    script = f"cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o '[s]leep {seconds} ' | wc -l"
    _, _, answer = wire.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "run_bash", "arguments": {"sandbox_id": sandbox.id, "command": script}}})
    return int(answer["result"]["structuredContent"]["stdout"])


def test_a_bare_call_ends_with_its_connection(wire, sandbox):
    call_and_leave(wire, sandbox, "sleep 86397")
    end = time.monotonic() + 10
    while sleepers(wire, sandbox, 86397):
        assert time.monotonic() < end, "the command outlived its connection"
        time.sleep(0.2)


def test_a_sessions_call_outlives_its_connection_for_the_grace(wire, sandbox):
    _, headers, _ = wire.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}})
    session = headers["Mcp-Session-Id"]
    call_and_leave(wire, sandbox, "sleep 86396", Mcp_Session_Id=session,
                   Accept="application/json, text/event-stream")
    begun = time.monotonic()
    time.sleep(3)
    assert sleepers(wire, sandbox, 86396) == 1
    while sleepers(wire, sandbox, 86396):
        assert time.monotonic() - begun < 20, "nobody came back, and the command still runs"
        time.sleep(0.3)


def test_a_stream_that_nobody_made_cannot_be_resumed(wire):
    _, headers, _ = wire.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}})
    session = headers["Mcp-Session-Id"]
    for more in ({}, {"Last_Event_ID": "1.0"}, {"Last_Event_ID": "nonsense"}):
        status, headers, _ = wire.send("GET", Accept="text/event-stream", Mcp_Session_Id=session, **more)
        assert status == 405 and "POST" in headers["Allow"]
    assert wire.send("GET", Accept="text/event-stream", Mcp_Session_Id="unknown")[0] == 404

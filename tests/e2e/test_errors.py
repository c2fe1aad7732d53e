"""Wrong input and broken parts, in both faces: a clear answer, and work goes on."""

import http.client
import json
import os
import signal
import socket
import threading

import pytest

import host
from warren_client import Client, eventually

UNKNOWN = "sbx_" + "0123456789abcdef" * 2
BOUND = 60


def assert_clear(answer, status, *words):
    """REST's shape of error, with words that help."""
    assert answer.status == status, (answer.status, answer.body)
    assert answer.headers["Content-Type"].startswith("application/json")
    sentence = answer.error()
    for word in words:
        assert word.lower() in sentence.lower(), sentence


# Unknown sandbox.

@pytest.mark.parametrize("sandbox_id", [UNKNOWN, "sbx_", "nonsense", "..", "%2e%2e", "a" * 5000, "%00"])
def test_rest_an_unknown_sandbox_is_404(client, sandbox, sandbox_id):
    base = f"/v1/sandboxes/{sandbox_id}"
    for method, path, body in (("GET", base, None), ("DELETE", base, None),
                               ("POST", base + "/exec", {"code": "1"}),
                               ("GET", base + "/files?path=/etc/passwd", None),
                               ("PUT", base + "/files?path=/root/x", b"x"),
                               ("DELETE", base + "/files?path=/root/x", None)):
        answer = client.request(method, path, body)
        assert answer.status in (404, 400), (method, path, answer.status)
        assert answer.error()
    sandbox.works()


@pytest.mark.parametrize("tool,arguments", [
    ("run_python", {"code": "1"}), ("run_bash", {"command": "true"}), ("destroy_sandbox", {}),
    ("upload", {"path": "/root/x", "content_base64": "eA=="}), ("download", {"path": "/etc/hostname"}),
    ("list_files", {})])
def test_mcp_an_unknown_sandbox_is_told_by_name(client, tool, arguments):
    text = client.tool_error(tool, sandbox_id=UNKNOWN, **arguments)
    assert UNKNOWN in text or "sandbox" in text.lower()


def test_a_destroyed_sandbox_is_gone_in_both_faces(client):
    sandbox = client.create()
    sandbox.destroy()
    assert_clear(client.request("DELETE", sandbox.path), 404)
    assert_clear(client.request("POST", sandbox.path + "/exec", {"code": "1"}), 404)
    assert sandbox.id in client.tool_error("run_python", sandbox_id=sandbox.id, code="1")
    assert sandbox.id not in client.ids()


# Unknown template.

@pytest.mark.parametrize("template", ["nope", "../default", "", "default\0", "DEFAULT", "x" * 10_000])
def test_an_unknown_template_says_which_there_are(client, template):
    answer = client.request("POST", "/v1/sandboxes", {"template": template})
    assert answer.status in (400, 404), answer.body
    assert "default" in answer.error()
    assert "default" in client.tool_error("create_sandbox", template=template)


# Arguments of the wrong type, missing, unknown, out of range.

CREATE_WRONG = [({"template": 7}, "template"), ({"ttl_seconds": "long"}, "ttl_seconds"),
                ({"ttl_seconds": -5}, "ttl_seconds"), ({"ttl_seconds": 10**12}, "ttl_seconds"),
                ({"ttl_seconds": 1.5}, "ttl_seconds"), ({"name": 5}, "name"), ({"name": "x" * 1000}, "name"),
                ({"name": "a\nb"}, "name"), ({"isolation": "wishful"}, "isolation"), ({"isolation": 1}, "isolation"),
                ({"isolation": "microvm"}, "isolation"), ({"egress": 12}, "egress"),
                ({"template": None, "ttl_seconds": []}, "ttl_seconds")]


@pytest.mark.parametrize("body,word", CREATE_WRONG, ids=[str(b)[:40] for b, _ in CREATE_WRONG])
def test_create_names_the_argument_that_is_wrong(client, body, word):
    before = client.ids()
    assert_clear(client.request("POST", "/v1/sandboxes", body), 400, word)
    assert word in client.tool_error("create_sandbox", **body)
    assert client.ids() == before


EGRESS = [(None, False), (False, False), ("none", False), (True, True), ("open", True), (["pypi.org"], True), ([], True),
          ({"allow": ["pypi.org"]}, True)]


@pytest.mark.parametrize("wish,told", EGRESS, ids=[str(w) for w, _ in EGRESS])
def test_whatever_egress_is_asked_for_there_is_none_and_that_is_told(client, wish, told):
    made = client.create(egress=wish)
    result = client.tool("create_sandbox", egress=wish)
    answer = result["structuredContent"]
    try:
        assert made.info["egress"] == answer["egress"] == "none"
        assert ("egress" in "".join(made.info.get("notes", []))) is told
        assert ("no network" in answer.get("egress_note", "")) is told
        assert ("note: egress" in result["content"][0]["text"]) is told
        assert client.sandbox(answer["sandbox_id"]).refresh()["egress"] == "none"
    finally:
        made.destroy()
        client.sandbox(answer["sandbox_id"]).destroy()


@pytest.mark.parametrize("wish", [0, 1, 12, -1, 1.5, 10**30])
def test_an_egress_that_is_no_wish_is_refused_with_what_is_taken(client, wish):
    before = client.ids()
    assert_clear(client.request("POST", "/v1/sandboxes", {"egress": wish}), 400, "egress", "true", "open", "none", "policy")
    sentence = client.tool_error("create_sandbox", egress=wish)
    assert all(word in sentence for word in ("egress", "true", "open", "none", "policy")), sentence
    assert client.ids() == before


EXEC_WRONG = [({}, "code"), ({"code": 5}, "code"), ({"code": None}, "code"), ({"code": "1", "language": "perl"}, "language"),
              ({"code": "1", "language": 3}, "language"), ({"code": "1", "timeout_seconds": 0}, "timeout_seconds"),
              ({"code": "1", "timeout_seconds": -1}, "timeout_seconds"),
              ({"code": "1", "timeout_seconds": 3601}, "timeout_seconds"),
              ({"code": "1", "timeout_seconds": "5"}, "timeout_seconds"),
              ({"code": "1", "timeout_seconds": 10**30}, "timeout_seconds"),
              ({"code": "1", "env": []}, "env"), ({"code": "1", "env": {"A": 1}}, "env"),
              ({"code": "1", "env": {"A=B": "x"}}, "env"), ({"code": "1", "env": {"": "x"}}, "env"),
              ({"code": "1", "env": {"A": "x\0y"}}, "env"), ({"code": "1", "cwd": 7}, "cwd"),
              ({"code": "true\0", "language": "bash"}, "code")]


@pytest.mark.parametrize("body,word", EXEC_WRONG, ids=[str(b)[:40] for b, _ in EXEC_WRONG])
def test_exec_names_the_argument_that_is_wrong(module_sandbox, body, word):
    answer = module_sandbox.client.request("POST", module_sandbox.path + "/exec", body)
    assert_clear(answer, 400, word)
    module_sandbox.works()


MCP_WRONG = [("run_bash", {}, "command"), ("run_bash", {"command": 5}, "command"),
             ("run_bash", {"command": ["ls"]}, "command"),
             ("run_bash", {"command": "true", "timeout_seconds": 0}, "timeout_seconds"),
             ("run_bash", {"command": "true", "timeout_seconds": 3601}, "3600"),
             ("run_bash", {"command": "true", "timeout_seconds": "soon"}, "timeout_seconds"),
             ("run_bash", {"command": "true", "env": {"A": 1}}, "env"),
             ("run_bash", {"command": "true", "cwd": 1}, "cwd"),
             ("run_python", {}, "code"), ("run_python", {"code": {}}, "code"),
             ("run_python", {"code": "1", "timeout_seconds": 1e9}, "timeout_seconds"),
             ("upload", {"path": "/root/x"}, "content_base64"),
             ("upload", {"path": "/root/x", "content_base64": "not base64!"}, "base64"),
             ("upload", {"path": "/root/x", "content_base64": "eHh4="}, "base64"),
             ("upload", {"path": "/root/x", "content_base64": "=eHh"}, "base64"),
             ("upload", {"path": 7, "content_base64": "eA=="}, "path"),
             ("upload", {"content_base64": "eA=="}, "path"),
             ("download", {}, "path"), ("download", {"path": []}, "path"),
             ("list_files", {"path": 3}, "path")]


@pytest.mark.parametrize("tool,arguments,word", MCP_WRONG, ids=[f"{t}-{str(a)[:30]}" for t, a, _ in MCP_WRONG])
def test_mcp_names_the_argument_that_is_wrong(module_sandbox, tool, arguments, word):
    text = module_sandbox.client.tool_error(tool, sandbox_id=module_sandbox.id, **arguments)
    assert word in text
    module_sandbox.works()


def test_mcp_a_missing_or_wrong_sandbox_id_is_named(client):
    assert "sandbox_id" in client.tool_error("run_bash", command="true")
    assert "sandbox_id" in client.tool_error("run_bash", sandbox_id=5, command="true")
    assert "sandbox_id" in client.tool_error("run_bash", sandbox_id=None, command="true")


def test_mcp_an_unknown_tool_is_invalid_params(client):
    for name in ("no_such_tool", "", 5):
        answer = client.rpc("tools/call", {"name": name, "arguments": {}})
        assert answer.json()["error"]["code"] == -32602, answer.body


def test_mcp_an_unknown_method_is_method_not_found(client):
    assert client.rpc("no/such/method").json()["error"]["code"] == -32601


def test_an_upload_over_mcp_that_is_too_large_is_told(module_sandbox):
    answer = module_sandbox.client.rpc("tools/call", {"name": "upload", "arguments": {
        "sandbox_id": module_sandbox.id, "path": "/root/x", "content_base64": "eHh4" * (7 * 1024 * 1024 // 3)}})
    assert answer.status == 200, answer.body[:300]
    result = answer.json()["result"]
    assert result["isError"] is True and "/files" in json.dumps(result)
    module_sandbox.works()


# Broken JSON, wrong shapes of it.

BROKEN = [b"", b"{", b"nonsense", b"[1,2", b'{"code":}', b'"just a string"', b"[]", b"null", b"7", b'{"a":1}{"b":2}',
          b"\xff\xfe{}", b'{"code":"\xff"}', b"[" * 100_000, b'{"a":' * 50_000, b'{"code":"\\ud800"}', b"1e999999"]


@pytest.mark.parametrize("body", BROKEN, ids=[repr(b[:20]) for b in BROKEN])
def test_broken_json_is_refused_clearly_everywhere(module_sandbox, body):
    client = module_sandbox.client
    json_type = {"Content-Type": "application/json"}
    answer = client.request("POST", module_sandbox.path + "/exec", body, json_type)
    assert_clear(answer, 400)
    answer = client.request("POST", "/v1/sandboxes", body, json_type)
    if answer.status == 201 and not body:
        client.request("DELETE", "/v1/sandboxes/" + answer.json()["id"])  # no body is no wish
    else:
        assert_clear(answer, 400)
    answer = client.request("POST", "/mcp", body, json_type)
    assert answer.status in (200, 400), answer.body
    if answer.body:
        document = answer.json()
        for one in document if isinstance(document, list) else [document]:
            assert one["error"]["code"] in (-32700, -32600, -32602, -32601), document
    module_sandbox.works()


# Bodies too large.

def test_a_json_body_that_is_too_large_is_413(module_sandbox):
    client = module_sandbox.client
    body = json.dumps({"code": "x" * (40 << 20)}).encode()
    assert_clear(client.request("POST", module_sandbox.path + "/exec", body), 413)
    assert_clear(client.request("POST", "/v1/sandboxes", body), 413)
    assert client.request("POST", "/mcp", body).status == 413
    module_sandbox.works()


def test_code_of_a_few_megabytes_is_taken(module_sandbox):
    run = module_sandbox.python("x = '" + "y" * (2 << 20) + "'\nprint(len(x))")
    assert run.stdout == f"{2 << 20}\n".encode()


def raw(client, data, wait=BOUND):
    """Sends bytes as they are; the answer's bytes until the connection's end."""
    with socket.create_connection((client.host, client.port), timeout=wait) as sock:
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        answer = b""
        try:
            while chunk := sock.recv(65536):
                answer += chunk
        except ConnectionError:
            pass
        return answer


@pytest.mark.parametrize("data", [
    b"\r\n\r\n", b"GARBAGE\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00",
    b"GET /v1/healthz HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /v1/sandboxes HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"POST /v1/sandboxes HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/sandboxes HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/sandboxes HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    b"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /v1/../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
], ids=range(13))
def test_broken_http_is_refused_and_stalls_nobody(client, data):
    answer = raw(client, data)
    assert not answer or answer.startswith(b"HTTP/1.1 4") or answer.startswith(b"HTTP/1.1 5") or data.startswith(b"\x16")
    assert b"root:" not in answer
    assert client.request("GET", "/healthz").status == 200


# Keys.

@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic abc", "Bearer wrn_aaaaaaaa_" + "b" * 32,
                                    "Bearer " + "x" * 10_000])
def test_a_missing_or_wrong_key_is_401_in_both_faces(warren, header):
    anonymous = Client(warren.url, None)
    headers = {} if header is None else {"Authorization": header}
    for method, path, body in (("GET", "/v1/sandboxes", None), ("POST", "/v1/sandboxes", {}),
                               ("GET", f"/v1/sandboxes/{UNKNOWN}", None), ("DELETE", f"/v1/sandboxes/{UNKNOWN}", None),
                               ("POST", f"/v1/sandboxes/{UNKNOWN}/exec", {"code": "1"}), ("GET", "/v1/capacity", None)):
        answer = anonymous.request(method, path, body, headers)
        assert_clear(answer, 401)
        assert "Bearer" in answer.headers["WWW-Authenticate"]
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for path in ("/mcp", "/"):
        answer = anonymous.request("POST", path, message, headers)
        assert answer.status == 401 and "Bearer" in answer.headers["WWW-Authenticate"]


def test_a_key_that_is_almost_right_is_401(warren):
    right = warren.key
    for wrong in (right[:-1], right + "x", right.upper(), right[:-1] + ("a" if right[-1] != "a" else "b")):
        answer = Client(warren.url, wrong).request("GET", "/v1/sandboxes")
        assert_clear(answer, 401)
        assert right not in answer.body.decode()


def test_health_needs_no_key_and_capacity_does(warren, client):
    anonymous = Client(warren.url, None)
    assert anonymous.request("GET", "/healthz").status == 200
    assert anonymous.request("GET", "/v1/healthz").status == 200
    assert isinstance(client.expect(200, "GET", "/v1/capacity").json(), dict)


def test_unknown_routes_and_methods_keep_the_shape(client):
    assert_clear(client.request("GET", "/v1/nothing/here"), 404)
    answer = client.request("PATCH", "/v1/sandboxes")
    assert_clear(answer, 405)
    assert "POST" in answer.headers["Allow"]


# Dead parts.

def runner_pids(warren, sandbox):
    return sandbox.python_ok("import os; print(os.getpid())")


def test_a_runner_killed_from_inside_is_told_and_replaced_in_both_faces(sandbox):
    pid = runner_pids(None, sandbox).strip()
    stream = sandbox.exec_stream("print('up', flush=True)\nimport time; time.sleep(600)", "python")
    stream.wait_for_output(b"up")
    sandbox.bash_ok(f"kill -9 {pid}")
    last = list(stream)[-1]
    assert last["type"] == "exit" and last["data"] == 137 and "SIGKILL" in last["died"], last
    result = sandbox.client.tool("run_python", sandbox_id=sandbox.id, code="import os, signal; os.kill(os.getpid(), 9)")
    assert result["isError"] is True
    assert "SIGKILL" in json.dumps(result) and result["structuredContent"]["exit_code"] == 137
    sandbox.works()


def test_a_runner_killed_between_calls_is_told_to_the_next_one_or_replaced(sandbox):
    sandbox.python_ok("x = 1")
    pid = runner_pids(None, sandbox).strip()
    sandbox.bash_ok(f"kill -9 {pid}")
    run = sandbox.python("print(2)", wait=BOUND)
    # Either the loss is told by this call, or the state is simply new; never a wrong answer.
    assert run.code in (0, 137)
    run = sandbox.python("x", wait=BOUND)
    assert run.code == 1 and run.errors[0]["name"] == "NameError"
    pid = runner_pids(None, sandbox).strip()
    sandbox.bash_ok(f"kill -9 {pid}")
    result = sandbox.client.tool("run_python", sandbox_id=sandbox.id, code="print(3)")
    assert result["structuredContent"]["exit_code"] in (0, 137)


def agent_pid(warren, sandbox):
    """The host's pid of the sandbox's process 1, found by what only this sandbox has."""
    token = os.urandom(8).hex()
    sandbox.bash_ok(f"touch /tmp/{token}")
    for one in host.descendants(warren.runtime_pid):
        if os.path.exists(f"/proc/{one.pid}/root/tmp/{token}") and host.status_field(one.pid, "NSpid").split()[-1] == "1":
            return one.pid
    raise AssertionError("no process 1 of that sandbox")


def test_a_dead_agent_is_told_in_both_faces_and_its_sandbox_can_be_destroyed(warren, client, make_sandbox):
    sandbox, sibling = make_sandbox(), make_sandbox()
    sibling.python_ok("kept = 1")
    stream = sandbox.exec_stream("echo up; sleep 600", "bash")
    stream.wait_for_output(b"up")
    os.kill(agent_pid(warren, sandbox), signal.SIGKILL)
    try:
        events = list(stream)
    except (http.client.HTTPException, ConnectionError):
        events = []
    assert not [e for e in events if e["type"] == "exit" and e["data"] == 0]

    def told():
        answer = client.request("POST", sandbox.path + "/exec", {"code": "true", "language": "bash"})
        assert answer.status != 200 and answer.status != 500, answer.body
        return answer.status in (404, 409, 503) and answer.error()

    eventually(told, BOUND, "the death being told")
    text = client.tool_error("run_bash", sandbox_id=sandbox.id, command="true")
    assert sandbox.id in text or "ended" in text or "dead" in text
    if sandbox.exists():
        assert sandbox.refresh()["state"] == "dead"
        sandbox.destroy()
    assert not sandbox.exists()
    assert sibling.python_ok("print(kept)") == "1\n"
    make_sandbox().works()


@pytest.mark.parametrize("tool,arguments", [
    ("run_bash", {"command": "touch /tmp/up; sleep 600"}),
    ("run_python", {"code": "open('/tmp/up', 'w').close(); import time; time.sleep(600)"})])
def test_mcp_an_agent_that_dies_under_a_call_is_told_by_that_call(warren, client, make_sandbox, tool, arguments):
    sandbox, sibling = make_sandbox(), make_sandbox()
    sibling.python_ok("kept = 1")
    agent = agent_pid(warren, sandbox)
    results = []
    caller = threading.Thread(target=lambda: results.append(client.tool(tool, sandbox_id=sandbox.id, wait=BOUND, **arguments)))
    caller.start()
    eventually(lambda: sandbox.get_status("/tmp/up") == 200, BOUND, "the call's beginning")
    os.kill(agent, signal.SIGKILL)
    caller.join(BOUND)
    assert len(results) == 1, "the call has no answer"
    assert_tells_of_the_dead_agent(results[0])
    # So do calls that come later, of every kind.
    for later, more in (("run_python", {"code": "1"}), ("run_bash", {"command": "true"}), ("list_files", {}),
                        ("upload", {"path": "/root/x", "content_base64": "eA=="}), ("download", {"path": "/root/x"})):
        assert_tells_of_the_dead_agent(client.tool(later, sandbox_id=sandbox.id, wait=BOUND, **more))
    assert sibling.python_ok("print(kept)") == "1\n"
    make_sandbox().works()
    listed = client.tool("list_sandboxes")["structuredContent"]["sandboxes"]
    assert [(one["state"], "SIGKILL" in one["state_reason"]) for one in listed if one["sandbox_id"] == sandbox.id] == [("dead", True)]
    assert client.tool("destroy_sandbox", sandbox_id=sandbox.id)["structuredContent"]["destroyed"] is True
    assert not sandbox.exists()


def assert_tells_of_the_dead_agent(result):
    assert result["isError"] is True and "structuredContent" not in result, result
    text = "".join(block["text"] for block in result["content"])
    assert "process 1" in text and "SIGKILL" in text and "create a new one" in text, text
    assert result["_meta"]["warren/error"] in ("unavailable", "conflict"), result


def test_a_host_that_offers_no_network_says_so(warren, client, sandbox):
    assert sandbox.info["egress"] == "none"
    answer = client.request("PUT", f"{sandbox.path}/egress", {"egress": "open"})
    assert answer.status == 503 and "no network here" in answer.json()["error"], answer
    assert "no network here" in client.tool_error("set_egress", sandbox_id=sandbox.id, egress=True)
    assert client.expect(200, "PUT", f"{sandbox.path}/egress", {"egress": "none"}).json()["egress"] == "none"
    assert "no network here" in client.tool("explain", sandbox_id=sandbox.id)["content"][0]["text"]

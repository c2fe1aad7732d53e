"""Ports with URLs: who gets one, who may use it, how long it lives. What passes through is in
test_ports_proxy.py."""

import json
import re
import signal
import os
import time

import pytest

from port_programs import Port, WebSocket, start_program
from warren_client import eventually


@pytest.fixture
def served(sandbox):
    start_program(sandbox)
    return sandbox


def listed(sandbox):
    return sandbox.client.expect(200, "GET", f"{sandbox.path}/ports").json()["ports"]


def test_the_url_of_a_server_that_listens_on_loopback_only_works(sandbox):
    sandbox.bash_ok("mkdir -p /srv && echo from inside >/srv/index.html && cd /srv && "
                    "nohup python3 -m http.server 8080 --bind 127.0.0.1 >/dev/null 2>&1 &")
    port = Port(sandbox, 8080)
    assert eventually(lambda: port.ask("GET", "/").status == 200, 20, "an answer")
    assert port.ask("GET", "/").content == b"from inside\n"
    assert port.info == {"port": 8080, "visibility": "public", "created_at": port.info["created_at"], "url": port.url}
    assert re.fullmatch(rf"{re.escape(sandbox.client.url)}/p/[0-9a-f]{{32}}/", port.url)


def test_servers_on_ipv6_and_on_every_address_work_too(sandbox):
    start_program(sandbox, 8081, "0.0.0.0")
    assert Port(sandbox, 8081).ask("GET", "/echo").status == 200
    sandbox.bash_ok("cd /root && nohup python3 -m http.server 8082 --bind ::1 >/dev/null 2>&1 &")
    port = Port(sandbox, 8082)
    assert eventually(lambda: port.ask("GET", "/").status == 200, 20, "an answer over IPv6")


def test_a_port_may_be_exposed_before_anything_listens(sandbox):
    port = Port(sandbox, 8080)
    answer = port.ask("GET", "/")
    assert answer.status == 502 and "nothing listens on port 8080" in json.loads(answer.content)["error"]
    start_program(sandbox)
    assert port.ask("GET", "/echo").status == 200


def test_a_path_without_its_slash_is_told_where_to_go(served):
    port = Port(served, 8080)
    connection = port.connect()
    connection.request("GET", port.prefix + "?a=b")
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Location"]) == (308, port.prefix + "/?a=b")


def test_exposing_again_gives_a_new_url_and_ends_the_old_one(served):
    old = Port(served, 8080)
    talk = WebSocket(old)
    new = Port(served, 8080, "private")
    assert old.url != new.url
    assert old.ask("GET", "/echo").status == 404
    assert talk.receive() is None
    assert new.ask("GET", "/echo", headers={"X-Warren-Port-Token": new.token}).status == 200
    assert [(one["port"], one["visibility"]) for one in listed(served)] == [(8080, "private")]


def test_ports_are_listed_without_secrets_and_closed(served):
    one, other = Port(served, 8080), Port(served, 9000, "private")
    assert listed(served) == [{"port": 8080, "visibility": "public", "created_at": one.info["created_at"]},
                              {"port": 9000, "visibility": "private", "created_at": other.info["created_at"]}]
    talk = WebSocket(one)
    served.client.expect(204, "DELETE", f"{served.path}/ports/8080")
    assert talk.receive() is None
    assert one.ask("GET", "/echo").status == 404
    served.client.expect(404, "DELETE", f"{served.path}/ports/8080")
    served.client.expect(204, "DELETE", f"{served.path}/ports?port=9000")
    assert listed(served) == []


def test_what_is_no_port_is_refused(sandbox):
    for body in ({}, {"port": 0}, {"port": 65536}, {"port": "80"}, {"port": 80, "visibility": "hidden"}, {"port": 80, "more": 1}):
        answer = sandbox.client.request("POST", f"{sandbox.path}/ports", body)
        assert answer.status == 400 and answer.error()
    assert sandbox.client.request("DELETE", f"{sandbox.path}/ports/x").status == 400
    assert sandbox.client.request("DELETE", f"{sandbox.path}/ports").status == 400


def test_there_is_a_limit_to_ports(sandbox):
    for number in range(1, 65):
        Port(sandbox, number)
    answer = sandbox.client.request("POST", f"{sandbox.path}/ports", {"port": 65})
    assert answer.status == 429 and "close one first" in answer.error()
    Port(sandbox, 64)


def test_a_private_port_needs_its_token(served):
    port, other = Port(served, 8080, "private"), Port(served, 8081, "private")
    assert re.fullmatch("wpt_[0-9a-f]{32}", port.token)
    for headers in ({}, {"X-Warren-Port-Token": other.token}, {"X-Warren-Port-Token": port.token[:-1]},
                    {"X-Warren-Port-Token": ""}, {"Authorization": f"Bearer {served.client.key}"}):
        answer = port.ask("GET", "/echo", headers=headers)
        assert answer.status == 401 and answer.headers["WWW-Authenticate"]
    answer = port.ask("GET", "/echo", headers={"X-Warren-Port-Token": port.token})
    assert answer.status == 200
    assert port.token.encode() not in answer.content, "the token is none of the program's business"


def test_a_browser_is_told_the_token_once(served):
    port = Port(served, 8080, "private")
    answer = port.ask("GET", f"/echo?a=b&warren_port_token={port.token}&c=d")
    assert answer.status == 303 and answer.headers["Location"] == port.prefix + "/echo?a=b&c=d"
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and f"Path={port.prefix}/" in cookie and "Domain" not in cookie
    answer = port.ask("GET", "/echo", headers={"Cookie": "x=y; " + cookie.split(";")[0]})
    assert answer.status == 200 and port.token.encode() not in answer.content
    # Where no redirect is followed the parameter alone is enough, and goes no further.
    answer = port.ask("POST", f"/echo?warren_port_token={port.token}&a=b", body=b"x")
    assert answer.status == 200 and json.loads(answer.content)["path"] == "/echo?a=b"
    assert port.ask("GET", "/echo?warren_port_token=wpt_wrong").status == 401


def test_a_websocket_through_a_private_port_needs_the_token(served):
    port = Port(served, 8080, "private")
    assert WebSocket(port).status == 401
    talk = WebSocket(port, headers={"X-Warren-Port-Token": port.token})
    assert talk.status == 101
    talk.send(b"in private")
    assert talk.receive() == (2, b"in private")
    assert WebSocket(port, f"/ws?warren_port_token={port.token}").status == 101


def test_no_url_can_be_guessed_and_none_says_more_than_another(client, sandbox):
    for path in ("/p/", "/p/x/", "/p/" + "0" * 32 + "/", "/p/%2e%2e/", f"/p/{sandbox.id}/"):
        answer = client.request("GET", path)
        assert answer.status == 404, path


def test_ports_of_another_account_are_not_there(warren, served):
    stranger = warren.new_account("ports-stranger")
    Port(served, 8080)
    for method, path, body in (("POST", "/ports", {"port": 8080}), ("GET", "/ports", None), ("DELETE", "/ports/8080", None)):
        assert stranger.request(method, served.path + path, body).status == 404
    assert len(listed(served)) == 1


def test_a_url_ends_with_its_sandbox(make_sandbox):
    sandbox = make_sandbox()
    start_program(sandbox)
    port = Port(sandbox, 8080)
    talk = WebSocket(port)
    sandbox.destroy()
    assert talk.receive() is None
    assert port.ask("GET", "/echo").status == 404


def test_forks_have_no_urls_until_asked_for(served, fork):
    port = Port(served, 8080)
    child, = fork(served)
    assert listed(child) == [] and len(listed(served)) == 1
    own = Port(child, 8080)
    assert own.url != port.url
    assert own.ask("GET", "/echo").status == 502, "background processes are not copied"
    start_program(child)
    child.put("/root/whose", b"child")
    assert own.ask("GET", "/echo").status == port.ask("GET", "/echo").status == 200


def test_after_a_merge_the_parents_urls_lead_to_the_winner(served, fork):
    parents = Port(served, 8080)
    child, = fork(served)
    childs = Port(child, 8080)
    talk = WebSocket(parents)
    served.merge(child)
    assert talk.receive() is None
    assert childs.ask("GET", "/echo").status == 404
    assert [one["port"] for one in listed(served)] == [8080]
    assert parents.ask("GET", "/echo").status == 502
    start_program(served)
    assert parents.ask("GET", "/echo").status == 200


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_urls_outlive_the_server_process(start_server, how):
    warren = start_server()
    sandbox = warren.client.create()
    start_program(sandbox)
    public, private = Port(sandbox, 8080), Port(sandbox, 8081, "private")
    os.kill(warren.server_pid, signal.SIGKILL if how == "killed" else signal.SIGTERM)
    warren.wait_healthy()
    assert eventually(lambda: public.ask("GET", "/echo").status == 200, 30, "the old URL")
    assert private.ask("GET", "/").status == 401
    assert private.ask("GET", "/", headers={"X-Warren-Port-Token": private.token}).status == 502
    assert [one["port"] for one in listed(sandbox)] == [8080, 8081]
    for name in os.listdir(os.path.join(warren.home, "db")):
        with open(os.path.join(warren.home, "db", name), "rb") as file:
            content = file.read()
        for secret in (public.prefix.rpartition("/")[2], private.token):
            assert secret.encode() not in content, "the database keeps digests only"
    assert public.prefix.rpartition("/")[2] not in warren.log() and private.token not in warren.log()


def test_traffic_keeps_a_sandbox_and_silence_does_not(start_server):
    warren = start_server(sandboxes={"idle_timeout_seconds": 4})
    busy, silent = warren.client.create(), warren.client.create()
    for one in (busy, silent):
        start_program(one)
    ports = [Port(busy, 8080), Port(silent, 8080)]
    talks = [WebSocket(port) for port in ports]
    begun = time.monotonic()
    while time.monotonic() - begun < 12:
        talks[0].send(b"still here")
        assert talks[0].receive() == (2, b"still here")
        time.sleep(0.25)
    # Not asked through the API, which would count as use.
    assert ports[0].ask("GET", "/echo").status == 200
    assert ports[1].ask("GET", "/echo").status == 404
    assert talks[1].receive() is None


def test_a_dead_sandbox_answers_502(start_server):
    warren = start_server()
    sandbox = warren.client.create()
    start_program(sandbox)
    port = Port(sandbox, 8080)
    talk = WebSocket(port)
    connection, response = port.open("GET", "/die")
    agent, = warren.agents()
    os.kill(agent.pid, signal.SIGKILL)
    assert talk.receive() is None
    with pytest.raises(Exception) as broken:
        response.read()
    assert "IncompleteRead" in repr(broken.value) or "Reset" in repr(broken.value)
    assert eventually(lambda: sandbox.refresh()["state"] == "dead", 20, "its death")
    assert port.ask("GET", "/echo").status == 502
    assert sandbox.client.request("POST", f"{sandbox.path}/ports", {"port": 1}).status == 409


def test_mcp_exposes_ports(client, served):
    result = client.tool("expose_port", sandbox_id=served.id, port=8080)
    told = result["structuredContent"]
    assert told["visibility"] == "public" and told["url"] in result["content"][0]["text"]
    assert client.request("GET", told["url"][len(client.url):] + "echo").status == 200
    private = client.tool("expose_port", sandbox_id=served.id, port=8080, visibility="private")["structuredContent"]
    path = private["url"][len(client.url):] + "echo"
    assert client.request("GET", path).status == 401
    assert client.request("GET", path, headers={"X-Warren-Port-Token": private["token"]}).status == 200
    closed = client.tool("expose_port", sandbox_id=served.id, port=8080, visibility="closed")["structuredContent"]
    assert closed == {"port": 8080, "visibility": "closed"} and listed(served) == []
    assert "port is missing" in client.tool_error("expose_port", sandbox_id=served.id)
    assert "port" in client.tool_error("expose_port", sandbox_id=served.id, port=0)
    assert "no sandbox" in client.tool_error("expose_port", sandbox_id="sbx_" + "0" * 32, port=80)


def test_the_command_line_exposes_ports(warren, client, served):
    done = warren.command("sandbox", "expose", served.id, "8080")
    assert done.returncode == 0, done
    url = done.stdout.strip()
    assert client.request("GET", url[len(client.url):] + "echo").status == 200
    done = warren.command("sandbox", "expose", served.id, "8081", "--private")
    assert done.returncode == 0 and "X-Warren-Port-Token: wpt_" in done.stderr
    done = warren.command("sandbox", "ports", served.id)
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [["PORT", "VISIBILITY"], ["8080", "public"], ["8081", "private"]]
    assert warren.command("sandbox", "expose", served.id, "8080", "--close").returncode == 0
    assert client.request("GET", url[len(client.url):] + "echo").status == 404
    assert warren.command("sandbox", "expose", served.id, "8080", "--close").returncode == 125
    assert warren.command("sandbox", "expose", served.id, "0").returncode == 125


def test_by_host_name_each_port_has_an_origin_of_its_own(start_server):
    warren = start_server(ports={"domain": "sandboxes.test"})
    sandbox = warren.client.create()
    start_program(sandbox)
    port = Port(sandbox, 8080)
    assert re.fullmatch(rf"http://8080-[0-9a-f]{{32}}\.sandboxes\.test:{warren.port}/", port.url)
    answer = port.ask("GET", "/echo?x=y")
    told = json.loads(answer.content)
    assert answer.status == 200 and told["path"] == "/echo?x=y"
    assert dict(told["headers"])["Host"] == port.netloc
    assert "sandbox" not in (answer.headers["Content-Security-Policy"] or "")
    # The API is not to be found below the domain, nor ports of hosts that never were.
    assert port.ask("GET", "/v1/sandboxes", headers={"Authorization": f"Bearer {warren.key}"}).headers["X-Echo"] == "yes"
    for host in (f"8080-{'0' * 32}.sandboxes.test", "sandboxes.sandboxes.test", "x.y.sandboxes.test"):
        assert port.ask("GET", "/v1/healthz", headers={"Host": host}).status == 404
    assert port.ask("GET", "/v1/healthz", headers={"Host": "sandboxes.test"}).status == 200
    answer = port.ask("GET", "/fields?Set-Cookie=a%3Db%3B%20Domain%3Dsandboxes.test%3B%20Path%3D/x")
    assert answer.headers["Set-Cookie"] == "a=b; Path=/x"
    told = json.loads(port.ask("GET", "/echo", headers={"Cookie": "a=b; warren_port_token=secret"}).content)
    assert dict(told["headers"])["Cookie"] == "a=b"
    talk = WebSocket(port)
    talk.send(b"by name")
    assert talk.receive() == (2, b"by name")

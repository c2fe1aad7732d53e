"""What the server counts: that the numbers move as calls are made, and that nothing of a client's is among them."""

import os
import re
import signal

import pytest

from warren_client import eventually

SECRET = "hush4711"


def scrape(client):
    """Every sample as {"name{labels}": value}."""
    answer = client.expect(200, "GET", "/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    samples = {}
    for line in answer.body.decode().splitlines():
        if line.startswith("# "):
            assert re.fullmatch(r"# (HELP|TYPE) warren_[a-z_]+ .+", line), line
            continue
        name, value = line.rsplit(" ", 1)
        assert re.fullmatch(r'warren_[a-z_]+(\{([a-z]+="[^"\\]*",?)+\})?', name), line
        assert name not in samples, "twice: " + name
        samples[name] = float(value)
    return samples


class Change:
    """What has changed between two scrapes."""

    def __init__(self, client):
        self.client, self.before = client, scrape(client)

    def of(self, name):
        return scrape(self.client).get(name, 0) - self.before.get(name, 0)


def test_only_the_operator_s_key_sees_them(warren, client):
    assert client.with_key("").request("GET", "/metrics").status == 401
    assert client.with_key("wrn_nonsense").request("GET", "/metrics").status == 401
    stranger = warren.new_account("metrics-stranger")
    refused = stranger.request("GET", "/metrics")
    assert refused.status == 403 and b"operator" in refused.body
    assert client.request("POST", "/metrics", {}).status == 405


def test_operations_and_calls_are_counted_and_timed(client):
    change = Change(client)
    sandbox = client.create()
    sandbox.python_ok("1 + 1")
    assert sandbox.python("1 / 0").code != 0
    sandbox.bash_ok("true")
    assert sandbox.bash("false").code == 1
    sandbox.bash("sleep 60", timeout_seconds=1)
    child, other = sandbox.fork(2)
    other.bash_ok("echo 1 > /root/new")
    sandbox.merge(other, mode="files")
    sandbox.bash_ok("echo 2 > /root/new")
    assert client.request("POST", f"{sandbox.path}/merge_into/{other.id}", {"mode": "files"}).status == 409
    assert client.request("POST", "/v1/sandboxes", {"template": "no-such"}).status == 400
    for one in (child, other, sandbox):
        one.destroy()
    now = {name: change.of(name) for name in (
        'warren_operations_total{operation="create",outcome="ok"}',
        'warren_operations_total{operation="create",outcome="invalid"}',
        'warren_operations_total{operation="fork",outcome="ok"}',
        'warren_operations_total{operation="merge",outcome="ok"}',
        'warren_operations_total{operation="merge",outcome="conflict"}',
        'warren_operations_total{operation="destroy",outcome="ok"}',
        'warren_operation_duration_seconds_count{operation="create"}',
        'warren_operation_duration_seconds_bucket{operation="fork",le="30"}',
        'warren_calls_total{kind="python",outcome="ok"}',
        'warren_calls_total{kind="python",outcome="failed"}',
        'warren_calls_total{kind="bash",outcome="ok"}',
        'warren_calls_total{kind="bash",outcome="failed"}',
        'warren_calls_total{kind="bash",outcome="timeout"}',
        'warren_call_duration_seconds_count{kind="python"}',
        'warren_call_duration_seconds_count{kind="bash"}')}
    assert list(now.values()) == [1, 1, 1, 1, 1, 3, 1, 1, 1, 1, 3, 1, 1, 2, 5], now
    assert 1 <= change.of('warren_call_duration_seconds_sum{kind="bash"}') < 60


def test_sandboxes_requests_and_connections_are_counted(client):
    change = Change(client)
    ready = 'warren_sandboxes{isolation="namespace",state="ready"}'
    dead = 'warren_sandboxes{isolation="namespace",state="dead"}'
    sandbox = client.create()
    assert change.of(ready) == 1
    sandbox.bash("kill -9 -1; kill -9 1; true")
    client.request("GET", "/v1/sandboxes/sbx_" + "0" * 32)
    client.rpc("tools/list")
    assert change.of('warren_http_requests_total{face="podflare",status="2xx"}') >= 2
    assert change.of('warren_http_requests_total{face="podflare",status="4xx"}') == 1
    assert change.of('warren_http_requests_total{face="mcp",status="2xx"}') == 1
    assert change.of('warren_http_requests_total{face="ops",status="2xx"}') >= 1
    samples = scrape(client)
    assert samples["warren_http_connections"] >= 1 and samples["warren_runtime_up"] == 1
    assert change.of(dead) == 0
    sandbox.destroy()
    assert change.of(ready) == 0


def test_the_stock_and_restarts_are_counted(start_server):
    warren = start_server(runtime={"stock": 2})
    client = warren.client
    client.create()
    of = {name: f'warren_stock_{name}{{template="default"}}' for name in ("ready", "wanted", "hits_total", "misses_total")}
    samples = eventually(lambda: (now := scrape(client)).get(of["ready"]) == 2 and now, 60, "a stock")
    assert [samples[of[name]] for name in ("wanted", "hits_total", "misses_total")] == [2, 0, 1]
    client.create()
    assert scrape(client)[of["hits_total"]] == 1
    assert samples["warren_runtime_restarts_total"] == 0
    os.kill(warren.runtime_pid, signal.SIGKILL)
    samples = eventually(lambda: (now := scrape(client))["warren_runtime_restarts_total"] == 1 and now, 60, "the runtime's return")
    assert samples['warren_sandboxes{isolation="namespace",state="dead"}'] == 2
    assert samples['warren_sandboxes_ended_total{reason="died"}'] == 2


def test_nothing_of_a_client_s_is_in_them(warren, client):
    sandbox = client.create(name=SECRET)
    key, key_id = warren.new_key(SECRET)
    mine = client.with_key(key).sandbox(sandbox.id)
    mine.python_ok(f"x = '{SECRET}'; print(x)", env={"TOKEN": SECRET}, cwd="/root")
    mine.bash_ok(f"echo {SECRET} > /root/{SECRET}")
    client.request("GET", f"/{SECRET}/{SECRET}")
    client.request("POST", f"/v1/sandboxes/{SECRET}/exec", {"code": SECRET})
    assert client.tool_error("run_python", sandbox_id=SECRET, code=SECRET)
    client.request("POST", "/v1/sandboxes", {"template": SECRET})
    text = client.expect(200, "GET", "/metrics").body.decode()
    for secret in (SECRET, sandbox.id, sandbox.id.removeprefix("sbx_"), key, key_id, warren.key, warren.home, "127.0.0.1", "sbx_"):
        assert secret not in text, secret
    sandbox.destroy()

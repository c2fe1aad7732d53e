"""Forks and merges over MCP, over stdio and from the command line."""

import re
import subprocess

import pytest

from warren_client import eventually

ID = re.compile(r"sbx_[0-9a-f]{32}")


def test_mcp_forks_and_merges(client, sandbox):
    sandbox.python_ok("x = 1")
    sandbox.bash_ok("setsid sleep 941 >/dev/null 2>&1 & true")
    result = client.tool("fork", sandbox_id=sandbox.id, n=2)
    structured, text = result["structuredContent"], result["content"][0]["text"]
    assert set(structured) == {"children", "fork_copies", "not_copied"} and structured["fork_copies"] == "runner"
    assert len(structured["children"]) == 2 and ID.findall(text)[1:] == structured["children"]
    assert any("sleep 941" in one for one in structured["not_copied"]["processes"]) and "sleep 941" in text
    winner, loser = structured["children"]
    client.tool("run_python", sandbox_id=winner, code="x = 2")
    result = client.tool("merge_into", parent_id=sandbox.id, winner_id=winner)
    assert result["structuredContent"] == {"sandbox_id": sandbox.id}
    text = result["content"][0]["text"]
    assert winner in text and sandbox.id in text and "names nothing" in text
    assert client.tool("run_python", sandbox_id=sandbox.id, code="print(x)")["structuredContent"]["stdout"] == "2\n"
    assert "winner_id" in client.tool_error("merge_into", parent_id=sandbox.id, winner_id=winner)
    assert "sandbox_id" in client.tool_error("run_python", sandbox_id=winner, code="1")
    client.tool("destroy_sandbox", sandbox_id=loser)


def test_mcp_takes_the_obvious_other_names(client, sandbox):
    child, = client.tool("fork", id=sandbox.id)["structuredContent"]["children"]
    other, = client.tool("fork", parent=sandbox.id, n=1.0, keep_random=True)["structuredContent"]["children"]
    assert client.tool("merge_into", parent=sandbox.id, winner=child)["structuredContent"]["sandbox_id"] == sandbox.id
    assert client.tool("merge_into", id=sandbox.id, child_id=other)["structuredContent"]["sandbox_id"] == sandbox.id
    advertised = {t["name"]: set(t["inputSchema"]["properties"]) for t in client.rpc("tools/list").json()["result"]["tools"]}
    assert advertised["fork"] == {"sandbox_id", "n", "keep_random"}
    assert advertised["merge_into"] == {"parent_id", "winner_id", "mode", "on_conflict"}


@pytest.mark.parametrize("arguments,word", [({"n": 0}, "n must be"), ({"n": 33}, "n must be"), ({"n": "x"}, "n must be"), ({"keep_random": 1}, "keep_random"),
                                            ({"count": 2}, "count")])
def test_mcp_says_what_is_wrong_with_a_fork(client, module_sandbox, arguments, word):
    before = client.ids()
    assert word in client.tool_error("fork", sandbox_id=module_sandbox.id, **arguments)
    assert client.ids() == before


@pytest.mark.parametrize("arguments,children", [({"n": None, "keep_random": None}, 1), ({"n": 2.0}, 2)])
def test_mcp_takes_null_as_absent_and_whole_numbers_with_a_point(client, module_sandbox, arguments, children):
    made = client.tool("fork", sandbox_id=module_sandbox.id, **arguments)["structuredContent"]["children"]
    assert len(made) == children
    for one in made:
        client.sandbox(one).destroy()


def test_mcp_says_what_is_wrong_with_a_merge(client, module_sandbox):
    unknown = "sbx_" + "0" * 32
    ours = module_sandbox.id
    assert "itself" in client.tool_error("merge_into", parent_id=ours, winner_id=ours)
    assert "winner_id" in client.tool_error("merge_into", parent_id=ours, winner_id=unknown)
    assert "parent_id" in client.tool_error("merge_into", parent_id=unknown, winner_id=ours)
    assert "winner_id" in client.tool_error("merge_into", parent_id=ours)
    assert "replace" in client.tool_error("merge_into", parent_id=ours, winner_id=ours, mode="half")
    assert "on_conflict" in client.tool_error("merge_into", parent_id=ours, winner_id=ours, on_conflict=1)


def test_the_command_line_forks_and_merges(warren, client, sandbox):
    sandbox.python_ok("x = 1")
    sandbox.bash_ok("setsid sleep 942 >/dev/null 2>&1 & true")
    done = warren.command("sandbox", "fork", sandbox.id, "-n", "3", "--keep-random")
    assert done.returncode == 0, done
    children = done.stdout.splitlines()
    assert len(children) == 3 and all(ID.fullmatch(one) for one in children)
    assert "not copied: processes" in done.stderr and "sleep 942" in done.stderr
    client.sandbox(children[1]).python_ok("x = 2")
    done = warren.command("sandbox", "merge", sandbox.id, children[1])
    assert done.returncode == 0 and done.stdout == "" and done.stderr == "", done
    assert sandbox.python_ok("print(x)") == "2\n"
    assert warren.command("sandbox", "rm", children[0], children[2]).returncode == 0
    one = warren.command("sandbox", "fork", sandbox.id).stdout.split()
    assert len(one) == 1
    client.sandbox(one[0]).destroy()


def test_the_command_line_says_what_is_wrong(warren, client, sandbox):
    for words, word in ((("fork", sandbox.id, "-n", "33"), "32"), (("fork", sandbox.id, "-n", "0"), "32"), (("fork", sandbox.id, "-n", "x"), ""),
                        (("fork", "no-such-name"), "no-such-name"), (("merge", sandbox.id, sandbox.id), "itself"),
                        (("merge", sandbox.id, "sbx_" + "0" * 32), ""), (("merge", sandbox.id, sandbox.id, "--on-conflict", "ours"), "files"),
                        (("merge", sandbox.id), "winner")):
        done = warren.command("sandbox", *words)
        assert done.returncode != 0 and done.stdout == "" and word in done.stderr, done
    sandbox.works()


def test_a_command_line_that_is_interrupted_leaves_no_child(warren, client, sandbox):
    from warren_server import program
    before = client.ids()
    stream = sandbox.exec_stream("import time; print('begun', flush=True); time.sleep(3)", "python")
    stream.wait_for_output(b"begun")
    process = subprocess.Popen([program(), "sandbox", "fork", sandbox.id, "-n", "2"], env=warren.environment, cwd="/", stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        process.wait(0.7)
        raise AssertionError(process.stderr.read())
    except subprocess.TimeoutExpired:
        process.terminate()
    process.communicate(timeout=30)
    assert list(stream)[-1]["data"] == 0
    sandbox.works()
    eventually(lambda: client.ids() == before, 30, "no child")

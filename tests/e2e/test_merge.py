"""One sandbox takes another's place: all of it at once, under the other's id."""

import concurrent.futures
import os
import signal
import threading

import pytest

from warren_client import eventually

BOUND = 60
# So that the sandboxes that there are can be counted.
NO_STOCK = {"stock": 0}


def status(client, parent, winner, /, **body):
    answer = client.request("POST", f"{parent.path}/merge_into/{winner.id}", body)
    if answer.status != 204:
        assert answer.error()
    return answer.status


def test_the_parent_s_id_has_the_winner_s_state(sandbox, fork, client):
    sandbox.python_ok("import os; x = 'parent'; open('/root/file', 'w').write('parent')")
    sandbox.bash_ok("setsid sleep 931 >/dev/null 2>&1 & touch /root/only-parent")
    a, winner, b = fork(sandbox, 3)
    winner.python_ok("x = 'winner'; y = 5; open('/root/file', 'w').write('winner'); os.makedirs('/srv/deep/er')")
    winner.bash_ok("setsid sleep 932 >/dev/null 2>&1 & rm /root/only-parent; true")
    a.python_ok("x = 'a'")
    sandbox.python_ok("x = 'parent, later'; open('/root/later', 'w')")
    answer = sandbox.merge(winner)
    assert answer.status == 204 and answer.body == b""
    assert sandbox.python_ok("print(x, y, open('/root/file').read(), os.path.isdir('/srv/deep/er'))") == "winner 5 winner True\n"
    assert sandbox.bash_ok("test ! -e /root/only-parent; test ! -e /root/later; pgrep -f 'sleep 93[12]' -a | grep -o 'sleep 93.'") == "sleep 932\n"
    assert not winner.exists()
    assert client.request("POST", winner.path + "/exec", {"code": "1"}).status == 404
    assert a.python_ok("print(x)") == "a\n"
    assert b.python_ok("print(x)") == "parent\n"
    info = sandbox.refresh()
    assert info["id"] == sandbox.id and info["state"] == "ready" and info["expires_at"] == sandbox.info["expires_at"]
    sandbox.works()


def test_the_losers_machine_is_gone(start_server):
    warren = start_server(runtime=NO_STOCK)
    client = warren.client
    client.create().destroy()
    uppers, cgroups = warren.uppers(), len(warren.cgroup_folders())
    parent = client.create()
    parent.bash_ok("setsid sleep 933 >/dev/null 2>&1 & true")
    old = warren.inside("sleep", "933")
    child, = parent.fork()
    parent.merge(child)
    eventually(lambda: not warren.left_over(of=old), BOUND, "the end of the parent's old processes")
    eventually(lambda: len(warren.agents()) == 1, BOUND, "one machine")
    parent.works()
    parent.destroy()
    eventually(lambda: not warren.agents(), BOUND, "none")
    eventually(lambda: warren.uppers() == uppers, BOUND, "no subvolume more than before")
    eventually(lambda: len(warren.cgroup_folders()) <= cgroups, BOUND, "no cgroup more than before")


def test_who_cannot_win_is_refused(warren, client, sandbox, fork, make_sandbox):
    child, = fork(sandbox)
    assert status(client, sandbox, sandbox) == 400
    assert status(client, sandbox, client.sandbox("sbx_" + "0" * 32)) == 404
    assert status(client, client.sandbox("sbx_" + "0" * 32), sandbox) == 404
    assert status(client, sandbox, client.sandbox("nonsense")) == 404
    assert status(client, sandbox, make_sandbox(template="python-datasci")) == 409
    other = warren.new_account("stranger-to-merges")
    theirs = other.create()
    assert status(client, sandbox, theirs) == 404 and status(other, sandbox, theirs) == 404 and status(other, theirs, sandbox) == 404
    theirs.destroy()
    for body in ({"mode": "half"}, {"mode": 1}, {"on_conflict": "ours"}, {"mode": "replace", "on_conflict": "theirs"}, {"winner": "x"}, {"on_conflict": "both", "mode": "files"}):
        assert status(client, sandbox, child, **body) == 400, body
    sandbox.works()
    child.works()
    sandbox.merge(child)
    assert status(client, sandbox, child) == 404


def test_any_sandbox_of_the_account_on_the_same_template_may_win(make_sandbox, client):
    parent, stranger = make_sandbox(), make_sandbox()
    stranger.python_ok("x = 'stranger'")
    parent.merge(stranger)
    assert parent.python_ok("print(x)") == "stranger\n"
    assert not stranger.exists()


def test_a_child_can_take_in_its_parent(sandbox, fork, client):
    sandbox.python_ok("x = 1")
    child, = fork(sandbox)
    sandbox.python_ok("x = 2")
    child.merge(sandbox)
    assert child.python_ok("print(x)") == "2\n"
    assert not sandbox.exists()


def test_a_merged_parent_is_forked_and_merged_again(sandbox, fork):
    sandbox.python_ok("path = []")
    for turn in range(4):
        winner, loser = fork(sandbox, 2)
        winner.python_ok(f"path.append({turn}); open('/root/turn', 'w').write('{turn}')")
        loser.python_ok("path.append('lost')")
        sandbox.merge(winner)
        loser.destroy()
    child, = fork(sandbox)
    for one in (sandbox, child):
        assert one.python_ok("print(path, open('/root/turn').read())") == "[0, 1, 2, 3] 3\n"


@pytest.mark.parametrize("language,code", [("bash", "echo up; sleep 600"), ("python", "print('up', flush=True)\nimport time\ntime.sleep(600)")])
@pytest.mark.parametrize("runs_on", ["parent", "winner"])
def test_a_call_that_runs_meanwhile_is_told(sandbox, fork, runs_on, language, code):
    child, = fork(sandbox)
    stream = (sandbox if runs_on == "parent" else child).exec_stream(code, language)
    stream.wait_for_output(b"up")
    sandbox.merge(child)
    events = []
    try:
        for event in stream:
            events.append(event)
    except Exception:
        pass  # broken off, as it must be
    assert events and events[-1]["type"] == "error" and events[-1]["fatal"] is True, events
    assert "merged" in str(events[-1]["data"]), events
    assert not [e for e in events if e["type"] == "exit"], "an exit was invented"
    sandbox.works()


def test_one_winner_of_two_merges_at_once(sandbox, fork, client):
    a, winner = fork(sandbox, 2)
    winner.python_ok("x = 'winner'")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = sorted(pool.map(lambda into: status(client, into, winner), (sandbox, a)))
    assert answers[0] == 204 and answers[1] in (404, 409), answers
    won = [one for one in (sandbox, a) if one.python_ok("print('x' in globals())") == "True\n"]
    assert len(won) == 1
    assert not winner.exists()


def test_a_fork_and_a_merge_at_once(sandbox, fork, client):
    sandbox.python_ok("x = 'parent'")
    winner, = fork(sandbox)
    winner.python_ok("x = 'winner'")
    forked = []
    thread = threading.Thread(target=lambda: forked.append(client.request("POST", sandbox.path + "/fork", {"n": 3})))
    thread.start()
    assert status(client, sandbox, winner) in (204, 409, 503)
    thread.join()
    if forked[0].status == 200:
        for one in forked[0].json()["children"]:
            child = client.sandbox(one)
            assert child.python_ok("print(x)") in ("parent\n", "winner\n")
            child.destroy()
    else:
        assert forked[0].status in (404, 409, 503), forked[0].body
    sandbox.works()


def test_the_merge_outlives_the_server_and_is_remembered(start_server):
    warren = start_server(runtime=NO_STOCK)
    client = warren.client
    parent = client.create(name="kept")
    parent.python_ok("x = 1")
    child, = parent.fork()
    child.python_ok("x = 2")
    parent.merge(child)
    old = warren.server_pid
    os.kill(old, signal.SIGKILL)
    eventually(lambda: warren.child("server") != old, BOUND, "a new server")
    warren.wait_healthy()
    assert eventually(lambda: parent.exists() and parent.refresh(), BOUND)["name"] == "kept"
    assert parent.python_ok("print(x)") == "2\n"
    assert client.ids() == {parent.id}

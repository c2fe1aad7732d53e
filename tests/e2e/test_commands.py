"""Commands in a sandbox over REST: what comes back, when they end, what they leave."""

import base64
import concurrent.futures
import json
import threading

from warren_client import Run, eventually

BOUND = 30  # far below the length of the commands that a deadline must end


def count(sandbox, pattern):
    """How many processes inside have a command line that matches `pattern`."""
    run = sandbox.bash(f"pgrep -fc '{pattern}' || true", timeout_seconds=60)
    return int(run.text)


def test_a_deadline_ends_the_command_and_all_it_started(sandbox):
    run = sandbox.bash("sleep 601", timeout_seconds=1, wait=BOUND)
    assert run.exit["timed_out"] is True, run
    assert run.code != 0
    assert run.exit["duration_ms"] < 15_000, run
    assert count(sandbox, "[s]leep 601") == 0


def test_a_deadline_over_mcp_is_told_with_what_was_printed(sandbox):
    result = sandbox.client.tool("run_bash", sandbox_id=sandbox.id, command="echo a; sleep 602", timeout_seconds=1)
    answer = result["structuredContent"]
    assert result["isError"] is True and answer["timed_out"] is True, result
    assert answer["stdout"] == "a\n" and answer["exit_code"] == 124
    assert count(sandbox, "[s]leep 602") == 0
    sandbox.works()


def test_a_deadline_never_looks_like_success(sandbox):
    run = sandbox.bash('trap "exit 0" TERM; sleep 605 & wait', timeout_seconds=1, wait=BOUND)
    assert run.exit["timed_out"] is True and run.code == 124, run


def test_a_deadline_says_what_was_printed_before_it(sandbox):
    run = sandbox.bash("echo a; echo b >&2; sleep 600", timeout_seconds=1, wait=BOUND)
    assert run.stdout == b"a\n" and run.stderr == b"b\n"
    assert run.exit["timed_out"] is True


def test_a_deadline_reaches_grandchildren_and_those_who_ignore_sigterm(sandbox):
    run = sandbox.bash("trap '' TERM; bash -c 'trap \"\" TERM; sleep 602; sleep 602 & wait' & wait",
                       timeout_seconds=1, wait=BOUND)
    assert run.exit["timed_out"] is True
    eventually(lambda: count(sandbox, "[s]leep 602") == 0, BOUND, "the end of all that was started")


def test_a_deadline_reaches_a_child_with_a_session_of_its_own(sandbox):
    run = sandbox.bash("setsid sleep 603 & sleep 603", timeout_seconds=1, wait=BOUND)
    assert run.exit["timed_out"] is True
    eventually(lambda: count(sandbox, "[s]leep 603") == 0, BOUND, "the end of the session")


def test_a_child_in_the_background_lives_on_and_is_not_waited_for(sandbox):
    run = sandbox.bash('sh -c "sleep 604 &"', wait=BOUND)
    assert run.code == 0
    assert count(sandbox, "[s]leep 604") == 1


def test_a_background_child_that_keeps_printing_lives_on(sandbox):
    run = sandbox.bash("(while sleep 0.02; do echo tick; date +%s%N > /tmp/beat; done) & echo started", wait=BOUND)
    assert run.code == 0 and b"started" in run.stdout
    first = eventually(lambda: sandbox.bash("cat /tmp/beat").stdout, BOUND, "a beat")
    eventually(lambda: sandbox.bash("cat /tmp/beat").stdout not in (b"", first), BOUND, "the next beat")


def test_after_a_stuck_command_the_next_one_works(sandbox):
    assert sandbox.bash("sleep 600", timeout_seconds=1, wait=BOUND).exit["timed_out"] is True
    assert sandbox.bash_ok("echo ok") == "ok\n"


def test_a_command_without_input_is_at_its_end_at_once(sandbox):
    run = sandbox.bash("cat; echo done", wait=BOUND)
    assert run.code == 0 and run.stdout == b"done\n"


def test_a_cut_connection_is_never_told_as_success_and_ends_the_command(sandbox):
    stream = sandbox.exec_stream("echo started; sleep 605; exit 7", "bash")
    stream.wait_for_output(b"started")
    stream.cut()
    eventually(lambda: count(sandbox, "[s]leep 605") == 0, BOUND, "the command's end")
    assert sandbox.bash_ok("echo ok") == "ok\n"


def test_a_grandchild_is_gone_when_its_client_goes(sandbox):
    stream = sandbox.exec_stream("bash -c 'sleep 1001 & echo up; wait'", "bash")
    stream.wait_for_output(b"up")
    assert count(sandbox, "[s]leep 1001") >= 1
    stream.cut()
    eventually(lambda: count(sandbox, "[s]leep 1001") == 0, BOUND, "the grandchild's end")


def test_a_stream_whose_sandbox_is_destroyed_invents_no_exit(make_sandbox):
    sandbox = make_sandbox()
    stream = sandbox.exec_stream("echo started; sleep 600; exit 0", "bash")
    stream.wait_for_output(b"started")
    sandbox.destroy()
    events = []
    try:
        events = list(stream)
    except Exception:
        pass  # a stream that breaks off is the other right answer
    assert not [e for e in events if e["type"] == "exit" and e["data"] == 0], events


def test_exit_codes_and_signals_are_told_as_they_were(sandbox):
    for code in (0, 1, 7, 255):
        assert sandbox.bash(f"exit {code}").code == code
    assert sandbox.bash("kill -9 $$").code == 128 + 9
    assert sandbox.bash("kill -SEGV $$").code == 128 + 11
    assert sandbox.bash("definitely-not-a-command").code == 127


def test_bytes_that_are_not_utf8_come_as_they_are(sandbox):
    run = sandbox.bash(r"printf '\xff\xfe\x00'; printf '\xc3\x28' >&2")
    assert run.code == 0
    assert run.stdout == b"\xff\xfe\x00" and run.stderr == b"\xc3\x28"
    assert any("data_base64" in e for e in run.events if e["type"] == "stdout")


def test_a_character_cut_in_two_by_the_stream_stays_whole(sandbox):
    run = sandbox.bash(r"printf '\xc3'; sleep 0.3; printf '\xa4\n'; for i in $(seq 50000); do printf '🤣'; done")
    assert run.stdout == "ä\n".encode() + "🤣".encode() * 50000


def test_every_byte_value_passes(sandbox):
    run = sandbox.bash("for i in $(seq 0 255); do printf \"\\\\x$(printf %02x $i)\"; done")
    assert run.stdout == bytes(range(256)), run


def test_a_very_long_line_is_complete(sandbox):
    run = sandbox.bash("head -c 200000 /dev/zero | tr '\\0' x")
    assert run.code == 0 and run.stdout == b"x" * 200000
    assert sandbox.bash_ok("echo ok") == "ok\n"


def test_a_flood_streams_whole(sandbox):
    run = sandbox.bash("yes | head -c 50M")
    assert run.code == 0
    assert len(run.stdout) == 50 * 1024 * 1024
    assert run.stdout.count(b"y\n") == 25 * 1024 * 1024


def test_a_flood_over_mcp_is_cut_in_the_middle_and_kept_whole_in_a_file(sandbox):
    result = sandbox.client.tool("run_bash", sandbox_id=sandbox.id, command="echo first; yes | head -c 50M; echo last")
    answer = result["structuredContent"]
    assert answer["truncated"] is True and answer["exit_code"] == 0
    assert len(answer["stdout"]) < 40_000
    assert answer["stdout"].startswith("first\n") and answer["stdout"].endswith("last\n")
    run = sandbox.bash("wc -c /tmp/.warren/* | tail -1")
    assert run.text.split()[0] == str(50 * 1024 * 1024 + len("first\nlast\n"))


def test_a_flood_beyond_what_is_kept_names_no_file(sandbox):
    answer = sandbox.client.tool("run_bash", sandbox_id=sandbox.id, command="head -c 300M /dev/zero")["structuredContent"]
    assert answer["truncated"] is True and "stdout_file" not in answer
    assert sandbox.bash_ok("ls /tmp/.warren | wc -l") == "0\n"


def test_bytes_that_are_not_utf8_can_be_had_over_mcp(sandbox):
    client, id = sandbox.client, sandbox.id
    answer = client.tool("run_bash", sandbox_id=id, command="printf '\\xff\\xfe\\x00' | tee /root/raw")["structuredContent"]
    assert answer["stdout"] == "\ufffd\ufffd\0"
    file = client.tool("download", sandbox_id=id, path="/root/raw")["structuredContent"]
    assert base64.b64decode(file["content_base64"]) == b"\xff\xfe\x00"


def test_mcp_takes_folder_and_environment_literally(sandbox):
    odd = "a \"b\" $(id) 'c'\n\U0001f923"
    sandbox.python_ok(f"import os; os.mkdir('/root/' + {odd!r})")
    answer = sandbox.client.tool("run_bash", sandbox_id=sandbox.id, cwd="/root/" + odd, env={"ODD": odd},
                                 command='printf %s "$ODD"; printf %s "$PWD"')["structuredContent"]
    assert answer["stdout"] == odd + "/root/" + odd


def test_many_short_lived_orphans_leave_no_zombies(sandbox):
    run = sandbox.bash("for i in $(seq 200); do sh -c 'sleep 0.1 &'; done; echo done")
    assert run.code == 0

    def reaped():
        states = sandbox.bash_ok("ps -e -o stat=,comm=").splitlines()
        return not [s for s in states if s.startswith("Z") or s.endswith(" sleep")]

    eventually(reaped, BOUND, "all orphans reaped")


def test_two_clients_in_one_sandbox_do_not_hear_each_other(sandbox):
    outputs = {}

    def talk(word):
        outputs[word] = sandbox.bash(f"for i in $(seq 500); do echo {word}; echo {word} >&2; done")

    threads = [threading.Thread(target=talk, args=(f"word{i}",)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(outputs) == 6
    for word, run in outputs.items():
        assert run.code == 0
        assert run.stdout == run.stderr == f"{word}\n".encode() * 500


NASTY = ["it's", 'say "hi"', "$(id)", "`id`", "a\nb", "🤣", "back\\slash", "; exit 9", "--help", "*", "%s%n", "\t "]


def test_environment_values_are_taken_literally(sandbox):
    env = {f"V{i}": value for i, value in enumerate(NASTY)}
    run = sandbox.bash("for i in $(seq 0 %d); do v=V$i; printf '%%s\\0' \"${!v}\"; done" % (len(NASTY) - 1), env=env)
    assert run.code == 0, run
    assert run.stdout.decode().split("\0")[:-1] == NASTY


def test_the_command_is_taken_literally(sandbox):
    quoted = "printf '%s' 'a\"b $(id) `id` 🤣\n\\'"
    assert sandbox.bash_ok(quoted) == 'a"b $(id) `id` 🤣\n\\'


def test_the_working_folder_is_taken_literally(sandbox):
    for name in NASTY:
        folder = f"/tmp/{name}"
        sandbox.bash_ok('mkdir -p -- "$D"', env={"D": folder})
        run = sandbox.bash("pwd", cwd=folder)
        assert run.stdout.decode() == folder + "\n", (name, run)


def test_a_missing_working_folder_is_a_clear_error(sandbox):
    answer = sandbox.client.request("POST", f"{sandbox.path}/exec",
                                    {"code": "pwd", "language": "bash", "cwd": "/no/such/folder"})
    if answer.status == 200:
        run = Run([json.loads(line) for line in answer.body.splitlines()])
        assert run.code != 0 and b"/no/such/folder" in run.stderr, run
    else:
        assert answer.status in (400, 404) and "/no/such/folder" in answer.error()
    sandbox.works()


def test_events_are_numbered_and_dated(sandbox):
    run = sandbox.bash("echo a; echo b >&2; echo c")
    assert [e["seq"] for e in run.events] == list(range(len(run.events)))
    stamps = [e["ts"] for e in run.events]
    assert stamps == sorted(stamps) and stamps[0] > 1_700_000_000_000


def test_output_comes_as_it_is_printed(sandbox):
    sandbox.bash_ok("mkfifo /tmp/gate")
    stream = sandbox.exec_stream("echo first; read -r < /tmp/gate; echo second", "bash")
    stream.wait_for_output(b"first\n")  # the command cannot end before the gate is opened
    sandbox.bash_ok("echo go > /tmp/gate")
    rest = Run(list(stream))
    assert rest.stdout == b"second\n" and rest.code == 0


def test_each_command_is_a_fresh_process_of_root_in_its_home(sandbox):
    sandbox.bash_ok("X=1; cd /; export Y=2")
    run = sandbox.bash("echo \"${X-none} ${Y-none} $(id -u) $PWD $HOME\"")
    assert run.text == "none none 0 /root /root\n"


def test_what_ends_just_when_its_answer_begins(module_sandbox):
    """The head of an answer waits 200 ms for what comes first: nothing of it is lost if that comes with the head."""
    def run(pause):
        return pause, module_sandbox.bash(f"sleep 0.{pause}; echo done")

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for pause, said in pool.map(run, range(150, 230)):
            assert said.code == 0 and said.stdout == b"done\n", (pause, said)

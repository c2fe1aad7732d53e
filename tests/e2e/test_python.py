"""The Python session over REST: state, results, figures, deadlines and deaths."""

import base64
import hashlib
import json
import re
import struct
import threading
import zlib

import pytest

import host
from warren_client import bytes_of

BOUND = 60
PNG = b"\x89PNG\r\n\x1a\n"


def test_state_stays_between_calls(sandbox):
    assert sandbox.python("x = 41").code == 0
    assert sandbox.python_ok("print(x + 1)") == "42\n"


def test_the_last_expression_is_the_result(sandbox):
    run = sandbox.python("1 + 1")
    assert run.code == 0 and run.results[0]["text/plain"] == "2"
    assert sandbox.python("1 + 1;").results == []
    assert sandbox.python("x = 5").results == []


def test_an_interrupted_call_whose_client_went_away_frees_the_session(sandbox):
    sandbox.python_ok("kept = 'kept'")
    stream = sandbox.exec_stream("import time\nprint('up', flush=True)\ntime.sleep(300)", "python")
    stream.wait_for_output(b"up")
    stream.cut()
    run = sandbox.python("1+1", wait=BOUND)
    assert run.results[0]["text/plain"] == "2"
    assert sandbox.python_ok("print(kept)") == "kept\n"


def test_top_level_await(sandbox):
    run = sandbox.python("import asyncio\nawait asyncio.sleep(0.1)\nprint('awaited')")
    assert run.code == 0 and run.stdout == b"awaited\n"


def test_magics_and_shell_escapes(sandbox):
    assert "hello" in sandbox.python_ok("!echo hello")
    assert sandbox.python("%cd /tmp").code == 0
    assert sandbox.python_ok("import os; print(os.getcwd())") == "/tmp\n"


def test_an_uncaught_exception_ends_the_call_not_the_session(sandbox):
    sandbox.python_ok("x = 1")
    run = sandbox.python("1/0")
    assert run.code == 1
    assert run.errors[0]["name"] == "ZeroDivisionError" and "division" in run.errors[0]["value"]
    assert "1/0" in "".join(run.errors[0]["traceback"])
    assert sandbox.python_ok("print(x)") == "1\n"


def test_a_syntax_error_is_told(sandbox):
    run = sandbox.python("def (:")
    assert run.code == 1 and run.errors[0]["name"] == "SyntaxError"
    sandbox.works()


def test_exit_ends_the_call_with_its_code_not_the_session(sandbox):
    sandbox.python_ok("x = 1")
    assert sandbox.python("raise SystemExit(4)").code == 4
    assert sandbox.python("exit(3)").code == 3
    assert sandbox.python_ok("print(x)") == "1\n"


def test_os_exit_is_told_as_the_runners_death(sandbox):
    run = sandbox.python("import os; os._exit(3)", wait=BOUND)
    assert run.code == 3, run
    assert run.exit["restarted"] is True and run.exit["died"], run
    assert sandbox.python("1+1", wait=BOUND).results[0]["text/plain"] == "2"


def test_a_segfault_is_told_as_what_it_was(sandbox):
    run = sandbox.python("import ctypes; ctypes.string_at(0)", wait=BOUND)
    assert run.code == 128 + 11, run
    assert "SIGSEGV" in run.exit["died"] and run.exit["restarted"] is True
    assert sandbox.python("1+1", wait=BOUND).results[0]["text/plain"] == "2"


def test_out_of_memory_is_told_as_what_it_was(sandbox):
    run = sandbox.python("b = []\nwhile True: b.append(b'\\x01' * 50_000_000)", wait=BOUND)
    assert run.code == 128 + 9, run
    assert run.exit["oom"] is True, run
    sandbox.works()


def test_out_of_memory_is_told_over_mcp(sandbox):
    result = sandbox.client.tool("run_python", sandbox_id=sandbox.id, wait=BOUND,
                                 code="b = []\nwhile True: b.append(b'\\x01' * 50_000_000)")
    answer = result["structuredContent"]
    assert result["isError"] is True and answer["out_of_memory"] is True and answer["restarted"] is True, result
    sandbox.works()


def test_output_before_a_death_is_not_lost(sandbox):
    run = sandbox.python("import os, sys\nos.write(1, b'last words\\n')\nprint('buffered', flush=True)\nos._exit(9)",
                         wait=BOUND)
    assert run.stdout == b"last words\nbuffered\n" and run.code == 9


def test_input_is_at_its_end(sandbox):
    run = sandbox.python("input()", wait=BOUND)
    assert run.code == 1 and run.errors[0]["name"] == "EOFError"
    run = sandbox.python("import sys; print(repr(sys.stdin.read()))", wait=BOUND)
    assert run.stdout == b"''\n"


def test_a_deadline_interrupts_and_keeps_the_session(sandbox):
    sandbox.python_ok("x = 1")
    run = sandbox.python("print('a', flush=True)\nimport time; time.sleep(600)", timeout_seconds=1, wait=BOUND)
    assert run.exit["timed_out"] is True and run.stdout == b"a\n", run
    assert not run.exit.get("restarted")
    assert sandbox.python_ok("print(x)") == "1\n"


def test_a_call_that_ignores_the_interrupt_is_killed_and_the_answer_says_so(sandbox):
    code = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\nwhile True: pass"
    run = sandbox.python(code, timeout_seconds=1, wait=BOUND)
    assert run.exit["timed_out"] is True and run.exit["restarted"] is True, run
    assert sandbox.python("1+1", wait=BOUND).results[0]["text/plain"] == "2"


def test_a_loop_that_swallows_every_exception_ends_all_the_same(sandbox):
    sandbox.python_ok("x = 1")
    code = "while True:\n  try:\n    while True: pass\n  except BaseException: pass"
    run = sandbox.python(code, timeout_seconds=1, wait=BOUND)
    assert run.exit["timed_out"] is True, run
    # The interrupt may have hit it outside of its try; then the state is kept.
    assert sandbox.python_ok("print('x' in globals())") == f"{not run.exit.get('restarted', False)}\n"
    sandbox.works()


def test_children_and_c_code_print_too(sandbox):
    run = sandbox.python("import subprocess, os, ctypes\n"
                         "print('one', flush=True)\n"
                         "subprocess.run(['echo', 'two'])\n"
                         "libc = ctypes.CDLL(None); libc.puts(b'three'); libc.fflush(None)\n"
                         "os.write(2, b'four\\n')")
    assert run.stdout == b"one\ntwo\nthree\n" and run.stderr == b"four\n"


def test_output_streams_while_the_call_runs(sandbox):
    sandbox.bash_ok("mkfifo /tmp/gate")
    stream = sandbox.exec_stream("print('first')\nopen('/tmp/gate').read()\nprint('second')", "python")
    stream.wait_for_output(b"first\n")
    sandbox.bash_ok("echo go > /tmp/gate")
    assert stream.wait_for_output(b"second\n")


def test_a_thread_that_prints_after_its_call_is_not_taken_for_the_next_one(sandbox):
    sandbox.python_ok("import threading, os, time\n"
                      "def later():\n"
                      "  while not os.path.exists('/tmp/go'): time.sleep(0.01)\n"
                      "  print('from the thread', flush=True)\n"
                      "  open('/tmp/said', 'w').close()\n"
                      "t = threading.Thread(target=later); t.start()")
    run = sandbox.python("open('/tmp/go', 'w').close()\n"
                         "import os, time\n"
                         "while not os.path.exists('/tmp/said'): time.sleep(0.01)\n"
                         "time.sleep(0.2)\nprint('own')", wait=BOUND)
    assert run.code == 0
    unmarked = b"".join(bytes_of(e) for e in run.events if e["type"] == "stdout" and not e.get("late"))
    everything = run.stdout
    assert unmarked == b"own\n", run
    if b"from the thread" not in everything:  # told by the call that came after it, then
        everything += sandbox.python("1").stdout
    assert b"from the thread" in everything


def test_a_child_left_running_that_prints_between_calls_is_not_lost(sandbox):
    sandbox.python_ok("import subprocess\n"
                      "p = subprocess.Popen('while [ ! -e /tmp/go ]; do sleep 0.01; done; echo from-child', shell=True)")
    sandbox.bash_ok("touch /tmp/go")
    sandbox.bash_ok("while pgrep -f '[f]rom-child' >/dev/null; do sleep 0.05; done")
    run = sandbox.python("print('own')")
    unmarked = b"".join(bytes_of(e) for e in run.events if e["type"] == "stdout" and not e.get("late"))
    assert unmarked == b"own\n", run
    assert b"from-child" in run.stdout


def test_one_call_at_a_time_others_queue(sandbox):
    sandbox.python_ok("log = []")
    threads = [threading.Thread(target=sandbox.python, args=(
        f"import time\nlog.append(('in', {i})); time.sleep(0.05); log.append(('out', {i}))",)) for i in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND)
    log = eval(sandbox.python("log").results[0]["text/plain"])
    assert len(log) == 10
    for i in range(0, 10, 2):
        assert log[i][0] == "in" and log[i + 1] == ("out", log[i][1]), log


def test_a_flood_is_streamed_in_bounded_memory(warren, sandbox):
    sandbox.python_ok("1")
    server = warren.server_pid
    host.reset_peak(server)
    before = host.resident_bytes(server)
    stream = sandbox.exec_stream("line = 'x' * 99 + '\\n'\nfor _ in range(1_000_000): print(line, end='')", "python")
    size = 0
    last = None
    for event in stream:
        if event["type"] == "stdout":
            size += len(bytes_of(event))
        last = event
    assert last["type"] == "exit" and last["data"] == 0 and size == 100_000_000
    assert host.peak_bytes(server) - before < 64 << 20


FLOODS = {
    "run_python": {"code": "import sys\nfor stream in sys.stdout, sys.stderr:\n"
                           "  print('first', file=stream)\n"
                           "  for _ in range(1_000_000): stream.write('x' * 99 + '\\n')\n"
                           "  print('last', file=stream)"},
    "run_bash": {"command": "for fd in 1 2; do (echo first; yes xxxxxxxxx | head -c 100000000; echo last) >&$fd; done"},
}


@pytest.mark.parametrize("tool", FLOODS)
def test_a_flood_over_mcp_is_cut_and_said_to_be_in_bounded_memory(warren, sandbox, tool):
    sandbox.works()
    server = warren.server_pid
    host.reset_peak(server)
    before = host.resident_bytes(server)
    result = sandbox.client.tool(tool, sandbox_id=sandbox.id, **FLOODS[tool])
    assert host.peak_bytes(server) - before < 32 << 20
    answer = result["structuredContent"]
    assert answer["truncated"] is True and answer["exit_code"] == 0
    text = "".join(c["text"] for c in result["content"] if c["type"] == "text")
    for stream in "stdout", "stderr":
        cut, file = answer[stream], answer[f"{stream}_file"]
        # 20 kB, and a line that says what is missing.
        assert 20_000 <= len(cut) < 20_300
        assert cut.startswith("first\n") and cut.endswith("last\n")
        head, note, tail = re.fullmatch(r"(.*)\n\[\.\.\. (.*) \.\.\.\]\n(.*)", cut, re.DOTALL).groups()
        left_out = 100_000_011 - len(head) - len(tail)
        assert note == f"{left_out} bytes left out here; the whole output is in {file}"
        assert note in text
        assert sandbox.bash_ok(f"stat -c %s {file}; head -c {len(head)} {file} | sha256sum").splitlines() == [
            "100000011", f"{hashlib.sha256(head.encode()).hexdigest()}  -"]
    sandbox.works()


@pytest.mark.parametrize("size,cut", [(20_000, False), (20_001, True)])
def test_over_mcp_each_stream_is_cut_beyond_20_kb_and_not_before(sandbox, size, cut):
    print_both = f"head -c {size} /dev/zero | tr '\\0' a; head -c 20000 /dev/zero | tr '\\0' b >&2"
    answer = sandbox.client.tool("run_bash", sandbox_id=sandbox.id, command=print_both)["structuredContent"]
    assert answer["truncated"] is cut and ("stdout_file" in answer) is cut, answer
    assert (answer["stdout"] == "a" * size) is not cut and 20_000 <= len(answer["stdout"]) < 20_300
    assert answer["stderr"] == "b" * 20_000 and "stderr_file" not in answer


def test_rich_values_come_as_mime_bundles(sandbox):
    run = sandbox.python("class T:\n  def _repr_html_(self): return '<b>t</b>'\nT()")
    assert run.results[0]["text/html"] == "<b>t</b>"
    run = sandbox.python("from IPython.display import display, JSON\ndisplay(JSON({'a': [1, 2]}))")
    assert run.code == 0 and run.bundles[0]["application/json"] == {"a": [1, 2]}


def figures(run):
    found = []
    for bundle in run.bundles:
        if "image/png" in bundle:
            found.append(base64.b64decode(bundle["image/png"]))
    return found


def test_figures_come_back_once(make_sandbox):
    sandbox = make_sandbox(template="python-datasci")
    run = sandbox.python("import matplotlib.pyplot as plt\nplt.bar(['a', 'b'], [1, 2])", wait=BOUND * 2)
    assert run.code == 0, run
    assert len(figures(run)) == 1 and figures(run)[0].startswith(PNG)
    run = sandbox.python("plt.plot([1, 2, 3]); plt.show()", wait=BOUND)
    assert len(figures(run)) == 1, [list(b) for b in run.bundles]
    assert figures(sandbox.python("1")) == []
    run = sandbox.python("for i in range(3):\n  plt.figure(); plt.plot([i, 2])", wait=BOUND)
    assert len(figures(run)) == 3


def assert_a_picture(png):
    """A whole PNG with something drawn in it: signature, chunks with their checksums, pixels of more than one colour."""
    assert png.startswith(PNG)
    chunks, at = [], len(PNG)
    while at < len(png):
        size, = struct.unpack_from(">I", png, at)
        kind, data = png[at + 4:at + 8], png[at + 8:at + 8 + size]
        assert struct.unpack_from(">I", png, at + 8 + size)[0] == zlib.crc32(kind + data)
        chunks.append((kind, data))
        at += 12 + size
    assert chunks[0][0] == b"IHDR" and chunks[-1] == (b"IEND", b"")
    width, height = struct.unpack_from(">II", chunks[0][1])
    assert width > 100 and height > 100
    pixels = zlib.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT"))
    assert len(pixels) > width * height and len(set(pixels)) > 10


def test_a_figure_over_mcp_is_image_content_once(make_sandbox):
    sandbox = make_sandbox(template="python-datasci")

    def run(code):
        result = sandbox.client.tool("run_python", sandbox_id=sandbox.id, code=code, timeout_seconds=BOUND)
        assert not result.get("isError"), result
        return result, [block for block in result["content"] if block["type"] == "image"]

    result, images = run("import matplotlib.pyplot as plt\nprint('drawn')\nplt.bar(['a', 'b'], [1, 2])")
    assert [block["type"] for block in result["content"]] == ["text", "image"], result
    assert images[0]["mimeType"] == "image/png"
    data = images[0]["data"]
    assert_a_picture(base64.b64decode(data, validate=True))
    # The structure says that it is there, and nothing else repeats its bytes.
    answer = result["structuredContent"]
    assert answer["stdout"] == "drawn\n"
    assert answer["images"] == [{"mime_type": "image/png", "size": len(base64.b64decode(data))}]
    assert data[:200] not in result["content"][0]["text"] and data[:200] not in json.dumps(answer)
    assert run("plt.plot([1, 2, 3]); plt.show()")[1] and not run("1")[1]
    assert len(run("for i in range(3):\n  plt.figure(); plt.plot([i, 2])")[1]) == 3


def test_data_frames_come_as_html(make_sandbox):
    sandbox = make_sandbox(template="python-datasci")
    run = sandbox.python("import pandas as pd\npd.DataFrame({'a': [1, 2]})", wait=BOUND * 2)
    assert "<table" in run.results[0]["text/html"] and "text/plain" in run.results[0]


def test_two_sandboxes_draw_different_random_numbers(make_sandbox):
    code = "import os, random, uuid\nprint(os.urandom(16).hex(), random.random(), uuid.uuid4())"
    drawn = [make_sandbox().python_ok(code).split() for _ in range(3)]
    for column in zip(*drawn):
        assert len(set(column)) == 3, drawn


def test_a_very_long_name_of_an_exception_is_cut_between_characters(sandbox):
    run = sandbox.python("raise type('a' + 'é' * 3000, (Exception,), {})('x')")
    assert run.code == 1, run
    sandbox.works()

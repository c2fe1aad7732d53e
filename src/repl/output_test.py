"""What is printed: order, attribution, amount."""

import time


def test_output_streams_as_it_comes(agent):
    agent.start("import time\nprint('now')\nprint('and', end='', flush=True)\ntime.sleep(1)\nprint('later')")
    start = time.monotonic()
    agent.until_output("and")
    assert time.monotonic() - start < 0.8
    assert agent.finish().out == "now\nandlater\n"


def test_python_c_and_children_keep_their_order(agent):
    call = agent.run("import os, sys, ctypes\nprint('1')\nos.write(1, b'2\\n')\n!echo 3\nprint('4', end='\\n')\n"
                     "ctypes.CDLL(None).puts(b'5')\nprint('6')\nos.system('echo 7')\nsys.stdout.buffer.write(b'8\\n')")
    assert call.out.split() == list("12345678")


def test_c_output_without_a_newline_is_not_lost(agent):
    assert agent.run("import ctypes\nctypes.CDLL(None).printf(b'no newline');").out == "no newline"


def test_an_unfinished_line_comes_before_what_follows_it(agent):
    call = agent.run("import os, sys\nprint('a', end='')\nos.system('echo b')\nprint('c', end='')\n"
                     "print('d', file=sys.stderr)\nprint('e', end='')\nif os.fork() == 0: os._exit(0)\nos.wait()\n"
                     "print('f' * 10000, end='')\nprint('g', end='')")
    assert call.out == "ab\nce" + "f" * 10000 + "g"
    assert [k for k, _ in call.events].count("stderr") == 1


def test_lines_of_threads_do_not_mix(agent):
    call = agent.run("import threading\nts = [threading.Thread(target=lambda n=n: [print(n, n, n) for _ in range(500)]) for n in range(8)]\n"
                     "[t.start() for t in ts]; [t.join() for t in ts]; None")
    assert sorted(call.out.splitlines()) == sorted(f"{n} {n} {n}" for n in range(8) for _ in range(500))


def test_messages_come_after_what_was_printed_before(agent):
    call = agent.run("import time\nprint('a')\ndisplay(1)\ntime.sleep(0.1)\nprint('b')\n2")
    assert [k for k, _ in call.events] == ["stdout", "display", "stdout", "result", "done"]


def test_both_streams_are_told_apart(agent):
    call = agent.run("import sys, logging\nprint('out')\nprint('err', file=sys.stderr)\nlogging.warning('log')")
    assert (call.out, call.err) == ("out\n", "err\nWARNING:root:log\n")


def test_any_text_and_any_bytes_can_be_printed(agent):
    call = agent.run(r"import sys; print('é🤣', '\udcff\udcfe', '\ud800', '\x00'); sys.stdout.buffer.write(b'\xff\xfe\x00');")
    assert call.stream("stdout") == "é🤣 ".encode() + b"\xff\xfe \\ud800 \x00\n\xff\xfe\x00"
    assert agent.run("print(1, 2, sep='-', end='!', flush=True)").out == "1-2!"
    assert agent.run("sys.stdout.writelines(['a', 'b'])").out == "ab"


def test_streams_look_like_files(agent):
    call = agent.run("import sys, io\nsys.stdout.fileno(), sys.stderr.fileno(), sys.stdout.encoding, sys.stdout.isatty(), "
                     "isinstance(sys.stdout, io.TextIOWrapper), sys.stdout.writable(), sys.stdout.name")
    assert call.value == "(1, 2, 'utf-8', False, True, True, '<stdout>')"
    assert agent.run("sys.stdout.reconfigure(line_buffering=True); print('x')").out == "x\n"


def test_redirection_works(agent):
    assert agent.run("import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as f: print('in')\nf.getvalue()").value == "'in\\n'"
    assert agent.call.out == ""


def test_threads_during_a_call_are_part_of_it(agent):
    call = agent.run("import threading\nt = threading.Thread(target=print, args=('thread',))\nt.start(); t.join()")
    assert call.out == "thread\n"
    assert not call.messages("late")


def late(call):
    return [(m["call"], m["stream"], m["text"]) for m in call.messages("late")]


def test_a_thread_after_its_call_is_late(agent):
    first = agent.run("import threading, time, sys\ndef f():\n    time.sleep(0.3)\n    print('idle é')\n"
                      "    print('err', file=sys.stderr)\n    time.sleep(0.7)\n    print('busy', 1)\n"
                      "    sys.stdout.write('no newline')\nt = threading.Thread(target=f)\nt.start()")
    agent.pump(0.7)
    assert late(first) == [(first.id, "stdout", "idle é\n"), (first.id, "stderr", "err\n")]
    second = agent.run("print('mine')\nt.join()\nprint('mine too')")
    assert second.out == "mine\nmine too\n"
    assert late(second) == [(first.id, "stdout", "busy 1\n"), (first.id, "stdout", "no newline")]


def test_threads_begun_by_late_threads_are_late_too(agent):
    first = agent.run("import threading, time\ndef inner(): print('inner')\ndef outer():\n    time.sleep(0.4)\n"
                      "    t = threading.Thread(target=inner)\n    t.start()\n    t.join()\nt = threading.Thread(target=outer)\nt.start()")
    second = agent.run("t.join()")
    assert late(second) == [(first.id, "stdout", "inner\n")]
    first = agent.run("threading.Timer(0.3, lambda: print('timer')).start()")
    second = agent.run("time.sleep(0.6)")
    assert late(second) == [(first.id, "stdout", "timer\n")]


def test_a_tasks_output_is_its_calls(agent):
    first = agent.run("import asyncio\nasync def f():\n    for i in range(2):\n        await asyncio.sleep(0.3)\n        print('task', i)\n"
                      "t = asyncio.create_task(f())\nawait asyncio.sleep(0)")
    agent.pump(0.45)
    assert late(first) == [(first.id, "stdout", "task 0\n")]
    second = agent.run("await t\nprint('second')")
    assert second.out == "second\n"
    assert late(second) == [(first.id, "stdout", "task 1\n")]


def test_a_pools_output_is_that_of_who_submitted(agent):
    agent.run("from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\npool.submit(print, 'one').result()")
    assert agent.call.out == "one\n"
    assert agent.run("pool.submit(print, 'two').result()").out == "two\n"
    assert agent.run("import asyncio\nawait asyncio.to_thread(print, 'three')").out == "three\n"
    assert agent.run("await asyncio.to_thread(print, 'four')").out == "four\n"


def test_a_flood_from_a_late_thread_loses_nothing(agent):
    first = agent.run("import threading, time\ndef flood():\n    time.sleep(0.2)\n    for i in range(20000): print(i)\n"
                      "t = threading.Thread(target=flood)\nt.start()")
    second = agent.run("t.join()")
    text = "".join(t for c, _, t in late(first) + late(second))
    assert text == "".join(f"{i}\n" for i in range(20000))


def test_an_exception_in_a_thread_is_told_on_stderr(agent):
    call = agent.run("import threading\nt = threading.Thread(target=lambda: 1/0)\nt.start(); t.join()")
    assert "ZeroDivisionError" in call.err
    assert call.code == 0


def test_much_output_is_quick_and_whole(agent):
    agent.keep = 0
    for code in ("print('x' * 100_000_000)", "for i in range(1000): print('x' * 99_999)", "import os; os.system('head -c 100000000 /dev/zero')"):
        agent.dropped = 0
        start = time.monotonic()
        agent.run(code)
        assert agent.dropped >= 100_000_000
        assert time.monotonic() - start < 10
    agent.keep = 64 << 20


def test_a_pipe_made_non_blocking_by_a_child_loses_nothing(agent):
    agent.keep = 0
    agent.dropped = 0
    agent.run("import os\nos.set_blocking(1, False)\nfor i in range(300): print('x' * 99_999)")
    assert agent.dropped == 30_000_000
    agent.keep = 64 << 20
    agent.run("os.set_blocking(1, True)")

"""Code that means no good, or does not know what it does."""

import pytest


@pytest.mark.parametrize(
    "code",
    [
        "class A:\n    def __repr__(self): raise RuntimeError('no repr')\nA()",
        "class A:\n    def __repr__(self): return 5\nA()",
        "class A:\n    def _repr_html_(self): raise RuntimeError('no html')\n    def __repr__(self): return 'A'\nA()",
    ],
)
def test_a_broken_repr_is_told_and_survived(agent, code):
    call = agent.run(code)
    assert call.code == 1
    assert call.error["name"] in ("RuntimeError", "TypeError")


def test_a_repr_that_exits_exits(agent):
    assert agent.run("class A:\n    def __repr__(self): raise SystemExit(9)\nA()").code == 9


def test_an_exception_without_text_is_told(agent):
    call = agent.run("class E(Exception):\n    def __str__(self): raise ValueError\nraise E")
    assert (call.code, call.error["name"]) == (1, "E")
    assert "unprintable" in call.error["value"]
    call = agent.run("class F(BaseException):\n    def __str__(self): return 5\n    __repr__ = __str__\nraise F")
    assert (call.code, call.error["name"]) == (1, "F")


@pytest.mark.parametrize("code", ["raise BaseException('base')", "raise GeneratorExit('base')",
                                  "import asyncio; raise asyncio.CancelledError('base')",
                                  "import asyncio; await asyncio.sleep(0); raise asyncio.CancelledError('base')"])
def test_base_exceptions_are_errors(agent, code):
    call = agent.run(code)
    assert (call.code, call.error["value"]) == (1, "base")


def test_endless_recursion_is_an_error_with_a_bounded_traceback(agent):
    call = agent.run("def f(n): return f(n + 1)\nf(0)")
    assert (call.code, call.error["name"]) == (1, "RecursionError")
    assert len(call.error["traceback"]) < 200_000
    call = agent.run("import sys; sys.setrecursionlimit(20000)\ndef f(n):\n    if n == 0: raise ValueError('deep')\n    f(n - 1)\nf(15000)\n")
    assert (call.code, call.error["name"]) == (1, "ValueError")
    assert len(call.error["traceback"]) < 200_000
    agent.run("sys.setrecursionlimit(1000)")


def test_chained_exceptions_are_all_told(agent):
    call = agent.run("try:\n    1/0\nexcept Exception as e:\n    raise KeyError('second') from e")
    assert "ZeroDivisionError" in call.error["traceback"] and "second" in call.error["traceback"]
    call = agent.run("raise ExceptionGroup('many', [ValueError(1), TypeError(2)])")
    assert call.error["name"] == "ExceptionGroup"


def test_an_exception_with_a_huge_text_is_cut(agent):
    call = agent.run("raise ValueError('x' * 10_000_000)")
    assert call.code == 1
    assert len(call.error["value"]) < 200_000 and len(call.error["traceback"]) < 200_000


def test_no_memory_is_an_error(agent):
    call = agent.run("x = bytearray(1 << 60)")
    assert (call.code, call.error["name"]) == (1, "MemoryError")


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.stdout = None",
        "import sys; sys.stdout.close()",
        "import sys; del sys.stdout",
        "import sys; sys.stdout.detach()",
        "import sys; sys.stderr = sys.stdout = 5",
        "import sys; sys.displayhook = None",
        "import sys; sys.excepthook = None",
        "import sys; sys.modules.clear()",
        "import json, os; json.dumps = os.write = os.read = None",
        "import builtins; builtins.print = None",
        "import os; os.close(1)",
        "import os; os.close(2); os.close(0)",
        "import os; os.dup2(os.open('/dev/null', os.O_WRONLY), 1)",
        "import os\nfor fd in range(3, 200):\n    try: os.close(fd)\n    except OSError: pass",
        "import signal\nfor s in (2, 10, 12, 14, 15, 17): signal.signal(s, lambda *a: 1/0)",
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))",
        "import threading; threading.Thread.start = None",
        "get_ipython().displayhook = None; get_ipython().display_formatter = None",
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
        "import gc; gc.disable(); globals().clear()",
        "import time; time.sleep = time.time = time.monotonic = None",
        "import os; os.chdir('/tmp'); os.mkdir('/tmp/gone%d' % os.getpid()); os.chdir('/tmp/gone%d' % os.getpid()); os.rmdir(os.getcwd())",
        "import asyncio\nasyncio.get_event_loop_policy().new_event_loop().close(); asyncio.set_event_loop(None)",
    ],
)
def test_what_a_call_breaks_is_its_own(fresh, code):
    """The protocol goes on, whatever the code does to its process."""
    assert fresh.run(code).done
    assert fresh.run("x = 1").done["exit_code"] in (0, 1)
    assert fresh.run("1 / 0").done["exit_code"] == 1


def test_a_closed_stdout_comes_back(fresh):
    fresh.run("import sys, os; sys.stdout.close()")
    assert fresh.run("print('again')").out == "again\n"


def test_an_alarm_left_behind_does_not_hit_the_session(fresh):
    fresh.run("import signal\ndef boom(*a): raise TimeoutError('alarm')\nsignal.signal(signal.SIGALRM, boom)\n"
              "signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)")
    fresh.pump(0.3)
    for _ in range(20):
        assert fresh.run("for i in range(100000): pass").done
    fresh.run("signal.setitimer(signal.ITIMER_REAL, 0)")
    fresh.run("signal.setitimer(signal.ITIMER_REAL, 0)")
    assert fresh.run("1+1").value == "2"


def test_an_alarm_ends_its_own_call(fresh):
    call = fresh.run("import signal, time\ndef boom(*a): raise TimeoutError('alarm')\n"
                     "signal.signal(signal.SIGALRM, boom)\nsignal.alarm(1)\ntime.sleep(30)", limit=10)
    assert call.error["name"] == "TimeoutError"


def test_a_forked_child_stays_out_of_the_conversation(agent):
    call = agent.run("import os\nprint('before')\npid = os.fork()\nif pid:\n    status = os.waitpid(pid, 0)[1] >> 8\n"
                     "else:\n    print('child')\n    1/0\nstatus")
    assert call.value == "1"
    assert call.out == "before\nchild\n"
    assert "ZeroDivisionError" in call.err
    call = agent.run("pid = os.fork()\nif pid: print(os.waitpid(pid, 0)[1] >> 8)\nelse: exit(5)")
    assert call.out == "5\n" and call.code == 0
    call = agent.run("pid = os.fork()\nif pid: os.waitpid(pid, 0)\nelse: 'child'\nNone")
    assert [k for k, _ in call.events] == ["done"]


def test_multiprocessing_works(agent):
    call = agent.run("import multiprocessing as mp\ndef sq(n):\n    print('sq', n)\n    return n * n\n"
                     "with mp.get_context('fork').Pool(2) as p: r = p.map(sq, [1, 2, 3])\nr")
    assert call.value == "[1, 4, 9]"
    assert sorted(call.out.split()) == ["1", "2", "3", "sq", "sq", "sq"]
    assert agent.run("from concurrent.futures import ProcessPoolExecutor as P\n"
                     "with P(1) as p: v = p.submit(sq, 4).result()\nv").value == "16"

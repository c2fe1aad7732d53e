"""SIGINT, the agent's way to end a call."""

import time

import pytest

RUNNING = [
    ("sleep", "import time\nprint('go')\ntime.sleep(60)"),
    ("busy loop", "print('go')\nwhile True: pass"),
    ("await", "import asyncio\nprint('go')\nawait asyncio.sleep(60)"),
    ("busy coroutine", "import asyncio\nprint('go')\nasync def f():\n    while True: pass\nawait f()"),
    ("asyncio.run", "import asyncio\nprint('go')\nasyncio.run(asyncio.sleep(60))"),
    ("command", "print('go')\n!sleep 60"),
    ("command in a shell", "print('go')\n!sleep 60; true"),
    ("deaf command", "print('go')\n!trap '' INT; sleep 60; true"),
    ("os.system", "import os\nprint('go')\nos.system('sleep 60; true')"),
    ("subprocess", "import subprocess\nprint('go')\nsubprocess.run(['sleep', '60'])"),
    ("print loop", "print('go')\nwhile True: print('x' * 100)"),
    ("big print", "print('go')\nwhile True: print('x' * 10_000_000)"),
    ("display loop", "print('go')\nwhile True: display(1)"),
    ("repr", "import time\nclass A:\n    def __repr__(self):\n        print('go')\n        time.sleep(60)\nA()"),
    ("text of an exception", "import time\nclass E(Exception):\n    def __str__(self):\n        print('go')\n"
                             "        time.sleep(60)\nraise E"),
    ("lock", "import threading\nprint('go')\nl = threading.Lock()\nl.acquire()\nl.acquire()"),
    ("thread join", "import threading, time\nprint('go')\nthreading.Thread(target=time.sleep, args=(3,)).start()\n"
                    "[t.join() for t in threading.enumerate() if t is not threading.main_thread()]"),
    ("bash magic", "print('go')\n%sx sleep 60"),
    ("magic", "import time\nprint('go')\n%time time.sleep(60)"),
    ("nested", "print('go')\nget_ipython().run_cell('import time; time.sleep(60)')"),
    ("a handler of the user's", "import signal, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
                                "print('go')\ntime.sleep(60)"),
]


@pytest.mark.parametrize("code", [c for _, c in RUNNING], ids=[n for n, _ in RUNNING])
def test_a_call_can_be_interrupted(agent, code):
    agent.keep = 1 << 20
    agent.start(code)
    agent.until_output("go")
    agent.pump(0.15)
    start = time.monotonic()
    agent.interrupt()
    call = agent.finish(limit=20)
    assert time.monotonic() - start < 4
    assert call.code == 130
    assert call.messages("error")[-1]["name"] == "KeyboardInterrupt"


def test_interrupted_is_said(agent):
    agent.start("import time\nprint('go')\ntime.sleep(60)")
    agent.until_output("go")
    agent.interrupt()
    assert agent.finish().done == {"op": "done", "id": agent.call.id, "exit_code": 130, "interrupted": True}


def test_a_command_is_gone_after_its_interrupt(agent):
    agent.start("print('go')\n!sleep 61.5; true")
    agent.until_output("go")
    agent.pump(0.15)
    agent.interrupt()
    agent.finish()
    assert agent.run("!pgrep -f '^sleep 61.5$'").out == ""


def test_cleaning_up_happens(agent):
    agent.start("import asyncio\ntry:\n    print('go')\n    await asyncio.sleep(60)\nfinally:\n    print('cleaned')")
    agent.until_output("go")
    agent.interrupt()
    assert "cleaned" in agent.finish().out


def test_a_call_may_survive_its_interrupt(agent):
    agent.start("import time\ntry:\n    print('go')\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    pass\n'on'")
    agent.until_output("go")
    agent.interrupt()
    call = agent.finish()
    assert (call.value, call.code) == ("'on'", 0)


def test_between_calls_an_interrupt_is_nothing(agent):
    for _ in range(5):
        agent.interrupt()
        agent.pump(0.02)
    assert agent.run("1+1").value == "2"
    agent.run("import threading, time\nstop = threading.Event()\nt = threading.Thread(target=stop.wait)\nt.start()")
    for _ in range(20):
        agent.interrupt()  # may reach the process by that thread
        agent.pump(0.005)
    assert agent.run("1+1").value == "2"
    agent.run("stop.set()")


def test_interrupts_at_any_moment_tear_nothing(agent):
    """Every call is answered, by whole messages, whenever SIGINT comes."""
    agent.run("import threading\nstop = threading.Event()\nthreading.Thread(target=stop.wait).start()")
    for n in range(200):
        agent.start("display('a' * 5000)\nx = [display(i) for i in range(20)]\n'r'")
        agent.pump(0.0001 * (n % 20))
        agent.interrupt()
        call = agent.finish(limit=20)
        assert call.code in (0, 130)
    agent.pump(0.1)
    agent.run("stop.set()")


def test_a_users_handler_lasts_for_its_call(agent):
    agent.run("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)")
    agent.start("import time\nprint('go')\ntime.sleep(60)")
    agent.until_output("go")
    agent.interrupt()
    assert agent.finish(limit=10).code == 130

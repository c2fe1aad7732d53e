"""What Python users meet in a child: libraries that hold threads, processes, sockets or random state."""

import pytest

BOUND = 60


def told(run, *words):
    """The call failed with an error of its own, and did not hang."""
    assert run.code == 1 and run.errors, run
    for word in words:
        assert word in run.errors[0]["name"] + run.errors[0]["value"], run.errors
    return True


def test_new_threads_and_pools_work(sandbox, fork):
    sandbox.python_ok("import threading, queue\nfrom concurrent.futures import ThreadPoolExecutor, ProcessPoolExecutor\n"
                      "lock = threading.Lock(); q = queue.Queue(); event = threading.Event(); local = threading.local(); local.x = 1")
    child, = fork(sandbox)
    assert child.python_ok("t = threading.Thread(target=lambda: q.put(1)); t.start(); t.join(); print(q.get(timeout=5))\n"
                           "with lock: print('locked')\n"
                           "with ThreadPoolExecutor(3) as pool: print(list(pool.map(abs, [-1, -2])), local.x)\n"
                           "threading.Timer(0.01, event.set).start(); print(event.wait(10))") == "1\nlocked\n[1, 2] 1\nTrue\n"


def test_a_thread_pool_made_before_says_that_it_is_gone(sandbox, fork):
    sandbox.python_ok("from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2); print(list(pool.map(abs, [-1])))")
    child, = fork(sandbox)
    told(child.python("pool.submit(abs, -2).result(timeout=20)", wait=BOUND), "fork")
    assert child.python_ok("pool = ThreadPoolExecutor(2); print(list(pool.map(abs, [-1])))") == "[1]\n"
    assert sandbox.python_ok("print(pool.submit(abs, -3).result(timeout=20))") == "3\n"


def test_a_process_started_before_is_not_the_child_s(sandbox, fork):
    sandbox.python_ok("import subprocess\np = subprocess.Popen(['sleep', '926'])\n"
                      "piped = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)")
    child, = fork(sandbox)
    assert any("sleep 926" in one for one in child.not_copied["processes"]), child.not_copied
    # It must not pass for one that has ended well.
    assert child.python_ok("print(p.poll() == 0)") == "False\n"
    run = child.python("print(piped.communicate(b'x', timeout=20))", wait=BOUND)
    assert run.code == 1 and run.errors, run
    assert child.python_ok("print(subprocess.run(['echo', 'hi'], capture_output=True).stdout)") == "b'hi\\n'\n"
    assert sandbox.python_ok("print(p.poll(), piped.communicate(b'x')); p.kill(); print(p.wait())") == "None (b'x', None)\n-9\n"


def test_asyncio_goes_on_and_what_it_waited_for_is_over(sandbox, fork):
    sandbox.python_ok("import asyncio\n"
                      "loop = asyncio.get_event_loop()\n"
                      "async def later():\n    await asyncio.sleep(600)\n"
                      "task = asyncio.ensure_future(later())\n"
                      "await asyncio.sleep(0)")
    child, = fork(sandbox)
    assert child.python_ok("await asyncio.sleep(0.01)\nprint(sum(await asyncio.gather(*[asyncio.sleep(0.01, n) for n in range(4)])))\n"
                           "print(loop.is_closed())") in ("6\nFalse\n", "6\nTrue\n")
    assert child.python_ok("proc = await asyncio.create_subprocess_exec('echo', 'hi', stdout=asyncio.subprocess.PIPE)\n"
                           "print((await proc.communicate())[0])") == "b'hi\\n'\n"
    assert sandbox.python_ok("print(task.done()); task.cancel(); await asyncio.sleep(0); print(task.cancelled())") == "False\nTrue\n"


def test_a_sqlite_connection_goes_on_in_each(sandbox, fork):
    sandbox.python_ok("import sqlite3\ndb = sqlite3.connect('/root/a.db')\n"
                      "db.execute('create table t (x)'); db.executemany('insert into t values (?)', [(n,) for n in range(5)]); db.commit()\n"
                      "memory = sqlite3.connect(':memory:'); memory.execute('create table m (x)'); memory.execute('insert into m values (7)')")
    a, b = fork(sandbox, 2)
    a.python_ok("db.execute('insert into t values (100)'); db.commit(); memory.execute('insert into m values (8)')")
    assert a.python_ok("print(db.execute('select sum(x) from t').fetchone(), memory.execute('select sum(x) from m').fetchone())") == "(110,) (15,)\n"
    for one in (b, sandbox):
        assert one.python_ok("print(db.execute('select sum(x) from t').fetchone(), memory.execute('select sum(x) from m').fetchone())") == "(10,) (7,)\n"
    assert a.python_ok("db.close(); print(sqlite3.connect('/root/a.db').execute('pragma integrity_check').fetchone())") == "('ok',)\n"


def test_logging_and_tempfile(sandbox, fork):
    sandbox.python_ok("import logging, tempfile, sys, os\n"
                      "logging.basicConfig(filename='/root/app.log', level=logging.INFO); logging.info('before')\n"
                      "to_stream = logging.StreamHandler(sys.stdout); logging.getLogger('s').addHandler(to_stream)\n"
                      "folder = tempfile.TemporaryDirectory(); named = tempfile.NamedTemporaryFile('w+'); named.write('x'); named.flush()")
    child, = fork(sandbox)
    assert child.python_ok("logging.info('child'); logging.getLogger('s').warning('streamed')\n"
                           "print(os.path.isdir(folder.name), open(named.name).read(), os.path.exists(tempfile.mkdtemp()))") == "streamed\nTrue x True\n"
    sandbox.python_ok("logging.info('parent')")
    assert child.bash_ok("cut -d: -f3 /root/app.log") == "before\nchild\nstreamed\n"
    assert sandbox.bash_ok("cut -d: -f3 /root/app.log") == "before\nparent\n"
    child.python_ok("folder.cleanup(); named.close()")
    assert sandbox.python_ok("print(os.path.isdir(folder.name), os.path.exists(named.name))") == "True True\n"


def test_subprocess_multiprocessing_and_signals(sandbox, fork):
    sandbox.python_ok("import signal, multiprocessing as mp, subprocess, os, time\nticks = []\n"
                      "_ = signal.signal(signal.SIGALRM, lambda *_: ticks.append(1))")
    child, = fork(sandbox)
    assert child.python_ok("with mp.get_context('fork').Pool(2) as pool: print(pool.map(abs, [-1, -2]))\n"
                           "_ = signal.setitimer(signal.ITIMER_REAL, 0.05); time.sleep(0.3); print(ticks)") == "[1, 2]\n[1]\n"
    assert child.python_ok("pid = os.fork()\nif pid == 0: os._exit(5)\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))") == "5\n"
    stream = child.exec_stream("while True: pass", "python", timeout_seconds=2)
    assert list(stream)[-1]["data"] in (124, 130)
    child.works()


def test_history_and_magics_go_on(sandbox, fork):
    sandbox.python_ok("%cd /tmp\nalias = 1")
    assert sandbox.python("6 * 7").results
    child, = fork(sandbox)
    assert child.python_ok("print(_, alias)\n!pwd") == "42 1\n/tmp\n"
    assert child.python("1/0").errors[0]["name"] == "ZeroDivisionError"


@pytest.fixture
def science(make_sandbox):
    return make_sandbox(template="python-datasci")


def test_numpy_with_blas(science, fork):
    code = "a = np.random.default_rng(1).random((300, 300)); print(round(float((a @ a).sum()), 3), np.linalg.svd(a, compute_uv=False)[0].round(3))"
    science.python_ok("import numpy as np")
    expected = science.python_ok(code)  # which starts the library's threads
    children = fork(science, 3)
    for one in (*children, science):
        assert one.python_ok(code, timeout_seconds=50) == expected


def test_pandas_and_scipy(science, fork):
    science.python_ok("import pandas as pd, numpy as np\nfrom scipy import optimize\nframe = pd.DataFrame({'x': np.arange(100_000), 'y': np.arange(100_000) % 7})")
    child, = fork(science)
    assert child.python_ok("frame['z'] = frame.x * 2; print(frame.groupby('y').z.sum().sum(), round(optimize.brentq(lambda v: v**2 - 4, 0, 5), 6))") == \
        f"{99_999 * 100_000} 2.0\n"
    assert science.python_ok("print(list(frame.columns))") == "['x', 'y']\n"


def test_figures_of_matplotlib(science, fork):
    science.python_ok("import matplotlib.pyplot as plt\nplt.figure(); plt.plot([1, 2, 3])\nplt.close()")
    child, = fork(science)
    run = child.python("plt.plot([3, 2, 1]); plt.title('child')")
    assert run.code == 0 and any("image/png" in bundle for bundle in run.bundles), run
    run = science.python("plt.plot([3, 2, 1])")
    assert any("image/png" in bundle for bundle in run.bundles), run


def test_hooks_of_fork_run_in_parent_and_child(sandbox, fork):
    sandbox.python_ok("import os\nran = []\n"
                      "os.register_at_fork(before=lambda: ran.append('before'), after_in_child=lambda: ran.append('child'), after_in_parent=lambda: ran.append('parent'))")
    child, = fork(sandbox)
    assert child.python_ok("print(ran)") == "['before', 'child']\n"
    assert sandbox.python_ok("print(ran)") == "['before', 'parent']\n"


def test_a_hook_that_fails_or_starts_processes(sandbox, fork):
    sandbox.python_ok("import os, subprocess\n"
                      "os.register_at_fork(before=lambda: subprocess.run(['true']), after_in_child=lambda: 1/0, after_in_parent=lambda: subprocess.run(['true']))\nx = 3")
    child, = fork(sandbox)
    assert child.python_ok("print(x)") == "3\n"
    assert sandbox.python_ok("print(x)") == "3\n"

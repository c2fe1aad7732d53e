"""What a fork takes along, in a plain fork whose child has lost its descriptors, as it
has in another sandbox."""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

FOLDER = pathlib.Path(__file__).resolve().parent

HARNESS = """
import importlib.util, json, os, sys
spec = importlib.util.spec_from_file_location("_warren_repl", {folder!r} + "/__init__.py",
                                              submodule_search_locations=[{folder!r}])
package = importlib.util.module_from_spec(spec)
sys.modules["_warren_repl"] = package
spec.loader.exec_module(package)
from _warren_repl.luggage import Luggage

said, say = os.pipe()
{before}
luggage = Luggage({{0, 1, 2, said, say}}, {keep_random}, globals())
if os.fork() == 0:
    os.chdir("/")
    os.umask(0o777)
    for _name in os.listdir("/proc/self/fd"):
        if int(_name) not in (0, 1, 2, say):
            try:
                os.close(int(_name))
            except OSError:
                pass
    luggage.unpack()
    answer = {{}}
    try:
{after}
    except BaseException as error:
        answer["failed"] = repr(error)
    os.write(say, json.dumps(answer).encode())
    os._exit(0)
os.wait()
print(json.dumps([json.loads(os.read(said, 1 << 16)), luggage.not_copied]))
"""


def moved(folder, before, after, keep_random=False):
    """Runs `before`, forks, runs `after` in the child; its `answer`, and what was not copied."""
    code = HARNESS.format(
        folder=str(FOLDER), before=textwrap.dedent(before), keep_random=keep_random,
        after=textwrap.indent(textwrap.dedent(after), " " * 8),
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    answer, not_copied = json.loads(done.stdout)
    assert "failed" not in answer, answer
    return answer, not_copied


def test_files_are_read_on_from_the_same_place_and_appends_go_on(tmp_path):
    (tmp_path / "read").write_text("0123456789")
    answer, not_copied = moved(
        tmp_path,
        "r = open('read'); r.read(4); a = open('log', 'a'); a.write('before'); a.flush()\n"
        "w = open('out', 'w+'); w.write('abc'); w.flush(); number = w.fileno()",
        "answer['rest'] = os.read(r.fileno(), 3).decode()\n"
        "a.write(' after'); a.flush()\n"
        "w.write('def'); w.flush()\n"
        "answer['number'] = w.fileno() == number",
    )
    assert answer["number"]
    assert (tmp_path / "log").read_text() == "before after"
    assert (tmp_path / "out").read_text() == "abcdef"
    assert not_copied == {}


def test_a_file_without_a_name_travels_with_its_content(tmp_path):
    answer, not_copied = moved(
        tmp_path,
        "import tempfile; t = tempfile.TemporaryFile(); t.write(b'kept'); t.flush(); t.seek(1)",
        "answer['rest'] = t.read().decode()",
    )
    assert answer == {"rest": "ept"}
    assert not_copied == {}


def test_what_cannot_exist_twice_is_a_dead_end_and_is_named(tmp_path):
    answer, not_copied = moved(
        tmp_path,
        "import socket\n"
        "mine, other = socket.socketpair()\n"
        "number = mine.fileno()",
        "try:\n"
        "    mine.recv(1)\n"
        "except ConnectionResetError:\n"
        "    answer['reset'] = True\n"
        "answer['same number'] = mine.fileno() == number\n"
        "fd = os.open('/dev/null', os.O_RDONLY)\n"
        "answer['taken'] = fd in (mine.fileno(), other.fileno())",
    )
    assert answer == {"reset": True, "same number": True, "taken": False}
    assert len(not_copied["descriptors"]) == 2
    assert all("socket:" in one for one in not_copied["descriptors"])


def test_folder_umask_and_handlers_are_as_they_were(tmp_path):
    (tmp_path / "place").mkdir()
    answer, _ = moved(
        tmp_path,
        "import signal\n"
        "os.chdir('place'); os.umask(0o27)\n"
        "hits = []\n"
        "signal.signal(signal.SIGUSR1, lambda *_: hits.append(1))\n"
        "signal.signal(signal.SIGUSR2, signal.SIG_IGN)",
        "answer['folder'] = os.getcwd()\n"
        "answer['umask'] = os.umask(0)\n"
        "os.kill(os.getpid(), signal.SIGUSR2)\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\n"
        "answer['hits'] = len(hits)",
    )
    assert answer == {"folder": str(tmp_path / "place"), "umask": 0o27, "hits": 1}


def test_threads_are_counted(tmp_path):
    _, not_copied = moved(
        tmp_path,
        "import threading, time\n"
        "for _ in range(3): threading.Thread(target=time.sleep, args=(20,), daemon=True).start()",
        "pass",
    )
    assert not_copied == {"threads": 3}


def test_random_numbers_are_fresh_unless_they_are_to_be_kept(tmp_path):
    before = "import random; random.seed(1); expected = random.Random(1).random()"
    after = "answer['same'] = random.random() == expected"
    assert moved(tmp_path, before, after)[0] == {"same": False}
    assert moved(tmp_path, before, after, keep_random=True)[0] == {"same": True}


MADE = """
import pickle, random
from _warren_repl.generators import follow_generators
follow_generators()
class Mine(random.Random):
    pass
class Odd(random.Random):
    __hash__ = None
made = {
    "unseeded": random.Random(), "of a class": Mine(), "odd": Odd(), "seeded": random.Random(5), "seeded later": random.Random(),
    "unseeded later": random.Random(5), "restored": random.Random(), "copied": pickle.loads(pickle.dumps(random.Random())),
}
made["seeded later"].seed(7)
made["unseeded later"].seed()
made["restored"].setstate(random.Random(9).getstate())
def draw():
    return {name: one.random() for name, one in made.items()}
states = {name: one.getstate() for name, one in made.items()}
before = draw()
for name, state in states.items():
    random.Random.__base__.setstate(made[name], state[1])
"""


def test_generators_that_were_seeded_are_copied_and_others_draw_anew(tmp_path):
    after = "now = draw(); answer['same'] = sorted(name for name in now if now[name] == before[name])"
    answer, _ = moved(tmp_path, MADE, after)
    assert answer == {"same": ["copied", "odd", "restored", "seeded", "seeded later"]}
    answer, _ = moved(tmp_path, MADE, after, keep_random=True)
    assert len(answer["same"]) == 8


def test_numpys_generators_that_variables_hold_likewise(tmp_path):
    before = """
    import copy, numpy as np
    unseeded, seeded, wide = np.random.default_rng(), np.random.default_rng(42), np.random.default_rng([1, 2])
    old, old_seeded, philox = np.random.RandomState(), np.random.RandomState(5), np.random.Generator(np.random.Philox())
    inside = [np.random.default_rng()]
    def draw(names):
        return {name: float(names[name].random()) for name in ("unseeded", "seeded", "wide", "philox")} | {
            "inside": float(names["inside"][0].random()),
            "old": float(names["old"].random_sample()), "old_seeded": float(names["old_seeded"].random_sample())}
    before = draw(copy.deepcopy({name: globals()[name] for name in
                                 ("unseeded", "seeded", "wide", "philox", "inside", "old", "old_seeded")}))
    """
    after = "now = draw(globals()); answer['same'] = sorted(name for name in now if now[name] == before[name])"
    answer, _ = moved(tmp_path, before, after)
    assert answer == {"same": ["inside", "old_seeded", "seeded", "wide"]}
    answer, _ = moved(tmp_path, before, after, keep_random=True)
    assert len(answer["same"]) == 7


def test_openssl_draws_other_numbers_than_its_parent(tmp_path):
    answer, _ = moved(
        tmp_path,
        "import ssl; os.getpid = lambda: 1; first = ssl.RAND_bytes(8)",
        "answer['drawn'] = ssl.RAND_bytes(8).hex()",
    )
    assert len(answer["drawn"]) == 16


def test_a_pool_whose_threads_are_gone_says_so(tmp_path):
    answer, _ = moved(
        tmp_path,
        before="""
        import time
        from concurrent.futures import ThreadPoolExecutor
        pool = ThreadPoolExecutor(1)
        running = pool.submit(time.sleep, 2)
        queued = pool.submit(abs, -1)
        while not running.running(): time.sleep(0.01)
        """,
        after="""
        answer["said"] = []
        for attempt in (lambda: pool.submit(abs, -2), lambda: running.result(5), lambda: queued.result(5)):
            try: attempt()
            except Exception as error: answer["said"].append(type(error).__name__ + ": " + str(error))
        with ThreadPoolExecutor(1) as new: answer["new"] = new.submit(abs, -3).result(5)
        """)
    assert answer["new"] == 3
    assert len(answer["said"]) == 3 and all("BrokenThreadPool" in one and "forked" in one for one in answer["said"]), answer


def test_a_process_that_is_not_here_has_not_ended_well(tmp_path):
    answer, _ = moved(
        tmp_path,
        before="""
        import subprocess
        from _warren_repl.left_behind import follow_processes
        follow_processes()
        ended = subprocess.Popen(["true"]); ended.wait()
        lives = subprocess.Popen(["sleep", "3"])
        """,
        after="""
        answer["codes"] = [ended.poll(), lives.poll(), lives.wait()]
        answer["new"] = subprocess.run(["false"]).returncode
        """)
    assert answer == {"codes": [0, -9, -9], "new": 1}

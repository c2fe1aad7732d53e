"""A sandbox's Python session is a fork of its template's: what it is, what it must not
share with its siblings, and what becomes of it."""

import os

import host
from warren_client import eventually

BOUND = 60
# A process that the runtime has put into the sandbox has no parent in there.
IS_FORK = "import os; print(os.getppid())"


def test_a_session_is_a_fork_and_its_first_call_finds_it_ready(sandbox):
    assert sandbox.python_ok(IS_FORK) == "0\n"
    assert sandbox.python_ok("import sys; print(sys.executable, sys.argv, sys.path[0] == '')") == "/usr/bin/python3 [''] True\n"
    opened = sandbox.python_ok("for n in os.listdir('/proc/self/fd'):\n"
                               "    try: print(n, os.readlink('/proc/self/fd/' + n).split(':')[0])\n"
                               "    except OSError: pass")
    # IPython holds /dev/null open for itself.
    assert dict(line.split() for line in opened.splitlines()) == {
        "0": "/dev/null", "1": "pipe", "2": "pipe", "3": "/dev/null", "250": "pipe", "251": "pipe"}
    assert sandbox.python_ok("print(os.getcwd(), oct(os.umask(0o22)))") == "/root 0o22\n"


def test_a_fork_works_as_a_session_started_by_itself_does(sandbox):
    assert sandbox.python_ok("import subprocess; print(subprocess.run(['echo', 'hi'], capture_output=True).stdout)") == "b'hi\\n'\n"
    assert sandbox.python_ok("!echo $HOME $USER") == "/root root\n"
    assert sandbox.python_ok("import threading\nt = threading.Thread(target=print, args=('in a thread',))\nt.start(); t.join()") == "in a thread\n"
    assert sandbox.python_ok("import asyncio\nawait asyncio.sleep(0.01)\nprint('awaited')") == "awaited\n"
    assert sandbox.python_ok("import multiprocessing as m\nwith m.get_context('fork').Pool(2) as p: print(p.map(abs, [-1, -2]))") == "[1, 2]\n"
    assert sandbox.python("input()").errors[0]["name"] == "EOFError"
    run = sandbox.python("import ctypes; ctypes.string_at(0)", wait=BOUND)
    assert run.code == 139, run
    sandbox.works()


def test_what_ended_a_fork_is_told(sandbox):
    assert sandbox.python("import os; os._exit(3)", wait=BOUND).code == 3
    assert sandbox.python("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", wait=BOUND).code in (130, 143)
    assert sandbox.python_ok("print('on')") == "on\n"


def test_no_two_sandboxes_draw_the_same_numbers(make_sandbox):
    draw = ("import os, random, uuid, ssl, tempfile\n"
            "print(os.urandom(8).hex(), random.random(), uuid.uuid4(), ssl.RAND_bytes(8).hex(), tempfile.mktemp())")
    drawn = [make_sandbox().python_ok(draw).split() for _ in range(3)]
    for numbers in zip(*drawn):
        assert len(set(numbers)) == 3, numbers
    again = [make_sandbox(template="python-datasci").python_ok(
        "import numpy; print(numpy.random.random(), numpy.random.default_rng().random())").split() for _ in range(3)]
    for numbers in zip(*again):
        assert len(set(numbers)) == 3, numbers


def test_a_fork_has_the_sandbox_s_ids_rights_and_filter(sandbox, warren):
    fields = "Uid Gid Groups CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp".split()
    by_session = sandbox.python_ok(f"print([l.split()[1:] for l in open('/proc/self/status') if l.split(':')[0] in {fields}])")
    by_command = sandbox.bash_ok(
        f"python3 -c \"print([l.split()[1:] for l in open('/proc/self/status') if l.split(':')[0] in {fields}])\"")
    assert by_session == by_command
    inside = "print(sorted(os.readlink(f'/proc/self/ns/{n}') for n in ('cgroup', 'ipc', 'mnt', 'net', 'pid', 'user', 'uts')))"
    assert sandbox.python_ok("import os; " + inside) == sandbox.bash_ok(f'python3 -c "import os; {inside}"')
    cgroups = sandbox.python_ok("print(open('/proc/self/cgroup').read())").split()
    assert cgroups == sandbox.bash_ok("cat /proc/self/cgroup").split()
    limits = sandbox.python_ok("import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CORE))")
    assert limits == sandbox.bash_ok("python3 -c 'import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CORE))'")


def test_the_template_s_program_cannot_be_changed_through_a_fork(sandbox):
    attempts = ("import os\n"
                "for attempt in (lambda: os.chmod('/proc/self/exe', 0o777), lambda: os.open('/proc/self/exe', os.O_WRONLY),\n"
                "                lambda: os.setxattr('/proc/self/exe', 'user.x', b'y'), lambda: os.chown('/proc/self/exe', 1, 1),\n"
                "                lambda: os.utime('/proc/self/exe')):\n"
                "    try: attempt(); print('done')\n"
                "    except OSError as error: print('refused')")
    assert sandbox.python_ok(attempts) == "refused\n" * 5


def test_memory_of_a_fork_counts_as_the_sandbox_s(sandbox):
    run = sandbox.python("block = bytearray(3 << 30)", wait=BOUND)
    assert run.code == 137 or run.errors, run
    assert sandbox.python_ok("print('on')", wait=BOUND) == "on\n"


def test_a_session_cannot_make_the_runtime_its_tracer(make_sandbox):
    """Whom the runtime traces it would have to reap, thread by thread."""
    sandbox = make_sandbox()
    code = ("import ctypes, threading\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "def trace(): print(libc.ptrace(0, 0, 0, 0), ctypes.get_errno())\n"
            "t = threading.Thread(target=trace); t.start(); t.join()\n"
            "print(libc.syscall(56, 0x2000 | 17, 0, 0, 0, 0), ctypes.get_errno())")
    assert sandbox.python_ok(code) == "-1 1\n-1 1\n"
    sandbox.destroy()


def test_nothing_of_a_fork_is_left_when_its_sandbox_ends(start_server):
    warren = start_server()
    client = warren.client
    client.create().destroy()

    def children():
        return len([p for p in host.processes().values() if p.parent == warren.runtime_pid])

    before = eventually(lambda: children(), BOUND, "the runtime's children")
    for _ in range(20):
        sandbox = client.create()
        assert sandbox.python_ok(IS_FORK) == "0\n"
        sandbox.destroy()
    eventually(lambda: children() <= before, BOUND, "no more children than before")


def test_a_template_s_session_that_is_killed_is_made_again(start_server):
    warren = start_server()
    client = warren.client
    assert client.create().python_ok(IS_FORK) == "0\n"
    keepers = [p.pid for p in host.processes().values() if p.parent == warren.runtime_pid and p.state == "t"]
    assert keepers, "no keeper is held"
    for pid in keepers:
        os.kill(pid, 9)
    client.create().works()
    eventually(lambda: client.create().python_ok(IS_FORK) == "0\n", 150, "a warm template again")

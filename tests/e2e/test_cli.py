"""The command line for people."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from warren_client import eventually
from warren_server import program

BOUND = 60


@pytest.fixture
def cli_sandbox(warren):
    done = warren.command("sandbox", "create")
    assert done.returncode == 0, done
    sandbox_id = next(word for word in done.stdout.split() if word.startswith("sbx_"))
    yield sandbox_id
    warren.command("sandbox", "rm", sandbox_id)


def test_create_list_rm(warren, client):
    done = warren.command("sandbox", "create", "--name", "by-hand", "--template", "default")
    assert done.returncode == 0, done
    sandbox_id = next(word for word in done.stdout.split() if word.startswith("sbx_"))
    assert sandbox_id in client.ids()
    listed = warren.command("sandbox", "list")
    assert listed.returncode == 0 and sandbox_id in listed.stdout and "by-hand" in listed.stdout
    gone = warren.command("sandbox", "rm", sandbox_id)
    assert gone.returncode == 0, gone
    assert sandbox_id not in client.ids()
    again = warren.command("sandbox", "rm", sandbox_id)
    assert again.returncode != 0 and sandbox_id in again.stderr


def test_exec_passes_output_and_exit_code(warren, cli_sandbox):
    done = warren.command("sandbox", "exec", cli_sandbox, "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    done = warren.command("sandbox", "exec", cli_sandbox, r"printf '\xff\x00'", text=False)
    assert done.stdout == b"\xff\x00"
    done = warren.command("sandbox", "exec", cli_sandbox, "--", "printf", "%s|", "a b", "$(id)", "it's")
    assert done.stdout == "a b|$(id)|it's|"
    done = warren.command("sandbox", "exec", cli_sandbox, "kill -9 $$")
    assert done.returncode == 137


def test_python_passes_output_results_and_exit_code(warren, cli_sandbox):
    done = warren.command("sandbox", "python", cli_sandbox, "-c", "x = 41; print('hello')")
    assert done.returncode == 0 and done.stdout == "hello\n"
    done = warren.command("sandbox", "python", cli_sandbox, "-c", "x + 1")
    assert done.returncode == 0 and "42" in done.stdout
    done = warren.command("sandbox", "python", cli_sandbox, "-c", "1/0")
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr
    done = warren.command("sandbox", "python", cli_sandbox, "-", input="print(x)\n")
    assert done.returncode == 0 and done.stdout == "41\n"


def test_cp_both_ways(warren, cli_sandbox, tmp_path):
    data = os.urandom(3_000_000)
    (tmp_path / "here").write_bytes(data)
    done = warren.command("sandbox", "cp", str(tmp_path / "here"), f"{cli_sandbox}:/root/there")
    assert done.returncode == 0, done
    done = warren.command("sandbox", "cp", f"{cli_sandbox}:/root/there", str(tmp_path / "back"))
    assert done.returncode == 0, done
    assert (tmp_path / "back").read_bytes() == data
    done = warren.command("sandbox", "cp", f"{cli_sandbox}:/no/such", str(tmp_path / "none"))
    assert done.returncode != 0 and "/no/such" in done.stderr and not (tmp_path / "none").exists()


def test_what_is_printed_at_the_start_can_be_done(warren, tmp_path):
    with open(warren.log_path, errors="replace") as file:
        printed = file.read()
    assert f"Warren serves at {warren.url}" in printed and warren.key not in printed, "the log is no terminal"
    setting = next(line for line in printed.splitlines() if line.strip().startswith("export PATH="))
    curl = next(line for line in printed.splitlines() if line.strip().startswith("curl "))
    cli = "".join(line + "\n" for line in printed.splitlines() if line.strip().startswith("warren sandbox "))
    done = subprocess.run(["bash", "-ec", f"{curl}\n{setting}\n{cli}warren sandbox rm first"], cwd=tmp_path, timeout=BOUND,
                          env={"PATH": "/usr/bin:/bin"}, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.endswith("42\n"), done
    warren.client.sandbox(json.loads(done.stdout.splitlines()[0])["id"]).destroy()


def test_the_configs_name_a_program_that_is_there(warren):
    printed = warren.command("mcp", "--configs")
    assert printed.returncode == 0 and warren.url in printed.stdout
    assert f'"command": "{os.path.realpath(program())}"' in printed.stdout


def test_wrong_use_is_told_and_exits_with_an_error(warren):
    for arguments in (("sandbox",), ("sandbox", "exec"), ("sandbox", "exec", "sbx_" + "0" * 32, "true"),
                      ("nonsense",), ("sandbox", "create", "--template", "nope"), ("--no-such-option",)):
        done = warren.command(*arguments)
        assert done.returncode not in (0, -6, -11), (arguments, done)
        assert done.stderr or done.stdout
    assert "nonsense is not known" in warren.command("nonsense").stderr
    assert "nonsense is not known" in warren.command("sandbox", "nonsense").stderr


def test_without_a_server_it_says_which_address_it_tried(warren):
    environment = {**warren.environment, "WARREN_LISTEN": "127.0.0.1:1"}
    done = subprocess.run([program(), "sandbox", "list"], env=environment, capture_output=True, text=True, timeout=BOUND)
    assert done.returncode != 0 and "127.0.0.1:1" in done.stderr


def test_a_wrong_key_is_told(warren):
    environment = {**warren.environment, "WARREN_KEY": "wrong"}
    done = subprocess.run([program(), "sandbox", "list"], env=environment, capture_output=True, text=True, timeout=BOUND)
    assert done.returncode != 0 and "key" in done.stderr.lower()


def test_doctor_says_what_is_there(warren):
    done = warren.command("doctor")
    assert done.returncode == 0, done
    text = done.stdout.lower()
    for word in ("cgroup", "btrfs", "overlay", "user namespace", "seccomp"):
        assert word in text, word


def test_template_list(warren):
    done = warren.command("template", "list")
    assert done.returncode == 0 and "default" in done.stdout and "python-datasci" in done.stdout


class Terminal:
    """`warren sandbox shell` on a terminal of the test's own."""

    def __init__(self, warren, sandbox_id, rows=24, columns=80, command=()):
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.process = subprocess.Popen([program(), "sandbox", "shell", sandbox_id, *command], env={**warren.environment, "TERM": "xterm"},
                                        stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.seen = b""

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def expect(self, text):
        """Reads until `text` appears; forgets all up to it."""
        text = text.encode()
        end = time.monotonic() + BOUND
        while text not in self.seen:
            assert time.monotonic() < end, f"no {text!r} in {self.seen!r}"
            if select.select([self.master], [], [], 1)[0]:
                try:
                    data = os.read(self.master, 65536)
                except OSError:
                    data = b""
                assert data, f"the terminal closed before {text!r}: {self.seen!r}"
                self.seen += data
        before, self.seen = self.seen.split(text, 1)
        return before

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(BOUND)
        os.close(self.master)


@pytest.fixture
def terminal(warren, cli_sandbox):
    opened = []

    def open_terminal(**options):
        opened.append(Terminal(warren, cli_sandbox, **options))
        return opened[-1]

    yield open_terminal
    for one in opened:
        one.close()


def test_the_shell_has_the_size_of_the_terminal_and_follows_it(terminal):
    shell = terminal(rows=30, columns=100)
    shell.type("stty size; echo en''d\r")
    assert b"30 100" in shell.expect("end")
    shell.type("trap 'echo got-''winch' WINCH; echo rea''dy\r")
    shell.expect("ready")
    shell.resize(40, 120)
    shell.process.send_signal(signal.SIGWINCH)
    shell.type("\r")
    shell.expect("got-winch")
    shell.type("stty size; echo en''d\r")
    assert b"40 120" in shell.expect("end")


def test_the_shell_is_a_terminal_with_job_control(terminal):
    shell = terminal()
    shell.type("tty && test -t 0 && test -t 1 && echo is-a-''tty\r")
    shell.expect("is-a-tty")
    shell.type("sleep 600; echo inter''rupted\r")
    time.sleep(0.5)
    shell.type("\x03")
    shell.type("\recho ba''ck\r")
    shell.expect("back")
    shell.type("cat\r")
    time.sleep(0.3)
    shell.type("ec''ho\r")
    shell.expect("ec''ho")
    shell.type("\x04")
    shell.type("echo af''ter\r")
    shell.expect("after")


def test_the_shell_s_exit_code_is_the_command_line_s(terminal):
    shell = terminal()
    shell.type("exit 5\r")
    eventually(lambda: select.select([shell.master], [], [], 0)[0] and _drain(shell) or shell.process.poll() is not None,
               BOUND, "the shell's end")
    assert shell.process.wait(BOUND) == 5


def _drain(shell):
    try:
        os.read(shell.master, 65536)
    except OSError:
        pass
    return shell.process.poll() is not None


def test_a_shell_whose_terminal_goes_away_ends_inside(warren, cli_sandbox, terminal):
    shell = terminal()
    shell.type("sleep 906\r")
    sandbox = warren.client.sandbox(cli_sandbox)
    eventually(lambda: sandbox.bash("pgrep -f '[s]leep 906'").code == 0, BOUND)
    shell.process.kill()
    eventually(lambda: sandbox.bash("pgrep -f '[s]leep 906'").code != 0, BOUND, "the end of what the shell ran")


def test_the_local_terminal_is_left_as_it_was(terminal):
    shell = terminal()
    before = termios.tcgetattr(shell.master)
    shell.type("echo rea''dy\r")
    shell.expect("ready")
    shell.type("exit\r")
    eventually(lambda: _drain(shell), BOUND)
    assert termios.tcgetattr(shell.master) == before

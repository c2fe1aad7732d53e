"""What somebody meets who is new to Warren, or mistypes: nothing is made by accident, and each refusal says what to do."""

import os
import subprocess
import sys
import tempfile

import pytest

from warren_client import eventually
from warren_server import REPOSITORY, WITHOUT_NETWORK, Warren, free_port, program, templates_folder, toml

BOUND = 60


def run(*arguments, **environment):
    return subprocess.run([program(), *arguments], env={"PATH": "/usr/bin:/bin", **environment}, cwd="/", stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=BOUND)


@pytest.mark.parametrize("command", ["key create x", "key list", "key revoke wrn_aaaaaaaa", "account create x", "account list", "account rm x",
                                     "sandbox list", "sandbox create", "mcp", "mcp --configs"])
def test_only_the_server_makes_a_home(tmp_path, command):
    home = tmp_path / "mistyped"
    done = run(*command.split(), WARREN_HOME=str(home))
    assert done.returncode == 125 and done.stdout == "", done
    assert done.stderr.startswith(f"warren: there is no Warren home in {home}") and "export WARREN_HOME=" in done.stderr, done
    assert "warren serve" in done.stderr and not home.exists()


def test_a_home_with_nothing_but_templates_is_none_yet(tmp_path):
    (tmp_path / "templates").mkdir()
    done = run("key", "create", "x", WARREN_HOME=str(tmp_path))
    assert done.returncode == 125 and "no Warren home" in done.stderr and os.listdir(tmp_path) == ["templates"]


def test_through_sudo_it_says_how_the_home_is_passed_on():
    """With the default home, which this machine is made to lack for that."""
    done = subprocess.run(["unshare", "--mount", "sh", "-c", f"mount -t tmpfs none /var/lib && exec {program()} key list"],
                          env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SUDO_UID": "1000"}, capture_output=True, text=True, timeout=BOUND)
    assert done.returncode == 125 and "no Warren home in /var/lib/warren" in done.stderr and "sudo WARREN_HOME=" in done.stderr, done


def test_templates_of_a_mistyped_home_are_told_as_such(tmp_path):
    done = run("template", "list", WARREN_HOME=str(tmp_path / "mistyped"))
    assert done.returncode == 0 and "not built" in done.stdout and "no Warren home" in done.stderr


def test_where_no_server_runs_the_home_is_named(start_server):
    warren = start_server()
    key = warren.key
    warren.stop()
    for environment in ({}, {"WARREN_KEY": key}):
        done = run("sandbox", "list", WARREN_HOME=warren.home, **environment)
        assert done.returncode == 125 and f"running with WARREN_HOME={warren.home}?" in done.stderr, done
    done = run("sandbox", "list", WARREN_HOME=warren.home, WARREN_URL="http://127.0.0.1:1")
    assert done.stderr.endswith("is `warren serve` running?\n"), done


def test_usage_errors_are_told_like_all_others(warren):
    for arguments, command in (((), "warren"), (("key",), "warren key"), (("key", "create", "--nope"), "warren key create"),
                               (("sandbox", "create", "one", "two"), "warren sandbox create"), (("nonsense",), "warren"),
                               (("sandbox", "nonsense"), "warren sandbox"), (("sandbox", "exec"), "warren sandbox exec"),
                               (("sandbox", "create", "--ttl", "\x1b[2J"), "warren sandbox create")):
        done = warren.command(*arguments)
        assert done.returncode == 125 and done.stdout == "", done
        assert done.stderr.startswith("warren: ") and done.stderr.endswith(f"; see `{command} --help`\n"), done
        assert done.stderr.count("\n") == 1 and "\x1b" not in done.stderr, done
    asked = warren.command("sandbox", "create", "--help")
    assert asked.returncode == 0 and "--template" in asked.stdout and asked.stderr == ""


def test_a_name_that_is_taken_is_refused(warren, client):
    first = warren.command("sandbox", "create", "--name", "it's taken")
    assert first.returncode == 0, first
    sandbox = client.sandbox(first.stdout.strip())
    before = client.ids()
    again = warren.command("sandbox", "create", "--name", "it's taken")
    assert again.returncode == 125 and "already" in again.stderr and sandbox.id in again.stderr and client.ids() == before
    sandbox.destroy()
    freed = warren.command("sandbox", "create", "--name", "it's taken")
    assert freed.returncode == 0, freed
    client.sandbox(freed.stdout.strip()).destroy()


def test_the_configs_say_whose_key_is_in_them(warren):
    printed = warren.command("mcp", "--configs")
    assert printed.returncode == 0 and warren.key in printed.stdout
    assert "operator's" in printed.stderr and "warren key create" in printed.stderr and warren.key not in printed.stderr
    own, own_id = warren.new_key("an-agent")
    told = subprocess.run([program(), "mcp", "--configs"], env={**warren.environment, "WARREN_KEY": own}, cwd="/", stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=BOUND)
    assert told.returncode == 0 and own in told.stdout and warren.key not in told.stdout and told.stderr == ""
    warren.command("key", "revoke", own_id)


def test_the_start_says_only_what_matters_to_people(warren):
    with open(warren.log_path, errors="replace") as file:
        start = file.read().partition("Ctrl-C stops")[0]
    assert "ready\n" in start
    for word in ("limit", "descriptors", "oom_score", "not built", "build what sandboxes start from"):
        assert word not in start, start


class WithoutTemplates(Warren):
    def wait_warm(self, deadline=0):
        """There is nothing to be warm."""


def test_a_server_without_templates_says_so_and_how_to_build_one():
    home = tempfile.mkdtemp(prefix="warren-test-")
    os.chmod(home, 0o755)
    with open(f"{home}/warren.toml", "w") as file:
        file.write(toml({"egress": WITHOUT_NETWORK}))
    warren = WithoutTemplates(home, free_port())
    try:
        warren.launch()
        eventually(lambda: "Ctrl-C stops" in warren.log(), BOUND)
        first = warren.log().index("build what sandboxes start from")
        assert first < warren.log().index("warren sandbox create") and "warren template build default\n" in warren.log()
        assert f"the template default is not built in {home}/templates" in warren.log()
        refused = warren.command("sandbox", "create")
        assert refused.returncode == 125 and "not built yet" in refused.stderr and "warren template build default" in refused.stderr
        # Once there is one it is used, without another start.
        built, = (name for name in os.listdir(templates_folder()) if name == current("default"))
        os.mkdir(f"{home}/templates")
        os.symlink(f"{templates_folder()}/{built}", f"{home}/templates/{built}")
        eventually(lambda: warren.command("sandbox", "create").returncode == 0, BOUND)
        warren.stop()
    finally:
        warren.discard()


def current(template):
    """The folder that a built template of today's definition has."""
    done = run("template", "list", WARREN_HOME="/nonexistent")
    digest = next(words[-1] for words in (line[:48].split() for line in done.stdout.splitlines()) if words[0] == template)
    return f"{template}-{digest}"


def test_the_prompt_says_who_where_and_in_which_folder(warren, sandbox):
    done = subprocess.run(["script", "-qec", f"{program()} sandbox shell {sandbox.id}", "/dev/null"], input="cd /tmp\nexit\n",
                          env={**warren.environment, "PATH": "/usr/bin:/bin"}, cwd="/", capture_output=True, text=True, timeout=BOUND)
    host = sandbox.bash_ok("hostname").strip()
    assert f"root@{host}:~# " in done.stdout and f"root@{host}:/tmp# " in done.stdout, done


def test_package_managers_give_up_without_a_network(sandbox):
    """With their own settings pip tries five times more and npm for over a minute."""
    pip = sandbox.bash("pip install nothing-of-this-name")
    assert pip.code != 0 and pip.stderr.count(b"Retrying") == 1 and b"name resolution" in pip.stderr, pip
    npm = sandbox.bash("npm config get fetch-retries fetch-retry-mintimeout; npm install nothing-of-this-name")
    assert npm.code != 0 and "fetch-retries=1" in npm.text and "fetch-retry-mintimeout=1000" in npm.text, npm
    assert b"getaddrinfo" in npm.stderr and b"registry" in npm.stderr, npm


def example(**environment):
    return subprocess.run([sys.executable, str(REPOSITORY / "examples" / "tree_of_thought.py")], cwd="/", stdin=subprocess.DEVNULL,
                          env={"PATH": "/usr/bin:/bin", **environment}, capture_output=True, text=True, timeout=240)


def test_the_example_says_what_it_lacks(tmp_path, warren):
    keyless = example(WARREN_HOME=str(tmp_path))
    assert keyless.returncode == 1 and keyless.stderr.count("\n") == 1 and "WARREN_KEY" in keyless.stderr and str(tmp_path) in keyless.stderr
    wrong = example(WARREN_URL=warren.url, WARREN_KEY="wrong")
    assert wrong.returncode == 1 and wrong.stderr.count("\n") == 1 and "401" in wrong.stderr and "key" in wrong.stderr
    nowhere = example(WARREN_URL="http://127.0.0.1:1", WARREN_KEY="wrong")
    assert nowhere.returncode == 1 and nowhere.stderr.count("\n") == 1 and "warren serve" in nowhere.stderr


def test_the_example_finds_server_and_key_in_the_home(warren, client):
    before = client.ids()
    done = example(WARREN_HOME=warren.home)
    assert done.returncode == 0 and "goes on with: days and seasons" in done.stdout, done
    assert client.ids() == before

"""What the pages tell people to type does what they say: each line is run as it is printed there,
but for the address, the home and the ids."""

import json
import os
import pty
import re
import shlex
import subprocess
import threading

import pytest

from warren_server import REPOSITORY, build_folder

BOUND = 60
ID = re.compile(r"sbx_[0-9a-f]{32}")


def code_blocks(page):
    return re.findall(r"^```\w*\n(.*?)^```$", (REPOSITORY / page).read_text(), re.DOTALL | re.MULTILINE)


def is_whole(command):
    try:
        return not command.endswith("\\\n") and bool(shlex.split(command))
    except ValueError:  # a quotation is open
        return False


def curls(page):
    """The curl commands of a page's code blocks, each as it stands there."""
    found = []
    for block in code_blocks(page):
        command = ""
        for line in block.splitlines(keepends=True):
            if command or line.startswith("curl "):
                command += line
            if command and is_whole(command):
                found.append(command)
                command = ""
        assert not command, f"{page} has a curl without an end: {command}"
    return found


def typed(warren, text, **variables):
    """Runs it in a shell; what it printed."""
    text = text.replace("127.0.0.1:7070", f"127.0.0.1:{warren.port}").replace("/var/lib/warren", warren.home)
    done = subprocess.run(["bash", "-ec", text], env={"PATH": "/usr/bin:/bin", **variables}, cwd="/", stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=BOUND)
    assert done.returncode == 0, done
    return done.stdout


def structured(text, request_id):
    answer = json.loads(text)
    assert answer["id"] == request_id and not answer["result"].get("isError"), answer
    assert answer["result"]["content"][0]["text"]
    return answer["result"]["structuredContent"]


def streamed(text):
    """The standard output that an exec streamed, a JSON object a line."""
    events = [json.loads(line) for line in text.splitlines()]
    assert events[-1]["type"] == "exit" and events[-1]["data"] == 0, events
    return "".join(event["data"] for event in events if event["type"] == "stdout")


@pytest.fixture(autouse=True)
def no_sandbox_is_left(client):
    before = client.ids()
    yield
    left = client.ids() - before
    for one in left:
        client.sandbox(one).destroy()
    assert not left


def test_the_curls_of_the_skill_file(warren, client):
    variables = {"WARREN_URL": warren.url, "WARREN_KEY": warren.key}
    create, run, destroy = curls("docs/SKILL.md")
    sandbox_id = structured(typed(warren, create, **variables), 1)["sandbox_id"]
    assert sandbox_id in client.ids()
    ran = structured(typed(warren, run.replace("SANDBOX_ID_FROM_ABOVE", sandbox_id), **variables), 2)
    assert ran["stdout"] == "4\n"
    assert structured(typed(warren, destroy.replace("SANDBOX_ID_FROM_ABOVE", sandbox_id), **variables), 9)["destroyed"] is True
    assert sandbox_id not in client.ids()


def test_the_curl_of_the_mcp_page(warren, client):
    create, = curls("docs/api/mcp.md")
    made = structured(typed(warren, create, WARREN_KEY=warren.key), 1)
    assert made["template"] == "default"
    client.sandbox(made["sandbox_id"]).destroy()


def test_the_curls_of_the_rest_page(warren, client):
    variables = {"W": warren.url, "K": warren.key}
    create, run, destroy = curls("docs/api/podflare.md")
    made = json.loads(typed(warren, create, **variables))
    assert made["state"] == "ready" and made["egress"] == "none"
    assert streamed(typed(warren, run, ID=made["id"], **variables)) == "4\n"
    assert typed(warren, destroy, ID=made["id"], **variables) == ""
    assert made["id"] not in client.ids()


def test_the_curls_of_the_readme(warren, client):
    create, run = curls("README.md")
    key = next(line for block in code_blocks("README.md") for line in block.splitlines() if line.startswith("KEY="))
    made = json.loads(typed(warren, f"{key}\n{create}"))
    assert made["id"] in client.ids()
    assert streamed(typed(warren, f"{key}\n{run.replace('/ID/', '/' + made['id'] + '/')}")) == "42\n"
    client.sandbox(made["id"]).destroy()


def test_no_page_has_a_curl_that_is_not_run_here():
    pages = [path.relative_to(REPOSITORY) for path in [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")]]
    found = {str(page): len(curls(page)) for page in pages}
    assert {page: count for page, count in found.items() if count} == {
        "docs/SKILL.md": 3, "docs/api/mcp.md": 1, "docs/api/podflare.md": 3, "README.md": 2}


def test_the_forks_of_the_readme(warren, client):
    block = next(block for block in code_blocks("README.md") if "warren sandbox fork" in block)
    done = subprocess.run(["bash", "-ec", block], env={**warren.environment, "PATH": f"{build_folder()}/bin:/usr/bin:/bin"}, cwd="/",
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BOUND)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "499500", done


def test_the_first_session_of_the_readme(warren):
    """On a terminal, whose user leaves the shell with `exit`."""
    block = next(block for block in code_blocks("README.md") if "warren sandbox shell" in block)
    script = block.replace("$PWD/build", str(build_folder()))
    terminal, ours = pty.openpty()
    try:
        process = subprocess.Popen(["bash", "-ec", script], env={**warren.environment, "PATH": "/usr/bin:/bin", "TERM": "xterm"}, cwd="/",
                                   stdin=ours, stdout=ours, stderr=ours, start_new_session=True)
        os.close(ours)
        watch = threading.Timer(BOUND, process.kill)
        watch.start()
        seen = b""
        try:
            while data := os.read(terminal, 65536):
                seen += data
                if seen.endswith(b"# "):  # the prompt of root in the sandbox
                    os.write(terminal, b"exit\r")
        except OSError:  # everybody has left the terminal
            pass
        status = process.wait(BOUND)
        watch.cancel()
    finally:
        os.close(terminal)
    text = seen.decode(errors="replace").replace("\r\n", "\n")
    assert status == 0, text
    lines = text.splitlines()
    assert any(ID.search(line) for line in lines), text
    assert "42" in lines and "hello" in lines and any(line.endswith(" note") or line.endswith("/root/note") for line in lines), text

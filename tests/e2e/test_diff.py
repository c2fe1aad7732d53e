"""What differs in the files of two sandboxes, in all faces, and that it costs what was changed."""

import base64
import json
import urllib.parse

import pytest

from warren_client import eventually

BOUND = 60
UNKNOWN = "sbx_" + "0" * 32


def diff(one, other, *paths, **query):
    pairs = [("paths", path) for path in paths] + list(query.items())
    words = "?" + urllib.parse.urlencode(pairs) if pairs else ""
    return one.client.expect(200, "GET", f"{one.path}/diff/{other.id}{words}").json()


def names(found):
    return {kind: [entry["path"] for entry in found[kind]] for kind in ("added", "removed", "modified")}


@pytest.fixture
def changed(sandbox, fork):
    """A parent and a child that has one of each."""
    sandbox.bash_ok("cd /root; echo one > file; echo 1 > gone; mkdir d; echo 1 > d/kept; ln -s a link; echo m > mode; mkdir old; echo 1 > old/in; echo t > kind; echo 1 > /tmp/t; echo 1 > /srv/s")
    child, = fork(sandbox)
    child.bash_ok("cd /root; echo two, longer > file; rm gone; mkdir new; echo 12345 > new/in; ln -sf b link; chmod 600 mode; rm -r old; rm kind; mkdir kind; touch d/kept; "
                  "echo 22 > /tmp/t; echo 22 > /srv/s; echo x > /srv/more")
    return sandbox, child


def test_what_was_added_removed_and_modified_with_sizes(changed):
    parent, child = changed
    found = diff(parent, child)
    assert set(found) == {"added", "removed", "modified", "truncated"} and found["truncated"] is False
    assert names(found) == {"added": ["/root/new", "/root/new/in"], "removed": ["/root/gone", "/root/old", "/root/old/in"],
                            "modified": ["/root/file", "/root/kind", "/root/link", "/root/mode", "/tmp/t"]}, found
    of = {entry["path"]: entry for kind in ("added", "removed", "modified") for entry in found[kind]}
    assert of["/root/new/in"] == {"path": "/root/new/in", "type": "file", "size": 6, "mode": "0644"}
    assert (of["/root/gone"]["size"], of["/root/old"]["type"]) == (2, "directory")
    assert (of["/root/file"]["size"], of["/root/file"]["before"]["size"]) == (12, 4)
    assert (of["/root/mode"]["mode"], of["/root/mode"]["before"]["mode"]) == ("0600", "0644")
    assert (of["/root/link"]["target"], of["/root/link"]["before"]["target"]) == ("b", "a")
    assert (of["/root/kind"]["type"], of["/root/kind"]["before"]["type"]) == ("directory", "file")


def test_the_other_way_round_it_is_the_reverse(changed):
    there, back = names(diff(*changed)), names(diff(*reversed(changed)))
    assert (back["added"], back["removed"], back["modified"]) == (there["removed"], there["added"], there["modified"])
    assert not any(names(diff(changed[0], changed[0])).values())


def test_paths_narrow_it(changed):
    assert names(diff(*changed, "/root/new")) == {"added": ["/root/new", "/root/new/in"], "removed": [], "modified": []}
    assert names(diff(*changed, "/root/file", "/root/d", "/root/file/"))["modified"] == ["/root/file"]
    assert names(diff(*changed, "/srv")) == {"added": ["/srv/more"], "removed": [], "modified": ["/srv/s"]}
    everything = names(diff(*changed, "/"))
    assert {"/srv/more", "/root/new/in"} <= set(everything["added"])
    assert not [p for kind in everything.values() for p in kind if p.startswith(("/proc", "/sys", "/dev", "/tmp/.warren"))]
    assert not any(names(diff(*changed, "/nowhere")).values())
    assert names(diff(*changed, "file"))["modified"] == ["/root/file"]  # as everywhere: below /root


def test_text_comes_where_it_is_asked_for(changed):
    parent, child = changed
    child.python_ok("open('/root/binary', 'wb').write(b'\\0' * 100); open('/root/large', 'w').write('x\\n' * 2_000_000)")
    assert not [e for kind in ("added", "removed", "modified") for e in diff(parent, child)[kind] if "text" in e or "no_text" in e]
    found = diff(parent, child, text="true")
    of = {entry["path"]: entry for kind in ("added", "removed", "modified") for entry in found[kind]}
    lines = of["/root/file"]["text"].splitlines()
    assert "-one" in lines and "+two, longer" in lines and "--- a/root/file" in lines and "+++ b/root/file" in lines
    assert "+12345" in of["/root/new/in"]["text"] and "-1" in of["/root/gone"]["text"]
    assert of["/root/binary"]["no_text"] == "binary" and "text" not in of["/root/binary"]
    assert "no_text" in of["/root/large"] and "text" not in of["/root/mode"]
    assert "+two" not in json.dumps(diff(parent, child, "/root/mode", text="1"))


def test_names_that_are_not_utf8(sandbox, fork):
    child, = fork(sandbox)
    child.python_ok("import os; open(b'/root/\\xff', 'w').write('x'); os.symlink(b'\\xfe', b'/root/link')")
    added = {base64.b64decode(e["path_base64"]) if "path_base64" in e else e["path"]: e for e in diff(sandbox, child)["added"]}
    assert set(added) == {b"/root/\xff", "/root/link"} and base64.b64decode(added["/root/link"]["target_base64"]) == b"\xfe"


def test_sandboxes_that_are_no_relations_and_other_templates(make_sandbox):
    one, other, datasci = make_sandbox(), make_sandbox(), make_sandbox(template="python-datasci")
    other.bash_ok("echo x > /root/x; rm /etc/motd")
    assert names(diff(one, other, "/root", "/etc/motd")) == {"added": ["/root/x"], "removed": ["/etc/motd"], "modified": []}
    assert names(diff(one, other)) == {"added": ["/root/x"], "removed": [], "modified": []}
    datasci.bash_ok("echo y > /root/y")
    found = names(diff(other, datasci))
    assert "/root/y" in found["added"] and "/root/x" in found["removed"]
    assert "/etc/motd" in names(diff(other, datasci, "/etc"))["added"]
    found = diff(one, datasci, "/usr/lib/python3")
    assert any("numpy" in e["path"] for e in found["added"])
    one.works()


def test_hostile_trees(sandbox, fork):
    child, = fork(sandbox)
    child.bash_ok("cd /root; mkfifo fifo; ln -s /proc/self/environ env; ln -s . loop; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'; "
                  "truncate -s 1T huge; p=.; for i in $(seq 100); do p=$p/deep; done; mkdir -p $p; ln -s /etc/shadow shadow")
    found = diff(sandbox, child, text="true")
    of = {e["path"]: e for e in found["added"]}
    assert (of["/root/fifo"]["type"], of["/root/sock"]["type"], of["/root/env"]["target"]) == ("fifo", "socket", "/proc/self/environ")
    assert of["/root/huge"]["size"] == 1 << 40 and "no_text" in of["/root/huge"]
    assert "/root" + "/deep" * 100 in of and "text" not in of["/root/shadow"]


def test_a_long_answer_is_cut_and_says_so(sandbox, fork):
    child, = fork(sandbox)
    child.python_ok("import os\nos.mkdir('/root/many')\nfor i in range(20_500): os.mknod(f'/root/many/{i}')", wait=120)
    found = diff(sandbox, child)
    assert found["truncated"] is True and 10_000 < len(found["added"]) <= 20_000
    assert diff(sandbox, child, "/root/many/7")["truncated"] is False


def test_it_costs_what_was_changed(warren, sandbox, fork):
    """What is read, by the kernel's count for the runtime and those of its children that have ended."""
    files, size, seen, runtime = 400, 20_000, [], warren.runtime_pid
    sandbox.python_ok(f"import os\nos.mkdir('/root/data')\nfor i in range({files}): open(f'/root/data/{{i}}', 'wb').write(os.urandom({size}))")

    def children():
        with open(f"/proc/{runtime}/task/{runtime}/children") as file:
            return set(file.read().split())

    def bytes_read_for(*paths):
        before, known = bytes_read(runtime), children()
        found = names(diff(sandbox, child, *paths))
        eventually(lambda: not children() - known, BOUND, "the end of the worker")
        return bytes_read(runtime) - before, found

    # What was written a moment before the fork is read all the same: the clock of files has steps.
    while True:
        child, = fork(sandbox)
        child.bash_ok("cd /root/data; echo x > 1; echo y > new; cp 2 3")
        few, found = bytes_read_for("/root/data")
        assert found == {"added": ["/root/data/new"], "removed": [], "modified": ["/root/data/1", "/root/data/3"]}
        assert len(seen) < 50, seen
        seen.append(few)
        if 20 * few < files * size:
            break
        child.destroy()
    all_over, found = bytes_read_for("/")
    # Nothing of the template comes up.
    assert sum(map(len, found.values())) < 60 and 20 * all_over < files * size, found
    # Written anew with what was in it: that must be read.
    child.python_ok("os.remove('/root/data/3')\nfor name in os.listdir('/root/data'):\n"
                    "    content = open(f'/root/data/{name}', 'rb').read()\n    open(f'/root/data/{name}', 'wb').write(content)")
    many, found = bytes_read_for("/root/data")
    assert (found["modified"], found["removed"]) == (["/root/data/1"], ["/root/data/3"])
    assert many > files * size, many


def bytes_read(pid):
    with open(f"/proc/{pid}/io") as file:
        return int(file.readline().split()[1])


@pytest.mark.parametrize("query,word", [("paths=/root/../etc", '".."'), ("text=maybe", "text"), ("path=/root", "paths"), ("paths=", "paths"),
                                        ("paths=/a%00b", "NUL"), ("paths=%ff", "UTF-8"), ("&".join(["paths=/x"] * 5000), "too")])
def test_what_cannot_be_asked_is_refused(client, module_sandbox, query, word):
    answer = client.request("GET", f"{module_sandbox.path}/diff/{module_sandbox.id}?{query}")
    assert answer.status in (400, 413, 414, 431) and (word in answer.error() or answer.status in (414, 431)), answer.body


def test_who_is_not_there_is_told(warren, client, module_sandbox):
    stranger = warren.new_account("stranger-to-diffs")
    for who, one, other in ((client, module_sandbox.id, UNKNOWN), (client, UNKNOWN, module_sandbox.id), (stranger, module_sandbox.id, module_sandbox.id), (client, module_sandbox.id, "x")):
        answer = who.request("GET", f"/v1/sandboxes/{one}/diff/{other}")
        assert answer.status == 404 and answer.error()
    theirs = stranger.create()
    assert client.request("GET", f"{module_sandbox.path}/diff/{theirs.id}").status == 404
    theirs.destroy()


def test_over_mcp(client, changed):
    parent, child = changed
    ids = {"sandbox_id": parent.id, "other_id": child.id}
    result = client.tool("diff", **ids)
    structured, text = result["structuredContent"], result["content"][0]["text"]
    assert structured == diff(parent, child)
    assert "+ /root/new/in (6 bytes)" in text and "- /root/gone" in text and "~ /root/file (4 -> 12 bytes)" in text
    text = client.tool("diff", text=True, paths=["/root/file"], **ids)["content"][0]["text"]
    assert "+two, longer" in text and "/root/gone" not in text
    assert "nothing differs" in client.tool("diff", sandbox_id=parent.id, other_id=parent.id)["content"][0]["text"]
    assert "other_id" in client.tool_error("diff", sandbox_id=parent.id, other_id=UNKNOWN)
    assert "sandbox_id" in client.tool_error("diff", sandbox_id=UNKNOWN, other_id=parent.id)
    assert "other_id" in client.tool_error("diff", sandbox_id=parent.id)
    assert '".."' in client.tool_error("diff", paths=["../etc"], **ids)
    assert "paths" in client.tool_error("diff", paths=[1], **ids)
    assert "text" in client.tool_error("diff", text="yes", **ids)
    assert "depth" in client.tool_error("diff", depth=1, **ids)
    tool = {t["name"]: t for t in client.rpc("tools/list").json()["result"]["tools"]}["diff"]
    assert set(tool["inputSchema"]["properties"]) == {"sandbox_id", "other_id", "paths", "text"}


def test_on_the_command_line(warren, changed):
    parent, child = changed
    done = warren.command("sandbox", "diff", parent.id, child.id)
    assert done.returncode == 0 and {"+ /root/new/in", "- /root/gone", "~ /tmp/t"} <= set(done.stdout.splitlines()), done
    done = warren.command("sandbox", "diff", parent.id, child.id, "/root/file", "--text")
    assert "+two, longer" in done.stdout and "gone" not in done.stdout, done
    done = warren.command("sandbox", "diff", parent.id, child.id, "--json")
    assert json.loads(done.stdout) == diff(parent, child)
    for words, word in (((parent.id, UNKNOWN), ""), ((parent.id,), "other"), ((parent.id, child.id, "../etc"), '".."')):
        done = warren.command("sandbox", "diff", *words)
        assert done.returncode != 0 and done.stdout == "" and word in done.stderr, done


def test_a_hostile_name_is_printed_harmlessly(warren, sandbox, fork):
    child, = fork(sandbox)
    child.python_ok("open('/root/a\\nb\\x1b[31m', 'w').write('\\x1b]0;title\\x07\\n')")
    done = warren.command("sandbox", "diff", sandbox.id, child.id, "--text")
    assert done.returncode == 0 and "\x1b" not in done.stdout and "\x07" not in done.stdout, done

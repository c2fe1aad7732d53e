"""What one sandbox changed in its files is put into another, which goes on: what comes over, what conflicts, and in which words."""

import base64
import json

import pytest

from warren_client import eventually

BOUND = 60
LINES = "".join(f"line {i}\\n" for i in range(1, 21))  # as Python writes it
UNKNOWN = "sbx_" + "0" * 32


def merge(parent, winner, **body):
    """The answer's status and its report; the winner is never touched."""
    answer = parent.client.request("POST", f"{parent.path}/merge_into/{winner.id}", {"mode": "files", **body})
    document = answer.json()
    if answer.status == 200:
        assert document["applied"] is True
        return 200, document
    assert answer.error()
    return answer.status, document.get("report")


def paths(entries):
    return sorted(entry["path"] for entry in entries)


def listing(sandbox, where="/root"):
    """Everything there as lines of name, type, mode, size, target and checksum."""
    return sandbox.bash_ok(f"cd {where} && find . -path './.cache' -prune -o -printf '%P %y %m %l\\n' | sort && find . -type f -print0 | sort -z | xargs -0r sha256sum")


@pytest.fixture
def pair(sandbox, fork):
    """Prepares a parent, forks it, has both changed; (parent, winner)."""

    def make(before="", ours="", theirs=""):
        sandbox.bash_ok("cd /root; " + (before or "true"))
        winner, = fork(sandbox)
        sandbox.bash_ok("cd /root; " + (ours or "true"))
        winner.bash_ok("cd /root; " + (theirs or "true"))
        return sandbox, winner

    return make


def test_the_parent_goes_on_and_sees_the_new_files(pair):
    parent, winner = pair("echo 1 > kept; mkdir d; echo old > d/changed; echo x > gone", "",
                          "mkdir -p new/er; echo n > new/er/file; echo changed > d/changed; rm gone; echo 2 > /srv/elsewhere; rm /etc/motd")
    parent.python_ok("import os; x = 'parent'; opened = open('/root/d/changed'); os.chdir('/root/d')")
    winner.python_ok("x = 'winner'")
    parent.bash_ok("setsid sleep 951 >/dev/null 2>&1 & true")
    stream = parent.exec_stream("echo up; until test -e /root/new/er/file; do sleep 0.01; done; cat /root/new/er/file", "bash")
    stream.wait_for_output(b"up")
    status, report = merge(parent, winner)
    assert status == 200 and report["counts"]["conflicts"] == 0, report
    assert {"/root/new/er/file", "/srv/elsewhere"} <= set(paths(report["added"])) and "/root/d/changed" in paths(report["modified"])
    assert paths(report["deleted"]) == ["/etc/motd", "/root/gone"]
    events = list(stream)
    assert [e["data"] for e in events] == ["n\n", 0], events
    assert parent.python_ok("print(x, opened.read(), open('changed').read(), os.path.exists('/root/gone'))") == "parent old\n changed\n False\n"
    assert parent.bash_ok("pgrep -f '[s]leep 951' | wc -l; cat /root/kept /srv/elsewhere; ls /etc/motd 2>&1 | grep -c 'No such'") == "1\n1\n2\n1\n"
    assert winner.python_ok("print(x, open('/root/kept').read())") == "winner 1\n\n"
    assert not parent.bash_ok("find / -xdev -name '.merge-*'")
    parent.works()
    winner.works()


def test_nothing_to_merge_is_a_report_of_nothing(pair):
    parent, winner = pair("echo 1 > file", "echo 2 > file")
    status, report = merge(parent, winner)
    assert status == 200 and not any(report["counts"].values()) and report["truncated"] is False, report
    assert parent.bash_ok("cat /root/file") == "2\n"


def test_text_is_merged_by_line(pair):
    parent, winner = pair(f"printf '{LINES}' > text", "sed -i 's/^line 2$/ours 2/' text", "sed -i 's/^line 18$/theirs 18/; 10d' text; chmod 755 text")
    status, report = merge(parent, winner)
    assert status == 200 and paths(report["merged"]) == ["/root/text"] == paths(report["modified"]), report
    lines = parent.bash_ok("cat /root/text").splitlines()
    assert lines == ["line 1", "ours 2"] + [f"line {i}" for i in (*range(3, 10), *range(11, 18))] + ["theirs 18", "line 19", "line 20"]
    assert parent.bash_ok("stat -c %a /root/text") == "755\n"


CONFLICTS = {
    "same-lines": (f"printf '{LINES}' > f", "sed -i 's/^line 5$/ours/' f", "sed -i 's/^line 5$/theirs/' f", "f", "lines"),
    "both-added": ("true", "echo ours > f", "echo theirs > f", "f", "added"),
    "binary": ("head -c 3000 /dev/zero > f", "printf ours | dd of=f conv=notrunc seek=9 bs=1 2>/dev/null",
               "printf theirs | dd of=f conv=notrunc seek=999 bs=1 2>/dev/null", "f", "not text"),
    "deleted-changed": ("echo 1 > f", "rm f", "echo theirs > f", "f", "deleted"),
    "changed-deleted": ("echo 1 > f", "echo ours > f", "rm f", "f", "deleted"),
    "modes": ("echo 1 > f", "chmod 600 f", "chmod 755 f", "f", "mode"),
    "links": ("ln -s a f", "ln -sf b f", "ln -sf c f", "f", "symbolic link"),
    "file-link": ("echo 1 > f", "echo ours > f", "ln -sf theirs f", "f", "symbolic link"),
    "file-folder": ("true", "echo ours > f", "mkdir f; echo theirs > f/in", "f", "directory"),
    "folder-file": ("true", "mkdir f; echo ours > f/in", "echo theirs > f", "f", "directory"),
    "folder-deleted": ("mkdir f; echo 1 > f/in", "rm -r f", "echo theirs > f/more", "f/more", "deleted"),
    "deleted-folder": ("mkdir f; echo 1 > f/in", "echo ours > f/more", "rm -r f", "f/more", "deleted"),
    "folder-changed-to-file": ("mkdir f; echo 1 > f/in", "echo ours > f/in", "rm -r f; echo theirs > f", "f", "changed"),
}
CONFLICTING = pytest.mark.parametrize("kind", CONFLICTS)


@CONFLICTING
def test_a_conflict_is_told_and_nothing_is_changed(pair, kind):
    before, ours, theirs, path, word = CONFLICTS[kind]
    parent, winner = pair(before, ours, theirs + "; echo new > besides")
    old, other = listing(parent), listing(winner)
    status, report = merge(parent, winner)
    assert status == 409 and report["applied"] is False, report
    assert paths(report["conflicts"]) == [f"/root/{path}"] and word in report["conflicts"][0]["reason"], report
    assert "resolved" not in report["conflicts"][0]
    assert listing(parent) == old and listing(winner) == other
    parent.works()


@CONFLICTING
@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_side_decides_conflicts(pair, kind, side):
    before, ours, theirs, path, _ = CONFLICTS[kind]
    parent, winner = pair(before, ours, theirs + "; echo new > besides")
    look = f"cd /root; find {path.split('/')[0]} -printf '%p %y %m %l\\n' 2>/dev/null | sort; find {path.split('/')[0]} -type f -exec cat {{}} + 2>/dev/null; true"
    wanted = (parent if side == "ours" else winner).bash_ok(look)
    status, report = merge(parent, winner, on_conflict=side)
    assert status == 200 and [c["resolved"] for c in report["conflicts"]] == [side], report
    assert parent.bash_ok("cat /root/besides") == "new\n"
    if (kind, side) in (("folder-deleted", "theirs"), ("deleted-folder", "ours")):
        assert parent.bash_ok("cat /root/f/more; ls /root/f") == f"{side}\nmore\n"  # what nobody else changed is deleted
    else:
        assert parent.bash_ok(look) == wanted


def test_modes_links_owners_and_attributes(pair):
    parent, winner = pair(
        "echo 1 > a; echo 1 > b; mkdir d; echo 1 > d/in; ln -s a link; ln -s a gone",
        "echo ours > a; touch d/ours",
        "chmod 4751 a; chown 7:8 b; chmod 1777 d; ln -sf b link; rm gone; ln -s /etc/passwd out; ln -s loop loop; echo 1 > new; ln new hard; "
        "python3 -c 'import os; os.setxattr(\"b\", \"user.mark\", b\"\\0v\")'; mkdir -m 700 empty; touch -d 2001-02-03T04:05:06 old")
    status, report = merge(parent, winner)
    assert status == 200 and report["counts"]["conflicts"] == 0, report
    assert parent.bash_ok("cd /root; cat a; stat -c '%n %a %u:%g' a b d empty; readlink link out loop; ls gone 2>/dev/null; stat -c %Y old; ls d; stat -c %h new; test new -ef hard && echo one") == (
        "ours\na 4751 0:0\nb 644 7:8\nd 1777 0:0\nempty 700 0:0\nb\n/etc/passwd\nloop\n" + "981173106\nin\nours\n2\none\n")
    assert parent.python_ok("import os; print(os.getxattr('/root/b', 'user.mark'))") == "b'\\x00v'\n"


def test_renames_carry_the_other_side_s_edits(pair):
    parent, winner = pair(f"mkdir d e; printf '{LINES}' > d/moved; echo 1 > d/x; printf '{LINES}' > mine; printf 'z{LINES}' > plain",
                          "sed -i 's/^line 3$/ours/' d/moved; mv mine e/mine",
                          "mv d away; sed -i 's/^line 17$/theirs/' mine; mv plain plain2; chmod 700 plain2")
    status, report = merge(parent, winner)
    assert status == 200 and report["counts"]["conflicts"] == 0, report
    assert {(r["from"], r["path"]) for r in report["renamed"]} >= {("/root/d/moved", "/root/away/moved"), ("/root/plain", "/root/plain2")}, report
    assert parent.bash_ok("cd /root; ls -d d mine plain 2>/dev/null; sed -n 3p away/moved; sed -n 17p e/mine; cat away/x; stat -c %a plain2") == "ours\ntheirs\n1\n700\n"


def test_names_that_are_not_utf8(sandbox, fork):
    sandbox.python_ok("open(b'/root/old-\\xff', 'w').write('1'); open(b'/root/both-\\xfe', 'w').write('1')")
    winner, = fork(sandbox)
    winner.python_ok("import os; open(b'/root/\\xff\\n\"', 'w').write('new'); os.remove(b'/root/old-\\xff'); os.symlink(b'\\xfd', b'/root/to-\\xfc'); open(b'/root/both-\\xfe', 'w').write('3')")
    sandbox.python_ok("open(b'/root/both-\\xfe', 'w').write('2')")
    status, report = merge(sandbox, winner)
    assert status == 409 and [base64.b64decode(c["path_base64"]) for c in report["conflicts"]] == [b"/root/both-\xfe"], report
    status, report = merge(sandbox, winner, on_conflict="theirs")
    assert status == 200 and base64.b64decode(report["deleted"][0]["path_base64"]) == b"/root/old-\xff"
    assert sandbox.python_ok("import os; print(sorted(os.listdir(b'/root')), os.readlink(b'/root/to-\\xfc'), open(b'/root/\\xff\\n\"').read(), open(b'/root/both-\\xfe').read())").endswith(
        "b'\\xfd' new 3\n")
    assert sandbox.python_ok("print(os.path.exists(b'/root/old-\\xff'))") == "False\n"


def test_large_files_and_many(pair):
    parent, winner = pair("mkdir many; cd many; for i in $(seq 1000); do echo $i > $i; done", "cd many; for i in $(seq 1 2 200); do echo ours > $i; done",
                          "head -c 10000000 /dev/urandom > large; truncate -s 1G sparse; cd many; for i in $(seq 1001 3000); do echo $i > $i; done; for i in $(seq 2 2 200); do rm $i; done")
    status, report = merge(parent, winner)
    counts = report["counts"]
    assert status == 200 and (counts["added"], counts["deleted"]) == (2002, 100), counts
    check = "cd /root; sha256sum large; stat -c '%s' sparse; ls many | wc -l; cat many/3000"
    assert parent.bash_ok(check).splitlines()[:2] == winner.bash_ok(check).splitlines()[:2]
    assert parent.bash_ok(check).splitlines()[2:] == ["2900", "3000"]
    assert parent.bash_ok("cat /root/many/1; test $(stat -c %b /root/sparse) -lt 1000 && echo sparse") == "ours\nsparse\n"


def test_siblings_are_merged_one_after_another(sandbox, fork):
    sandbox.bash_ok(f"printf '{LINES}' > /root/text; echo 0 > /root/same")
    a, b, c = fork(sandbox, 3)
    a.bash_ok("sed -i 's/^line 2$/a/' /root/text; echo a > /root/of-a; echo changed > /root/same; mkdir /root/d; echo a > /root/d/a")
    b.bash_ok("sed -i 's/^line 18$/b/' /root/text; echo b > /root/of-b; echo changed > /root/same; mkdir /root/d; echo b > /root/d/b")
    c.bash_ok("sed -i 's/^line 2$/c/' /root/text")
    assert merge(sandbox, a)[0] == 200
    status, report = merge(sandbox, b)
    assert status == 200 and paths(report["merged"]) == ["/root/text"], report
    assert sandbox.bash_ok("cd /root; sed -n '2p;18p' text; cat of-a of-b same d/a d/b") == "a\nb\na\nb\nchanged\na\nb\n"
    status, report = merge(sandbox, c)
    assert status == 409 and paths(report["conflicts"]) == ["/root/text"]
    # Once more brings nothing new.
    old = listing(sandbox)
    assert merge(sandbox, b)[1]["counts"]["conflicts"] == 0 and listing(sandbox) == old


def test_sandboxes_that_are_no_relations(make_sandbox):
    one, other = make_sandbox(), make_sandbox()
    one.bash_ok("echo one > /root/one; echo same > /root/same; rm /etc/motd")
    other.bash_ok("echo other > /root/other; echo same > /root/same; echo changed > /etc/issue")
    status, report = merge(one, other)
    assert status == 200 and report["counts"]["conflicts"] == 0, report
    assert one.bash_ok("cat /root/one /root/other /root/same /etc/issue; hostname; ls /etc/motd 2>/dev/null; true").startswith("one\nother\nsame\nchanged\n")
    other.bash_ok("echo clash > /root/one")
    assert merge(one, other)[0] == 409


def test_after_a_merge_of_everything_the_lineage_is_the_winner_s(sandbox, fork):
    sandbox.bash_ok("echo 0 > /root/f; echo 0 > /root/g")
    winner, sibling = fork(sandbox, 2)
    winner.bash_ok("echo winner > /root/f")
    sibling.bash_ok("echo sibling > /root/g")
    sandbox.merge(winner)
    later, = fork(sandbox)
    later.bash_ok("echo later > /root/f")
    assert merge(sandbox, later)[0] == 200 and sandbox.bash_ok("cat /root/f /root/g") == "later\n0\n"
    assert merge(sandbox, sibling)[0] == 200 and sandbox.bash_ok("cat /root/f /root/g") == "later\nsibling\n"


def test_a_grandchild_into_its_grandparent_and_a_parent_into_its_child(sandbox, fork):
    sandbox.bash_ok("echo 0 > /root/f")
    child, = fork(sandbox)
    child.bash_ok("echo child > /root/of-child; echo child > /root/f")
    grandchild, = fork(child)
    grandchild.bash_ok("echo grandchild > /root/of-grandchild")
    child.destroy()
    sandbox.bash_ok("echo parent > /root/of-parent")
    assert merge(sandbox, grandchild)[0] == 200
    assert sandbox.bash_ok("cd /root; cat f of-child of-grandchild of-parent") == "child\nchild\ngrandchild\nparent\n"
    assert merge(grandchild, sandbox)[0] == 200
    assert grandchild.bash_ok("cat /root/of-parent") == "parent\n"
    cousin, = fork(sandbox)
    cousin.bash_ok("echo cousin > /root/of-cousin")
    assert merge(grandchild, cousin)[0] == 200 and grandchild.bash_ok("cat /root/of-cousin /root/f") == "cousin\nchild\n"


def test_who_cannot_be_merged_is_refused(warren, client, sandbox, fork, make_sandbox):
    winner, = fork(sandbox)
    assert merge(sandbox, sandbox)[0] == 400
    for one, other in ((sandbox, client.sandbox(UNKNOWN)), (client.sandbox(UNKNOWN), sandbox)):
        assert merge(one, other)[0] == 404
    assert merge(sandbox, make_sandbox(template="python-datasci"))[0] == 409
    stranger = warren.new_account("stranger-to-files")
    assert merge(stranger.sandbox(sandbox.id), stranger.sandbox(winner.id))[0] == 404
    for body in ({"mode": "some"}, {"on_conflict": "both"}, {"on_conflict": 1}, {"mode": ["files"]}, {"paths": ["/root"]}):
        assert merge(sandbox, winner, **body)[0] == 400, body
    sandbox.works()


def test_over_mcp(client, pair):
    parent, winner = pair("echo 0 > f", "echo ours > f", "echo theirs > f; echo new > g")
    ids = {"parent_id": parent.id, "winner_id": winner.id, "mode": "files"}
    text = client.tool_error("merge_into", **ids)
    assert "/root/f" in text and "on_conflict" in text
    result = client.tool("merge_into", on_conflict="ours", **ids)
    structured, text = result["structuredContent"], result["content"][0]["text"]
    assert structured["sandbox_id"] == parent.id and paths(structured["report"]["added"]) == ["/root/g"]
    assert "1 added" in text and "1 conflicts resolved" in text and winner.id in text
    assert parent.bash_ok("cat /root/f /root/g") == "ours\nnew\n"
    assert "itself" in client.tool_error("merge_into", parent_id=parent.id, winner_id=parent.id, mode="files")
    assert "winner_id" in client.tool_error("merge_into", parent_id=parent.id, winner_id=UNKNOWN, mode="files")
    assert "on_conflict" in client.tool_error("merge_into", **{**ids, "on_conflict": "mine"})
    assert "mode" in client.tool_error("merge_into", **{**ids, "mode": "some"})
    schema = {t["name"]: t["outputSchema"] for t in client.rpc("tools/list").json()["result"]["tools"]}["merge_into"]
    assert set(structured) <= set(schema["properties"])


def test_on_the_command_line(warren, pair):
    parent, winner = pair("echo 0 > f", "echo ours > f", "echo theirs > f; echo new > g")
    done = warren.command("sandbox", "merge", parent.id, winner.id, "--mode", "files")
    assert done.returncode != 0 and "/root/f" in done.stderr and done.stdout == "", done
    done = warren.command("sandbox", "merge", parent.id, winner.id, "--mode", "files", "--on-conflict", "theirs")
    assert done.returncode == 0 and paths(json.loads(done.stdout)["added"]) == ["/root/g"], done
    assert parent.bash_ok("cat /root/f /root/g") == "theirs\nnew\n"
    for words, word in ((("--mode", "some"), "files"), (("--on-conflict", "mine", "--mode", "files"), "ours")):
        done = warren.command("sandbox", "merge", parent.id, winner.id, *words)
        assert done.returncode != 0 and word in done.stderr, done


# What fails, and who is hostile.

def test_a_full_disk_in_the_parent_changes_nothing(start_server):
    warren = start_server(limits={"disk_mib": 64})
    parent = warren.client.create()
    parent.bash_ok("echo old > /root/f")
    winner, = parent.fork()
    winner.bash_ok("echo new > /root/f; mkdir /root/d; for i in $(seq 20); do head -c 1M /dev/urandom > /root/d/$i; done; rm /etc/motd")
    parent.bash("head -c 50M /dev/urandom > /root/filler; sync /root/filler")
    old = listing(parent)
    answer = parent.client.request("POST", f"{parent.path}/merge_into/{winner.id}", {"mode": "files"})
    assert answer.status == 409 and "disk is full" in answer.error(), answer.body
    assert listing(parent) == old and parent.bash_ok("ls /etc/motd; find /tmp/.warren -name '.merge-*'") == "/etc/motd\n"
    parent.bash_ok("rm /root/filler")
    assert eventually(lambda: merge(parent, winner)[0] == 200, BOUND)
    assert parent.bash_ok("cat /root/f; ls /root/d | wc -l") == "new\n20\n"


def test_what_is_no_file_is_left_alone_and_told(pair):
    parent, winner = pair("echo 1 > was-file; mkfifo old-fifo", "",
                          "mkfifo fifo; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'; rm was-file; mkfifo was-file; rm old-fifo; echo x > old-fifo; echo new > file")
    status, report = merge(parent, winner)
    assert status == 200 and set(paths(report["skipped"])) == {f"/root/{n}" for n in ("fifo", "sock", "was-file", "old-fifo")}, report
    assert parent.bash_ok("cd /root; cat was-file file; stat -c %F old-fifo; ls fifo sock 2>/dev/null; true") == "1\nnew\nfifo\n"


def test_links_in_the_winner_lead_nowhere(pair):
    parent, winner = pair("mkdir d e; echo d > d/f; echo secret > /srv/victim", "",
                          "rm -r d; ln -s /srv d; rm -r e; ln -s /proc/1/root/.. e; ln -s ../../../../../../etc/shadow up; echo x > d/planted")
    status, report = merge(parent, winner)
    assert status == 200, report
    assert parent.bash_ok("readlink /root/d /root/e /root/up; cat /srv/victim /srv/planted") == "/srv\n/proc/1/root/..\n../../../../../../etc/shadow\nsecret\nx\n"


def test_what_the_parent_links_elsewhere_is_not_followed(pair):
    parent, winner = pair("mkdir d; echo 0 > d/f", "rm -r d; mkdir /srv/other; ln -s /srv/other d", "echo theirs > d/new; echo theirs > d/f")
    status, report = merge(parent, winner)
    assert status == 409, report
    status, report = merge(parent, winner, on_conflict="ours")
    assert status == 200 and parent.bash_ok("readlink /root/d; ls /srv/other") == "/srv/other\n", report


def test_a_parent_that_swaps_a_folder_for_a_link_meanwhile(pair):
    """Whatever the race comes to, nothing is written through the link, and afterwards all can be merged."""
    parent, winner = pair("mkdir -p d/in /srv/outside; echo kept > /srv/outside/kept", "",
                          "rm -rf d/in/*; for i in $(seq 300); do echo theirs > d/in/$i; done")
    stream = parent.exec_stream("echo up; for i in $(seq 400); do mv /root/d/in /root/aside && ln -s /srv/outside /root/d/in; rm /root/d/in; mv /root/aside /root/d/in; done", "bash")
    stream.wait_for_output(b"up")
    seen = set()
    for _ in range(10):
        seen.add(merge(parent, winner)[0])
        winner.bash_ok("date +%N > /root/d/in/1")
    assert list(stream)[-1]["data"] == 0
    assert max(seen) < 500, seen
    assert parent.bash_ok("ls /srv/outside") == "kept\n"
    assert merge(parent, winner, on_conflict="theirs")[0] == 200
    assert parent.bash_ok("ls /root/d/in | wc -l") == "300\n"
    assert not parent.bash_ok("find / -xdev -name '.merge-*'")


def test_a_parent_that_is_edited_meanwhile_loses_nothing(pair):
    """A file whose content the parent changes between the plan and its doing keeps the parent's, or conflicts."""
    parent, winner = pair("echo 0 > f", "", "for i in $(seq 200); do echo theirs > new-$i; done")
    stream = parent.exec_stream("echo up; for i in $(seq 1000); do echo ours $i > /root/mine-$((i % 50)); done; echo done > /root/mine-0", "bash")
    stream.wait_for_output(b"up")
    for _ in range(5):
        assert merge(parent, winner)[0] in (200, 409)
    assert list(stream)[-1]["data"] == 0
    assert parent.bash_ok("cat /root/mine-0; ls /root/mine-* | wc -l") == "done\n50\n"

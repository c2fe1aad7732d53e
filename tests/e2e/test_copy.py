"""`warren sandbox cp`: files and folders in and out, and sandboxes that lie about theirs."""

import http.server
import json
import os
import pty
import socket
import stat
import subprocess
import threading
import urllib.parse

import pytest

from warren_server import program

ODD = [b"a b", b"$(id)", b"new\nline", b"-rf", b"\xff\xfe", b"quote'\"", "🤣".encode(), b"x" * 255]


def cp(warren, *arguments, **options):
    return warren.command("sandbox", "cp", *arguments, **options)


def copied(done):
    assert done.returncode == 0, done
    return done


def picture(folder):
    """What is below a folder: {path: (type and mode, content or target)}."""
    folder, found = os.fsencode(folder), {}
    for root, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(root, name)
            mode = os.lstat(path).st_mode
            content = None
            if stat.S_ISLNK(mode):
                mode, content = stat.S_IFLNK, os.readlink(path)
            elif stat.S_ISREG(mode):
                with open(path, "rb") as file:
                    content = file.read()
            found[os.path.relpath(path, folder)] = (oct(mode), content)
    return found


@pytest.fixture
def tree(tmp_path):
    """A folder with a bit of everything."""
    top = tmp_path / "tree"
    (top / "deep/er/est").mkdir(parents=True)
    (top / "empty").mkdir()
    (top / "private").mkdir(mode=0o700)
    (top / "closed").mkdir()
    (top / "closed/file").write_text("kept")
    (top / "closed").chmod(0o555)
    (top / "deep/er/est/file").write_bytes(os.urandom(300_000))
    (top / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (top / "run.sh").chmod(0o755)
    (top / "secret").write_text("s")
    (top / "secret").chmod(0o600)
    (top / "to-file").symlink_to("deep/er/est/file")
    (top / "to-folder").symlink_to("deep")
    (top / "nowhere").symlink_to("/no/such/place")
    os.symlink(b"no-utf8-\xff", os.fsencode(top / "odd-link"))
    for name in ODD:
        with open(os.path.join(os.fsencode(top), name), "wb") as file:
            file.write(name)
    return top


def test_a_folder_goes_in_and_comes_back_as_it_was(warren, sandbox, tree, tmp_path):
    copied(cp(warren, str(tree), f"{sandbox.id}:/root/there"))
    assert sandbox.bash_ok("/root/there/run.sh") == "ran\n"
    assert sandbox.bash_ok("readlink /root/there/nowhere; stat -c %a /root/there/secret /root/there/closed") == (
        "/no/such/place\n600\n555\n")
    copied(cp(warren, "-r", f"{sandbox.id}:/root/there", str(tmp_path / "back")))
    assert picture(tmp_path / "back") == picture(tree)
    assert sandbox.bash_ok("ls -A /tmp | grep -c warren-copy || true") == "0\n"


def test_where_a_copy_goes_is_as_with_cp(warren, sandbox, tree, tmp_path):
    where = f"{sandbox.id}:/root"
    # Into a folder that is there, under its own name; the same again joins them.
    sandbox.bash_ok("mkdir /root/box")
    copied(cp(warren, str(tree), f"{where}/box"))
    copied(cp(warren, str(tree) + "/", f"{where}/box/"))
    assert sandbox.bash_ok("cat /root/box/tree/secret; ls /root/box") == "stree\n"
    copied(cp(warren, str(tree / "secret"), f"{where}/box"))
    assert sandbox.bash_ok("cat /root/box/secret") == "s"
    # What is in it, without its name.
    copied(cp(warren, str(tree) + "/.", f"{where}/box"))
    assert sandbox.bash_ok("cat /root/box/closed/file") == "kept"
    # The same ways back.
    out = tmp_path / "out"
    out.mkdir()
    copied(cp(warren, f"{where}/box/tree", str(out)))
    assert picture(out / "tree") == picture(tree)
    copied(cp(warren, f"{where}/box/tree/.", str(out)))
    assert (out / "secret").read_text() == "s"
    copied(cp(warren, f"{where}/box/secret", str(out) + "/"))
    copied(cp(warren, f"{where}/box/tree/run.sh", str(out / "other")))
    assert os.access(out / "other", os.X_OK)
    # Relative paths inside are from /root; standard output and /dev/null are written into.
    done = copied(cp(warren, f"{sandbox.id}:box/secret", "-"))
    assert done.stdout == "s"
    copied(cp(warren, f"{where}/box/secret", "/dev/null"))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_what_cannot_be_copied_is_told(warren, sandbox, tmp_path):
    where = f"{sandbox.id}:/root"
    for arguments, words in (
            ((str(tmp_path / "none"), f"{where}/x"), "none: No such file"),
            ((f"{where}/none", str(tmp_path / "x")), "/root/none"),
            ((f"{where}/x", f"{where}/y"), "one side must be local"),
            ((str(tmp_path), str(tmp_path)), "one side must be SANDBOX:PATH"),
            ((f"{sandbox.id}:", str(tmp_path)), "name what to copy"),
            (("-", f"{where}/"), "name the target file"),
            ((where, "-"), "/root is a folder"),
            ((f"{sandbox.id}:/etc/hostname", str(tmp_path / "no/such/folder")), "no/such"),
            ((f"{sandbox.id}:/dev/zero", str(tmp_path / "x")), "device")):
        done = cp(warren, *arguments, input="")
        assert done.returncode == 125 and words in done.stderr, (arguments, done)
    assert list(tmp_path.iterdir()) == []

    # A pipe and a socket are left out, the rest goes on.
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    os.mkfifo(mixed / "pipe")
    (mixed / "z-file").write_text("here")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(mixed / "socket"))
    done = cp(warren, str(mixed), f"{where}/mixed")
    listening.close()
    assert done.returncode == 1 and "pipe is left out" in done.stderr and "socket is left out" in done.stderr
    assert sandbox.bash_ok("ls /root/mixed") == "z-file\n"
    sandbox.bash_ok("mkfifo /root/mixed/pipe")
    done = cp(warren, f"{where}/mixed", str(tmp_path / "back"))
    assert done.returncode == 1 and "pipe is left out" in done.stderr
    assert os.listdir(tmp_path / "back") == ["z-file"]

    # A folder and a file do not take each other's place.
    sandbox.bash_ok("mkdir -p /root/a/f && touch /root/b")
    (tmp_path / "f").write_text("x")
    (tmp_path / "a").mkdir()
    (tmp_path / "a/f").write_text("x")
    done = cp(warren, str(tmp_path / "a"), f"{where}/")
    assert done.returncode == 125 and "directory" in done.stderr
    done = cp(warren, str(tmp_path / "a"), f"{where}/b")
    assert done.returncode == 125 and done.stderr
    assert sandbox.bash_ok("test -d /root/a/f && test -f /root/b && echo same") == "same\n"


def test_a_large_file_shows_its_progress_on_a_terminal(warren, sandbox, tmp_path):
    sandbox.bash_ok("truncate -s 300M /root/large")
    master, slave = pty.openpty()
    process = subprocess.Popen([program(), "sandbox", "cp", f"{sandbox.id}:/root/large", str(tmp_path / "large")],
                               env=warren.environment, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    seen = b""
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        if not data:
            break
        seen += data
    os.close(master)
    assert process.wait(60) == 0 and os.path.getsize(tmp_path / "large") == 300 << 20
    assert b"1 file" in seen and b"MiB: /root/large" in seen and seen.endswith(b"\r\x1b[K")
    assert copied(cp(warren, f"{sandbox.id}:/root/large", str(tmp_path / "large"))).stderr == ""


def test_more_than_the_disk_has_room_for_is_refused_before_it_is_full(warren, sandbox, tmp_path):
    sandbox.bash_ok("truncate -s 200T /root/huge")
    done = cp(warren, f"{sandbox.id}:/root/huge", str(tmp_path))
    assert done.returncode == 125 and "room for" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_sandbox_s_links_lead_nobody_out(warren, sandbox, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    sandbox.bash_ok(f"mkdir /root/trap && ln -s {outside} /root/trap/way && ln -s {outside}/precious /root/trap/file")
    copied(cp(warren, f"{sandbox.id}:/root/trap", str(tmp_path / "copy")))
    assert os.readlink(tmp_path / "copy/way") == str(outside)
    # The second time the links are a folder and a file.
    sandbox.bash_ok("cd /root/trap && rm way file && mkdir way && echo evil > way/precious && echo evil > file")
    done = cp(warren, f"{sandbox.id}:/root/trap/.", str(tmp_path / "copy"))
    assert done.returncode == 125 and "link" in done.stderr and "way" in done.stderr
    assert (outside / "precious").read_text() == "precious" and os.listdir(outside) == ["precious"]


SANDBOX = "sbx_" + "a" * 32


class Liar:
    """A server that says of a sandbox's files whatever the test wants."""

    def __init__(self, folders, files=None):
        liar = self
        self.asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                url = urllib.parse.urlsplit(self.path)
                path = urllib.parse.parse_qs(url.query)["path"][0]
                liar.asked.append(path)
                if url.path.endswith("/list"):
                    entries = folders(path) if callable(folders) else folders.get(path)
                    if entries is None:
                        return self.answer(400, json.dumps({"error": "is not a directory"}).encode())
                    return self.answer(200, json.dumps({"entries": entries, "truncated": False}).encode())
                return self.answer(200, (files or {}).get(path, b"evil"))

            def answer(self, status, body):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def lies(tmp_path):
    """Copies /root/x of a lying server to tmp_path/in/x; nothing but that may be made."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/precious").write_text("precious")
    (tmp_path / "in").mkdir()
    liars = []

    def tell(folders, files=None, target="in"):
        liars.append(Liar(folders, files))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("WARREN_")}
        environment.update(WARREN_URL=liars[-1].url, WARREN_KEY="wrn_any", WARREN_HOME=str(tmp_path / "home"))
        done = subprocess.run([program(), "sandbox", "cp", f"{SANDBOX}:/root/x", target], env=environment, cwd=tmp_path,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert sorted(os.listdir(tmp_path)) == ["in", "outside"]
        assert os.listdir(tmp_path / "outside") == ["precious"]
        assert (tmp_path / "outside/precious").read_text() == "precious"
        return done

    yield tell
    for liar in liars:
        liar.close()


def file(name, **more):
    return {"name": name, "type": "file", "size": 4, "mode": 0o644, **more}


@pytest.mark.parametrize("entry", [
    {"name": "../outside/precious"}, {"name": "/tmp/warren-evil"}, {"name": ".."}, {"name": "."}, {"name": ""},
    {"name": "a/b"}, {"name": "nul\0"}, {"name": "x" * 300}, {}, {"name": 7}, {"name_base64": "Li4="},
    {"name_base64": "Li4vb3V0c2lkZS9wcmVjaW91cw=="}, {"name_base64": "!"}], ids=range(13))
@pytest.mark.parametrize("kind", ["file", "directory", "symlink"])
def test_a_name_that_is_a_path_is_refused(entry, kind, lies, tmp_path):
    done = lies({"/root/x": [{"type": kind, "size": 4, "mode": 511, "target": "/etc", **entry}]})
    assert done.returncode == 125 and "name" in done.stderr
    assert os.listdir(tmp_path / "in/x") == [] if (tmp_path / "in/x").exists() else True


def test_a_link_is_not_followed_by_what_comes_after_it(lies, tmp_path):
    for way in ("../../outside", str(tmp_path / "outside"), ".."):
        link = {"name": "way", "type": "symlink", "size": 0, "mode": 511, "target": way}
        folder = {"name": "way", "type": "directory", "size": 0, "mode": 511}
        done = lies({"/root/x": [link, folder], "/root/x/way": [file("precious")]})
        assert done.returncode == 125 and "link" in done.stderr
        assert os.listdir(tmp_path / "in/x") == ["way"]
        # A file takes the link's place and is not written through it.
        link["target"] += "/precious"
        done = lies({"/root/x": [link, file("way")]})
        assert done.returncode == 0, done
        assert (tmp_path / "in/x/way").read_text() == "evil" and not (tmp_path / "in/x/way").is_symlink()
    # Not even where the copy itself should go.
    os.unlink(tmp_path / "in/x/way")
    os.rmdir(tmp_path / "in/x")
    os.symlink("../outside", tmp_path / "in/x")
    done = lies({"/root/x": [file("precious")]})
    assert done.returncode == 125 and "link" in done.stderr


def test_set_id_bits_do_not_come_out(lies, tmp_path):
    done = lies({"/root/x": [file("su", mode=0o6755), {"name": "d", "type": "directory", "size": 0, "mode": 0o7777}],
                 "/root/x/d": []})
    assert done.returncode == 0, done
    assert stat.S_IMODE(os.stat(tmp_path / "in/x/su").st_mode) == 0o755
    assert stat.S_IMODE(os.stat(tmp_path / "in/x/d").st_mode) & 0o7000 == 0


def test_names_do_not_speak_to_the_terminal(lies):
    done = lies({"/root/x": [{"name": "\x1b]0;owned\x07\nwarren: all is well", "type": "fifo", "size": 0, "mode": 0}]})
    assert done.returncode == 1 and "left out" in done.stderr
    assert "\x1b" not in done.stderr and "\x07" not in done.stderr and done.stderr.count("\n") == 1


def test_a_tree_without_an_end_ends(lies):
    done = lies(lambda path: [{"name": "d" * 200, "type": "directory", "size": 0, "mode": 511}])
    assert done.returncode == 125 and "too long" in done.stderr

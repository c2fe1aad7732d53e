"""A pool of plain folders, as on hosts without btrfs: forks copy file by file."""

import pytest


@pytest.fixture
def parent(start_server):
    parent = start_server(storage={"pool_gib": 0}, runtime={"stock": 1}).client.create()
    parent.bash_ok("cd /root && echo one > file && ln file hard && ln -s file soft && mkdir -m 700 folder && rm /etc/issue && setfattr -n user.x -v y file 2>/dev/null; true")
    parent.python_ok("x = 41")
    return parent


def test_children_have_the_session_and_every_file(parent):
    for child in parent.fork(3):
        assert child.python_ok("x += 1; print(x)") == "42\n"
        assert child.bash_ok("cd /root && cat file soft && stat -c '%a %F' folder && stat -c %h file && ls /etc/issue 2>&1 | wc -l && test $(hostname) = $(cat /etc/hostname)") == (
            "one\none\n700 directory\n2\n1\n")
        child.bash_ok("echo two > /root/file; rm -r /root/folder")
    assert parent.bash_ok("cat /root/hard; ls /root") == "one\nfile\nfolder\nhard\nsoft\n"
    assert parent.python_ok("print(x)") == "41\n"


def test_forks_of_forks_can_be_merged(parent):
    child = parent.fork(1)[0]
    grandchild = child.fork(1)[0]
    child.destroy()
    grandchild.bash_ok("echo new > /root/new")
    parent.bash_ok("echo mine > /root/mine")
    parent.merge(grandchild, mode="files")
    assert parent.bash_ok("cd /root && cat new mine file") == "new\nmine\none\n"
    parent.merge(grandchild)
    assert parent.bash_ok("ls /root/mine 2>&1 | wc -l; cat /root/new") == "1\nnew\n"

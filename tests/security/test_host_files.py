"""Nothing of the host's files, mounts or paths is to be found inside."""

import os
import re
import tempfile

import pytest

SECRET = "warren-host-secret-5f0c"


@pytest.fixture
def host_secret():
    """A file on the host that everyone there may read."""
    with tempfile.TemporaryDirectory(prefix="warren-host-file-") as folder:
        os.chmod(folder, 0o755)
        path = os.path.join(folder, "secret")
        with open(path, "w") as file:
            file.write(SECRET)
        yield path


def test_mounts_tell_no_host_path_and_are_few(warren, probe):
    found = probe("mounts.py")
    text = str(found["mounts"])
    assert "warren-test-" not in text and "/var/lib/warren" not in text, text
    assert "pool" not in text and "templates" not in text, text
    for where, mount in found["mounts"].items():
        if where in ("/", "/tmp", "/dev/shm", "/dev", "/dev/pts", "/run", "/dev/mqueue"):
            continue
        options = set(mount["options"].split(","))
        harmless = where == "/proc" or "ro" in options or mount["type"] in ("devtmpfs", "tmpfs")
        assert harmless, (where, mount)
    assert "nosuid" in found["mounts"]["/proc"]["options"]


def test_a_walk_finds_nothing_that_is_not_of_the_sandbox(probe):
    found = probe("mounts.py")
    assert found["walked"] > 5000
    strangers = [path for path in found["owned by nobody"] if not path.startswith(("/proc", "/sys", "/dev"))]
    assert strangers == []


def test_the_old_root_is_gone(sandbox, host_secret):
    run = sandbox.bash(f"cat {host_secret}; cat /proc/1/root{host_secret}; cat /oldroot{host_secret} /mnt{host_secret} "
                       f"/.old{host_secret}; true")
    assert SECRET.encode() not in run.stdout
    # The classic way out of a chroot.
    run = sandbox.python(f"""
import os
os.makedirs('/tmp/jail', exist_ok=True)
top = os.open('/', os.O_RDONLY)
os.chroot('/tmp/jail')
os.fchdir(top)
for _ in range(100): os.chdir('..')
os.chroot('.')
try: print(open({host_secret!r}).read())
except OSError as error: print(error.errno)
os._exit(0)
""")
    assert SECRET.encode() not in run.stdout


def test_no_host_name_is_in_what_can_be_read(warren, sandbox):
    text = sandbox.bash_ok("cat /etc/hostname /etc/hosts /etc/resolv.conf /proc/mounts /proc/self/mountinfo /proc/self/cgroup "
                           "/proc/cmdline /proc/swaps /proc/self/maps 2>/dev/null; env; ps -ef; ls -lR /dev /run /tmp /mnt "
                           "/media /srv /home /opt; hostname; true")
    assert os.uname().nodename not in re.findall(r"[\w.-]+", text)
    assert "warren-test-" not in text and os.path.basename(warren.home) not in text


def test_processes_of_the_host_are_not_seen(warren, sandbox):
    text = sandbox.bash_ok("ls /proc | grep -E '^[0-9]+$' | wc -l; ps -eo args")
    assert int(text.split()[0]) < 20
    assert "warren serve" not in text and "pytest" not in text


def test_overlay_leaves_no_way_to_its_layers(sandbox):
    run = sandbox.bash("ls -la / /mnt /run /var/lib; find / -maxdepth 3 -name 'work' -o -maxdepth 3 -name 'upper' "
                       "-o -maxdepth 3 -name 'lower' 2>/dev/null | grep -v -e /proc -e /usr; true")
    for line in run.text.splitlines():
        assert not line.endswith(("/work", "/upper", "/lower")), line

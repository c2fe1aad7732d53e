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


DEVICE = "devtmpfs|tmpfs"  # as the host's /dev is
INERT = {"nosuid", "nodev", "noexec"}
# Every mount there may be: its type, and the flags that it must have. Those that only some kernels have something to mask
# for need not be there.
MOUNTS = {
    "/": ("overlay", {"nosuid", "nodev"}),
    "/proc": ("proc", INERT),
    "/dev": ("tmpfs", {"nosuid", "noexec"}),
    "/dev/pts": ("devpts", {"nosuid", "noexec"}),
    "/dev/shm": ("tmpfs", {"nosuid", "nodev"}),
    "/sys": ("tmpfs", {"ro"} | INERT),
    **{f"/sys/devices/system/{name}": ("sysfs", {"ro"} | INERT) for name in ("cpu", "node")},
    "/sys/kernel/mm/transparent_hugepage": ("sysfs", {"ro"} | INERT),
    **{f"/proc/{name}": ("proc", {"ro"} | INERT) for name in ("bus", "fs", "irq", "sys")},
    **{f"/proc/{name}": ("tmpfs", {"ro"} | INERT) for name in ("acpi", "asound", "driver", "dynamic_debug", "scsi")},
    # One device each: what is there, not what could be put there.
    **{f"/dev/{name}": (DEVICE, set()) for name in ("null", "zero", "full", "random", "urandom", "tty")},
    **{f"/proc/{name}": (DEVICE, set()) for name in (
        "config.gz", "interrupts", "iomem", "ioports", "kallsyms", "kcore", "key-users", "keys", "kmsg", "latency_stats",
        "modules", "sched_debug", "softirqs", "sysrq-trigger", "timer_list", "vmallocinfo")},
}
ALWAYS = ("/", "/proc", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/dev", "/dev/pts", "/dev/shm", "/sys",
          "/sys/devices/system/cpu", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")


def mounts_inside(text):
    """Of /proc/self/mountinfo: where, type, flags, and what of its file system is mounted there (proc_pid_mountinfo(5))."""
    for line in text.splitlines():
        fields = line.split()
        yield fields[4], fields[fields.index("-") + 1], set(fields[5].split(",")), fields[3]


@pytest.mark.parametrize("by", ["a command", "the Python session"])
def test_every_mount_has_the_flags_it_should_have(sandbox, by):
    text = (sandbox.bash_ok("cat /proc/self/mountinfo") if by == "a command" else
            sandbox.python_ok("print(open('/proc/self/mountinfo').read(), end='')"))
    found = list(mounts_inside(text))
    places = [where for where, _, _, _ in found]
    assert len(places) == len(set(places)), "something is mounted over another mount"
    assert set(ALWAYS) <= set(places) <= set(MOUNTS), set(places) ^ set(MOUNTS)
    for where, kind, flags, root in found:
        expected, needed = MOUNTS[where]
        assert kind in expected.split("|") and needed <= flags, (where, kind, flags)
        if expected == DEVICE:  # one harmless device of the host's, not its folder
            assert root == (where.removeprefix("/dev") if where.startswith("/dev/") else "/null"), (where, root)
        else:
            part = where if kind in ("proc", "sysfs") else ""
            assert root == (part.removeprefix("/sys" if kind == "sysfs" else "/proc") or "/"), (where, root)


def test_the_flags_of_mounts_hold(sandbox):
    """Not even where a file can be written does set-id, a device or, where it is shut off, execution work."""
    run = sandbox.bash("""
for folder in / /root /tmp /dev /dev/shm /run /var/tmp; do
  mknod $folder/null c 1 3 2>/dev/null && (echo x > $folder/null) 2>/dev/null && echo device in $folder
done
for folder in /dev /sys /proc/sys /sys/devices/system/cpu; do
  cp /bin/true $folder/true 2>/dev/null && $folder/true 2>/dev/null && echo executed in $folder
done
for folder in / /root /tmp /dev/shm /run /var/tmp; do
  cp /usr/bin/id $folder/id && chmod 6755 $folder/id && chmod o+x $folder && setpriv --reuid 65534 --regid 65534 --clear-groups $folder/id
done
true""")
    lines = run.text.splitlines()
    assert len(lines) == 6 and all("uid=65534" in line and "euid" not in line and "egid" not in line for line in lines), run


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

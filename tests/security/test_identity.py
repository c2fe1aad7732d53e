"""Who a process inside is: its ids, capabilities, namespaces, descriptors and environment."""

import fcntl
import os
import struct

import host

CAPABILITIES = {"chown": 0, "dac_override": 1, "fowner": 3, "fsetid": 4, "kill": 5, "setgid": 6, "setuid": 7, "setpcap": 8,
                "net_bind_service": 10, "sys_chroot": 18, "audit_write": 29, "setfcap": 31}
EXACTLY = f"{sum(1 << bit for bit in CAPABILITIES.values()):016x}"
FIRST_HOST_ID, LAST_HOST_ID = 1879048192, 1879048192 + 4096 * 65536


def test_capabilities_are_exactly_those_that_packages_need(probe):
    status = probe("identity.py")["status"]
    assert status["CapPrm"] == status["CapEff"] == status["CapBnd"] == EXACTLY
    assert int(status["CapInh"], 16) == int(status["CapAmb"], 16) == 0
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"


def test_the_python_session_has_no_more_than_a_command(sandbox):
    text = sandbox.python_ok("print(open('/proc/self/status').read())")
    for line in (f"CapEff:\t{EXACTLY}", f"CapBnd:\t{EXACTLY}", "NoNewPrivs:\t1", "Seccomp:\t2"):
        assert line in text


def test_every_namespace_is_its_own(probe):
    mine = probe("identity.py")["namespaces"]
    for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
        assert mine[name] != os.readlink(f"/proc/self/ns/{name}"), name


def test_two_sandboxes_share_no_namespace_and_no_id(make_sandbox):
    read = "import os\nprint({n: os.readlink('/proc/self/ns/' + n) for n in os.listdir('/proc/self/ns')}); " \
           "print(open('/proc/self/uid_map').read().split())"
    seen = [s.python_ok(read).splitlines() for s in (make_sandbox(), make_sandbox())]
    one, other = eval(seen[0][0]), eval(seen[1][0])
    for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
        assert one[name] != other[name], name
    assert seen[0][1] != seen[1][1]


def test_root_inside_is_nobody_outside(warren, probe, sandbox):
    found = probe("identity.py")
    for name in ("uid_map", "gid_map"):
        inside, outside, count = map(int, found[name])
        assert inside == 0 and FIRST_HOST_ID <= outside and outside + count <= LAST_HOST_ID and count <= 65536
    # The host sees every process of the sandbox under that range.
    first = int(found["uid_map"][1])
    sandbox.bash_ok("setsid sleep 907 >/dev/null 2>&1 & su -s /bin/sh nobody -c 'setsid sleep 907 >/dev/null 2>&1 &'")
    seen = [p for p in warren.inside("sleep", "907", count=2)
            if first <= int(host.status_field(p.pid, "Uid").split()[0]) < first + 65536]
    assert len(seen) == 2


def test_the_user_namespace_belongs_to_the_sandbox_s_own_id(warren, sandbox):
    """Else its inotify, signal and other counters would be those of the host's root."""
    sandbox.bash_ok("setsid sleep 908 >/dev/null 2>&1 &")
    inside = warren.inside("sleep", "908")[0]
    with open(f"/proc/{inside.pid}/ns/user") as space:
        owner = struct.unpack("I", fcntl.ioctl(space, 0xB704, b"\0" * 4))[0]  # NS_GET_OWNER_UID
    assert FIRST_HOST_ID <= owner < LAST_HOST_ID


def test_only_standard_descriptors_are_inherited(probe, sandbox):
    found = probe("identity.py")["descriptors"]
    assert set(found) <= {"0", "1", "2", "3"}, found
    run = sandbox.python("import os\nfor n in os.listdir('/proc/self/fd'):\n"
                         "  try: print(n, os.readlink('/proc/self/fd/' + n))\n  except OSError: pass")
    for line in run.text.splitlines():
        number, target = line.split(" ", 1)
        assert target.startswith(("pipe:", "socket:", "/dev/", "anon_inode:", "/proc/", "/memfd:", "/tmp/", "/root/")), line


def test_the_environment_is_made_not_inherited(probe):
    environment = probe("identity.py")["environment"]
    assert environment["HOME"] == "/root" and "PATH" in environment
    for name, value in environment.items():
        assert not name.startswith(("WARREN_HOME", "WARREN_LISTEN", "WARREN_BUILD", "SUDO", "SSH")), name
        assert "warren-test-" not in value
    assert set(environment) <= {"HOME", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "USER", "LOGNAME", "SHELL", "PWD",
                                "SHLVL", "_", "TZ", "HOSTNAME", "OLDPWD", "DEBIAN_FRONTEND", "PYTHONUNBUFFERED",
                                "WARREN_CALL", "WARREN_RUNNER", "PYTHONIOENCODING", "TMPDIR"}, environment


def test_nothing_of_the_server_s_environment_is_inside(sandbox):
    """The server under test has HOST_SECRET in its environment (tests/warren_server.py)."""
    looked = ("import os\n"
              "texts = [repr(dict(os.environ))]\n"
              "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
              "    try: texts.append(open(f'/proc/{pid}/environ', errors='replace').read())\n"
              "    except OSError: pass\n"
              "print(sum('HOST_SECRET' in t for t in texts), sum('SSH_AUTH_SOCK' in t for t in texts), len(texts) > 1)")
    assert sandbox.python_ok(looked) == "0 0 True\n"
    assert sandbox.bash_ok("env | grep -c -e HOST_SECRET -e SSH_AUTH_SOCK; true") == "0\n"



def test_cgroup_paths_and_names_tell_nothing_of_the_host(probe):
    found = probe("identity.py")
    for line in found["cgroup"].splitlines():
        path = line.split(":", 2)[2]
        assert "warren" not in path and "sbx" not in path, line
    assert found["hostname"] != os.uname().nodename


def test_set_user_id_programs_do_not_raise(sandbox):
    run = sandbox.bash("cp /usr/bin/id /tmp/id && chmod 6755 /tmp/id && chmod 755 /tmp && "
                       "su -s /bin/sh nobody -c '/tmp/id -u'")
    assert run.text.strip() == "65534", run
    run = sandbox.bash("cp /usr/bin/python3.11 /tmp/py && setcap cap_net_admin,cap_sys_admin+ep /tmp/py; "
                       "/tmp/py -c 'print(open(\"/proc/self/status\").read())' | grep CapEff")
    if run.text:
        assert int(run.text.split()[1], 16) & ~int(EXACTLY, 16) == 0
    run = sandbox.bash("capsh --print 2>/dev/null; su -s /bin/sh nobody -c 'grep -E \"CapEff|CapPrm\" /proc/self/status'")
    assert all(int(line.split()[1], 16) == 0 for line in run.text.splitlines() if line.startswith("Cap"))

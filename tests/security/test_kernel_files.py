"""The kernel's files: read-only where they are there, absent or masked where they tell or do too much."""

# Files of /proc/sys that belong to a namespace of the sandbox's own and change nothing else.
OWN = ("/proc/sys/net/", "/proc/sys/fs/mqueue/", "/proc/sys/kernel/shm", "/proc/sys/kernel/msg", "/proc/sys/kernel/sem",
       "/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname", "/proc/sys/user/")
# Opens for everybody; without a security module nothing can be written to it.
HARMLESS = ("/proc/1/attr/current",)


def test_nothing_of_the_kernel_s_is_writable(probe):
    opened = [path for path in probe("proc_writes.py")["opened"] if not path.startswith(OWN + HARMLESS)]
    assert not opened, opened


def test_what_tells_too_much_is_empty_or_shut(probe):
    readable = probe("proc_writes.py")["readable"]
    for path, content in readable.items():
        if path == "/proc/kallsyms" and isinstance(content, str):
            assert all(line.startswith("0000000000000000") for line in content.splitlines() if len(line) > 17), path
            continue
        assert isinstance(content, int) or content == "", (path, content)


def test_values_written_anyway_do_not_arrive(sandbox):
    with open("/proc/sys/kernel/core_pattern") as file:
        before = file.read()
    run = sandbox.bash("echo '|/tmp/x' > /proc/sys/kernel/core_pattern; echo 1 > /proc/sys/vm/drop_caches; "
                       "echo c > /proc/sysrq-trigger; echo 7 > /proc/sys/kernel/pid_max; "
                       "echo /tmp/x > /sys/kernel/uevent_helper; echo 0 > /proc/sys/kernel/randomize_va_space; echo done")
    assert run.text == "done\n"
    with open("/proc/sys/kernel/core_pattern") as file:
        assert file.read() == before
    with open("/proc/sys/kernel/randomize_va_space") as file:
        assert file.read() == "2\n"

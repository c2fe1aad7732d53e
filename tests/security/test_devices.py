"""No device but the harmless ones, and no way to make one."""

HARMLESS = {(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2)}  # null zero full random urandom tty ptmx


def test_no_device_node_can_be_made_and_opened(probe):
    made = probe("devices.py")["made"]
    opened = {name: result for name, result in made.items() if result == "opened"}
    assert not opened, opened
    assert len(made) > 40


def test_only_harmless_devices_are_there(probe):
    found = probe("devices.py")
    for path, (block, major, minor) in found["devices"].items():
        assert not block and ((major, minor) in HARMLESS or 136 <= major <= 143), (path, major, minor)
    assert found["elsewhere"] == []


def test_the_harmless_devices_work(sandbox):
    run = sandbox.bash("echo x > /dev/null && head -c 4 /dev/zero | wc -c && head -c 8 /dev/urandom | wc -c && "
                       "head -c 8 /dev/random | wc -c && python3 -c 'import pty; pty.openpty()' && "
                       "(echo x > /dev/full) 2>&1; ls -l /dev/fd /dev/stdin /dev/ptmx | wc -l")
    assert run.text.split()[:3] == ["4", "8", "8"] and "No space" in run.text, run

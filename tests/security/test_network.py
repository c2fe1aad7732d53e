"""A sandbox has loopback and nothing else."""

import socket


def test_only_loopback_is_there_and_up(sandbox):
    text = sandbox.bash_ok("ip -o link; ip -o addr; ip route show table all | grep -v -e '^local' -e '^broadcast' "
                           "-e 'dev lo ' -e 'dev lo$' || true")
    links = [line for line in text.splitlines() if "link/" in line]
    assert len(links) == 1 and " lo:" in links[0] and "UP" in links[0], text
    assert sandbox.bash_ok("python3 - <<'END'\nimport socket\ns = socket.socket(); s.bind(('127.0.0.1', 8080)); s.listen()\n"
                           "c = socket.create_connection(('127.0.0.1', 8080)); print('loops')\nEND") == "loops\n"


def test_the_host_is_out_of_reach(warren, sandbox):
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))
        listener.listen()
        port = listener.getsockname()[1]
        code = """
import errno, socket
for host, port in TARGETS:
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        s = socket.socket(family, kind); s.settimeout(2)
        try:
            s.connect((host, port)); s.send(b'x'); print(host, kind, 'sent')
        except OSError as e:
            print(host, kind, 'refused')
"""
        own = socket.gethostbyname(socket.gethostname()) if socket.gethostname() else "10.0.0.1"
        targets = [("10.0.0.1", port), ("169.254.169.254", 80), ("192.168.0.1", 53), ("172.17.0.1", port), ("8.8.8.8", 53),
                   ("2001:4860:4860::8888", 53), ("fe80::1", 80), ("224.0.0.1", 9)]
        if not own.startswith("127."):
            targets.append((own, port))
        run = sandbox.python(f"TARGETS = {targets!r}\n{code}")
        assert "sent" not in run.text, run.text
        # Its loopback is not the host's: the server's port and the listener's are not there.
        run = sandbox.python(f"TARGETS = [('127.0.0.1', {port}), ('127.0.0.1', {warren.port})]\n{code}")
        stream = [line for line in run.text.splitlines() if "1 sent" in line.replace("SocketKind.SOCK_STREAM", "1")
                  and "STREAM" in line]
        assert stream == [], run.text
        listener.settimeout(0.2)
        try:
            listener.accept()
            raise AssertionError("something connected to the host")
        except TimeoutError:
            pass


def test_names_do_not_resolve_and_fail_at_once(sandbox):
    run = sandbox.bash("getent hosts secret.example.test; getent hosts localhost", timeout_seconds=40)
    assert "secret" not in run.text and ("127.0.0.1" in run.text or "::1" in run.text), run


def test_interfaces_routes_and_filters_cannot_be_changed(sandbox):
    run = sandbox.bash("ip link add x type dummy; ip addr add 10.9.9.9/32 dev lo; ip route add default dev lo; "
                       "ip tuntap add mode tun; ip link set lo down; ip netns add x; iptables -L; nft list ruleset; "
                       "ip -o link; true")
    links = [line for line in run.text.splitlines() if "link/" in line]
    assert len(links) == 1 and "UP" in links[0], run


def test_raw_and_packet_sockets_are_refused(sandbox):
    run = sandbox.python("""
import socket
for family, kind, protocol in [(socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_INET6, socket.SOCK_RAW, 58),
                               (17, socket.SOCK_RAW, 3), (17, socket.SOCK_DGRAM, 3)]:
    try: socket.socket(family, kind, protocol); print('opened', family, kind)
    except OSError: print('refused')
""")
    assert "opened" not in run.text, run.text


def test_netlink_tells_only_of_the_own_namespace(sandbox):
    run = sandbox.bash("ip -o addr; ip neigh; ss -tanup; cat /proc/net/dev /proc/net/tcp /proc/net/route /proc/net/arp")
    addresses = {word.split("/")[0] for word in run.text.split() if word.count(".") == 3 and "/" in word}
    assert addresses <= {"127.0.0.1"}, addresses
    assert "eth" not in run.text and "veth" not in run.text


def test_kernel_messages_over_netlink_are_not_delivered(sandbox):
    run = sandbox.python("""
import socket
for protocol in (15, 9, 12, 4, 16, 20):
    try:
        s = socket.socket(16, 3, protocol); s.settimeout(0.3)
        try: s.bind((0, 0xffffffff))
        except OSError: continue
        try: print('heard', protocol, len(s.recv(65536)))
        except OSError: pass
    except OSError: pass
""")
    assert "heard" not in run.text, run.text

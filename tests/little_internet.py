"""A little internet for tests: network namespaces in which this process, and the server that it
starts, are on a host of their own. Nothing leads out of it, so nothing that a test or a sandbox
sends can reach a real address.

    host   203.0.113.2, 2001:db8::2, 10.9.9.9    where this process is, between enter() and leave()
    world  everything else: 203.0.113.10 and .11, 2001:db8::10, and beside them what nobody may
           reach: 10.1.1.1, 169.254.169.254

In the world a DNS server answers (UDP and TCP 53), with the names of `names`, and web servers on
ports 80 and 8080 say on which address and for which host they were asked. What arrives there is
written down, packet by packet.
"""

import contextlib
import ctypes
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile

CLONE_NEWNET = 0x40000000
PUBLIC = ["203.0.113.10", "203.0.113.11"]
PUBLIC6 = "2001:db8::10"
PRIVATE = "10.1.1.1"
METADATA = "169.254.169.254"
HOST = ["203.0.113.2", "10.9.9.9", "2001:db8::2"]
NAMES = {"one.example.com": PUBLIC[:1], "two.example.com": PUBLIC[1:], "deep.one.example.org": [PUBLIC[0], PUBLIC6],
         "rebinding.example.com": [PRIVATE], "metadata.example.com": [METADATA]}

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), what)


def _own():
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _enter(namespace):
    _check(_libc.setns(namespace, CLONE_NEWNET), "setns")


def _new():
    """A new network namespace, in which this thread then is."""
    _check(_libc.unshare(CLONE_NEWNET), "unshare")
    return _own()


def _ip(*lines):
    for line in lines:
        subprocess.run(["ip", *line.split()], check=True, stdin=subprocess.DEVNULL)


def _set(path, value):
    with open(f"/proc/sys/net/{path}", "w") as file:
        file.write(value)


class LittleInternet:
    """with LittleInternet() as net: …; this thread is on the host meanwhile. The host passes packets on unless
    `forwarding` is "0"."""

    def __init__(self, names=None, forwarding="1"):
        self.names = {**NAMES, **(names or {})}
        self.forwarding = forwarding

    def __enter__(self):
        self.home = _own()
        try:
            self._make()
        except BaseException:
            _enter(self.home)
            raise
        return self

    def _make(self):
        self.world = _new()
        self.host = _new()
        _set("ipv4/ip_forward", self.forwarding)
        _set("ipv6/conf/all/forwarding", self.forwarding)
        _ip("link set lo up", f"link add eth0 type veth peer name world netns /proc/{os.getpid()}/fd/{self.world}",
            *[f"address add {own}{'/24' if own.startswith('203') else ''}{'/64 nodad' if ':' in own else ''} dev eth0"
              for own in HOST],
            "link set eth0 up", f"route add default via {PUBLIC[0]}", f"route add default via {PUBLIC6}")
        _enter(self.world)
        _ip("link set lo up", "link set world up", *[f"address add {own}/24 dev world" for own in PUBLIC],
            f"address add {PUBLIC6}/64 dev world nodad", f"address add {PRIVATE}/32 dev world",
            f"address add {METADATA}/32 dev world", f"route add {HOST[1]} via {HOST[0]}")
        self.log = tempfile.NamedTemporaryFile(prefix="warren-test-world-", suffix=".log")
        self.servers = subprocess.Popen([sys.executable, __file__, json.dumps(self.names)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=open(self.log.name, "ab"), start_new_session=True)
        _enter(self.host)
        assert self.servers.stdout.readline() == b"ready\n", "the world's servers did not start"

    def __exit__(self, *_):
        self.servers.send_signal(signal.SIGKILL)
        self.servers.wait()
        _enter(self.home)
        self.log.close()
        for namespace in (self.host, self.world, self.home):
            os.close(namespace)

    def arrived(self):
        """The packets that arrived in the world: dicts with source, destination, protocol and port."""
        with open(self.log.name) as file:
            return [json.loads(line) for line in file if line.startswith("{")]


def setting(path):
    """A setting of the network's where this thread is: "ipv4/ip_forward"."""
    with open(f"/proc/sys/net/{path}") as file:
        return file.read().strip()


@contextlib.contextmanager
def where(pid):
    """This thread is in the network of that process meanwhile."""
    home = _own()
    there = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter(there)
        yield
    finally:
        _enter(home)
        os.close(there)
        os.close(home)


def devices():
    """The network devices where this thread is, by name: their indices."""
    return {name: index for index, name in socket.if_nameindex()}


def nft(command):
    """What `nft COMMAND` prints where this thread is, which needs no nft: None if it fails."""
    library = ctypes.CDLL("libnftables.so.1")
    library.nft_ctx_new.restype = ctypes.c_void_p
    library.nft_ctx_get_output_buffer.restype = ctypes.c_char_p
    context = ctypes.c_void_p(library.nft_ctx_new(0))
    try:
        library.nft_ctx_buffer_output(context)
        library.nft_ctx_buffer_error(context)
        failed = library.nft_run_cmd_from_buffer(context, command.encode())
        return None if failed else library.nft_ctx_get_output_buffer(context).decode()
    finally:
        library.nft_ctx_free(context)


# The world's own process.


def _answer(query, names):
    """The answer to a DNS query, whose one question it repeats."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1"))
        at += 1 + query[at]
    kind = struct.unpack(">H", query[at + 1:at + 3])[0]
    addresses = names.get(".".join(labels).lower())
    family = {1: socket.AF_INET, 28: socket.AF_INET6}.get(kind)
    wanted = [a for a in addresses or [] if family and (":" in a) == (kind == 28)]
    head = struct.pack(">2sHHHHH", query[:2], 0x8180 if addresses is not None else 0x8183, 1, len(wanted), 0, 0)
    records = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 30, len(raw)) + raw
                       for raw in (socket.inet_pton(family, a) for a in wanted))
    return head + query[12:at + 5] + records


def _packet(frame):
    """What a packet is, or None for what is not IP."""
    kind, ip = struct.unpack(">H", frame[12:14])[0], frame[14:]
    if kind == 0x0800:
        source, destination, protocol, rest = ip[12:16], ip[16:20], ip[9], ip[(ip[0] & 15) * 4:]
    elif kind == 0x86dd:
        source, destination, protocol, rest = ip[8:24], ip[24:40], ip[6], ip[40:]
    else:
        return None
    family = socket.AF_INET if len(source) == 4 else socket.AF_INET6
    return {"source": socket.inet_ntop(family, source), "destination": socket.inet_ntop(family, destination),
            "protocol": protocol, "port": struct.unpack(">H", rest[2:4])[0] if protocol in (6, 17) else 0}


def _serve(names):
    import http.server
    import socketserver
    import threading

    class Web(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            said = json.dumps({"address": self.connection.getsockname()[0].removeprefix("::ffff:"),
                               "host": self.headers.get("Host"), "path": self.path}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_):
            pass

    class WebServer(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6
        daemon_threads = True

    class DnsOverUdp(socketserver.BaseRequestHandler):
        def handle(self):
            query, answering = self.request
            answering.sendto(_answer(query, names), self.client_address)

    class DnsOverTcp(socketserver.StreamRequestHandler):
        def handle(self):
            query = self.rfile.read(struct.unpack(">H", self.rfile.read(2))[0])
            answer = _answer(query, names)
            self.wfile.write(struct.pack(">H", len(answer)) + answer)

    class Udp(socketserver.ThreadingUDPServer):
        daemon_threads = True

    class Tcp(socketserver.ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True

    sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    sniffer.bind(("world", 0))
    # One of each address, so that an answer comes from the address that was asked.
    servers = [WebServer(("::", port), Web) for port in (80, 8080)]
    servers += [kind((address, 53), handler) for address in PUBLIC
                for kind, handler in ((Udp, DnsOverUdp), (Tcp, DnsOverTcp))]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    while True:
        frame, (_, _, direction, *_) = sniffer.recvfrom(65536)
        packet = _packet(frame) if direction != socket.PACKET_OUTGOING else None
        # Neighbour discovery between the two is the little internet's own.
        if packet and not (packet["protocol"] == 58 and packet["source"].startswith(("2001:db8::", "fe80:", "::"))):
            print(json.dumps(packet), file=sys.stderr, flush=True)


if __name__ == "__main__":
    _serve(json.loads(sys.argv[1]))

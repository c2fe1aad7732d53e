"""Programs that tests run in a sandbox behind a port, and what speaks to them from outside."""

import base64
import hashlib
import http.client
import os
import socket
import struct
import urllib.parse

from warren_client import eventually

# Answers what its path says; every connection a thread.
SERVER = r'''
import base64, hashlib, http.server, json, os, socket, socketserver, struct, sys, time, urllib.parse

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def body(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                piece = self.rfile.read(size)
                self.rfile.readline()
                if not size:
                    return
                yield piece
        left = int(self.headers.get("Content-Length", 0))
        while left:
            piece = self.rfile.read(min(left, 1 << 20))
            if not piece:
                raise ConnectionError("cut short")
            left -= len(piece)
            yield piece

    def answer(self, body, status=200, **fields):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def any_method(self):
        parts = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        getattr(self, "at_" + parts.path.strip("/").split("/")[0].replace("-", "_").replace(".", "_"), self.at_echo)(query)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_BREW = any_method

    def at_echo(self, query):
        digest, size = hashlib.sha256(), 0
        for piece in self.body():
            digest.update(piece)
            size += len(piece)
        self.answer(json.dumps({"method": self.command, "path": self.path, "headers": self.headers.items(), "bytes": size,
                                "sha256": digest.hexdigest()}).encode(), X_Echo="yes")

    def at_fields(self, query):
        list(self.body())
        self.send_response(int(query.pop("status", 200)))
        self.send_header("Content-Length", "2")
        for name, value in query.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"ok")

    def at_page(self, query):
        with open("/root/page.html", "rb") as page:
            self.answer(page.read(), Content_Type="text/html")

    def at_module_js(self, query):
        self.answer(b'window.moduleRan = "yes"', Content_Type="text/javascript")

    at_sw_js = at_module_js

    def at_big(self, query):
        left = int(query["bytes"])
        self.send_response(200)
        self.send_header("Content-Length", str(left))
        self.end_headers()
        block = os.urandom(1 << 16) * 16
        while left:
            piece = block[:min(left, len(block))]
            self.wfile.write(piece)
            left -= len(piece)

    def at_chunks(self, query):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Trailer", "X-After")
        self.end_headers()
        for i in range(int(query["count"])):
            piece = b"piece %d\n" % i
            self.wfile.write(b"%x;note=x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\nX-After: dropped\r\n\r\n")

    def at_until_close(self, query):
        self.protocol_version = "HTTP/1.0"
        self.close_connection = True
        self.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n" + b"u" * int(query["bytes"]))

    def at_events(self, query):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.close_connection = True
        for i in range(int(query["count"])):
            self.wfile.write(b"data: %d\n\n" % i)
            go = "/tmp/go-%d" % i
            while query.get("step") and not os.path.exists(go):
                time.sleep(0.005)

    def at_stall(self, query):
        self.send_response(200)
        self.send_header("Content-Length", "1000000000")
        self.end_headers()
        sent = 0
        block = b"s" * 65536
        while sent < 1000000000:
            self.wfile.write(block)
            sent += len(block)
            with open("/tmp/sent", "w") as file:
                file.write(str(sent))

    def at_refuse(self, query):
        self.close_connection = True
        self.answer(b"too much", 413)

    def at_sleepy(self, query):
        while not os.path.exists("/tmp/take"):
            time.sleep(0.01)
        self.at_echo(query)

    def at_sleep(self, query):
        time.sleep(float(query["seconds"]))
        self.answer(b"awake")

    def at_half(self, query):
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"half")
        self.close_connection = True

    def at_die(self, query):
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"half")
        self.wfile.flush()
        time.sleep(600)

    def at_other(self, query):
        """An upgrade to something that is no WebSocket: it says hello first, then echoes in capitals."""
        self.close_connection = True
        self.wfile.write(b"HTTP/1.1 101 Go\r\nUpgrade: shout\r\nConnection: Upgrade\r\nX-Kept: yes\r\n\r\nHELLO ")
        while True:
            piece = self.connection.recv(65536)
            if not piece:
                break
            self.connection.sendall(piece.upper())
        self.connection.sendall(b" BYE")

    def at_ws(self, query):
        self.close_connection = True
        if self.headers.get("Upgrade", "").lower() != "websocket":
            return self.answer(b"a WebSocket is wanted", 426)
        accept = base64.b64encode(hashlib.sha1((self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
        self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        while True:
            head = self.rfile.read(2)
            if len(head) < 2:
                return
            size = head[1] & 127
            if size == 126:
                size, = struct.unpack(">H", self.rfile.read(2))
            elif size == 127:
                size, = struct.unpack(">Q", self.rfile.read(8))
            mask = self.rfile.read(4)
            data = self.rfile.read(size)
            data = bytes(b ^ mask[i % 4] for i, b in enumerate(data)) if size < 4096 else (
                int.from_bytes(data, "big") ^ int.from_bytes((mask * (size // 4 + 1))[:size], "big")).to_bytes(size, "big")
            op = head[0] & 15
            start = struct.pack(">BB", 0x80 | (10 if op == 9 else op), size) if size < 126 else (
                struct.pack(">BBH", 0x80 | op, 126, size) if size < 65536 else struct.pack(">BBQ", 0x80 | op, 127, size))
            self.wfile.write(start + data)
            if op == 8:
                return

class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128

Server((sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
'''

# Says the same bytes to whoever has sent a head, whatever it asked for; notes what it was sent.
RAW = r'''
import socket, sys, threading
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
with open("/root/answer-" + sys.argv[1], "rb") as file:
    answer = file.read()
then = sys.argv[2]

def serve(one):
    heard = b""
    while b"\r\n\r\n" not in heard:
        piece = one.recv(65536)
        if not piece:
            break
        heard += piece
    try:
        one.sendall(answer)
    except OSError:
        return
    if then == "close":
        one.close()
        return
    one.settimeout(2)
    try:
        while True:
            piece = one.recv(65536)
            if not piece:
                break
            heard += piece
    except OSError:
        pass
    with open("/tmp/heard", "wb") as file:
        file.write(heard)

while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
'''


def listens(sandbox, port):
    probe = f"import socket,sys\ns=socket.socket()\nsys.exit(s.connect_ex(('127.0.0.1',{port})))"
    return eventually(lambda: sandbox.bash(f'python3 -c "{probe}"').code == 0, 30, f"a listener on {port}")


def start_program(sandbox, port=8080, host="127.0.0.1"):
    sandbox.put("/root/server.py", SERVER.encode())
    sandbox.bash_ok(f"nohup python3 /root/server.py {port} {host} >/tmp/server.log 2>&1 &")
    if host != "::1":
        listens(sandbox, port)
    return port


def start_raw(sandbox, port, answer, then="close"):
    """`then`: "close" the connection after the answer, or "hold" it."""
    sandbox.put("/root/raw.py", RAW.encode())
    sandbox.put(f"/root/answer-{port}", answer)
    sandbox.bash_ok(f"nohup python3 /root/raw.py {port} {then} >/dev/null 2>&1 &")
    listens(sandbox, port)


class Port:
    """An exposed port, as whoever has its URL uses it."""

    def __init__(self, sandbox, port, visibility="public"):
        answer = sandbox.client.expect(201, "POST", f"{sandbox.path}/ports", {"port": port, "visibility": visibility})
        self.info = answer.json()
        self.url = self.info["url"]
        self.token = self.info.get("token")
        parts = urllib.parse.urlsplit(self.url)
        self.host, self.tcp_port, self.prefix = parts.hostname, parts.port, parts.path.rstrip("/")
        # The server's own address, where the URL has a host of its own.
        self.address = (sandbox.client.host, sandbox.client.port)
        self.netloc = parts.netloc

    def connect(self, wait=60):
        return http.client.HTTPConnection(*self.address, timeout=wait)

    def open(self, method, path, body=None, headers=None, wait=60):
        connection = self.connect(wait)
        connection.request(method, self.prefix + path, body=body, headers={"Host": self.netloc, **(headers or {})},
                           encode_chunked="Transfer-Encoding" in (headers or {}))
        return connection, connection.getresponse()

    def ask(self, method, path, body=None, headers=None, wait=60):
        connection, response = self.open(method, path, body, headers, wait)
        try:
            response.content = response.read()
            return response
        finally:
            connection.close()

    def raw(self, wait=60):
        return socket.create_connection(self.address, timeout=wait)

    def head(self, line_path, method="GET", fields=""):
        return f"{method} {self.prefix}{line_path} HTTP/1.1\r\nHost: {self.netloc}\r\n{fields}\r\n".encode()


def hear_all(connection):
    heard = b""
    while True:
        piece = connection.recv(65536)
        if not piece:
            return heard
        heard += piece


class WebSocket:
    """A client of RFC 6455, as little of it as the tests need."""

    def __init__(self, port, path="/ws", headers=None, connection=None):
        self.connection = connection or port.raw()
        key = base64.b64encode(os.urandom(16)).decode()
        fields = f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
        fields += "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        self.connection.sendall(port.head(path, fields=fields))
        self.file = self.connection.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        self.headers = http.client.parse_headers(self.file)
        if self.status == 101:
            accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
            assert self.headers["Sec-WebSocket-Accept"] == accept.decode()

    @staticmethod
    def frame(data, op=2):
        size = len(data)
        start = (struct.pack(">BB", 0x80 | op, 0x80 | size) if size < 126 else
                 struct.pack(">BBH", 0x80 | op, 0x80 | 126, size) if size < 65536 else
                 struct.pack(">BBQ", 0x80 | op, 0x80 | 127, size))
        return start + b"\0\0\0\0" + data  # a mask of zeros masks nothing

    def send(self, data, op=2):
        self.connection.sendall(self.frame(data, op))

    def receive(self):
        """(op, data), or None at the end, however the connection came to it."""
        try:
            head = self.file.read(2)
        except ConnectionResetError:
            return None
        if len(head) < 2:
            return None
        size = head[1] & 127
        if size == 126:
            size, = struct.unpack(">H", self.file.read(2))
        elif size == 127:
            size, = struct.unpack(">Q", self.file.read(8))
        return head[0] & 15, self.file.read(size)

    def close(self):
        self.file.close()
        self.connection.close()

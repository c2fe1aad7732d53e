"""TLS of the server itself."""

import http.client
import os
import signal
import socket
import ssl
import subprocess
import tempfile
import time

import pytest

from port_programs import Port, start_program
from warren_client import Client, eventually
from warren_server import Warren, free_port, program, templates_folder, toml


def make_certificate(folder, name, days=30, common="warren.test"):
    paths = [os.path.join(folder, f"{name}.{kind}") for kind in ("crt", "key")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", str(days), "-subj", f"/CN={common}",
                    "-addext", f"subjectAltName=DNS:{common},IP:127.0.0.1", "-out", paths[0], "-keyout", paths[1]],
                   check=True, capture_output=True)
    os.chmod(paths[1], 0o600)
    return paths


@pytest.fixture(scope="module")
def certificates():
    with tempfile.TemporaryDirectory(prefix="warren-test-tls-") as folder:
        os.chmod(folder, 0o700)  # for root alone
        yield folder, make_certificate(folder, "one"), make_certificate(folder, "two")


class TlsWarren(Warren):
    """Its `url` is the plain one for this host; TLS is served at `port`."""

    def wait_healthy(self, deadline=60):
        def told():
            assert self.process.poll() is None, self.log()
            return os.path.exists(os.path.join(self.home, "run", "address")) and "ready" in self.log() or self.local()

        eventually(told, deadline, "an address")
        self.url = "http://" + self.local()
        super().wait_healthy(deadline)

    def local(self):
        try:
            with open(os.path.join(self.home, "run", "address")) as file:
                return file.read().strip()
        except FileNotFoundError:
            return ""


@pytest.fixture
def server(certificates):
    folder, one, _ = certificates
    live = [os.path.join(folder, name) for name in ("live.crt", "live.key")]
    replace(one, live)
    warren = TlsWarren.start(server={"tls_certificate": live[0], "tls_key": live[1]})
    warren.live = live
    try:
        yield warren
        warren.stop()
    finally:
        warren.discard()


def replace(source, target):
    for path, place in zip(source, target):
        with open(path, "rb") as file:
            content = file.read()
        with open(place + ".new", "wb") as file:
            file.write(content)
        os.chmod(place + ".new", 0o600)
        os.rename(place + ".new", place)


def shown(port):
    """The certificate that the server shows now."""
    return ssl.get_server_certificate(("127.0.0.1", port))


def text_of(path):
    with open(path) as file:
        return file.read()


def connect(server, trusted, **options):
    context = ssl.create_default_context(cafile=trusted)
    return http.client.HTTPSConnection("127.0.0.1", server.port, timeout=60, context=context, **options)


def test_everything_is_served_over_tls(server, certificates):
    connection = connect(server, certificates[1][0])
    connection.request("GET", "/v1/healthz")
    assert connection.getresponse().read() == b"ok"
    sock = connection.sock
    assert sock.version() in ("TLSv1.2", "TLSv1.3")
    body = os.urandom(3_000_000)
    headers = {"Authorization": f"Bearer {server.key}"}
    sandbox = server.client.create()
    connection.request("PUT", f"{sandbox.path}/files?path=/root/x", body=body, headers=headers)
    assert connection.getresponse().read() and connection.sock is sock, "the connection is kept"
    connection.request("GET", f"{sandbox.path}/files?path=/root/x", headers=headers)
    assert connection.getresponse().read() == body
    # A stream, and a port.
    start_program(sandbox)
    connection.request("POST", f"{sandbox.path}/ports", body=b'{"port":8080}', headers=headers)
    import json
    url = json.loads(connection.getresponse().read())["url"]
    assert url.startswith(f"https://127.0.0.1:{server.port}/p/")
    connection.request("GET", url.partition(str(server.port))[2] + "echo")
    told = json.loads(connection.getresponse().read())
    assert dict(told["headers"])["X-Forwarded-Proto"] == "https"
    connection.request("GET", url.partition(str(server.port))[2] + "big?bytes=20000000")
    assert len(connection.getresponse().read()) == 20_000_000


def test_a_websocket_over_tls(server, certificates):
    from port_programs import WebSocket
    sandbox = server.client.create()
    start_program(sandbox)
    port = Port(sandbox, 8080)
    context = ssl.create_default_context(cafile=certificates[1][0])
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as plain:
        talk = WebSocket(port, connection=context.wrap_socket(plain, server_hostname="127.0.0.1"))
        for i in range(1000):
            message = os.urandom(i * 7)
            talk.send(message)
            assert talk.receive() == (2, message)


def test_a_new_certificate_is_taken_without_a_restart(server, certificates):
    _, one, two = certificates
    assert shown(server.port) == text_of(one[0])
    old = connect(server, one[0])
    old.request("GET", "/v1/healthz")
    old.getresponse().read()
    pid = server.server_pid
    replace(two, server.live)
    eventually(lambda: shown(server.port) == text_of(two[0]), 20, "the new certificate")
    # Connections that there were go on.
    old.request("GET", "/v1/healthz")
    assert old.getresponse().read() == b"ok"
    # A key that does not fit changes nothing, and is told.
    replace([one[0], two[1]], server.live)
    eventually(lambda: "the key is not that of the certificate" in server.log(), 20, "a word in the log")
    assert shown(server.port) == text_of(two[0])
    # A server that is started anew has what was in force.
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: server.children("server") not in ([], [pid]), 20)
    server.wait_healthy()
    assert shown(server.port) == text_of(two[0])
    replace(one, server.live)
    eventually(lambda: shown(server.port) == text_of(one[0]), 20, "the first one again")


def test_what_speaks_no_tls_is_let_go(server, certificates):
    for said in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", os.urandom(200), b"\x16\x03\x01\xff\xff" + b"x" * 100, b""):
        with socket.create_connection(("127.0.0.1", server.port), timeout=40) as plain:
            plain.sendall(said)
            plain.shutdown(socket.SHUT_WR)
            heard = b""
            while piece := plain.recv(4096):
                heard += piece
            assert b"HTTP/1.1 200" not in heard
    for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = context.maximum_version = version
        with socket.create_connection(("127.0.0.1", server.port), timeout=40) as plain, pytest.raises((ssl.SSLError, OSError)):
            context.wrap_socket(plain)
    assert Client(server.url, None).request("GET", "/v1/healthz").status == 200


def test_the_command_line_works_beside_tls(server):
    environment = {k: v for k, v in server.environment.items() if k != "WARREN_LISTEN"}
    for env in (environment, server.environment):
        done = subprocess.run([program(), "sandbox", "list"], env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stdout.startswith("ID"), done
    assert "https://127.0.0.1" in server.log()


@pytest.fixture
def home():
    with tempfile.TemporaryDirectory(prefix="warren-test-") as folder:
        os.chmod(folder, 0o755)
        yield folder


@pytest.mark.parametrize("which,sentence", [
    ("another key", "the key is not that of the certificate"),
    ("no file", "server.tls_certificate"),
    ("no PEM", "cannot be read as PEM"),
    ("a locked key", "without a passphrase"),
    ("expired", "has expired"),
    ("one only", "go together"),
])
def test_what_is_of_no_use_is_told_at_the_start_and_by_doctor(home, certificates, which, sentence):
    folder, one, two = certificates
    settings = {"tls_certificate": one[0], "tls_key": one[1]}
    if which == "another key":
        settings["tls_key"] = two[1]
    elif which == "no file":
        settings["tls_certificate"] = folder + "/none.crt"
    elif which == "no PEM":
        settings["tls_certificate"] = one[1] + ".txt"
        with open(settings["tls_certificate"], "w") as file:
            file.write("nothing")
    elif which == "a locked key":
        settings["tls_key"] = folder + "/locked.key"
        subprocess.run(["openssl", "pkey", "-aes256", "-passout", "pass:x", "-in", one[1], "-out", settings["tls_key"]], check=True)
    elif which == "expired":
        settings["tls_certificate"] = folder + "/old.crt"
        subprocess.run(["openssl", "x509", "-in", one[0], "-signkey", one[1], "-days", "-1", "-out", settings["tls_certificate"]],
                       check=True, capture_output=True)
    else:
        del settings["tls_key"]
    with open(os.path.join(home, "warren.toml"), "w") as file:
        file.write(toml({"server": settings, "storage": {"templates_dir": templates_folder()}}))
    environment = {**os.environ, "WARREN_HOME": home, "WARREN_LISTEN": f"127.0.0.1:{free_port()}"}
    serve = subprocess.run([program(), "serve"], env=environment, capture_output=True, text=True, timeout=60)
    assert serve.returncode != 0 and sentence in serve.stderr, serve
    doctor = subprocess.run([program(), "doctor"], env=environment, capture_output=True, text=True, timeout=60)
    assert doctor.returncode != 0 and sentence in doctor.stdout + doctor.stderr, doctor

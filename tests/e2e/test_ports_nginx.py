"""The same requests to nginx, straight and through a port: what comes back must be the same."""

import http.client
import os
import subprocess
import tempfile

import pytest

from port_programs import Port, hear_all
from warren_client import eventually
from warren_server import free_port

CONFIG = """
daemon off; worker_processes 1; pid {home}/nginx.pid; error_log {home}/error.log; {user}
events {{ worker_connections 256; }}
http {{
  access_log off; client_body_temp_path {home}/b; proxy_temp_path {home}/p; fastcgi_temp_path {home}/f; uwsgi_temp_path {home}/u; scgi_temp_path {home}/s;
  client_max_body_size 8m; default_type text/plain;
  server {{
    listen 127.0.0.1:{port}; root {home}/www; etag on; server_tokens off;
    location /dav/ {{ dav_methods PUT DELETE; create_full_put_path on; }}
    location = /204 {{ return 204; }}
    location = /teapot {{ return 418 "short and stout"; }}
    location = /redirect {{ return 302 /elsewhere?x=y; }}
    location /gz/ {{ gzip on; gzip_types text/plain; gzip_min_length 1; }}
    location = /slow {{ limit_rate 100k; try_files /200k.txt =404; }}
  }}
}}
"""


def write_site(folder):
    os.makedirs(os.path.join(folder, "gz"))
    os.makedirs(os.path.join(folder, "dav"))
    for name, content in (("index.html", b"<h1>nginx</h1>"), ("200k.txt", b"0123456789" * 20_000), ("gz/a.txt", b"a" * 50_000),
                          ("empty", b""), ("a b.txt", b"a blank"), ("utf-é.txt", b"bytes")):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)
        os.utime(os.path.join(folder, name), (1_700_000_000, 1_700_000_000))


@pytest.fixture(scope="module")
def straight():
    """nginx on this host's loopback: (host, port)."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="warren-test-nginx-") as home:
        write_site(os.path.join(home, "www"))
        with open(os.path.join(home, "nginx.conf"), "w") as file:
            file.write(CONFIG.format(home=home, port=port, user="user root;"))
        process = subprocess.Popen(["/usr/sbin/nginx", "-c", os.path.join(home, "nginx.conf"), "-p", home], stderr=subprocess.DEVNULL)
        try:
            eventually(lambda: answers(port), 20, "nginx")
            yield "127.0.0.1", port
        finally:
            process.terminate()
            process.wait(20)


def answers(port):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/204")
        return connection.getresponse().status == 204
    except OSError:
        return False



@pytest.fixture(scope="module")
def through(shared_server, straight):
    """The URL of a port of a sandbox in which the same nginx runs, brought there with its libraries."""
    client = shared_server.client
    sandbox = client.create()
    libraries = [word for line in subprocess.run(["ldd", "/usr/sbin/nginx"], capture_output=True, text=True, check=True).stdout.splitlines()
                 for word in line.split() if word.startswith("/")]
    sandbox.bash_ok("mkdir -p /opt/nginx/lib /opt/nginx/home/www")
    for path in ["/usr/sbin/nginx", *libraries]:
        with open(path, "rb") as file:
            sandbox.put("/opt/nginx/" + ("nginx" if path.endswith("/nginx") else "lib/" + os.path.basename(path)), file.read())
    loader = next(os.path.basename(path) for path in libraries if "ld-linux" in path)
    sandbox.bash_ok("chmod 755 /opt/nginx/nginx /opt/nginx/lib/*")
    with tempfile.TemporaryDirectory(prefix="warren-test-site-") as folder:
        write_site(os.path.join(folder, "www"))
        for path, _, names in os.walk(os.path.join(folder, "www")):
            for name in names:
                inside = "/opt/nginx/home/" + os.path.relpath(os.path.join(path, name), folder)
                with open(os.path.join(path, name), "rb") as file:
                    sandbox.put(inside, file.read())
    sandbox.bash_ok("mkdir -p /opt/nginx/home/www/dav; find /opt/nginx/home/www -type f -exec touch -d @1700000000 {} +; mkdir -p /var/log/nginx")
    sandbox.put("/opt/nginx/home/nginx.conf", CONFIG.format(home="/opt/nginx/home", port=8080, user="user root;").encode())
    sandbox.bash_ok(f"nohup /opt/nginx/lib/{loader} --library-path /opt/nginx/lib /opt/nginx/nginx -c /opt/nginx/home/nginx.conf "
                    "-p /opt/nginx/home >/tmp/nginx.log 2>&1 &")
    port = Port(sandbox, 8080)
    try:
        eventually(lambda: port.ask("GET", "/204").status == 204, 30, "nginx in the sandbox")
    except AssertionError as error:
        raise AssertionError(f"{error}: {sandbox.bash('cat /tmp/nginx.log').text}") from None
    yield port
    client.request("DELETE", sandbox.path)


# Said by each hop for itself, or added by us.
OWN = {"date", "connection", "keep-alive", "content-security-policy", "referrer-policy", "transfer-encoding"}


def asked(straight, through, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection(*straight, timeout=60)
    connection.request(method, path, body=body, headers=headers or {})
    one = connection.getresponse()
    one.content = one.read()
    connection.close()
    return one, through.ask(method, path, body=body, headers=headers)


@pytest.mark.parametrize("method,path,body,headers", [
    ("GET", "/", None, {}),
    ("HEAD", "/200k.txt", None, {}),
    ("GET", "/200k.txt", None, {}),
    ("GET", "/empty", None, {}),
    ("GET", "/a%20b.txt", None, {}),
    ("GET", "/utf-%C3%A9.txt", None, {}),
    ("GET", "/missing", None, {}),
    ("GET", "/204", None, {}),
    ("GET", "/teapot", None, {}),
    ("GET", "/slow", None, {}),
    ("GET", "/gz/a.txt", None, {"Accept-Encoding": "gzip"}),
    ("GET", "/200k.txt", None, {"Range": "bytes=100-199"}),
    ("GET", "/200k.txt", None, {"Range": "bytes=0-0,-5"}),
    ("GET", "/200k.txt", None, {"Range": "bytes=900000-"}),
    ("GET", "/200k.txt", None, {"If-Modified-Since": "Tue, 14 Nov 2023 22:13:20 GMT"}),
    ("GET", "/200k.txt", None, {"If-None-Match": "\"6553f100-30d40\""}),
    ("POST", "/index.html", b"x=y", {}),
    ("PUT", "/dav/new.txt", b"put" * 1000, {}),
    ("DELETE", "/dav/new.txt", None, {}),
    ("DELETE", "/dav/new.txt", None, {}),
    ("PUT", "/dav/large", b"l" * (9 << 20), {}),
    ("GET", "/../../etc/passwd", None, {}),
    ("BREW", "/", None, {}),
], ids=lambda value: f"{len(value)} bytes" if isinstance(value, bytes) else None)
def test_nginx_answers_the_same_through_a_port(straight, through, method, path, body, headers):
    try:
        one, other = asked(straight, through, method, path, body, headers)
    except (BrokenPipeError, ConnectionResetError):
        # nginx resets who goes on sending what it has refused; through the port it must come to the same.
        assert len(body or b"") > 8 << 20
        return
    assert one.status == other.status
    if "multipart/byteranges" not in (one.headers["Content-Type"] or ""):
        assert one.content == other.content
        kept = [{name.lower(): value for name, value in answer.headers.items() if name.lower() not in OWN} for answer in (one, other)]
        # nginx names itself by its own address in it; the next test looks at that.
        assert (kept[0].pop("location", None) is None) == (kept[1].pop("location", None) is None)
        assert kept[0] == kept[1]
    else:
        assert len(one.content) == len(other.content)


def test_redirects_of_nginx_stay_below_the_port(straight, through):
    one, other = asked(straight, through, "GET", "/redirect")
    assert one.status == other.status == 302
    assert other.headers["Location"] == through.prefix + "/elsewhere?x=y"


def test_nginx_sees_no_difference_in_a_pipeline(through):
    connection = through.raw()
    connection.sendall(b"".join(through.head(path) for path in ("/", "/teapot", "/204")) + through.head("/", fields="Connection: close\r\n"))
    heard = hear_all(connection)
    assert heard.count(b"HTTP/1.1 200 OK") == 2 and heard.count(b"HTTP/1.1 418") == 1 and heard.count(b"HTTP/1.1 204") == 1

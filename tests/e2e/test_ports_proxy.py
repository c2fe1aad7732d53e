"""What passes through a port, and what does not."""

import base64
import hashlib
import http.client
import json
import os
import socket
import struct
import threading
import time

import pytest

import host
from port_programs import Port, WebSocket, hear_all, start_program, start_raw
from warren_client import eventually


@pytest.fixture(scope="module")
def served(module_sandbox):
    start_program(module_sandbox)
    return module_sandbox


@pytest.fixture(scope="module")
def port(served):
    return Port(served, 8080)


def echoed(answer):
    assert answer.status == 200, (answer.status, answer.content)
    return json.loads(answer.content)


def fields(answer, name):
    return [value for key, value in echoed(answer)["headers"] if key.lower() == name.lower()]


# Methods, paths, bodies.

@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"])
def test_every_method_arrives(port, method):
    assert echoed(port.ask(method, "/echo"))["method"] == method


def test_head_has_no_body_and_the_length_of_one(port):
    answer = port.ask("HEAD", "/fields")
    assert answer.status == 200 and answer.headers["Content-Length"] == "2" and answer.content == b""


@pytest.mark.parametrize("path", ["/echo/a%2Fb/%E4%BD%A0?q=%26&x=a+b", "/echo//double///", "/echo/../echo/./x", "/echo/;p=1?a=b?c=d", "/echo/~!$&'()*+,;=:@"])
def test_paths_arrive_as_they_were_sent(port, path):
    assert echoed(port.ask("GET", path))["path"] == path


@pytest.mark.parametrize("size", [0, 1, 65_536, 5_000_000])
@pytest.mark.parametrize("coding", ["length", "chunked"])
def test_bodies_arrive_whole(port, size, coding):
    body = os.urandom(size)
    headers = {"Transfer-Encoding": "chunked"} if coding == "chunked" else {}
    pieces = iter([body[i:i + 10_000] for i in range(0, size, 10_000)]) if coding == "chunked" else body
    told = echoed(port.ask("POST", "/echo", body=pieces, headers=headers))
    assert (told["bytes"], told["sha256"]) == (size, hashlib.sha256(body).hexdigest())


def test_one_connection_carries_many_requests(port):
    connection = port.connect()
    for i in range(50):
        connection.request("POST" if i % 2 else "GET", f"{port.prefix}/echo?{i}", body=b"b" * i if i % 2 else None)
        response = connection.getresponse()
        told = json.loads(response.read())
        assert told["path"] == f"/echo?{i}" and told["bytes"] == (i if i % 2 else 0)
        sock = connection.sock
        assert sock is not None, "the connection is kept"


def test_requests_in_a_pipeline_are_answered_in_order(port):
    connection = port.raw()
    connection.sendall(b"".join(port.head(f"/echo?{i}") for i in range(5)) + port.head("/echo?last", fields="Connection: close\r\n"))
    heard = hear_all(connection)
    places = [heard.index(b'"path": "/echo?%d"' % i) for i in range(5)]
    assert places == sorted(places) and heard.count(b"HTTP/1.1 200 OK") == 6


def test_chunked_answers_and_those_until_the_end_arrive_whole(port):
    answer = port.ask("GET", "/chunks?count=1000")
    assert answer.content == b"".join(b"piece %d\n" % i for i in range(1000))
    assert answer.headers["Transfer-Encoding"] == "chunked" and answer.headers["Trailer"] is None
    assert port.ask("GET", "/until-close?bytes=300000").content == b"u" * 300_000
    connection = port.raw()
    connection.sendall(port.head("/chunks?count=3").replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert hear_all(connection).endswith(b"\r\n\r\npiece 0\npiece 1\npiece 2\n")


@pytest.mark.parametrize("status", [200, 201, 204, 206, 301, 304, 404, 418, 500, 599])
def test_statuses_arrive(port, status):
    assert port.ask("GET", f"/fields?status={status}").status == status


def test_events_arrive_as_they_are_said(served, port):
    served.bash_ok("rm -f /tmp/go-*")
    connection, response = port.open("GET", "/events?count=5&step=1")
    assert response.headers["Content-Type"] == "text/event-stream"
    for i in range(5):
        # The next one is not said before this one was heard.
        assert response.readline() == b"data: %d\n" % i and response.readline() == b"\n"
        served.bash_ok(f"touch /tmp/go-{i}")
    assert response.read() == b""


# 100-continue.

def test_a_body_is_asked_for_before_it_comes(port):
    connection = port.raw()
    connection.sendall(port.head("/echo", "POST", "Content-Length: 4\r\nExpect: 100-continue\r\nConnection: close\r\n"))
    file = connection.makefile("rb")
    assert file.readline() == b"HTTP/1.1 100 Continue\r\n" and file.readline() == b"\r\n"
    connection.sendall(b"body")
    assert b'"bytes": 4' in file.read()


def test_a_body_that_the_program_refuses_need_not_come(served, port):
    start_raw(served, 9100, b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig", "hold")
    refusing = Port(served, 9100)
    connection = refusing.raw()
    connection.sendall(refusing.head("/", "POST", "Content-Length: 1000000000\r\nExpect: 100-continue\r\n"))
    heard = hear_all(connection)
    assert heard.startswith(b"HTTP/1.1 413 ") and heard.endswith(b"big") and b"100 Continue" not in heard


def test_an_answer_may_come_before_the_body_is_through(port):
    connection = port.raw()
    connection.sendall(port.head("/refuse", "POST", "Content-Length: 100000000\r\n") + b"x" * 100_000)
    file = connection.makefile("rb")
    assert file.readline().startswith(b"HTTP/1.1 413 ")
    assert file.read().endswith(b"too much")


# Fields.

def test_what_concerns_one_hop_only_stays_there(port):
    answer = port.ask("GET", "/echo", headers={
        "Connection": "keep-alive, X-Mine, X-Forwarded-For", "X-Mine": "1", "Keep-Alive": "timeout=5", "TE": "trailers", "Trailer": "X",
        "Proxy-Authorization": "Basic eDp5", "Proxy-Connection": "keep-alive", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQAAP__", "X-Other": "2"})
    names = {name.lower() for name, _ in echoed(answer)["headers"]}
    assert names.isdisjoint({"x-mine", "keep-alive", "te", "trailer", "proxy-authorization", "proxy-connection", "upgrade", "http2-settings"})
    assert {"x-other", "x-forwarded-for", "host"} <= names and fields(answer, "connection") == ["close"]
    answer = port.ask("GET", "/fields?Connection=X-Mine&X-Mine=1&Keep-Alive=x&Proxy-Authenticate=y&X-Other=2")
    assert answer.headers["X-Other"] == "2"
    assert not {"X-Mine", "Keep-Alive", "Proxy-Authenticate"} & set(answer.headers)


def test_the_program_learns_who_asks(port):
    answer = port.ask("GET", "/echo")
    assert fields(answer, "X-Forwarded-For") == ["127.0.0.1"]
    assert fields(answer, "X-Forwarded-Proto") == ["http"]
    assert fields(answer, "X-Forwarded-Host") == fields(answer, "Host") == [port.netloc]
    assert fields(answer, "X-Forwarded-Prefix") == [port.prefix]
    # What stands on loopback may be the operator's own proxy.
    answer = port.ask("GET", "/echo", headers={"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https", "Forwarded": "for=evil",
                                               "X-Forwarded-Prefix": "/other", "X_Forwarded_For": "evil", "X-Real-IP": "evil"})
    assert fields(answer, "X-Forwarded-For") == ["203.0.113.9, 127.0.0.1"] and fields(answer, "X-Forwarded-Proto") == ["https"]
    assert fields(answer, "X-Forwarded-Prefix") == [port.prefix] and b"evil" not in answer.content


def test_a_key_of_warrens_goes_no_further(served, port):
    key = served.client.key
    encoded = "Basic " + base64.b64encode(f"x:{key}".encode()).decode()
    for headers in ({"Authorization": f"Bearer {key}"}, {"Authorization": encoded}, {"X-Api-Key": key}, {"Cookie": f"key={key}"}):
        answer = port.ask("GET", "/echo", headers=headers)
        assert answer.status == 200 and key.encode() not in answer.content and encoded.encode() not in answer.content
    assert fields(port.ask("GET", "/echo", headers={"Authorization": "Bearer the-programs-own"}), "Authorization") == ["Bearer the-programs-own"]


def test_on_the_shared_origin_pages_are_shut_in(port):
    answer = port.ask("GET", "/fields?Content-Security-Policy=default-src+*&Clear-Site-Data=x&Strict-Transport-Security=x&Alt-Svc=x"
                      "&Location=/login&Set-Cookie=sid%3D1%3B+Path%3D/%3B+Domain%3D127.0.0.1")
    policies = answer.headers.get_all("Content-Security-Policy")
    assert policies[0] == "default-src *" and policies[1].startswith("sandbox ") and "allow-same-origin" not in policies[1]
    assert not {"Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc"} & set(answer.headers)
    assert answer.headers["Location"] == port.prefix + "/login"
    cookie = answer.headers["Set-Cookie"]
    assert f"Path={port.prefix}/" in cookie and "Domain" not in cookie
    told = echoed(port.ask("GET", "/echo", headers={"Cookie": "login=of-the-origin; " + cookie.split(";")[0]}))
    assert dict(told["headers"])["Cookie"] == "sid=1"


# Smuggling, towards the program.

@pytest.mark.parametrize("name,fields,body", [
    ("two ways to tell the length", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    ("the other way round", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", b"0\r\n\r\n"),
    ("two lengths", "Content-Length: 5\r\nContent-Length: 6\r\n", b"hello!"),
    ("a list of lengths", "Content-Length: 5, 5\r\n", b"hello"),
    ("a signed length", "Content-Length: +5\r\n", b"hello"),
    ("a folded line", "X: a\r\n Transfer-Encoding: chunked\r\n", b""),
    ("a blank before the colon", "Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"),
    ("a bare line feed", "X: a\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    ("another coding", "Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"),
    ("an obscured coding", "Transfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n"),
    ("a coding twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", b"0\r\n\r\n"),
    ("a bad chunk", "Transfer-Encoding: chunked\r\n", b"5;\nxhello\r\n0\r\n\r\n"),
    ("a signed chunk", "Transfer-Encoding: chunked\r\n", b"+5\r\nhello\r\n0\r\n\r\n"),
    ("a chunk too short", "Transfer-Encoding: chunked\r\n", b"9\r\nhello\r\n0\r\n\r\n"),
    ("two hosts", "Host: other\r\n", b""),
], ids=lambda value: value if isinstance(value, str) and value.isprintable() else "")
def test_what_would_smuggle_a_request_past_us_is_refused(served, port, name, fields, body):
    connection = port.raw(20)
    connection.sendall(port.head("/echo?outer", "POST", fields) + body + port.head("/echo?smuggled", fields="X-Mark: smuggled\r\n"))
    heard = hear_all(connection)
    assert b"smuggled" not in heard and heard.count(b"HTTP/1.1 ") == 1, heard
    assert heard.split()[1] in (b"400", b"501"), heard


def test_the_head_that_arrives_is_made_anew(served):
    start_raw(served, 9110, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "hold")
    raw = Port(served, 9110)
    served.bash_ok("rm -f /tmp/heard")
    connection = raw.raw()
    connection.sendall(raw.head("/x?y", "POST", "Content_Length: 99\r\nTransfer_Encoding: chunked\r\nTransfer-Encoding:chunked\r\n"
                                                "Connection: close, Host, Content-Length, Transfer-Encoding\r\n") +
                       b"3;ext=\"a\"\r\nabc\r\n0\r\nX-Trailer: b\r\n\r\n")
    assert hear_all(connection).endswith(b"ok")
    eventually(lambda: served.get_status("/tmp/heard") == 200, 20, "what was heard")
    head, _, body = served.get("/tmp/heard").partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /x?y HTTP/1.1" and lines[1] == b"Host: " + raw.netloc.encode()
    assert [line for line in lines if line.lower().replace(b"_", b"-").startswith((b"content-length", b"transfer-encoding"))] == [b"Transfer-Encoding: chunked"]
    assert body == b"3\r\nabc\r\n0\r\n\r\n"


# Smuggling, towards the client; and other nonsense.

NONSENSE = [
    ("no HTTP", b"SSH-2.0-OpenSSH_9.2\r\n"),
    ("bytes", os.urandom(64).replace(b"H", b"x") + b"\r\n\r\n"),
    ("nothing", b""),
    ("half a head", b"HTTP/1.1 200 OK\r\nContent-"),
    ("two lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok"),
    ("both framings", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
    ("a folded line", b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok"),
    ("bare line feeds", b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok"),
    ("a blank before the colon", b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok"),
    ("another version", b"HTTP/3.0 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    ("another coding", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
    ("no status", b"HTTP/1.1 OK\r\n\r\n"),
    ("a status that is none", b"HTTP/1.1 999 Huh\r\nContent-Length: 2\r\n\r\nok"),
    ("an upgrade that nobody wanted", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nstuff"),
    ("nothing but 1xx", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100),
    ("an endless head", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000),
]


@pytest.mark.parametrize("number", range(len(NONSENSE)), ids=[name for name, _ in NONSENSE])
def test_an_answer_that_is_none_is_502(served, number):
    answer = NONSENSE[number][1]
    number += 9200
    start_raw(served, number, answer)
    result = Port(served, number).ask("GET", "/", wait=20)
    assert result.status == 502 and json.loads(result.content)["error"]


def test_hints_before_the_answer_do_no_harm(served):
    start_raw(served, 9701, b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    assert Port(served, 9701).ask("GET", "/").content == b"ok"


def test_what_follows_an_answer_is_nobodys(served):
    start_raw(served, 9702, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nextra")
    port = Port(served, 9702)
    connection = port.raw()
    connection.sendall(port.head("/1") + port.head("/2", fields="Connection: close\r\n"))
    heard = hear_all(connection)
    assert heard.count(b"HTTP/1.1 200") == 2 and b"extra" not in heard


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
                                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
                                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nxyz\r\n"],
                         ids=["a length", "a chunk", "a broken chunk"])
def test_an_answer_that_breaks_off_is_no_whole_one(served, answer):
    number = 9710 + len(answer) % 50
    start_raw(served, number, answer)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        Port(served, number).ask("GET", "/")


def test_a_server_that_says_nothing_is_504(start_server):
    warren = start_server(ports={"answer_timeout_seconds": 2})
    sandbox = warren.client.create()
    start_program(sandbox)
    port = Port(sandbox, 8080)
    begun = time.monotonic()
    answer = port.ask("GET", "/sleep?seconds=60")
    assert answer.status == 504 and 1.5 < time.monotonic() - begun < 15
    # A program that takes its time over a body, and a client that does, are no silence.
    connection = port.raw()
    connection.sendall(port.head("/echo", "POST", "Content-Length: 8\r\nConnection: close\r\n"))
    for piece in (b"ab", b"cd", b"ef", b"gh"):
        time.sleep(1)
        connection.sendall(piece)
    assert b'"bytes": 8' in hear_all(connection)
    # Nor is one between two pieces of an answer.
    assert port.ask("GET", "/events?count=1").status == 200


def test_there_is_a_limit_to_connections(start_server):
    warren = start_server(ports={"max_connections_per_sandbox": 4})
    sandbox = warren.client.create()
    start_program(sandbox)
    port = Port(sandbox, 8080)
    talks = [WebSocket(port) for _ in range(4)]
    assert [talk.status for talk in talks] == [101] * 4
    answer = port.ask("GET", "/echo")
    assert answer.status == 503 and answer.headers["Retry-After"]
    sandbox.works()
    talks[0].close()
    assert eventually(lambda: port.ask("GET", "/echo").status == 200, 20, "room")


# Upgrades.

def test_ten_thousand_messages_through_a_websocket(port):
    talk = WebSocket(port)
    sizes = [0, 1, 125, 126, 1000, 65_535, 65_536]
    messages = [os.urandom(sizes[i % 7] if i % 100 == 0 else i % 200) for i in range(10_000)]

    def send():
        for message in messages:
            talk.send(message)

    sender = threading.Thread(target=send)
    sender.start()
    for message in messages:
        assert talk.receive() == (2, message)
    sender.join()
    talk.send(b"\x03\xe8", op=8)
    assert talk.receive() == (8, b"\x03\xe8") and talk.receive() is None


def test_pings_close_codes_and_text_pass(port):
    talk = WebSocket(port)
    talk.send(b"are you there", op=9)
    assert talk.receive() == (10, b"are you there")
    talk.send("grüße".encode(), op=1)
    assert talk.receive() == (1, "grüße".encode())


def test_a_websocket_that_is_refused_is_an_ordinary_answer(port):
    connection = port.raw()
    connection.sendall(port.head("/fields?status=403", fields="Upgrade: websocket\r\nConnection: Upgrade, close\r\n"))
    assert hear_all(connection).startswith(b"HTTP/1.1 403 ")


def test_other_protocols_pass_and_each_half_ends_by_itself(port):
    connection = port.raw()
    # What follows at once belongs to the other protocol.
    connection.sendall(port.head("/other", fields="Upgrade: shout\r\nConnection: upgrade\r\n") + b"early ")
    heard = b""
    while b"HELLO " not in heard:
        heard += connection.recv(65536)
    connection.sendall(b"late ")
    connection.shutdown(socket.SHUT_WR)
    head, _, rest = (heard + hear_all(connection)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 ") and b"Upgrade: shout" in head and b"X-Kept: yes" in head
    assert rest == b"HELLO EARLY LATE  BYE"


def test_a_client_that_goes_ends_the_programs_connection(served, port):
    talk = WebSocket(port)
    before = served.bash_ok("cat /proc/net/tcp | awk '$4==\"01\"' | wc -l")
    assert int(before) >= 2
    talk.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    talk.close()
    assert eventually(lambda: served.bash_ok("cat /proc/net/tcp | awk '$4==\"01\"' | wc -l").strip() == "0", 20, "no connection inside")
    connection, response = port.open("GET", "/die")
    connection.close()
    response.close()
    assert eventually(lambda: served.bash_ok("cat /proc/net/tcp | awk '$4==\"01\"' | wc -l").strip() == "0", 20, "no connection inside")


# Much, and slowly.

def resident(pid):
    return int(host.status_field(pid, "VmRSS").split()[0]) / 1024


def test_a_gigabyte_each_way_costs_no_memory(warren, port):
    size = 1 << 30
    before = resident(warren.server_pid)
    most = 0
    connection, response = port.open("GET", f"/big?bytes={size}", wait=120)
    left = size
    while left:
        piece = response.read(1 << 20)
        assert piece
        left -= len(piece)
        if left % (64 << 20) < (1 << 20):
            most = max(most, resident(warren.server_pid))
    connection.close()
    block = os.urandom(1 << 20)

    def pieces():
        nonlocal most
        for i in range(1024):
            if i % 64 == 0:
                most = max(most, resident(warren.server_pid))
            yield block

    told = echoed(port.ask("POST", "/echo", body=pieces(), headers={"Content-Length": str(size)}, wait=120))
    assert told["bytes"] == size
    assert most - before < 64, f"{before:.0f} MiB before, {most:.0f} MiB at most"


def test_a_client_that_does_not_read_stops_the_program(served, port):
    served.bash_ok("rm -f /tmp/sent")
    connection = port.raw()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    connection.sendall(port.head("/stall"))
    seen = -1

    def stands_still():
        nonlocal seen
        # Not as a download: its program writes it anew all the time.
        now = int(served.bash_ok("cat /tmp/sent 2>/dev/null || true").strip() or 0)
        still = now == seen and now > 0
        seen = now
        time.sleep(0.5)
        return still

    eventually(stands_still, 60, "a program that waits")
    assert seen < 64 << 20
    # Others are not held up.
    assert port.ask("GET", "/echo").status == 200
    served.works()
    connection.close()


def test_a_program_that_does_not_read_stops_the_client(served, port):
    served.bash_ok("rm -f /tmp/take")
    connection = port.raw()
    connection.sendall(port.head("/sleepy", "POST", "Content-Length: 200000000\r\nConnection: close\r\n"))
    connection.settimeout(2)
    sent = 0
    block = b"b" * 65536
    try:
        while sent < 200_000_000:
            sent += connection.send(block[:200_000_000 - sent])
    except TimeoutError:
        pass
    assert 0 < sent < 64 << 20
    assert port.ask("GET", "/echo").status == 200
    served.bash_ok("touch /tmp/take")
    connection.settimeout(60)
    connection.sendall(b"b" * (200_000_000 - sent))
    assert b'"bytes": 200000000' in hear_all(connection)


def test_many_at_once(port):
    failures = []

    def ask(i):
        body = os.urandom(20_000)
        for _ in range(10):
            told = echoed(port.ask("POST", f"/echo?{i}", body=body))
            if told["sha256"] != hashlib.sha256(body).hexdigest() or told["path"] != f"/echo?{i}":
                failures.append(told)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures

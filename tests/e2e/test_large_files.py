"""Very large files: whole, streamed, and in flat memory."""

import hashlib
import socket

import host
from warren_client import eventually

MIB = 1 << 20
GIB = 1 << 30
# What server and agent may grow by, whatever the size of the file.
SLACK = 48 * MIB


class Meter:
    """The anonymous memory that server, runtime and agents grow by while it is watched."""

    def __init__(self, warren, sandbox):
        sandbox.bash_ok("true")
        pids = [warren.server_pid, warren.runtime_pid] + [agent.pid for agent in warren.agents()]
        self.base = {pid: host.anonymous_bytes(pid) for pid in pids}
        self.peak = dict(self.base)

    def look(self):
        for pid in self.base:
            self.peak[pid] = max(self.peak[pid], host.anonymous_bytes(pid))

    def growth(self):
        return max(self.peak[pid] - self.base[pid] for pid in self.base)


def pattern(block):
    """1 MiB that differs from block to block and costs nothing to make."""
    return (block.to_bytes(8, "little") * (MIB // 8))


def upload(client, target, size, meter):
    """PUTs `size` bytes of the pattern; returns (status, sha256 of what was sent)."""
    digest = hashlib.sha256()
    with socket.create_connection((client.host, client.port), timeout=120) as sock:
        sock.sendall(f"PUT {target} HTTP/1.1\r\nHost: {client.host}\r\nAuthorization: Bearer {client.key}\r\n"
                     f"Content-Length: {size}\r\nConnection: close\r\n\r\n".encode())
        for block in range(size // MIB):
            data = pattern(block)
            digest.update(data)
            sock.sendall(data)
            if block % 16 == 0:
                meter.look()
        answer = b""
        while chunk := sock.recv(65536):
            answer += chunk
    return answer, digest.hexdigest()


def download(client, target, meter, digest=None):
    """GETs a file into nowhere; returns how many bytes came."""
    connection, response = client.open("GET", target)
    assert response.status == 200
    buffer = memoryview(bytearray(4 * MIB))
    size = blocks = 0
    while count := response.readinto(buffer):
        if digest is not None:
            digest.update(buffer[:count])
        size += count
        blocks += 1
        if blocks % 16 == 0:
            meter.look()
    connection.close()
    return size


def test_one_gib_there_and_back(start_server):
    warren = start_server(limits={"disk_mib": 3 * 1024})
    sandbox = warren.client.create()
    meter = Meter(warren, sandbox)
    answer, sent = upload(sandbox.client, sandbox.file_path("/root/big"), GIB, meter)
    assert answer.split(b"\r\n")[0].split()[1] in (b"200", b"201"), answer
    assert sent.encode() in answer
    received = hashlib.sha256()
    assert download(sandbox.client, sandbox.file_path("/root/big"), meter, received) == GIB
    assert received.hexdigest() == sent
    assert meter.growth() < SLACK, f"memory grew by {meter.growth() >> 20} MiB"


def test_four_gib_are_read_in_flat_memory(warren, sandbox):
    sandbox.bash_ok("truncate -s 4G /root/sparse")
    meter = Meter(warren, sandbox)
    assert download(sandbox.client, sandbox.file_path("/root/sparse"), meter) == 4 * GIB
    assert meter.growth() < SLACK, f"memory grew by {meter.growth() >> 20} MiB"


def test_a_reader_that_stops_reading_costs_bounded_memory_and_stalls_nobody(warren, sandbox):
    sandbox.bash_ok("truncate -s 4G /root/sparse")
    meter = Meter(warren, sandbox)
    stalled = [sandbox.client.open("GET", sandbox.file_path("/root/sparse")) for _ in range(8)]
    assert sandbox.bash_ok("echo ok") == "ok\n"
    sandbox.put("/root/small", b"small")
    assert sandbox.get("/root/small") == b"small"
    meter.look()
    assert meter.growth() < 2 * SLACK
    for connection, _ in stalled:
        connection.close()
    eventually(lambda: sandbox.bash_ok("echo ok") == "ok\n", 60)

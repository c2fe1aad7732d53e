"""What a port costs: a download and small requests through one, beside the same without Warren. A part of bench/run's Bench."""

import socket
import statistics
import subprocess
import time

import port_programs
from warren_client import Client

PYTHON = "/usr/bin/python3"
SIZE = 1_000_000_000


def download(address, path, buffer=memoryview(bytearray(4 << 20))):
    """Bytes a second of a body of SIZE."""
    with socket.create_connection(address, timeout=120) as connection:
        start = time.perf_counter()
        connection.sendall(f"GET {path}big?bytes={SIZE} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        total = 0
        while count := connection.recv_into(buffer):
            total += count
        assert total > SIZE, total
        return SIZE / (time.perf_counter() - start)


def small(address, path):
    """Seconds for each of a row of small requests on one connection."""
    request = f"GET {path}fields HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    with socket.create_connection(address, timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            start = time.perf_counter()
            connection.sendall(request)
            heard = b""
            while not heard.endswith(b"\r\n\r\nok"):
                piece = connection.recv(65536)
                assert piece, heard
                heard += piece
            yield time.perf_counter() - start


class Ports:
    def ports(self):
        sandbox = Client(self.warren.url, self.warren.key).sandbox(self.make())
        port_programs.start_program(sandbox)
        port = port_programs.Port(sandbox, 8080)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            straight = probe.getsockname()
        host = subprocess.Popen([PYTHON, "-c", port_programs.SERVER, str(straight[1])], stderr=subprocess.DEVNULL)
        try:
            for _ in range(200):
                if socket.socket().connect_ex(straight) == 0:
                    break
                time.sleep(0.02)
            through = port.address
            rates = {"straight": [], "through a port": []}
            # In turns, so that whatever else the machine does meets both.
            for _ in range(max(3, 7 // self.scale)):
                rates["straight"].append(download(straight, "/"))
                rates["through a port"].append(download(through, port.prefix + "/"))
            for how, each in rates.items():
                print(f"  {'1 GB of a body, ' + how:<44}     {statistics.median(each) / 1e6:9.0f} MB/s")
            for how, address, path in (("straight", straight, "/"), ("through a port", through, port.prefix + "/")):
                row = small(address, path)
                for _ in range(20):
                    next(row)
                self.note(f"a small request, {how}", [next(row) for _ in range(1000 // self.scale)])
        finally:
            host.terminate()
            host.wait()
        self.remove(sandbox.id)
        ratio = statistics.median(rates["through a port"]) / statistics.median(rates["straight"])
        self.budget("download through a port", ratio >= 0.5, f"{ratio:.2f} of the same without Warren, of 0.5")

"""What a network costs: sandboxes made with one and without, and a download out of the internet beside the same on the
host, all in a little internet of its own. A part of bench/run's Bench."""

import json
import statistics
import subprocess
import time

from little_internet import PUBLIC, LittleInternet, where
from warren_client import Client, eventually
from warren_server import Warren

PYTHON = "/usr/bin/python3"
PORT = 9000
SIZE = 2_000_000_000
# Sends SIZE bytes to whoever connects.
SOURCE = f"""
import socket
listener = socket.create_server(("{PUBLIC[0]}", {PORT}))
block = memoryview(bytearray(4 << 20))
print("ready", flush=True)
while True:
    connection, _ = listener.accept()
    left = {SIZE}
    try:
        while left:
            left -= connection.send(block[:left])
    except OSError:
        pass
    connection.close()
"""
# The same program in a sandbox and on the host: bytes a second, or seconds for each connection.
MEASURE = f"""
import json, socket, time
def download():
    buffer = memoryview(bytearray(4 << 20))
    with socket.create_connection(("{PUBLIC[0]}", {PORT}), timeout=60) as connection:
        start, total = time.perf_counter(), 0
        while count := connection.recv_into(buffer):
            total += count
    assert total == {SIZE}, total
    return total / (time.perf_counter() - start)
def connect():
    start = time.perf_counter()
    socket.create_connection(("{PUBLIC[1]}", 8080), timeout=60).close()
    return time.perf_counter() - start
"""


class Egress:
    def egress(self):
        with LittleInternet() as internet:
            warren = Warren.start(limits={"memory_mib": 2048, "disk_mib": 10240, "pids": 512, "open_files": 4096},
                                  runtime={"stock": 4}, egress={"enabled": True, "dns": [PUBLIC[0]]})
            try:
                self.make_with_and_without(Client(warren.url, warren.key))
                self.download_from(internet, Client(warren.url, warren.key))
                warren.stop()
            finally:
                warren.discard()

    def make_with_and_without(self, client):
        def full():
            stock = client.expect(200, "GET", "/v1/capacity").json()["stock"]
            return stock["ready"] == stock["wanted"] > 0

        times = {"none": [], "open": []}
        destroys = {"none": [], "open": []}
        for egress in times:
            client.create(egress=egress).destroy()
        for _ in range(60 // self.scale):
            for egress in times:
                # What is kept ready has the network of the last one.
                client.create(egress=egress).destroy()
                eventually(full, 60, "a full stock")
                start = time.perf_counter()
                sandbox = client.create(egress=egress)
                times[egress].append(time.perf_counter() - start)
                start = time.perf_counter()
                sandbox.destroy()
                destroys[egress].append(time.perf_counter() - start)
        for egress in times:
            self.note(f"create with egress {egress}", times[egress])
            self.note(f"destroy with egress {egress}", destroys[egress])
        sandbox = client.create(egress="none")
        changes = []
        for number in range(100 // self.scale):
            start = time.perf_counter()
            client.expect(200, "PUT", f"{sandbox.path}/egress", {"egress": "open" if number % 2 == 0 else [f"{PUBLIC[0]}:{PORT}"]})
            changes.append(time.perf_counter() - start)
        self.note("change of egress while it runs", changes)
        sandbox.destroy()

    def download_from(self, internet, client):
        with where(internet.servers.pid):
            source = subprocess.Popen([PYTHON, "-c", SOURCE], stdout=subprocess.PIPE)
        try:
            assert source.stdout.readline() == b"ready\n"
            sandbox = client.create(egress=[f"{PUBLIC[0]}:{PORT}", PUBLIC[1]])
            sandbox.python_ok(MEASURE)

            def straight(call):
                done = subprocess.run([PYTHON, "-c", MEASURE + f"print(json.dumps({call}))"], check=True, capture_output=True)
                return json.loads(done.stdout)

            def inside(call):
                return json.loads(sandbox.python_ok(f"print(json.dumps({call}))"))

            rates = {"on the host": [], "in a sandbox": []}
            # In turns, so that whatever else the machine does meets both.
            for _ in range(max(3, 7 // self.scale)):
                rates["on the host"].append(straight("download()"))
                rates["in a sandbox"].append(inside("download()"))
            for how, each in rates.items():
                print(f"  {'2 GB out of the internet, ' + how:<44}     {statistics.median(each) / 1e6:9.0f} MB/s")
            rounds = f"[connect() for _ in range({500 // self.scale})]"
            self.note("a connection, on the host", straight(rounds))
            self.note("a connection, in a sandbox", inside(rounds))
            sandbox.destroy()
        finally:
            source.kill()
            source.wait()
        ratio = statistics.median(rates["in a sandbox"]) / statistics.median(rates["on the host"])
        print(f"  {'the download in a sandbox / on the host':<66} {ratio:8.2f} x")
        self.budget("download out of a sandbox", ratio >= 0.5, f"{ratio:.2f} of the same on the host, of 0.5")

    def egress_ratios(self):
        self.ratio("create with egress open / none", "create with egress open", "create with egress none")
        self.ratio("a connection in a sandbox / on the host", "a connection, in a sandbox", "a connection, on the host")

"""What tests of egress do in sandboxes, and ask of them."""

from warren_client import eventually

# Prints a line for each place: the first byte of an answer, or why there is none.
REACH = """
import errno, socket
def reach(host, port, kind=socket.SOCK_STREAM):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, kind) as s:
        s.settimeout(4)
        try:
            s.connect((host, port))
            if kind == socket.SOCK_DGRAM:
                s.send(b"\\x12\\x34\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0\\x03one\\x07example\\x03com\\0\\0\\x01\\0\\x01")
                return "answered" if s.recv(512) else "nothing"
            s.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
            return "answered" if s.recv(1) == b"H" else "nothing"
        except TimeoutError:
            return "silence"
        except OSError as e:
            return errno.errorcode[e.errno]
"""
REFUSED = {"ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EACCES", "ECONNRESET"}


def reach(sandbox, host, port=80, udp=False):
    kind = "socket.SOCK_DGRAM" if udp else "socket.SOCK_STREAM"
    return sandbox.python_ok(f"print(reach({host!r}, {port}, {kind}))").strip()


def set_egress(sandbox, egress):
    return sandbox.client.expect(200, "PUT", f"{sandbox.path}/egress", {"egress": egress}).json()


def explain(sandbox, *places):
    """What the sandbox is told, once it has heard that it was refused these places: a tenth of a second later."""
    def told():
        said = sandbox.client.expect(200, "GET", f"{sandbox.path}/explain").json()
        return said if {(one["address"], one.get("port")) for one in said["latest"]} >= set(places) else None

    return eventually(told, 10, f"word of {places}")


def resolver_of(server):
    """The process, a child of the runtime's that has no rights."""
    with open(f"/proc/{server.runtime_pid}/task/{server.runtime_pid}/children") as file:
        for pid in file.read().split():
            with open(f"/proc/{pid}/cmdline", "rb") as command:
                if b"internal-resolver" in command.read():
                    return int(pid)
    return None

"""Runs a real `warren serve` with a home of its own, and looks at what it leaves.

    WARREN_BUILD              the build folder; its bin/ has the programs (default: build)
    WARREN_TEST_TEMPLATES     the folder with built templates that all instances share
                              (default: $WARREN_HOME/templates, else /var/lib/warren/templates)
"""

import glob
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import host
from warren_client import Client, eventually

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent

# Smaller than what people get, so that the limits can be reached quickly.
DEFAULT_LIMITS = {"memory_mib": 1024, "disk_mib": 2048, "pids": 256, "cpu_percent": 200, "open_files": 1024}


def build_folder():
    return pathlib.Path(os.environ.get("WARREN_BUILD", REPOSITORY / "build")).resolve()


def program():
    path = build_folder() / "bin" / "warren"
    assert path.exists(), f"{path} is missing: build Warren, or name the build folder in WARREN_BUILD"
    return str(path)


def templates_folder():
    named = os.environ.get("WARREN_TEST_TEMPLATES")
    if not named:
        named = os.path.join(os.environ.get("WARREN_HOME", "/var/lib/warren"), "templates")
    folder = pathlib.Path(named)
    assert folder.is_dir() and any(folder.iterdir()), (
        f"{folder} holds no template: run `warren template build default`, "
        "or name the folder in WARREN_TEST_TEMPLATES")
    return str(folder)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def toml(sections):
    """Writes {"section": {setting: value}} as TOML; values are strings and integers."""
    lines = []
    for section, settings in sections.items():
        lines.append(f"[{section}]")
        lines += [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    return "\n".join(lines) + "\n"


# A server with a network changes its host (a device, rules, forwarding): tests that want one are on a host of their own.
WITHOUT_NETWORK = {"enabled": False}


class Warren:
    """One instance. Make it with start(); end it with stop(), which checks what is left."""

    def __init__(self, home, port):
        self.home = home
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.process = None
        self.log_path = os.path.join(home, "serve.log")
        self.ever_seen = {}  # every process of this instance that was looked at

    @classmethod
    def start(cls, limits=None, sandboxes=None, server=None, runtime=None, storage=None, egress=None, ports=None, below=None):
        """Starts an instance; `limits`, `sandboxes`, `server`, `runtime`, `storage`, `egress` and `ports` are settings of warren.toml's sections of
        that name. Its home is made in the folder `below`. No sandboxes are kept ready unless `runtime` says so
        ("stock"), so that what is there can be counted; none has a network unless `egress` says so (little_internet.py)."""
        assert os.geteuid() == 0, "these tests start a sandbox server: run them as root"
        templates = templates_folder()
        home = tempfile.mkdtemp(prefix="warren-test-", dir=below)
        os.chmod(home, 0o755)
        self = cls(home, free_port())
        sections = {"server": server or {}, "storage": {"templates_dir": templates, **(storage or {})}, "sandboxes": sandboxes or {},
                    "limits": {**DEFAULT_LIMITS, **(limits or {})}}
        sections["runtime"] = {"stock": 0, **(runtime or {})}
        sections["egress"] = egress or WITHOUT_NETWORK
        if ports:
            sections["ports"] = ports
        with open(os.path.join(home, "warren.toml"), "w") as file:
            file.write(toml(sections))
        try:
            self.launch()
        except BaseException:
            self.discard()
            raise
        return self

    @property
    def environment(self):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("WARREN_")}
        environment.update(HOST_SECRET="5f0c5f0c", SSH_AUTH_SOCK="/run/agent.sock", WARREN_HOME=self.home, WARREN_LISTEN=f"127.0.0.1:{self.port}")
        return environment

    def launch(self):
        """Starts `warren serve` on this home and waits until it is healthy."""
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([program(), "serve"], env=self.environment, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, cwd="/", start_new_session=True)
        self.wait_healthy()
        self.wait_warm()

    def wait_warm(self, deadline=120):
        """Until each template's session is warm, so that what is there can be counted."""
        names = {name.rsplit("-", 1)[0] for name in os.listdir(templates_folder()) if not name.startswith(".")}

        def warm():
            with open(self.log_path, errors="replace") as file:
                since_start = file.read().rpartition("ready\n")[2]
            return all(f"template {name}: warm\n" in since_start for name in names)

        eventually(warm, deadline, f"warm templates {names}")

    def wait_healthy(self, deadline=60):
        probe = Client(self.url, None, wait=10)

        def healthy():
            assert self.process.poll() is None, f"warren serve ended with {self.process.returncode}:\n{self.log()}"
            try:
                return probe.request("GET", "/healthz").status == 200
            except OSError:
                return False

        try:
            eventually(healthy, deadline, "a healthy server")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()}") from None

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()[-20000:]

    @property
    def pid(self):
        """Of the supervisor."""
        return self.process.pid

    @property
    def key(self):
        with open(os.path.join(self.home, "admin.key")) as file:
            return file.read().strip()

    @property
    def client(self):
        return Client(self.url, self.key)

    def children(self, role):
        """Pids of the supervisor's children with that role: "runtime" or "server"."""
        return [p.pid for p in host.processes().values()
                if p.parent == self.pid and p.state != "Z" and host.command_line(p.pid)[1:2] == [f"internal-{role}"]]

    def child(self, role):
        """The pid of the one with that role; waits while it is being replaced."""

        def find():
            found = self.children(role)
            return found[0] if len(found) == 1 else None

        return eventually(find, 60, f"one {role} process below {self.pid}")

    @property
    def runtime_pid(self):
        return self.child("runtime")

    @property
    def server_pid(self):
        return self.child("server")

    def command(self, *arguments, **options):
        """Runs the command line against this instance, as a person would."""
        options.setdefault("timeout", 120)
        options.setdefault("capture_output", True)
        options.setdefault("text", True)
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run([program(), *arguments], env=self.environment, cwd="/", **options)

    def new_key(self, name, *options):
        """A key made through the command line: (whole key, its id)."""
        done = self.command("key", "create", name, *options)
        assert done.returncode == 0, done
        key = next(word for word in done.stdout.split() if word.startswith("wrn_"))
        return key, "_".join(key.split("_")[:2])

    # What it has.

    def look(self):
        """Notes and returns the processes that belong to this instance now."""
        now = host.descendants(self.pid) if self.process else []
        for one in now:
            self.ever_seen[one.key] = one
        return now

    def agents(self):
        """Process 1 of each sandbox that is not a template's, as the host sees them."""
        return [p for p in host.descendants(self.runtime_pid)
                if (host.status_field(p.pid, "NSpid") or "").split()[1:] == ["1"]
                and not any(f"/{id}" in host.cgroups_of(p.pid) for id in self.templates_sandboxes())]

    def templates_sandboxes(self):
        """The ids of the sandboxes in which the templates' sessions live."""
        return {path.rpartition("/")[2] for path in host.cgroups_with(f"/{self.cgroup}/templates/")}

    def inside(self, *words, count=1):
        """Processes in sandboxes with exactly that command line, as the host sees them; waits for `count`."""

        def find():
            found = [p for p in host.descendants(self.runtime_pid) if host.command_line(p.pid) == list(words)]
            return found if len(found) >= count else None

        return eventually(find, 60, f"{count} of {words}")

    def cgroup_folders(self):
        """The cgroup folders of this instance, but for those of its templates' sandboxes."""
        return [path for path in host.cgroups_with(f"/{self.cgroup}") if "/templates" not in path]

    @property
    def cgroup(self):
        """The name of the group in which all of this instance's are: a digest of its home."""
        return "warren-" + hashlib.sha256(os.path.realpath(self.home).encode()).hexdigest()[:12]

    def uppers(self):
        """The sandboxes' writable layers in the pool, as the runtime sees it; not the templates'."""
        folder = f"/proc/{self.runtime_pid}/root{self.home}/pool/uppers"
        return sorted(set(os.listdir(folder)) - self.templates_sandboxes())

    def quota_groups(self):
        """The quota groups of the pool, as the kernel knows them: one for each subvolume there is. The runtime removes
        those of removed ones when it next looks after the pool."""
        device, = host.loop_devices_of(os.path.join(self.home, "pool.img"))
        groups = [path for path in glob.glob("/sys/fs/btrfs/*/qgroups")
                  if os.path.exists(os.path.join(os.path.dirname(path), "devices", device[0]))]
        assert len(groups) == 1, "the pool is no btrfs with quotas"
        return sorted(name for name in os.listdir(groups[0]) if os.path.isdir(os.path.join(groups[0], name)))

    def pool_bytes(self):
        """What the pool's image takes on the host's disk."""
        return os.stat(os.path.join(self.home, "pool.img")).st_blocks * 512

    def new_account(self, name):
        """A client of a new account, made through the command line."""
        made = self.command("account", "create", name)
        assert made.returncode == 0, made
        return Client(self.url, self.new_key("a test's", "--account", name)[0])

    def left_over(self, of=None):
        """What is still there of this instance (or of the processes `of` alone), as sentences."""
        found = [f"process {one}" for one in (of if of is not None else self.ever_seen.values()) if host.alive(one)]
        if of is not None:
            return found
        found += [f"mount {line}" for line in host.mounts_of(self.home)]
        found += [f"loop device {name}: {path}" for name, path in host.loop_devices_of(self.home)]
        found += [f"cgroup {folder}" for folder in host.cgroups_with(f"/{self.cgroup}")]
        return found

    # Ends.

    def stop(self):
        """SIGTERM, as a service manager does; then nothing may be left but files in the home."""
        if self.process.poll() is None:
            self.look()
            self.process.send_signal(signal.SIGTERM)
            try:
                status = self.process.wait(60)
            except subprocess.TimeoutExpired:
                raise AssertionError(f"warren serve ignores SIGTERM:\n{self.log()}") from None
            assert status == 0, f"warren serve ended with {status}:\n{self.log()}"
        self.assert_nothing_left()

    def assert_nothing_left(self, deadline=30):
        try:
            eventually(lambda: not self.left_over(), deadline)
        except AssertionError:
            raise AssertionError("left over:\n" + "\n".join(self.left_over()) + "\n" + self.log()) from None

    def discard(self):
        """Ends what still runs, without ceremony, and removes the home."""
        if self.process is not None:
            if self.process.poll() is None:
                self.look()
                self.process.send_signal(signal.SIGTERM)
                try:
                    self.process.wait(30)
                except subprocess.TimeoutExpired:
                    pass
            for one in self.ever_seen.values():
                if host.alive(one):
                    try:
                        os.kill(one.pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait(30)
        for _ in range(50):
            if not host.mounts_of(self.home):
                break
            time.sleep(0.1)
        shutil.rmtree(self.home, ignore_errors=True)

"""What has to do with many sandboxes: forks, merges, and what idle ones cost. A part of bench/run's Bench."""

import json
import os
import subprocess
import tempfile
import time

import host

MIB = 1 << 20
PYTHON = "/usr/bin/python3"
HEAP = "heap = bytearray(b'\\xa5') * ({mib} << 20)"
# Forks itself: the time until all its children run, in seconds, a line for each round.
BARE_FORK = HEAP + """
import os, time
there, back = os.pipe()
for _ in range({rounds}):
    start = time.perf_counter()
    for _ in range({count}):
        if os.fork() == 0:
            os.write(back, b'x')
            os._exit(0)
    left = {count}
    while left: left -= len(os.read(there, left))
    print(time.perf_counter() - start)
    for _ in range({count}): os.wait()
"""
# What an agent changes in one go: so many files of so many lines, in two folders.
FILES, LINES = 20, 100
EDIT = ("import os\nfor i in range({files}):\n"
        "    os.makedirs(f'/root/work/{{i % 2}}', exist_ok=True)\n"
        "    open(f'/root/work/{{i % 2}}/{{i}}', 'w').writelines(f'line {{n}} of {{i}}, {{{turn} if n == 50 else 0}}\\n' for n in range({lines}))")


def available():
    """The host's memory that could be had, in bytes."""
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))


def held_by(folder):
    """What a memory cgroup holds, the kernel's own included."""
    for name in ("memory.current", "memory.usage_in_bytes"):
        try:
            with open(os.path.join(folder, name)) as file:
                return int(file.read())
        except OSError:
            continue
    return 0


class Branches:
    # Small parts.

    def ask(self, method, path, body=None):
        answer = self.connection.send(self.connection.request(method, path, json.dumps(body).encode() if body is not None else b""))
        head, _, text = answer.partition(b"\r\n\r\n")
        assert b" 20" in head[:14], answer[:500]
        return text

    def run_code(self, one, code):
        answer = self.connection.send(self.exec_request(one, code, "python"))
        assert b'"exit","data":0' in answer, answer[-500:]

    def fork_of(self, one, count=1):
        return json.loads(self.ask("POST", f"/v1/sandboxes/{one}/fork", {"n": count}))["children"]

    def wait_for_stock(self):
        """Until nobody works for the stock, so that what is timed next has the machine for itself."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            stock = json.loads(self.ask("GET", "/v1/capacity"))["stock"]
            if stock["ready"] >= stock["wanted"] and stock["shells"] >= stock["wanted_shells"]:
                return
            time.sleep(0.01)
        raise AssertionError("the stock does not fill")

    def creates(self, template, rounds, paced):
        """(creates, creates and first answers, destroys) in seconds."""
        creates, firsts, destroys = [], [], []
        for _ in range(rounds):
            if paced:
                self.wait_for_stock()
            start = time.perf_counter()
            one = self.make(template)
            made = time.perf_counter()
            self.run_code(one, "1+1")
            first = time.perf_counter()
            self.remove(one)
            destroys.append(time.perf_counter() - first)
            creates.append(made - start)
            firsts.append(first - start)
        return creates, firsts, destroys

    # What is measured.

    def create(self):
        """create and destroy, one after the other; and with time between, as people's come."""
        for template, most in (("default", 5), ("python-datasci", 10)):
            self.remove(self.make(template))
            for how in ("paced", "back to back"):
                creates, firsts, destroys = self.creates(template, 60 // self.scale, how == "paced")
                self.note(f"create {template}, {how}", creates)
                if template == "default":
                    self.note(f"create to the first 1+1, {how}", firsts)
                    self.note(f"destroy, {how}", destroys)
            value = self.medians[f"create {template}, paced"]
            self.budget(f"create {template}", value <= most, f"{value:.3f} ms of {most} ms")
        value = self.medians["destroy, paced"]
        self.budget("destroy", value <= 5, f"{value:.3f} ms of 5 ms")

    def fork(self):
        for mib in (10, 100, 1024):
            parent = self.make()
            self.run_code(parent, HEAP.format(mib=mib))
            for count in (1, 5, 32):
                rounds = max(2, 30 // self.scale // (4 if count == 32 else 1) // (3 if mib == 1024 else 1))
                bare = BARE_FORK.format(mib=mib, rounds=rounds + 1, count=count)
                done = subprocess.run([PYTHON, "-c", bare], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
                forks, destroys = [], []
                for _ in range(rounds + 1):
                    # As people's forks come: when what is kept ready for them is there again.
                    self.wait_for_stock()
                    start = time.perf_counter()
                    children = self.fork_of(parent, count)
                    forks.append(time.perf_counter() - start)
                    for child in children:
                        start = time.perf_counter()
                        self.remove(child)
                        destroys.append(time.perf_counter() - start)
                what = f"{mib} MiB, {count} {'child' if count == 1 else 'children'}"
                self.note(f"bare fork() of {what}", [float(line) for line in done.stdout.split()][1:])
                self.note(f"fork of {what}", forks[1:])
                print(f"  {'':<44} {self.medians[f'fork of {what}'] / count:13.3f} ms a child")
            self.note(f"destroy of a child of {mib} MiB", destroys)
            self.remove(parent)
        one, five = self.medians["fork of 100 MiB, 1 child"], self.medians["fork of 100 MiB, 5 children"]
        bare = self.medians["bare fork() of 100 MiB, 1 child"]
        self.budget("fork of a 100 MiB session", one <= 6, f"{one:.3f} ms of 6 ms")
        self.budget("five children of a 100 MiB session", five <= 25, f"{five:.3f} ms of 25 ms")
        self.budget("fork against bare fork()", one <= 3 * bare, f"{one / bare:.1f} x of 3 x")

    def merge(self):
        rounds = max(5, 40 // self.scale)
        parent = self.make()
        self.run_code(parent, HEAP.format(mib=100))
        replaces, merges, diffs = [], [], []
        for _ in range(rounds):
            child, = self.fork_of(parent)
            start = time.perf_counter()
            self.ask("POST", f"/v1/sandboxes/{parent}/merge_into/{child}", {})
            replaces.append(time.perf_counter() - start)
        self.run_code(parent, EDIT.format(files=FILES, lines=LINES, turn=0))
        child, = self.fork_of(parent)
        for turn in range(1, rounds + 1):
            self.run_code(child, EDIT.format(files=FILES, lines=LINES, turn=turn))
            start = time.perf_counter()
            found = json.loads(self.ask("GET", f"/v1/sandboxes/{parent}/diff/{child}"))
            diffs.append(time.perf_counter() - start)
            assert len(found["modified"]) == FILES, found
            start = time.perf_counter()
            report = json.loads(self.ask("POST", f"/v1/sandboxes/{parent}/merge_into/{child}", {"mode": "files", "on_conflict": "theirs"}))
            merges.append(time.perf_counter() - start)
            assert report["counts"]["modified"] == FILES, report
        self.remove(child)
        self.remove(parent)
        self.note("merge_into, replace (100 MiB)", replaces)
        self.note(f"diff of {FILES} changed files", diffs)
        self.note(f"merge_into, files ({FILES} changed)", merges)
        with tempfile.TemporaryDirectory() as folder:
            names = []
            for side in ("one", "other"):
                for i in range(FILES):
                    path = os.path.join(folder, side, str(i % 2), str(i))
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with open(path, "w") as file:
                        file.writelines(f"line {n} of {i}, {side if n == 50 else 0}\n" for n in range(LINES))
                names.append(os.path.join(folder, side))
            for name, command in (("diff -r", ["diff", "-rq", *names]), ("cp -a", ["cp", "-a", *names])):
                self.note(f"{name} of such files on the host", [self.seconds_of(command) for _ in range(rounds)])
        value = self.medians["merge_into, replace (100 MiB)"]
        self.budget("merge_into", value <= 5, f"{value:.3f} ms of 5 ms")

    def seconds_of(self, command):
        start = time.perf_counter()
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        assert done.returncode in (0, 1), done
        return time.perf_counter() - start

    def idle(self):
        """What so many idle sandboxes cost, and whether a create is still quick beside them."""
        self.remove(self.make())
        self.wait_for_stock()
        idle = []
        groups = set(self.warren.cgroup_folders())
        before = available()
        for count in (20, 100):
            while len(idle) < count:
                idle.append(self.make())
            self.wait_for_stock()
            new = [folder for folder in self.warren.cgroup_folders() if folder not in groups]
            whole = (before - available()) / count / MIB
            held = sum(held_by(folder) for folder in new if os.path.basename(folder).startswith("sbx_")) / count / MIB
            print(f"  {f'memory of each of {count} idle ones':<44}     {whole:9.2f} MiB of the host's, {held:.2f} MiB in their cgroups")
        self.budget("memory of an idle sandbox", whole <= 4, f"{whole:.2f} MiB of 4 MiB")
        with subprocess.Popen([PYTHON, "-c", "import IPython, sys; print(flush=True); sys.stdin.read()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as peer:
            peer.stdout.readline()
            with open(f"/proc/{peer.pid}/smaps_rollup") as file:
                own = sum(int(line.split()[1]) for line in file if line.startswith("Private_")) / 1024
            peer.stdin.close()
        print(f"  {'a python3 that has imported IPython':<44}     {own:9.2f} MiB of its own: {own / max(whole, 0.01):.0f} x")

        wanted = 1000 // self.scale
        # Twice the budget, and room for whatever else the machine does.
        most = min(wanted, int((available() - 2048 * MIB) / (8 * MIB)))
        if most < wanted:
            print(f"  the machine has memory for {most} idle sandboxes only, not {wanted}")
        while len(idle) < most:
            idle.append(self.make())
        creates, firsts, _ = self.creates("default", 60 // self.scale, paced=True)
        self.note(f"create beside {len(idle)} idle ones, paced", creates)
        self.note("the same to the first 1+1", firsts)
        creates, _, _ = self.creates("default", 60 // self.scale, paced=False)
        self.note(f"create beside {len(idle)} idle ones, back to back", creates)
        value = self.medians[f"create beside {len(idle)} idle ones, paced"]
        self.budget(f"create beside {len(idle)} idle sandboxes", value <= 10 and len(idle) >= wanted, f"{value:.3f} ms of 10 ms")
        destroys = []
        for one in idle:
            start = time.perf_counter()
            self.remove(one)
            destroys.append(time.perf_counter() - start)
        self.note("destroy of an idle one", destroys)

    def branch_ratios(self):
        for mib in (10, 100, 1024):
            for count in ("1 child", "5 children", "32 children"):
                self.ratio(f"fork / bare fork() of {mib} MiB, {count}", f"fork of {mib} MiB, {count}", f"bare fork() of {mib} MiB, {count}")
        self.ratio("merge_into, replace / a pipe round trip", "merge_into, replace (100 MiB)", "a pipe round trip")
        self.ratio("merge_into, files / cp -a of such files", f"merge_into, files ({FILES} changed)", "cp -a of such files on the host")
        self.ratio("diff / diff -r of such files", f"diff of {FILES} changed files", "diff -r of such files on the host")

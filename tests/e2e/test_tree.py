"""A random tree of forks, writes, merges and destroys, against a model of what each sandbox must contain.

    WARREN_TREE_SEED    one seed instead of three, to repeat what failed
    WARREN_TREE_STEPS   how many steps (default 300)
"""

import base64
import collections
import dataclasses
import json
import os
import random

import pytest

from merge_model import FOLDER, Ambiguous, File, Link, Merge, below, parents, same
from warren_client import eventually

STEPS = int(os.environ.get("WARREN_TREE_STEPS", 300))
SEEDS = [int(os.environ["WARREN_TREE_SEED"])] if "WARREN_TREE_SEED" in os.environ else [1, 2, 3]
ROOT = "/root/tree"
MOST = 8  # sandboxes at a time
NAMES = "abc"
LINES = 4

# What each created sandbox is told once; its descendants inherit it.
TOLD_ONCE = f"""
import base64, json, os, shutil
v = {{}}
os.mkdir({ROOT!r}); os.chdir({ROOT!r})
def node(path):
    if os.path.islink(path): return ['link', os.readlink(path)]
    if os.path.isdir(path): return ['folder']
    return ['file', os.stat(path).st_mode & 0o7777, base64.b64encode(open(path, 'rb').read()).decode()]
def dump():
    found = [os.path.join(at, name) for at, folders, files in os.walk('.') for name in folders + files]
    print(json.dumps({{'v': v, 'tree': {{os.path.relpath(path): node(path) for path in found}}}}))
def write(path, content):
    with open(path, 'wb') as file: file.write(base64.b64decode(content))
"""


@dataclasses.dataclass
class Machine:
    """What a sandbox is, whatever its id: it began as a copy of another at some time (`copied`, as numbers grow) with
    `tree` in it, or with nothing."""
    parent: object
    copied: int
    tree: dict

    def line(self):
        return (self.parent.line() if self.parent else []) + [self]


class Member:
    """A sandbox's id and what it must contain."""

    def __init__(self, sandbox, variables, tree, machine):
        self.sandbox, self.variables, self.tree, self.machine = sandbox, variables, tree, machine

    def seen(self):
        document = json.loads(self.sandbox.python_ok("dump()"))
        return document["v"], {path: tuple(node) for path, node in document["tree"].items()}

    def must_be(self):
        def shown(node):
            if node == FOLDER:
                return ("folder",)
            if isinstance(node, Link):
                return ("link", node.target)
            return ("file", node.mode, base64.b64encode(node.bytes()).decode())
        return self.variables, {path: shown(node) for path, node in self.tree.items()}

    def check(self):
        assert self.seen() == self.must_be(), self.sandbox.id


def common_files(one, other):
    """The tree that both come from: empty if that is their template, which has not this folder."""
    lines = one.machine.line(), other.machine.line()
    shared = [a for a, b in zip(*lines) if a is b]
    if not shared:
        return {}
    # Both were, or were copied from, the last that they share: until the first of these copies they were one.
    copies = [line[len(shared)] for line in lines if len(line) > len(shared)]
    return min(copies, key=lambda machine: machine.copied).tree


class Story:
    def __init__(self, client, seed):
        self.client = client
        self.random = random.Random(seed)
        self.copies = self.tokens = 0
        self.members = []
        self.done = collections.Counter()
        self.last = ""

    # Choices.

    def token(self):
        self.tokens += 1
        return f"token {self.tokens}"

    def new_path(self, member):
        """A path in a folder that is there."""
        folders = [""] + [p + "/" for p, n in member.tree.items() if n == FOLDER and p.count("/") < 2]
        return self.random.choice(folders) + self.random.choice(NAMES)

    def path_of(self, member, *kinds):
        found = sorted(p for p, n in member.tree.items() if not kinds or isinstance(n, kinds))
        return self.random.choice(found) if found else None

    def two(self):
        return self.random.sample(self.members, 2) if len(self.members) > 1 else None

    # Steps. Each returns the members that it may have touched, or nothing if it could not be done.

    def create(self):
        if len(self.members) >= MOST:
            return None
        sandbox = self.client.create()
        self.members.append(Member(sandbox, {}, {}, Machine(None, 0, {})))
        sandbox.python_ok(TOLD_ONCE)
        return [self.members[-1]]

    def fork(self):
        count = self.random.randint(1, 3)
        if len(self.members) + count > MOST:
            return None
        parent = self.random.choice(self.members)
        children = parent.sandbox.fork(count)
        self.copies += 1
        new = [Member(child, dict(parent.variables), dict(parent.tree), Machine(parent.machine, self.copies, dict(parent.tree))) for child in children]
        self.members += new
        return [parent, *new]

    def destroy(self):
        if len(self.members) < 3:
            return None
        gone = self.members.pop(self.random.randrange(len(self.members)))
        gone.sandbox.destroy()
        assert not gone.sandbox.exists()
        return [self.random.choice(self.members)]

    def replace(self):
        if not (pair := self.two()) or len(self.members) < 3:
            return None
        parent, winner = pair
        parent.sandbox.merge(winner.sandbox)
        self.members.remove(winner)
        parent.variables, parent.tree, parent.machine = winner.variables, winner.tree, winner.machine
        assert not winner.sandbox.exists()
        return [parent]

    def merge(self):
        if not (pair := self.two()):
            return None
        parent, winner = pair
        side = self.random.choice(["fail", "fail", "ours", "theirs"])
        try:
            model = Merge(common_files(parent, winner), parent.tree, winner.tree, side)
        except Ambiguous:
            self.done["ambiguous"] += 1
            return None
        answer = self.client.request("POST", f"{parent.sandbox.path}/merge_into/{winner.sandbox.id}",
                                     {"mode": "files", "on_conflict": side})
        refused = bool(model.conflicts) and side == "fail"
        assert answer.status == (409 if refused else 200), (answer.status, answer.body, model.conflicts)
        report = answer.json()["report"] if refused else answer.json()
        told = {one["path"] for one in report["conflicts"]}
        assert told == {f"{ROOT}/{path}" for path in model.conflicts}, (told, model.conflicts)
        assert report["applied"] is not refused and not report["truncated"]
        if not refused:
            parent.tree = model.result
        self.done["refused" if refused else "resolved" if model.conflicts else "clean"] += 1
        return [parent, winner]

    def diff(self):
        if not (pair := self.two()):
            return None
        one, other = pair
        found = self.client.expect(200, "GET", f"{one.sandbox.path}/diff/{other.sandbox.id}?paths={ROOT}").json()
        told = {name: {entry["path"] for entry in found[name]} for name in ("added", "removed", "modified")}
        shared = one.tree.keys() & other.tree.keys()
        must = {"added": other.tree.keys() - shared, "removed": one.tree.keys() - shared,
                "modified": {path for path in shared if not same(one.tree[path], other.tree[path])}}
        assert told == {name: {f"{ROOT}/{path}" for path in paths} for name, paths in must.items()}
        return [one]

    def variable(self, member):
        name, value = self.random.choice(NAMES), self.token()
        member.variables[name] = value
        return f"v[{name!r}] = {value!r}"

    def write(self, member):
        path = self.path_of(member, File) if self.random.random() < 0.6 else self.new_path(member)
        old = member.tree.get(path) if path else None
        if path is None or old == FOLDER or isinstance(old, Link):
            return None
        if isinstance(old, File) and isinstance(old.content, tuple):
            lines = list(old.content)
            lines[self.random.randrange(LINES)] = self.token()
            content = tuple(lines)
        elif self.random.random() < 0.6 and old is None:
            content = tuple(self.token() for _ in range(LINES))
        else:
            content = self.token().encode()
        new = old.written(content) if old else File(content)
        member.tree[path] = new
        return f"write({path!r}, {base64.b64encode(new.bytes())!r})"

    def chmod(self, member):
        if not (path := self.path_of(member, File)):
            return None
        mode = self.random.choice([0o600, 0o644, 0o755, 0o400, 0o711])
        member.tree[path] = dataclasses.replace(member.tree[path], mode=mode)
        return f"os.chmod({path!r}, {mode})"

    def link(self, member):
        path = self.new_path(member)
        if path in member.tree:
            return None
        target = self.random.choice(["a", "../b", "/etc/passwd", "nowhere", self.token()])
        member.tree[path] = Link(target)
        return f"os.symlink({target!r}, {path!r})"

    def folder(self, member):
        path = self.new_path(member)
        if path in member.tree:
            return None
        member.tree[path] = FOLDER
        return f"os.mkdir({path!r})"

    def delete(self, member):
        if not (path := self.path_of(member)):
            return None
        was = member.tree[path]
        for gone in [path, *below(member.tree, path)]:
            del member.tree[gone]
        return f"shutil.rmtree({path!r})" if was == FOLDER else f"os.remove({path!r})"

    def rename(self, member):
        path, to = self.path_of(member), self.new_path(member)
        if not path or to in member.tree or path in [to, *parents(to)]:
            return None
        for old in [path, *below(member.tree, path)]:
            member.tree[to + old[len(path):]] = member.tree.pop(old)
        return f"os.rename({path!r}, {to!r})"

    EDITS = {"variable": 3, "write": 10, "chmod": 3, "link": 1, "folder": 3, "delete": 2, "rename": 3}
    STEPS = {"create": 1, "fork": 5, "destroy": 3, "replace": 2, "merge": 9, "diff": 3, "edit": 20}

    def edit(self):
        """A few changes at once, in one call."""
        member = self.random.choice(self.members)
        lines = []
        for _ in range(self.random.randint(1, 4)):
            kind, = self.random.choices(list(self.EDITS), self.EDITS.values())
            if line := getattr(self, kind)(member):
                lines.append(line)
                self.done[kind] += 1
        if not lines:
            return None
        self.last = "; ".join(lines)
        member.sandbox.python_ok("\n".join(lines))
        return [member]

    def step(self):
        touched = None
        while not touched:
            kind, = self.random.choices(list(self.STEPS), self.STEPS.values())
            self.last = kind
            touched = getattr(self, kind)()
        self.done[kind] += 1
        for member in touched:
            member.check()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_tree_is_as_the_model_says(warren, client, seed):
    before, uppers = client.ids(), len(warren.uppers()) - warren_ready(client)
    story = Story(client, seed)
    step = 0
    try:
        story.create()
        for step in range(STEPS):
            story.step()
            if step % 50 == 49:
                assert client.ids() - before == {member.sandbox.id for member in story.members}
                for member in story.members:
                    member.check()
    except BaseException:
        print(f"WARREN_TREE_SEED={seed}, step {step} ({story.last}); so far {dict(story.done)}")
        raise
    finally:
        for member in story.members:
            client.request("DELETE", member.sandbox.path)
    # Everything came to pass; a story in which nothing conflicts or nothing is moved shows little.
    if STEPS >= 300:
        assert all(story.done[kind] for kind in (*story.STEPS, *story.EDITS, "clean", "refused", "resolved")), story.done
    assert client.ids() == before
    eventually(lambda: len(warren.uppers()) - warren_ready(client) <= uppers, 60, "no writable layer or copy more than before")


def warren_ready(client):
    """How many sandboxes are kept ready for nobody in particular."""
    return client.expect(200, "GET", "/v1/capacity").json()["stock"]["ready"]

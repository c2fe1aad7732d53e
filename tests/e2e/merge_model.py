"""What a merge of files must come to, on small trees: the model of test_tree.py.

A tree maps paths ("a/b") to nodes: FOLDER, Link or File. It knows which file is which
(`identity`, as an inode number tells it), so that it can say what was moved.
"""

import dataclasses
import itertools

FOLDER = "folder"
_identities = itertools.count(1)
# Lines between those that are written, so that changes of two of them are never one change.
BETWEEN = 6


@dataclasses.dataclass(frozen=True)
class Link:
    target: str


@dataclasses.dataclass(frozen=True)
class File:
    """`content` is a tuple of lines for text, bytes for what is no text."""
    content: object
    mode: int = 0o644
    identity: int = dataclasses.field(default_factory=lambda: next(_identities))

    def bytes(self):
        if isinstance(self.content, bytes):
            return b"\0" + self.content
        lines = []
        for number, line in enumerate(self.content):
            lines += [f"between {number} {i}" for i in range(BETWEEN)] + [line]
        return "\n".join(lines + ["end", ""]).encode()

    def written(self, content):
        return dataclasses.replace(self, content=content)


class Ambiguous(Exception):
    """More than one answer would be right."""


def is_leaf(node):
    return node is not None and node != FOLDER


def same(a, b):
    """The same to see, whichever file it is."""
    if isinstance(a, File) and isinstance(b, File):
        return a.mode == b.mode and a.content == b.content
    return a == b


def same_value(a, b):
    if isinstance(a, File) and isinstance(b, File):
        return a.content == b.content
    return a == b


def below(tree, path):
    return {p: n for p, n in tree.items() if p.startswith(path + "/")}


def same_trees(a, b):
    return a.keys() == b.keys() and all(same(a[path], b[path]) for path in a)


def parents(path):
    parts = path.split("/")
    return ["/".join(parts[:i]) for i in range(1, len(parts))]


class Merge:
    """`theirs` merged into `ours`; `result` is what ours must be then, `conflicts` at which paths."""

    def __init__(self, base, ours, theirs, side):
        self.base, self.ours, self.theirs, self.side = base, ours, theirs, side
        self.result = dict(ours)
        self.conflicts = set()
        self.added, self.lost, self.missed, self.leaving, self.doomed = [], [], [], [], set()
        self.walk("")
        self.settle_moves()
        for path in sorted(self.leaving, key=len, reverse=True):
            if not below(self.result, path):
                self.result.pop(path, None)

    # Small parts.

    def conflict(self, path):
        self.conflicts.add(path)
        return self.side == "theirs"

    def put(self, path, node):
        for folder in parents(path):
            self.result[folder] = FOLDER
        if isinstance(node, File):
            node = dataclasses.replace(node, identity=next(_identities))
        self.result[path] = node

    def put_all(self, path):
        """The winner's folder, whole."""
        self.drop(path)
        self.put(path, FOLDER)
        for inner, node in below(self.theirs, path).items():
            self.put(inner, node)
            if inner not in self.base and inner not in self.ours:
                self.is_added(inner)

    def is_added(self, path):
        if isinstance(self.theirs[path], File):
            self.added.append(path)

    def drop(self, path):
        for gone in [path, *below(self.ours, path)]:
            if self.result.pop(gone, None) is not None:
                self.doomed.add(gone)

    # The walk.

    def walk(self, folder, lost=False):
        """A folder that the winner has; `lost` if the parent has it no more."""
        prefix = folder + "/" if folder else ""
        trees = (self.base, self.theirs) if lost else (self.base, self.ours, self.theirs)
        for path in sorted({p for tree in trees for p in tree if p.startswith(prefix) and "/" not in p[len(prefix):]}):
            self.step(path, lost)

    def step(self, path, lost):
        base, theirs = self.base.get(path), self.theirs.get(path)
        ours = None if lost else self.ours.get(path)
        if theirs == FOLDER:
            self.to_folder(path, base, ours, lost)
        elif theirs is None:
            if not lost and base is not None and ours is not None:
                self.to_nothing(path, base, ours)
        elif same(base, theirs):
            pass
        elif ours is None and is_leaf(base):
            self.missed.append(path)
        elif lost or ours is None:
            if lost and not self.conflict(path) or not lost and base is not None and not self.conflict(path):
                return
            self.put(path, theirs)
            if base is None and path not in self.ours:
                self.is_added(path)
        elif ours == FOLDER:
            untouched = base == FOLDER and same_trees(below(self.base, path), below(self.ours, path))
            if untouched or self.conflict(path):
                self.drop(path)
                self.put(path, theirs)
        else:
            self.to_leaf(path, base, ours, theirs)

    def to_folder(self, path, base, ours, lost):
        if lost:
            if base == FOLDER:
                self.walk(path, lost=True)
            elif self.conflict(path):
                self.put_all(path)
        elif ours == FOLDER:
            self.walk(path)
        elif base == FOLDER:
            self.walk(path, lost=True)
        elif same(ours, base) or self.conflict(path):
            self.put_all(path)

    def to_nothing(self, path, base, ours):
        if base == FOLDER and ours == FOLDER:
            self.leave(path)
        elif FOLDER in (base, ours):
            if self.conflict(path):
                self.drop(path)
        elif same(base, ours):
            del self.result[path]
        else:
            self.lost.append(path)

    def leave(self, folder):
        """What stays of a folder that the winner deleted."""
        self.leaving.append(folder)
        for path, ours in below(self.ours, folder).items():
            if "/" in path[len(folder) + 1:]:
                continue
            base = self.base.get(path)
            if base == FOLDER and ours == FOLDER:
                self.leave(path)
            elif is_leaf(base) and is_leaf(ours):
                if same(base, ours):
                    del self.result[path]
                else:
                    self.lost.append(path)
            elif self.conflict(path):
                self.drop(path)

    def to_leaf(self, path, base, ours, theirs):
        base = base if is_leaf(base) else None
        if same_value(ours, theirs) or same_value(base, theirs):
            choice = ours
        elif same_value(base, ours):
            choice = theirs
        elif isinstance(ours, File) and isinstance(theirs, File):
            choice = self.content(path, base, ours, theirs)
        else:
            choice = theirs if self.conflict(path) else ours
        if not isinstance(choice, File) or not isinstance(ours, File):
            if choice is not ours:
                self.put(path, choice)
            return
        mode = self.mode(path, base, ours, theirs)
        if choice.content != ours.content or mode != ours.mode:
            identity = ours.identity if choice.content == ours.content else next(_identities)
            self.result[path] = File(choice.content, mode, identity)

    def content(self, path, base, ours, theirs):
        """The file with the content that both have come to."""
        texts = [node.content for node in (ours, theirs)] + ([base.content] if isinstance(base, File) else [])
        if not isinstance(base, File) or any(isinstance(text, bytes) for text in texts):
            return theirs if self.conflict(path) else ours
        lines, clash = [], False
        for before, own, other in zip(base.content, ours.content, theirs.content):
            clash |= own != before and other != before and own != other
            if own == before or own != other and other != before and self.side == "theirs":
                own = other
            lines.append(own)
        if clash:
            self.conflict(path)
        return ours.written(tuple(lines))

    def mode(self, path, base, ours, theirs):
        before = base.mode if isinstance(base, File) else None
        if not isinstance(theirs, File) or theirs.mode in (before, ours.mode):
            return ours.mode
        return theirs.mode if ours.mode == before or self.conflict(path) else ours.mode

    # What was moved.

    def place(self, node, tree, candidates, taken):
        """Where that file of the base is now in a tree."""
        if not isinstance(node, File):
            return None
        found = [p for p in candidates if tree[p].identity == node.identity]
        found = found or [p for p in candidates if tree[p].content == node.content]
        if len(found) > 1 or found and found[0] in taken:
            raise Ambiguous
        taken.update(found)
        return found[0] if found else None

    def settle_moves(self):
        taken = set()
        for path in self.lost:
            base, ours = self.base[path], self.ours[path]
            moved = self.place(base, self.theirs, self.added, taken)
            if moved is None:
                if self.conflict(path):
                    del self.result[path]
                continue
            if not isinstance(ours, File):
                raise Ambiguous
            both = self.both(moved, base, ours, self.theirs[moved])
            self.result[moved] = dataclasses.replace(both, identity=next(_identities))
            del self.result[path]
        candidates = [p for p, node in self.ours.items() if isinstance(node, File) and p not in self.base]
        # What something happens to already is not where an edit can go, too.
        spoken_for = {p for p in candidates
                      if p in self.doomed or p not in self.result or not same(self.result[p], self.ours[p])}
        for path in self.missed:
            base, theirs = self.base[path], self.theirs[path]
            moved = self.place(base, self.ours, candidates, taken) if isinstance(theirs, File) else None
            if moved is None and isinstance(theirs, File):
                moved = self.place(dataclasses.replace(theirs, identity=None), self.ours, candidates, taken)
            if moved in spoken_for:
                moved = None
            if moved is None:
                if self.conflict(path):
                    self.put(path, theirs)
                continue
            ours = self.ours[moved]
            both = self.both(moved, base, ours, theirs)
            if not same(both, ours):
                kept = both.content == ours.content
                self.result[moved] = dataclasses.replace(both, identity=ours.identity if kept else next(_identities))

    def both(self, path, base, ours, theirs):
        if ours.content == base.content or theirs.content == base.content:
            content = theirs.content if ours.content == base.content else ours.content
        else:
            content = self.content(path, base, ours, theirs).content
        return File(content, self.mode(path, base, ours, theirs))

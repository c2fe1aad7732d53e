#!/usr/bin/python3
"""Runs clang-tidy over the sources of a build folder.

    scripts/tidy.py BUILD [FOLDER…]      only what is in these folders (src/http …)

Most of what the linter reads is headers, the same ones for each source. So it is given
units: files in BUILD/tidy that include many sources each (units.py). Those sources of a unit
that cannot be compiled in it are looked at alone. Findings name the sources.

A unit that was clean is not looked at again while all it includes, its flags and the
checks are the same (~/.cache/warren-tidy keeps the digests). Fails if anything is found.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from units import TESTS, private_names

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "warren-tidy"
TIDY = os.environ.get("CLANG_TIDY", "clang-tidy-19")
CLANG = os.environ.get("CLANG", "clang++-19")
VERSION = subprocess.run([TIDY, "--version"], capture_output=True).stdout if shutil.which(TIDY) else None
# Larger units are no faster, and leave processors idle at the end.
MOST_LINES = 6000
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic")
# For code that names only the members that it is about, as tests do.
SOME_MEMBERS = ("-Wno-missing-field-initializers", "-Wno-missing-designated-field-initializers")


def flags_of(entry, is_test):
    """What of a compiler's call matters to the linter: (definitions, everything else)."""
    words = shlex.split(entry["command"])
    definitions, flags = {}, []
    for word, following in zip(words, [*words[1:], ""]):
        if word.startswith("-D"):
            name, _, value = word[2:].partition("=")
            definitions[name] = value
        elif word == "-isystem":
            flags += [word, following]
        elif word.startswith(("-I", "-std=")):
            flags.append(word)
    # GCC has its own opinions; the linter is told of one exception only.
    flags += WARNINGS
    if is_test or SOME_MEMBERS[0] in words:
        flags += SOME_MEMBERS
    return definitions, tuple(flags)


class Unit:
    """Sources that can be looked at together."""

    def __init__(self, flags, is_test):
        self.flags, self.is_test = flags, is_test
        self.definitions, self.names, self.sources, self.lines = {}, set(), [], 0

    def takes(self, definitions, names, lines):
        return (
            self.lines + lines <= MOST_LINES
            and not self.names & names
            and all(self.definitions.get(name, value) == value for name, value in definitions.items())
        )

    def add(self, source, definitions, names, lines):
        self.sources.append(source)
        self.definitions |= definitions
        self.names |= names
        self.lines += lines


def units_of(build, folders):
    units, seen = [], set()
    entries = json.loads((build / "compile_commands.json").read_text())
    for entry in sorted(entries, key=lambda entry: entry["file"]):
        source = os.path.relpath(entry["file"], ROOT)
        if source in seen or not source.startswith("src/") or not source.startswith(folders):
            continue
        seen.add(source)
        is_test = bool(TESTS.search(source))
        text = (ROOT / source).read_text()
        definitions, flags = flags_of(entry, is_test)
        what = (definitions, private_names(text), text.count("\n"))
        for unit in units:
            if (unit.flags, unit.is_test) == (flags, is_test) and unit.takes(*what):
                break
        else:
            units.append(unit := Unit(flags, is_test))
        unit.add(source, *what)
    return units


def unused_aliases(source):
    """What the linter says of the file that it was given only, and not of what that includes."""
    text = (ROOT / source).read_text()
    return [f"{ROOT / source}: error: namespace alias {name} is unused [misc-unused-alias-decls]\n"
            for name in re.findall(r"^ *namespace (\w+) = ", text, re.MULTILINE) if not re.search(rf"\b{name}::", text)]


class Linter:
    def __init__(self, build, folders):
        self.folder = build / "tidy"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.units = units_of(build, folders)
        self.clean = self.same = self.found = 0

    def look(self, unit):
        """At one unit: [(sources, what was said of them)]. Those of its sources that cannot be
        compiled there are looked at alone."""
        together, results = unit.sources, []
        while len(together) > 1:
            main = self.folder / f"unit_{self.units.index(unit)}.cc"
            main.write_text("".join(f'#include "{ROOT / source}"  // NOLINT: that is what a unit is\n' for source in together))
            output = self.run(unit, main)
            errors = re.findall(r"^(\S+?):\d+:\d+: error: .*\[clang-diagnostic-error", output or "", re.MULTILINE)
            if not errors:
                return [*results, (together, output)]
            apart = [source for source in together if str(ROOT / source) in errors] or together
            results += [([source], self.run(unit, ROOT / source)) for source in apart]
            together = [source for source in together if source not in apart]
        return [*results, *(([source], self.run(unit, ROOT / source)) for source in together)]

    def run(self, unit, main):
        """What the linter says of a file: None if nothing, and that was known."""
        flags = [*unit.flags, *(f"-D{name}={value}" for name, value in unit.definitions.items()), "-Wno-unknown-warning-option"]
        # That an assertion of a test holds is something it does not understand.
        checks = "-bugprone-unchecked-optional-access" if unit.is_test else ""
        read = subprocess.run([CLANG, *flags, "-E", "-P", main], capture_output=True)
        digest = hashlib.sha256(repr((VERSION, flags, checks)).encode() + (ROOT / ".clang-tidy").read_bytes() + read.stdout)
        known = CACHE / digest.hexdigest()
        if read.returncode == 0 and known.exists():
            return None
        result = subprocess.run([TIDY, "--quiet", f"--config-file={ROOT}/.clang-tidy", f"--checks={checks}", main, "--", *flags],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if result.returncode:
            return result.stdout or f"{TIDY} ended with {result.returncode}"
        known.touch()
        return ""

    def report(self, sources, output, seconds):
        what = sources[0] if len(sources) == 1 else f"{len(sources)} sources, {sources[0]} to {sources[-1]}"
        if output is None:
            self.same += len(sources)
        elif not output:
            self.clean += len(sources)
            print(f"clean {what} ({seconds:.0f} s)", flush=True)
        else:
            self.found += 1
            print(f"FOUND {what} ({seconds:.0f} s)\n{output}", flush=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if VERSION is None:
        sys.exit(f"tidy: {TIDY} is not installed; scripts/setup.sh test installs it")
    folders = tuple(folder.rstrip("/") + "/" for folder in sys.argv[2:]) or ("src/",)
    linter = Linter(pathlib.Path(sys.argv[1]).resolve(), folders)
    if not linter.units:
        sys.exit(f"tidy: nothing in {' '.join(folders)} is built")
    CACHE.mkdir(parents=True, exist_ok=True)

    def timed(unit):
        start = time.monotonic()
        return linter.look(unit), time.monotonic() - start

    # The longest first.
    units = sorted(linter.units, key=lambda unit: -unit.lines)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for work in concurrent.futures.as_completed([pool.submit(timed, unit) for unit in units]):
            results, seconds = work.result()
            for sources, output in results:
                linter.report(sources, output, seconds)
        for unit in linter.units:
            for finding in filter(None, map(unused_aliases, unit.sources)):
                print("".join(finding), end="", flush=True)
                linter.found += 1
    total = sum(len(unit.sources) for unit in linter.units)
    print(f"tidy: {total} sources in {len(linter.units)} units: {linter.clean} clean, "
          f"{linter.same} unchanged since they were clean, {total - linter.clean - linter.same} in units with findings")
    sys.exit(linter.found > 0)


if __name__ == "__main__":
    main()

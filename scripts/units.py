#!/usr/bin/python3
"""Which sources can be compiled together, as one file that includes them.

    scripts/units.py FOLDER      "UNIT SOURCE" for each source below it, tests left out

Most of a compiler's and of the linter's work is headers, the same ones for each source.
Sources that name the same thing in their anonymous namespaces are put in different units.
"""

import collections
import pathlib
import re
import sys

TESTS = re.compile(r"_test\.cc$|/testing/")
# What a line declares: the word before the first bracket, value or end.
_DECLARED = re.compile(r"([\w:]+)\s*(?:[({\[;=]|$)")
# Sources of one folder in a unit: all processors are to have something to do.
_MOST_SOURCES = 10


def private_names(text):
    """What a source declares for itself only, with the namespace. The formatter sees to it
    that such declarations, and little else, begin at the left edge."""
    found, spaces = set(), []
    for line in text.splitlines():
        if opened := re.match(r"(?:inline )?namespace ?([\w:]*) \{$", line):
            spaces.append(opened[1])
        elif re.match(r"\}  // (anonymous )?namespace", line):
            spaces.pop()
        elif line.startswith("TEST"):
            found.add(line)
        elif ("" in spaces or line.startswith("static ")) and re.match(r"(?!using [^=]*;|namespace )[A-Za-z_]", line):
            if name := _DECLARED.search(line):
                found.add("::".join([*filter(None, spaces), name[1]]))
    return found


def main():
    units = []
    together = collections.Counter()
    for source in sorted(pathlib.Path(sys.argv[1]).rglob("*.cc")):
        if TESTS.search(str(source)):
            continue
        names = private_names(source.read_text())
        index = next((i for i, unit in enumerate(units) if not unit & names), len(units))
        units[index:] = units[index:] or [set()]
        units[index] |= names
        place = (source.parent, index)
        print(f"{index}_{together[place] // _MOST_SOURCES} {source}")
        together[place] += 1


if __name__ == "__main__":
    main()

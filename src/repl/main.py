"""The runner: the sandbox's persistent Python session.

The agent starts it as `/usr/bin/python3 /usr/lib/warren/repl/main.py` with
/dev/null on descriptor 0, pipes on 1 and 2, a pipe on 3 that brings JSON, one message a
line, and one on 4 that takes the same (channel.py says which); an argument names another
number than 3, and with it that of the next. It boots, says that
it is ready, then waits for code to run until the pipe ends.

Everything else is in the package beside this file. It is loaded under a name no user
would choose, from a path that is not on sys.path, so that what is called `channel`
or `output` here shadows nothing of the user's.
"""

import importlib.util
import os
import sys

PACKAGE = "_warren_repl"
# Where Debian keeps its Python packages.
SYSTEM_PACKAGES = "/usr/lib/python3/dist-packages"


def load_package():
    """Makes the package importable as PACKAGE; sys.path then begins where an
    interactive session's does, at the working folder."""
    folder = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location(
        PACKAGE, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)
    sys.path[0] = ""


def boot():
    """Everything that is the same for every session: the imports, the shell, the
    streams. No message has been read or written when it returns."""
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    # Of this process only: how its memory is laid out, so that forks of it are quick.
    os.environ.pop("GLIBC_TUNABLES", None)
    sys.argv = [""]
    load_package()
    # The session's own libraries are the template's, whatever the user has put into
    # site-packages, the working folder or PYTHONPATH meanwhile: a broken upgrade of
    # one of them must not keep the session from starting.
    path = sys.path[:]
    sys.path[:] = [p for p in path if p.startswith("/usr/lib/python3")]
    sys.path.sort(key=lambda p: p == SYSTEM_PACKAGES)  # the standard library first
    try:
        from _warren_repl.runner import Runner

        runner = Runner(source=first, target=first + 1)
    finally:
        sys.path[:] = path
    return runner


def main():
    runner = boot()
    runner.serve()


if __name__ == "__main__":
    main()

"""Runs the Node scripts of e2e/mcp with the official MCP client libraries.

The libraries, and the Node that the conformance suite wants, are installed from npm into the
build folder, once for each content of package.json.
"""

import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import subprocess

from warren_server import build_folder, program

SCRIPTS = pathlib.Path(__file__).resolve().parent / "e2e" / "mcp"


def folder():
    """The folder with the scripts and what they need."""
    place = build_folder() / "mcp-clients"
    place.mkdir(exist_ok=True)
    with open(place / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = hashlib.sha256((SCRIPTS / "package.json").read_bytes()).hexdigest()
        installed = place / "installed"
        if not installed.exists() or installed.read_text() != wanted:
            shutil.rmtree(place / "node_modules", ignore_errors=True)
            shutil.copy(SCRIPTS / "package.json", place)
            done = subprocess.run(["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"], cwd=place,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900)
            assert done.returncode == 0, f"npm install failed:\n{done.stdout}\n{done.stderr}"
            installed.write_text(wanted)
        for script in SCRIPTS.glob("*.mjs"):
            shutil.copy(script, place)
    return place


def node():
    return str(folder() / "node_modules" / ".bin" / "node")


def run(script, timeout=120, **asked):
    """Runs a script that takes what it is asked as JSON and prints "ok"."""
    place = folder()
    done = subprocess.run([node(), str(place / script), json.dumps(asked)], cwd=place, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0 and done.stdout.endswith("ok\n"), f"{done.stdout}\n{done.stderr}"
    return done


def over_http(warren, **more):
    return {"transport": "http", "url": warren.url + "/mcp", "key": warren.key, **more}


def over_stdio(warren, **more):
    return {"transport": "stdio", "program": program(), "key": warren.key,
            "env": {"WARREN_URL": warren.url, "WARREN_KEY": warren.key, "WARREN_HOME": warren.home}, **more}


def path_with_node():
    """A PATH on which `node` is the one from npm."""
    return str(folder() / "node_modules" / ".bin") + os.pathsep + os.environ["PATH"]

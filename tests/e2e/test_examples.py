"""The programs in examples/ do what they say."""

import re
import subprocess
import sys

from warren_server import REPOSITORY


def test_tree_of_thought(warren, client):
    before = client.ids()
    done = subprocess.run([sys.executable, str(REPOSITORY / "examples" / "tree_of_thought.py")], cwd="/", stdin=subprocess.DEVNULL,
                          env={"PATH": "/usr/bin:/bin", "WARREN_URL": warren.url, "WARREN_KEY": warren.key},
                          capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    parent = re.fullmatch(r"parent (sbx_[0-9a-f]{32}): 17520 rows", lines[0])
    assert parent and len(lines) == 7, lines
    errors = {m[1]: float(m[2]) for line in lines[1:6] if (m := re.fullmatch(r"  sbx_[0-9a-f]{32}: (.*): off by (.*) degrees", line))}
    assert len(errors) == 5 and min(errors, key=errors.get) == "days and seasons", errors
    assert lines[6].startswith(f"parent {parent[1]} goes on with: days and seasons ") and lines[6].endswith(" 5 17520"), lines
    assert client.ids() == before

#!/usr/bin/env python3
"""Five ideas at once, from one starting point, and the best of them goes on.

A parent sandbox loads a data frame, which is the expensive part. It is forked into five children, each of
which has the data frame already and tries a model of its own, all at the same time. The winner is merged
back: the parent's id then has the winner's variables. The losers are destroyed.

    python3 examples/tree_of_thought.py

On the server's own machine it takes the operator's key; anywhere else set WARREN_URL=http://HOST:PORT and
WARREN_KEY=wrn_... It needs the template python-datasci. Standard library only: Warren's REST face is plain HTTP and JSON.
"""

import concurrent.futures
import json
import os
import sys
import urllib.error
import urllib.request

HOME = os.environ.get("WARREN_HOME") or "/var/lib/warren"


def kept(name):
    """What a file of the server's home says; nothing where this user can read none."""
    try:
        with open(os.path.join(HOME, name)) as file:
            return file.read().strip()
    except OSError:
        return None


URL = os.environ.get("WARREN_URL") or f"http://{kept('run/address') or '127.0.0.1:7070'}"
KEY = os.environ.get("WARREN_KEY") or kept("admin.key")

# Hourly temperatures of two years, with days, seasons and noise in them. The last month is what the models
# must foretell.
LOAD = """
import numpy as np, pandas as pd
rng = np.random.default_rng(7)
hours = np.arange(2 * 365 * 24)
frame = pd.DataFrame({
    "hour": hours,
    "temperature": 11 - 9 * np.cos(2 * np.pi * hours / 8766) - 4 * np.cos(2 * np.pi * (hours - 3) / 24) + rng.normal(0, 1.5, hours.size),
})
train, test = frame[:-720], frame[-720:]
def error_of(foretold):
    return float(np.sqrt(np.mean((np.asarray(foretold) - test.temperature) ** 2)))
print(len(frame), "rows")
"""

MODELS = {
    "the mean": "foretold = np.full(len(test), train.temperature.mean())",
    "the last day again": "foretold = np.resize(train.temperature[-24:], len(test))",
    "a straight line": "foretold = np.polyval(np.polyfit(train.hour, train.temperature, 1), test.hour)",
    "the same month of the year before": "foretold = frame.temperature[test.index - 8766 + 6]",
    "days and seasons": """
def features(hour):
    year, day = 2 * np.pi * hour / 8766, 2 * np.pi * hour / 24
    return np.column_stack([np.ones(len(hour)), np.sin(year), np.cos(year), np.sin(day), np.cos(day)])
weights, *_ = np.linalg.lstsq(features(train.hour), train.temperature, rcond=None)
foretold = features(test.hour) @ weights
""",
}


def call(method, path, body=None):
    """One request; the answer's JSON, or nothing if there is none."""
    request = urllib.request.Request(URL + path, method=method, headers={"Authorization": f"Bearer {KEY}"},
                                     data=None if body is None else json.dumps(body).encode())
    with urllib.request.urlopen(request) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def run(sandbox, code):
    """Runs Python in a sandbox's session; what it printed. The answer is a JSON object a line."""
    request = urllib.request.Request(f"{URL}/v1/sandboxes/{sandbox}/exec", method="POST", headers={"Authorization": f"Bearer {KEY}"},
                                     data=json.dumps({"code": code}).encode())
    with urllib.request.urlopen(request) as answer:
        events = [json.loads(line) for line in answer]
    if events[-1]["type"] != "exit" or events[-1]["data"] != 0:
        raise RuntimeError(f"the code failed: {events}")
    return "".join(event["data"] for event in events if event["type"] == "stdout").strip()


def main():
    if not KEY:
        sys.exit(f"no key: set WARREN_KEY, or run this as a user who can read {HOME}/admin.key (set WARREN_HOME if that is elsewhere)")
    parent = call("POST", "/v1/sandboxes", {"template": "python-datasci"})["id"]
    alive = {parent}
    try:
        print(f"parent {parent}: {run(parent, LOAD)}")
        children = call("POST", f"/v1/sandboxes/{parent}/fork", {"n": len(MODELS)})["children"]
        alive.update(children)

        def attempt(child, name):
            code = f"name = {name!r}\n{MODELS[name]}\nerror = error_of(foretold)\nprint(error)"
            return float(run(child, code))

        with concurrent.futures.ThreadPoolExecutor(len(children)) as pool:
            errors = dict(zip(children, pool.map(attempt, children, MODELS)))
        for (child, error), name in zip(errors.items(), MODELS):
            print(f"  {child}: {name}: off by {error:.2f} degrees")

        winner = min(errors, key=errors.get)
        call("POST", f"/v1/sandboxes/{parent}/merge_into/{winner}")
        alive.discard(winner)
        for loser in alive - {parent}:
            call("DELETE", f"/v1/sandboxes/{loser}")
        alive = {parent}
        print(f"parent {parent} goes on with: {run(parent, 'print(name, round(error, 2), len(weights), len(frame))')}")
    finally:
        for sandbox in alive:
            call("DELETE", f"/v1/sandboxes/{sandbox}")


if __name__ == "__main__":
    try:
        main()
    except urllib.error.HTTPError as refused:
        sys.exit(f"{URL} answered {refused.code}: {refused.read().decode(errors='replace').strip()}")
    except urllib.error.URLError as failed:
        sys.exit(f"cannot reach {URL}: {failed.reason}; is `warren serve` running there?")

"""The server scenarios of @modelcontextprotocol/conformance that Warren can be put to.

The suite has two kinds. Most scenarios call fixtures: tools, prompts and resources of fixed names
and contents (`test_simple_text`, `test://static-text` …) that only a server made for the suite has.
The others look at the protocol alone; those are run here, each at the revisions it knows.
"""

import re
import subprocess
import urllib.parse

import pytest

import mcp_node

MODERN = "2026-07-28"
LEGACY = "2025-11-25"

RUN = [
    ("server-initialize", "2025-06-18"),
    ("server-initialize", LEGACY),
    ("ping", "2025-06-18"),
    ("ping", LEGACY),
    ("server-session-lifecycle", "2025-03-26"),
    ("server-session-lifecycle", LEGACY),
    ("tools-list", "2025-06-18"),
    ("tools-list", LEGACY),
    ("tools-list", MODERN),
    ("server-sse-multiple-streams", LEGACY),
    ("server-sse-multiple-streams", MODERN),
    ("dns-rebinding-protection", LEGACY),
    ("dns-rebinding-protection", MODERN),
    ("http-header-validation", MODERN),
    ("server-stateless", MODERN),
]

# Checks within those that call a fixture tool and so find an unknown one.
FAILED_FOR_WANT_OF_A_FIXTURE = {
    ("server-stateless", MODERN): {
        "sep-2575-server-rejects-undeclared-capability",    # test_missing_capability
        "sep-2575-missing-capability-http-400",             # test_missing_capability
        "sep-2575-http-server-no-independent-requests-on-stream",  # test_streaming_elicitation
        "sep-2575-server-no-log-without-loglevel",          # test_logging_tool
    },
}

# Every other scenario of the suite, and why it is not run.
LEFT_OUT = {
    # Fixture tools, and contents that none of ours has.
    "tools-call-simple-text": "calls the fixture tool test_simple_text",
    "tools-call-image": "calls the fixture tool test_image_content",
    "tools-call-audio": "calls the fixture tool test_audio_content",
    "tools-call-embedded-resource": "calls the fixture tool test_embedded_resource",
    "tools-call-mixed-content": "calls the fixture tool test_multiple_content_types",
    "tools-call-error": "calls the fixture tool test_error_handling",
    "tools-call-with-progress": "calls the fixture tool test_tool_with_progress; progress has tests of its own",
    "server-sse-polling": "calls the fixture tool test_reconnection; resumption has tests of its own",
    "json-schema-2020-12": "looks for the fixture tool json_schema_2020_12_tool",
    "http-custom-header-server-validation": "wants a tool with an x-mcp-header parameter; ours have none",
    # What a server may offer and this one does not advertise.
    "tools-call-with-logging": "logging is not offered",
    "logging-set-level": "logging is not offered",
    "tools-call-sampling": "the server asks its clients for nothing",
    "tools-call-elicitation": "the server asks its clients for nothing",
    "elicitation-sep1034-defaults": "the server asks its clients for nothing",
    "elicitation-sep1330-enums": "the server asks its clients for nothing",
    "completion-complete": "completions are not offered",
    "caching": "wants prompts and resources too; ttlMs and cacheScope of our lists are unit-tested",
    "sep-2164-resource-not-found": "resources are not offered",
}
# The same for whole families.
LEFT_OUT_FAMILIES = {
    "prompts-": "prompts are not offered",
    "resources-": "resources are not offered",
    "input-required-result-": "no tool asks for more input",
    "tasks-": "the tasks extension is not offered",
    "sep-2640-": "the skills extension is not offered",
}


def suite(*arguments, timeout=180):
    conformance = str(mcp_node.folder() / "node_modules" / ".bin" / "conformance")
    return subprocess.run([mcp_node.node(), conformance, *arguments], cwd=mcp_node.folder(), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=timeout)


@pytest.fixture(scope="module")
def keyed_url(shared_server):
    """The server's endpoint behind something that adds the key."""
    port = urllib.parse.urlsplit(shared_server.url).port
    proxy = subprocess.Popen([mcp_node.node(), str(mcp_node.folder() / "auth_proxy.mjs"), str(port), shared_server.key],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{int(proxy.stdout.readline())}/mcp"
    finally:
        proxy.stdin.close()
        proxy.wait(10)


@pytest.mark.parametrize("scenario,version", RUN, ids=[f"{s}-{v}" for s, v in RUN])
def test_scenario(warren, keyed_url, scenario, version):
    done = suite("server", "--url", keyed_url, "--scenario", scenario, "--spec-version", version)
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    failed = set(re.findall(r"\[([\w-]+) *\] FAILURE", text))
    assert re.search(r"Passed: [1-9]", text), text + done.stderr
    # Exactly these: one that passes all of a sudden has lost its reason to be listed.
    assert failed == FAILED_FOR_WANT_OF_A_FIXTURE.get((scenario, version), set()), text + done.stderr
    assert done.returncode == (1 if failed else 0), text + done.stderr


def test_every_scenario_is_run_or_left_out_for_a_reason():
    done = suite("list", "--server")
    assert done.returncode == 0, done.stderr
    names = {line.strip().lstrip("-• ").split()[0] for line in done.stdout.splitlines()
             if line.startswith((" ", "-", "•")) and line.strip()}
    run = {scenario for scenario, _ in RUN}
    assert run <= names, run - names
    unknown = {name for name in names - run - set(LEFT_OUT) if not name.startswith(tuple(LEFT_OUT_FAMILIES))}
    assert not unknown, unknown

"""The official client libraries of both eras, over HTTP and over stdio."""

import pytest

import mcp_node

pytestmark = pytest.mark.alone  # how soon something comes is looked at

LEGACY = {"era": "legacy", "version": "2025-11-25"}
MODERN = {"era": "modern", "version": "2026-07-28"}

# (library, how it opens, what it must come to): "auto" asks server/discover first and
# falls back in silence, so what it came to is looked at.
OPENINGS = [("sdk", "legacy", LEGACY), ("client", "legacy", LEGACY), ("client", "auto", MODERN),
            ("client", "modern", MODERN)]
IDS = [f"{library}-{era}" for library, era, _ in OPENINGS]

TRANSPORTS = {"http": mcp_node.over_http, "stdio": mcp_node.over_stdio}


@pytest.fixture
def no_sandbox_is_left(client):
    before = {one["id"] for one in client.request("GET", "/v1/sandboxes").json()["sandboxes"]}
    yield
    after = {one["id"] for one in client.request("GET", "/v1/sandboxes").json()["sandboxes"]}
    assert after <= before


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("library,era,expect", OPENINGS, ids=IDS)
def test_the_examples_of_the_skill_file(warren, no_sandbox_is_left, transport, library, era, expect):
    mcp_node.run("examples.mjs", library=library, era=era, expect=expect, **TRANSPORTS[transport](warren))


@pytest.mark.parametrize("behaviour", ["progress", "cancellation", "concurrency"])
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("library,era,expect", OPENINGS, ids=IDS)
def test_a_call_while_it_runs(warren, no_sandbox_is_left, behaviour, transport, library, era, expect):
    mcp_node.run("behaviours.mjs", behaviour=behaviour, library=library, era=era, **TRANSPORTS[transport](warren))


@pytest.mark.parametrize("library", ["sdk", "client"])
def test_a_stream_that_broke_is_resumed_in_the_earlier_era(warren, no_sandbox_is_left, library):
    mcp_node.run("behaviours.mjs", behaviour="resumption", library=library, era="legacy", **mcp_node.over_http(warren))


def test_a_lost_connection_cancels_in_the_current_era(warren, no_sandbox_is_left):
    mcp_node.run("behaviours.mjs", behaviour="lost", library="client", era="modern", **mcp_node.over_http(warren))

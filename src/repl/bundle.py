"""MIME bundles as they go to the agent: bounded, and always JSON.

Images become base64 text, JSON stays JSON, everything else is text. What is over its
limit is left out, and text/plain says so; text/plain itself is cut.
"""

import base64
import json

MAX_PLAIN = 1 << 20  # characters of text/plain
MAX_TEXT = 2 << 20  # characters of any other text
MAX_IMAGE = 4 << 20  # bytes before base64
MAX_BUNDLE = 7 << 20  # of everything together, in characters
MAX_TRACEBACK = 128 << 10


def cut(text, limit, what="characters"):
    """`text`, at most `limit` characters of it with a note of how many are missing."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n… [{len(text) - limit} more {what} left out]"


def cut_middle(text, limit):
    """The beginning and the end of `text`."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… [{len(text) - 2 * half} characters left out] …\n{text[-half:]}"


def _is_json(mime):
    return mime == "application/json" or mime.endswith("+json")


def bundle(data):
    """The bundle for `data`, a dict from MIME type to what a formatter returned."""
    out = {}
    notes = []
    total = 0
    for mime, value in data.items():
        mime = str(mime)
        if mime == "text/plain":
            value = cut(value if type(value) is str else str(value), MAX_PLAIN)
            size = len(value)
            limit = size
        elif isinstance(value, (bytes, bytearray, memoryview)):
            value = bytes(value)
            size = len(value)
            limit = MAX_IMAGE
            if size <= limit:
                value = base64.b64encode(value).decode()
        elif _is_json(mime):
            value, size = _plain_json(value)
            limit = MAX_TEXT
        elif isinstance(value, str):
            value = str(value)
            size = len(value)
            limit = MAX_TEXT
            if mime.startswith("image/") and mime != "image/svg+xml":
                limit = MAX_IMAGE * 4 // 3 + 4
        else:
            value, size = _plain_json(value)
            limit = MAX_TEXT
        if size > limit or total + size > MAX_BUNDLE:
            notes.append(f"[{mime} of {size} bytes left out: the limit is {limit}]")
            continue
        total += size
        out[mime] = value
    if notes:
        out["text/plain"] = "\n".join([out.get("text/plain", ""), *notes]).lstrip("\n")
    return out


def _plain_json(value):
    """`value` as what JSON can say, and its size as text."""
    try:
        text = json.dumps(value, allow_nan=False, default=str)
    except (ValueError, TypeError, RecursionError):
        # NaN, a key that is no string, a cycle.
        text = cut(str(value), MAX_PLAIN)
        return text, len(text)
    return json.loads(text), len(text)

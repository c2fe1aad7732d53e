"""MIME bundles as they go to the agent: bounded, and always JSON that any reader takes.

Images become base64 text, JSON stays JSON, everything else is text. So does JSON that
not every reader could take: NaN and infinity, whole numbers of more than 64 bits, what
is nested too deep. What is over its limit is left out, and text/plain says so;
text/plain itself is cut.
"""

import base64
import json

from .channel import encoded

MAX_PLAIN = 1 << 20  # characters of text/plain
MAX_TEXT = 2 << 20  # characters of any other text
MAX_IMAGE = 4 << 20  # bytes before base64
MAX_BUNDLE = 7 << 20  # of everything together, in bytes as it is sent
MAX_DEPTH = 100  # of JSON in JSON
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
    plain = data.get("text/plain")
    if len(data) == 1 and type(plain) is str and len(plain) <= MAX_PLAIN:
        return {"text/plain": plain}
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
        sent = len(encoded(mime)) + len(encoded(value)) if size <= limit else 0
        if size > limit or total + sent > MAX_BUNDLE:
            notes.append(f"[{cut(mime, 100)} of {size} bytes left out: the limit is {limit}]")
            continue
        total += sent
        out[mime] = value
    if notes:
        out["text/plain"] = "\n".join([out.get("text/plain", ""), *notes]).lstrip("\n")
    return out


def _plain_json(value):
    """`value` as what JSON can say, and its size as text."""
    try:
        text = json.dumps(value, allow_nan=False, default=str)
        plain = json.loads(text, parse_int=_whole_number)
        if _is_deep(plain):
            raise ValueError("nested too deep")
    except (ValueError, TypeError, RecursionError):
        # NaN, a key that is no string, a cycle.
        text = plain = cut(_text(value), MAX_PLAIN)
    return plain, len(text)


def _whole_number(digits):
    number = int(digits)
    if not -(1 << 63) <= number < 1 << 64:
        raise ValueError("more than 64 bits")
    return number


def _is_deep(value):
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        outer = [v for v in level if isinstance(v, (dict, list))]
        level = [v for o in outer for v in (o.values() if isinstance(o, dict) else o)]
        if not level:
            return False
    return True


def _text(value):
    try:
        return str(value)
    except (ValueError, RecursionError) as error:
        # A number of thousands of digits; a list in a list in a list …
        return f"[a {type(value).__name__} that cannot be shown: {error}]"

"""Exceptions as text: IPython's tracebacks without colours, never failing themselves."""

import codeop
import os
import traceback
import types

import IPython
from IPython.core.error import UsageError

from .bundle import MAX_TRACEBACK, cut_middle

# Code between a call and the user's first frame: this package and IPython's machinery.
_MACHINERY = (
    codeop.__file__,
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    os.path.dirname(os.path.abspath(IPython.__file__)) + os.sep,
)
# IPython reads the source around every frame, so deep ones are cut first.
_MAX_FRAMES = 100


def value_of(error):
    """str(error), whatever it does."""
    try:
        return str(error)
    except Exception:
        return f"<unprintable {type(error).__name__} object>"


def text_of(shell, etype, value, tb):
    """The traceback of `value` from the user's first frame on."""
    if issubclass(etype, UsageError):
        return f"UsageError: {value_of(value)}"
    tb = _cut(_without_ours(tb))
    try:
        if issubclass(etype, SyntaxError):
            frames = traceback.extract_tb(tb) if tb else []
            lines = shell.SyntaxTB.structured_traceback(etype, value, frames)
        elif hasattr(value, "_render_traceback_"):
            lines = value._render_traceback_()
        else:
            lines = shell.InteractiveTB.structured_traceback(etype, value, tb, tb_offset=0)
        text = shell.InteractiveTB.stb2text(lines)
    except Exception:
        text = _plain(etype, value, tb)
    return cut_middle(text, MAX_TRACEBACK)


def _plain(etype, value, tb):
    try:
        return "".join(traceback.format_exception(etype, value, tb))
    except Exception:
        return f"{etype.__name__}: {value_of(value)}"


def _without_ours(tb):
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith(_MACHINERY):
        tb = tb.tb_next
    return tb


def _cut(tb):
    """At most _MAX_FRAMES frames: the outer and the inner half."""
    entries = []
    while tb is not None:
        entries.append(tb)
        tb = tb.tb_next
    if len(entries) > _MAX_FRAMES:
        half = _MAX_FRAMES // 2
        entries = entries[:half] + entries[-half:]
    out = None
    for entry in reversed(entries):
        out = types.TracebackType(out, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return out

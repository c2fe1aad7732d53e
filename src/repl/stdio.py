"""The C library's own stdout, which buffers a pipe by the block: from here on by the
line, and flushed where a call ends, so that what C code prints is its call's."""

import ctypes

_LINE_BUFFERED = 1
_libc = ctypes.CDLL(None)
_stdout = ctypes.c_void_p.in_dll(_libc, "stdout")
_fflush = _libc.fflush


def by_line():
    _libc.setvbuf(_stdout, None, _LINE_BUFFERED, ctypes.c_size_t(0))


def flush():
    _fflush(_stdout)

"""sys.stdout and sys.stderr, each write attributed to the call that made it.

What the running call writes goes to its descriptor at once. What a thread or an
asyncio task of an earlier call writes goes to the agent as a "late" message, so that
it does not pass for the output of the call that runs now. A thread belongs to the
call that started it, a task to the call that created it, a job given to a
thread pool to the call that submitted it.
"""

import codecs
import contextvars
import io
import os
import select
import threading

# The call that this thread or task belongs to.
owner = contextvars.ContextVar("warren_call", default=None)

_owner = owner.get
_write = os.write
_this_thread = threading.get_ident
# Text that is held back for the end of its line goes out beyond this size.
_LATE_CHUNK = 32 * 1024
_HELD = 4096


class Attribution:
    """Which call runs now, and where the output of others goes."""

    def __init__(self, channel):
        self._channel = channel
        self.running = None  # the id of the call that runs now
        self.last = None  # the one that ran last
        self.is_child = False  # this process is a fork made by user code
        self.is_moving = False  # whether a fork goes to another sandbox
        self._late = {}  # (call, stream) -> bytes that wait for the end of their line
        self.writers = {}  # stream -> its CallWriter
        self.last_writer = None
        os.register_at_fork(before=self.flush_held, after_in_child=self._become_child)

    def _become_child(self):
        if not self.is_moving:
            self.is_child = True
        self._late = {}

    def is_direct(self):
        """Whether the caller's output belongs on the descriptor itself."""
        running = self.running
        if self.is_child:
            return True
        call = owner.get()
        return call == running if call is not None else running is not None

    def flush_held(self):
        """Writes out what waits for the end of its line."""
        for writer in self.writers.values():
            if writer._held:
                try:
                    writer.flush()
                except OSError:
                    pass  # user code has closed the descriptor

    def late(self, stream, data):
        """Takes output of a call that is over; it is sent line by line."""
        call = owner.get()
        if call is None:
            call = self.last if self.last is not None else 0
        key = (call, stream)
        held = self._late.pop(key, b"") + data
        if held.endswith(b"\n") or len(held) >= _LATE_CHUNK:
            self._send(key, held)
        else:
            self._late[key] = held

    def flush_late(self):
        while self._late:
            try:
                key, held = self._late.popitem()
            except KeyError:  # another thread was quicker
                return
            self._send(key, held)

    def _send(self, key, data):
        for start in range(0, len(data), 1 << 20):
            text = data[start : start + (1 << 20)].decode("utf-8", "replace")
            self._channel.send_now(
                {"op": "late", "call": key[0], "stream": key[1], "text": text}
            )


class CallWriter(io.RawIOBase):
    """The bytes end of a stream. Whole lines go out at once and in one write, so that
    those of threads and processes do not mix; what has no end of line yet waits, for
    each thread apart, until it has, or flush(), or something else writes that must come
    after it: the other stream, a child process, a message."""

    def __init__(self, fd, name, attribution):
        self._fd = fd
        self._stream = name
        self.name = f"<{name}>"
        self.mode = "wb"
        self._attribution = attribution
        self._held = {}  # thread -> bytes
        attribution.writers[name] = self

    @property
    def raw(self):
        return self

    def fileno(self):
        return self._fd

    def isatty(self):
        return False

    def readable(self):
        return False

    def writable(self):
        return True

    def write(self, data):
        if type(data) is not bytes:
            data = bytes(data)
        size = len(data)
        attribution = self._attribution
        if _owner() != attribution.running and not attribution.is_direct():
            attribution.late(self._stream, data)
            return size
        if attribution.last_writer is not self:
            attribution.flush_held()
            attribution.last_writer = self
        me = _this_thread()
        held = self._held.pop(me, None)
        if held is not None:
            if size < _HELD:
                data = held + data
            else:
                self._put(held)
        if data[-1:] != b"\n" and len(data) < _HELD:
            self._held[me] = data
        else:
            self._put(data)
        return size

    def _put(self, data):
        size = len(data)
        try:
            done = _write(self._fd, data)
        except BlockingIOError:
            done = 0
        if done == size:
            return
        # A signal came in between, or a child has made the shared pipe non-blocking.
        view = memoryview(data)[done:]
        while view:
            try:
                view = view[_write(self._fd, view) :]
            except BlockingIOError:
                poller = select.poll()
                poller.register(self._fd, select.POLLOUT)
                poller.poll()

    def flush(self):
        while self._held:
            try:
                self._put(self._held.popitem()[1])
            except KeyError:  # another thread was quicker
                return

    def close(self):
        # The descriptor is the process's, not this object's.
        pass


def _undecodable(error):
    """Encoding that cannot fail: bytes that came in through surrogateescape go out
    as they were, other lone surrogates as backslash escapes."""
    text = error.object[error.start : error.end]
    if all("\udc80" <= c <= "\udcff" for c in text):
        return text.encode("utf-8", "surrogateescape"), error.end
    if len(text) > 1:
        return _undecodable(
            UnicodeEncodeError(error.encoding, error.object, error.start, error.start + 1, "")
        )
    return text.encode("ascii", "backslashreplace"), error.end


codecs.register_error("warren_output", _undecodable)


def open_stream(fd, name, attribution):
    return io.TextIOWrapper(
        CallWriter(fd, name, attribution),
        encoding="utf-8",
        errors="warren_output",
        newline="\n",
        write_through=True,
    )


def follow_threads():
    """From here on a thread begun by a call belongs to it, and so does a job in a
    pool of threads."""
    import concurrent.futures.thread as pool

    start_new_thread = threading._start_new_thread

    def start(function, args, kwargs={}):
        call = owner.get()

        def begin():
            owner.set(call)
            function(*args, **kwargs)

        return start_new_thread(begin, ())

    threading._start_new_thread = start

    class WorkItem(pool._WorkItem):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.warren_call = owner.get()

        def run(self):
            token = owner.set(self.warren_call)
            try:
                super().run()
            finally:
                owner.reset(token)

    pool._WorkItem = WorkItem


def follow_children(attribution):
    """What was printed before a child process begins comes before its output. (os.fork()
    has a hook of its own for that.)"""
    import subprocess

    fork_exec, posix_spawn = subprocess._fork_exec, os.posix_spawn

    def flush_then_fork_exec(*args):
        attribution.flush_held()
        return fork_exec(*args)

    def flush_then_posix_spawn(*args, **kwargs):
        attribution.flush_held()
        return posix_spawn(*args, **kwargs)

    subprocess._fork_exec = flush_then_fork_exec
    os.posix_spawn = flush_then_posix_spawn

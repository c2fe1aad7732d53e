"""The conversation with the agent: JSON, one message a line, UTF-8.

From the agent:
    {"op":"run","id":N,"code":S,"cwd":S?,"env":{S:S}?}
    {"op":"warm","imports":[S…]}                     become what others are forked from
    {"op":"fork","keep_random":B?}                   get ready to be forked into another sandbox
    {"op":"go"} | {"op":"stay"}                      after "packed": fork, or do not
To the agent:
    {"op":"ready","python":S}                        when calls are taken; so says a fork too
    {"op":"warmed","missing":[S…]}
    {"op":"packed","not_copied":{…}}                 what a fork will not have
    {"op":"cannot_fork","why":S}                     in its place
    {"op":"forked"}                                  by what was forked
    {"op":"display","id":N,"data":{MIME:…}}
    {"op":"result","id":N,"data":{MIME:…}}           the last expression's value
    {"op":"error","id":N,"name":S,"value":S,"traceback":S}
    {"op":"late","call":N,"stream":"stdout"|"stderr","text":S}
                                                     written by what call N left running
    {"op":"done","id":N,"exit_code":N,"interrupted":B}

A message is never torn, mixed with another or lost, whichever thread sends it and
whatever signal arrives meanwhile. User code could find the descriptor and write to
it; it would break its own session only.
"""

import fcntl
import json
import os
import select
import threading

from .signals import block_signals, restore_signals

# Above what programs expect to have to themselves, below the usual limit of 1024.
LOWEST_FD = 250

_encode = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
).encode
_decode = json.JSONDecoder().decode
# The functions as they are before user code can replace them.
_read = os.read
_write = os.write
_poll = select.poll
_this_thread = threading.get_ident


class Channel:
    """Owns the two pipes of the conversation: it reads from the descriptor `source` and
    writes to `target`. `before_send` is called ahead of each batch, to flush what must
    be seen first."""

    def __init__(self, source, target):
        self._source = _high(source)
        self._target = _high(target)
        self._buffer = bytearray()
        self._lock = threading.RLock()
        self._sender = None  # the thread that holds the lock
        self._queue = []  # encoded messages that wait for the sender
        self.before_send = None
        self.is_moving = False  # whether a fork goes to another sandbox, with a channel there
        os.register_at_fork(after_in_child=self._leave_to_parent)

    def fileno(self):
        """The descriptor at which messages arrive."""
        return self._source

    def _leave_to_parent(self):
        # A child of user code has no part in the conversation.
        if not self.is_moving:
            for fd in (self._source, self._target):
                if fd >= 0:
                    try:
                        os.close(fd)
                    except OSError:
                        pass
            self._source = self._target = -1
        self._lock = threading.RLock()
        self._sender = None
        self._queue = []

    def receive(self):
        """The next message, or None when the agent has gone."""
        while True:
            end = self._buffer.find(b"\n")
            if end >= 0:
                line = self._buffer[:end]
                del self._buffer[: end + 1]
                return _decode(line.decode())
            chunk = self._read_some()
            if not chunk:
                return None
            self._buffer += chunk

    def descriptors(self):
        return {self._source, self._target}

    def has_line(self):
        return b"\n" in self._buffer

    def _read_some(self):
        while True:
            try:
                return _read(self._source, 65536)
            except BlockingIOError:
                poller = _poll()
                poller.register(self._source, select.POLLIN)
                poller.poll()
            except OSError:
                return b""

    def send(self, *messages):
        if self.before_send is not None:
            self.before_send()
        self.send_now(*messages)

    def send_now(self, *messages):
        """As send(), without before_send. Drops the messages if the agent has gone."""
        data = b"".join(_line(message) for message in messages)
        # No exception of a signal handler between two halves of a message.
        mask = block_signals()
        try:
            self._put(data)
        finally:
            restore_signals(mask)

    def _put(self, data):
        self._queue.append(data)
        if self._sender == _this_thread():
            # A finalizer or signal handler that prints, inside a send of the same
            # thread: the outer send takes it along.
            return
        with self._lock:
            self._sender = _this_thread()
            try:
                while self._queue:
                    self._write_all(self._queue.pop(0))
            finally:
                self._sender = None

    def _write_all(self, data):
        if self._target < 0:
            return
        view = memoryview(data)
        while view:
            try:
                view = view[_write(self._target, view) :]
            except BlockingIOError:
                poller = _poll()
                poller.register(self._target, select.POLLOUT)
                poller.poll()
            except OSError:
                return


def encoded(value):
    """`value` as it is sent."""
    text = _encode(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Lone surrogates are no Unicode; JSON has no way to say them.
        return text.encode("utf-8", "replace")


def _high(fd):
    """The same descriptor under a number that is not in anybody's way."""
    if fd >= LOWEST_FD:
        return fd
    high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, LOWEST_FD)
    os.close(fd)
    return high


def _line(message):
    return encoded(message) + b"\n"

"""When signals may reach Python code, and what SIGINT does.

All signals are blocked while the session's own machinery runs and open while user
code does, so that no handler, ours or the user's, raises in the middle of it.
SIGINT, the agent's way to interrupt a call, raises KeyboardInterrupt during a call
and is dropped outside one.
"""

import _signal  # signal.pthread_sigmask makes 60 enum objects a call; this does not
import signal

_ALL = frozenset(int(s) for s in signal.valid_signals())
_NONE = frozenset()
_SIGINT = frozenset({int(signal.SIGINT)})
_sigmask = _signal.pthread_sigmask
_sigtimedwait = _signal.sigtimedwait
_getsignal = _signal.getsignal
_setsignal = _signal.signal
_SETMASK = int(signal.SIG_SETMASK)
_UNBLOCK = int(signal.SIG_UNBLOCK)
_INT = int(signal.SIGINT)


def block_signals():
    """Blocks all signals of this thread; returns the mask as it was."""
    return _sigmask(_SETMASK, _ALL)


def restore_signals(mask):
    _sigmask(_SETMASK, mask)


class Interrupts:
    """Runs user code with signals open. Made by the main thread, which has all
    signals blocked from then on but inside run()."""

    def __init__(self):
        self._armed = False
        self.fired = False  # whether a SIGINT has interrupted since run() began
        self._user_mask = _NONE
        block_signals()
        self._install()

    def _install(self):
        # A handler that user code has set for SIGINT lasts until its call ends.
        if _getsignal(_INT) != self._on_sigint:
            _setsignal(_INT, self._on_sigint)

    def _on_sigint(self, _number, _frame):
        # The check is needed though the signal is blocked in this thread: one that
        # another thread took is handled here too.
        if self._armed:
            self.fired = True
            raise KeyboardInterrupt

    def run(self, function):
        """Calls function() and returns the exception it ended with, or None. No
        exception leaves."""
        self._install()
        self.fired = False
        # What was meant for an earlier call.
        while _sigtimedwait(_SIGINT, 0) is not None:
            pass
        caught = None
        try:
            self._armed = True
            _sigmask(_SETMASK, self._user_mask)
            function()
        except BaseException as error:  # noqa: B036
            caught = error
        while True:
            try:
                mask = _sigmask(_SETMASK, _ALL)
                self._armed = False
                self._install()
                break
            except BaseException as error:  # a handler that raised just before
                caught = error
                mask = _NONE
        # A mask that user code chose stays; SIGINT must get through all the same.
        self._user_mask = frozenset(mask) - _SIGINT if len(mask) < 32 else _NONE
        return caught

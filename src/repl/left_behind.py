"""Objects that depend on threads and processes which a fork leaves behind.

In the new process a pool whose threads are gone would wait for ever, and a Popen would
take the end of a process that it cannot see for a good one. So these are looked up before
the fork (`LeftBehind`), and told afterwards, in the new process, what has become of them
(`tell`): their next use fails at once and says why.
"""

import signal
import sys
import weakref

_WHY = "its {} stayed behind when the sandbox was forked: make a new one"
_started = weakref.WeakSet()


def follow_processes():
    """Notes the Popen objects that there are."""
    import subprocess

    initialise = subprocess.Popen.__init__

    def __init__(self, *args, **kwargs):
        initialise(self, *args, **kwargs)
        _started.add(self)

    __init__.__doc__ = initialise.__doc__
    __init__.__wrapped__ = initialise
    subprocess.Popen.__init__ = __init__


class LeftBehind:
    def __init__(self):
        threads = sys.modules.get("concurrent.futures.thread")
        self._running = _futures_in_work(threads) if threads is not None else []

    def tell(self):
        for popen in list(_started):
            if popen.returncode is None:
                popen.returncode = -signal.SIGKILL  # as if it had been: it is not here
        threads = sys.modules.get("concurrent.futures.thread")
        if threads is not None:
            error = threads.BrokenThreadPool(_WHY.format("threads"))
            for thread, queue in list(threads._threads_queues.items()):
                _break(_executor_of(thread), error)
                _fail_queued(queue, error)
            for future in self._running:
                _fail(future, error)
            threads._threads_queues.clear()
        processes = sys.modules.get("concurrent.futures.process")
        if processes is not None:
            error = processes.BrokenProcessPool(_WHY.format("processes"))
            for thread in list(processes._threads_wakeups):
                executor = thread.executor_reference()
                _break(executor, error)
                for item in list(thread.pending_work_items.values()):
                    _fail(item.future, error)
            processes._threads_wakeups.clear()


def _futures_in_work(threads):
    run = _run_of(threads._WorkItem)
    futures = []
    for frame in sys._current_frames().values():
        while frame is not None:
            if frame.f_code is run:
                futures.append(frame.f_locals["self"].future)
                break
            frame = frame.f_back
    return futures


def _run_of(item):
    """The code of the library's own WorkItem.run, below what may have been put around it."""
    return next(one for one in reversed(item.__mro__) if "run" in one.__dict__).__dict__["run"].__code__


def _executor_of(thread):
    try:
        return thread._args[0]()
    except (AttributeError, IndexError, TypeError):
        return None


def _break(executor, error):
    if executor is not None:
        executor._broken = str(error)


def _fail_queued(queue, error):
    while True:
        try:
            item = queue.get_nowait()
        except Exception:  # empty
            return
        if item is not None:
            _fail(item.future, error)


def _fail(future, error):
    try:
        future.set_exception(error)
    except Exception:  # done meanwhile, or cancelled
        pass

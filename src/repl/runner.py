"""One call after another: takes code from the channel, runs it, says what came of it."""

import ast
import builtins
import os
import re
import sys
from collections import deque

from . import bundle, commands, figures, stdio
from .channel import Channel
from .generators import follow_generators
from .left_behind import follow_processes
from .luggage import Luggage
from .output import Attribution, follow_children, follow_threads, open_stream, owner
from .shell import KEPT_INPUTS, Shell
from .signals import Interrupts

_ASYNC = 0x80  # inspect.CO_COROUTINE
_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_FIRST_WORD = re.compile(r"\s*([A-Za-z_]\w*)(?=\s|$)")
# By this name of the process (proc(5), comm) the runtime knows the fork that it waits for from
# others that user code makes.
_FORKING = b"warren-fork"
_TITLE = "/proc/self/comm"
_LONGEST_WHY = 500
# How much source text is kept for tracebacks and inspect.getsource(), in characters.
_KEPT_SOURCE = 8 << 20


class Runner:
    """The session. `source` and `target` are the descriptors of the agent's pipes."""

    def __init__(self, source, target):
        self._channel = Channel(source, target)
        self._attribution = Attribution(self._channel)
        self._channel.before_send = self._flush
        self._stdout = sys.stdout = sys.__stdout__ = open_stream(1, "stdout", self._attribution)
        self._stderr = sys.stderr = sys.__stderr__ = open_stream(2, "stderr", self._attribution)
        stdio.by_line()
        follow_threads()
        follow_children(self._attribution)
        follow_processes()
        follow_generators()
        os.system = commands.system
        self._call = None  # the id of the running call
        self._result = None  # its "result" message, which goes out with "done"
        self._failed = False
        self._was_interrupted = False
        self.exit_request = None
        self._loop = None
        self._sources = deque()
        self._source_size = 0
        self._shell = Shell.instance(runner=self)
        self._names = self._shell.user_ns
        self._history = self._shell.history_manager
        self._interrupts = None

    def serve(self):
        """Takes calls until the agent goes; never returns."""
        self._interrupts = Interrupts()
        self._channel.send({"op": "ready", "python": sys.version.split()[0]})
        while True:
            try:
                message = self._next()
                if message is None:
                    break
                op = message.get("op")
                if op == "run":
                    self._run(message)
                elif op == "fork":
                    self._fork(message)
                elif op == "warm":
                    self._warm(message)
            except BaseException as error:  # a bug of ours must not cost the session
                if self._call is None:
                    continue
                self._finish(error)
        os._exit(0)

    # What the shell sends.

    def send_display(self, data):
        self._send({"op": "display", "id": self._call, "data": bundle.bundle(data)})

    def send_result(self, data):
        self._result = {"op": "result", "id": self._call, "data": bundle.bundle(data)}

    def _send(self, message):
        """Sends `message`, and ahead of it the result that waits for "done"."""
        result, self._result = self._result, None
        if result is None:
            self._channel.send(message)
        else:
            self._channel.send(result, message)

    def send_error(self, etype, value, text):
        """`value` and `text` are the exception's own text and its traceback."""
        if self._attribution.is_child:
            print(text, file=self._stderr)
        message = {
            "op": "error",
            "id": self._call,
            "name": str(etype.__name__),
            "value": bundle.cut_middle(value, bundle.MAX_TRACEBACK),
            "traceback": text,
        }
        self._failed = True
        self._send(message)
        if issubclass(etype, KeyboardInterrupt):
            self._was_interrupted = True

    def _send_error_plainly(self, error):
        name = type(error).__name__
        self._failed = True
        self._send(
            {"op": "error", "id": self._call, "name": name, "value": "", "traceback": name}
        )

    def _flush(self):
        """What has been written so far must be in the pipes before a message goes."""
        for name, mine in (("stdout", self._stdout), ("stderr", self._stderr)):
            stream = getattr(sys, name, None)
            if stream is not mine and stream is not None:
                try:
                    stream.flush()
                except BaseException:
                    pass
        self._attribution.flush_held()
        stdio.flush()
        self._attribution.flush_late()

    def _restore_streams(self):
        """A stream that the last call has closed or removed is there again; one that
        it has replaced stays."""
        for fd, name in ((1, "stdout"), (2, "stderr")):
            mine = getattr(self, "_" + name)
            if _is_closed(mine):
                mine = open_stream(fd, name, self._attribution)
                setattr(self, "_" + name, mine)
                setattr(sys, f"__{name}__", mine)
            theirs = getattr(sys, name, None)
            if theirs is not mine and _is_closed(theirs):
                setattr(sys, name, mine)

    # Waiting.

    def _next(self):
        loop = self._loop
        if loop is not None and not loop.is_closed() and not self._channel.has_line():
            import asyncio

            if asyncio.all_tasks(loop):
                self._interrupts.run(self._let_tasks_run)
        return self._channel.receive()

    def _let_tasks_run(self):
        """Tasks that calls have left behind go on until the next message arrives."""
        import asyncio

        loop = self._loop

        async def until_message():
            arrived = asyncio.Event()
            loop.add_reader(self._channel.fileno(), arrived.set)
            try:
                await arrived.wait()
            finally:
                loop.remove_reader(self._channel.fileno())

        loop.run_until_complete(until_message())

    # A fork into another sandbox.

    def _warm(self, message):
        """Makes this a session that others are forked from: imports what it should, and
        puts all there is out of the garbage collector's sight, which would otherwise
        write to every page of it in every fork."""
        import gc
        import importlib

        os.chdir(os.environ.get("HOME", "/"))
        missing = []
        for name in message.get("imports", ()):
            try:
                importlib.import_module(name)
            except Exception as error:
                missing.append(f"{name}: {error}")
        gc.collect()
        gc.freeze()
        self._channel.send({"op": "warmed", "missing": missing})

    def _fork(self, message):
        """Forks where the runtime turns the fork into one in another sandbox: the child
        has new descriptors for its streams and its messages under the old numbers. All
        that can be done before comes before, since this process is held while it forks."""
        try:
            self._flush()
            luggage = Luggage({0, 1, 2} | self._channel.descriptors(), bool(message.get("keep_random")), self._names)
            me, here = os.getpid(), os.fstat(self._channel.fileno())
            # Open already, since every call from "go" on is traced.
            title = os.open(_TITLE, os.O_RDWR | os.O_CLOEXEC)
            name = os.read(title, 64).rstrip(b"\n")
        except Exception as error:  # what the user has made of this process
            self._channel.send({"op": "cannot_fork", "why": f"{type(error).__name__}: {error}"[:_LONGEST_WHY]})
            return
        self._channel.send({"op": "packed", "not_copied": luggage.not_copied})
        go = self._channel.receive()
        if go is None or go.get("op") != "go":
            os.close(title)
            return
        os.write(title, _FORKING)
        self._attribution.is_moving = self._channel.is_moving = True
        try:
            child = os.fork()
        except BaseException:  # what the user has run before a fork, or the kernel
            child = -1
        finally:
            self._attribution.is_moving = self._channel.is_moving = False
        if os.getpid() != me and os.getppid() != 0:
            # Of the kernel's own making, in the same sandbox: the runtime had given up, or took
            # a fork inside a handler for this one. A session has no parent that it could see.
            os._exit(0)
        if child > 0:
            try:
                os.waitpid(child, 0)
            except ChildProcessError:
                pass  # it is in another sandbox
        if os.path.samestat(here, os.fstat(self._channel.fileno())):
            os.write(title, name)
            os.close(title)
            self._channel.send({"op": "forked"})
            return
        try:
            with open(_TITLE, "wb", buffering=0) as file:
                file.write(name)
        except OSError:
            pass
        luggage.unpack()
        self._loop = None  # what it waited for is not here
        self._channel.send({"op": "ready", "python": sys.version.split()[0]})

    # One call.

    def _run(self, message):
        self._call = call = message["id"]
        self._result = None
        self._failed = False
        self._was_interrupted = False
        self.exit_request = None
        attribution = self._attribution
        owner.set(call)
        attribution.running = attribution.last = call
        self._restore_streams()
        place = _Place(message.get("cwd"), message.get("env"))
        code = message["code"]

        error = self._interrupts.run(lambda: self._attempt(place, code))
        if attribution.is_child:
            # A child that user code forked has come out of its call.
            exit_code = self._exit_code(error)
            self._flush()
            os._exit(exit_code)
        place.leave()
        exit_code = self._exit_code(error)
        interrupted = self._interrupts.fired
        self._flush()
        attribution.running = None
        done = {"op": "done", "id": call, "exit_code": exit_code, "interrupted": interrupted}
        self._call = None
        if self._result is not None:
            self._channel.send_now(self._result, done)
            self._result = None
        else:
            self._channel.send_now(done)

    def _finish(self, error):
        """Answers a call in whose handling we have failed ourselves."""
        call, self._call = self._call, None
        self._attribution.running = None
        name = type(error).__name__
        self._channel.send_now(
            {"op": "error", "id": call, "name": name, "value": "", "traceback": name},
            {"op": "done", "id": call, "exit_code": 1, "interrupted": False},
        )

    def _attempt(self, place, code):
        """All of a call that may be interrupted or may fail. What it raises has not
        been told to anyone yet."""
        try:
            try:
                place.enter()
                self._execute(code)
            finally:
                figures.end_call()
        except SystemExit as error:
            self.exit_request = error
        except BaseException as error:
            self._shell.showtraceback((type(error), error, error.__traceback__))

    def _exit_code(self, error):
        if isinstance(error, KeyboardInterrupt) or self._was_interrupted:
            if not self._was_interrupted:
                # It came while the call's error was being put into words; no more of the
                # user's code is run for that.
                self._send_error_plainly(error)
            return 130
        if error is not None and not isinstance(error, SystemExit):
            self._send_error_plainly(error)
            return 1
        request = error if isinstance(error, SystemExit) else self.exit_request
        if request is not None:
            return self._requested_exit(request.code)
        return 1 if self._failed else 0

    def _requested_exit(self, code):
        """As the interpreter does at its own exit."""
        if code is None:
            return 0
        if isinstance(code, int):
            return code & 0xFF
        try:
            print(code, file=sys.stderr)
        except BaseException:
            pass
        return 1

    def _execute(self, code):
        shell = self._shell
        names = self._names
        names.pop("__warningregistry__", None)
        tree = self._parse_plain(code)
        if tree is None:
            shell.displayhook.final = True
            shell.run_cell(code, store_history=True)
            return
        number = shell.execution_count
        self._history.store_inputs(number, code, code)
        name = shell.compile.cache(code, number, raw_code=code)
        self._keep_source(name, len(code))
        try:
            body = tree.body
            last = ast.Expression(body.pop().value) if isinstance(body[-1], ast.Expr) else None
            parts = []
            shell.compile.flags |= _AWAIT
            try:
                if body:
                    parts.append(shell.compile(tree, name, "exec"))
                if last is not None:
                    parts.append(shell.compile(last, name, "eval"))
            finally:
                shell.compile.flags &= ~_AWAIT
            if any(part.co_flags & _ASYNC for part in parts):
                value = self._run_in_loop(self._await_parts(parts))
            else:
                value = None
                for part in parts:
                    value = eval(part, names)
            if last is not None:
                hook = sys.displayhook
                shell.displayhook.final = True
                hook(value)
        finally:
            shell.execution_count = number + 1

    def _parse_plain(self, code):
        """The tree of `code` where it is plain Python for which nothing of IPython's
        own pipeline is needed; None otherwise."""
        shell = self._shell
        if shell.uses_pipeline() or _is_automagic(shell, code):
            return None
        try:
            tree = shell.compile.ast_parse(code, "<input>")
        except Exception:
            return None  # magics, commands, or an error that IPython words
        if not tree.body:
            return None
        return tree

    async def _await_parts(self, parts):
        value = None
        for part in parts:
            value = eval(part, self._names)
            if part.co_flags & _ASYNC:
                value = await value
        return value

    def _run_in_loop(self, coroutine):
        import asyncio

        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        loop = self._loop
        asyncio.set_event_loop(loop)
        task = loop.create_task(coroutine)
        try:
            return loop.run_until_complete(task)
        except KeyboardInterrupt:
            if not task.done():
                task.cancel()
                try:
                    loop.run_until_complete(task)
                except asyncio.CancelledError:
                    pass
            raise

    # What must not grow without bound.

    def _keep_source(self, name, size):
        import linecache

        self._sources.append((name, size))
        self._source_size += size
        while self._source_size > _KEPT_SOURCE or len(self._sources) > KEPT_INPUTS:
            old, size = self._sources.popleft()
            self._source_size -= size
            if old == name:
                break
            linecache.cache.pop(old, None)
            self._shell.compile._filename_map.pop(old, None)


def _is_closed(stream):
    """Whether nothing can be written to `stream`: closed, detached or no stream at all."""
    try:
        return not hasattr(stream, "write") or bool(getattr(stream, "closed", False))
    except Exception:  # a detached one raises whatever it is asked
        return True


def _is_automagic(shell, code):
    """Whether `code` is one line whose first word is a magic, without its %, and not a
    name: `ls -l` and `cd /tmp` would pass for Python."""
    word = _FIRST_WORD.match(code)
    return bool(
        word
        and shell.automagic
        and word[1] in shell.magics_manager.magics["line"]
        and word[1] not in shell.user_ns
        and word[1] not in builtins.__dict__
        and "\n" not in code.strip()
    )


class _Place:
    """The working folder and environment that a call asked for. They hold for that call
    only: afterwards each is as it was before, unless the code has changed it itself,
    which then stays, as os.chdir() and os.environ do in any session."""

    def __init__(self, cwd, env):
        self._cwd = cwd
        self._env = env
        self._old_cwd = None
        self._new_cwd = None
        self._old_env = {}

    def enter(self):
        if self._cwd is not None:
            old = os.getcwd()
            os.chdir(self._cwd)
            self._old_cwd, self._new_cwd = old, os.getcwd()
        for name, value in (self._env or {}).items():
            self._old_env[name] = os.environ.get(name)
            os.environ[name] = value

    def leave(self):
        for name, old in self._old_env.items():
            if os.environ.get(name) != self._env[name]:
                continue
            if old is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = old
        if self._old_cwd is not None:
            try:
                if os.getcwd() == self._new_cwd:
                    os.chdir(self._old_cwd)
            except OSError:
                pass  # a folder is gone; the session stays where it is

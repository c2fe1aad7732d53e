"""IPython's InteractiveShell, made to fit: no history database, no threads, no files
in the home folder, no colours, everything that it would print sent as messages.
"""

import builtins
import os
import sys
import types
import warnings


def _import_ipython():
    """IPython without its terminal front end and without jedi, which nobody here
    types at: a third of the imports."""
    stub = types.ModuleType("IPython.terminal.embed")
    stub.embed = None
    absent = ("jedi",)
    sys.modules["IPython.terminal.embed"] = stub
    for name in absent:
        sys.modules[name] = None
    try:
        import IPython
        from IPython.core import interactiveshell

        del IPython.embed
        return interactiveshell
    finally:
        # Whoever wants the real ones gets them.
        del sys.modules["IPython.terminal.embed"]
        for name in absent:
            del sys.modules[name]


interactiveshell = _import_ipython()

from IPython.core.displayhook import DisplayHook  # noqa: E402
from IPython.core.displaypub import DisplayPublisher  # noqa: E402
from IPython.core.error import UsageError  # noqa: E402
from IPython.core.history import HistoryManager  # noqa: E402
from IPython.core.profiledir import ProfileDir  # noqa: E402
from IPython.lib import pretty  # noqa: E402
from IPython.utils.text import LSString, SList  # noqa: E402
from pickleshare import PickleShareDB  # noqa: E402
from traitlets import observe  # noqa: E402

from . import commands, figures, tracebacks  # noqa: E402

# How many results Out and _N keep alive, and inputs In.
KEPT_RESULTS = 64
KEPT_INPUTS = 1000

# Types that have no rich representation of their own.
_PLAIN_TYPES = frozenset(
    {int, float, complex, bool, str, bytes, list, tuple, dict, set, frozenset, range, type(...)}
)
# Below it a number's repr() is short and cannot fail.
_QUICK_INT = 1 << 64


class _LazyDB(PickleShareDB):
    """IPython's own store (%store, %bookmark), whose folder is made by the first write."""

    def __init__(self, root):
        from pathlib import Path

        self.root = Path(root)
        self.cache = {}

    def __setitem__(self, key, value):
        self.root.mkdir(parents=True, exist_ok=True)
        super().__setitem__(key, value)


class _Profile(ProfileDir):
    """A profile that makes no folders."""

    @observe("location")
    def _location_changed(self, change):
        pass


class Inputs(HistoryManager):
    """In, _i and the like, in memory and bounded."""

    def store_inputs(self, line_num, source, source_raw=None):
        source = source.rstrip("\n")
        raw = source if source_raw is None else source_raw.rstrip("\n")
        parsed, raws = self.input_hist_parsed, self.input_hist_raw
        parsed.append(source)
        raws.append(raw)
        names = self.shell.user_ns
        names["_iii"], names["_ii"], names["_i"] = names.get("_ii", ""), names.get("_i", ""), raw
        names[f"_i{line_num}"] = raw
        gone = line_num - KEPT_INPUTS
        if 0 < gone < len(parsed):
            parsed[gone] = raws[gone] = ""
            names.pop(f"_i{gone}", None)


class Publisher(DisplayPublisher):
    """display() → a "display" message."""

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **_kw):
        self._validate_data(data, metadata)
        self.shell.runner.send_display(data)

    def clear_output(self, wait=False):
        pass  # what has been sent stays sent


class Result(DisplayHook):
    """The value of a last expression → a "result" message, and into _ and Out."""

    final = False  # whether the value is the call's own, not a nested run_cell's

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        formatter = self.shell.display_formatter
        self._plain = formatter.formatters["text/plain"]
        others = [formatter.mimebundle_formatter, formatter.ipython_display_formatter]
        others += [f for mime, f in formatter.formatters.items() if mime != "text/plain"]
        self._other_printers = [f.type_printers for f in others]

    def _format(self, value):
        """display_formatter.format(), quick where only text/plain can come of it."""
        kind = type(value)
        if kind in _PLAIN_TYPES and not any(kind in p for p in self._other_printers):
            # What IPython would come to as well, by way of its pretty printer.
            if kind is int and -_QUICK_INT < value < _QUICK_INT:
                if self._plain.type_printers.get(int) is pretty._repr_pprint:
                    return {"text/plain": repr(value)}
            return {"text/plain": self._plain(value)}
        return self.shell.display_formatter.format(value)[0]

    def quiet(self):
        inputs = self.shell.history_manager.input_hist_parsed
        lines = inputs[-1].rstrip().rsplit("\n", 1) if inputs else [""]
        if ";" not in lines[-1]:
            return False
        return super().quiet()

    def __call__(self, result=None):
        final, self.final = self.final, False
        self.check_for_underscore()
        if result is None or self.quiet():
            return
        data = self._format(result)
        self.update_user_ns(result)
        self.fill_exec_result(result)
        if data:
            if final:
                self.shell.runner.send_result(data)
            else:
                self.shell.runner.send_display(data)

    def update_user_ns(self, result):
        shell = self.shell
        names = shell.user_ns
        results = names.get("_oh")
        if result is results:
            return
        mine = all(
            name not in names or names[name] is getattr(self, name)
            for name in ("_", "__", "___")
        )
        self.___, self.__, self._ = self.__, self._, result
        if mine and "_" not in builtins.__dict__:
            names["_"], names["__"], names["___"] = self._, self.__, self.___
        number = shell.execution_count
        names[f"_{number}"] = result
        if isinstance(results, dict):
            results[number] = result
            while len(results) > KEPT_RESULTS:
                oldest = next(iter(results))
                del results[oldest]
                names.pop(f"_{oldest}", None)


def _warn(message, *args, **kwargs):
    # exit() ends calls here, whatever IPython advises.
    if not str(message).startswith("To exit:"):
        warnings.warn(message, *args, **kwargs)


class Shell(interactiveshell.InteractiveShell):
    """`runner` gets what is to be sent."""

    displayhook_class = Result
    display_pub_class = Publisher

    def __init__(self, runner):
        self.runner = runner
        interactiveshell.PickleShareDB = _LazyDB
        interactiveshell.warn = _warn
        super().__init__()
        # For good: entered once and never left.
        self.builtin_trap.__enter__()
        self.display_trap.__enter__()
        builtins.__dict__["exit"] = builtins.__dict__["quit"] = leave
        for name in ("exit", "quit"):
            self.user_ns.pop(name, None)
            self.user_ns_hidden.pop(name, None)
        # Traits get their values when first asked for; see uses_pipeline().
        self.autoawait, self.ast_node_interactivity  # noqa: B018
        self.ast_transformers, self.input_transformers_post  # noqa: B018
        self._default_cleanup = list(self.input_transformer_manager.cleanup_transforms)
        sys.excepthook = self.excepthook
        figures.watch(self)

    def uses_pipeline(self):
        """Whether the user has changed how IPython treats input."""
        values = self._trait_values  # the traits themselves are slow to read
        return bool(
            values["ast_transformers"]
            or values["input_transformers_post"]
            or not values["autoawait"]
            or values["ast_node_interactivity"] != "last_expr"
            or self.input_transformer_manager.cleanup_transforms != self._default_cleanup
        )

    # What would touch the disk, start threads or colour.

    @observe("ipython_dir")
    def _ipython_dir_changed(self, change):
        pass

    def init_ipython_dir(self, ipython_dir):
        self.ipython_dir = os.path.join(os.path.expanduser("~"), ".ipython")

    def init_profile_dir(self, profile_dir):
        self.profile_dir = _Profile(location=os.path.join(self.ipython_dir, "profile_default"))

    def init_history(self):
        self.history_manager = Inputs(
            shell=self, parent=self, enabled=False, hist_file=":memory:"
        )
        self.configurables.append(self.history_manager)

    def init_completer(self):
        super().init_completer()
        self.Completer.use_jedi = False

    def init_alias(self):
        super().init_alias()
        for name, command in self.alias_manager.aliases:
            if "--color" in command:
                self.alias_manager.define_alias(name, command.replace(" --color", ""))

    def init_virtualenv(self):
        pass

    def init_syntax_highlighting(self, changes=None):
        self.colors = "NoColor"
        super().init_syntax_highlighting(changes)

    def atexit_operations(self):
        pass

    # What would print.

    def _showtraceback(self, etype, evalue, stb):
        text = self.InteractiveTB.stb2text(stb)
        self.runner.send_error(etype, tracebacks.value_of(evalue), text)

    def showtraceback(self, exc_tuple=None, filename=None, tb_offset=None,
                      exception_only=False, running_compiled_code=False):
        try:
            etype, value, tb = self._get_exc_info(exc_tuple)
        except ValueError:
            print("No traceback available to show.", file=sys.stderr)
            return
        if issubclass(etype, SystemExit):
            self.runner.exit_request = value
            return
        # First, and once: where str() of it hangs, an interrupt ends the whole attempt,
        # while IPython would swallow it and go on.
        value_text = tracebacks.value_of(value)
        text = tracebacks.text_of(self, etype, value, tb)
        self.runner.send_error(etype, value_text, text)
        if self.call_pdb:
            self.debugger(force=True)

    def showsyntaxerror(self, filename=None, running_compiled_code=False):
        self.showtraceback(filename=filename)

    def show_usage_error(self, exc):
        self.runner.send_error(UsageError, str(exc), f"UsageError: {exc}")

    # Commands: `!command`, `%system`.

    def system(self, command):
        status = commands.run(self.var_expand(command, depth=1), os.environ.get("SHELL"))
        # As IPython has it: negative where a signal ended the command.
        self.user_ns["_exit_code"] = status

    system_piped = system_raw = system

    def getoutput(self, command, split=True, depth=0):
        text = commands.output(self.var_expand(command, depth=depth + 1), os.environ.get("SHELL"))
        return SList(text.splitlines()) if split else LSString(text)

    # %matplotlib, %pylab.

    def enable_matplotlib(self, gui=None):
        figures.choose()
        return None, "inline"

    def ask_exit(self):
        raise SystemExit(0)


class _Leave:
    """exit and quit: end the call, not the session."""

    def __call__(self, code=None):
        raise SystemExit(code)

    def __repr__(self):
        return "exit(n) ends this call with exit code n; the session goes on"


leave = _Leave()

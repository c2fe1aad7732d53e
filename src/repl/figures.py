"""matplotlib's figures as PNG, each shown once.

figures_backend.py is a matplotlib backend (Agg underneath), chosen when user code first
imports matplotlib, unless its environment chooses another. Figures are shown by
plt.show(), or when their call ends, and then closed. One that display() or the last
expression's value has shown is not shown again.

matplotlib is not imported here: what needs it runs only once the user has.
"""

import importlib.abc
import os
import sys

_BACKEND = "module://" + __name__ + "_backend"
# Figures shown through display() or as a value during this call.
_shown = []


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for the first import of matplotlib, then takes itself away."""

    def find_spec(self, name, path, target=None):
        if name != "matplotlib":
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                break
        else:
            sys.meta_path.insert(0, self)
            return None
        loader = spec.loader
        if loader is None or not hasattr(loader, "exec_module"):
            return spec
        exec_module = loader.exec_module

        def exec_then_choose(module):
            try:
                exec_module(module)
            except BaseException:
                sys.meta_path.insert(0, self)  # the import failed: it may be tried again
                raise
            _choose(module)

        loader.exec_module = exec_then_choose
        return spec


def watch(shell):
    """Chooses this backend once matplotlib is there, and teaches `shell` to format
    figures."""
    shell.display_formatter.formatters["image/png"].for_type_by_name(
        "matplotlib.figure", "Figure", _png
    )
    sys.meta_path.insert(0, _Finder())


def _choose(matplotlib):
    if "MPLBACKEND" not in os.environ:
        matplotlib.rcParams["backend"] = _BACKEND


def choose():
    """What `%matplotlib inline` asks for."""
    import matplotlib

    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].switch_backend(_BACKEND)
    else:
        matplotlib.use(_BACKEND)


def _png(figure):
    import io

    if not figure.axes and not figure.lines and not figure.texts and not figure.images:
        return None
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    if not any(figure is f for f in _shown):
        _shown.append(figure)
    return buffer.getvalue()


def _publish(figure):
    from IPython.display import display

    display(figure)


def _managers():
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    return helpers.Gcf.get_all_fig_managers() if helpers else []


def show_open():
    """Shows every open figure that has not been shown in this call, and closes all."""
    managers = _managers()
    if not managers:
        return
    try:
        for manager in managers:
            figure = manager.canvas.figure
            if not any(figure is f for f in _shown):
                _publish(figure)
    finally:
        sys.modules["matplotlib._pylab_helpers"].Gcf.destroy_all()


def end_call():
    """To be called when a call's code has ended."""
    try:
        if "matplotlib._pylab_helpers" in sys.modules:
            show_open()
    finally:
        _shown.clear()

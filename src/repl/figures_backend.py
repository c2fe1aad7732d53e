"""What matplotlib asks of a backend's module; see figures.py."""

from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas  # noqa: F401

from . import figures

backend_version = "1"


def show(*_args, **_kwargs):
    figures.show_open()

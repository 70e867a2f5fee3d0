"""Figures and Axes that a notebook shows by themselves.

pyplot does not know them, so they open no window and nobody has to close them; but a notebook shows
by itself only what pyplot knows.
"""

from __future__ import annotations

import io
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure


class _Shown:
    """What a notebook shows as a picture where it is the value of a cell."""

    figure: Any

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.figure.savefig(file, format="png")
        return file.getvalue()


class ShownFigure(_Shown, Figure):
    """A figure without pyplot."""


class ShownAxes(_Shown, Axes):
    """Axes in such a figure."""

"""How fits converge, by epochs or by seconds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mfrank.arrays.checks import check_choice
from mfrank.plots.axes import COLORS, MARKERS, axes_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["convergence"]

_LABELS = {"valid": "metric of held-out interactions", "objective": "objective"}
_RELATIVE = "objective above its least (first epoch = 1)"


def convergence(
    models: Any,
    *,
    by: Literal["seconds", "epochs"] = "seconds",
    value: Literal["valid", "objective"] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the value of each epoch of one or more fits; the best held-out value has a ring.

    Parameters
    ----------
    models : model, history, or mapping of str to these
        Fitted or loaded models, by the names to show; a history is a sequence of dicts, such as
        ``model.store.history``.
    by : {"seconds", "epochs"}, default "seconds"
        What the epochs are drawn against: the time of all epochs so far, or their number.
    value : {"valid", "objective"}, optional
        "valid" is the metric of a fit with ``stopping=EarlyStopping(...)``, "objective" what a fit
        with ``track_objective=True`` minimizes. Default: the first of these that all fits have.
        Different objectives have no common scale: if the models minimize different ones, the plot
        shows how far each epoch is above the least value of its fit, as a multiple of that of the
        first epoch, on a logarithmic axis.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        One line per model.

    Raises
    ------
    ValueError
        A fit recorded neither value, or not the one asked for.
    ModuleNotFoundError
        matplotlib is not installed.
    """
    check_choice("by", by, ("seconds", "epochs"))
    if value is not None:
        check_choice("value", value, tuple(_LABELS))
    named = models if isinstance(models, Mapping) else {"": models}
    if not named:
        raise ValueError("models must name at least one model")
    histories = {str(name): _history(name, model) for name, model in named.items()}
    chosen: str | None = value or next(
        (key for key in _LABELS if all(_has(history, key) for history in histories.values())), None
    )
    for name, history in histories.items():
        if chosen is None or not _has(history, chosen):
            of = f" of {name}" if name else ""
            raise ValueError(
                f"the fit{of} recorded no {chosen or 'value'} by epoch: fit with "
                "stopping=EarlyStopping(valid), or with track_objective=True (from the shell: "
                "--track-objective)"
            )
    axes = axes_of(ax)
    relative = chosen == "objective" and _minimize_several(named.values())
    for place, (name, history) in enumerate(histories.items()):
        color = COLORS[place % len(COLORS)]
        x, y = _curve(history, by, str(chosen))
        marker = MARKERS[place % len(MARKERS)]
        axes.plot(x, _relative(y) if relative else y, marker=marker, markersize=3.5, color=color,
                  label=name or "_")  # fmt: skip
        if chosen == "valid":
            best = int(np.argmax(y))
            axes.plot(x[best], y[best], "o", fillstyle="none", markersize=9, color=color)
    axes.set_xlabel("seconds of all epochs" if by == "seconds" else "epochs")
    axes.set_ylabel(_RELATIVE if relative else _LABELS[str(chosen)])
    if relative:
        axes.set_yscale("log")
    if by == "epochs":
        axes.locator_params(axis="x", integer=True)
    if any(histories):
        axes.legend(frameon=False)
    return axes


def _history(name: object, model: Any) -> Sequence[Mapping[str, Any]]:
    found = getattr(getattr(model, "store", model), "history", model)
    if not isinstance(found, Sequence) or not all(isinstance(one, Mapping) for one in found):
        raise TypeError(
            f"models must be fitted models or histories, got {type(model).__name__}"
            + (f" for {name}" if name else "")
        )
    return found


def _minimize_several(models: Iterable[Any]) -> bool:
    """Whether models are known to minimize different objectives; histories do not tell."""
    fitters = [getattr(getattr(model, "store", None), "fitter", None) for model in models]
    options = [fitter.get("options", {}) for fitter in fitters if fitter]
    made = [(each.get("objective"), each.get("loss")) for each in options]
    return any(each != made[0] for each in made)


def _relative(values: Sequence[float]) -> list[float]:
    """Distances from the least value, relative to the first's distance; NaN at the least value."""
    least, first = min(values), values[0]
    return [(value - least) / (first - least) if value > least else math.nan for value in values]


def _has(history: Sequence[Mapping[str, Any]], key: str) -> bool:
    return any(epoch.get(key) is not None for epoch in history)


def _curve(
    history: Sequence[Mapping[str, Any]], by: str, key: str
) -> tuple[list[float], list[float]]:
    """The epochs, or the seconds so far, and the values; epochs without a value are left out."""
    x, y, seconds = [], [], 0.0
    for place, epoch in enumerate(history):
        seconds += float(epoch.get("seconds") or 0)
        if epoch.get(key) is not None:
            x.append(seconds if by == "seconds" else float(epoch.get("epoch", place + 1)))
            y.append(float(epoch[key]))
    return x, y

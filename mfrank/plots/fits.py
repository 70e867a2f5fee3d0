"""Pictures of fits and searches: convergence, cost, leaderboards."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mfrank.arrays import check_choice, check_count, counted
from mfrank.errors import InputTypeError, InputValueError
from mfrank.evaluation import Metric, as_metric
from mfrank.plots.axes import (
    BARS,
    COLORS,
    GRAY,
    MARKERS,
    axes_of,
    evaluations_of,
    rows_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
        The horizontal axis: cumulative seconds, or the number of epochs.
    value : {"valid", "objective"}, optional
        "valid" is the metric of a fit with ``stopping=EarlyStopping(...)``; "objective" is the
        objective of a fit with ``track_objective=True``. Default: the first of these that all fits
        have. Different objectives have no common scale: the plot then shows the excess of each
        epoch over the minimum of its fit, relative to the excess of the first epoch, on a
        logarithmic axis.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        One line per model.

    Raises
    ------
    ValueError
        A fit recorded neither value, or not ``value``.
    ModuleNotFoundError
        matplotlib is not installed.
    """
    check_choice("by", by, ("seconds", "epochs"))
    if value is not None:
        check_choice("value", value, tuple(_LABELS))
    named = models if isinstance(models, Mapping) else {"": models}
    if not named:
        raise InputValueError("`models` must name at least one model")
    histories = {str(name): _history(name, model) for name, model in named.items()}
    chosen: str | None = value or next(
        (key for key in _LABELS if all(_has(history, key) for history in histories.values())), None
    )
    for name, history in histories.items():
        if chosen is None or not _has(history, chosen):
            of = f" of {name}" if name else ""
            raise InputValueError(
                f"the fit{of} recorded no {chosen or 'value'} by epoch:",
                "fit with `stopping=EarlyStopping(valid)`, or with `track_objective=True` (from "
                "the shell: --track-objective)",
            )
        if by == "seconds" and not all("seconds" in epoch for epoch in history):
            raise InputValueError(
                "`models` must have the seconds of each epoch", "otherwise draw by epochs"
            )
    curves = {name: _curve(history, by, str(chosen)) for name, history in histories.items()}
    relative = chosen == "objective" and _minimize_several(named.values())
    if relative:
        curves = {name: (x, _relative(name, y)) for name, (x, y) in curves.items()}
    axes = axes_of(ax)
    for place, (name, (x, y)) in enumerate(curves.items()):
        color, marker = COLORS[place % len(COLORS)], MARKERS[place % len(MARKERS)]
        axes.plot(x, y, marker=marker, markersize=3.5, color=color, label=name)
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
        raise InputTypeError(
            f"`models` must be fitted models or histories, got {type(model).__name__}"
            + (f" for {name}" if name else "")
        )
    return found


def _minimize_several(models: Iterable[Any]) -> bool:
    """Whether models are known to minimize different objectives; histories do not tell."""
    fitters = [getattr(getattr(model, "store", None), "fitter", None) for model in models]
    options = [fitter.get("options", {}) for fitter in fitters if fitter]
    made = [(each.get("objective"), each.get("loss")) for each in options]
    return any(each != made[0] for each in made)


def _relative(name: str, values: Sequence[float]) -> list[float]:
    """Distances from the least value, relative to the first's distance; NaN at the least value."""
    least, first = min(values), values[0]
    if first == least < max(values):
        raise InputValueError(
            f"the objective of {name} was least after its first epoch, so it has no common scale "
            "with others",
            "draw this model alone",
            place=name,
        )
    return [(value - least) / (first - least) if value > least else math.nan for value in values]


def _has(history: Sequence[Mapping[str, Any]], key: str) -> bool:
    return any(epoch.get(key) is not None for epoch in history)


def _curve(
    history: Sequence[Mapping[str, Any]], by: str, key: str
) -> tuple[list[float], list[float]]:
    """The epochs, or the seconds so far, and the values; epochs without a value are left out."""
    x, y, seconds = [], [], 0.0
    for place, epoch in enumerate(history):
        if by == "seconds":
            seconds += float(epoch["seconds"])
        if epoch.get(key) is not None:
            x.append(seconds if by == "seconds" else float(epoch.get("epoch", place + 1)))
            y.append(float(epoch[key]))
    return x, y


# A metric against what it costs: factors, or seconds.


_WIDE = 1000
"""Times as long: powers of ten are enough."""


def cost(
    results: Any, by: Literal["factors", "seconds"] = "factors", *, ax: Axes | None = None
) -> Axes:
    """Draw the metric of each trial of a search against its factors or its seconds.

    For each family, a line shows the best value up to each number of factors, or seconds. Where the
    line is level, more of them do not help.

    Parameters
    ----------
    results : Leaderboard
        From :func:`mfrank.tune`: ``found.leaderboard``.
    by : {"factors", "seconds"}, default "factors"
        Width of the factors, or the time of the trial.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        For each family of models, its trials as points and one line.

    Raises
    ------
    TypeError, ValueError
        ``results`` is not a leaderboard, or none of its models has a value, or factors.
    ModuleNotFoundError
        matplotlib is not installed.
    """
    check_choice("by", by, ("factors", "seconds"))
    rows = rows_of(results)
    if rows is None:
        raise InputTypeError(
            f"`results` must be a Leaderboard of tune, got {type(results).__name__}"
        )
    points = [row for row in rows if row[by]]
    if not points:
        raise InputValueError(f"`results`: no model of the leaderboard has {by}")
    axes = axes_of(ax, width=6.5)
    families = list(dict.fromkeys(str(row["family"]) for row in points))
    for place, family in enumerate(families):
        own = [row for row in points if row["family"] == family]
        x = np.array([float(row[by]) for row in own])
        y = np.array([float(row["value"]) for row in own])
        color, marker = COLORS[place % len(COLORS)], MARKERS[place % len(MARKERS)]
        axes.scatter(x, y, s=14, color=color, marker=marker, alpha=0.4, linewidths=0)
        widths = np.unique(x)
        best = [y[x <= width].max() for width in widths]
        axes.plot(widths, best, drawstyle="steps-post", color=color, label=family,
                  marker=marker, markersize=4.5)  # fmt: skip
    _scale(axes, by)
    axes.set_xlabel("factors" if by == "factors" else "seconds of the trial")
    axes.set_ylabel(str(points[0]["metric"]))
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return axes


def _scale(axes: Axes, by: str) -> None:
    """Logarithmic, with numbers near enough to be read between them."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_xscale("log", base=2 if by == "factors" else 10)
    if by == "seconds":
        low, high = axes.get_xlim()
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < _WIDE * low else (1,)))
        axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:g}")


# Models in the order of a metric, each with its interval.


_SHORT = 44


def leaderboard(
    results: Any, metric: Metric | str | None = None, *, n: int = 15, ax: Axes | None = None
) -> Axes:
    """Draw the value of each model with its 95 % interval, the best at the top.

    An interval is for one model's mean over users. To compare two models, use
    :func:`mfrank.paired_differences`, not the overlap of intervals: users who are easy for one
    model are easy for the other.

    Parameters
    ----------
    results : Leaderboard, Comparison, or mapping of str to Evaluation
        From :func:`mfrank.tune` (``found.leaderboard``) or :func:`mfrank.compare`, or evaluations
        by name of the model.
    metric : Metric or str, optional
        Default: the metric of the search, or the first evaluated metric.
    n : int, default 15
        Maximum number of models to show.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        A point and a bar for each model; points of blended models are filled.

    Raises
    ------
    TypeError, ValueError, KeyError
        ``results`` are none of these, have no value, or lack the metric.
    ModuleNotFoundError
        matplotlib is not installed.
    """
    check_count("n", n, 1)
    rows = rows_of(results)
    if rows is not None:
        name = str(rows[0]["metric"])
        if metric is not None and as_metric(metric) != as_metric(name):
            raise KeyError(f"{metric} was not judged by the search, only {name}")
        found = [
            (_label(row), row["value"], row["low"], row["high"], bool(row["weight"]))
            for row in rows
        ]
        all_alike = not any(row[4] for row in found)
    else:
        evaluations = evaluations_of(results)
        chosen = as_metric(metric or next(iter(next(iter(evaluations.values())).scores)))
        name, all_alike = str(chosen), True
        found = [
            (label, *_interval(one[chosen].value, one[chosen].standard_error), False)
            for label, one in evaluations.items()
        ]
    found = sorted(found, key=lambda row: -row[1])[:n]
    axes = axes_of(ax, width=7, height=1 + 0.3 * len(found))
    for place, (_, value, low, high, used) in enumerate(found):
        color = COLORS[0] if used or all_alike else GRAY
        filled = "full" if used or all_alike else "none"
        axes.errorbar(
            [value], [place], xerr=[[value - low], [high - value]], fmt="o", fillstyle=filled,
            color=color, **BARS,
        )  # fmt: skip
    axes.set_yticks(np.arange(len(found)), [label for label, *_ in found], fontsize=8)
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.set_xlabel(f"{name}, 95 % interval" + ("" if all_alike else "; filled: in the model"))
    axes.grid(axis="x", color="#e5e5e5")
    axes.set_axisbelow(True)
    return axes


def _interval(value: float, error: float) -> tuple[float, float, float]:
    reach = 1.959964 * (error if error == error else 0.0)
    return value, value - reach, value + reach


def _label(row: Mapping[str, Any]) -> str:
    """What tells the trials of a search apart at a glance; a blend by what it is made of."""
    if row["factors"] is None:
        label = f"{row['rank']}. {row['model']}"
        return label if len(label) <= _SHORT else f"{label[: _SHORT - 1]}…"
    size, epochs = counted(row["factors"], "factor"), counted(row["epochs"], "epoch")
    return f"{row['rank']}. {row['family']}, {size}, {epochs}"

"""How often items are recommended, against how popular they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mfrank.data.alignment import by_ids
from mfrank.data.interactions import Interactions
from mfrank.plots.axes import COLORS, GRAY, axes_of
from mfrank.plots.rows import evaluations_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["exposure"]


def exposure(results: Any, train: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the share of all recommendations that goes to the items up to each popularity.

    Items are ordered from the least popular. The dashed line shows their share of the training
    interactions: a model below it recommends popular items more than users took them. On the
    diagonal all items would have equal exposure.

    Parameters
    ----------
    results : Evaluation, Comparison, or mapping of str to Evaluation
        With metrics of the top ranks.
    train : Interactions, scipy sparse (users x items) or DataFrame
        The training data; Interactions are matched by id, a matrix has the rows of the evaluation.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        One line per model, then the training data and the diagonal.

    Raises
    ------
    TypeError, ValueError
        ``results`` are none of these or have no lists, or ``train`` has other items.
    ModuleNotFoundError
        matplotlib is not installed.
    """
    evaluations = evaluations_of(results)
    data = Interactions.of(train)
    item_ids = next(iter(evaluations.values())).item_ids
    popularity, _ = by_ids(data.counts.items, data.item_ids, item_ids, 0)
    for name, one in evaluations.items():
        of = f" of {name}" if name else ""
        if one.exposure is None or not one.exposure.any():
            raise ValueError(
                f"the evaluation{of} has no lists: evaluate with a metric such as ndcg@10, and "
                "without negatives"
            )
        if len(one.exposure) != len(popularity):
            raise ValueError(
                f"train must have the {len(one.exposure):,} items of the evaluation{of}, got "
                f"{len(popularity):,}"
            )
    axes = axes_of(ax)
    order = np.argsort(popularity, kind="stable")
    items = np.arange(len(order) + 1) / len(order)
    for place, (name, one) in enumerate(evaluations.items()):
        color = COLORS[place % len(COLORS)]
        shares = _shares(np.asarray(one.exposure)[order])
        axes.plot(items, shares, color=color, label=name or "recommendations")
    axes.plot(
        items,
        _shares(popularity[order]),
        color="#444444",
        linestyle="--",
        label="training interactions",
    )
    axes.plot([0, 1], [0, 1], color=GRAY, linewidth=0.8, label="equal exposure")
    axes.set_xlabel("items, from the least to the most popular")
    axes.set_ylabel("share of recommendations")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.01)
    axes.legend(frameon=False, loc="upper left")
    return axes


def _shares(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    total = np.concatenate([[0], np.cumsum(counts)])
    shares: NDArray[np.float64] = total / max(int(total[-1]), 1)
    return shares

"""How well a model serves whom: metrics by group, the worst served, and what nobody is shown."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from mfrank.evaluation import Evaluation, Score
from mfrank.pages.asked import Asked
from mfrank.pages.judging import LENGTH, METRICS, Judgement, judge
from mfrank.pages.world import World, path_of

_LISTED, _POINTS = 20, 50


class Quality:
    """The page; each model is judged once."""

    def __init__(self) -> None:
        self._making = Lock()

    def __call__(self, world: World, asked: Asked) -> dict[str, Any]:
        """What is known of a model's lists.

        Raises
        ------
        ValueError
            There are no data.
        """
        index = asked.place("index", len(world.models))
        key = Quality, index
        with self._making:
            if key not in world.made:
                world.made[key] = _made(world, index)
        return {
            "model": index,
            "names": world.names,
            "others": [
                {"name": name, "url": path_of("quality", other)}
                for other, name in enumerate(world.names)
            ],
            "both": path_of("quality", "both") if len(world.names) > 1 else None,
            **world.made[key],
        }


def _made(world: World, index: int) -> dict[str, Any]:
    model = world.models[index]
    if world.data is None:
        raise ValueError(
            "there is nothing held out to judge lists by; start with mfrank explore MODEL --data "
            "FILE, where the file has more than the model was fitted to"
        )
    if model.seen is None:
        return {
            "note": "this model was saved without the users' items: what is held out is unknown"
        }
    judged = judge(model, model.seen, world.data)
    if not judged.evaluation.n_users:
        return {"note": "the model was fitted to all that the data have: nothing is held out"}
    evaluation = judged.evaluation
    return {
        "note": "",
        "length": LENGTH,
        "n_users": evaluation.n_users,
        "n_drawn": judged.n_drawn,
        "n_in_data": judged.n_in_data,
        "metrics": _metrics(evaluation),
        "by_activity": _groups(evaluation.by_group(judged.activity)),
        "by_popularity": _groups(dict(evaluation.by_item_group)),
        "worst": _worst(world, judged, index),
        **_shown(world, judged, index),
    }


def _metrics(evaluation: Evaluation) -> list[dict[str, Any]]:
    return [
        {"name": str(metric), **_interval(evaluation[metric], evaluation.n_users)}
        for metric in METRICS
    ]


def _interval(score: Score, n: int) -> dict[str, Any]:
    """The mean with a 95 % interval by Student's t; none for a single user."""
    reach = float(stdtrit(n - 1, 0.975)) * score.standard_error if n > 1 else None
    low, high = (None, None) if reach is None else (score.value - reach, score.value + reach)
    return {"value": score.value, "reach": reach, "low": low, "high": high}


def _groups(found: dict[str, Evaluation]) -> list[dict[str, Any]]:
    """A row for each group that has somebody."""
    return [
        {"name": name, "n_users": one.n_users, "metrics": _metrics(one)}
        for name, one in found.items()
        if one.n_users
    ]


def _worst(world: World, judged: Judgement, index: int) -> list[dict[str, Any]]:
    """Users with the lowest NDCG; of equal ones, those of whom most was held out."""
    values = judged.evaluation[METRICS[0]].per_user
    assert values is not None
    order = np.lexsort((judged.users, -judged.held_out, values))[:_LISTED]
    model = world.models[index]
    labels = model.user_ids.raw(judged.users[order]).tolist()
    assert model.seen is not None
    had = np.diff(model.seen.positives.indptr)[judged.users[order]].tolist()
    more = f"?model={index}" if index else ""
    rows = zip(labels, values[order].tolist(), judged.held_out[order].tolist(), had, strict=True)
    return [
        {"id": user, "ndcg": value, "held_out": n, "has": own, "url": path_of("user", user) + more}
        for user, value, n, own in rows
    ]


def _shown(world: World, judged: Judgement, index: int) -> dict[str, Any]:
    """How lists are shared out among items, and the most popular of those in no list."""
    exposure = judged.evaluation.exposure
    assert exposure is not None
    counts = judged.counts
    never = np.flatnonzero(exposure == 0)
    never = never[np.argsort(-counts[never], kind="stable")]
    labels = world.models[index].item_ids.raw(never[:_LISTED]).tolist()
    order = np.argsort(counts, kind="stable")
    return {
        "n_items": len(counts),
        "n_never": len(never),
        "never": world.items(labels),
        "exposure": list(_exposure(judged, exposure)),
        "shares": {
            "shown": _shares(exposure[order]),
            "had": _shares(counts[order]),
        },
    }


def _exposure(judged: Judgement, exposure: NDArray[np.int64]) -> Iterator[dict[str, Any]]:
    """For each group of items by popularity, its part of items, interactions and places."""
    groups = judged.popularity
    for number, name in enumerate(groups.names):
        own = groups.of_rows == number
        yield {
            "name": name,
            "n_items": int(own.sum()),
            "of_items": _part(own, np.ones_like(exposure)),
            "had": _part(own, judged.counts),
            "shown": _part(own, exposure),
            "n_never": int((exposure[own] == 0).sum()),
        }


def _part(own: NDArray[np.bool_], counts: NDArray[np.int64]) -> float:
    return float(counts[own].sum() / max(counts.sum(), 1))


def _shares(counts: NDArray[np.int64]) -> list[float]:
    """The share of the first items, at equal steps from none of them to all."""
    summed = np.concatenate([[0], np.cumsum(counts)])
    at = np.linspace(0, len(counts), _POINTS + 1).round().astype(np.int64)
    shares: list[float] = (summed[at] / max(int(summed[-1]), 1)).tolist()
    return shares

"""Two models side by side: metrics of both, and for whom one is better than the other."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.evaluation import Evaluation
from mfrank.pages.asked import Asked
from mfrank.pages.judging import LENGTH, METRICS, JudgedPair, judge_pair
from mfrank.pages.world import World, path_of

_LISTED = 20


class QualityPair:
    """The page, judged once."""

    def __init__(self) -> None:
        self._making = Lock()

    def __call__(self, world: World, _: Asked) -> dict[str, Any]:
        """How the lists of both models differ.

        Raises
        ------
        ValueError
            There is one model only, or there are no data.
        """
        with self._making:
            if QualityPair not in world.made:
                world.made[QualityPair] = _made(world)
        return {
            "names": world.names,
            "others": [
                {"name": name, "url": path_of("quality", index)}
                for index, name in enumerate(world.names)
            ],
            **world.made[QualityPair],
        }


def _made(world: World) -> dict[str, Any]:
    if len(world.models) < 2:
        raise ValueError("there is one model only; start with two: mfrank explore MODEL MODEL2")
    if world.data is None:
        raise ValueError(
            "there is nothing held out to judge lists by; start with mfrank explore MODEL MODEL2 "
            "--data FILE, where the file has more than the models were fitted to"
        )
    for name, model in zip(world.names, world.models, strict=True):
        if model.seen is None:
            return {
                "note": f"{name} was saved without the users' items: what is held out is unknown"
            }
    pair = judge_pair((world.models[0], world.models[1]), world.data)
    if not pair.first.n_users:
        return {"note": "the models have seen all that the data have: nothing is held out"}
    groups = [each.by_group(pair.activity) for each in (pair.first, pair.second)]
    items = [dict(each.by_item_group) for each in (pair.first, pair.second)]
    return {
        "note": "",
        "length": LENGTH,
        "n_users": pair.first.n_users,
        "n_drawn": pair.n_drawn,
        "n_in_data": pair.n_in_data,
        "metrics": _metrics(pair.first, pair.second),
        "by_activity": _groups(*groups),
        "by_popularity": _groups(*items),
        **_users(world, pair),
    }


def _metrics(first: Evaluation, second: Evaluation) -> list[dict[str, Any]]:
    """Both means, and the mean of (first - second) over users with its 95 % interval."""
    rows = []
    for metric in METRICS:
        found = first.compare(second, metric)
        low, high = (found.low, found.high) if first.n_users > 1 else (None, None)
        rows.append(
            {
                "name": str(metric),
                "values": [first[metric].value, second[metric].value],
                "difference": found.mean,
                "low": low,
                "high": high,
                "better": _better(low, high),
            }
        )
    return rows


def _better(low: float | None, high: float | None) -> int | None:
    """Which model is better, 0 or 1; None where the interval has 0 in it."""
    if low is None or high is None or low <= 0 <= high:
        return None
    return 0 if low > 0 else 1


def _groups(first: dict[str, Evaluation], second: dict[str, Evaluation]) -> list[dict[str, Any]]:
    """A row for each group that has somebody."""
    return [
        {"name": name, "n_users": one.n_users, "metrics": _metrics(one, second[name])}
        for name, one in first.items()
        if one.n_users
    ]


def _users(world: World, pair: JudgedPair) -> dict[str, Any]:
    """How many users each model serves better, and whom by most: by NDCG."""
    mine, theirs = (each[METRICS[0]].per_user for each in (pair.first, pair.second))
    assert mine is not None
    assert theirs is not None
    gained = mine - theirs
    return {
        "n_better": [int((gained > 0).sum()), int((gained < 0).sum())],
        "n_same": int((gained == 0).sum()),
        "most": [
            _most(world, pair, (mine, theirs), gained),
            _most(world, pair, (mine, theirs), -gained),
        ],
    }


def _most(
    world: World,
    pair: JudgedPair,
    values: tuple[NDArray[np.float64], NDArray[np.float64]],
    gained: NDArray[np.float64],
) -> list[dict[str, Any]]:
    """Users who gain most, whom the other model serves worst; of equal ones, most held out."""
    order = np.lexsort((pair.users, -pair.held_out, np.minimum(*values), -gained))[:_LISTED]
    order = order[gained[order] > 0]
    model = world.models[0]
    assert model.seen is not None
    had = np.diff(model.seen.positives.indptr)[pair.users[order]].tolist()
    labels = model.user_ids.raw(pair.users[order]).tolist()
    both = np.column_stack(values)[order].tolist()
    rows = zip(labels, both, pair.held_out[order].tolist(), had, strict=True)
    return [
        {"id": user, "ndcg": pairs, "held_out": n, "has": own, "url": path_of("compare", user)}
        for user, pairs, n, own in rows
    ]

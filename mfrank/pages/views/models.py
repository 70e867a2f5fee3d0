"""The pages of a model: how it was fitted, how well it serves whom, and which of two is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from mfrank.errors import InputValueError
from mfrank.evaluation import Evaluation, Score
from mfrank.pages.judging import LENGTH, METRICS, Judgement, judge
from mfrank.pages.page_request import PageRequest
from mfrank.pages.site import Site, path_of
from mfrank.retrieval import Recommender
from mfrank.store import seconds_of

_WIDTH, _HEIGHT = 600.0, 160.0

_CURVES = {
    "objective": "Objective",
    "valid": "Held-out metric of early stopping",
    "seconds": "Seconds of each epoch",
}


def model(site: Site, request: PageRequest) -> dict[str, Any]:
    """How a model was fitted: settings, sizes, and curves over its epochs."""
    index = request.index("index", len(site.models))
    store = site.models[index].store
    entries = None if store.counts is None else int(store.counts.users.sum())
    cells = store.n_users * store.n_items
    return {
        "model": index,
        "names": site.names,
        "others": site.links("model"),
        "kind": store.fitter["name"],
        "settings": list(_settings(store.fitter["options"])),
        "sizes": {
            "users": store.n_users,
            "items": store.n_items,
            "factors": store.user_factors.shape[1],
            "interactions": entries,
            "density": None if entries is None or not cells else entries / cells,
            "dtype": str(store.user_factors.dtype),
        },
        "versions": dict(store.versions),
        "epochs": len(store.history),
        "seconds": seconds_of(store.history),
        "curves": [
            {"name": name, "title": title, **drawn}
            for name, title in _CURVES.items()
            if (drawn := curve([epoch.get(name) for epoch in store.history])) is not None
        ],
        "history": [dict(epoch) for epoch in store.history],
    }


def curve(values: Sequence[float | int | None]) -> dict[str, Any] | None:
    """Points of an SVG line, y downward, with the first and last epoch, and the range of values.

    None if there are fewer than two values.
    """
    known = [(epoch, float(value)) for epoch, value in enumerate(values, 1) if value is not None]
    if len(known) < 2:
        return None
    numbers = [value for _, value in known]
    least, span = min(numbers), max(numbers) - min(numbers)
    steps = known[-1][0] - known[0][0]
    points = [
        (
            _WIDTH * (epoch - known[0][0]) / steps,
            _HEIGHT * (1 - (value - least) / span) if span else _HEIGHT / 2,
        )
        for epoch, value in known
    ]
    return {
        "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in points),
        "epochs": [known[0][0], known[-1][0]],
        "least": least,
        "greatest": max(numbers),
        "last": numbers[-1],
    }


def _settings(options: Mapping[str, Any], prefix: str = "") -> Sequence[tuple[str, str]]:
    """Names and values of options; a nested option has its owner's name and a dot before it."""
    rows: list[tuple[str, str]] = []
    for name, value in options.items():
        if isinstance(value, Mapping) and "name" in value:
            rows.append((prefix + name, str(value["name"])))
            rows.extend(_settings(value.get("options", {}), f"{prefix}{name}."))
        else:
            rows.append((prefix + name, str(value)))
    return rows


_LISTED, _POINTS = 20, 50


def quality(site: Site, request: PageRequest) -> dict[str, Any]:
    """A model's metrics by group, its worst users, and the items in no list; computed once.

    Raises
    ------
    ValueError
        There are no data.
    """
    index = request.index("index", len(site.models))
    return {
        "model": index,
        "names": site.names,
        "others": site.links("quality"),
        "both": path_of("quality", "both") if len(site.names) > 1 else None,
        **site.compute_once((quality, index), lambda: _of_one(site, index)),
    }


def quality_pair(site: Site, _: PageRequest) -> dict[str, Any]:
    """Metrics of both models, and for whom one is better than the other; computed once.

    Raises
    ------
    ValueError
        There is one model only, or there are no data.
    """
    return {
        "names": site.names,
        "others": site.links("quality"),
        **site.compute_once(quality_pair, lambda: _of_pair(site)),
    }


def _of_one(site: Site, index: int) -> dict[str, Any]:
    model = site.models[index]
    if site.data is None:
        raise InputValueError(
            "there is nothing held out to judge lists by",
            "start with mfrank explore MODEL --data FILE, where the file has more than the model "
            "was fitted to",
        )
    if model.seen is None:
        return {
            "note": "this model was saved without the users' items: what is held out is unknown"
        }
    judged = judge([model], site.data)
    (evaluation,) = judged.evaluations
    if not evaluation.n_users:
        return {"note": "the model was fitted to all that the data have: nothing is held out"}
    return {
        **_sizes(judged),
        "metrics": _metrics(evaluation),
        "by_activity": _groups(_metrics, evaluation.by_group(judged.activity)),
        "by_popularity": _groups(_metrics, dict(evaluation.by_item_group)),
        "worst": _worst(site, judged, index),
        **_shown(site, judged, index),
    }


def _of_pair(site: Site) -> dict[str, Any]:
    if len(site.models) < 2:
        raise InputValueError(
            "there is one model only", "start with two: mfrank explore MODEL MODEL2"
        )
    if site.data is None:
        raise InputValueError(
            "there is nothing held out to judge lists by",
            "start with mfrank explore MODEL MODEL2 --data FILE, where the file has more than the "
            "models were fitted to",
        )
    for name, model in zip(site.names, site.models, strict=True):
        if model.seen is None:
            return {
                "note": f"{name} was saved without the users' items: what is held out is unknown"
            }
    judged = judge(site.models, site.data)
    both = judged.evaluations
    if not both[0].n_users:
        return {"note": "the models have seen all that the data have: nothing is held out"}
    return {
        **_sizes(judged),
        "metrics": _differences(*both),
        "by_activity": _groups(_differences, *(each.by_group(judged.activity) for each in both)),
        "by_popularity": _groups(_differences, *(dict(each.by_item_group) for each in both)),
        **_gains(site, judged),
    }


def _sizes(judged: Judgement) -> dict[str, Any]:
    return {
        "note": "",
        "length": LENGTH,
        "n_users": judged.evaluations[0].n_users,
        "n_drawn": judged.n_drawn,
        "n_in_data": judged.n_in_data,
    }


def _groups(
    metrics: Callable[..., Any], *evaluations: dict[str, Evaluation]
) -> list[dict[str, Any]]:
    """A row for each group that has somebody, with the metrics of its evaluations."""
    return [
        {
            "name": name,
            "n_users": one.n_users,
            "metrics": metrics(*(each[name] for each in evaluations)),
        }
        for name, one in evaluations[0].items()
        if one.n_users
    ]


def _users(
    judged: Judgement,
    model: Recommender,
    order: NDArray[np.int64],
    ndcg: NDArray[np.float64],
    *to: str,
) -> list[dict[str, Any]]:
    """The judged users in this order, each with the NDCG and the URL of a page."""
    assert model.seen is not None
    rows = judged.users[order]
    had = np.diff(model.seen.positives.indptr)[rows].tolist()
    labels, values = model.user_ids.raw(rows).tolist(), ndcg[order].tolist()
    columns = zip(labels, values, judged.held_out[order].tolist(), had, strict=True)
    return [
        {"id": user, "ndcg": value, "held_out": n, "has": own, "url": path_of(*to, user)}
        for user, value, n, own in columns
    ]


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


def _worst(site: Site, judged: Judgement, index: int) -> list[dict[str, Any]]:
    """Users with the lowest NDCG, most held-out items first among equals."""
    values = judged.evaluations[0][METRICS[0]].per_user
    assert values is not None
    order = np.lexsort((judged.users, -judged.held_out, values))[:_LISTED]
    more = f"?model={index}" if index else ""
    users = _users(judged, site.models[index], order, values, "user")
    return [{**user, "url": user["url"] + more} for user in users]


def _shown(site: Site, judged: Judgement, index: int) -> dict[str, Any]:
    """How often lists have each item, and the most popular items that no list has."""
    exposure = judged.evaluations[0].exposure
    assert exposure is not None
    counts = judged.counts
    never = np.flatnonzero(exposure == 0)
    never = never[np.argsort(-counts[never], kind="stable")]
    labels = site.models[index].item_ids.raw(never[:_LISTED]).tolist()
    order = np.argsort(counts, kind="stable")
    return {
        "n_items": len(counts),
        "n_never": len(never),
        "never": site.items(labels),
        "exposure": list(_exposure(judged, exposure)),
        "shares": {
            "shown": _shares(exposure[order]),
            "had": _shares(counts[order]),
        },
    }


def _exposure(judged: Judgement, exposure: NDArray[np.int64]) -> Iterator[dict[str, Any]]:
    """For each popularity group: its share of items, of interactions and of places in lists."""
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
    """Cumulative share of the first items (a Lorenz curve), at equal steps from none to all."""
    summed = np.concatenate([[0], np.cumsum(counts)])
    at = np.linspace(0, len(counts), _POINTS + 1).round().astype(np.int64)
    shares: list[float] = (summed[at] / max(int(summed[-1]), 1)).tolist()
    return shares


def _differences(first: Evaluation, second: Evaluation) -> list[dict[str, Any]]:
    """Both means, and the mean of (first - second) over users with its 95 % interval."""
    rows = []
    for metric in METRICS:
        compared = first.compare(second, metric)
        low, high = (compared.low, compared.high) if first.n_users > 1 else (None, None)
        rows.append(
            {
                "name": str(metric),
                "values": [first[metric].value, second[metric].value],
                "difference": compared.mean,
                "low": low,
                "high": high,
                "better": _better(low, high),
            }
        )
    return rows


def _better(low: float | None, high: float | None) -> int | None:
    """Which model is better, 0 or 1; None if the interval contains 0."""
    if low is None or high is None or low <= 0 <= high:
        return None
    return 0 if low > 0 else 1


def _gains(site: Site, judged: Judgement) -> dict[str, Any]:
    """How many users each model serves better by NDCG, and the users with the largest gains."""
    mine, theirs = (each[METRICS[0]].per_user for each in judged.evaluations)
    assert mine is not None
    assert theirs is not None
    values, gained = np.column_stack([mine, theirs]), mine - theirs
    most = []
    for gains in (gained, -gained):
        # Among equal gains, first those whom the other model serves worst, with most held out.
        order = np.lexsort((judged.users, -judged.held_out, np.minimum(mine, theirs), -gains))
        order = order[:_LISTED]
        order = order[gains[order] > 0]
        most.append(_users(judged, site.models[0], order, values, "compare"))
    return {
        "n_better": [int((gained > 0).sum()), int((gained < 0).sum())],
        "n_same": int((gained == 0).sum()),
        "most": most,
    }

"""Ten days of updates of models of every kind, against a daily refit of the same model.

A model is fitted to the first days. Each further day is first recommended for, by NDCG@20 over the
items that known users take up that day, and then learned: by ``partial_fit`` of the day, or by
``mfrank.refit`` to all days so far. Of the sessions of a shop, which are new, all but the last item
are folded in, and the last is asked for. Differences are paired by users. Seconds are of the
updates and the refits alone, CPU seconds of all threads. The blends are what ``mfrank.tune`` tends
to find: ALS, a sampled softmax, and models of weights between items. ``--items`` keeps the items
with most users.
With ``--tune``, the model is what a search of so many trials finds best for the first days, and the
parts of what it finds are judged, too. News is searched without its times, with which the
popularity of the last half hour alone is best.

    python bench/daily.py globo
    python bench/daily.py globo --items 2000 --kinds EASE ItemKNN
    python bench/daily.py yoochoose-100k --kinds EASE "EASE with powers" ItemKNN
    python bench/daily.py globo --factors 16 --tune 6
    python bench/daily.py yoochoose-100k --factors 32 --tune 16
    python bench/daily.py globo --kinds Descent --factors 16 --folder /tmp/trial
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness.records import line, parser, save
from harness.subjects import data_folder
from stream import DAYS, STREAMS, Stream, days_of, summed

import mfrank
from mfrank.data import Interactions, from_npz

METRIC = "ndcg@20"


def als(args: argparse.Namespace) -> mfrank.ALS:
    """The ALS that bench/stream.py finds best on globo."""
    objective = mfrank.IALS(alpha0=0.03, regularization=0.01, nu=1)
    return mfrank.ALS(objective, args.factors, 10, random_state=0, n_threads=args.threads)


def descent(args: argparse.Namespace) -> mfrank.Descent:
    """A sampled softmax of cosines, with shared negatives."""
    return mfrank.Descent(
        mfrank.SampledSoftmax(),
        args.factors,
        10,
        negatives=512,
        shared_negatives=True,
        random_state=0,
        n_threads=args.threads,
    )


KINDS: Mapping[str, Callable[[argparse.Namespace], Any]] = {
    "ALS": als,
    "Descent": descent,
    "EASE": lambda args: mfrank.EASE(),
    "EASE with powers": lambda args: mfrank.EASE(user_power=0.5, item_power=0.5),
    "ItemFilter": lambda args: mfrank.ItemFilter(),
    "ItemKNN": lambda args: mfrank.ItemKNN(),
    "Blend of ALS and Descent": lambda args: mfrank.Blend([als(args), descent(args)], [1, 1]),
    "Blend with ItemFilter": lambda args: mfrank.Blend(
        [als(args), descent(args), mfrank.ItemFilter()], [1, 1, 0.5]
    ),
    "Blend with EASE": lambda args: mfrank.Blend(
        [als(args), mfrank.EASE(), mfrank.ItemKNN()], [1, 1, 0.5]
    ),
}


def judged(model: Any, today: Interactions) -> Any:
    """Rank for the users of the day whom the model knows all items that they do not have."""
    users, items = (
        known.rows(own.labels, missing=-1)
        for known, own in ((model.user_ids, today.user_ids), (model.item_ids, today.item_ids))
    )
    known = (users[today.entry_users] >= 0) & (items[today.user_items.indices] >= 0)
    return mfrank.evaluate(model, today.take(known).k_core(1), metrics=[METRIC])


def judged_sessions(model: Any, today: Interactions) -> Any:
    """Fold in all but the last item of each session, and ask for the last."""
    asked, items = mfrank.leave_last(today), model.item_ids

    def among(part: Interactions) -> sp.csr_array:
        columns = items.rows(part.item_ids.labels, missing=-1)[part.user_items.indices]
        cells = part.entry_users[columns >= 0], columns[columns >= 0]
        shape = today.n_users, len(items)
        return sp.csr_array((np.ones(len(cells[0]), np.float32), cells), shape)

    own, last = among(asked.train), among(asked.test)

    def listed(users: Any, _: Any, N: int) -> Any:
        ids, scores = model.recommend(-1 - users, own[users], N=N, recalculate_user=True)
        return items.rows(ids.ravel(), missing=-1).reshape(ids.shape), scores

    return mfrank.evaluate(listed, last, train=own, metrics=[METRIC])


def measured(model: Any, days: list[Interactions], stream: Stream) -> list[dict[str, Any]]:
    """A row for the update, and one for the refit; then those of the parts of a tuned blend."""
    judge = judged_sessions if stream.sessions else judged
    before = Interactions.concat(days[: stream.first])
    ways = ("update", "refit")
    models = dict.fromkeys(ways, model)
    models["update"] = copy(model)
    found: dict[str, dict[str, list[Any]]] = {}
    spent = {way: np.zeros(2) for way in ways}
    for today in days[stream.first :]:
        for way in ways:
            for name, each in named_parts(models[way]):
                found.setdefault(name, {}).setdefault(way, []).append(judge(each, today))
        before = before + today
        for way in ways:
            began = np.array([time.perf_counter(), time.process_time()])
            if way == "update":
                models[way].partial_fit(today)
            else:
                models[way] = mfrank.refit(models[way], before)
            spent[way] += np.array([time.perf_counter(), time.process_time()]) - began
        last = {
            f"{name} {way}": float(of[way][-1][METRIC].value)
            for name, of in found.items()
            for way in ways
        }
        print(line(last), flush=True)
    rows = []
    for name, of in found.items():
        for way in ways:
            rows.append({"kind": name} | summed(way, of))
            if name == type(model).__name__:
                seconds, processor = map(float, spent[way])
                rows[-1] |= {"seconds": seconds, "CPU seconds": processor}
            print(line(rows[-1]), flush=True)
    return rows


def named_parts(model: Any) -> list[tuple[str, Any]]:
    """The model and, of a blend, its parts."""
    parts = model.models if isinstance(model, mfrank.Blend) else ()
    names = [f"part {number}, {type(part).__name__}" for number, part in enumerate(parts, 1)]
    return [(type(model).__name__, model), *zip(names, parts, strict=True)]


def main() -> None:
    """Stream, judge, print, save."""
    made = parser(__doc__)
    made.add_argument("data", nargs="?", default="globo", choices=sorted(STREAMS))
    made.add_argument("--factors", type=int, default=64)
    made.add_argument("--items", type=int, help="how many to keep; default: all")
    made.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    made.add_argument("--tune", type=int, metavar="TRIALS", help="what a search finds, in place")
    args = made.parse_args()
    stream = STREAMS[args.data]
    data, name = from_npz(data_folder(args.data)), f"daily-{args.data}"
    if args.items is not None:
        most = np.argsort(-data.counts.items, kind="stable")[: args.items]
        data, name = data.take(np.isin(data.user_items.indices, most)), f"{name}-{args.items}"
    days = days_of(data, stream)[: stream.first + DAYS]
    first, more = Interactions.concat(days[: stream.first]), {}
    if args.tune is None:
        models = {kind: KINDS[kind](args).fit(first) for kind in args.kinds}
        rows = [
            row | {"kind": kind}
            for kind, model in models.items()
            for row in measured(model, days, stream)[:2]
        ]
    else:
        if not stream.sessions:
            days = [replace(day, timestamps=None) for day in days]
            first = replace(first, timestamps=None)
        found = mfrank.tune(
            first, trials=args.tune, factors=args.factors, metric=METRIC, n_threads=args.threads
        )
        print(found, flush=True)
        rows = measured(found.model, days, stream)
        name, more = f"{name}-tuned", {"options": repr(found.model)}
    save(args.folder, name, rows, factors=args.factors, **more)


if __name__ == "__main__":
    main()

"""Ten days of a stream: the rows that each day touches against a daily refit, and no update.

A model is fitted to the first days. Each further day is first recommended for, by NDCG@20 over the
items that its users take up that day, and then learned: by ``partial_fit`` of the day, by a fit to
all days so far, of one epoch or of all ``--epochs``, or not at all. Users and items count that were
there before the day. Sessions of a shop are all new: their last item is asked for, and the others
are folded in; their days have eight hours. With ``--decay`` all old values are multiplied by it
each day, and are confidences. The model's options are those of a small grid that rank the last of
the first days best after a fit to the days before it. Differences are paired by users, and their
errors are those of the mean over the days. Seconds are of the updates alone, without the
evaluation; CPU seconds, of all threads, tell more where a machine is busy.

    python bench/stream.py globo
    python bench/stream.py globo --decay 0.5
    python bench/stream.py yoochoose-100k
    python bench/stream.py globo --factors 16 --threads 1 --folder /tmp/trial
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from harness.records import line, parser, save
from harness.subjects import data_folder

import mfrank
from mfrank.arrays import counted
from mfrank.data import Interactions, from_npz
from mfrank.evaluation import Evaluation, evaluate

DAYS = 10
METRIC = "ndcg@20"
Update: TypeAlias = Callable[[mfrank.ALS, Interactions, Interactions], mfrank.ALS]
Judge: TypeAlias = Callable[[mfrank.ALS, Interactions, Interactions], Evaluation]


@dataclass(frozen=True, slots=True)
class Stream:
    """How a data set is divided: seconds of a day, days of the first fit, whether its users
    are sessions, which do not come again.
    """  # noqa: D205

    day: int
    first: int
    sessions: bool


STREAMS = {"globo": Stream(86_400, 7, False), "yoochoose-100k": Stream(28_800, 11, True)}


def objectives(decay: float) -> list[mfrank.IALS | mfrank.WRMF]:
    """The grid: IALS, or WRMF with values as confidences if these decay."""
    if decay < 1:
        grid = product((0.03, 0.1, 0.3, 1), (0.3, 1, 3))
        return [mfrank.WRMF(alpha=alpha, regularization=ridge) for alpha, ridge in grid]
    grid = product((0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3), (0.003, 0.01, 0.03))
    return [mfrank.IALS(alpha0=alpha0, regularization=ridge, nu=1) for alpha0, ridge in grid]


def model_of(objective: mfrank.IALS | mfrank.WRMF, args: argparse.Namespace) -> mfrank.ALS:
    """The contender: what a day is learned with differs, not the model."""
    return mfrank.ALS(objective, args.factors, args.epochs, random_state=0, n_threads=args.threads)


def chosen(
    before: Interactions, today: Interactions, judge: Judge, args: argparse.Namespace
) -> mfrank.IALS | mfrank.WRMF:
    """The objective of the grid whose fit to the days before ranks a day best."""
    values = list[float]()
    for objective in (grid := objectives(args.decay)):
        model = model_of(objective, args).fit(before)
        values.append(judge(model, before, today)[METRIC].value)
        print(line({"objective": objective, METRIC: values[-1]}), flush=True)
    return grid[int(np.argmax(values))]


def updates(decay: float) -> dict[str, Update]:
    """How a model takes up a day; ``old`` are all earlier days, their values already decayed."""

    def by_delta(alternations: int) -> Update:
        def update(model: mfrank.ALS, old: Interactions, today: Interactions) -> mfrank.ALS:
            return model.partial_fit(today, alternations=alternations, decay=decay)

        return update

    return {
        "no update": lambda model, old, today: model,
        **{f"delta, {counted(n, 'alternation')}": by_delta(n) for n in (1, 2, 3, 4)},
        "refit, 1 epoch": lambda model, old, today: replace(model, iterations=1).fit(old + today),
        "refit": lambda model, old, today: model.fit(old + today),
    }


def days_of(data: Interactions, stream: Stream) -> list[Interactions]:
    """What is new on each day, the first days of the stream's and ten more."""
    assert data.timestamps is not None
    day = (data.timestamps - data.timestamps.min()) // stream.day
    return [data.take(day == number).k_core(1) for number in range(stream.first + DAYS)]


def decayed(data: Interactions, decay: float) -> Interactions:
    """The same with lower values."""
    return data if decay == 1 else data.weighted(np.full(data.user_items.nnz, decay))


def joined(days: list[Interactions], decay: float) -> Interactions:
    """All days, in which each day's values decay once for every later day."""
    return reduce(lambda before, today: decayed(before, decay) + today, days)


def judged(model: mfrank.ALS, before: Interactions, today: Interactions) -> Evaluation:
    """Rank for the users of the day all items that were there before, without those they had."""
    users, items = before.user_ids, before.item_ids
    rows = users.rows(today.user_ids.labels, missing=-1)[today.entry_users]
    columns = items.rows(today.item_ids.labels, missing=-1)[today.user_items.indices]
    known = (rows >= 0) & (columns >= 0)
    test = Interactions.from_arrays(rows[known], columns[known], shape=before.user_items.shape)
    factors = _in_order(model.user_factors, model.user_ids.rows(users.labels, missing=-1))
    train = Interactions.from_sparse(before.user_items)
    return _ranked(model, items, factors, test, train)


def judged_sessions(model: mfrank.ALS, before: Interactions, today: Interactions) -> Evaluation:
    """Fold in all but the last item of each of the day's sessions, and ask for the last."""
    asked, items = mfrank.leave_last(today), before.item_ids

    def among(part: Interactions, ids: Any) -> sp.csr_array:
        columns = ids.rows(part.item_ids.labels, missing=-1)[part.user_items.indices]
        cells = part.entry_users[columns >= 0], columns[columns >= 0]
        return sp.csr_array((np.ones(len(cells[0]), np.float32), cells), (today.n_users, len(ids)))

    factors = model.recalculate_user(today.user_ids.labels, among(asked.train, model.item_ids))
    test, train = (
        Interactions.from_sparse(among(each, items)) for each in (asked.test, asked.train)
    )
    return _ranked(model, items, factors, test, train)


def _ranked(
    model: mfrank.ALS, items: Any, users: Any, test: Interactions, train: Interactions
) -> Evaluation:
    of_items = _in_order(model.item_factors, model.item_ids.rows(items.labels, missing=-1))
    ranker = mfrank.Recommender.of(mfrank.FactorStore(users, of_items))
    return evaluate(ranker, test, train=train, metrics=[METRIC])


def _in_order(factors: Any, rows: Any) -> Any:
    """Factors of the rows; 0 for row -1, which the model has not seen."""
    return np.where(rows[:, None] >= 0, factors[rows], 0)


def main() -> None:
    """Stream, judge, print, save."""
    made = parser(__doc__)
    made.add_argument("data", nargs="?", default="globo", choices=sorted(STREAMS))
    made.add_argument("--factors", type=int, default=64)
    made.add_argument("--epochs", type=int, default=10, help="of each fit")
    made.add_argument("--decay", type=float, default=1.0, help="of all values, each day")
    args = made.parse_args()

    stream = STREAMS[args.data]
    judge = judged_sessions if stream.sessions else judged
    days = days_of(from_npz(data_folder(args.data)), stream)
    first, last, each = days[: stream.first - 1], days[stream.first - 1], days[stream.first :]
    before = joined(first, args.decay)
    objective = chosen(before, last, judge, args)
    before = joined([before, last], args.decay)
    ways = updates(args.decay)
    models = {name: model_of(objective, args).fit(before) for name in ways}
    seconds, processor = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0.0)
    found: dict[str, list[Evaluation]] = {name: [] for name in ways}
    for number, today in enumerate(each):
        for name, model in models.items():
            found[name].append(judge(model, before, today))
        old = decayed(before, args.decay)
        for name, update in ways.items():
            began, busy = time.perf_counter(), time.process_time()
            models[name] = update(models[name], old, today)
            seconds[name] += time.perf_counter() - began
            processor[name] += time.process_time() - busy
        values = {name: float(of_days[-1][METRIC].value) for name, of_days in found.items()}
        print(line({"day": stream.first + number, **values}), flush=True)
        before = old + today
    spent = {name: {"seconds": seconds[name], "CPU seconds": processor[name]} for name in ways}
    rows = [summed(name, found) | spent[name] for name in ways]
    for row in rows:
        print(line(row))
    title = f"stream-{args.data}-{args.factors}" + "-decay" * (args.decay < 1)
    more = {"factors": args.factors, "epochs": args.epochs, "objective": repr(objective)}
    save(args.folder, title, rows, first=stream.first, **more)


def summed(name: str, found: dict[str, list[Evaluation]]) -> dict[str, Any]:
    """The mean over the days, and how far it is from that of the refit."""
    values = [one[METRIC].value for one in found[name]]
    apart = [
        one.compare(other, METRIC) for one, other in zip(found[name], found["refit"], strict=True)
    ]
    errors = [0.0 if math.isnan(each.standard_error) else each.standard_error for each in apart]
    return {
        "model": name,
        METRIC: float(np.mean(values)),
        "less than refit": float(-np.mean([each.mean for each in apart])),
        "its error": float(np.sqrt(np.sum(np.square(errors))) / len(errors)),
    }


if __name__ == "__main__":
    main()

"""Trees over the blend of a search: trained on what was held out, kept only if clearly ahead.

Users of the same days share what is new, so trees that have seen some users of these days rank
others far better than they will rank anybody later. Where later interactions are held out, the
trees are therefore trained on the earlier half of these and judged on the later half. There they
are over a model that was fitted to the earlier half, too, as in use: over another they would be
ahead by being newer. Where random interactions are held out, the trees are trained on half of the
users and judged on the others, both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays import OutOfTimeError, counted
from mfrank.data import Interactions
from mfrank.errors import InputValueError
from mfrank.models import Reranker
from mfrank.retrieval import Recommender
from mfrank.tuning.trials import Runner, TrialJudge, known_users

_OPTIONS: dict[str, Any] = {
    "candidates": 100,
    "loss": "Logloss",
    "iterations": 100,
    "learning_rate": 0.1,
    "depth": 6,
    "first_weight": 0.5,
}
_MOST_USERS = 5_000
"""Users that the trees are trained on, at most."""
_FEWEST_USERS = 200
"""Users to train on, and to judge by, at least."""
_LEAST_SECONDS = 20.0
"""With less left, not even the first fit is begun, which nothing can stop."""
TREES_SHARE = 0.08
"""Share of the time that is reserved for them, of searches that may try them."""
_STANDARD_ERRORS = 1.0
"""By how many the gain must be above zero."""
_SAMPLE = 128
"""Users of a first fit, which tells what a user costs."""
_TIMES = 3.0
"""What is to come, in fits to all users; a first fit to few takes longer a user."""


@dataclass(frozen=True, slots=True, eq=False)
class TreesTrial:
    """What came of trees over the best model or blend.

    Attributes
    ----------
    model : Reranker or None
        Over the model that was fitted to the training part; None if they are left out.
    reason : str or None
        Why they are left out.
    gain, standard_error : float or None
        Mean difference to the model over users, on interactions that the trees were not trained
        on, and its standard error; None if they were not judged.
    """

    model: Reranker | None = None
    reason: str | None = None
    gain: float | None = None
    standard_error: float | None = None

    def __str__(self) -> str:
        if self.model is None:
            return f"trees over it are {self.reason}"
        return (
            f"trees over it rank {self.gain:.4f} higher (standard error {self.standard_error:.4f}) "
            "where they did not learn; found.model.model is the model without them"
        )


_LATE = TreesTrial(reason="left out: there was no time for them")


Again = Callable[[Interactions], Recommender]
"""Fits the same model to other data."""


def learned(runner: Runner, model: Recommender, again: Again, reserve: float) -> TreesTrial:
    """Train trees over a model that was fitted to the training part, and judge them.

    ``reserve`` are the seconds that must be left, those of a fit to all data.
    """
    folds = list(_folds(runner.judge, runner.setting.seed))
    can_judge = min(len(_asked(runner.judge, asked)) for _, asked in folds)
    if can_judge < _FEWEST_USERS:
        return TreesTrial(
            reason=f"not tried: {counted(can_judge, 'user')} could judge them, of the "
            f"{_FEWEST_USERS} that this takes"
        )
    if not can_be_tried():
        return TreesTrial(reason="not tried: pip install mfrank[rerank]")
    budget, n_users = runner.budget, _MOST_USERS
    try:
        with budget.keeping(reserve):
            if budget.is_limited:
                own = 0.0 if _times(runner.judge) is None else reserve
                if budget.left() - reserve - own < _LEAST_SECONDS:
                    return _LATE
                began = budget.now()
                _trained(runner, model, runner.judge.valid, _SAMPLE)
                seconds = (budget.now() - began) / _SAMPLE
                n_users = min(n_users, int((budget.left() - reserve - own) / (_TIMES * seconds)))
                if n_users < 2 * _FEWEST_USERS:
                    return _LATE
            return _judged(runner, model, again, folds, n_users)
    except OutOfTimeError:
        return _LATE
    except InputValueError as error:  # no user has an order to learn from
        return TreesTrial(reason=f"left out: {error}")


def can_be_tried() -> bool:
    """Whether there is CatBoost."""
    return find_spec("catboost") is not None


def _judged(
    runner: Runner,
    model: Recommender,
    again: Again,
    folds: Sequence[tuple[Interactions, Interactions]],
    n_users: int,
) -> TreesTrial:
    judge, deltas = runner.judge, list[NDArray[np.float64]]()
    for learns, asked in folds:
        trees = _trained(runner, model, learns, n_users // 2)
        there, first = replace(judge, valid=asked, users=_asked(judge, asked)), model
        if _times(judge) is not None:
            there = replace(there, left_out=judge.left_out + learns)
            first = again(judge.train + learns)
        mine, theirs = there.score(trees.over(first)), there.score(first)
        assert mine.per_user is not None
        assert theirs.per_user is not None
        deltas.append(mine.per_user - theirs.per_user)
    every = np.concatenate(deltas)
    gain, error = float(every.mean()), float(every.std(ddof=1) / np.sqrt(len(every)))
    if not gain > _STANDARD_ERRORS * error:
        reason = f"left out: {gain:+.4f} where they did not learn (standard error {error:.4f})"
        return TreesTrial(None, reason, gain, error)
    return TreesTrial(_trained(runner, model, judge.valid, n_users), None, gain, error)


def _times(judge: TrialJudge) -> NDArray[np.int64] | None:
    """The times of what is held out, if it is what came later."""
    return None if judge.kind == "per user" else judge.valid.timestamps


def _folds(judge: TrialJudge, seed: int) -> Iterator[tuple[Interactions, Interactions]]:
    """What the trees learn from, and what they are judged by."""
    held_out = judge.valid
    if (times := _times(judge)) is not None:
        is_later = times >= np.median(times)
        yield held_out.take(~is_later), held_out.take(is_later)
    else:
        # Not the numbers that decided how much of each user is held out: halves would differ by it.
        drawn = np.random.default_rng((seed, 1)).random(held_out.n_users)
        of_half = drawn[held_out.entry_users] < 0.5
        for half in (of_half, ~of_half):
            yield held_out.take(half), held_out.take(~half)


def _asked(judge: TrialJudge, held_out: Interactions) -> NDArray[np.int64]:
    """The judged users who have something here."""
    return np.intersect1d(judge.users, known_users(judge.train, held_out, judge.left_out))


def _trained(runner: Runner, model: Recommender, held_out: Interactions, n_users: int) -> Reranker:
    """Trees that learned from at most so many users."""
    judge, seed = runner.judge, runner.setting.seed
    users = known_users(judge.train, held_out, judge.left_out)
    if len(users) > n_users:
        users = np.random.default_rng((seed, 2)).choice(users, n_users, replace=False)
    trees = Reranker(model, **_OPTIONS, random_state=seed, n_threads=runner.setting.n_threads)
    part = held_out.take(np.isin(held_out.entry_users, users))
    return trees.fit(judge.left_out, part)

"""Tuning of contenders before a comparison, each for the same time."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from mfrank.arrays import check_above_zero, check_count, counted
from mfrank.comparison.contenders import needs_times
from mfrank.comparison.foreign_families import foreign_family
from mfrank.data import Interactions
from mfrank.errors import InputValueError
from mfrank.evaluation import Metric, to_maximize
from mfrank.models import ALS, EASE, Baseline, Blend, Descent, ItemFilter, Reranker
from mfrank.retrieval import Recommender
from mfrank.tuning import (
    SPACE,
    Family,
    Leaderboard,
    Predict,
    SearchResult,
    Space,
    budget_of,
    check_predict,
    checked_needs,
    likes_of,
    search,
    tune,
)

_log = logging.getLogger("mfrank")


@dataclass(frozen=True, slots=True, eq=False)
class Tuning:
    """Settings of the tuning of contenders.

    Attributes
    ----------
    minutes : float
        Minutes of the search of each contender.
    metric : Metric or str
    factors : int
        Maximum width for ``mfrank.tune``; other contenders have their own.
    seed, n_threads : int
    show_progress : bool
    needs : "everything" or collection of str
        What ``mfrank.tune`` must find; the other contenders were named by the caller.
    predict : {"later", "next", "session", "any"} or None
        What is held out, for all contenders alike.
    """

    minutes: float
    metric: Metric | str
    factors: int
    seed: Any
    n_threads: int
    show_progress: bool
    needs: str | Collection[str] = "everything"
    predict: Predict | None = None

    def check(self, contenders: Mapping[str, Any], train: Interactions) -> Metric:
        """The metric.

        Raises
        ------
        ValueError, TypeError
            An option is out of range, nothing can be tuned, or the data have dislikes.
        """
        check_above_zero(tune=self.minutes)
        check_count("factors", self.factors, 1)
        check_count("random_state", self.seed, 0)
        checked_needs(self.needs)
        check_predict(self.predict)
        if self.needs != "everything" and tune not in contenders.values():
            raise InputValueError(
                "`needs` is for `mfrank.tune`, which is none of `models`:",
                "add it, or leave it out",
            )
        if not any(space_of(contender) for contender in contenders.values()):
            raise InputValueError(
                "`tune`: none of the models has hyper-parameters that are searched: "
                f"{', '.join(contenders)}",
                "leave `tune` out, or add mfrank.tune to models",
            )
        likes_of(train, "train")
        return to_maximize(self.metric)

    def notes(
        self, contenders: Mapping[str, Any], leaderboards: Mapping[str, Leaderboard]
    ) -> list[str]:
        """The chosen models, the models that could not be fitted, and the ones not tuned."""
        lines = [
            f"tuned for {self.minutes:g} min each by {to_maximize(self.metric)}, on interactions "
            "held out of the training part:"
        ]
        for name, board in leaderboards.items():
            reason = (board[0]["error"] or "").removeprefix("left out: ")
            outcome = board[0]["model"] if name in contenders else f"left out: {reason}"
            lines.append(f"  {name}: {outcome}")
        as_given = [name for name in contenders if name not in leaderboards]
        return [*lines, f"not tuned: {', '.join(as_given)}"] if as_given else lines


def space_of(contender: Any) -> Space | None:
    """The search space of a contender; None if there is none.

    For the function :func:`mfrank.tune`, the whole space.
    """
    if contender is tune:
        return SPACE
    family = _family_of(contender)
    return None if family is None else Space.of_one(family)


def tuned(
    contenders: Mapping[str, Any], train: Interactions, tuning: Tuning
) -> tuple[dict[str, Any], dict[str, Leaderboard]]:
    """Tune each contender that has a space, on interactions held out of the training part.

    Returns
    -------
    contenders : dict of str to model
        Unfitted models in the same order, without models that could not be fitted.
    leaderboards : dict of str to Leaderboard
        Leaderboards of all contenders with a search space.
    """
    metric = tuning.check(contenders, train)
    chosen, leaderboards = dict[str, Any](), dict[str, Leaderboard]()
    searches = sum(space_of(contender) is not None for contender in contenders.values())
    _log.info(
        "compare: tuning takes up to %.3g minutes, %g for each of %s",
        *(searches * tuning.minutes, tuning.minutes, counted(searches, "model")),
    )
    for name, contender in contenders.items():
        space = space_of(contender)
        if space is None:
            chosen[name] = contender
            continue
        if tuning.show_progress:
            print(f"compare: tuning {name}, {tuning.minutes:g} min", file=sys.stderr, flush=True)
        result = search(
            train,
            metric,
            budget_of(tuning.minutes),
            factors=int(getattr(contender, "factors", tuning.factors)),
            seed=int(tuning.seed),
            n_threads=tuning.n_threads,
            show_progress=tuning.show_progress,
            space=space,
            needs=checked_needs(tuning.needs) if contender is tune else (),
            predict=tuning.predict,
            with_trees=contender is tune,
        )
        leaderboards[name] = result.leaderboard
        if result.parts:
            chosen[name] = _unfitted(result)
    return chosen, leaderboards


@dataclass(frozen=True, eq=False)
class _Recipe:
    """Models, the epochs of each, and their weights in a blend, which ``fit`` returns.

    ``trees`` are over it, if there are some.
    """

    models: Sequence[Any]
    epochs: Sequence[int]
    weights: Sequence[float]
    trees: Reranker | None = None

    @property
    def needs_times(self) -> bool:
        """Whether one of the models reads timestamps."""
        return any(map(needs_times, self.models))

    def fit(self, user_items: Any, *, callback: Any = None, show_progress: bool = False) -> Any:
        """Fit all; ``callback`` is called after the epochs if there is a single model."""
        data = Interactions.of(user_items)
        alone = callback if len(self.models) == 1 else None
        fitted = [
            _fit(model, epochs, data, alone)
            for model, epochs in zip(self.models, self.epochs, strict=True)
        ]
        best = fitted[0]
        if len(fitted) > 1:
            best = Blend.from_models(fitted, self.weights, self.epochs)
        return best if self.trees is None else self.trees.over(best)


def _fit(model: Any, epochs: int, data: Interactions, callback: Any) -> Recommender:
    def after(epoch: int, seconds: float, objective: float | None) -> bool:
        if callback is not None:
            callback(epoch, seconds, objective)
        return epoch == epochs - 1

    fitted: Recommender = deepcopy(model).fit(data, callback=after)
    return fitted


def _unfitted(result: SearchResult) -> Any:
    """The result of a search as an unfitted model, which a comparison fits like any other."""
    models = [result.runner.model(part.outcome.trial) for part in result.parts]
    epochs = [part.outcome.epochs for part in result.parts]
    first: Any = models[0]
    if result.trees is not None and result.trees.model is not None:
        weights = [part.weight for part in result.parts]
        return _Recipe(models, epochs, weights, result.trees.model)
    if len(models) == 1 and isinstance(first, Baseline):
        return first
    if len(models) == 1 and isinstance(first, ALS):
        return first.set_params(iterations=epochs[0])
    if len(models) == 1 and not isinstance(first, Recommender):  # of another library
        return first.unfitted(epochs[0])
    return _Recipe(models, epochs, [part.weight for part in result.parts])


def _family_of(contender: Any) -> Family | None:
    if (foreign := foreign_family(contender)) is not None:
        return foreign
    name = None
    if isinstance(contender, ALS):
        name = type(contender.objective).__name__
    elif isinstance(contender, Descent):
        name = type(contender.loss).__name__
    elif isinstance(contender, EASE | ItemFilter):
        name = type(contender).__name__
    return next((family for family in SPACE.families() if family.name == name), None)

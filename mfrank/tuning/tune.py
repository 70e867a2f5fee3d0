"""The best model of a table of interactions, by one call."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mfrank.arrays.checks import check_above_zero, check_count, shown
from mfrank.arrays.counted import counted
from mfrank.arrays.memory import memory_free_now
from mfrank.arrays.threads import check_threads
from mfrank.arrays.time_limit import OutOfTimeError
from mfrank.data.interactions import Interactions
from mfrank.evaluation.kinds import CatalogMetric, KnownMetric, Metric
from mfrank.evaluation.metrics import NDCG
from mfrank.evaluation.names import metric as read_metric
from mfrank.evaluation.report import Score
from mfrank.models.factor_model import refuse_no_likes
from mfrank.retrieval.recommender import Recommender
from mfrank.retrieval.seen import pack
from mfrank.tuning.budget import Budget, refit_seconds
from mfrank.tuning.facts import Facts
from mfrank.tuning.families import BASELINES
from mfrank.tuning.family import Model, Setting
from mfrank.tuning.journal import Journal, fingerprint
from mfrank.tuning.judge import Judge
from mfrank.tuning.ladder import best
from mfrank.tuning.leaderboard import Leaderboard, Row
from mfrank.tuning.mixture import Part, blended, mixed, recommender
from mfrank.tuning.outcomes import Outcome, Trial
from mfrank.tuning.search import Search, finalists
from mfrank.tuning.trials import Runner

__all__ = ["Tuned", "tune"]

_DEFAULT_MINUTES = 10.0
_PLANNED = 0.97
"""Share of the time that is planned; the rest is for what no prediction sees."""
_FIT_SHARE = 0.25
"""Most of the memory that one fit may take: the best of each kind are kept beside it."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tuned:
    """The result of :func:`mfrank.tune`.

    Attributes
    ----------
    model : Recommender
        Fitted to all data: an :class:`mfrank.ALS`, a :class:`mfrank.Descent`, an item-to-item
        model, a baseline, or a blend of several as one store (an :class:`mfrank.ItemBlend` if an
        item-to-item model is part of it), which has no fold-in.
    leaderboard : Leaderboard
        All trials, best first.
    validation : {"by time", "per user"}
        How the interactions were held out by which models were chosen.
    """

    model: Recommender
    leaderboard: Leaderboard
    validation: str

    def __repr__(self) -> str:
        return (
            f"{self.model!r}\nchosen on interactions held out {self.validation}\n{self.leaderboard}"
        )


def tune(
    data: Any,
    *,
    minutes: float | None = None,
    trials: int | None = None,
    metric: Metric | str = NDCG @ 20,
    factors: int = 512,
    random_state: int = 0,
    n_threads: int = 0,
    memory: float | None = None,
    storage: str | os.PathLike[str] | None = None,
    show_progress: bool = False,
) -> Tuned:
    """Search for the model that ranks held-out interactions best, and fit it to all data.

    A tenth of the interactions is held out: the latest, if there are timestamps and enough users
    have interactions before and after; otherwise a random tenth of each user's. Models are fitted
    to the rest and judged on it: ALS under several objectives, a sampled softmax, and linear
    item-to-item models (:class:`mfrank.ItemFilter`; :class:`mfrank.EASE` where users or items are
    few), each in one space for all data: ranges are in units of what the data tell (numbers of
    rows, columns and entries, mean values). Each fit is judged after every epoch, by at most 5,000
    users, and keeps its best epoch. All begin narrow; the best go on to more factors. The best
    model or, if that ranks higher, a blend of up to four of several kinds is fitted to all data.

    A fit begins if it and all that comes after it are expected to be in time, by the fits that were
    measured. One that is slower ends early or is given up: an item-to-item model within a block of
    items, a descent within a batch, an ALS within a half-step. Models for which no time is left to
    fit them to all data are taken as they were fitted to the rest. The time is exceeded by no more
    than what a block of the slowest of these takes, or where there is not even time to read the
    data, to divide them and to count popularity, which is the model if no other could be fitted.
    The leaderboard says what was given up or left out.

    Parameters
    ----------
    data : Interactions, scipy sparse (users x items) or DataFrame
    minutes : float or None
        Most minutes of the whole call, > 0. Default 10; None if ``trials`` is given.
    trials : int or None, default None
        Most fits of the search, >= 1, without those of baselines and of the final model. With
        ``trials`` and without ``minutes`` the result does not depend on the clock: the same seed
        gives the same bits. With ``minutes`` how many fits there are depends on the machine.
    metric : Metric or str, default NDCG @ 20
        Metric to maximize, with values for each user.
    factors : int, default 512
        Factors of the widest model, >= 1; a blend is wider.
    random_state : int, default 0
        Seed of the validation part, the search and every fit, >= 0.
    n_threads : int, default 0
        0 uses every core this process may use.
    memory : float or None, default None
        GiB that the search may take beside the data, > 0; default what is free when it begins. A
        model of which one fit is estimated to take more than a quarter is not tried: the best of
        each kind are kept beside it.
    storage : path or None, default None
        SQLite file that gets every result at once. A search that was stopped or killed goes on
        from there by the same call: time and trials spent before count. Its best model is fitted
        even if no time is left.
    show_progress : bool, default False
        Show each result on stderr.

    Returns
    -------
    Tuned

    Raises
    ------
    ValueError, TypeError
        Before any work: an argument is out of range, the data have no positive values or have
        dislikes, no user has interactions to hold out, or ``storage`` is not of this search.

    Examples
    --------
    >>> import mfrank
    >>> data = mfrank.synthetic(200, 100, 4000, random_state=0)
    >>> found = mfrank.tune(data, trials=2, factors=16)
    >>> ids, scores = found.model.recommend(data.user_ids.raw([0, 1]), N=5)
    >>> ids.shape
    (2, 5)
    """
    if minutes is None and trials is None:
        minutes = _DEFAULT_MINUTES
    if minutes is not None:
        check_above_zero(minutes=minutes)
    if trials is not None:
        check_count("trials", trials, 1)
    if memory is not None:
        check_above_zero(memory=memory)
    for name, value, least in (("factors", factors, 1), ("random_state", random_state, 0)):
        check_count(name, value, least)
    check_threads(n_threads)
    chosen = _checked(metric)
    seconds = None if minutes is None else 60 * minutes
    clock = Budget(seconds and _PLANNED * seconds, spare=(1 - _PLANNED) * (seconds or 0.0))
    interactions = _likes(data)
    of = fingerprint(
        interactions, metric=str(chosen), factors=int(factors), random_state=int(random_state)
    )
    judge = Judge.of(interactions, chosen, int(random_state), n_threads)
    journal = Journal(storage, of)
    clock.spend(sum(outcome.seconds for outcome in journal.outcomes))
    most = _FIT_SHARE * (memory_free_now() if memory is None else memory * 2**30)
    setting = Setting(Facts.of(judge.train), int(factors), int(random_state), n_threads, most)
    runner = Runner(setting, judge, clock, {})

    def run(trial: Trial, reserve: float) -> None:
        outcome = runner.run(trial, reserve)
        journal.add(outcome)
        runner.keep(_candidates(journal.outcomes))
        if show_progress:
            _tell(outcome, journal.outcomes, clock, chosen)

    search = Search(setting, clock, trials)
    search.run(journal.outcomes, run)
    parts, score = _chosen(runner, journal.outcomes)
    model = _fitted(runner, parts, interactions)
    board = _leaderboard(runner, journal.outcomes, search.left_out(journal.outcomes), parts, score)
    return Tuned(model, board, judge.kind)


def _checked(metric: Metric | str) -> Metric:
    chosen = read_metric(metric) if isinstance(metric, str) else metric
    if not isinstance(chosen, Metric) or isinstance(chosen, CatalogMetric | KnownMetric):
        raise ValueError(
            f"metric must have per-user values of relevance, such as NDCG @ 20; got {shown(metric)}"
        )
    chosen.depth(1)  # raises if it lacks its cutoff
    return chosen


def _likes(data: Any) -> Interactions:
    interactions = Interactions.of(data)
    refuse_no_likes(interactions)
    if negative := int((interactions.user_items.data < 0).sum()):
        raise ValueError(
            f"data has {counted(negative, 'negative value')} (dislikes), which most of the models "
            "searched cannot use; drop them with Interactions.at_least(0)"
        )
    return interactions


def _candidates(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """What may be the final model or a part of it."""
    leader = best(outcomes)
    return [*finalists(outcomes), *([] if leader is None else [leader])]


def _chosen(runner: Runner, outcomes: Sequence[Outcome]) -> tuple[list[Part], Score | None]:
    """The parts of the final model, and the score of their blend if they are several."""
    leader = best(outcomes)
    if leader is None:
        if any((one.error or "").startswith(MemoryError.__name__) for one in outcomes):
            raise MemoryError(f"no fit succeeded: {outcomes[-1].error}")
        return [Part(Outcome(Trial(BASELINES[0].name, (), 0), None, epochs=1))], None
    parts, score = [Part(leader)], None
    if candidates := finalists(outcomes):
        try:
            with runner.budget.keeping(refit_seconds(leader)):
                mixture, mixed_score = mixed(runner, candidates)
        except OutOfTimeError:
            return parts, score
        value = mixture[0].outcome.value if mixed_score is None else mixed_score.value
        if (value or 0.0) >= (leader.value or 0.0):
            parts, score = mixture, mixed_score
    return parts, score


def _fitted(runner: Runner, parts: Sequence[Part], data: Interactions) -> Recommender:
    models = [_whole(runner, part, data) for part in parts]
    if len(models) == 1:
        return models[0]
    store = blended(models, [part.weight for part in parts])
    return recommender(pack(store, data.user_items))


def _whole(runner: Runner, part: Part, data: Interactions) -> Model:
    """A part fitted to all data or, if there is no time, to most of it, if it was."""
    kept = runner.kept.get(part.outcome.trial)
    if kept is None:
        return runner.refitted(part.outcome, data)
    if runner.budget.left() > part.outcome.fit_seconds:
        try:
            with runner.budget.to_the_end():
                return runner.refitted(part.outcome, data)
        except OutOfTimeError:
            pass
    return type(kept)._from_store(pack(kept.store, data.user_items))  # all data are seen


def _leaderboard(
    runner: Runner,
    outcomes: Sequence[Outcome],
    left_out: Mapping[str, str],
    parts: Sequence[Part],
    score: Score | None,
) -> Leaderboard:
    weights = {part.outcome.trial: part.weight for part in parts}
    metric = str(runner.judge.metric)
    rows = [_row(runner, outcome, weights.get(outcome.trial), metric) for outcome in outcomes]
    if score is not None:
        together = " + ".join(f"{part.weight:g} {part.outcome.trial.family}" for part in parts)
        of_blend = _interval(score.value, score.standard_error)
        rows.append(_unfitted("blend", together, metric) | of_blend | {"weight": 1.0})
    rows += [_unfitted(name, name, metric) | {"error": reason} for name, reason in left_out.items()]
    rows.sort(key=lambda row: -1.0 if row["value"] is None else row["value"], reverse=True)
    return Leaderboard(tuple({"rank": rank, **row} for rank, row in enumerate(rows, 1)))


def _row(runner: Runner, outcome: Outcome, weight: float | None, metric: str) -> Row:
    model = runner.model(outcome.trial)
    return {
        "family": outcome.trial.family,
        "model": repr(model).replace(", not fitted)", ")").replace("(not fitted)", "()"),
        "factors": getattr(model, "factors", None),
        "epochs": outcome.epochs,
        "rung": outcome.trial.rung,
        "metric": metric,
        **_interval(outcome.value, outcome.standard_error),
        "seconds": outcome.seconds,
        "weight": weight,
        "error": outcome.error,
    }


def _unfitted(family: str, model: str, metric: str) -> Row:
    """The row of what was no trial."""
    return {
        "family": family,
        "model": model,
        "factors": None,
        "epochs": 0,
        "rung": None,
        "metric": metric,
        **_interval(None, None),
        "seconds": 0.0,
        "weight": None,
        "error": None,
    }


def _interval(value: float | None, error: float | None) -> dict[str, float | None]:
    """The value with its 95 % interval by the normal distribution."""
    if value is None or error is None or not error >= 0:
        return {"value": value, "standard_error": None, "low": None, "high": None}
    reach = 1.96 * error
    return {"value": value, "standard_error": error, "low": value - reach, "high": value + reach}


def _tell(outcome: Outcome, outcomes: Sequence[Outcome], clock: Budget, metric: Metric) -> None:
    leader, trial = best(outcomes), outcome.trial
    value = "failed" if outcome.value is None else f"{metric} {outcome.value:.4f}"
    left = f", {clock.left() / 60:.1f} min left" if clock.is_limited else ""
    so_far = "" if leader is None else f"; best {leader.value:.4f}, {leader.trial.family}"
    print(
        f"mfrank: trial {len(outcomes)}, {trial.family} on rung {trial.rung}: {value} in "
        f"{outcome.seconds:.1f} s{so_far}{left}",
        file=sys.stderr,
        flush=True,
    )

"""The result of a search: the trials, and the parts of the best model."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import scipy.sparse as sp

from mfrank.arrays import OutOfTimeError, counted, memory_free_now, sparse_to_host
from mfrank.data import Interactions, aligned, check_alike, check_numbering, matrix_in_rows
from mfrank.errors import InputValueError
from mfrank.evaluation import Metric, Score
from mfrank.models import refuse_no_likes, values_vary
from mfrank.retrieval import Recommender
from mfrank.tuning.days import Former
from mfrank.tuning.families import OF_EVENTS, SPACE
from mfrank.tuning.family import Facts, Model, Point, Setting, Space
from mfrank.tuning.ladder import Outcome, Trial, best
from mfrank.tuning.leaderboard import Leaderboard, leaderboard_of, told_parts
from mfrank.tuning.learned_order import TREES_SHARE, TreesTrial, can_be_tried, learned
from mfrank.tuning.mixture import BlendPart, blended, finalists, mixed, refit_seconds_of
from mfrank.tuning.own_ladder import GridTried
from mfrank.tuning.own_space import own_families
from mfrank.tuning.successive_halving import Budget, Search, refit_seconds
from mfrank.tuning.summary import Lead
from mfrank.tuning.timed_families import TIMED_SPACE
from mfrank.tuning.trial_journal import TrialJournal, digest_of, fingerprint
from mfrank.tuning.trials import Predict, Runner, TrialJudge

_PLANNED = 0.97
"""Share of the time that is planned; the rest is for what cannot be predicted."""
_FIT_SHARE = 0.25
"""Maximum share of memory of one fit: the best models of each family stay in memory, too."""


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """The result of a search.

    Attributes
    ----------
    runner : Runner
    outcomes : sequence of Outcome
    left_out : mapping of str to str
        Families that were left out, and the reason.
    parts : list of Part
        Parts of the best model; empty if no fit succeeded.
    score : Score or None
        Score of the blend, if there are several parts.
    days : mapping of (family, point) to str
        The day of the search that found a setting, of those that are of an earlier one.
    trees : TreesTrial or None
        What came of trees over the best model; None if they were not to be tried.
    grid : GridTried or None
        How many combinations were tried, if all options of a caller's space are lists.
    """

    runner: Runner
    outcomes: Sequence[Outcome]
    left_out: Mapping[str, str]
    parts: Sequence[BlendPart]
    score: Score | None
    days: Mapping[tuple[str, Point], str] = field(default_factory=dict)
    trees: TreesTrial | None = None
    grid: GridTried | None = None

    @property
    def leaderboard(self) -> Leaderboard:
        """All trials, best first."""
        return leaderboard_of(
            *(self.runner, self.outcomes, self.left_out, self.parts, self.score, self.days),
            trees=self.trees,
        )

    @property
    def leads(self) -> tuple[Lead, ...]:
        """How far the choice is ahead: of the best single model, and of other families."""
        if not self.parts:
            return ()
        chosen = {part.outcome.trial.family for part in self.parts}
        others = [one for one in self.outcomes if one.trial.family not in chosen]
        alone = None if self.score is None else best(self.outcomes)
        mine, metric = self.score or self._score_of(self.parts[0].outcome), self.runner.judge.metric
        return tuple(
            Lead.of(one.trial.family, one is alone, mine, self._score_of(one), metric)
            for one in (alone, best(others))
            if one is not None
        )

    def _score_of(self, outcome: Outcome) -> Score:
        """With the values of users, unless another process or an earlier call ran the trial.

        Then the model is judged again, if it is there and there is time.
        """
        runner, trial = self.runner, outcome.trial
        if trial in runner.scores:
            return runner.scores[trial]
        if trial in runner.kept and runner.budget.left() > 2 * outcome.judge_seconds:
            return runner.judge.score(runner.kept[trial])
        return Score(outcome.value or 0.0)

    @property
    def best(self) -> dict[str, Any]:
        """What was chosen, as types that JSON has (:attr:`mfrank.tuning.DayRecord.best`)."""
        found: Score | Outcome = self.parts[0].outcome if self.score is None else self.score
        model, value = told_parts(self.parts), found.value
        if self.trees is not None and self.trees.model is not None:
            model, value = f"trees over {model}", (value or 0.0) + (self.trees.gain or 0.0)
        return {
            "model": model,
            "value": value,
            "standard_error": found.standard_error,
            "parts": [[asdict(part.outcome.trial), part.weight] for part in self.parts],
        }


def budget_of(minutes: float | None) -> Budget:
    """The time of a search, from now on."""
    seconds = None if minutes is None else 60 * float(minutes)
    return Budget(seconds and _PLANNED * seconds, spare=(1 - _PLANNED) * (seconds or 0.0))


def search(
    data: Interactions,
    metric: Metric,
    clock: Budget,
    *,
    trials: int | None = None,
    factors: int,
    seed: int,
    n_threads: int,
    memory: float | None = None,
    storage: str | os.PathLike[str] | None = None,
    show_progress: bool = False,
    space: Space = SPACE,
    valid: Interactions | None = None,
    left_out: Interactions | None = None,
    held_out: str = "as given",
    target: str | None = None,
    needs: Collection[str] = (),
    predict: Predict | None = None,
    with_trees: bool = False,
) -> SearchResult:
    """Search a space; parameters are those of :func:`mfrank.tune`.

    ``valid`` and ``left_out`` have the ids of the data. Lists leave out ``left_out``, if the data
    are events of which one kind is ranked, ``target``; ``held_out`` says how ``valid`` was chosen.
    ``needs`` are names of :data:`mfrank.tuning.family.ABILITIES`; ``with_trees`` tries trees over
    what is best.
    """
    parts = [part for part in (data, valid, left_out) if part is not None]
    judge = TrialJudge.of(data, metric, seed, n_threads, valid, left_out, held_out, predict)
    digest, options = digest_of(parts), {"metric": str(metric), "factors": factors}
    options |= {"space": space.own} if space.own else {}
    of = fingerprint(digest, **options, random_state=seed, held_out=judge.kind)
    if space is SPACE and data.timestamps is not None and judge.kind != "per user":
        space = TIMED_SPACE
    if left_out is not None and not space.own:
        space = space.with_more(OF_EVENTS)
    if values_vary(data.user_items.data):
        space = space.with_readers_first()
    space, unable = space.able(needs)
    predicts = judge.kind if target is None else f"{target}, {judge.kind}"
    if space.own:  # what another space found is at other places of its axes
        predicts += f", space {space.own}"
    journal = TrialJournal(
        *(storage, of, digest, str(metric), lambda one: space.has(one.family)), predicts
    )
    clock.spend(sum(outcome.seconds for outcome in journal.outcomes))
    most = _FIT_SHARE * (memory_free_now() if memory is None else float(memory) * 2**30)
    setting = Setting(Facts.of(judge.train), factors, seed, n_threads, most)
    runner = Runner(setting, judge, clock, {}, space)

    def run(trial: Trial, reserve: float) -> None:
        try:
            outcome = runner.run(trial, reserve)
        except BaseException:
            journal.release()
            raise
        journal.add(outcome)
        leader = best(journal.outcomes)
        kept = finalists(journal.outcomes, space, setting)
        runner.keep([*kept, *([] if leader is None else [leader])])
        if show_progress:
            _tell(outcome, journal.outcomes, clock, metric)

    share_after = TREES_SHARE if with_trees and can_be_tried() else 0.0
    course = Search(setting, clock, trials, space, journal.former, share_after)
    course.run(
        journal.outcomes, run, lambda propose: journal.claimed(propose, lambda: clock.left() > 0)
    )
    parts_of_best, score = _chosen(runner, journal.outcomes, journal.former)
    found = SearchResult(
        *(runner, journal.outcomes, course.left_out(journal.outcomes) | unable),
        *(parts_of_best, score),
        {(one.trial.family, one.trial.point): one.day for one in journal.former},
        _trees_over(runner, parts_of_best) if with_trees else None,
        GridTried.of_search(own_families(space), journal.outcomes, trials) if space.own else None,
    )
    if found.parts:
        journal.conclude(found.best)
    return found


def _trees_over(runner: Runner, parts: Sequence[BlendPart]) -> TreesTrial | None:
    """Trees over the best model or blend, as it was fitted to the training part."""
    if not parts:
        return None
    reserve = refit_seconds_of([part.outcome for part in parts])

    def of(models: list[Model]) -> Recommender:
        return blended(models, parts) if len(parts) > 1 else models[0]

    def again(data: Interactions) -> Recommender:
        return of([runner.refitted(part.outcome, data) for part in parts])

    return learned(runner, of([runner.fitted(part.outcome) for part in parts]), again, reserve)


def likes_of(data: Any, name: str = "data") -> Interactions:
    """The data as interactions, with at least one like and no dislikes."""
    interactions = Interactions.of(data)
    refuse_no_likes(interactions)
    return without_dislikes(interactions, name)


def without_dislikes(data: Any, name: str) -> Interactions:
    """The data as interactions, without dislikes."""
    interactions = Interactions.of(data)
    if negative := int((interactions.user_items.data < 0).sum()):
        raise InputValueError(
            f"`{name}` has {counted(negative, 'negative value')} (dislikes), which most of the "
            "models searched cannot use",
            "drop them with `Interactions.at_least(0)`",
        )
    return interactions


def _is_numbered(data: Interactions) -> bool:
    return data.user_ids.table is None and data.item_ids.table is None


def valid_of(valid: Any, data: Interactions) -> Interactions:
    """The interactions to choose by: a matrix has the rows of the data, all others have ids."""
    here = sparse_to_host(valid)
    if sp.issparse(here) and not _is_numbered(data):
        here = matrix_in_rows(here, data.user_ids, data.item_ids, "valid")
    return without_dislikes(here, "valid")


def joined(
    data: Interactions, valid: Interactions
) -> tuple[Interactions, Interactions, Interactions]:
    """Both together, and each in the rows of both."""
    if (data.timestamps is None) != (valid.timestamps is None):
        some, none = ("data", "valid") if valid.timestamps is None else ("valid", "data")
        raise InputValueError(
            f"{some} has timestamps and {none} has none:",
            f"give both, or leave them out with `dataclasses.replace({some}, timestamps=None)`",
        )
    for side in ("user", "item"):
        for check in (check_alike, check_numbering):
            check(getattr(valid, f"{side}_ids"), getattr(data, f"{side}_ids"), "valid", side)
    both = data + valid
    ids = both.user_ids, both.item_ids
    return both, aligned(data, *ids, "data"), aligned(valid, *ids, "valid")


def _chosen(
    runner: Runner, outcomes: Sequence[Outcome], former: Sequence[Former] = ()
) -> tuple[list[BlendPart], Score | None]:
    """The parts of the best model, and the score of their blend if they are several."""
    leader = best(outcomes)
    if leader is None:
        return [], None
    parts, score = [BlendPart(leader)], None
    if candidates := finalists(outcomes, runner.space, runner.setting):
        try:
            with runner.budget.keeping(refit_seconds(leader)):
                mixture, mixed_score = mixed(runner, candidates, former)
        except OutOfTimeError:
            return parts, score
        value = mixture[0].outcome.value if mixed_score is None else mixed_score.value
        if (value or 0.0) >= (leader.value or 0.0):
            parts, score = mixture, mixed_score
    return parts, score


def _tell(outcome: Outcome, outcomes: Sequence[Outcome], clock: Budget, metric: Metric) -> None:
    leader, trial = best(outcomes), outcome.trial
    value = "failed" if outcome.value is None else f"{metric} {outcome.value:.4f}"
    left = f", {clock.left() / 60:.1f} min left" if clock.is_limited else ""
    so_far = "" if leader is None else f"; best {leader.value:.4f}, {leader.trial.family}"
    print(
        f"mfrank: trial {len(outcomes)}, {trial.family} on rung {trial.rung}: {value} in "
        f"{outcome.seconds:.1f} s{so_far}{left}",
        file=sys.stderr,
    )

"""Runs trials: fits, evaluated after every epoch, and refits of the best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import OutOfTimeError, check_choice
from mfrank.data import Interactions, Split, by_ratio, by_time, cells, kth_largest, leave_last
from mfrank.errors import InputValueError
from mfrank.evaluation import Evaluation, Metric, Score, evaluate, items_return
from mfrank.models import ALS, Baseline
from mfrank.tuning.families import SPACE
from mfrank.tuning.family import Model, Setting, Space
from mfrank.tuning.ladder import Outcome, Trial
from mfrank.tuning.successive_halving import CAUTION, Budget

# The validation part of a search, and its judgment of models.


HELD_OUT = 0.1
Predict = Literal["later", "next", "session", "any"]
_OF_A_SESSION = 10
"""Items of most sessions, at most."""
_USERS = 5_000
"""Maximum number of evaluated users: enough to separate models that differ by a few percent."""
_CLEAR_DROP = 0.005
"""An ALS, whose epochs have no noise, ends with an epoch that ranks lower by this share."""
_ENOUGH = 1_000
"""Users with interactions before and after a point in time who are enough to judge by it, or a
tenth of all users."""


@dataclass(frozen=True, slots=True, eq=False)
class TrialJudge:
    """Training and validation parts, the evaluated users, and the metric.

    Attributes
    ----------
    train, valid : Interactions
    kind : {"by time", "next", "session", "per user", "as given"}
        How the validation part was held out.
    users : int64, shape (n_judged,)
        Rows of the evaluated users: users with training and validation entries.
    metric : Metric
    n_threads : int
    left_out : Interactions
        What lists leave out: the training part, or some of it.
    """

    train: Interactions
    valid: Interactions
    kind: str
    users: NDArray[np.int64]
    metric: Metric
    n_threads: int
    left_out: Interactions

    @classmethod
    def of(
        cls,
        data: Interactions,
        metric: Metric,
        seed: int,
        n_threads: int,
        valid: Interactions | None = None,
        left_out: Interactions | None = None,
        kind: str = "as given",
        predict: Predict | None = None,
    ) -> Self:
        """Evaluate on ``valid``, which has the ids of the data, or on a held-out part of them.

        ``predict`` says which part (:func:`mfrank.tune`).
        ``left_out`` is by default the training part, and ``kind`` says what ``valid`` is.

        Raises
        ------
        ValueError
            There is no user to evaluate.
        """
        if valid is not None:
            train = data
        else:
            kind, train, valid = _divided(data, seed, predict)
        left_out = train if left_out is None else left_out
        users = known_users(train, valid, left_out)
        if not len(users):
            raise InputValueError(
                "`data` must have users with several interactions, of which some are held out to "
                f"judge by; got {data}"
                if kind != "as given"
                else "`valid` must have interactions above 0, which data do not have, of users who "
                f"have some in data; got {valid}"
            )
        if len(users) > _USERS:
            users = np.sort(np.random.default_rng(seed).choice(users, _USERS, replace=False))
        return cls(train, valid, kind, users, metric, n_threads, left_out)

    def evaluation(self, model: Any) -> Evaluation:
        """Evaluate a model, or anything with factors."""
        with items_return():  # what a search holds out, it does not fit to
            return evaluate(
                model,
                self.valid,
                train=self.left_out,
                metrics=self.metric,
                users=self.users,
                by_row=True,
                n_threads=self.n_threads,
            )

    def score(self, model: Any) -> Score:
        """The metric of a model."""
        return self.evaluation(model)[self.metric]


class TrialWatch:
    """The stopping rule of a trial: evaluates every epoch, stops by patience or by the budget.

    A fit also stops if there may be no time for another epoch and for the refit of the best one:
    ``reserve`` is the number of seconds needed after the fit. With ``falls``, the fit stops as soon
    as the value clearly falls, because it then seldom rises again.
    """

    def __init__(
        self,
        judge: TrialJudge,
        budget: Budget,
        reserve: float,
        patience: int = 2,
        *,
        falls: bool = False,
    ) -> None:
        self._judge, self._budget = judge, budget
        self._reserve, self._patience, self._falls = reserve, patience, falls
        self.began = self._epoch_began = budget.now()
        self.scores: list[Score] = []
        self.fit_seconds: list[float] = []
        self.judging = 0.0
        self._longest = 0.0

    def check(self, train: sp.csr_array) -> None:
        """See :class:`mfrank.models.Stopping`; the parts of the judge always match."""

    def value(self, factors: Any, train: Interactions, backend: str, n_threads: int) -> float:
        """Evaluate the factors of an epoch."""
        ended = self._budget.now()
        self.fit_seconds.append(ended - self.began - self.judging)
        self.scores.append(self._judge.score(factors))
        judged = self._budget.now()
        self.judging += judged - ended
        took, self._epoch_began = judged - self._epoch_began, judged
        # The first epoch has the start of the fit in it, but is all that is known until the second.
        self._longest = took if len(self.scores) <= 2 else max(self._longest, took)
        return self.scores[-1].value

    def is_over(self, values: Sequence[float]) -> bool:
        """Whether to stop."""
        since = len(values) - 1 - values.index(max(values))
        refit = CAUTION * (self.fit_seconds[-1] + self._longest)
        late = self._budget.left() - self._reserve < self._longest + refit
        fallen = self._falls and values[-1] < (1 - _CLEAR_DROP) * max(values)
        return since >= self._patience or fallen or late

    @property
    def best(self) -> int:
        """Index of the best epoch."""
        return int(np.argmax([score.value for score in self.scores]))


def check_predict(predict: Any) -> None:
    """Raise ValueError unless it says what is held out, or is None."""
    if predict is not None:
        check_choice("predict", predict, get_args(Predict))


def _divided(
    data: Interactions, seed: int, predict: Predict | None
) -> tuple[str, Interactions, Interactions]:
    """How the data are divided, the training part, and the part to judge by."""
    later = None if predict in ("next", "session", "any") else _later(data)
    if later is None and predict == "later":
        raise InputValueError(
            "`predict` cannot be 'later': there are no timestamps, or too few users have "
            "interactions both before and after the latest tenth",
            "use 'next', 'session' or 'any'",
        )
    if later is not None:
        return "by time", later.train, later.test
    if predict in ("next", "session") and data.timestamps is None:
        raise InputValueError(
            f"`predict` cannot be {predict!r}: there are no timestamps",
            "pass them to `Interactions.from_arrays`, or use 'any'",
        )
    if predict is None and _are_sessions(data):
        predict = "session"
    if predict in ("next", "session"):
        split = leave_last(data, random_state=seed)
        parts = _of_latest(data, split.test) if predict == "session" else (split.train, split.test)
        return predict, *parts
    split = by_ratio(data, train=1 - HELD_OUT, valid=0.0, test=HELD_OUT, random_state=seed)
    return "per user", split.train, split.test


def _of_latest(data: Interactions, last: Interactions) -> tuple[Interactions, Interactions]:
    """The training part, and the last interactions of the sessions that end latest.

    What came after an earlier session is known by then, so that session cannot show what a model
    makes of what is new or popular now.
    """
    assert last.timestamps is not None
    n_users = min(max(_ENOUGH, last.nnz // 10), _USERS)
    ends = kth_largest(last.timestamps, min(n_users, last.nnz)) if last.nnz else 0
    held = last.take(last.timestamps >= ends)
    kept = np.zeros(data.nnz, dtype=bool)
    kept[cells.not_in(data.user_items, held.user_items)] = True
    return data.take(kept), held


def _are_sessions(data: Interactions) -> bool:
    """Whether users have times, and mostly a handful of items."""
    if data.timestamps is None or not np.ptp(data.timestamps):
        return False
    return bool(np.median(data.counts.users[data.counts.users > 0]) <= _OF_A_SESSION)


def _later(data: Interactions) -> Split | None:
    """Cut at a point in time; None without times, or if too few users are on both sides."""
    if data.timestamps is None:
        return None
    try:
        split = by_time(data, test=HELD_OUT)
    except ValueError:  # nearly all have the latest time
        return None
    return split if enough_known(split.train, split.test, split.train) else None


def enough_known(train: Interactions, valid: Interactions, left_out: Interactions) -> bool:
    """Whether enough users are on both sides of a moment to judge by them."""
    known = len(known_users(train, valid, left_out))
    return known >= min(_ENOUGH, train.n_users / 10)


def known_users(
    train: Interactions, valid: Interactions, left_out: Interactions
) -> NDArray[np.int64]:
    """Rows of the users of the training part who like something in ``valid`` that is ranked."""
    liked = sp.csr_array(valid.user_items > 0)
    known = sp.csr_array(liked.multiply(left_out.user_items.astype(bool)))
    return np.flatnonzero(
        (np.diff(liked.indptr) > np.diff(known.indptr)) & (train.counts.users > 0)
    )


_WITH_REFIT = 1 / (1 + CAUTION)
"""Share of the time for a fit and its refit that the fit may take."""


@dataclass(frozen=True, slots=True, eq=False)
class Runner:
    """Fits the models of trials to the training part, and to all data.

    Attributes
    ----------
    setting : Setting
    judge : Judge
    budget : Budget
    kept : dict of Trial to Model
        Models of the best trials, fitted to the training part.
    space : Space
        Space of the trials' families.
    scores : dict of Trial to Score
        Of the best epoch, with the values of users, of the best trials of this process.
    """

    setting: Setting
    judge: TrialJudge
    budget: Budget
    kept: dict[Trial, Model]
    space: Space = SPACE
    scores: dict[Trial, Score] = field(default_factory=dict)

    def model(self, trial: Trial) -> Model:
        """The unfitted model of a trial."""
        return self.space.named(trial.family).model(trial.point, trial.rung, self.setting)

    def run(self, trial: Trial, reserve: float) -> Outcome:
        """Fit and evaluate in the time left, minus ``reserve`` seconds.

        A fit that diverges, needs too much memory, or has no time for an epoch gives a failed
        outcome, not an exception.
        """
        model, last, family = self.model(trial), None, self.space.named(trial.family)
        if reason := family.refusal(trial.point, trial.rung, self.setting):
            return Outcome(trial, None, error=reason)
        told: tuple[type[Exception], ...] = (FloatingPointError, MemoryError, OutOfTimeError)
        told += family.may_refuse
        watch = TrialWatch(self.judge, self.budget, reserve, falls=isinstance(model, ALS))
        # A model that is fitted in one go cannot end early to leave time for its refit.
        share = _WITH_REFIT if isinstance(model, Baseline) else 1.0
        try:
            with self.budget.keeping(reserve, share):
                if isinstance(model, Baseline):
                    watch.value(model.fit(self.judge.train), self.judge.train, "auto", 0)
                else:
                    model.fit(self.judge.train, stopping=watch)
        except told as error:
            if not (isinstance(error, OutOfTimeError) and watch.scores):
                return Outcome(
                    trial,
                    None,
                    seconds=self.budget.now() - watch.began,
                    error=f"{type(error).__name__}: {error}",
                )
            last = len(watch.scores) - 1  # the model has this epoch, whichever is the best
        self.kept[trial] = model
        chosen = watch.best if last is None else last
        self.scores[trial] = score = watch.scores[chosen]
        return Outcome(
            trial,
            score.value,
            score.standard_error if math.isfinite(score.standard_error) else None,
            chosen + 1,
            self.budget.now() - watch.began,
            watch.fit_seconds[chosen],
            watch.judging / len(watch.scores),
        )

    def keep(self, outcomes: Sequence[Outcome]) -> None:
        """Delete the models of all other trials, and the scores, but for those of baselines."""
        wanted = {outcome.trial for outcome in outcomes}
        for trial in [trial for trial in self.kept if trial not in wanted]:
            del self.kept[trial]
        for trial in [trial for trial in self.scores if trial.point and trial not in wanted]:
            del self.scores[trial]

    def refitted(self, outcome: Outcome, data: Interactions) -> Model:
        """The model of an outcome, fitted to data for its best number of epochs."""
        last = outcome.epochs - 1
        model = self.model(outcome.trial)
        model.fit(data, callback=lambda epoch, *_: epoch == last)
        return model

    def fitted(self, outcome: Outcome) -> Model:
        """The model fitted to the training part; refitted if it was not stored."""
        if outcome.trial not in self.kept:
            self.kept[outcome.trial] = self.refitted(outcome, self.judge.train)
        return self.kept[outcome.trial]

"""Runs trials: fits, judged after every epoch, and refits of what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mfrank.arrays.time_limit import OutOfTimeError
from mfrank.data.interactions import Interactions
from mfrank.models.als import ALS
from mfrank.models.baseline import Baseline
from mfrank.tuning.budget import CAUTION, Budget
from mfrank.tuning.families import SPACE
from mfrank.tuning.family import Model, Setting
from mfrank.tuning.judge import Judge, Watch
from mfrank.tuning.outcomes import Outcome, Trial
from mfrank.tuning.space import Space

__all__ = ["Runner"]

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
        Those of the best trials, fitted to the training part.
    space : Space
        Of the trials' families.
    """

    setting: Setting
    judge: Judge
    budget: Budget
    kept: dict[Trial, Model]
    space: Space = SPACE

    def model(self, trial: Trial) -> Model:
        """The unfitted model of a trial."""
        return self.space.named(trial.family).model(trial.point, trial.rung, self.setting)

    def run(self, trial: Trial, reserve: float) -> Outcome:
        """Fit and judge, in the time that is left except for ``reserve`` seconds.

        A fit that diverges, needs too much memory or has no time for an epoch is a failed outcome,
        not an exception.
        """
        model, last = self.model(trial), None
        watch = Watch(self.judge, self.budget, reserve, falls=isinstance(model, ALS))
        # A model that is fitted in one go cannot end early to leave time for its refit.
        share = _WITH_REFIT if isinstance(model, Baseline) else 1.0
        try:
            with self.budget.keeping(reserve, share):
                if isinstance(model, Baseline):
                    watch.value(model.fit(self.judge.train), self.judge.train, "auto", 0)
                else:
                    model.fit(self.judge.train, stopping=watch)
        except (FloatingPointError, MemoryError, OutOfTimeError) as error:
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
        score = watch.scores[chosen]
        return Outcome(
            trial,
            score.value,
            score.standard_error,
            chosen + 1,
            self.budget.now() - watch.began,
            watch.fit_seconds[chosen],
            watch.judging / len(watch.scores),
        )

    def keep(self, outcomes: Sequence[Outcome]) -> None:
        """Forget the models of all trials but these."""
        wanted = {outcome.trial for outcome in outcomes}
        for trial in [trial for trial in self.kept if trial not in wanted]:
            del self.kept[trial]

    def refitted(self, outcome: Outcome, data: Interactions) -> Model:
        """The model of an outcome, fitted to data for as many epochs as were best."""
        last = outcome.epochs - 1
        model = self.model(outcome.trial)
        model.fit(data, callback=lambda epoch, *_: epoch == last)
        return model

    def fitted(self, outcome: Outcome) -> Model:
        """The model fitted to the training part, anew if it was not kept."""
        if outcome.trial not in self.kept:
            self.kept[outcome.trial] = self.refitted(outcome, self.judge.train)
        return self.kept[outcome.trial]

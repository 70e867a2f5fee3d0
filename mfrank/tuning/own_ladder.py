"""The ladder of a model of a caller's own space: which combination of options comes next.

Successive halving as on other ladders (:mod:`mfrank.tuning.ladder`), but no combination is tried
twice, and where their number is finite, all are tried in the end.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass

from mfrank.arrays import counted
from mfrank.tuning.family import Point, Setting, near, spread_out
from mfrank.tuning.ladder import Outcome, Trial, best, promoted
from mfrank.tuning.own_space import OwnFamily

_ATTEMPTS = 32
"""Points that are drawn in search of one that was not tried, before they are gone through."""

Fit = tuple[Point, int]
"""A point on a rung."""


@dataclass(frozen=True, slots=True)
class OwnLadder:
    """The fits of one family, few factors first."""

    family: OwnFamily
    setting: Setting

    @property
    def families(self) -> tuple[OwnFamily]:
        """Its one family."""
        return (self.family,)

    @property
    def top(self) -> int:
        """The highest rung."""
        return self.family.rungs - 1

    def of(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """The outcomes of this ladder."""
        return [one for one in outcomes if one.trial.family == self.family.name]

    def is_done(self, own: Sequence[Outcome]) -> bool:
        """Whether all combinations were tried."""
        return len(fits_of(own)) >= self.family.n_combinations

    def proposed(
        self, own: Sequence[Outcome], top: int, skipped: Set[Fit] = frozenset()
    ) -> Trial | None:
        """The next trial up to rung ``top``; None if all but ``skipped`` ones were tried."""
        known = fits_of(own) | skipped
        for rung in reversed(range(top)):
            trial = promoted(own, rung)
            if trial is not None and (trial.point, trial.rung) not in known:
                return trial
        return self._new(own, known, top) or self._left(own, known, top)

    def climb(self, own: Sequence[Outcome], top: int) -> Trial | None:
        """The best point so far, on the highest rung up to ``top`` on which memory suffices for it.

        None if any point was on that rung or above.
        """
        leader = best(own)
        if leader is None:
            return None
        point, refusal = leader.trial.point, self.family.refusal
        to = max((r for r in range(top + 1) if not refusal(point, r, self.setting)), default=0)
        if any(one.trial.rung >= to for one in own):
            return None
        return Trial(self.family.name, point, to)

    def _new(self, own: Sequence[Outcome], known: Collection[Fit], top: int) -> Trial | None:
        """A point that was on no rung: the first, then one near the best, one from anywhere, ...

        Every other one from anywhere begins on rung 1.
        """
        tried = {point for point, _ in known}
        if len(tried) >= self.family.n_points:
            return None
        number = sum(one.trial.is_new for one in own)
        if self.family.first not in tried:
            return self._at(self.family.first, 0)
        turn, leader = number // 2, best(own)
        if number % 2 and leader is not None:
            for attempt in range(_ATTEMPTS):
                seed = number * _ATTEMPTS + attempt
                point = self.family.snapped(near(leader.trial.point, seed, self.setting.seed))
                if point not in tried:
                    return self._at(point, min(leader.trial.rung, top))
        for attempt in range(_ATTEMPTS):
            spread = spread_out(len(self.family.axes), turn + attempt, self.setting.seed)
            point = self.family.snapped(spread)
            if point not in tried:
                return self._at(point, min(turn % 2, top))
        if self.family.n_points == float("inf"):  # a range that is too narrow for more
            return None
        return self._at(next(point for point in self.family.points() if point not in tried), 0)

    def _at(self, point: Point, rung: int) -> Trial:
        return Trial(self.family.name, point, rung, is_new=True)

    def _left(self, own: Sequence[Outcome], known: Collection[Fit], top: int) -> Trial | None:
        """The best point that was not on the lowest rung which lacks one."""
        value = dict[Point, float]()
        for one in own:
            at = one.trial.point
            value[at] = max(value.get(at, 0.0), one.value or 0.0)
        for rung in range(top + 1):
            if left := [point for point in value if (point, rung) not in known]:
                return Trial(self.family.name, max(left, key=value.__getitem__), rung)
        return None


def fits_of(outcomes: Sequence[Outcome]) -> set[Fit]:
    """The points and rungs of trials that were run, or are."""
    return {(one.trial.point, one.trial.rung) for one in outcomes}


# How much of a grid was tried, in words.


@dataclass(frozen=True, slots=True)
class GridTried:
    """How many combinations of a grid were tried.

    Attributes
    ----------
    tried, of : int
        Combinations that were tried, and all there are.
    failed : int
        Those of ``tried`` that gave no model; the leaderboard says why.
    ended : str
        Why the others were not tried.
    """

    tried: int
    of: int
    failed: int = 0
    ended: str = "there was no time for the others"

    @classmethod
    def of_search(
        cls, families: Sequence[OwnFamily], outcomes: Sequence[Outcome], trials: int | None
    ) -> GridTried | None:
        """Of a search that has ended; None if one of the families is no grid."""
        if not all(family.is_grid for family in families):
            return None
        fits = {
            (one.trial.family, (one.trial.point, one.trial.rung)): one.value is not None
            for one in outcomes
        }
        known, every = len(fits), int(sum(family.n_combinations for family in families))
        ended = "there was no time for the others"
        if trials is not None and known >= trials:
            ended = f"it was to try {counted(trials, 'combination')}"
        return cls(known, every, known - sum(fits.values()), ended)

    def __str__(self) -> str:
        told = f"all {counted(self.of, 'combination')} of the space were tried"
        if self.of == 1:
            told = "the one combination of the space was tried"
        if self.tried < self.of:
            told = (
                f"{self.tried:,} of {counted(self.of, 'combination')} of the space were tried: "
                f"{self.ended}"
            )
        if self.failed:
            told += f"; {self.failed:,} of them gave no model, and the leaderboard says why"
        return told

"""The search: successive halving, trial by trial, while there is time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from mfrank.arrays import OutOfTimeError, time_limit
from mfrank.models import Popularity
from mfrank.tuning.days import Former
from mfrank.tuning.families import SPACE
from mfrank.tuning.family import Family, Setting, Space
from mfrank.tuning.ladder import Ladder, Outcome, Trial, best
from mfrank.tuning.own_ladder import Fit, OwnLadder
from mfrank.tuning.own_space import own_families

# The time that a search may take, and what it has learned of the time that trials take.


Clock = Callable[[], float]

_UNKNOWN = 3.0
"""Factor by which a trial is assumed to exceed its plan while none was measured."""
CAUTION = 1.6
"""Factor by which a refit is assumed to take longer than the fit to the training part: it has more
data, and the machine may be busier by then."""


class Budget:
    """Seconds left, by a clock; infinite without a limit.

    ``spare`` is a reserve of further seconds that no plan uses.
    """

    def __init__(
        self, seconds: float | None, clock: Clock = time.perf_counter, spare: float = 0.0
    ) -> None:
        self._clock, self._spare = clock, spare
        self._ends = math.inf if seconds is None else clock() + seconds
        self.is_limited = seconds is not None

    def spend(self, seconds: float) -> None:
        """Count the seconds of an earlier run of the same search."""
        self._ends -= seconds

    def now(self) -> float:
        """The clock's time."""
        return self._clock()

    def left(self) -> float:
        """Seconds left."""
        return self._ends - self._clock()

    @contextmanager
    def keeping(self, reserve: float, share: float = 1.0) -> Iterator[None]:
        """Raise ``OutOfTimeError`` in the body if it takes more than a share of the time left.

        ``reserve`` is the number of seconds that must be left after the body.
        """
        with time_limit(share * (self.left() - reserve), self._clock):
            yield

    @contextmanager
    def to_the_end(self) -> Iterator[None]:
        """Raise ``OutOfTimeError`` in the body if it takes more than ``left`` and ``spare``."""
        with self.keeping(-self._spare):
            yield


def predicted_seconds(work: float, done: Sequence[tuple[float, Outcome]]) -> float:
    """Predicted seconds of a trial with this work, from finished trials of its ladder.

    ``done`` has the work and the outcome of each finished trial. The prediction uses the slowest of
    the trials nearest in work.
    """
    if not done:
        return _UNKNOWN * work

    def distance(planned: float) -> float:
        return abs(math.log(planned / work))

    least = min(distance(planned) for planned, _ in done)
    near = [one for one in done if distance(one[0]) <= least]
    return work * max(outcome.seconds / planned for planned, outcome in near)


def refit_seconds(outcome: Outcome) -> float:
    """Predicted seconds of the same fit to all data."""
    return CAUTION * outcome.fit_seconds


Run = Callable[[Trial, float], object]
"""Runs a trial, given the seconds that must be left after it."""

Claimed = Callable[[Callable[[Sequence[Outcome]], Trial | None]], Trial | None]
"""Returns the trial that a function proposes, so that no other search runs it."""

_BASELINES_SHARE = 0.05
"""A baseline is left out if it would take more of the time than this; popularity never is."""
_ITEMS_SHARE = 0.13
"""A family without rungs is left out above this share, if it is not searched alone."""
_LENIENCE = 4
"""A fit and its refit are stopped after this multiple of their share of the time."""
_MOST_TRIALS = 100
"""Of a ladder: among more, chance would choose, because the same users judge all of them."""
_MOST_QUICK_TRIALS = 8
"""Of a ladder with one rung: few axes, and no width to look for."""
_QUICK_SELDOM = 3
"""Such a ladder takes turns this many times less often than others."""
_QUICK_SHARE = 0.06
"""Of the time, also the most that such a ladder has after two trials."""
_WITH_REFIT = 1.5
"""Seconds of a trial and of the refit of its best epoch, as a multiple of the trial's seconds."""
_ENOUGH_TRIALS = 24
"""If a ladder has time for this many trials on a rung, narrower rungs are left out: they would only
mislead."""
_LEAST_TRIALS = 2
"""A ladder beside others is not begun without time for this many trials of its lowest rung."""
_PASSED_OVER = 32
"""Fits of a caller's space that may be passed over at once because they would take too long."""
_HOPELESS = 3
"""A ladder is abandoned if this many first trials all fail."""
_TOO_SLOW = 0.15
"""No time is reserved for a part of a blend that would take more than this share of the total."""
_MIXING_SHARE = 0.06
"""Share of the time reserved for weighing the candidates of a blend."""
_WEIGHINGS = 7
"""Number of evaluations to reserve time for: a blend lists, scores and weighs each part."""


class Search:
    """Chooses the next trial from the outcomes so far and the time and trials left.

    First come the settings of an earlier search, if there are some. ``share_after`` of the time is
    reserved for what follows the weighing of a blend.

    The ladders take turns: next is the ladder that used the fewest seconds or, if only trials are
    counted, the fewest trials. Before time or trials run out, the best point of each ladder is
    moved to the highest rung that is still affordable, if no point of its ladder was there.
    """

    def __init__(
        self,
        setting: Setting,
        budget: Budget,
        trials: int | None,
        space: Space = SPACE,
        former: Sequence[Former] = (),
        share_after: float = 0.0,
    ) -> None:
        self._former, self._share_after = former, share_after
        self._setting, self._budget, self._trials = setting, budget, trials
        self._space, self._is_alone = space, len(space.ladders) == 1
        self._seconds = max(0.0, budget.left())
        self._ladders: dict[str, Ladder | OwnLadder] = {
            family.name: OwnLadder(family, setting) for family in own_families(space)
        } or {
            name: Ladder(possible, setting.seed)
            for name, of in space.ladders.items()
            if (possible := tuple(family for family in of if self._is_possible(family)))
        }
        self._works: dict[tuple[str, int], float] = {}

    def _is_possible(self, family: Family) -> bool:
        """Whether the narrowest fit has the memory it needs and, if it has one rung, the time."""
        if not family.suits(self._setting.facts):
            return False
        return self._is_quick(family) and (family.rungs > 1 or family.fits(0, self._setting))

    def run(self, done: Sequence[Outcome], run: Run, claimed: Claimed | None = None) -> None:
        """Run trials until time or trials run out; ``run`` appends to ``done``.

        ``claimed`` calls :meth:`next` with ``done`` and the trials of other searches.
        """
        while trial := claimed(self.next) if claimed else self.next(done):
            run(trial, self._left_after(trial, done))

    def next(self, done: Sequence[Outcome]) -> Trial | None:
        """The next trial; None if the search is over."""
        if trial := self._baseline(done):
            return trial
        searched = [one for ladder in self._ladders.values() for one in ladder.of(done)]
        if not self._ladders or self._budget.left() <= 0:
            return None
        if self._trials is not None and searched and len(searched) >= self._trials:
            return None
        if trial := self._of_former(done):
            return trial
        if not searched:  # if it can be done, however long it is expected to take
            return next(iter(self._ladders.values())).proposed([], 0)
        for name in self._turns(done):
            if trial := self._of_ladder(name, done):
                return trial
        return None

    def reserve(self, done: Sequence[Outcome]) -> float:
        """Seconds reserved for blending the best of all ladders and refitting the best three."""
        leaders = sorted(self._leaders(done), key=lambda one: -(one.value or 0.0))
        costs = [refit_seconds(one) + _WEIGHINGS * one.judge_seconds for one in leaders]
        slow = _TOO_SLOW * self._seconds
        mixes = self._budget.is_limited and not self._is_alone and costs
        mixing = (_MIXING_SHARE + self._share_after) * self._seconds if mixes else 0.0
        return mixing + sum(costs[:1]) + sum([cost for cost in costs[1:] if cost <= slow][:2])

    def _left_after(self, trial: Trial, done: Sequence[Outcome]) -> float:
        """Seconds to be left after a trial: more after one that was let in because it is quick."""
        reserve, share = self.reserve(done), self._quick_share(self._space.named(trial.family))
        if not self._budget.is_limited or share > 1:
            return reserve
        return max(reserve, self._budget.left() - _LENIENCE * share * self._seconds)

    def _leaders(self, done: Sequence[Outcome]) -> list[Outcome]:
        leaders = [best(ladder.of(done)) for ladder in self._ladders.values()]
        return [leader for leader in leaders if leader is not None]

    def _baseline(self, done: Sequence[Outcome]) -> Trial | None:
        """A baseline that was not fitted yet."""
        known = {outcome.trial.family for outcome in done}
        for family in self._space.baselines:
            if family.name not in known and self._is_quick(family):
                return Trial(family.name, (), 0)
        return None

    def left_out(self, done: Sequence[Outcome]) -> dict[str, str]:
        """Families that were not tried although they might have been, and why."""
        known = {outcome.trial.family for outcome in done}
        families = (*self._space.baselines, *self._space.families())
        reasons = {family.name: self._reason(family) for family in families}
        return {name: told for name, told in reasons.items() if told and name not in known}

    def _reason(self, family: Family) -> str | None:
        """Why a family was not tried; None if there were no trials left."""
        setting, rung = self._setting, 0
        if not family.suits(setting.facts):
            return None
        if not family.fits(rung, setting) and family.rungs == 1:
            needed, may = family.bytes_needed(rung, setting) / 2**30, setting.memory / 2**30
            return f"left out: a fit would take about {needed:.3g} GiB, and may take {may:.3g}"
        if not self._is_quick(family):
            seconds, share = family.work(rung, setting), self._quick_share(family)
            return (
                f"left out: a fit would take about {seconds:.3g} s, and may take "
                f"{share * self._seconds:.3g}"
            )
        return "left out: there was no time for it" if self._budget.is_limited else None

    def _is_quick(self, family: Family) -> bool:
        share = self._quick_share(family)
        return share == math.inf or family.work(0, self._setting) <= share * self._seconds

    def _quick_share(self, family: Family) -> float:
        """The most of the time that the first fit of a family may take, by what is foreseen."""
        is_own = bool(self._space.own)
        if is_own or family.rungs > 1 or family.name == Popularity.__name__:
            return math.inf
        if self._is_alone:
            return 1.0
        return _BASELINES_SHARE if family in self._space.baselines else _ITEMS_SHARE

    def _turns(self, done: Sequence[Outcome]) -> list[str]:
        """The ladders, the one that had least so far first."""

        def had(name: str) -> float:
            own = self._ladders[name].of(done)
            often = 1 if self._ladders[name].top or self._space.own else _QUICK_SELDOM
            if self._budget.is_limited:
                return often * sum(outcome.seconds for outcome in own)
            return often * len(own)

        return sorted(self._ladders, key=had)

    def _of_former(self, done: Sequence[Outcome]) -> Trial | None:
        """The next setting of an earlier search, on its rung or below, as time and memory allow."""
        known = {(one.trial.family, one.trial.point) for one in done}
        ladder_of = {
            family.name: (ladder, len(family.axes))
            for ladder in self._ladders.values()
            for family in ladder.families
        }
        for former in self._former:
            name, point = former.trial.family, former.trial.point
            ladder, n_axes = ladder_of.get(name, (None, 0))
            if ladder is None or len(point) != n_axes or (name, point) in known:
                continue
            own, rung = ladder.of(done), min(former.trial.rung, ladder.top)
            if self._is_over(ladder, own):
                continue
            second = former.seconds / self._work(name, rung)
            most = min(rung, self._highest_that_fits(ladder), _highest_possible(own, ladder.top))
            for rung in range(most, -1, -1):
                if _WITH_REFIT * second * self._work(name, rung) <= self._share(done)[1]:
                    return Trial(name, point, rung)
        return None

    def _share(self, done: Sequence[Outcome]) -> tuple[float, float]:
        """Seconds that are not reserved, and those that a ladder with rungs may have of them."""
        available = self._budget.left() - self.reserve(done)
        ladders = [(each, each.of(done)) for each in self._ladders.values() if each.top]
        going_on = sum(self._goes_on(each, own, available) for each, own in ladders)
        return available, available / max(1, going_on)

    def _goes_on(
        self, ladder: Ladder | OwnLadder, own: Sequence[Outcome], available: float
    ) -> bool:
        """Whether a ladder may have another trial.

        Beside others, one is begun only if its part of all time is enough for two: a single trial
        tells little, and would take the time in which others come to wider fits.
        """
        if self._is_over(ladder, own):
            return False
        least = _WITH_REFIT * self._costs(ladder, own)[0]
        if least > available:
            return False
        is_begun = own or self._space.own or not ladder.top
        return bool(is_begun) or _LEAST_TRIALS * least <= self._seconds / len(self._ladders)

    def _of_ladder(self, name: str, done: Sequence[Outcome]) -> Trial | None:
        """The ladder's next trial; None if no trial of it fits into the time left."""
        ladder = self._ladders[name]
        own = ladder.of(done)
        available, share = self._share(done)
        if not self._goes_on(ladder, own, available):
            return None
        if isinstance(ladder, OwnLadder):
            return self._of_own(ladder, own, available, share)
        cost = {rung: _WITH_REFIT * seconds for rung, seconds in self._costs(ladder, own).items()}
        top = max((rung for rung in cost if cost[rung] <= share), default=0)
        top = min(top, _highest_possible(own, ladder.top), self._highest_that_fits(ladder))
        base = 0
        if self._budget.is_limited:
            every = self._seconds / len(self._ladders) / _ENOUGH_TRIALS
            base = max((rung for rung in cost if cost[rung] <= every), default=0)
        climb = ladder.climb(own, top)
        for highest in range(top, -1, -1):
            trial = ladder.proposed(own, highest, base)
            if climb and (self._ends_with(own) or cost[trial.rung] + cost[climb.rung] > share):
                trial, climb = climb, None
            if _WITH_REFIT * self._seconds_of(trial, own) <= available:
                return trial
        return None

    def _of_own(
        self, ladder: OwnLadder, own: Sequence[Outcome], available: float, share: float
    ) -> Trial | None:
        """The next trial of a model of a caller's space; what would take too long is passed over.

        That is also what is as much work as a fit that was given up. Where nothing else is left, a
        fit may take more than the share of the ladder.
        """

        def work(trial: Trial) -> float:
            return ladder.family.work_at(trial.point, trial.rung, self._setting)

        ended = [one for one in own if not one.is_pending and not _too_slow(one)]
        done = [(work(one.trial), one) for one in ended]
        too_much = min((work(one.trial) for one in own if _too_slow(one)), default=math.inf)
        cost = {rung: _WITH_REFIT * each for rung, each in self._costs(ladder, ended).items()}
        for most in dict.fromkeys((share, available)):
            top, skipped = max((r for r in cost if cost[r] <= most), default=0), set[Fit]()
            climb = ladder.climb(own, top)
            for _ in range(_PASSED_OVER):
                trial = ladder.proposed(own, top, skipped)
                if climb and (
                    trial is None
                    or self._ends_with(own)
                    or cost[trial.rung] + cost[climb.rung] > share
                ):
                    trial, climb = climb, None
                if trial is None:
                    break
                needed = work(trial)
                in_time = _WITH_REFIT * predicted_seconds(needed, done) <= available
                if in_time and needed < too_much:
                    return trial
                skipped.add((trial.point, trial.rung))
        return None

    def _is_over(self, ladder: Ladder | OwnLadder, own: Sequence[Outcome]) -> bool:
        """Whether a ladder had all trials or time that it may have, only fails, or is too slow."""
        if isinstance(ladder, OwnLadder):
            is_endless = ladder.family.n_combinations == math.inf
            many = is_endless and self._trials is None and len(own) >= _MOST_TRIALS
            return many or ladder.is_done(own)
        if sum(not one.is_pending for one in own) >= _HOPELESS and best(own) is None:
            return True
        if any(one.trial.rung == 0 and _too_slow(one) for one in own):
            return True
        if ladder.top:
            return len(own) >= _MOST_TRIALS
        took = sum(outcome.seconds for outcome in own)
        share = 1.0 if self._is_alone else _QUICK_SHARE
        had_time = len(own) >= 2 and took >= share * self._seconds
        return len(own) >= _MOST_QUICK_TRIALS or had_time

    def _highest_that_fits(self, ladder: Ladder | OwnLadder) -> int:
        """The highest rung whose fit stays within the memory limit; at least 0."""
        family = ladder.families[0]
        fitting = (rung for rung in range(ladder.top + 1) if family.fits(rung, self._setting))
        return max(fitting, default=0)

    def _seconds_of(self, trial: Trial, own: Sequence[Outcome]) -> float:
        """Predicted seconds of a trial, from trials of its family or else of its ladder."""
        of_family = [o for o in own if o.trial.family == trial.family and not o.is_pending]
        return predicted_seconds(
            self._work(trial.family, trial.rung), self._measured(of_family or own)
        )

    def _ends_with(self, own: Sequence[Outcome]) -> bool:
        """Whether the ladder has one trial left, or none."""
        return self._trials is not None and len(own) + 1 >= self._trials // len(self._ladders)

    def _costs(self, ladder: Ladder | OwnLadder, own: Sequence[Outcome]) -> Mapping[int, float]:
        """Seconds of a trial on each rung, predicted by those that are done.

        If one can be told, of the family that is best so far: it goes on.
        """
        leader = best(own)
        name = ladder.families[0].name if leader is None else leader.trial.family
        of_leader = [one for one in own if one.trial.family == name]
        known = self._measured(of_leader) or self._measured(own)
        return {
            rung: predicted_seconds(self._work(name, rung), known) for rung in range(ladder.top + 1)
        }

    def _measured(self, own: Sequence[Outcome]) -> list[tuple[float, Outcome]]:
        """The work and the outcome of each trial that is done."""
        done = (one for one in own if not one.is_pending)
        return [(self._work(one.trial.family, one.trial.rung), one) for one in done]

    def _work(self, family: str, rung: int) -> float:
        if (family, rung) not in self._works:
            self._works[family, rung] = self._space.named(family).work(rung, self._setting)
        return self._works[family, rung]


def _highest_possible(own: Sequence[Outcome], top: int) -> int:
    """The highest rung below any on which memory or time was too short."""
    failed = [one.trial.rung for one in own if _too_slow(one) or _too_large(one)]
    return max(0, min([top, *(rung - 1 for rung in failed)]))


def _too_slow(outcome: Outcome) -> bool:
    return (outcome.error or "").startswith(OutOfTimeError.__name__)


def _too_large(outcome: Outcome) -> bool:
    return (outcome.error or "").startswith(MemoryError.__name__)

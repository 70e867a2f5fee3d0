"""What an experiment has shown: clicks on the lists of each arm, and what another model would get.

The unit is the user, because users are assigned: an arm's rate is a ratio of sums over its users,
with the linearized error of such a ratio, and arms are compared by Welch's t-test. Other models are
judged by :mod:`mfrank.serving.counterfactual`.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from mfrank.arrays import aligned, check_above_zero, check_instance, counted, shown
from mfrank.data import epoch_seconds
from mfrank.errors import InputTypeError, InputValueError
from mfrank.evaluation import Difference, Score, p_value
from mfrank.retrieval import Recommender
from mfrank.serving.counterfactual import Counterfactual, JudgedArm
from mfrank.serving.event_journal import EventJournal
from mfrank.serving.list_log import Clicked, ListShown, read_lists

_NAMES = {"clicks": "clicks a list", "clicked": "lists with a click"}
_COUNTS = ("n_users", "n_lists", "n_clicks", "versions")
_SUSPICIOUS = 0.001
"""A p-value of the users' division below this says that something is broken (Fabijan et al.
2019)."""


@dataclass(frozen=True, slots=True)
class ArmResult:
    """What users did with the lists of an arm.

    Attributes
    ----------
    n_users, n_lists, n_clicks : int
    versions : int
        How many versions of the model have answered.
    scores : dict of str to Score
        ``clicks``, a list, and ``clicked``, the share of lists with a click.
    """

    n_users: int
    n_lists: int
    n_clicks: int
    versions: int
    scores: dict[str, Score]


@dataclass(frozen=True, slots=True)
class ExperimentReport:
    """The arms of an experiment.

    Attributes
    ----------
    arms : dict of str to ArmResult
        In the order of their names.
    differences : dict of str to dict of str to Difference
        Of each arm but the first, by metric: the arm minus the first one.
    division_p : float or None
        P-value of the numbers of users under the shares of the split (chi-squared test); None if
        there is one arm or the shares have changed.
    n_moved : int
        Users with lists of several arms, who are left out.
    n_by_hand : int
        Lists that were asked of a model by hand, which are left out.
    counterfactual : Counterfactual or None
        Of another model.
    """

    arms: dict[str, ArmResult]
    differences: dict[str, dict[str, Difference]]
    division_p: float | None
    n_moved: int
    n_by_hand: int
    counterfactual: Counterfactual | None = None

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain objects for JSON, with None for what is not defined."""
        told = {
            name: {
                **{key: getattr(arm, key) for key in _COUNTS},
                **{metric: score.to_dict() for metric, score in arm.scores.items()},
            }
            for name, arm in self.arms.items()
        }
        differences = {
            name: {metric: each.to_dict() for metric, each in of.items()}
            for name, of in self.differences.items()
        }
        other = self.counterfactual
        return {
            "arms": told,
            "differences": differences,
            "division_p": self.division_p,
            "n_moved": self.n_moved,
            "n_by_hand": self.n_by_hand,
            "counterfactual": None if other is None else other.to_dict(),
        }

    def __str__(self) -> str:
        interval = "95 % interval"
        head = ("arm", "users", "lists", "clicks a list", interval, "lists with a click", interval)
        rows: list[tuple[str, ...]] = [head]
        for name, arm in self.arms.items():
            cells = [
                cell
                for each in arm.scores.values()
                for cell in (f"{each.value:.5f}", "{:.5f} to {:.5f}".format(*each.interval))
            ]
            rows.append((name, f"{arm.n_users:,}", f"{arm.n_lists:,}", *cells))
        lines = [aligned(rows)]
        first = next(iter(self.arms))
        for name, of in self.differences.items():
            lines += [f"{name} minus {first}, {each}" for each in of.values()]
        if len(self.differences) > 1:
            lines.append(f"p-values are of each arm alone, of {len(self.differences)}")
        if self.division_p is not None and self.division_p < _SUSPICIOUS:
            lines.append(
                f"WARNING: users are not divided as the split says (p = {p_value(self.division_p)})"
                ": find out why before you believe a difference"
            )
        if self.n_moved:
            lines.append(f"{counted(self.n_moved, 'user')} with lists of several arms left out")
        if self.n_by_hand:
            lines.append(f"{counted(self.n_by_hand, 'list')} asked of a model by hand left out")
        if self.counterfactual is not None:
            lines += ["", str(self.counterfactual)]
        return "\n".join(lines)


def report(
    journal: EventJournal | str | os.PathLike[str],
    since: str | float | None,
    within: float,
    kinds: Sequence[str] | None,
    of: Recommender | None,
) -> ExperimentReport:
    """As :func:`mfrank.serving.report`."""
    check_above_zero(within=within)
    begin = _seconds(since)
    if of is not None:
        check_instance("of", of, Recommender, "a fitted model")
    if isinstance(kinds, str):
        raise InputTypeError(f"`kinds` must be a list of kinds, got {shown(kinds)}")
    if not isinstance(journal, EventJournal):
        journal = EventJournal(journal, create=False)
    if kinds is not None:
        known = journal.kinds(0, journal.last)
        if missing := [kind for kind in kinds if kind not in known]:
            raise InputValueError(
                f"`kinds`: no event of the journal is of the kind {shown(missing[0])}",
                f"there are {', '.join(known) or 'none'}",
            )
    clicks, judged = journal.clicks(kinds, begin), None if of is None else JudgedArm(of)
    met = journal.clicks() if of is not None else {}
    n_moved = n_by_hand = 0
    # Of each arm: lists, clicks and lists with a click of each of its users.
    counts: defaultdict[str, list[tuple[int, int, int]]] = defaultdict(list)
    shares: defaultdict[str, set[float]] = defaultdict(set)
    versions: defaultdict[str, set[str]] = defaultdict(set)
    for user, lists in groupby(read_lists(journal, begin), lambda each: each.user):
        clicked = list(attributed(list(lists), clicks.get(user, []), within))
        if judged is not None:
            judged.add(user, clicked, met.get(user, []))
        counted_ones = [each for each in clicked if each.shown.source.share is not None]
        n_by_hand += len(clicked) - len(counted_ones)
        for each in counted_ones:
            source = each.shown.source
            shares[source.arm].add(float(source.share or 0))
            versions[source.arm].add(source.version)
        arms = {each.shown.source.arm for each in counted_ones}
        n_moved += len(arms) > 1
        if len(arms) == 1:
            sums = [sum(each.clicks) for each in counted_ones]
            counts[arms.pop()].append((len(sums), sum(sums), sum(map(bool, sums))))
    if not counts:
        raise InputValueError(
            f"{journal.folder} has no list to report on", "ask later, or from an earlier `since`"
        )
    results = {
        name: _result(np.array(counts[name], np.float64), len(versions[name]))
        for name in sorted(counts)
    }
    first, *others = results
    differences = {
        name: {
            metric: score.unpaired(results[first].scores[metric], _NAMES[metric])
            for metric, score in results[name].scores.items()
        }
        for name in others
    }
    division = _division_p({name: arm.n_users for name, arm in results.items()}, shares)
    found = None if judged is None else judged.result()
    return ExperimentReport(results, differences, division, n_moved, n_by_hand, found)


def attributed(
    lists: Sequence[ListShown], clicks: Sequence[tuple[float, int | str]], within: float
) -> Iterator[Clicked]:
    """Which items of a user's lists were clicked.

    A click is one on the last list before it that has the item, if that was shown at most
    ``within`` seconds before; of an item in a list, it counts once. Both arguments are in the order
    of time.
    """
    # Of each item: the times of the lists that have it, and their places.
    times: defaultdict[int | str, list[float]] = defaultdict(list)
    places: defaultdict[int | str, list[int]] = defaultdict(list)
    for place, each in enumerate(lists):
        for item in each.items:
            times[item].append(each.time)
            places[item].append(place)
    clicked = defaultdict[int, set[int | str]](set)
    for at, item in clicks:
        before = bisect_right(times[item], at) - 1 if item in times else -1
        if before >= 0 and at - times[item][before] <= within:
            clicked[places[item][before]].add(item)
    for place, each in enumerate(lists):
        yield Clicked(each, [item in clicked[place] for item in each.items])


def _result(counts: Any, n_versions: int) -> ArmResult:
    lists, clicks, clicked = counts.T
    scores = {
        "clicks": Score.of_users(clicks / lists, lists),
        "clicked": Score.of_users(clicked / lists, lists),
    }
    return ArmResult(len(lists), int(lists.sum()), int(clicks.sum()), n_versions, scores)


def _division_p(n_users: dict[str, int], shares: dict[str, set[float]]) -> float | None:
    """The p-value of the numbers of users; None if there is nothing to compare them with."""
    if len(n_users) < 2 or any(len(each) != 1 for each in shares.values()):
        return None
    expected = {name: next(iter(shares[name])) for name in n_users}
    if abs(math.fsum(expected.values()) - 1) > 1e-9:  # an arm has had nobody
        return None
    from scipy.special import chdtrc  # slow to import

    total = sum(n_users.values())
    squares = ((n_users[name] - total * share) ** 2 for name, share in expected.items())
    statistic = sum(s / (total * expected[name]) for s, name in zip(squares, expected, strict=True))
    return float(chdtrc(len(n_users) - 1, statistic))


def _seconds(since: str | float | None) -> float:
    if since is None:
        return 0.0
    if isinstance(since, str):
        try:
            return float(epoch_seconds([since])[0])
        except (TypeError, ValueError) as error:
            raise InputValueError(
                f"`since` must be a date such as 2026-11-01, got {shown(since)}"
            ) from error
    if isinstance(since, bool) or not isinstance(since, int | float) or not math.isfinite(since):
        raise InputTypeError(f"`since` must be a date or seconds since 1970, got {shown(since)}")
    return float(since)

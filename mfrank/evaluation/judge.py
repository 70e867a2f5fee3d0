"""Rankings for users, and their scores: what is the same for all users of an evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays.time_limit import check_time
from mfrank.backends import choose
from mfrank.data.cells import without_zeros
from mfrank.data.groups import Groups
from mfrank.evaluation.cold import Cold
from mfrank.evaluation.excluded import excluded, had_in_training
from mfrank.evaluation.kinds import KnownMetric, Metric
from mfrank.evaluation.known import Known
from mfrank.evaluation.rankers import ranker_of, steered_ranker
from mfrank.evaluation.relevant import Relevant, blocks, relevant_of
from mfrank.evaluation.sampled import SampledLists
from mfrank.evaluation.tally import Tally
from mfrank.steering.steering import Steering

__all__ = ["Judge"]

_CELLS_AT_ONCE = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """An evaluation that can be run for any users."""

    model: Any
    relevance: sp.csr_array
    train: Any
    filters: bool
    wanted: tuple[Metric, ...]
    item_groups: Groups | None
    sample: tuple[int, np.random.Generator] | None
    batch_size: int | None
    backend: str
    n_threads: int
    steer: Steering | None
    cold: Cold

    def judged(self, users: NDArray[np.int64]) -> Tally:
        """Rank for these users, and score the rankings."""
        shape, n_items = self.relevance.shape, self.relevance.shape[1]
        seen, rows_seen = excluded(self.model, self.train, self.filters, self.relevance)
        known = None
        if any(isinstance(m, KnownMetric) for m in self.wanted):
            had = seen if self.filters else had_in_training(self.model, shape)
            known = Known.of(without_zeros(had), self.item_groups, excluded=self.filters)
        tally = Tally(self.wanted, n_items, known, self.item_groups, self.cold)
        ranker = (
            ranker_of(self.model, seen, rows_seen, choose(self.backend), self.n_threads)
            if self.steer is None
            else steered_ranker(self.model, seen, self.steer, self.n_threads, filters=self.filters)
        )
        lists = (
            SampledLists(ranker, rows_seen, min(self.sample[0], n_items), self.sample[1])
            if self.sample is not None
            else lambda users, relevant, k: ranker.lists(users, k)
        )

        def found() -> Iterator[Relevant]:
            for part in relevant_of(self.relevance, rows_seen, users):
                tally.n_in_train += part.n_in_train
                yield part

        size = self.batch_size or max(1, _CELLS_AT_ONCE // max(1, tally.width))
        for block, rows in blocks(found(), size):
            tally.add(ranker, lists, block, rows)
            check_time()
        tally.finish()
        return tally

    def by_threads(self, n_threads: int) -> Self:
        """The same with this number of threads."""
        return replace(self, n_threads=n_threads)

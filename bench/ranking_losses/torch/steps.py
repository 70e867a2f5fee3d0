"""A batch of mfrank.Descent once more in PyTorch with autograd: draw, scores, loss, slopes, Adam.

Written to be fast on a CPU: no Python loop over users, likes drawn by Floyd's algorithm, others
drawn again where they are liked, scores in one of three ways (torch_models.py), of which the bench
keeps the faster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter

import numpy as np
import scipy.sparse as sp
import torch
from harness.ticks import Pace
from ranking_losses.torch.lists import Lists, Memory, TorchLoss
from ranking_losses.torch.losses import LOSSES
from ranking_losses.torch.models import MODELS, adam
from torch import Tensor

from mfrank.losses import Scores

__all__ = ["Drawer", "Step", "blank_memory", "torch_pace"]

_BITMAP = 1 << 28
"""Most cells for which a table of bits tells what is liked; beyond, a search does."""

_LEAST, _PATIENCE = 2, 3.0
"""Steps that are timed of any loss, and seconds after which no more are."""


class Drawer:
    """Lists of users: some of their likes, without replacement, and items that they do not like.

    Parameters
    ----------
    user_items : sparse, shape (n_users, n_items)
    positives, negatives : int
        Places of each list.
    cutoff : int, optional
        Places that count in the ideal gain.
    """

    def __init__(
        self, user_items: sp.csr_array, positives: int, negatives: int, cutoff: int | None = None
    ) -> None:
        self.n_users, self.n_items = user_items.shape
        self._positives, self._negatives = positives, negatives
        indptr = user_items.indptr.astype(np.int64)
        self._starts = torch.as_tensor(indptr[:-1])
        self._counts = torch.as_tensor(np.diff(indptr))
        self._items = torch.as_tensor(user_items.indices.astype(np.int64))
        owners = torch.repeat_interleave(torch.arange(self.n_users), self._counts)
        keys = owners * self.n_items + self._items
        self._liked: Tensor | None = None
        if self.n_users * self.n_items <= _BITMAP:
            self._liked = torch.zeros(self.n_users * self.n_items, dtype=torch.bool)
            self._liked[keys] = True
        else:
            self._keys = keys.sort().values
        most = int(self._counts.max())
        discounts = 1 / torch.log2(2 + torch.arange(most, dtype=torch.float32))
        discounts[cutoff:] = 0 if cutoff is not None else discounts[cutoff:]
        self._ideal = torch.cat([torch.ones(1), discounts.cumsum(0)])

    def lists(self, users: Tensor) -> tuple[Lists, Tensor]:
        """Lists of some users, and the items at their places."""
        counts = self._counts[users]
        cells, filled = self._draw_cells(users, counts)
        negatives = self._draw_others(users)
        n_negatives = (self.n_items - counts)[:, None].float()
        positives = self._items[cells]
        lists = Lists(
            filled=filled,
            n_positives=counts.float(),
            n_items=self.n_items,
            ideal=self._ideal[counts],
            cells=cells,
            users=users,
            log_expected_counts=torch.log(self._negatives / n_negatives).expand(negatives.shape),
            positive_items=positives,
        )
        return lists, torch.cat([positives, negatives], 1)

    def _draw_cells(self, users: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Floyd's algorithm, a place at a time for all users; padding has the first cell."""
        n_drawn = counts.clamp(max=self._positives)
        drawn = torch.zeros((len(users), self._positives), dtype=torch.int64)
        probabilities = torch.rand(len(users), self._positives)
        for place in range(self._positives):
            last = counts - n_drawn + place
            found = (probabilities[:, place] * (last + 1)).long().minimum(last)
            taken = (drawn[:, :place] == found[:, None]).any(1)
            drawn[:, place] = torch.where(taken, last, found)
        filled = torch.arange(self._positives) < n_drawn[:, None]
        return self._starts[users][:, None] + drawn * filled, filled

    def _draw_others(self, users: Tensor) -> Tensor:
        items = torch.randint(self.n_items, (len(users), self._negatives))
        keys = items + (users * self.n_items)[:, None]
        wrong = self._among_likes(keys).nonzero(as_tuple=True)
        while len(wrong[0]):
            again = torch.randint(self.n_items, (len(wrong[0]),))
            items[wrong] = again
            liked = self._among_likes(again + users[wrong[0]] * self.n_items)
            wrong = wrong[0][liked], wrong[1][liked]
        return items

    def _among_likes(self, keys: Tensor) -> Tensor:
        if self._liked is not None:
            return self._liked[keys]
        at = torch.searchsorted(self._keys, keys).clamp(max=len(self._keys) - 1)
        return self._keys[at] == keys


def blank_memory(
    n_cells: int, n_users: int, n_items: int, dtype: torch.dtype = torch.float32
) -> Memory:
    """What any of the losses remembers, before the first batch."""
    sizes = {"means": n_cells, "thresholds": n_users, "log_sums": n_users}
    blank = {name: torch.full((size,), torch.nan, dtype=dtype) for name, size in sizes.items()}
    counters = {"batches": torch.zeros((), dtype=torch.int64)}
    margins = {"user_margins": n_users, "item_margins": n_items}
    largest = {name: torch.ones(size, dtype=dtype) for name, size in margins.items()}
    return {**blank, **counters, **largest, "boundaries": torch.zeros(n_users, dtype=dtype)}


@dataclass(frozen=True)
class Step:
    """What a step is made of, in the sizes of mfrank's defaults.

    Attributes
    ----------
    loss : str or callable
        Name in :data:`torch_losses.LOSSES`, or what makes one: (n_cells, n_users, n_items) -> loss.
    factors, batch_size, positives, negatives : int
    way : str
        One of :data:`torch_models.WAYS`.
    scores : {"dot", "cosine", "distance"}
    compiled : bool
        Whether ``torch.compile`` makes the scores, the loss and their gradients.
    """

    loss: str | Callable[[int, int, int], TorchLoss]
    factors: int
    way: str
    scores: Scores = "dot"
    batch_size: int = 256
    positives: int = 10
    negatives: int = 300
    compiled: bool = False


def torch_pace(
    step: Step, user_items: sp.csr_array, steps: int, n_threads: int, warm: int = 2
) -> Pace:
    """Median seconds of some steps, fewer where they are slow, after a few that are not counted."""
    torch.set_num_threads(n_threads)
    torch.manual_seed(0)
    n_users, n_items = user_items.shape
    name = step.loss if isinstance(step.loss, str) else None
    loss = LOSSES[name] if name else step.loss(user_items.nnz, n_users, n_items)  # type: ignore[operator]
    model = MODELS[step.scores](n_users, n_items, step.factors, step.way)
    drawer = Drawer(user_items, step.positives, step.negatives, 10 if name == "KSONG" else None)
    rule = adam(model, step.way)
    memory = blank_memory(user_items.nnz, n_users, n_items)
    visited = torch.as_tensor(np.flatnonzero(np.diff(user_items.indptr)))
    batches = visited[torch.randperm(len(visited))].split(step.batch_size)

    def mean_loss(users: Tensor, items: Tensor, lists: Lists) -> Tensor:
        positives, negatives, pair_scores = model(users, items, step.positives)
        return loss(positives, negatives, replace(lists, pair_scores=pair_scores), memory).mean()

    value_of = torch.compile(mean_loss) if step.compiled else mean_loss
    seconds: list[float] = []
    for index in range(warm + steps):
        began = perf_counter()
        users = batches[index % len(batches)]
        lists, items = drawer.lists(users)
        value = value_of(users, items, lists)
        rule.zero_grad()
        value.backward()
        rule.step()
        model.project_rows()
        if value.is_cuda:
            torch.cuda.synchronize()
        seconds.append(perf_counter() - began)
        if len(seconds) >= warm + _LEAST and sum(seconds[warm:]) > _PATIENCE:
            break
    return Pace(median(seconds[warm:]), 0.0)

"""Whether PyTorch's losses and steps are mfrank's: gradients of both tables, in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from ranking_losses.torch.lists import Lists, Memory, TorchLoss
from ranking_losses.torch.losses import LOSSES, libauc
from ranking_losses.torch.models import MODELS
from ranking_losses.torch.soft_ranks import stochastic_rank
from ranking_losses.torch.steps import blank_memory
from torch import Tensor

import mfrank
from mfrank.arrays import key_of, random_normals
from mfrank.backends import choose
from mfrank.data import Interactions
from mfrank.descent import SCORINGS, Drawn, FactorRows, FactorTables, ListDrawer, Sampling
from mfrank.losses import Loss, Scores, Sizes

__all__ = ["check_all"]


def check_all(data: Interactions, with_libauc: bool) -> None:
    """Assert that both descend alike: in float64, on a batch that is seen twice."""
    counts = np.diff(data.user_items.indptr)
    users = np.flatnonzero(counts)[:64]
    same_noise = {**LOSSES, "StochasticRank": stochastic_rank(_normals)}
    for name, theirs in same_noise.items():
        _check(getattr(mfrank, name)(), theirs, data, users, 1e-7)
    if with_libauc:
        long = np.flatnonzero(counts >= 10)[:64]
        own = mfrank.SONG(pooled=True, from_zero=True)
        theirs = libauc(-1, data.nnz, data.n_users, data.n_items, n_positives=10)
        _check(own, theirs, data, long, 1e-6)  # it has ideal gains in float32


def _check(loss: Loss, theirs: TorchLoss, data: Interactions, users: Any, tolerance: float) -> None:
    cutoff = getattr(loss, "k", None)
    drawn = ListDrawer(data.user_rows("float64"), Sampling(), choose(), cutoff).of_users(users, 1)
    assert drawn.lists.negatives.all()
    scoring = SCORINGS[loss.scores]
    random = np.random.default_rng(0)
    shapes = (data.n_users, 8), (data.n_items, 8)
    tables = [random.normal(scale=0.5, size=shape) for shape in shapes]
    for table in tables:
        scoring.project_rows(FactorRows(table, np.arange(len(table)), choose()))
    own = FactorTables(*tables, None, choose(), scoring)
    memory = loss.memory(Sizes(data.nnz, data.n_users, data.n_items))
    rule = mfrank.SGD(1.0)
    own.begin(rule)
    scored = own.scores(drawn, pair_scores=loss.pair_scores)
    seen = replace(drawn.lists, pair_scores=scored.pair_scores)
    for _ in range(2):
        gradients = loss.gradients(seen, scored.positives, scored.negatives, memory)
    before = [table.copy() for table in tables]
    own.move(drawn, gradients, rule, 0.0, None)
    gradients = _autograd(theirs, drawn, before, loss.scores)
    for table, old, gradient in zip(tables, before, gradients, strict=True):
        expected = old - gradient
        scoring.project_rows(FactorRows(expected, np.arange(len(expected)), choose()))
        error = np.abs(table - expected).max() / np.abs(old - expected).max()
        assert error < tolerance, f"{loss} and PyTorch's part by {error:.1e}"


def _autograd(loss: TorchLoss, drawn: Drawn, tables: list[Any], kind: Scores) -> list[Any]:
    """Gradients of both tables at the second sight of a batch."""
    seen, width = drawn.lists, drawn.lists.gains.shape[1]
    lists = Lists(
        filled=torch.from_numpy(seen.positives),
        n_positives=torch.from_numpy(seen.n_positives),
        n_items=int(seen.n_items[0]),
        ideal=torch.from_numpy(seen.ideal),
        cells=torch.from_numpy(np.maximum(seen.cells, 0)),
        users=torch.from_numpy(seen.users),
        log_expected_counts=torch.tensor(seen.log_expected_counts),
        positive_items=torch.from_numpy(seen.positive_items),
    )
    n_users, n_items = map(len, tables)
    model = MODELS[kind](n_users, n_items, tables[0].shape[1], "dense").double()
    for own, table in zip((model.users, model.items), tables, strict=True):
        own.weight.data = torch.from_numpy(table.copy())
    memory: Memory = blank_memory(int(seen.cells.max()) + 1, n_users, n_items, torch.float64)
    items = torch.from_numpy(np.concatenate([seen.positive_items, drawn.negatives], axis=1))
    for _ in range(2):
        positives, negatives, pair_scores = model(lists.users, items, width)
        value = loss(positives, negatives, replace(lists, pair_scores=pair_scores), memory).mean()
    value.backward()
    return [own.weight.grad.numpy() for own in (model.users, model.items)]


def _normals(scores: Tensor, memory: Memory) -> Tensor:
    """The noise of mfrank's StochasticRank."""
    key = key_of(0, int(memory["batches"]))
    memory["batches"] += 1
    return torch.from_numpy(random_normals(key, tuple(scores.shape), scores.detach().numpy()))

"""Whether PyTorch's losses and steps are mfrank's: gradients of both tables, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch_lists import Lists, Memory, TorchLoss
from torch_losses import LOSSES, libauc
from torch_steps import Model, blank_memory

import mfrank
from mfrank.backends import choose
from mfrank.data.interactions import Interactions
from mfrank.drawn import Drawn
from mfrank.sampling import ListDrawer, Sampling
from mfrank.scoring import SCORINGS, on_sphere
from mfrank.tables import Tables
from mfrank.trainers import Loss, Sizes

__all__ = ["check_all"]


def check_all(data: Interactions, with_libauc: bool) -> None:
    """Assert that both descend alike: in float64, on a batch that is seen twice."""
    counts = np.diff(data.user_items.indptr)
    users = np.flatnonzero(counts)[:64]
    for name, theirs in LOSSES.items():
        _check(getattr(mfrank, name)(), theirs, data, users, 1e-7)
    if with_libauc:
        long = np.flatnonzero(counts >= 10)[:64]
        own = mfrank.SONG(pooled=True, from_zero=True)
        theirs = libauc(-1, data.nnz, data.n_users, data.n_items, n_likes=10)
        _check(own, theirs, data, long, 1e-6)  # it has ideal gains in float32


def _check(loss: Loss, theirs: TorchLoss, data: Interactions, users: Any, tolerance: float) -> None:
    cutoff = getattr(loss, "k", None)
    drawn = ListDrawer(data.user_rows("float64"), Sampling(), choose(), cutoff).of_users(users, 1)
    assert drawn.lists.others.all()
    cosine = loss.scores == "cosine"
    random = np.random.default_rng(0)
    shapes = (data.n_users, 8), (data.n_items, 8)
    tables = [random.normal(scale=0.5, size=shape) for shape in shapes]
    tables = [on_sphere(table) if cosine else table for table in tables]
    own = Tables(*tables, None, choose(), SCORINGS[loss.scores])
    memory = loss.memory(Sizes(data.nnz, data.n_users, data.n_items))
    rule = mfrank.SGD(1.0)
    own.begin(rule)
    for _ in range(2):
        slopes = loss.slopes(drawn.lists, *own.scores(drawn), memory)
    before = [table.copy() for table in tables]
    own.move(drawn, slopes, rule, 0.0, None)
    gradients = _autograd(theirs, drawn, before, cosine)
    for table, old, gradient in zip(tables, before, gradients, strict=True):
        expected = on_sphere(old - gradient) if cosine else old - gradient
        error = np.abs(table - expected).max() / np.abs(old - expected).max()
        assert error < tolerance, f"{loss} and PyTorch's part by {error:.1e}"


def _autograd(loss: TorchLoss, drawn: Drawn, tables: list[Any], cosine: bool) -> list[Any]:
    """Gradients of both tables at the second sight of a batch."""
    seen, width = drawn.lists, drawn.lists.gains.shape[1]
    lists = Lists(
        filled=torch.from_numpy(seen.likes),
        n_likes=torch.from_numpy(seen.n_likes),
        n_items=int(seen.n_items[0]),
        ideal=torch.from_numpy(seen.ideal),
        cells=torch.from_numpy(np.maximum(seen.cells, 0)),
        users=torch.from_numpy(seen.users),
        log_chances=torch.tensor(seen.log_chances),
    )
    model = Model(len(tables[0]), len(tables[1]), tables[0].shape[1], "dense", cosine).double()
    for own, table in zip((model.users, model.items), tables, strict=True):
        own.weight.data = torch.from_numpy(table.copy())
    memory: Memory = blank_memory(int(seen.cells.max()) + 1, len(tables[0]), torch.float64)
    items = torch.from_numpy(np.concatenate([seen.liked_items, drawn.others], axis=1))
    for _ in range(2):
        scores = model(lists.users, items)
        value = loss(scores[:, :width], scores[:, width:], lists, memory).mean()
    value.backward()
    return [own.weight.grad.numpy() for own in (model.users, model.items)]

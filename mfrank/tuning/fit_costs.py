"""Rough seconds and memory of a fit of a model, by its options.

Seconds are a first guess: after the first trials, only their ratios matter.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mfrank.als import epoch_seconds
from mfrank.arrays import usable_cores
from mfrank.backends import SolveOptions
from mfrank.models import (
    ALS,
    EASE,
    AsymmetricALS,
    Descent,
    ItemFilter,
    ItemKNN,
    NextItem,
    SequentialRules,
)
from mfrank.tuning.families import BYTES_A_WEIGHT, multiply_add_seconds
from mfrank.tuning.family import Facts

_ALS_EPOCHS = 8
"""Epochs until a fit of ALS stops, its start among them; fewer if it may have fewer."""


_ANY_TRIAL = 0.1
"""Seconds that a trial takes however small its fit is."""


def trial_seconds(model: Any, facts: Facts, n_threads: int) -> float:
    """Rough seconds of a trial of an unfitted model."""
    return _ANY_TRIAL + fit_seconds(model, facts, n_threads)


def fit_seconds(model: Any, facts: Facts, n_threads: int) -> float:
    """Rough seconds of a fit of an unfitted model."""
    data = facts.data
    nnz, n_items, n_users = data.nnz, data.n_items, data.n_users
    pairs = float((data.counts.users**2.0).sum())
    match model:
        case ALS():
            options = SolveOptions(model.solver, model.cg_steps, model.cg_tolerance, n_threads)
            epochs = min(model.iterations, _ALS_EPOCHS)
            return epochs * epoch_seconds(data.counts, model.factors, options)
        case Descent():
            drawn = (model.negatives or n_items) + (model.positives or facts.per_user)
            products = 6e-10 * n_users * drawn * model.factors / (n_threads or usable_cores())
            batches = max(1, (n_users if model.batches == "users" else nnz) // model.batch_size)
            return float(model.iterations * (products + 2e-3 * batches))
        case EASE() if model.candidates is not None and model.candidates < n_items - 1:
            solved = model.candidates**3 * multiply_add_seconds() + 1e-4
            return 4e-8 * pairs + solved * n_items
        case EASE():
            width = min(n_users, n_items)
            return 0.6 * width**3 * multiply_add_seconds() + 2.5e-8 * n_items**2
        case NextItem() if model.candidates is not None:
            return 7e-7 * _entries(model, facts) + 1e-4 * n_items
        case NextItem():
            width = len(model.decays) * n_items
            solved = (width**3 / 6 + width**2 * n_items) * multiply_add_seconds()
            return solved + 3e-6 * nnz + 2.5e-8 * width * n_items
        case AsymmetricALS():
            k = model.factors
            places = 2 * nnz * (1e-7 * k + 2 * k**2 * multiply_add_seconds())
            items = n_items * (k**3 / 3 + 2 * n_items * k) * multiply_add_seconds()
            softmax = model.softmax_epochs * nnz * (4e-6 + 8e-8 * k)
            with_start = (model.iterations + 0.5) * math.sqrt(len(model.decays) / 2)
            work = with_start * places + model.iterations * items + softmax
            return float(work / min(n_threads or usable_cores(), 2) ** 0.7)
        case SequentialRules():
            return 1e-6 * model.near * nnz
        case ItemFilter() | ItemKNN():
            return 6e-8 * pairs + 5e-9 * n_items**2
    return 6e-8 * nnz  # popularity


def fit_bytes(model: Any, facts: Facts) -> int:
    """Approximate peak memory of a fit of an unfitted model in bytes, without the data."""
    data = facts.data
    n_items, n_rows = data.n_items, data.n_users + data.n_items
    match model:
        case ALS():
            number = np.dtype(model.dtype).itemsize
            return int(number * model.factors * (3 * n_rows + 12 * model.factors))
        case Descent():
            return int(4 * np.dtype(model.dtype).itemsize * model.factors * n_rows)
        case EASE():
            return EASE.bytes_needed(data.n_users, n_items, model.candidates) + _kept(model, facts)
        case NextItem():
            entries, decays = _entries(model, facts), len(model.decays)
            needed = NextItem.bytes_needed(decays, n_items, model.candidates, entries)
            return needed + decays * _kept(model, facts)
        case AsymmetricALS():
            return model.bytes_needed(n_items, data.nnz) + len(model.decays) * _kept(model, facts)
        case ItemFilter() | ItemKNN() | SequentialRules():
            return _kept(model, facts)
    return 0


def _kept(model: Any, facts: Facts) -> int:
    """Bytes of the weights between items while they are put together."""
    n_items = facts.data.n_items
    return int(BYTES_A_WEIGHT * n_items * min(model.neighbors, n_items))


def _entries(model: NextItem, facts: Facts) -> int:
    """Entries of the histories at all decays, in both directions."""
    counts = facts.data.counts.users
    return 2 * int(sum((counts * np.minimum(counts, 4 * decay)).sum() for decay in model.decays))

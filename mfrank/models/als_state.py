"""What the next half-step of ALS depends on, as the arrays of a checkpoint."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mfrank.als.engine import Halfway, OnHalfStep
from mfrank.als.features import Features
from mfrank.als.momentum import Momentum
from mfrank.arrays.placement import Array, copied
from mfrank.backends.displacements import half_of
from mfrank.data.interactions import Interactions
from mfrank.models.checkpoint import Checkpoint
from mfrank.models.stopping import KnownStopping, Stopping
from mfrank.retrieval import fingerprint
from mfrank.store.checks import is_mapped
from mfrank.store.factors import FactorStore
from mfrank.store.feature_weights import check_features, columns_name, names_of
from mfrank.store.step import Step

__all__ = ["Resumed", "checkpoint_of", "half_step_saver", "in_memory", "resumed", "saver"]


class Resumed(NamedTuple):
    """What a fit goes on from.

    Attributes
    ----------
    store : FactorStore
        Factors, mapped, and history of the last epoch; without any, the factors after the first
        user step.
    momentum : mapping or None
        See ``Momentum.resume``.
    halfway : Halfway, or None
        Factors within the next epoch, if half-steps of it were done; own memory.
    best : FactorStore or None
        The best epoch so far, with early stopping; mapped.
    """

    store: FactorStore
    momentum: Mapping[str, Array] | None
    halfway: Halfway | None
    best: FactorStore | None


def checkpoint_of(
    folder: str | os.PathLike[str],
    data: Interactions,
    start: FactorStore | None,
    stopping: Stopping | None,
    features: Features,
) -> Checkpoint:
    """The checkpoint of a fit to these interactions, in one pass over them.

    Raises
    ------
    ValueError
        Ids are neither integers nor strings.
    TypeError
        The stopping rule has no fingerprint by which it could be recognized.
    """
    if stopping is not None and not isinstance(stopping, KnownStopping):
        raise TypeError(
            "stopping: a checkpoint must know the rule again, and it has no fingerprint(); use "
            "mfrank.EarlyStopping, or leave checkpoint out"
        )
    return Checkpoint.of(
        folder,
        data=fingerprint.of_filter(data, with_values=True),
        start=None if start is None else fingerprint.of_store(start),
        stopping=None if stopping is None else stopping.fingerprint(),
        features=_of_features(features),
    )


def saver(
    checkpoint: Checkpoint, momentum: Momentum
) -> Callable[[FactorStore, FactorStore | None], None]:
    """A function that saves an epoch, and with it the best so far if that is another one."""

    def save(store: FactorStore, best: FactorStore | None) -> None:
        arrays = {f"momentum_{name}": array for name, array in momentum.state().items()}
        arrays |= store.extras
        if best is not None and len(best.history) < len(store.history):
            arrays |= {"best_users": best.user_factors, "best_items": best.item_factors}
            arrays |= {f"best_{name}": array for name, array in best.extras.items()}
        checkpoint.save(store, arrays)

    return save


def half_step_saver(
    checkpoint: Checkpoint, momentum: Momentum, stored: Callable[[Step], FactorStore]
) -> OnHalfStep:
    """A function that saves the half-steps within epochs; ``stored`` makes a store of factors."""

    def save(epoch: int, user_factors: Array, item_factors: Array) -> None:
        if not epoch:
            checkpoint.save(stored(Step(0, 0.0, None, user_factors, item_factors)), {})
            return
        state = {"items": item_factors, **momentum.state()}
        if "turn" in state:  # after a user step; else the users are those of the epoch, turned
            state["users"] = user_factors
        checkpoint.save_half_step(state)

    return save


def resumed(
    checkpoint: Checkpoint,
    fitter: Mapping[str, Any],
    stopping: Stopping | None,
    data: Interactions,
) -> Resumed | None:
    """What the folder has of a fit to these interactions; None if it has nothing.

    Raises
    ------
    ValueError
        The folder has something else; see ``Checkpoint.load``.
    """
    store = checkpoint.load(fitter, mmap=True)
    if store is None:
        return None
    users, items, width = store.user_factors, store.item_factors, store.factors
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {
        "numbers": ((3,), np.float64),
        "displacements": (items.shape, half_of(items.dtype)),
    }
    momentum = halfway = None
    half = checkpoint.half_step()
    if half is not None:
        halfway = Halfway(checkpoint.fitting(half, "items", items.shape, items.dtype))
        if "users" in half:
            solved = checkpoint.fitting(half, "users", users.shape, users.dtype)
            halfway = halfway._replace(user_factors=solved)
        momentum = {name: checkpoint.fitting(half, name, *shapes[name]) for name in shapes}
    elif store.history:
        shapes["turn"] = ((width, width), np.float64)
        momentum = {
            name: checkpoint.array(store, f"momentum_{name}", *shapes[name]) for name in shapes
        }
        momentum = {name: array.copy() for name, array in momentum.items()}
    epoch = replace(
        store,
        user_ids=data.user_ids,
        item_ids=data.item_ids,
        counts=data.counts,
        extras=_of_fit(store, ""),
    )
    check_features(epoch)
    if stopping is None or not store.history:
        return Resumed(epoch, momentum, halfway, None)
    if "best_users" not in store.extras:
        return Resumed(epoch, momentum, halfway, epoch)
    best_users = checkpoint.array(store, "best_users", users.shape, users.dtype)
    best_items = checkpoint.array(store, "best_items", items.shape, items.dtype)
    best = replace(
        epoch,
        user_factors=best_users,
        item_factors=best_items,
        extras=_of_fit(store, "best_"),
    )
    return Resumed(epoch, momentum, halfway, best)


def in_memory(store: FactorStore) -> FactorStore:
    """The store with factors that do not depend on a checkpoint's files."""
    if not is_mapped(store.user_factors):
        return store
    users, items = map(copied, (store.user_factors, store.item_factors))
    return replace(store, user_factors=users, item_factors=items)


def _of_fit(store: FactorStore, prefix: str) -> dict[str, Array]:
    """The arrays of features among those that were saved of an epoch."""
    names = [*names_of("user"), *names_of("item"), columns_name("user"), columns_name("item")]
    kept = {name: store.extras[prefix + name] for name in names if prefix + name in store.extras}
    return {name: array.copy() for name, array in kept.items()}


def _of_features(features: Features) -> str | None:
    """SHA-256 of all features; None if there are none."""
    if not features.sides:
        return None
    each = (
        fingerprint.of_filter(side, with_values=True) for side in (features.users, features.items)
    )
    text = " ".join(f"{digest}" for digest in each)
    return hashlib.sha256(text.encode()).hexdigest()

"""A step of mfrank.Descent and the same step in PyTorch, in turns.

A batch of 256 users, up to 10 likes and 300 others each, drawn, scored, lost, descended by Adam. A
few batches are timed, over tables of all users and items; an epoch is as many such steps as it has
batches and, with mfrank, what a fit does beside them, such as its copy of the factors.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness.memory import MIB
from harness.ticks import Pace, descent_pace
from ranking_losses.torch.losses import libauc
from ranking_losses.torch.models import WAYS
from ranking_losses.torch.steps import Step, torch_pace

import mfrank
from mfrank.comparison import peak_memory
from mfrank.data import Interactions
from mfrank.losses import Scores

__all__ = ["race"]

BATCH = 256
_TRIALS = 3  # of each of PyTorch's ways: one alone may have met a busy machine
_KINDS: dict[str, Scores] = {"SOPRC": "cosine", "SML": "distance"}
_FEW_STEPS = {"NeuralNDCG": 5}
"""Most steps that are timed of losses whose step takes a large part of a second."""
LIBAUC = {"SONG": -1, "KSONG": 10}
"""LibAUC's losses by mfrank's name, and its topk."""


def emptied(data: Interactions, n_users: int) -> Interactions:
    """The same users and items, with the likes of some users only, so that an epoch is short."""
    matrix = data.user_items
    with_likes = np.flatnonzero(np.diff(matrix.indptr))
    some = np.random.default_rng(0).permutation(with_likes)[:n_users]
    kept = np.zeros(matrix.shape[0])
    kept[some] = 1
    rest = sp.csr_array(sp.diags_array(kept) @ matrix)
    rest.eliminate_zeros()
    return Interactions.of(rest)


def race(data: Interactions, factors: int, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each loss and contender."""
    part, few = emptied(data, args.steps * BATCH), emptied(data, 2 * BATCH)
    kinds = {scores_of(name) for name in args.losses}
    ways = {kind: faster_ways(kind, factors, part, args.threads) for kind in kinds}
    entries = {}
    for name in args.losses:
        steps = min(args.steps, _FEW_STEPS.get(name, args.steps))
        own_part = part if steps == args.steps else emptied(data, steps * BATCH)
        own_ways = ways[scores_of(name)]
        entries[name] = contenders(name, factors, own_ways, own_part, steps, args)
    rows = []
    for name, rounds in in_turns(entries, args.repeats).items():
        small = contenders(name, factors, ways[scores_of(name)], few, 2, args)
        for contender, paces in rounds.items():
            pairs = zip(paces, rounds["mfrank"], strict=True)
            row = {
                "factors": factors,
                "loss": name,
                "contender": contender,
                "seconds_per_step": median(factor.step for factor in paces),
                "seconds_per_epoch": median(epoch_seconds(factor, data) for factor in paces),
                "over_mfrank": median(theirs.step / own.step for theirs, own in pairs),
            }
            if name in args.memory:
                row["peak_mib"] = peak(small[contender], data)
            rows.append(row)
    return rows


def scores_of(name: str) -> Scores:
    """Dot products, but for SOPRC, whose hinge is of cosines, and SML, of distances."""
    return _KINDS.get(name, "dot")


def in_turns(
    entries: dict[str, dict[str, Callable[[], Pace]]], repeats: int
) -> dict[str, dict[str, list[Pace]]]:
    """What contenders measure for each loss, in rounds of which every other goes backwards.

    All losses are in every round, so that what disturbs the machine for a while disturbs a round of
    some, not all rounds of one.
    """
    rounds: dict[str, dict[str, list[Pace]]] = {
        loss: {name: [] for name in measures} for loss, measures in entries.items()
    }
    for turn in range(repeats):
        for loss, measures in entries.items():
            for name in list(measures)[:: -1 if turn % 2 else 1]:
                rounds[loss][name].append(measures[name]())
    return rounds


def epoch_seconds(factor: Pace, data: Interactions) -> float:
    """Seconds of an epoch over all users."""
    users = np.count_nonzero(np.diff(data.user_items.indptr))
    return float(factor.step * -(-users // BATCH) + factor.beside)


def contenders(
    name: str,
    factors: int,
    ways: list[str],
    part: Interactions,
    steps: int,
    args: argparse.Namespace,
) -> dict[str, Callable[[], Pace]]:
    """Who times a step of the loss: mfrank, PyTorch in these ways, LibAUC in the first of them."""
    matrix, loss = part.user_items, getattr(mfrank, name)()
    found: dict[str, Callable[[], Pace]] = {
        "mfrank": partial(descent_pace, loss, part, args.threads, scores_of(name), factors=factors)
    }
    for way in ways:
        step = Step(name, factors, way, scores_of(name))
        found[f"torch {way}"] = partial(torch_pace, step, matrix, steps, args.threads)
    if name in LIBAUC and args.libauc:
        theirs = Step(partial(libauc, LIBAUC[name], n_positives=10), factors, ways[0])
        found[f"LibAUC {ways[0]}"] = partial(torch_pace, theirs, matrix, steps, args.threads)
    return found


def faster_ways(kind: Scores, factors: int, part: Interactions, n_threads: int) -> list[str]:
    """The faster of PyTorch's ways by embeddings, before it the product where that is faster."""
    name = next((name for name, own in _KINDS.items() if own == kind), "BPR")
    found = {
        way: min(
            torch_pace(Step(name, factors, way, kind), part.user_items, 6, n_threads).step
            for _ in range(_TRIALS)
        )
        for way in WAYS
    }
    ways = sorted(WAYS, key=lambda way: found[way])
    embedding = next(way for way in ways if way != "product")
    return ["product", embedding] if ways[0] == "product" else [embedding]


def peak(work: Callable[[], Pace], data: Interactions) -> float | None:
    """MiB that the work adds to its input in a process of its own, and the whole input."""
    matrix = data.user_items
    given = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
    rise = peak_memory(work)
    return None if rise is None else (rise + given) / MIB

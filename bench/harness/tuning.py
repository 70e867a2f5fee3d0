"""Hyper-parameters by the validation part: a trial for each point of a box, judged as it runs."""

from __future__ import annotations

import argparse
from contextlib import suppress
from typing import Any

import numpy as np
from contenders import contender
from scipy.stats import qmc

import mfrank
from mfrank.data import Interactions, Split, by_ratio
from mfrank.evaluation import NDCG, Evaluation, Recall, evaluate

__all__ = [
    "CHECKS",
    "OBJECTIVES",
    "Box",
    "Found",
    "judge",
    "make",
    "points",
    "search",
    "with_validation",
]

Box = dict[str, tuple[float, float]]

CHECKS = (1, 2, 3, 4, 6, 8, 11, 15)

OBJECTIVES: dict[str, type[Any]] = {
    "WRMF": mfrank.WRMF,
    "IALS": mfrank.IALS,
    "RG2": mfrank.RG2,
    "RGX": mfrank.RGX,
    "implicit": mfrank.WRMF,
}
Found = tuple[float, int, dict[str, float]]
"""Best validation NDCG@20, and the epochs and hyper-parameters that it takes."""


def points(box: Box, trials: int, seed: int) -> list[dict[str, float]]:
    """The trials of a search: a scrambled Sobol sequence in the box."""
    sampler = qmc.Sobol(len(box), rng=np.random.default_rng(seed))
    unit = sampler.random_base2(int(np.ceil(np.log2(trials))))[:trials]
    low, high = np.array(list(box.values())).T
    linear = np.array([name == "nu" for name in box])
    logarithmic = np.exp(np.log(low) + unit * np.log(high / low))
    values = np.where(linear, low + unit * (high - low), logarithmic)
    return [{name: float(f"{v:.3g}") for name, v in zip(box, row, strict=True)} for row in values]


def make(name: str, options: dict[str, float], iterations: int, args: argparse.Namespace) -> Any:
    """Make a contender with the given hyper-parameters."""
    return contender("implicit cg" if name == "implicit" else "mfrank auto")(
        objective=OBJECTIVES[name.removesuffix(" as implicit")](**options),
        factors=args.factors,
        iterations=iterations,
        n_threads=args.threads,
        random_state=args.seed,
    )


def judge(model: Any, truth: Interactions, train: Interactions) -> Evaluation:
    """Recall@20 and NDCG@20, everything but the training items ranked."""
    return evaluate(model, truth, train=train, metrics=(Recall @ 20, NDCG @ 20))


def search(
    name: str, box: Box, args: argparse.Namespace, train: Interactions, valid: Interactions
) -> Found:
    """Search the box."""
    best: Found = (-1.0, 0, {})
    for options in points(box, args.trials, args.seed):
        model, seen = make(name, options, max(CHECKS), args), []

        def look(epoch: int, _: float, model: Any = model, seen: list[Any] = seen) -> None:
            if epoch not in CHECKS:
                return
            seen.append((judge(model, valid, train)[NDCG @ 20].value, epoch))
            if max(seen) not in seen[-2:]:
                raise _PastItsBest

        with suppress(_PastItsBest):
            model.fit(train.to_scipy(), look)
        value, epochs = max(seen)
        print(f"  {name} {options} valid NDCG@20 {value:.4f} after {epochs} epochs", flush=True)
        best = max(best, (value, epochs, options), key=lambda trial: trial[0])
    return best


class _PastItsBest(Exception):
    """Ends a trial from its watch."""


def with_validation(split: Split, seed: int) -> tuple[Interactions, Interactions]:
    """Training and validation part for the search."""
    if split.valid is not None and split.valid.nnz:
        return split.train, split.valid
    part = by_ratio(split.train, train=0.9, valid=0.0, test=0.1, random_state=seed)
    return part.train, part.test

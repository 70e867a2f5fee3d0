"""How well each objective ranks, all tuned alike: published splits, full ranking.

Every contender gets the same number of trials: points of one low-discrepancy sequence in its
search box, judged by NDCG@20 on the validation part (the published one, or a tenth of each user's
training items where there is none) after each of ``CHECKS`` epochs, until two of these in a row are
below the trial's best. When all searches are over, the best trial of each at its best epoch is
fitted anew, with the same seed, on the training part alone, and judged once on the test part.
Where implicit takes part, so does WRMF at what was found for implicit: the two minimise one sum, so
they differ by the libraries alone. Prints a table and writes it as JSON.

    python bench/quality.py ml-1m --factors 256 --trials 16
    python bench/quality.py gowalla --factors 512 --trials 16 --models WRMF IALS implicit
"""

from __future__ import annotations

import argparse
import json
import math
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from contenders import contender
from records import line, save
from scipy.stats import qmc
from subjects import load

import mfrank
from mfrank.data.interactions import Interactions
from mfrank.data.splits import Split, by_ratio
from mfrank.evaluation.evaluate import evaluate
from mfrank.evaluation.metrics import NDCG, Recall
from mfrank.evaluation.report import Evaluation

Box = dict[str, tuple[float, float]]

CHECKS = (1, 2, 3, 4, 6, 8, 11, 15)

_WEIGHTED: Box = {"alpha": (1.0, 100.0), "regularization": (3.0, 300.0)}
_RANKING: Box = {"alpha": (0.005, 0.5), "regularization": (0.01, 1.0)}

OBJECTIVES: dict[str, type[Any]] = {
    "WRMF": mfrank.WRMF,
    "IALS": mfrank.IALS,
    "RG2": mfrank.RG2,
    "RGX": mfrank.RGX,
    "implicit": mfrank.WRMF,
}
BOXES: dict[str, Box] = {
    "WRMF": _WEIGHTED,
    "IALS": {"alpha0": (0.003, 0.3), "regularization": (0.001, 0.1), "nu": (0.5, 1.0)},
    "RG2": _RANKING,
    "RGX": _RANKING,
    "implicit": _WEIGHTED,
}
"""Where each objective is searched, whatever the data; implicit's box is that of WRMF, which is its
objective. Every axis spans a factor of 100 on a logarithmic scale, but nu, whose range is what iALS
means by it."""

LIKE_IMPLICIT = "WRMF as implicit"
"""The contender that is told what was found for implicit."""

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


def chosen(args: argparse.Namespace, split: Split) -> dict[str, Found]:
    """What each contender is to be fitted with, by the validation part alone, or as given."""
    if args.options is not None:
        return {name: (float("nan"), args.iterations, args.options) for name in args.models}
    data = with_validation(split, args.seed)
    found = {name: search(name, BOXES[name], args, *data) for name in args.models}
    if "implicit" in found:
        found[LIKE_IMPLICIT] = found["implicit"]
    return found


def judged(name: str, found: Found, split: Split, args: argparse.Namespace) -> dict[str, Any]:
    """Fit to the training part, judge on the test part."""
    value, epochs, options = found
    began = time.perf_counter()
    model = make(name, options, epochs, args).fit(split.train.to_scipy())
    seconds = time.perf_counter() - began
    result = judge(model, split.test, split.train)
    recall, ndcg = result[Recall @ 20], result[NDCG @ 20]
    own = math.isfinite(value) and name != LIKE_IMPLICIT
    return {
        "model": name,
        "factors": args.factors,
        "options": options,
        "epochs": epochs,
        "valid_ndcg@20": value if own else None,
        "recall@20": recall.value,
        "recall@20_error": recall.standard_error,
        "ndcg@20": ndcg.value,
        "ndcg@20_error": ndcg.standard_error,
        "fit_seconds": seconds,
    }


def main() -> None:
    """Tune all, then refit and judge all; print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", choices=("gowalla", "ml-1m"))
    parser.add_argument("--factors", type=int, default=256)
    parser.add_argument(
        "--iterations", type=int, default=15, help="epochs where --options is given"
    )
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--models", nargs="+", choices=OBJECTIVES, default=list(OBJECTIVES))
    parser.add_argument("--options", type=json.loads, help="JSON; skips the search, for one model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()

    split = load(args.data)
    rows = [judged(name, found, split, args) for name, found in chosen(args, split).items()]
    for row in rows:
        print(line(row))
    save(args.folder, f"quality-{args.data}-{args.factors}", rows)


if __name__ == "__main__":
    main()

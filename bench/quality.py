"""How well each objective ranks, all tuned alike: published splits, full ranking.

Every contender gets the same number of trials: points of one low-discrepancy sequence in its search
box, judged by NDCG@20 on the validation part (the published one, or a tenth of each user's training
items where there is none) after each of ``CHECKS`` epochs, until two checks in a row are below the
trial's best. When all searches are over, the best trial of each at its best epoch is fitted anew,
with the same seed, on the training part alone, and judged once on the test part. Where implicit
takes part, so does WRMF with the hyper-parameters that were found for implicit: the two minimize
the same sum, so only the libraries differ. Prints a table and writes it as JSON.

    python bench/quality.py ml-1m --factors 256 --trials 16
    python bench/quality.py gowalla --factors 512 --trials 16 --models WRMF IALS implicit
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

from harness.records import line, save
from harness.subjects import load
from harness.tuning import OBJECTIVES, Box, Found, judge, make, search, with_validation

from mfrank.data import Split
from mfrank.evaluation import NDCG, Recall

_WEIGHTED: Box = {"alpha": (1.0, 100.0), "regularization": (3.0, 300.0)}
_RANKING: Box = {"alpha": (0.005, 0.5), "regularization": (0.01, 1.0)}

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

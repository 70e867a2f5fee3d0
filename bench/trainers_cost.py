"""What a step and an epoch of mfrank.Descent cost, and how the cost grows with the items.

    steps      each loss against the same step in PyTorch with autograd, and LibAUC's own SONG and
               K-SONG losses in that step (step_race.py); gradients are first shown to agree
    bpr        BPR against implicit's: seconds per epoch, and until implicit's final NDCG@20
               (bpr_race.py); tune, which is not run by default, searches the options of both
    catalog    SONG by samples and exactly, against the number of items (catalog_growth.py)

    python bench/trainers_cost.py
    python bench/trainers_cost.py --parts steps --data ml-1m --factors 64 --losses SONG KSONG

PyTorch and LibAUC: pip install torch; pip install --no-deps libauc (its losses need no more).
"""

from __future__ import annotations

import argparse
import json
from importlib.util import find_spec

from harness.records import line, parser, save
from harness.subjects import interactions

LOSSES = (
    *("SONG", "KSONG", "SOPRC", "SOLC", "BPR", "BCE", "SampledSoftmax", "Softmax", "Sparsemax"),
    *("ListNet", "ListMLE", "LambdaRank", "ApproxNDCG", "SmoothAP", "UIB"),
    *("SML", "NeuralNDCG", "StochasticRank"),
)
DATA = ("ml-1m", "gowalla")
PARTS = ("steps", "bpr", "catalog", "tune")


def main() -> None:
    """Measure, print and save, part after part."""
    made = parser(__doc__)
    made.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS[:3]))
    made.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    made.add_argument("--factors", nargs="+", type=int, default=[64, 256])
    made.add_argument("--losses", nargs="+", choices=LOSSES, default=list(LOSSES))
    made.add_argument("--steps", type=int, default=10, help="timed in each round")
    made.add_argument(
        "--memory", nargs="*", default=["SONG", "BPR"], help="losses whose peak is measured too"
    )
    made.add_argument("--bpr-factors", type=int, default=64)
    made.add_argument(
        "--patience", type=float, default=40.0, help="seconds of training that a BPR fit may take"
    )
    made.add_argument("--options", type=json.loads, default={}, help="JSON: BPR's, by contender")
    args = made.parse_args()

    measures = {"steps": steps, "bpr": bpr, "catalog": catalog, "tune": tune}
    for part in args.parts:
        measures[part](args)


def steps(args: argparse.Namespace) -> None:
    """A file for each data set and number of factors."""
    if find_spec("torch") is None:
        print("steps: skipped, torch is not installed")
        return
    from ranking_losses.agreement import check_all
    from ranking_losses.step_race import race

    args.libauc = find_spec("libauc") is not None
    if not args.libauc:
        print("LibAUC: skipped, it is not installed (pip install --no-deps libauc)")
    for name in args.data:
        data = interactions(name)
        check_all(data, args.libauc)
        for factors in args.factors:
            rows = race(data, factors, args)
            print("\n".join(f"{name}, {line(row)}" for row in rows), flush=True)
            save(args.folder, f"trainers-cost-{name}-{factors}", rows)


def bpr(args: argparse.Namespace) -> None:
    """A file for each data set."""
    from ranking_losses.bpr_race import race

    for name in args.data:
        rows = race(name, args)
        print("\n".join(f"{name}, {line(row)}" for row in rows), flush=True)
        save(args.folder, f"trainers-bpr-{name}-{args.bpr_factors}", rows)


def tune(args: argparse.Namespace) -> None:
    """Print only."""
    from ranking_losses.bpr_race import tune

    for name in args.data:
        tune(name, args)


def catalog(args: argparse.Namespace) -> None:
    """One file."""
    from ranking_losses.catalog_growth import MODES, grow

    rows = []
    for mode in MODES:
        rows += grow(mode, args)
        print("\n".join(line(row) for row in rows if row["mode"] == mode), flush=True)
    save(args.folder, "trainers-catalog", rows)


if __name__ == "__main__":
    main()

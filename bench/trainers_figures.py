"""How the trainers converge: validation NDCG@20 against epochs and against seconds of training.

On ml-1m, 64 factors, all by Adam at one constant rate (a smaller one after a warm-up), without
weight decay; a figure for each question, its numbers beside it. Seconds count all that ``fit``
does, a warm-up included, and none of the judging.

    moving-average  SONG, with averages of decay .1 and .3, and without (1)
    ksong           K-SONG, practical and theoretical
    full-list       exact SONG over whole lists, and by samples
    warm-up         SONG from scratch, after SOLC, after ALS
    baselines       SONG and K-SONG beside BPR, SampledSoftmax and ListNet

    python bench/trainers_figures.py
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.courses import Course
from harness.records import line, parser, save
from harness.subjects import load
from time_to_quality import Point

import mfrank
from mfrank.data import Split
from mfrank.losses import Loss

FIGURES = Path(__file__).parent / "figures"
DATA, FACTORS, EPOCHS, WARM = "ml-1m", 64, 80, 10
RATE, LATER_RATE = 0.02, 0.001
"""Learning rates of Adam, from scratch and after a warm-up."""


@dataclass(frozen=True)
class Stage:
    """A part of a fit: a loss to descend, over samples or whole lists, or an objective of ALS."""

    goal: Any
    epochs: int = EPOCHS
    whole_lists: bool = False
    learning_rate: float = RATE

    def model(self, n_threads: int) -> mfrank.ALS | mfrank.Descent:
        """Ready to fit."""
        shared: dict[str, Any] = {
            "factors": FACTORS,
            "iterations": self.epochs,
            "n_threads": n_threads,
            "random_state": 0,
        }
        if not isinstance(self.goal, Loss):
            return mfrank.ALS(self.goal, **shared)
        if self.whole_lists:
            shared |= {"positives": None, "negatives": None}
        return mfrank.Descent(
            self.goal,
            optimizer=mfrank.Adam(self.learning_rate),
            schedule=mfrank.Constant(),
            scores="dot",
            init="random",
            **shared,
        )


Stages = tuple[Stage, ...]

_SONG = Stage(mfrank.SONG())
_KSONG = Stage(mfrank.KSONG(k=20))

CURVES: dict[str, dict[str, Stages]] = {
    "moving-average": {
        "decay 0.1": (_SONG,),
        "decay 0.3": (Stage(mfrank.SONG(decay=0.3)),),
        "no average": (Stage(mfrank.SONG(decay=1)),),
    },
    "ksong": {
        "SONG": (_SONG,),
        "K-SONG, practical": (_KSONG,),
        "K-SONG, theoretical": (Stage(mfrank.KSONG(k=20, theoretical=True)),),
    },
    "full-list": {
        "samples": (_SONG,),
        "whole lists": (Stage(mfrank.SONG(decay=1), whole_lists=True),),
    },
    "warm-up": {
        "SONG": (_SONG,),
        "SOLC": (Stage(mfrank.SOLC()),),
        "SOLC, then SONG": (
            Stage(mfrank.SOLC(), WARM),
            Stage(mfrank.SONG(), EPOCHS - WARM, learning_rate=LATER_RATE),
        ),
        "ALS, then SONG": (
            Stage(mfrank.IALS(alpha0=0.231, regularization=0.0179, nu=0.9), 2),
            Stage(mfrank.SONG(), EPOCHS - 2, learning_rate=LATER_RATE),
        ),
    },
    "baselines": {
        "SONG": (_SONG,),
        "K-SONG": (_KSONG,),
        "BPR": (Stage(mfrank.BPR()),),
        "SampledSoftmax": (Stage(mfrank.SampledSoftmax()),),
        "ListNet": (Stage(mfrank.ListNet()),),
    },
}


def course(stages: Stages, split: Split, args: argparse.Namespace) -> list[Point]:
    """Fit stage after stage, on one clock."""
    slow = any(stage.whole_lists for stage in stages)
    every, patience = (1, 3 * args.patience) if slow else (args.every, args.patience)
    judged = Course(split.train, split.valid, patience, every)
    judged.begin()
    before = None
    for stage in stages:
        if judged.is_over:
            break
        model = stage.model(args.threads)
        model.fit(split.train, start=before, callback=lambda *_, now=model: judged.watch(now))
        before = model
    return judged.points


def plot(curves: dict[str, list[Point]], path: Path) -> None:
    """NDCG@20 against epochs and against seconds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    by_epoch, by_second = figure.subplots(1, 2, sharey=True)
    for name, points in curves.items():
        quality = [point.ndcg for point in points]
        by_epoch.plot([point.epoch for point in points], quality, label=name)
        by_second.plot([point.seconds for point in points], quality, label=name)
    by_epoch.set(xlabel="epochs", ylabel="validation NDCG@20")
    by_second.set(xlabel="seconds of training")
    for panel in (by_epoch, by_second):
        panel.grid(alpha=0.3)
    by_epoch.legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def main() -> None:
    """Fit each curve once, save, plot."""
    made = parser(__doc__)
    made.add_argument("--only", nargs="+", choices=CURVES, default=list(CURVES))
    made.add_argument(
        "--patience",
        type=float,
        default=20.0,
        help="seconds of training a curve, thrice that over whole lists",
    )
    made.add_argument("--every", type=int, default=2, help="epochs from one judgement to the next")
    made.add_argument("--figures", type=Path, default=FIGURES, help="where the PNGs are written")
    args = made.parse_args()

    split, fits = load(DATA), dict[Stages, list[Point]]()
    for figure in args.only:
        curves = CURVES[figure]
        for stages in curves.values():
            if stages not in fits:
                fits[stages] = course(stages, split, args)
        own = {name: fits[stages] for name, stages in curves.items()}
        rows = [
            {"curve": name, "epoch": point.epoch, "seconds": point.seconds, "ndcg@20": point.ndcg}
            for name, points in own.items()
            for point in points
        ]
        for name, points in own.items():
            best = max(points, key=lambda point: point.ndcg)
            print(f"{figure}, {name}, best: {line(best._asdict())}", flush=True)
        save(args.folder, f"convergence-{figure}", rows)
        plot(own, args.figures / f"convergence-{figure}.png")


if __name__ == "__main__":
    main()

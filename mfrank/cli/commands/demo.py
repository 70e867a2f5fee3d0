"""Compare, fit and recommend on synthetic data, in less than a minute.

The data have long tails, drifting latent tastes and readable names.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mfrank.als import RG2
from mfrank.arrays import counted
from mfrank.backends import choose
from mfrank.cli.printing import command_line, listing, somebody_watches
from mfrank.comparison import compare
from mfrank.data import Interactions, by_ratio, synthetic, write_table
from mfrank.files import path_of
from mfrank.models import ALS

EXAMPLES = """\
  mfrank demo
  mfrank demo --output somewhere --random-state 7
"""


@dataclass(frozen=True, slots=True)
class Scale:
    """Size of the demo."""

    users: int
    items: int
    interactions: int
    factors: int
    iterations: int
    repeats: int


FULL = Scale(3_000, 1_500, 120_000, factors=32, iterations=10, repeats=3)
SMALL = Scale(600, 300, 15_000, factors=16, iterations=5, repeats=1)
"""For the backend in numpy, which is many times slower than the C++ extension."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank demo``."""
    parser.add_argument(
        "--output",
        default="mfrank-demo",
        metavar="FOLDER",
        help="folder for all files (default: mfrank-demo)",
    )
    parser.add_argument(
        "--random-state",
        type=int,
        default=0,
        metavar="INT",
        help="seed of the data, the split and the factors (default: 0)",
    )


def run(args: argparse.Namespace) -> None:
    """Make data, compare, fit, recommend."""
    folder, seed = path_of(args.output), args.random_state
    folder.mkdir(parents=True, exist_ok=True)
    scale = SMALL if choose() is choose("numpy") else FULL
    data = synthetic(scale.users, scale.items, scale.interactions, names=True, random_state=seed)
    print("Compares models on made-up data: less than a minute on two cores.")
    columns = {
        "user": data.user_ids.raw(data.entry_users),
        "item": data.item_ids.raw(data.user_items.indices),
        "timestamp": np.asarray(data.timestamps),
    }
    write_table(folder / "interactions.csv", columns)
    print(f"Made {data}.\n")

    split = by_ratio(data, train=0.8, test=0.2, random_state=seed)
    comparison = compare(
        split,
        factors=scale.factors,
        iterations=scale.iterations,
        repeats=scale.repeats,
        random_state=seed,
        show_progress=somebody_watches(),
    )
    comparison.to_csv(folder / "comparison.csv")
    comparison.to_json(folder / "comparison.json")
    print(f"{comparison}\n")

    model = ALS(RG2(), factors=scale.factors, iterations=scale.iterations, random_state=seed).fit(
        data
    )
    model.save(folder / "model")
    write_table(folder / "recommendations.csv", listing(model, model.user_ids.labels))
    _show_someone(model, data)
    print(f"\nIn {folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")
    print("Next, for example:")
    for words in _next(folder, model):
        print(f"  {command_line(*words)}")


def _next(folder: Path, model: ALS) -> list[tuple[object, ...]]:
    """Commands that go on from the demo's files."""
    data, saved, user = folder / "interactions.csv", folder / "model", model.user_ids.labels[0]
    item = model.recommend(user, N=1)[0][0]
    return [
        ("recommend", "--model", saved, "--user", user),
        ("explain", "--model", saved, user, item),
        ("similar-items", "--model", saved, item),
        ("fit", data, "--model", folder / "ials", "--objective", "ials", "--hold-out", "0.1"),
        ("descend", data, "--model", folder / "ranked", "--factors", model.factors),
        ("pagerank", data, "--model", folder / "walk"),
    ]


def _show_someone(model: ALS, data: Interactions) -> None:
    """Print some items of one user, and the items recommended to them."""
    user = int(np.argsort(data.counts.users, kind="stable")[data.n_users // 2])
    items = data.user_items[[user]].indices
    had = data.item_ids.raw(items[:8])
    best, _ = model.recommend(user, N=8, by_row=True)
    print(f"{data.user_ids.labels[user]} had {counted(len(items), 'item')}, among them")
    print(f"  {', '.join(had)}")
    print("and RG2, fitted to all interactions, recommends")
    print(f"  {', '.join(data.item_ids.raw(best))}")

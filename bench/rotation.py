"""How well a ranking loss ranks whose users and items are trained in blocks, as on a cluster.

Fits take ten epochs, with default options otherwise, in one process and by rotation over 2, 4 and 8
blocks. Rotation is what ``fit(cluster=...)`` does; there the data decide on the number of blocks,
which ``of_data`` tells. The number of workers changes no bit, so there is only one. NDCG@20 on the
test part is a mean over the seeds. ``gain`` is the gain over one process; its standard error is
that of the mean over users, paired.

    python bench/rotation.py ml-1m
    python bench/rotation.py gowalla --repeats 1
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from harness.records import line, parser, save
from harness.subjects import load

import mfrank
from mfrank.data import Split
from mfrank.descent.rotation import count_blocks
from mfrank.models import descent

JUDGE = mfrank.NDCG @ 20
LOSSES: dict[str, mfrank.Loss] = {"BPR": mfrank.BPR(), "SampledSoftmax": mfrank.SampledSoftmax()}


def per_user(
    args: argparse.Namespace, name: str, batches: Any, n_blocks: int, split: Split
) -> np.ndarray:
    """NDCG@20 of each test user, as the mean over the seeds."""
    descent.count_blocks = lambda *_: n_blocks
    values = []
    for seed in range(args.repeats):
        model = mfrank.Descent(
            LOSSES[name],
            factors=args.factors,
            iterations=args.epochs,
            batches=batches,
            batch_size=256 if batches == "users" else 2560,
            n_threads=args.threads,
            random_state=seed,
        )
        model.fit(split.train, cluster=None if n_blocks == 1 else 1)
        found = mfrank.evaluate(model, split.test, train=split.train, metrics=JUDGE)[JUDGE]
        values.append(found.per_user)
    return np.mean(values, axis=0)


def main() -> None:
    """Fit, judge, print and save."""
    made = parser(__doc__)
    made.add_argument("data", choices=("gowalla", "ml-1m"))
    made.add_argument("--factors", type=int, default=64)
    made.add_argument("--epochs", type=int, default=10)
    made.add_argument("--blocks", type=int, nargs="+", default=[1, 2, 4, 8])
    made.add_argument("--batches", choices=("users", "positives"), default="users")
    args = made.parse_args()

    split = load(args.data)
    visits = split.train.n_users if args.batches == "users" else split.train.nnz
    of_data = count_blocks(visits, split.train.n_items)
    rows = []
    for name in LOSSES:
        alone = np.empty(0)
        for n_blocks in args.blocks:
            values = per_user(args, name, args.batches, n_blocks, split)
            alone = values if n_blocks == 1 else alone
            root = np.sqrt(len(values))
            row = {
                "data": args.data,
                "loss": name,
                "batches": args.batches,
                "blocks": n_blocks,
                "of_data": of_data,
                "epochs": args.epochs,
                "ndcg@20": float(values.mean()),
                "standard_error": float(values.std(ddof=1) / root),
            }
            if n_blocks > 1 and len(alone):
                row["gain"] = float((values - alone).mean())
                row["gain_error"] = float((values - alone).std(ddof=1) / root)
            rows.append(row)
            print(line(row), flush=True)
    save(args.folder, f"rotation-{args.data}-{args.batches}", rows)


if __name__ == "__main__":
    main()

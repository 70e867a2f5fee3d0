"""What sending workers half the bytes loses: ``gather_dtype="float16"`` beside float32.

Fits ALS on two worker processes, with the library's defaults otherwise. ``mib_out`` is what the
client sends the workers in the last epoch. ``loss`` is by how much NDCG@20 on the test part falls;
``loss_error`` is the standard error of its mean over users, paired. The objective is that of the
factors at the end of the fit.

    python bench/float16_wire.py
    python bench/float16_wire.py --data ml-1m --factors 16
"""

from __future__ import annotations

from typing import Any

import numpy as np
from harness.cluster_fits import on_processes
from harness.records import line, parser, save
from harness.subjects import load

import mfrank
from mfrank.als import HalfSteps
from mfrank.backends import SolveOptions, choose
from mfrank.data import Interactions

JUDGE = mfrank.NDCG @ 20
OBJECTIVES = {"IALS": mfrank.IALS(), "RG2": mfrank.RG2()}


def main() -> None:
    """Fit, judge, print and save."""
    made = parser(__doc__)
    made.add_argument("--data", nargs="+", default=["gowalla", "ml-1m"])
    made.add_argument("--factors", type=int, default=64)
    made.add_argument("--epochs", type=int, default=10)
    args = made.parse_args()

    rows: list[dict[str, Any]] = []
    for data in args.data:
        split = load(data)
        for name, objective in OBJECTIVES.items():
            exact: np.ndarray | None = None
            for sent in (None, "float16"):
                model = mfrank.ALS(
                    objective,
                    args.factors,
                    args.epochs,
                    gather_dtype=sent,
                    random_state=0,
                    n_threads=args.threads,
                )
                row = {"data": data, "model": name, "sent": sent or "float32"}
                row |= {"mib_out": fit(model, split.train), "objective": value(model, split.train)}
                found = mfrank.evaluate(model, split.test, train=split.train, metrics=JUDGE)[JUDGE]
                row["ndcg@20"] = float(found.per_user.mean())
                if exact is None:
                    exact = found.per_user
                else:
                    loss = exact - found.per_user
                    row["loss"] = float(loss.mean())
                    row["loss_error"] = float(loss.std(ddof=1) / np.sqrt(len(loss)))
                rows.append(row)
                print(line(row), flush=True)
    save(args.folder, f"float16-wire-{args.factors}", rows)


def fit(model: mfrank.ALS, train: Interactions) -> float:
    """Fit on two workers; return the MiB that were sent in the last epoch."""
    out: list[int] = []
    with on_processes(2) as counted:
        model.fit(train, cluster=counted.cluster, callback=lambda *_: out.append(counted.bytes.out))
    return (out[-1] - out[-2]) / 2**20


def value(model: mfrank.ALS, train: Interactions) -> float:
    """The objective at the model's factors, computed term by term."""
    steps = HalfSteps(model.objective, train.counts, choose("cpu"), SolveOptions())
    rows = steps.user_problem(train.user_rows(np.float32))
    columns = steps.item_problem(train.item_rows(np.float32))
    return steps.value(rows, columns, model.user_factors, model.item_factors)


if __name__ == "__main__":
    main()

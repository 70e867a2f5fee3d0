"""ALS beside Spark MLlib's, in local mode: seconds per epoch, objective, memory, repeatability.

One objective for both, Spark's: confidence 1 + alpha r on observed cells, 1 on the rest, and a
ridge of ``regularization`` times the number of a row's observed cells (``SparkALS`` below). Both
solve rows exactly. Spark does not report its epochs: the seconds of an epoch are what a fit of
``--epochs`` takes longer than a fit of one epoch, divided by the further epochs. ``start_seconds``
is the rest of the fit, after the session has started, a first fit has warmed it up, and the
interactions are cached. ``same_bits`` is whether two fits with one seed have the same factors.
``peak_mib`` is the most memory that the fitting process has held; for Spark that is the Java
process.

Needs Java 17, ``pip install pyspark``, and the system's BLAS and LAPACK (``libopenblas0-pthread``
and ``liblapack3`` on Debian), without which Spark's own Java is slower.

    python bench/spark.py --data gowalla globo ml-20m-shape --factors 64
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from harness.records import line, parser, save
from harness.subjects import interactions

import mfrank
from mfrank.arrays import CSR
from mfrank.backends import RowProblem
from mfrank.comparison import objective_value
from mfrank.data import Counts, Interactions

os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


@dataclass(frozen=True, kw_only=True)
class SparkALS(mfrank.WRMF):
    """WRMF with Spark's ridge."""

    def user_problem(
        self, user_items: CSR, counts: Counts, *, total: float | None = None
    ) -> RowProblem:
        """The rows of users, with their ridge."""
        return self._weighed(super().user_problem(user_items, counts, total=total))

    def item_problem(self, item_users: CSR, counts: Counts) -> RowProblem:
        """The rows of items, with theirs."""
        return self._weighed(super().item_problem(item_users, counts))

    def _weighed(self, problem: RowProblem) -> RowProblem:
        return replace(problem, ridge=self.regularization * problem.rows.counts.astype(np.float64))


@dataclass
class Factors:
    """What a fit found, and the seconds it took."""

    user_factors: Any
    item_factors: Any
    seconds: float


class Spark:
    """MLlib's ALS on a session of its own, with the interactions cached."""

    def __init__(self, data: Interactions, threads: int, memory: str) -> None:
        from pyspark.sql import SparkSession

        self._session = (
            SparkSession.builder.master(f"local[{threads}]")
            .config("spark.driver.memory", memory)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.execution.arrow.pyspark.enabled", "true")
            .getOrCreate()
        )
        self._session.sparkContext.setLogLevel("ERROR")
        cells = data.to_scipy().tocoo()
        import pandas as pd

        table = pd.DataFrame({"user": cells.row, "item": cells.col, "rating": cells.data})
        self._table = self._session.createDataFrame(table).cache()
        self._table.count()
        self._shape = cells.shape

    def fit(self, objective: SparkALS, factors: int, epochs: int) -> Factors:
        """Fit, and collect the factors, which is not timed."""
        from pyspark.ml.recommendation import ALS

        als = ALS(
            rank=factors,
            maxIter=epochs,
            regParam=objective.regularization,
            alpha=objective.alpha,
            implicitPrefs=True,
            userCol="user",
            itemCol="item",
            ratingCol="rating",
            seed=0,
        )
        began = perf_counter()
        model = als.fit(self._table)
        seconds = perf_counter() - began
        sides = zip((model.userFactors, model.itemFactors), self._shape, strict=True)
        return Factors(*(self._collected(side, n, factors) for side, n in sides), seconds)

    def peak_mib(self) -> float:
        """The most that the Java process has held."""
        gateway = self._session.sparkContext._gateway
        status = Path(f"/proc/{gateway.proc.pid}/task/{gateway.proc.pid}/children").read_text()
        java = [gateway.proc.pid, *map(int, status.split())]
        return max(_high_water(process) for process in java)

    def stop(self) -> None:
        """End the session."""
        self._session.stop()

    @staticmethod
    def _collected(side: Any, n: int, factors: int) -> Any:
        table = side.toPandas()
        found = np.zeros((n, factors), np.float32)
        found[table["id"].to_numpy()] = np.stack(table["features"].to_numpy())
        return found


class Mfrank:
    """ALS in this process, with exact solves."""

    def __init__(self, data: Interactions, threads: int) -> None:
        self._data, self._threads = data, threads
        data.user_rows(np.float32), data.item_rows(np.float32)

    def fit(self, objective: SparkALS, factors: int, epochs: int) -> Factors:
        """Fit."""
        began = perf_counter()
        model = mfrank.ALS(
            objective,
            factors=factors,
            iterations=epochs,
            solver="cholesky",
            n_threads=self._threads,
            random_state=0,
        ).fit(self._data)
        return Factors(model.user_factors, model.item_factors, perf_counter() - began)


@contextmanager
def spark(data: Interactions, args: Any) -> Iterator[Spark]:
    """A session that ends."""
    session = Spark(data, args.threads, args.memory)
    try:
        yield session
    finally:
        session.stop()


def row(name: str, library: Any, data: Interactions, factors: int, args: Any) -> dict[str, Any]:
    """What the library took and found: fits of one epoch and of all, twice, the better seconds."""
    short = [library.fit(objective(args), factors, 1).seconds for _ in range(args.repeats)]
    fits = [library.fit(objective(args), factors, args.epochs) for _ in range(max(2, args.repeats))]
    least = min(fit.seconds for fit in fits)
    epoch = (least - min(short)) / (args.epochs - 1)
    pairs = zip(fits[0].user_factors, fits[1].user_factors, strict=True)
    return {
        "factors": factors,
        "library": name,
        "seconds_per_epoch": epoch,
        "start_seconds": least - args.epochs * epoch,
        "seconds": least,
        f"objective@{args.epochs}": objective_value(objective(args), fits[0], data, args.threads),
        "same_bits": all(np.array_equal(one, other) for one, other in pairs),
    }


def main() -> None:
    """Measure, print and save."""
    made = parser(__doc__, repeats=2)
    made.add_argument("--data", nargs="+", default=["gowalla", "globo", "ml-20m-shape"])
    made.add_argument("--factors", nargs="+", type=int, default=[64])
    made.add_argument("--epochs", type=int, default=6)
    made.add_argument("--alpha", type=float, default=10.0)
    made.add_argument("--regularization", type=float, default=0.05)
    made.add_argument("--memory", default="12g", help="of Spark's Java process")
    args = made.parse_args()

    rows: list[dict[str, Any]] = []
    for name in args.data:
        data = interactions(name)
        for factors in args.factors:
            own = row("mfrank", Mfrank(data, args.threads), data, factors, args)
            own["peak_mib"] = _high_water(os.getpid())
            with spark(data, args) as session:
                session.fit(objective(args), factors, 1)
                theirs = row("spark", session, data, factors, args)
                theirs["peak_mib"] = session.peak_mib()
            for each in (own, theirs):
                each["over_mfrank"] = each["seconds_per_epoch"] / own["seconds_per_epoch"]
                rows.append({"data": name, **each})
                print(line(rows[-1]), flush=True)
        save(args.folder, "spark", rows)


def objective(args: Any) -> SparkALS:
    """Spark's, as the arguments have it."""
    return SparkALS(alpha=args.alpha, regularization=args.regularization, confidence="1+alpha*r")


def _high_water(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next((float(x.split()[1]) / 1024 for x in lines if x.startswith("VmHWM")), 0.0)


if __name__ == "__main__":
    main()

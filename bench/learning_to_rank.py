"""How well a linear scorer ranks judged documents under each loss, all tuned alike.

Learning rate (Adam) and weight decay are those with the best held-out NDCG@10. Every pair is fitted
once per seed; the seed draws the fifth of the training queries that is held out, and the epoch that
ranks these best is kept. The fits of the best pair are judged on the test part. Gains are
2^relevance - 1; queries without relevant documents count as 0. The last row is the single feature
that ranks the training part best.

    python bench/learning_to_rank.py mq2008-fold1
    python bench/learning_to_rank.py lightgbm-rank
"""

from __future__ import annotations

import itertools
from time import perf_counter
from typing import Any

import numpy as np
from harness.records import line, parser, save
from harness.subjects import judged
from numpy.typing import ArrayLike

from mfrank.data import Judged
from mfrank.descent import Adam
from mfrank.evaluation import NDCG, evaluate_queries
from mfrank.losses import (
    BPR,
    KSONG,
    SONG,
    ApproxNDCG,
    LambdaRank,
    ListMLE,
    ListNet,
    Loss,
    NeuralNDCG,
    RankNet,
    Softmax,
    StochasticRank,
)
from mfrank.models import LinearRanker

LOSSES: tuple[Loss, ...] = (
    LambdaRank(), RankNet(), ListNet(), ListMLE(), Softmax(), ApproxNDCG(), NeuralNDCG(), SONG(),
    KSONG(), StochasticRank(), BPR(),
)  # fmt: skip
GRID = tuple(itertools.product((0.01, 0.03, 0.1), (0.0, 0.01, 0.1)))
EPOCHS = 30
NDCGS = (NDCG(gain="exponential") @ 5, NDCG(gain="exponential") @ 10)


def ndcg(documents: Judged, scores: ArrayLike) -> list[float]:
    """NDCG@5 and @10."""
    found = evaluate_queries(documents, scores, NDCGS)
    return [found[metric].value for metric in NDCGS]


def fit(
    loss: Loss, rate: float, decay: float, train: Judged, seed: int
) -> tuple[float, int, np.ndarray[Any, Any]]:
    """Best NDCG@10 on a fifth of the queries, its epoch, and the coefficients there."""
    kept, held = train.hold_out(0.2, seed)
    ranker = LinearRanker(
        loss, Adam(rate), iterations=EPOCHS, weight_decay=decay, random_state=seed
    )
    best: tuple[float, int, np.ndarray[Any, Any]] = (-1.0, 0, np.zeros(train.n_features))

    def look(epoch: int, *_: object) -> None:
        nonlocal best
        value = ndcg(held, ranker.score(held))[1]
        if value > best[0]:
            best = (value, epoch + 1, ranker.coefficients)

    ranker.fit(kept, callback=look)
    return best


def row(loss: Loss, train: Judged, test: Judged, repeats: int) -> dict[str, Any]:
    """A loss with the hyper-parameters that rank best, judged on the test part."""
    began = perf_counter()
    tried = {
        (rate, decay): [fit(loss, rate, decay, train, seed) for seed in range(repeats)]
        for rate, decay in GRID
    }
    rate, decay = max(tried, key=lambda pair: sum(value for value, *_ in tried[pair]))
    fits = tried[rate, decay]
    values = np.array([ndcg(test, test.features @ coefficients) for *_, coefficients in fits])
    return {
        "loss": type(loss).__name__,
        "learning rate": rate,
        "weight decay": decay,
        "epochs": [epoch for _, epoch, _ in fits],
        **summary(values),
        "held-out ndcg@10": float(np.mean([value for value, *_ in fits])),
        "fit seconds": (perf_counter() - began) / (len(GRID) * repeats),
    }


def single_feature(train: Judged, test: Judged) -> dict[str, Any]:
    """The feature, upward or downward, that ranks the training part best."""
    ways = [sign * row for row in np.eye(train.n_features) for sign in (1, -1)]
    best = max(ways, key=lambda way: ndcg(train, train.features @ way)[1])
    name = f"feature {int(np.abs(best).argmax()) + 1}"
    return {"loss": name, **summary(np.array([ndcg(test, test.features @ best)]))}


def summary(values: np.ndarray[Any, Any]) -> dict[str, float]:
    """Means over seeds, and deviations where there are several."""
    found: dict[str, float] = {}
    for name, column in zip(("ndcg@5", "ndcg@10"), values.T, strict=True):
        found[name] = float(column.mean())
        if len(column) > 1:
            found[f"{name} deviation"] = float(column.std(ddof=1))
    return found


def main() -> None:
    """Measure, print and save."""
    made = parser(__doc__)
    made.add_argument("data", choices=("mq2008-fold1", "lightgbm-rank"))
    args = made.parse_args()
    train, test = judged(args.data)
    rows = []
    for loss in LOSSES:
        rows.append(row(loss, train, test, args.repeats))
        print(line(rows[-1]), flush=True)
    rows.append(single_feature(train, test))
    print(line(rows[-1]), flush=True)
    counts = {
        name: {"documents": len(part.features), "queries": part.n_queries, "empty": empty(part)}
        for name, part in {"train": train, "test": test}.items()
    }
    save(args.folder, f"learning-to-rank-{args.data}", rows, parts=counts, epochs=EPOCHS)


def empty(documents: Judged) -> int:
    """Queries with nothing relevant."""
    relevant = np.unique(documents.query_rows[documents.relevance > 0])
    return documents.n_queries - len(relevant)


if __name__ == "__main__":
    main()

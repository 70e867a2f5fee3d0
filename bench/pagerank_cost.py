"""What supervised PageRank costs: gradients, steps, stationary vectors, and how they grow.

gradient  the adjoint against the paper's matrix method at 26 + 52 features (pagerank/gradients.py)
steps     those that certificates ask for against those of Lemma 1, by accuracy of the loss
vectors   a stationary vector to a certified error of 1e-6: mfrank, scipy, scikit-network,
          networkx, on a graph like the web's and on globo's clicks (pagerank/peers.py)
many      the walks of many users at once, restarted at five articles of globo each
growth    vectors by edges and threads, gradients by edges, features and threads

python bench/pagerank_cost.py
python bench/pagerank_cost.py --parts vectors --edges 16000000 --without networkx
"""

from __future__ import annotations

import argparse
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness.records import line, parser, save
from pagerank.gradients import CONTENDERS, growth, race, turns
from pagerank.graphs import clicks, queries, web
from pagerank.peers import ALPHA, Found, Mfrank, peers

from mfrank.arrays import CSR
from mfrank.backends import choose
from mfrank.pagerank import (
    Problem,
    RandomWalk,
    Transitions,
    Walker,
    power,
    stationary_rows,
    steps_for_loss,
    tolerances_for_loss,
)

TOLERANCE = 1e-6
PARTS = ("gradient", "steps", "vectors", "many", "growth")


def main() -> None:
    """Measure, print and save, a file for each part."""
    made = parser(__doc__)
    made.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    made.add_argument("--edges", type=int, default=2_000_000, help="of the graph like the web's")
    made.add_argument("--without", nargs="*", default=[], help="peers to leave out")
    args = made.parse_args()

    measures = {
        "gradient": gradient,
        "steps": steps,
        "vectors": vectors,
        "many": many,
        "growth": grow,
    }
    for part in args.parts:
        rows = measures[part](args)
        print("\n".join(line(row) for row in rows), flush=True)
        save(args.folder, f"pagerank-{part}", rows)


def gradient(args: argparse.Namespace) -> list[dict[str, Any]]:
    """One row for each way."""
    return race(queries(), list(CONTENDERS), args.repeats, args.threads)


def steps(args: argparse.Namespace) -> list[dict[str, Any]]:
    """What the loss within an error takes, of power iteration and of the lemma's method."""
    problem = Problem.of(queries(), n_threads=args.threads)
    walk, rows = Transitions.of(problem.graphs), []
    for error in (1e-2, 1e-4, 1e-6, 1e-8, 1e-10):
        certified = power(walk, tolerances_for_loss(problem.pairs, error), problem.walker).steps
        lemma = steps_for_loss(int(problem.pairs.counts.max()), error, ALPHA)
        row = {
            "loss_error": error,
            "certified_mean": float(certified.mean()),
            "certified_most": int(certified.max()),
            "lemma": lemma,
        }
        rows.append(row | {"lemma_over_certified": lemma / row["certified_mean"]})
    return rows


def vectors(args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each graph and library."""
    rows = []
    for name, links in (("web", web(args.edges)), ("globo", clicks())):
        truth = Mfrank(1e-13, args.threads)(links).values
        contenders = peers(links, TOLERANCE, args.threads)
        for left_out in args.without:
            contenders.pop(left_out, None)
        rounds = turns(contenders, args.repeats)
        for contender, runs in rounds.items():
            found: list[Found] = [result for _, result in runs]
            row: dict[str, Any] = {
                "graph": name,
                "nodes": links.shape[0],
                "edges": links.nnz,
                "contender": contender,
                "seconds_per_vector": median(one.compute for one in found),
                "seconds_with_preparation": median(one.prepare + one.compute for one in found),
                "over_mfrank": median(
                    theirs.compute / own.compute
                    for theirs, (_, own) in zip(found, rounds["mfrank"], strict=True)
                ),
                "with_preparation_over_mfrank": median(
                    (theirs.prepare + theirs.compute) / (own.prepare + own.compute)
                    for theirs, (_, own) in zip(found, rounds["mfrank"], strict=True)
                ),
                "steps": found[0].steps,
                "true_error": float(np.abs(found[0].values - truth).sum()),
            }
            if found[0].steps:
                row["edges_per_second"] = (
                    links.nnz * found[0].steps / float(row["seconds_per_vector"])
                )
            rows.append(row)
    return rows


def many(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Personalized walks in one call, and by scipy with all columns at once."""
    links, rng = clicks(), np.random.default_rng(0)
    n, batch = links.shape[0], 128
    often = np.asarray(links.sum(axis=0)) / links.sum()
    picked = rng.choice(n, (batch, 5), p=often)
    starts = sp.csr_array(
        (np.full(picked.size, 0.2), (np.repeat(np.arange(batch), 5), picked.ravel())), (batch, n)
    )
    starts.sum_duplicates()
    walk, rows = RandomWalk.of(links), CSR.from_scipy(starts, np.float64)
    walker = Walker(ALPHA, choose("cpu"), args.threads)
    totals = links.sum(axis=1)
    inverse = np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0)
    forward = (sp.diags_array(inverse) @ links).T.tocsr()
    stuck = totals == 0

    def by_scipy() -> np.ndarray:
        begin = starts.toarray().T
        values, change = begin, np.inf
        while change > TOLERANCE * ALPHA / (1 - ALPHA):
            moved = forward @ values + begin * values[stuck].sum(axis=0)
            moved = ALPHA * begin + (1 - ALPHA) * moved
            change, values = np.abs(moved - values).sum(axis=0).max(), moved
        return np.asarray(values.T)

    rounds = turns(
        {
            "mfrank": lambda: stationary_rows(walk.moves, rows, TOLERANCE, walker),
            "scipy power": by_scipy,
        },
        args.repeats,
    )
    pairs = zip(rounds["mfrank"], rounds["scipy power"], strict=True)
    worst = max(np.abs(own[1] - theirs[1]).sum(axis=1).max() for own, theirs in pairs)
    if worst > 2 * TOLERANCE:
        raise ArithmeticError(f"mfrank and scipy differ by {worst:g}")
    return [
        {
            "graph": "globo",
            "edges": links.nnz,
            "walks": batch,
            "contender": name,
            "milliseconds_per_walk": 1e3 * median(seconds for seconds, _ in runs) / batch,
            "over_mfrank": median(
                theirs / own for (theirs, _), (own, _) in zip(runs, rounds["mfrank"], strict=True)
            ),
        }
        for name, runs in rounds.items()
    ]


def grow(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds of a vector, and of a gradient, as what they depend on grows."""
    rows: list[dict[str, Any]] = []
    sizes = [args.edges // 4 * 2**power for power in range(5)]
    for n_edges, threads in [(size, args.threads) for size in sizes] + [
        (args.edges, count) for count in range(1, args.threads + 1)
    ]:
        links, own = web(n_edges), Mfrank(TOLERANCE, threads)
        found = [own(links) for _ in range(args.repeats)]
        rows.append(
            {
                "what": "vector",
                "edges": links.nnz,
                "threads": threads,
                "seconds": median(one.compute for one in found),
                "preparation": median(one.prepare for one in found),
                "steps": found[0].steps,
            }
        )
    for row in growth(args.repeats, args.threads):
        rows.append({"what": "gradient", "seconds": row.pop("seconds_per_gradient"), **row})
    return rows


if __name__ == "__main__":
    main()

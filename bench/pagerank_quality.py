"""How low each learner of supervised PageRank brings the loss, and how well its walk ranks.

In the form of the paper's Table 1 (Bogolubsky et al. 2016): untuned (all weights 1), GBP at the
paper's step sizes and with its stop rule, GBP tuned, GBN and GFN; beside them a walk by transition
counts alone, item-kNN and ALS, on the same sequences. Queries are sequences of pages, cut by time
(:mod:`pagerank.subjects`): weights are learned on queries of the first stage, with the graph of
what was known by then; everything else is chosen by NDCG@20 on the second; the third judges, with
the graph of what is known by then. kNN and ALS are fitted to what a stage knows.

All learners have the same problem: alpha is the one with which the untuned walk ranks best; the
margin of the loss and the radius of the ball are those with which GBN does. Then every learner has
the trials that :mod:`pagerank.contenders` names (GBN has no step size to tune). Losses are means
over up to 1,000 queries whose answer is in the graph, against the 50 pages that the untuned walk
finds most likely; NDCG and MRR of the next page at 20, all pages ranked, over all test sequences.
``p`` values are of paired t-tests over queries. Seconds are only indicative: the machine was not
kept free of other work.

Rows are written one by one: the same command goes on where it was interrupted.

    python bench/pagerank_quality.py wikispeedia
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import numpy as np
from harness import tuning
from harness.records import line, parser, save
from numpy.typing import NDArray
from pagerank import contenders as contenders
from pagerank import subjects as subjects
from pagerank.contenders import MRR, NDCG
from pagerank.contest import Contest, Setting
from scipy.stats import ttest_rel

from mfrank.arrays import lazy
from mfrank.evaluation import Evaluation
from mfrank.pagerank import Problem, Transitions, power

Floats = NDArray[np.float64]

LOSS_WITHIN = 1e-9

UNTUNED, COUNTS, GBP = "untuned", "transition counts", "GBP"
LEARNERS = (
    *(f"GBP {step:g}" for step in contenders.PAPER_STEPS),
    GBP,
    f"GBN {contenders.EARLY:g}",
    "GBN",
    "GFN",
)
NEIGHBOURS, ALS = "item-kNN", "ALS"
ORDER = (UNTUNED, COUNTS, *LEARNERS, NEIGHBOURS, ALS)
YARDSTICKS = (UNTUNED, COUNTS, "GBP 500", GBP, "GBN")
"""What others are tested against; of the paper's step sizes, the largest."""


class Rows:
    """Makes the rows of a contest, at its setting."""

    def __init__(self, contest: Contest, setting: Setting) -> None:
        self.contest, self.setting = contest, setting
        self.losses: dict[str, Floats] = {}
        self.ranks: dict[str, Evaluation] = {}

    @lazy
    def learn(self) -> Problem:
        """What weights are learned on."""
        return self._problem("learn")

    @lazy
    def test(self) -> Problem:
        """What their loss is judged on."""
        return self._problem("test")

    def _problem(self, stage: str) -> Problem:
        at = self.setting
        return self.contest.problem(self.contest.queries(stage, at.alpha), at.alpha, at.margin)

    def judge(self, name: str, weights: Floats) -> None:
        """Keep the test losses and ranks of a walk, query by query."""
        test = self.test
        values = power(Transitions.of(test.graphs, weights), LOSS_WITHIN, test.walker).values
        self.losses[name] = test.pairs.losses(values)
        self.ranks[name] = self.contest.judged("test", weights, self.setting.alpha)

    def row(self, name: str) -> dict[str, Any]:
        """Tune, judge on the test part."""
        if name in (UNTUNED, COUNTS):
            return self._of_weights(
                name, self.contest.ones if name == UNTUNED else self.contest.counts
            )
        if name in LEARNERS:
            return self._of_learner(name)
        return self._of_peer(name)

    def _of_weights(self, name: str, weights: Floats, **more: Any) -> dict[str, Any]:
        self.judge(name, weights)
        losses = {
            "train_loss": self.learn.loss(weights, LOSS_WITHIN),
            "test_loss": float(self.losses[name].mean()),
        }
        kept = {"weights": weights.tolist(), "steps": 0, **more}
        return {"method": name, **kept, **losses, **self._ranked(name)}

    def _of_learner(self, name: str) -> dict[str, Any]:
        found = []
        for method in contenders.methods(name, self.setting.radius):
            tried = contenders.learned(method, self.learn)
            value = self.contest.judged("valid", tried.weights, self.setting.alpha)[NDCG].value
            print(f"  {method} {tried.steps} steps, valid NDCG@20 {value:.4f}", flush=True)
            found.append((value, tried, method))
        value, best, method = max(found, key=lambda trial: trial[0])
        options = {
            key: getattr(method, key) for key in ("step_size", "smoothness") if hasattr(method, key)
        }
        more = {"options": options, "steps": best.steps, "seconds": best.seconds}
        return self._of_weights(name, best.weights, **more, **{"valid_ndcg@20": value})

    def _of_peer(self, name: str) -> dict[str, Any]:
        found = [(self._peer(name, trial, "valid")[NDCG].value, trial) for trial in _trials(name)]
        value, options = max(found, key=lambda trial: trial[0])
        self.ranks[name] = self._peer(name, options, "test")
        told = {"method": name, "options": options, "valid_ndcg@20": value}
        return {**told, **self._ranked(name)}

    def _peer(self, name: str, options: dict[str, Any], stage: str) -> Evaluation:
        at, threads = self.contest.stages[stage], self.contest.threads
        if name == NEIGHBOURS:
            return contenders.judged(contenders.neighbors(at, **options, threads=threads), at)
        return contenders.judged(contenders.factors(at, options, threads), at)

    def _ranked(self, name: str) -> dict[str, Any]:
        own = self.ranks[name]
        return {
            "ndcg@20": own[NDCG].value,
            "ndcg@20_error": own[NDCG].standard_error,
            "mrr@20": own[MRR].value,
        }

    def p_values(self, name: str) -> dict[str, float]:
        """Paired t-tests against the yardsticks, where there are losses or ranks of both."""
        losses = {
            f"loss_p_{base}": float(ttest_rel(self.losses[name], self.losses[base]).pvalue)
            for base in YARDSTICKS
            if base != name and {base, name} <= self.losses.keys()
        }
        ranks = {
            f"ndcg_p_{base}": self.ranks[name].compare(self.ranks[base], NDCG).p_value
            for base in YARDSTICKS
            if base != name and {base, name} <= self.ranks.keys()
        }
        return {key: p for key, p in (losses | ranks).items() if np.isfinite(p)}


def _trials(name: str) -> Iterator[dict[str, Any]]:
    if name == NEIGHBOURS:
        yield from ({"kind": kind, "K": count} for kind, count in contenders.NEIGHBOURS)
    else:
        yield from tuning.points(contenders.IALS, contenders.IALS_TRIALS, seed=0)


def kept(args: Namespace) -> tuple[Setting | None, dict[str, dict[str, Any]]]:
    """What an earlier run has found."""
    file = args.folder / f"pagerank-quality-{args.data}.json"
    if not file.exists():
        return None, {}
    record = json.loads(file.read_text())
    return Setting(**record["setting"]), {row["method"]: row for row in record["rows"]}


def main() -> None:
    """Choose the problem, tune, judge, print, save."""
    made = parser(__doc__, threads=1)
    made.add_argument("data", choices=tuple(subjects.SUBJECTS))
    args = made.parse_args()

    setting, rows = kept(args)
    contest = Contest(args.data, args.threads)
    setting = setting or contest.setting()
    print(setting, flush=True)
    making = Rows(contest, setting)
    for name in ORDER:
        if "weights" in rows.get(name, {}):
            making.judge(name, np.array(rows[name]["weights"]))
        elif name not in rows:
            rows[name] = {"data": args.data, **making.row(name)}
        for told in making.ranks:
            rows[told] |= making.p_values(told)
        print(line(rows[name]), flush=True)
        found = [rows[done] for done in ORDER if done in rows]
        save(args.folder, f"pagerank-quality-{args.data}", found, setting=vars(setting))


if __name__ == "__main__":
    main()

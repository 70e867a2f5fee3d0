"""What SONG's weights of positives do: the same smooth ranks and samples, weighted otherwise.

    NDCG       -1 / log2(1 + r), SONG's own: a positive at rank r is pushed up by 1 / (r log(r)^2)
    log rank   log(r): by 1 / r
    rank       r: all positives alike

Each is tuned, refitted and judged as in trainers_quality.py, whose SONG is the first row.

    python bench/song_weights.py ml-1m-seq
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import trainers_quality
from harness import tuning
from harness.records import parser, save
from harness.subjects import load
from ranking_losses.boxes import TRAINERS, Trainer

import mfrank
from mfrank.arrays import Array
from mfrank.losses import Gradients, HingeRanks, Lists, Memory, averaged


@dataclass(frozen=True)
class LogRank(mfrank.SONG):
    """Mean over likes of log(1 + N g)."""

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        ranks = HingeRanks.of(lists, positives, negatives, self.margin)
        kept = memory.get("means")
        means = averaged(kept, lists.cells, ranks.means, self.decay, lists.positives)
        n_items, shares = lists.n_items[:, None], lists.positive_weights
        places = 1 + n_items * means
        return Gradients(
            *ranks.gradients(shares * n_items / places), (shares * np.log(places)).sum(1)
        )


@dataclass(frozen=True)
class MeanRank(mfrank.SONG):
    """Mean over likes of g, which needs no average."""

    def gradients(
        self, lists: Lists, positives: Array, negatives: Array, memory: Memory
    ) -> Gradients:
        """See :meth:`mfrank.losses.Loss.gradients`."""
        ranks = HingeRanks.of(lists, positives, negatives, self.margin)
        shares = lists.positive_weights
        return Gradients(*ranks.gradients(shares), (shares * ranks.means).sum(1))


WEIGHTS = {"NDCG": mfrank.SONG, "log rank": LogRank, "rank": MeanRank}


def main() -> None:
    """Tune, refit, judge, print, save."""
    made = parser(__doc__)
    made.add_argument("data", choices=("ml-1m", "ml-1m-seq"))
    made.add_argument("--factors", type=int, default=64)
    made.add_argument("--trials", type=int, default=4)
    made.set_defaults(seed=0, start=None, epochs=None)
    args = made.parse_args()

    split = load(args.data)
    data = tuning.with_validation(split, args.seed)
    rows = []
    for name, loss in WEIGHTS.items():
        TRAINERS[name] = Trainer(loss, TRAINERS["SONG"].option)
        rows.append({"weights": name, **trainers_quality.row(name, args, split, data)})
        save(args.folder, f"song-weights-{args.data}-{args.factors}", rows)


if __name__ == "__main__":
    main()

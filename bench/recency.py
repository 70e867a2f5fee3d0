"""How well WRMF ranks the next day if old clicks weigh less than new ones.

The values of all interactions are weighted by recency, with several half-lives and not at all. For
each, ``alpha`` is chosen by NDCG@20 on one day, by a fit to the days before. Then the fit is made
once more with that day included, and judged once on the next one, over its users and items that
were there before. Differences from the fit without weights are paired by users. Beside it stands
popularity by the same weights.

    python bench/recency.py
    python bench/recency.py --factors 16 --epochs 5 --threads 1 --folder /tmp/trial
"""

from __future__ import annotations

import argparse

import numpy as np
from harness.records import line, parser, save
from harness.subjects import data_folder

import mfrank
from mfrank.data import Interactions, from_npz
from mfrank.evaluation import Evaluation

METRIC = "ndcg@20"
DAY = 86_400_000  # globo's times are in milliseconds
HALF_LIVES = (None, 8, 4, 2, 1, 0.5)
ALPHAS = (0.004, 0.016, 0.0625, 0.25, 1, 4)


def before_and_on(data: Interactions, day: int) -> tuple[Interactions, Interactions]:
    """What was before a day, and what known users take up of known items on it."""
    assert data.timestamps is not None
    number = (data.timestamps - data.timestamps.min()) // DAY
    before = data.take(number < day).k_core(1)
    users = before.user_ids.rows(data.user_ids.labels, missing=-1)[data.entry_users]
    items = before.item_ids.rows(data.item_ids.labels, missing=-1)[data.user_items.indices]
    on = (number == day) & (users >= 0) & (items >= 0)
    return before, Interactions.from_arrays(users[on], items[on], shape=before.user_items.shape)


def weighted(data: Interactions, half_life: float | None) -> Interactions:
    """The interactions with weights by recency, or as they are."""
    return data if half_life is None else mfrank.recency_weight(data, half_life * DAY)


def judged(before: Interactions, on: Interactions, store: mfrank.FactorStore) -> Evaluation:
    """Rank for the day, without what users have."""
    ranker = mfrank.Recommender.of(mfrank.FactorStore(store.user_factors, store.item_factors))
    train = Interactions.from_sparse(before.user_items)
    return mfrank.evaluate(ranker, on, train=train, metrics=[METRIC])


def wrmf(data: Interactions, alpha: float, args: argparse.Namespace) -> mfrank.FactorStore:
    """Weights as confidences."""
    objective = mfrank.WRMF(alpha=alpha, regularization=args.regularization)
    model = mfrank.ALS(objective, args.factors, args.epochs, random_state=0, n_threads=args.threads)
    return model.fit(data).store


def popularity(data: Interactions, alpha: float, args: argparse.Namespace) -> mfrank.FactorStore:
    """The sum of each item's weights, the same for everybody."""
    sums = np.bincount(data.user_items.indices, data.user_items.data, minlength=data.n_items)
    return mfrank.FactorStore(np.ones((data.n_users, 1)), sums[:, None])


CONTENDERS = {"WRMF": (wrmf, ALPHAS), "popularity": (popularity, (1,))}


def main() -> None:
    """Choose, fit once more, judge, print, save."""
    made = parser(__doc__)
    made.add_argument("--day", type=int, default=11, help="on which is judged")
    made.add_argument("--factors", type=int, default=64)
    made.add_argument("--epochs", type=int, default=10)
    made.add_argument("--regularization", type=float, default=10.0)
    args = made.parse_args()

    data = from_npz(data_folder("globo"))
    chosen_on, judged_on = (before_and_on(data, day) for day in (args.day - 1, args.day))
    rows = []
    for name, (fit, alphas) in CONTENDERS.items():
        plain = None
        for half_life in HALF_LIVES:
            earlier, known = (weighted(before, half_life) for before, _ in (chosen_on, judged_on))
            values = [
                judged(*chosen_on, fit(earlier, alpha, args))[METRIC].value for alpha in alphas
            ]
            alpha = alphas[int(np.argmax(values))]
            found = judged(*judged_on, fit(known, alpha, args))
            plain = plain or found
            more = found.compare(plain, METRIC)
            rows.append(
                {
                    "model": name,
                    "half-life in days": half_life or "none",
                    METRIC: found[METRIC].value,
                    "its error": found[METRIC].standard_error,
                    "more than none": more.mean if half_life else 0.0,
                    "error of that": more.standard_error if half_life else 0.0,
                    "alpha": alpha,
                    "when chosen": max(values),
                }
            )
            print(line(rows[-1]), flush=True)
    more_options = {key: getattr(args, key) for key in ("factors", "epochs", "regularization")}
    save(args.folder, f"recency-globo-{args.factors}", rows, day=args.day, **more_options)


if __name__ == "__main__":
    main()

"""Remake a paper's table: ``python paper_table.py ml-1m.zip``.

In the manner of the RG losses paper: MRR, NDCG and MAP at 10, as it defines them, after a random
split of each user's likes in 80 / 10 / 10. Every objective gets as many ridges, of which the
validation part chooses one; then the test part is looked at once.
"""

# %% Ratings of 4 and 5 are likes. Other filters, such as k_core(10), give other numbers: say which.
# The paper forgets lower ratings, so its lists may have items that users rated low.
import sys
from typing import Any

import mfrank

data = mfrank.movielens(sys.argv[1]).at_least(4, keep_seen=False).k_core(1)
split = mfrank.by_ratio(data, random_state=0)
metrics = mfrank.definitions("rg", 10)
chosen_by = next(metric for metric in metrics if str(metric).startswith("NDCG"))

# %% Every objective, at every ridge, at its best epoch.
objectives = {
    "WRMF": [mfrank.WRMF(alpha=10, regularization=ridge) for ridge in (1, 10, 30)],
    "IALS": [mfrank.IALS(regularization=ridge) for ridge in (0.07, 0.2, 0.6)],
    "RG2": [mfrank.RG2(regularization=ridge) for ridge in (0.03, 0.07, 0.15)],
    "RGX": [mfrank.RGX(regularization=ridge) for ridge in (0.03, 0.07, 0.15)],
}
stopping = mfrank.EarlyStopping(split.valid, chosen_by)


def fitted(objective: Any) -> mfrank.ALS:
    """Fit with this objective, and keep the epoch that ranks the validation part best."""
    return mfrank.ALS(objective, factors=64, random_state=0).fit(split.train, stopping=stopping)


def valid(model: mfrank.ALS) -> float:
    """How well it ranks the validation part."""
    return mfrank.evaluate(model, split.valid, metrics=[chosen_by])[chosen_by].value


best = {name: max(map(fitted, tried), key=valid) for name, tried in objectives.items()}

# %% One look at the test part, as a table for a README.
print("| model |", " | ".join(map(str, metrics)), "|")
print("|---" * (1 + len(metrics)) + "|")
for name, model in {"Popularity": mfrank.Popularity().fit(split.train), **best}.items():
    seen = split.train + split.valid
    result = mfrank.evaluate(model, split.test, train=seen, metrics=metrics)
    print(f"| {name} |", " | ".join(f"{result[metric].value:.4f}" for metric in metrics), "|")

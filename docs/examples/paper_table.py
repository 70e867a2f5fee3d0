"""Remake a paper's table: ``python paper_table.py ml-1m.zip``.

As in the RG losses paper: its MRR, NDCG and MAP at 10, after a random split of each user's likes
in 80 / 10 / 10. The validation part chooses one of three ridges for each objective; then the test
part is used once.
"""

# %% Ratings of 4 and 5 are likes. Other filters, such as k_core(10), give other numbers.
# The paper drops lower ratings, so its lists may have items that users rated low.
import sys
from typing import Any

import mfrank

data = mfrank.movielens(sys.argv[1]).at_least(4, keep_seen=False).k_core(1)
split = mfrank.by_ratio(data, random_state=0)
metrics = mfrank.definitions("rg", 10)
chosen_by = next(metric for metric in metrics if str(metric).startswith("NDCG"))

# %% Every objective with every ridge, at its best epoch.
objectives = {
    "WRMF": [mfrank.WRMF(alpha=10, regularization=ridge) for ridge in (1, 10, 30)],
    "IALS": [mfrank.IALS(regularization=ridge) for ridge in (0.07, 0.2, 0.6)],
    "RG2": [mfrank.RG2(regularization=ridge) for ridge in (0.03, 0.07, 0.15)],
    "RGX": [mfrank.RGX(regularization=ridge) for ridge in (0.03, 0.07, 0.15)],
}
stopping = mfrank.EarlyStopping(split.valid, chosen_by)


def fitted(objective: Any) -> mfrank.ALS:
    """Fit with this objective, to the best epoch of the validation part."""
    return mfrank.ALS(objective, factors=64, random_state=0).fit(split.train, stopping=stopping)


def valid(model: mfrank.ALS) -> float:
    """NDCG@10 of the validation part."""
    return mfrank.evaluate(model, split.valid, metrics=[chosen_by])[chosen_by].value


best = {name: max(map(fitted, tried), key=valid) for name, tried in objectives.items()}

# %% The test part, as a table in Markdown.
print("| model |", " | ".join(map(str, metrics)), "|")
print("|---" * (1 + len(metrics)) + "|")
for name, model in {"Popularity": mfrank.Popularity().fit(split.train), **best}.items():
    seen = split.train + split.valid
    result = mfrank.evaluate(model, split.test, train=seen, metrics=metrics)
    print(f"| {name} |", " | ".join(f"{result[metric].value:.4f}" for metric in metrics), "|")

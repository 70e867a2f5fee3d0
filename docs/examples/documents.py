"""Learning to rank, loss by loss: ``python documents.py train.txt test.txt``.

The files are in the style of LETOR: ``grade qid:query 1:value 2:value ...``.
"""

# %% Read documents with features, each with a grade for one query.
import sys

import mfrank

NDCG = mfrank.NDCG(gain="exponential") @ 10
train = mfrank.Judged.from_svmlight(sys.argv[1])
test = mfrank.Judged.from_svmlight(sys.argv[2], n_features=train.n_features)
kept, held_out = train.hold_out(0.25, random_state=0)
print(train)


# %%
def judge(ranker: mfrank.LinearRanker, judged: mfrank.Judged) -> float:
    """How well it orders documents, by NDCG@10 with gains 2^grade - 1."""
    return mfrank.evaluate_queries(judged, ranker.score(judged), NDCG)[NDCG].value


# %% Fit each loss at two learning rates, and keep the better one on queries that were held out.
chosen = {}
for loss in (mfrank.ListNet(), mfrank.LambdaRank(), mfrank.RankNet(), mfrank.SONG()):
    rankers = [
        mfrank.LinearRanker(loss, mfrank.Adam(rate), iterations=20, random_state=0).fit(kept)
        for rate in (0.01, 0.1)
    ]
    chosen[type(loss).__name__] = max(rankers, key=lambda ranker: judge(ranker, held_out))

# %% Judge them once on the test queries. Few queries tell little: read the errors, too.
results = {
    name: mfrank.evaluate_queries(test, ranker.score(test), NDCG) for name, ranker in chosen.items()
}
for name, result in results.items():
    print(f"{name:12} {result[NDCG].value:.4f}, standard error {result[NDCG].standard_error:.4f}")

# %% Do any differ from ListNet by more than chance?
for name, difference in mfrank.paired_differences(results, NDCG).items():
    print(f"ListNet less {name}: {difference}")

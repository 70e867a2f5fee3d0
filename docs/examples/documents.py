"""Learning to rank, loss by loss: ``python documents.py train.txt test.txt``.

The files are in the style of LETOR: ``grade qid:query 1:value 2:value ...``.
"""

# %% Read documents with features; each has a grade for one query.
import sys

import mfrank

NDCG = mfrank.NDCG(gain="exponential") @ 10
train = mfrank.Judged.from_svmlight(sys.argv[1])
test = mfrank.Judged.from_svmlight(sys.argv[2], n_features=train.n_features)
fit_part, held_out = train.hold_out(0.25, random_state=0)
print(train)


# %%
def judge(ranker: mfrank.LinearRanker, judged: mfrank.Judged) -> float:
    """NDCG@10 of its order of the documents, with gains 2^grade - 1."""
    return mfrank.evaluate_queries(judged, ranker.score(judged), NDCG)[NDCG].value


# %% Fit each loss at two learning rates, and choose the better one on held-out queries.
chosen = {}
for loss in (mfrank.ListNet(), mfrank.LambdaRank(), mfrank.RankNet(), mfrank.SONG()):
    rankers = [
        mfrank.LinearRanker(loss, mfrank.Adam(rate), iterations=20, random_state=0).fit(fit_part)
        for rate in (0.01, 0.1)
    ]
    chosen[type(loss).__name__] = max(rankers, key=lambda ranker: judge(ranker, held_out))

# %% Evaluate them once on the test queries. With few queries, standard errors are large.
results = {
    name: mfrank.evaluate_queries(test, ranker.score(test), NDCG) for name, ranker in chosen.items()
}
for name, result in results.items():
    print(f"{name:12} {result[NDCG].value:.4f}, standard error {result[NDCG].standard_error:.4f}")

# %% Which losses differ from ListNet significantly?
for name, difference in mfrank.paired_differences(results, NDCG).items():
    print(f"ListNet less {name}: {difference}")

"""From a MovieLens file to lists and pages: ``python movielens.py ml-1m.zip``."""

# %% Read the ratings: 4 and 5 are likes; lower ratings only mark films as seen.
import sys

import mfrank

path = sys.argv[1]
likes = mfrank.movielens(path, min_rating=4)
print(likes)

# %% Hold out a tenth for validation (the number of epochs) and a tenth for the test.
split = mfrank.by_ratio(likes, random_state=0)

# %% Fit the model with early stopping, and the baselines that it has to beat.
models = {
    "popularity": mfrank.Popularity(),
    "item-kNN": mfrank.ItemKNN(neighbors=50),
    "RG2": mfrank.ALS(mfrank.RG2(), factors=64, random_state=0),
}
results = {}
for name, model in models.items():
    if isinstance(model, mfrank.ALS):
        model.fit(split.train, stopping=mfrank.EarlyStopping(split.valid))
    else:
        model.fit(split.train)
    results[name] = mfrank.evaluate(model, split.test, metrics=["ndcg@10", "coverage@10"])
    print(f"\n{name}\n{results[name]}")

# %% Is the difference to the baselines significant?
for name, difference in mfrank.paired_differences(results, "ndcg@10", to="RG2").items():
    print(f"\nRG2 less {name}: {difference}")

# %% One user's list, and the reasons for its first film.
model = models["RG2"]
user = likes.user_ids.raw([0])[0]
films, scores = model.recommend(user, N=5)
explanation = model.explain(user, None, films[0], N=3)
print(f"\nuser {user}: films {films.tolist()}; the first because of {explanation.contributions}")

# %% Save the model, and open its pages.
model.save("movielens-model")
print("\nmfrank explore movielens-model")

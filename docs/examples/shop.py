"""A shop's orders, with their times: ``python shop.py orders.csv``.

The file has the columns customer, product and time. The evaluation is by time, as in production:
models are fitted to the past and rank later purchases. Then the model is updated by a new day.
"""

# %% Read the orders, and split them at two points in time, the same for all customers.
import sys

import mfrank

orders = mfrank.Interactions.from_file(
    sys.argv[1], user="customer", item="product", timestamp="time", value=False
)
split = mfrank.by_time(orders, test=0.1, valid=0.1)

# %% Three models: what everybody buys, what suits the customer, what follows the last purchase.
models = {
    "popularity": mfrank.Popularity(),
    "factors": mfrank.ALS(mfrank.IALS(), factors=32, random_state=0),
    "walk": mfrank.SupervisedPageRank(queries=100, random_state=0),
}
results = {}
for name, model in models.items():
    model.fit(split.train)
    results[name] = mfrank.evaluate(model, split.valid, metrics=["recall@20", "ndcg@20"])
    print(f"{name:12} {results[name]['recall@20']}")

# %% Evaluate the best model of the validation part once on the test part.
best = max(results, key=lambda name: results[name]["ndcg@20"].value)
print(best, mfrank.evaluate(models[best], split.test, train=split.train + split.valid))

# %% Update the model by later orders, with their new customers and products.
model = models["factors"]
model.partial_fit(split.valid).partial_fit(split.test)

# %% Lists of products in stock, for a customer and for a basket without a customer.
in_stock = orders.item_ids.raw(range(0, orders.n_items, 2))
customer = orders.user_ids.raw([0])[0]
print(customer, model.recommend(customer, N=5, items=in_stock).to_dicts())
print("basket", model.recommend_from_items(in_stock[:2], N=5, items=in_stock).to_dicts())

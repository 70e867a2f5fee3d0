"""Digests of fits, lists, splits and metrics: whether a change of the code has changed a bit.

For changes that must not change results, such as moving code. Digests differ between machines and
versions of numpy, so two checkouts are compared on one machine:

    python tests/robustness/digests.py --save before.json   # in a checkout of the old code
    python tests/robustness/digests.py --beside before.json

The second prints what differs, and exits with 1 if anything does. Only public calls are made, so
that the file can be run beside older code.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

import numpy as np  # noqa: E402 - after the numbers of threads

import mfrank  # noqa: E402

Cases = Iterator[tuple[str, Callable[[], Any]]]
N_USERS, N_ITEMS = 300, 120


def data() -> mfrank.Interactions:
    """Interactions with values of 1 to 5 and times."""
    drawn = mfrank.synthetic(N_USERS, N_ITEMS, interactions=6_000, names=True, random_state=3)
    frame = drawn.to_pandas()
    frame["value"] = np.random.default_rng(4).integers(1, 6, len(frame)).astype(np.float32)
    return mfrank.Interactions.from_pandas(frame)


def digest(result: Any) -> str:
    """Of a model: its factors and some lists. Of anything else: its arrays, ids and numbers."""
    hashed = hashlib.sha256()

    def add(one: Any) -> None:
        if isinstance(one, np.ndarray) and one.dtype != object:
            hashed.update(f"{one.dtype}{one.shape}".encode())
            hashed.update(np.ascontiguousarray(one).tobytes())
        elif isinstance(one, mfrank.Interactions):
            matrix = one.to_scipy()
            add([matrix.indptr, matrix.indices, matrix.data, one.timestamps])
            add([one.user_ids.labels, one.item_ids.labels])
        elif hasattr(one, "by_group"):  # an evaluation
            add(one.scores)
        elif hasattr(one, "recommend"):
            for name in ("user_factors", "item_factors"):
                try:
                    add(getattr(one, name))
                except (AttributeError, TypeError, ValueError):
                    add(f"no {name}")
            add(one.recommend(one.store.user_ids.labels[:40], N=12))
        elif isinstance(one, dict):
            add(sorted((str(key), value) for key, value in one.items()))
        elif isinstance(one, tuple | list | np.ndarray):
            for part in one:
                add(part)
            hashed.update(f"end of {len(one)}".encode())
        else:
            hashed.update(repr(one).encode())

    add(result)
    return hashed.hexdigest()[:16]


def als_fits() -> Cases:
    objectives = {
        "WRMF": mfrank.WRMF(alpha=4),
        "IALS": mfrank.IALS(),
        "EALS": mfrank.EALS(),
        "RG2": mfrank.RG2(),
        "RG2Sampled": mfrank.RG2Sampled(negatives=50),
        "RGX": mfrank.RGX(),
        "RGXPrinted": mfrank.RGXPrinted(),
    }

    def fit(objective: Any = None, **options: Any) -> mfrank.ALS:
        of_fit = {key: options.pop(key) for key in ("cluster", "item_features") if key in options}
        small = {"factors": 12, "iterations": 3, "random_state": 0} | options
        return mfrank.ALS(objective or mfrank.IALS(), **small).fit(DATA, **of_fit)

    for name, objective in objectives.items():
        yield f"ALS {name}", lambda o=objective: fit(o)
        yield f"ALS {name}, cholesky", lambda o=objective: fit(o, solver="cholesky")
        yield f"ALS {name}, cg", lambda o=objective: fit(o, solver="cg")
    features = np.random.default_rng(5).normal(size=(DATA.n_items, 3))
    yield "ALS, float64", lambda: fit(dtype="float64")
    yield "ALS, float16 gathers", lambda: fit(gather_dtype="float16", cluster=2)
    yield "ALS, biases", lambda: fit(biases=True)
    yield "ALS, features", lambda: fit(item_features=features)
    yield "ALS, reference", lambda: fit(backend="reference")
    yield "ALS, cluster", lambda: fit(cluster=2)
    yield "ALS, thresholded", lambda: mfrank.ALS(random_state=0).fit(DATA.at_least(3))
    yield "ALS, early stopping", stopped
    yield "ALS, resumed", resumed
    yield "ALS, updated", lambda: fit().partial_fit(SPLIT.test)
    yield "ALS, removed", lambda: fit().remove(users=DATA.user_ids.labels[:3])


def stopped() -> mfrank.ALS:
    stopping = mfrank.EarlyStopping(SPLIT.valid)
    return mfrank.ALS(factors=8, random_state=0).fit(SPLIT.train, stopping=stopping)


def resumed() -> mfrank.ALS:
    with tempfile.TemporaryDirectory() as folder:
        for iterations in (2, 5):
            model = mfrank.ALS(factors=8, iterations=iterations, random_state=0)
            model.fit(DATA, checkpoint=Path(folder, "state"))
    return model


def descents() -> Cases:
    losses = (
        *(mfrank.BPR, mfrank.BCE, mfrank.SampledSoftmax, mfrank.Softmax, mfrank.SONG),
        *(mfrank.KSONG, mfrank.SOPRC, mfrank.SOLC, mfrank.StochasticRank, mfrank.RankNet),
        *(mfrank.LambdaRank, mfrank.ListNet, mfrank.ListMLE, mfrank.NeuralNDCG, mfrank.UIB),
        *(mfrank.SML, mfrank.SmoothAP, mfrank.Sparsemax, mfrank.ApproxNDCG),
    )

    def fit(loss: Any, **options: Any) -> mfrank.Descent:
        of_fit = {key: options.pop(key) for key in ("cluster", "start") if key in options}
        small = {"factors": 8, "iterations": 2, "random_state": 0, "batch_size": 64} | options
        return mfrank.Descent(loss, **small).fit(DATA, **of_fit)

    for loss in losses:
        options = {"metric": "map"} if loss is mfrank.StochasticRank else {}
        yield f"Descent {loss.__name__}", lambda c=loss, o=options: fit(c(**o))
    start = mfrank.ALS(factors=8, random_state=0).fit(DATA)
    yield "Descent, from an ALS", lambda: fit(mfrank.SONG(), start=start)
    yield "Descent, by positives", lambda: fit(mfrank.BPR(), batches="positives")
    yield "Descent, shared negatives", lambda: fit(mfrank.Softmax(), shared_negatives=True)
    yield "Descent, SGD", lambda: fit(mfrank.BPR(), optimizer=mfrank.SGD(0.1))
    yield "Descent, cluster", lambda: fit(mfrank.SampledSoftmax(), cluster=2)


def other_models() -> Cases:
    yield "EASE", lambda: mfrank.EASE(50).fit(DATA)
    yield "ItemKNN", lambda: mfrank.ItemKNN(20).fit(DATA)
    yield "ItemFilter", lambda: mfrank.ItemFilter().fit(DATA)
    yield "Popularity", lambda: mfrank.Popularity().fit(DATA)
    yield "Popularity, window", lambda: mfrank.Popularity(window=30 * 86_400).fit(DATA)
    yield "SupervisedPageRank", lambda: mfrank.SupervisedPageRank(random_state=0).fit(DATA)
    yield (
        "SupervisedPageRank, unlearned",
        lambda: mfrank.SupervisedPageRank(None, random_state=0).fit(DATA),
    )
    yield "tune", lambda: mfrank.tune(SPLIT.train, trials=6, random_state=0).model


def lists() -> Cases:
    models = {
        "ALS": mfrank.ALS(factors=12, random_state=0).fit(SPLIT.train),
        "EASE": mfrank.EASE(50).fit(SPLIT.train),
        "PageRank": mfrank.SupervisedPageRank(None, random_state=0).fit(SPLIT.train),
    }
    items, some = list(DATA.item_ids.labels), list(DATA.user_ids.labels[5:25])
    categories = {item: item.split("-")[0] for item in items}
    levers = {"boosts": {items[3]: 0.5}, "popularity_penalty": 0.2, "categories": categories}
    for name, model in models.items():
        diversity = 0.3 if name == "ALS" else 0.0  # by item factors
        steer = mfrank.Steering(**levers, at_most=2, diversity=diversity)
        filters: dict[str, dict[str, Any]] = {
            "none": {},
            "seen allowed": {"filter_already_liked_items": False},
            "filter_items": {"filter_items": items[::3]},
            "items": {"items": items[::4]},
            "both": {"items": items[::2], "filter_items": items[::6]},
            "fallback": {"fallback": "popularity"},
        }
        for filtered, options in filters.items():
            yield f"{name} lists, {filtered}", lambda m=model, o=options: m.recommend(some, **o)
        yield f"{name} list, one user", lambda m=model: m.recommend(some[0], N=5)
        yield f"{name} lists, long", lambda m=model: m.recommend(some, N=len(items) + 5)
        yield f"{name} lists, steered", lambda m=model, s=steer: m.recommend(some, steer=s)
        if name == "ALS":
            yield f"{name} from items", lambda m=model: m.recommend_from_items(items[4:7])
        yield f"{name} similar items", lambda m=model: m.similar_items(items[9], N=7)
        yield f"{name} metrics", lambda m=model: evaluated(m)


def evaluated(model: Any) -> Any:
    metrics = mfrank.definitions("implicit", 10)
    return mfrank.evaluate(model, SPLIT.test, train=SPLIT.train, metrics=metrics)


def interactions() -> Cases:
    def splits(split: Any) -> list[Any]:
        return [split.train, split.valid, split.test]

    yield "by_ratio", lambda: splits(mfrank.by_ratio(DATA, random_state=0))
    yield "by_time", lambda: splits(mfrank.by_time(DATA, test=0.2))
    yield "leave_last", lambda: splits(mfrank.leave_last(DATA))
    yield "leave_k_out", lambda: splits(mfrank.leave_k_out(DATA, 2, random_state=0))
    yield "k_core", lambda: DATA.k_core(5)
    yield "at_least", lambda: DATA.at_least(3)
    yield "log_weight", lambda: mfrank.log_weight(DATA)
    yield "bm25_weight", lambda: mfrank.bm25_weight(DATA)
    yield "recency_weight", lambda: mfrank.recency_weight(DATA, 30 * 86_400)
    yield "saved and loaded", loaded
    for suffix, separator in {"csv": ",", "tsv": "\t"}.items():
        yield f"read from {suffix}", lambda e=suffix, s=separator: read(e, s)


def loaded() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        mfrank.ALS(factors=8, random_state=0).fit(DATA).save(path)
        return mfrank.load(path)


def read(suffix: str, separator: str) -> mfrank.Interactions:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"ratings.{suffix}")
        DATA.to_pandas().to_csv(path, sep=separator, index=False)
        return mfrank.Interactions.from_file(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", type=Path, help="where the digests are written, as JSON")
    parser.add_argument("--beside", type=Path, help="digests that were saved before")
    parser.add_argument("--only", default="", help="a part of a case's name")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("mfrank").setLevel(logging.ERROR)
    parts = (als_fits, descents, other_models, lists, interactions)
    cases = ((name, case) for part in parts for name, case in part() if asked.only in name)
    found = {name: digest(case()) for name, case in cases}
    if asked.save:
        asked.save.write_text(json.dumps(found, indent=2) + "\n")
    before = json.loads(asked.beside.read_text()) if asked.beside else found
    differ = [name for name in before.keys() & found.keys() if before[name] != found[name]]
    for name in sorted(differ):
        print(f"differs: {name}")
    print(f"{len(found)} cases, {len(differ)} differ")
    raise SystemExit(bool(differ))


DATA = data()
SPLIT = mfrank.by_ratio(DATA, random_state=0)

if __name__ == "__main__":  # workers of a cluster import this file too
    main()

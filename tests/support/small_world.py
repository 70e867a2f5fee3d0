"""Small interactions, fitted models and files, sound or not, for calls of every public name."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from hostile import Rng, texts

import mfrank

N_USERS, N_ITEMS = 15, 12

_MODELS: dict[str, Callable[[], Any]] = {
    "ALS": lambda: mfrank.ALS(mfrank.IALS(), factors=3, iterations=1, random_state=0).fit(data()),
    "named": lambda: mfrank.ALS(factors=3, iterations=1, random_state=0).fit(named()),
    "featured": lambda: mfrank.ALS(factors=3, iterations=1, random_state=0).fit(
        data(), user_features=np.ones((N_USERS, 2)), item_features=np.eye(N_ITEMS)[:, :3]
    ),
    "ItemKNN": lambda: mfrank.ItemKNN().fit(data()),
    "Popularity": lambda: mfrank.Popularity().fit(named()),
    "Descent": lambda: mfrank.Descent(
        factors=3, iterations=1, item_biases=True, random_state=0
    ).fit(data()),
    "SupervisedPageRank": lambda: mfrank.SupervisedPageRank(random_state=0).fit(timed()),
    "LinearRanker": lambda: mfrank.LinearRanker(iterations=1, random_state=0).fit(judged()),
    "Reranker": lambda: mfrank.Reranker(
        model("ALS"), candidates=5, iterations=2, random_state=0
    ).fit(data(), other()),
}


@cache
def data() -> mfrank.Interactions:
    """Interactions with row numbers as ids."""
    return mfrank.synthetic(N_USERS, N_ITEMS, 80, random_state=0)


@cache
def other() -> mfrank.Interactions:
    """Interactions that are not those of :func:`data`, of the same users and items."""
    return mfrank.synthetic(N_USERS, N_ITEMS, 60, random_state=1)


@cache
def named() -> mfrank.Interactions:
    """Interactions with text as ids."""
    return mfrank.synthetic(N_USERS, N_ITEMS, 80, names=True, random_state=0)


@cache
def timed() -> mfrank.Interactions:
    """Interactions with timestamps."""
    users, items = data().user_items.nonzero()
    return mfrank.Interactions.from_arrays(users, items, None, np.arange(len(users)) * 7 % 31)


@cache
def judged() -> mfrank.Judged:
    """Documents with features."""
    rng = np.random.default_rng(0)
    return mfrank.Judged(rng.random((12, 3)), rng.integers(0, 3, 12), np.repeat(range(4), 3))


@cache
def _pickled(name: str) -> bytes:
    return pickle.dumps(_MODELS[name]())


def model(name: str) -> Any:
    """A fitted model, which the call may change."""
    return pickle.loads(_pickled(name))


def models() -> list[str]:
    """Names of the models that can be fitted here."""
    return [name for name in _MODELS if name != "Reranker" or find_spec("catboost")]


@cache
def frame() -> Any:
    """A DataFrame, or None without pandas."""
    return named().to_pandas() if find_spec("pandas") else None


def path(rng: Rng, folder: Path) -> Any:
    """A file or folder, there or not, sound or not."""
    kind = rng.integers(9)
    if kind == 0:
        model(one_of(rng, models())).save(folder / "model")
        return folder / "model"
    if kind == 1:
        (folder / "folder").mkdir(exist_ok=True)
        (folder / "folder" / "x").write_text("x")
        return folder / "folder"
    if kind == 2:
        return one_of(rng, [folder, str(folder / "new"), folder / "a" / "b", "/dev/null", "\0", ""])
    if kind == 3:
        return folder / ("x" * 300)
    suffix = one_of(rng, ["csv", "tsv", "txt", "dat", "parquet", "npz", "safetensors", "gz", ""])
    file = folder / f"file.{suffix}"
    if kind == 4:
        file.write_bytes(rng.bytes(int(rng.integers(300))))
    elif kind == 5:
        file.write_text("user_id,item_id,rating\n1,2,3\n1,3,4\n2,2,1\n")
    else:
        file.write_bytes(b"".join(islice(texts(rng), int(rng.integers(1, 8)))))
    return file


def one_of(rng: Rng, values: Any) -> Any:
    """One of the values."""
    return values[int(rng.integers(len(values)))]

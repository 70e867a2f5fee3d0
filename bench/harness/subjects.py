"""The data that the benches run on: public data sets, and synthetic ones drawn anew each time."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

import mfrank
from mfrank.data import Interactions, Judged, Split, from_npz, published_split
from mfrank.evaluation import Metric
from mfrank.tuning import Predict, TrialJudge

SYNTHETIC = {"ml-20m-shape": (138_000, 27_000, 10_000_000)}
"""Users, items and entries: MovieLens-20M's users and items, half its ratings."""
_THREE_DAYS = 3 * 86_400_000  # milliseconds


def load(name: str) -> Split:
    """A data set by its published split."""
    return published_split(data_folder(name))


def interactions(name: str) -> Interactions:
    """A data set to fit: its training part, or all of it where no split is published."""
    if name in SYNTHETIC:
        return mfrank.synthetic(*SYNTHETIC[name], random_state=0)
    folder = data_folder(name)
    with np.load(folder / "interactions.npz") as arrays:
        split = "split" in arrays
    return published_split(folder).train if split else from_npz(folder)


def divided(name: str) -> Split:
    """Training and test part: the published ones; else the latest fifth, or a random one.

    Where all users of the published test part are new, as sessions of a later day are, a random
    fifth of what the others have.
    """
    folder = data_folder(name)
    if (folder / "ratings.dat").exists():
        ratings = Interactions.from_file(folder / "ratings.dat", duplicates="last")
        return mfrank.by_time(ratings, test=0.2)
    with np.load(folder / "interactions.npz") as arrays:
        columns = set(arrays)
    if "split" not in columns:
        data = from_npz(folder)
        if data.timestamps is not None:
            return mfrank.by_time(data, test=0.2)
        return mfrank.by_ratio(data, train=0.8, valid=0.0, test=0.2, random_state=0)
    split = published_split(folder)
    if (split.train.counts.users * split.test.counts.users).any():
        return split
    return mfrank.by_ratio(
        split.train + split.valid, train=0.8, valid=0.0, test=0.2, random_state=0
    )


def last_held_out(name: str) -> Split:
    """Each user's, or session's, last item as the test part; also where ranks stand for times."""
    with np.load(data_folder(name) / "interactions.npz") as arrays:
        times = arrays["timestamp"] if "timestamp" in arrays else arrays["pos"] + 10**9
        data = Interactions.from_arrays(arrays["user"], arrays["item"], timestamps=times)
    return mfrank.leave_last(data)


def last_of_sessions(name: str, metric: Metric, seed: int, n_threads: int) -> Split:
    """The last item of each of the latest sessions, at most 5,000, as the test part.

    Of globo the three days at the end of the sixteen that have nearly all clicks: news are read
    for a day, and what is later comes from a handful of readers.
    """
    with np.load(data_folder(name) / "interactions.npz") as arrays:
        sessions = arrays["session" if "session" in arrays else "user"]
        items, times = arrays["item"], arrays["timestamp"]
    if name == "globo":
        end = np.quantile(times, 0.999)
        within = (times <= end) & (times > end - _THREE_DAYS)
        sessions, items, times = sessions[within], items[within], times[within]
    data = Interactions.from_arrays(sessions, items, timestamps=times, timestamp_unit="ms")
    judge = TrialJudge.of(data, metric, seed, n_threads, predict="session")
    return replace(mfrank.leave_last(data), train=judge.train, test=judge.valid)


def developed(
    split: Split, metric: Metric, seed: int, n_threads: int, predict: Predict | None = None
) -> Split:
    """The training part alone, divided as by ``mfrank.tune``, but by another seed."""
    judge = TrialJudge.of(split.train, metric, 1000 + seed, n_threads, predict=predict)
    return replace(split, train=judge.train, test=judge.valid)


def judged(name: str) -> tuple[Judged, Judged]:
    """Training and test part of a data set for learning to rank."""
    with np.load(data_folder(name) / "ltr.npz") as arrays:
        x, label, query, split = (arrays[key] for key in ("X", "label", "qid", "split"))
    test = split == split.max()
    train, rest = (Judged(x[part], label[part], query[part]) for part in (~test, test))
    return train, rest


def data_folder(name: str) -> Path:
    """A data set's folder, in MFRANK_DATA or ../shared/data."""
    default = Path(__file__).parents[3] / "shared" / "data"
    folder = Path(os.environ.get("MFRANK_DATA", default)) / name
    if not folder.is_dir():
        sys.exit(f"{folder} is not there: set MFRANK_DATA to the folder of the data sets")
    return folder

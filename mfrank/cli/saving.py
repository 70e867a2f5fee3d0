"""Saves the model of a fit from the command line, and reports on the fit."""

from __future__ import annotations

import sys

from mfrank.arrays.counted import counted
from mfrank.data.interactions import Interactions
from mfrank.models.factor_model import FactorModel
from mfrank.models.page_rank.estimator import SupervisedPageRank
from mfrank.retrieval.recommender import NotFittedError

__all__ = ["save_what_there_is", "told"]


def told(model: FactorModel, fitted: object, data: Interactions, folder: str) -> str:
    """Report on a fit: the objective or loss, the data, the duration, and the model's folder."""
    seconds = sum(float(epoch["seconds"] or 0) for epoch in model.store.history)
    return (
        f"fitted {fitted} to {data}\n"
        f"{counted(len(model.store.history), 'epoch')} in {seconds:.2f} s; saved to {folder}"
    )


def save_what_there_is(model: FactorModel | SupervisedPageRank, folder: str) -> None:
    """Save the last complete epoch of a fit that was interrupted."""
    try:
        epochs = len(model.store.history)
    except NotFittedError:
        print("mfrank: no epoch was complete, nothing was saved", file=sys.stderr)
        return
    model.save(folder)
    if isinstance(model, FactorModel):
        done = f"{epochs:,} of {counted(model.iterations, 'epoch')}"
    else:
        done = counted(epochs, "step")
    print(f"mfrank: saved the model after {done} to {folder}", file=sys.stderr)

"""Saves the model of a fit from the command line, and reports on the fit."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from mfrank.arrays.counted import counted
from mfrank.data.interactions import Interactions
from mfrank.models.factor_model import FactorModel
from mfrank.models.page_rank.estimator import SupervisedPageRank
from mfrank.retrieval.fitted import NotFittedError
from mfrank.store.history import seconds_of

__all__ = ["saved_if_it_ends", "told"]


def told(model: FactorModel, fitted: object, data: Interactions, folder: str) -> str:
    """Report on a fit: what was fitted, its duration, its last objective if known, its folder."""
    history = model.store.history
    objective = history[-1].get("objective")
    last = "" if objective is None else f", last objective {objective:.8g}"
    return (
        f"fitted {fitted} to {data}\n"
        f"{counted(len(history), 'epoch')} in {seconds_of(history):.2f} s{last}; saved to {folder}"
    )


@contextmanager
def saved_if_it_ends(model: FactorModel | SupervisedPageRank, folder: str) -> Iterator[None]:
    """Save what there is of a fit that is ended by Ctrl-C, or by a full disk at its checkpoint."""
    try:
        yield
    except (KeyboardInterrupt, OSError):
        _save_what_there_is(model, folder)
        raise


def _save_what_there_is(model: FactorModel | SupervisedPageRank, folder: str) -> None:
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

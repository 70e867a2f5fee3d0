"""Trials of a search with their outcomes, and a file that has them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from mfrank.tuning import Outcome, Trial, TrialJournal

TRIALS = [Trial("ALS", (0.25, number / 10), number, is_new=True) for number in range(6)]
DONE = [Outcome(trial, 0.125 + trial.rung / 7, 0.01, 3, 1.5, 1.0, 0.25) for trial in TRIALS]


def written(path: Path, outcomes: Sequence[Outcome] = DONE[:3]) -> Path:
    journal = TrialJournal(path, "search")
    for outcome in outcomes:
        journal.add(outcome)
    return path


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def in_order(done: Sequence[Outcome]) -> Trial | None:
    """The first trial that is neither done nor pending."""
    known = [outcome.trial for outcome in done]
    return next((trial for trial in TRIALS if trial not in known), None)

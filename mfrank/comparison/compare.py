"""A fair comparison of models: one split, one machine, alternating runs, one evaluation.

A copy of every model is fitted to the same matrix, ``repeats`` times. The order of the models is
reversed with each repeat, so that a machine that slows down affects all of them, and times are
compared within a repeat before the median is taken. Memory is measured in separate processes. All
models are evaluated by the same code.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mfrank.arrays.checks import check_count
from mfrank.arrays.counted import counted
from mfrank.arrays.random import Seed
from mfrank.arrays.threads import check_threads
from mfrank.comparison.contenders import (
    Fit,
    default_models,
    has_implicit,
    is_implicit_als,
)
from mfrank.comparison.protocol import Course
from mfrank.comparison.scoreboard import Comparison, Row
from mfrank.data.alignment import aligned
from mfrank.data.interactions import Interactions
from mfrank.data.splits import Split
from mfrank.evaluation.kinds import Metric
from mfrank.evaluation.metrics import MAP, MRR, NDCG, Recall

__all__ = ["DEFAULT_METRICS", "compare"]

DEFAULT_METRICS: tuple[Metric, ...] = (Recall @ 20, NDCG @ 20, MRR @ 20, MAP @ 20)


def compare(
    train: Any,
    test: Any = None,
    *,
    models: Mapping[str, Any] | None = None,
    factors: int = 64,
    iterations: int = 15,
    n_threads: int = 0,
    repeats: int = 3,
    metrics: Sequence[Metric | str] = DEFAULT_METRICS,
    random_state: Seed = 0,
    peak_memory: bool = True,
    show_progress: bool = False,
) -> Comparison:
    """Fit models side by side and report their time, memory, objective and ranking quality.

    Parameters
    ----------
    train : Split, Interactions, scipy sparse (users x items) or DataFrame
        Training data; a Split also provides the test part.
    test : Interactions, scipy sparse (users x items) or DataFrame, optional
        Held-out interactions; those with ids are matched by id, a matrix has the rows of ``train``.
    models : mapping of str to model, optional
        Unfitted models by name: mfrank's, implicit's, or any with the same ``fit``. Default: WRMF,
        IALS, RG2, RGX and Popularity of mfrank and, if installed, implicit's ALS (conjugate
        gradients, its default; and exact) and BPR, all with their default hyper-parameters.
    factors : int, default 64
        Width of the factors of the default models.
    iterations : int, default 15
        Epochs of the default models.
    n_threads : int, default 0
        Threads of the default models and of the evaluation; 0 takes every usable core.
    repeats : int, default 3
        Fits of each model, in alternating order.
    metrics : sequence of Metric or str, default Recall, NDCG, MRR and MAP at 20
        Metrics to evaluate.
    random_state : int, Generator or None, default 0
        Seed of the default models; the libraries still draw different first factors from it.
    peak_memory : bool, default True
        Whether to fit each model once more, in a separate process, to measure its memory.
    show_progress : bool, default False
        Whether to show the current run and the time left on stderr.

    Returns
    -------
    Comparison
        Its ratios are relative to implicit's ALS, if that takes part.

    Raises
    ------
    ValueError, TypeError
        Before any fit: test data are missing or of another shape, a metric is unknown, or there
        are no models.
    """
    check_count("repeats", repeats, 1)
    check_threads(n_threads)
    course = Course(*_parts(train, test), tuple(_listed(metrics)), n_threads)
    course.check()
    contenders = models
    if contenders is None:
        contenders = default_models(
            factors=factors, iterations=iterations, n_threads=n_threads, random_state=random_state
        )
    if not contenders:
        raise ValueError("models must name at least one model")
    runs = course.alternate(contenders, repeats, show_progress=show_progress)
    rows = [
        course.row(name, runs[name], course.peak(model) if peak_memory else None)
        for name, model in contenders.items()
    ]
    baseline = next((row for row in rows if is_implicit_als(contenders[row.model])), None)
    settings = course.settings() | {"repeats": repeats}
    return Comparison(
        tuple(_with_ratios(row, runs, baseline) for row in rows),
        baseline.model if baseline else None,
        settings,
        _notes(rows, baseline, settings),
    )


def _parts(train: Any, test: Any) -> tuple[Interactions, Interactions]:
    if isinstance(train, Split):
        if test is not None:
            raise ValueError("a Split has its own test part; pass it alone, or pass train and test")
        return train.train, train.test
    if test is None:
        raise ValueError("test is needed: pass it, or a Split, such as mfrank.by_ratio(data)")
    known = Interactions.of(train)
    return known, aligned(Interactions.of(test), known.user_ids, known.item_ids, "test")


def _listed(metrics: Sequence[Metric | str] | Metric | str) -> Sequence[Metric | str]:
    return [metrics] if isinstance(metrics, Metric | str) else metrics


def _with_ratios(row: Row, runs: Mapping[str, Sequence[Fit]], baseline: Row | None) -> Row:
    if baseline is None:
        return row
    mine, theirs = runs[row.model], runs[baseline.model]
    ratios = {
        measure: statistics.median(
            getattr(fit, measure) / getattr(other, measure)
            for fit, other in zip(mine, theirs, strict=True)
        )
        for measure in ("epoch_seconds", "total_seconds")
    }
    ratios["peak_memory"] = _ratio(row.peak_memory, baseline.peak_memory)
    for metric, score in row.evaluation.scores.items():
        ratios[str(metric)] = _ratio(score.value, baseline.evaluation.scores[metric].value)
    return replace(row, ratios=ratios)


def _ratio(value: float | None, other: float | None) -> float | None:
    return value / other if value is not None and other else None


def _notes(
    rows: Sequence[Row], baseline: Row | None, settings: Mapping[str, Any]
) -> tuple[str, ...]:
    notes = [
        f"{counted(settings['users'], 'user')} x {counted(settings['items'], 'item')}, "
        f"{settings['train_entries']:,} training and "
        f"{counted(settings['test_entries'], 'test entry')}; "
        f"{counted(settings['threads'], 'thread')}, "
        f"medians over alternating runs: {settings['repeats']}"
    ]
    if any(row.peak_memory is not None for row in rows):
        notes.append("peak: memory that a fit adds to a fresh process")
    if baseline is not None:
        same = [row.model for row in rows if row.objective_name == baseline.objective_name]
        notes.append(f"objective: the same sum for {', '.join(same)}; the others have their own")
        notes.append(f"x: ratio to {baseline.model}, measured in the same way")
    elif not has_implicit():
        notes.append("implicit is not installed; to compare with it: pip install mfrank[compare]")
    return tuple(notes)

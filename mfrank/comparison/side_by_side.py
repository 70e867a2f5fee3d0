"""A fair comparison of models: one split, one machine, alternating runs, one evaluation.

A copy of every model is fitted to the same matrix, ``repeats`` times. The order of the models is
reversed in each repeat, so a machine that slows down affects all of them. Times are compared within
a repeat, then the median is taken. Memory is measured in separate processes. All models are
evaluated by the same code. Tuning comes first (:mod:`mfrank.comparison.tuned`).
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mfrank.arrays import Seed, check_count, check_flags, counted
from mfrank.comparison.contenders import (
    TimedFit,
    has_implicit,
    is_implicit_als,
    usual_factors,
    usual_models,
)
from mfrank.comparison.opponents import OPPONENTS
from mfrank.comparison.protocol import Course
from mfrank.comparison.scoreboard import Comparison, Row
from mfrank.comparison.tuned import Tuning, tuned
from mfrank.data import Interactions, Split, in_rows_of
from mfrank.errors import InputValueError
from mfrank.evaluation import MAP, MRR, NDCG, Metric, Recall
from mfrank.models import tell_readers, values_told
from mfrank.tuning import Leaderboard, Predict

DEFAULT_METRICS: tuple[Metric, ...] = (Recall @ 20, NDCG @ 20, MRR @ 20, MAP @ 20)
_ITERATIONS = 15


def compare(
    train: Any,
    test: Any = None,
    *,
    models: Mapping[str, Any] | None = None,
    left_out: Any = None,
    tune: float | None = None,
    needs: str | Collection[str] = "everything",
    predict: Predict | None = None,
    factors: int | None = None,
    iterations: int = _ITERATIONS,
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
        Held-out interactions; ids are matched, and a matrix has the rows of ``train``.
    models : mapping of str to model, optional
        Unfitted models by name: mfrank's, implicit's, or any with the same ``fit``. Default: WRMF,
        IALS, RG2, RGX and Popularity of mfrank and, if installed, implicit's ALS (conjugate
        gradients, its default; and exact) and BPR, all with their default hyper-parameters. With
        ``tune``: mfrank.tune, EASE, ItemKNN, Popularity and, with timestamps, recent popularity of
        mfrank; if installed, implicit's ALS, BPR and LMF, RP3beta of irspack and SANSA of sansa
        (:mod:`mfrank.comparison.opponents`).
    left_out : Interactions, scipy sparse (users x items) or DataFrame, optional
        What rankings exclude, such as purchases of a model of all events; ids as in ``test``. The
        default is ``train``. Not with ``tune``.
    tune : float or None, default None
        Minutes, > 0, of a hyperparameter search for each model before the comparison. As in
        :func:`mfrank.tune`, the search uses interactions held out of ``train``, never ``test``; it
        maximizes the first of ``metrics``. The best model is then fitted to all of ``train``.

        - Tuned: the ALS of mfrank (with the objectives of mfrank.tune) and of implicit, implicit's
          BPR and LMF, Descent with SampledSoftmax, EASE, ItemFilter, ItemKNN, Popularity with a
          window, RP3beta and SANSA, with at most their own number of factors. The search replaces
          all other options of mfrank's models.
        - The function ``mfrank.tune``, as a member of ``models``, is the whole search.
        - Other models are unchanged.

        A model that cannot be fitted in the time or memory is left out, with a note.
    needs : "everything" or collection of str, default "everything"
        What the model that ``mfrank.tune`` finds must be able to do, as in :func:`mfrank.tune`.
    predict : {"later", "next", "session", "any"} or None, default None
        With ``tune``: what each search holds out of ``train``, as in :func:`mfrank.tune`.
    factors : int or None, default None
        Width of the factors of the default models: 64 or, with ``tune``, at most 512.
    iterations : int, default 15
        Epochs of the default models.
    n_threads : int, default 0
        Threads of the default models and of the evaluation; 0 uses every core this process may use.
    repeats : int, default 3
        Fits of each model, in alternating order.
    metrics : sequence of Metric or str, default Recall, NDCG, MRR and MAP at 20
        Metrics to evaluate.
    random_state : int, Generator or None, default 0
        Seed of the default models; the libraries draw different initial factors from it. With
        ``tune``, an int, which is also the seed of the search and its held-out part.
    peak_memory : bool, default True
        Whether to measure memory by one more fit of each model, in a separate process.
    show_progress : bool, default False
        Whether to show the current run and the time left on stderr.

    Returns
    -------
    Comparison
        Ratios are relative to implicit's ALS, if it takes part.

    Raises
    ------
    ValueError, TypeError
        Before any fit:

        - test data are missing or have another shape;
        - a metric is unknown, or there are no models;
        - with ``tune``, no model can be searched, ``train`` has dislikes, or the first metric has
          no per-user values; ``needs`` or ``predict`` are given without a search.
    """
    check_count("repeats", repeats, 1)
    check_flags(peak_memory=peak_memory)
    for name, is_given in (("needs", needs != "everything"), ("predict", predict is not None)):
        if is_given and tune is None:
            raise InputValueError(f"`{name}` is of a search:", "pass `tune`, the minutes of one")
    if iterations != _ITERATIONS and (tune is not None or models is not None):
        why = "each search finds them" if tune is not None else "each of `models` has its own"
        raise InputValueError(f"`iterations` has no effect, as {why}:", "leave it out")
    if factors is not None and tune is None and models is not None:
        raise InputValueError(
            "`factors` has no effect, as each of `models` has its own:", "leave it out"
        )
    if left_out is not None and tune is not None:
        raise InputValueError(
            "`left_out` does not go with `tune`:", "`mfrank.tune(events, target=...)` searches"
        )
    known, held_out = _parts(train, test)
    if left_out is not None:
        left_out = in_rows_of(left_out, known.user_ids, known.item_ids, "left_out")
    course = Course(known, held_out, tuple(_listed(metrics)), n_threads, left_out)
    course.check()
    contenders = models
    if contenders is None:
        contenders = usual_models(
            tuned=tune is not None,
            timed=known.timestamps is not None,
            factors=factors,
            iterations=iterations,
            n_threads=n_threads,
            random_state=random_state,
        )
    if not contenders:
        raise InputValueError("`models` must name at least one model")
    leaderboards, of_search = dict[str, Leaderboard](), list[str]()
    uses = ((name, getattr(each, "uses_values", None)) for name, each in contenders.items())
    tell_readers(course.train, uses)
    with values_told():
        if tune is not None:
            most = usual_factors(factors, tuned=True)
            tuning = Tuning(
                *(tune, course.metrics[0], most, random_state, n_threads, show_progress),
                needs=needs,
                predict=predict,
            )
            contenders, leaderboards = tuned(contenders, course.train, tuning)
            of_search = tuning.notes(contenders, leaderboards)
        runs = course.alternate(contenders, repeats, show_progress=show_progress)
        rows = [
            course.row(name, runs[name], course.peak(model) if peak_memory else None)
            for name, model in contenders.items()
        ]
    baseline = next((row for row in rows if is_implicit_als(contenders[row.model])), None)
    settings = course.settings() | {"repeats": repeats, "tune": tune}
    return Comparison(
        tuple(_with_ratios(row, runs, baseline) for row in rows),
        baseline.model if baseline else None,
        settings,
        (*_notes(rows, baseline, settings), *of_search),
        leaderboards,
    )


def _parts(train: Any, test: Any) -> tuple[Interactions, Interactions]:
    if isinstance(train, Split):
        if test is not None:
            raise InputValueError(
                "a Split has its own test part", "pass it alone, or pass train and test"
            )
        train, test = train.train, train.test
    elif test is None:
        raise InputValueError(
            "`test` is needed:", "pass it, or a Split, such as `mfrank.by_ratio(data)`"
        )
    known = Interactions.of(train)
    return known, in_rows_of(test, known.user_ids, known.item_ids, "test")


def _listed(metrics: Sequence[Metric | str] | Metric | str) -> Sequence[Metric | str]:
    return [metrics] if isinstance(metrics, Metric | str) else metrics


def _with_ratios(row: Row, runs: Mapping[str, Sequence[TimedFit]], baseline: Row | None) -> Row:
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
    if rows and (first := rows[0].evaluation).n_cold_users:
        notes.append(
            f"{first.n_cold_users:,} of {counted(first.n_users, 'test user')} cold, not in the "
            "training data; to_dict() has the metrics of the others"
        )
    if rows and (again := rows[0].evaluation.n_in_train):
        notes.append(f"{counted(again, 'test entry')} left out: in the training data too")
    if any(row.peak_memory is not None for row in rows):
        notes.append("peak: memory that a fit adds to a fresh process")
    if baseline is not None:
        same = [row.model for row in rows if row.objective_name == baseline.objective_name]
        notes.append(f"objective: the same sum for {', '.join(same)}; the others have their own")
        notes.append(f"x: ratio to {baseline.model}, measured in the same way")
    elif not has_implicit():
        notes.append("implicit is not installed; to compare with it: pip install mfrank[compare]")
    if settings["tune"] is not None:
        notes += [
            f"{one.package} is not installed, so {one.__name__} is left out: pip install "
            f"{one.package}"
            for one in OPPONENTS
            if not one.is_installed()
        ]
    return (*notes, *(rows[0].evaluation.popularity.lines() if rows else ()))

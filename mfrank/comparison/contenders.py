"""The models of a comparison: mfrank's objectives and implicit's models, fitted in turn.

A contender is any model with the ``fit(user_items, show_progress=, callback=)`` of implicit and
mfrank. Its fit sets ``user_factors`` and ``item_factors``, or returns a recommender of mfrank.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from importlib.util import find_spec
from time import perf_counter
from typing import Any

from mfrank.als import IALS, RG2, RGX, WRMF, HalfSteps, QuadraticObjective
from mfrank.arrays import Seed, usable_cores
from mfrank.backends import SolveOptions, choose
from mfrank.comparison.opponents import OPPONENTS
from mfrank.data import Interactions
from mfrank.models import (
    ALS,
    EASE,
    ItemKNN,
    Popularity,
    SupervisedPageRank,
    reads_times,
)
from mfrank.retrieval import Recommender
from mfrank.tuning import tune

DEFAULT_OBJECTIVES: tuple[QuadraticObjective, ...] = (WRMF(), IALS(), RG2(), RGX())


@dataclass(frozen=True, slots=True, eq=False)
class TimedFit:
    """One timed fit.

    Attributes
    ----------
    model : object
        The fitted model.
    epoch_seconds : float
        Median over the epochs, as timed by the library; the whole fit if it reports no epochs.
    total_seconds : float
        Duration of ``fit``, including checks, transposing, first factors and all epochs.
    """

    model: Any
    epoch_seconds: float
    total_seconds: float


def has_implicit() -> bool:
    """Whether the package implicit is installed."""
    return find_spec("implicit") is not None


def default_models(
    objectives: Sequence[QuadraticObjective],
    *,
    factors: int,
    iterations: int,
    n_threads: int,
    random_state: Seed,
) -> dict[str, Any]:
    """ALS with each objective, the baseline Popularity and, if installed, implicit's ALS and BPR.

    implicit's ALS gets alpha and the ridge of the first ``WRMF`` that it can express, or of the
    default ``WRMF()``; it then minimizes the same sum.

    Parameters
    ----------
    objectives : sequence of QuadraticObjective
    factors, iterations, n_threads, random_state
        The same for every model.

    Returns
    -------
    dict
        Unfitted models by name.
    """
    mine: dict[str, Any] = {}
    for objective in objectives:
        name = f"mfrank {type(objective).__name__}"
        if name in mine:
            name = f"mfrank {objective_name(objective)}"
        mine[name] = ALS(
            objective,
            factors=factors,
            iterations=iterations,
            n_threads=n_threads,
            random_state=random_state,
        )
    mine["mfrank Popularity"] = Popularity()
    if not has_implicit():
        return mine
    expressible = (
        o for o in objectives if isinstance(o, WRMF) and o.nu == 0 and o.confidence == "alpha*r"
    )
    shared = {
        "factors": factors,
        "iterations": iterations,
        "num_threads": n_threads or usable_cores(),
        "random_state": random_state,
    }
    return mine | _implicit_models(next(expressible, WRMF()), shared)


def fit_once(unfitted: Any, train: Interactions) -> TimedFit:
    """Fit a copy of the model and time it.

    The data are passed as a ``scipy.sparse.csr_matrix``, the only class that implicit reads; models
    that need timestamps get the Interactions.
    """
    model = deepcopy(unfitted)
    data = train if needs_times(model) else train.to_scipy()
    epochs: list[float] = []
    with suitable_blas_threads(model):
        began = perf_counter()
        made = model.fit(data, show_progress=False, callback=lambda *step: epochs.append(step[1]))
        total = perf_counter() - began
    fitted = made if isinstance(made, Recommender) else model
    return TimedFit(fitted, statistics.median(epochs or [total]), total)


def needs_times(model: Any) -> bool:
    """Whether a fit reads timestamps, as a walk does, or a blend with something that does."""
    return (
        reads_times(model)
        or isinstance(model, SupervisedPageRank)
        or getattr(model, "needs_times", False) is True
    )


def is_of_implicit(model: Any) -> bool:
    """Whether this is a model of implicit."""
    return type(model).__module__.startswith("implicit.")


def is_implicit_als(model: Any) -> bool:
    """Whether this is an ``AlternatingLeastSquares`` of implicit."""
    return is_of_implicit(model) and hasattr(model, "alpha")


def objective_minimized(model: Any) -> QuadraticObjective | None:
    """Objective that the model minimizes; None if it is not one of mfrank's."""
    if isinstance(model, ALS):
        return model.objective
    if is_implicit_als(model):
        return WRMF(alpha=model.alpha, regularization=model.regularization)
    return None


def objective_name(objective: QuadraticObjective) -> str:
    """Name and options without spaces, in the syntax of the command line."""
    options = ",".join(
        f"{name}={'true' if value is True else value if isinstance(value, str) else f'{value:g}'}"
        for name, value in vars(objective).items()
        if value is not False
    )
    return f"{type(objective).__name__.lower()}:{options}"


def objective_value(
    objective: QuadraticObjective, model: Any, train: Interactions, n_threads: int
) -> float:
    """Value of the objective at the factors of a model from any library."""
    users, items = model.user_factors, model.item_factors
    halves = HalfSteps(objective, train.counts, choose(), SolveOptions(n_threads=n_threads))
    return halves.value(
        objective.user_problem(train.user_rows(users.dtype), train.counts),
        objective.item_problem(train.item_rows(items.dtype), train.counts),
        users,
        items,
    )


@contextmanager
def suitable_blas_threads(model: Any) -> Iterator[None]:
    """Limit BLAS to one thread for implicit, which more threads slow down, and only for it."""
    if not is_of_implicit(model):
        yield
        return
    with _one_blas_thread():
        yield


def _implicit_models(objective: WRMF, shared: Mapping[str, Any]) -> dict[str, Any]:
    from implicit.cpu.als import AlternatingLeastSquares
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    als = {**shared, "alpha": objective.alpha, "regularization": objective.regularization}
    with _one_blas_thread():  # their constructors warn about more
        return {
            "implicit ALS": AlternatingLeastSquares(**als),
            "implicit ALS exact": AlternatingLeastSquares(**als, use_cg=False),
            "implicit BPR": BayesianPersonalizedRanking(**shared),
        }


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    import threadpoolctl  # a dependency of implicit

    with threadpoolctl.threadpool_limits(1, "blas"):
        yield


# The contenders of a comparison when the caller names none.


def usual_factors(factors: int | None, *, tuned: bool) -> int:
    """The width of models or, with tuning, the maximum width."""
    if factors is not None:
        return factors
    return 512 if tuned else 64


def usual_models(
    objectives: Sequence[QuadraticObjective] | None = None,
    *,
    tuned: bool,
    factors: int | None,
    iterations: int,
    n_threads: int,
    random_state: Seed,
    timed: bool = False,
) -> dict[str, Any]:
    """The models of :func:`default_models` or, with tuning, the best of every package.

    These are :func:`mfrank.tune` itself; EASE, ItemKNN, Popularity and, with times, recent
    popularity; of implicit, if it is installed, ALS, BPR and logistic factorization (LMF); and of
    :data:`OPPONENTS` those that are installed. With ``objectives`` there is an ALS for each of them
    instead.
    """
    search_all = tuned and not objectives
    models = default_models(
        () if search_all else objectives or DEFAULT_OBJECTIVES,
        factors=usual_factors(factors, tuned=tuned),
        iterations=iterations,
        n_threads=n_threads,
        random_state=random_state,
    )
    if not search_all:
        return models
    recent = {"mfrank recent popularity": Popularity(window=1.0)} if timed else {}
    others = {
        f"{opponent.package} {opponent.__name__}": opponent()
        for opponent in OPPONENTS
        if opponent.is_installed()
    }
    return {
        "mfrank.tune": tune,
        "mfrank EASE": EASE(),
        "mfrank ItemKNN": ItemKNN(),
        "mfrank Popularity": Popularity(),
        **recent,
        **{name: models[name] for name in ("implicit ALS", "implicit BPR") if name in models},
        **({"implicit LMF": _lmf(models["implicit BPR"])} if "implicit BPR" in models else {}),
        **others,
    }


def _lmf(like: Any) -> Any:
    """Implicit's logistic factorization, with the seed and threads of another of its models."""
    from implicit.cpu.lmf import LogisticMatrixFactorization

    with _one_blas_thread():
        return LogisticMatrixFactorization(
            factors=like.factors, num_threads=like.num_threads, random_state=like.random_state
        )

"""Weighted alternating least squares as an estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, get_args

from numpy.typing import DTypeLike

from mfrank.als import HalfSteps, als, refuse_dislikes
from mfrank.amounts import check_count, share
from mfrank.backends import SolveOptions, Solver, choose
from mfrank.closed_form import ClosedForm
from mfrank.cores import check_threads
from mfrank.data.interactions import Interactions
from mfrank.evaluation.stopping import EarlyStopping
from mfrank.models.factor_model import Callback, FactorModel, Watch, refuse_no_likes
from mfrank.models.options import (
    check_backend,
    check_dtype,
    check_gathers,
    gather_dtype,
    warn_if_slow,
)
from mfrank.models.room import check_width
from mfrank.objectives import RG2
from mfrank.quadratic import QuadraticObjective
from mfrank.retrieval.recommender import Recommender
from mfrank.seeds import Seed, generator
from mfrank.starts import first_factors
from mfrank.store.factors import FactorStore

__all__ = ["ALS"]

_DEFAULT_OBJECTIVE = RG2()
_MOST_STEPS = 10_000  # far beyond those after which rows of usual widths are solved


@dataclass(eq=False)
class ALS(FactorModel, ClosedForm):
    """Matrix factorization by exact alternating least squares, under any quadratic objective.

    Parameters
    ----------
    objective : QuadraticObjective, default RG2()
        ``WRMF``, ``IALS``, ``EALS``, ``RG2``, ``RGX``, ``RG2Sampled`` or ``RGXPrinted``.
    factors : int, default 64
        Width of the factors, >= 1.
    iterations : int, default 15
        Epochs of a fit, >= 1 (implicit's default).
    solver : {"auto", "cholesky", "cg"}, default "auto"
        ``"cholesky"`` solves every row exactly. ``"cg"`` takes ``cg_steps`` of conjugate
        gradients from the row's last factors. ``"auto"`` takes them only for rows so long that
        their exact solution would cost more, and solves the others exactly.
    cg_steps : int, default 3
        Conjugate gradient steps a row takes (implicit's default), up to 10,000: fewer only where
        its residual is rounding in the dtype, so that no step could bring it nearer.
    cg_tolerance : float or None, default None
        In (0, 1): rows take as many steps as bring them this near to their exact solution,
        relative and in the norm of their system; those that would need too many are solved
        exactly. None takes ``cg_steps`` and is content.
    dtype : {"float32", "float64"}, default "float32"
        Of the factors.
    gather_dtype : {"float16"} or None, default None
        What a half-step on a GPU reads the other side's factors from: ``"float16"`` is a copy
        rounded to 11 bits, half the bytes of float32; None is the factors themselves. All sums and
        solutions keep their dtypes, and what rows share is not rounded; the tracked objective is
        that of the rounded factors. Only with ``backend="cuda"``, and with ``"reference"``, which
        says what it means.
    random_state : int, numpy.random.Generator or None, default None
        Seed of the first factors. The same seed gives the same bits, whatever ``n_threads``.
    n_threads : int, default 0
        Up to 1024; 0 takes every core this process may use.
    backend : {"auto", "cpu", "reference", "cuda"}, default "auto"
        Where to compute; a GPU (``pip install mfrank[cuda12]`` or ``[cuda13]``) only by its name.
    track_objective : bool, default False
        Whether the history has the objective after every epoch: the sum that ``objective`` prints,
        over all users and items and with the ridge, no mean. The half-steps give it as they go,
        without a further pass over the data.

    Attributes
    ----------
    user_factors, item_factors : shape (n_users, factors), (n_items, factors)
        The fitted arrays. Empty users have zero factors.
    store : FactorStore
        The same with ids, counts and history.

    Examples
    --------
    >>> import mfrank
    >>> data = mfrank.synthetic(200, 100, 4000, random_state=0)
    >>> model = mfrank.ALS(mfrank.IALS(), factors=8, random_state=0).fit(data)
    >>> ids, scores = model.recommend(data.user_ids.raw([0, 1]), N=5)
    >>> ids.shape
    (2, 5)
    """

    objective: QuadraticObjective = _DEFAULT_OBJECTIVE
    factors: int = 64
    iterations: int = 15
    solver: Solver = "auto"
    cg_steps: int = 3
    cg_tolerance: float | None = None
    dtype: DTypeLike = "float32"
    gather_dtype: DTypeLike | None = None
    random_state: Seed = None
    n_threads: int = 0
    backend: str = "auto"
    track_objective: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.objective, QuadraticObjective):
            raise TypeError(
                "objective must be one of mfrank's, such as mfrank.RG2() or mfrank.WRMF(alpha=40); "
                f"got {self.objective!r}"
            )
        for name in ("factors", "iterations"):
            check_count(name, getattr(self, name), 1)
        remedy = "with cg_tolerance rows take as many as they need"
        check_count("cg_steps", self.cg_steps, 1, _MOST_STEPS, remedy)
        check_threads(self.n_threads)
        if not (isinstance(self.solver, str) and self.solver in get_args(Solver)):
            raise ValueError(f"solver must be auto, cholesky or cg; got {self.solver!r}")
        if self.cg_tolerance is not None:
            share("cg_tolerance", self.cg_tolerance, "None or ")
        check_dtype(self.dtype)
        gather_dtype(self.gather_dtype)
        generator(self.random_state)
        check_backend(self.backend)

    def fit(
        self,
        user_items: Any,
        *,
        start: Recommender | FactorStore | None = None,
        stopping: EarlyStopping | None = None,
        callback: Callback | None = None,
        show_progress: bool = False,
    ) -> Self:
        """Fit to interactions, from their leading directions unless ``start`` is given.

        Parameters
        ----------
        user_items : Interactions, sparse (users x items) of scipy's or CuPy's, or DataFrame
        start : model or FactorStore, optional
            Warm start: go on from its factors. Its width must be ``factors``; users and items are
            matched by their ids, new ones start at random. Where row numbers are the ids, the data
            may have more rows than ``start``, not fewer.
        stopping : EarlyStopping, optional
            Stop where held-out interactions are no longer ranked better, and keep the best epoch;
            ``iterations`` is then the most that there will be.
        callback : function, optional
            Called after every epoch with its number from 0, its seconds, and the objective or
            None. This model already holds the epoch's factors. A true result stops the fit. An
            exception, Ctrl-C too, leaves it with the last complete epoch.
        show_progress : bool, default False
            Show epochs and time left on stderr.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Before any work: data without a positive entry or that the objective cannot use, a start
            or held-out interactions that do not fit, or a ``gather_dtype`` that the backend does
            not have. A fit that diverges (the message says so) leaves the last complete epoch.
        MemoryError
            Before any work: factors so wide that the machine has no memory for the fit.
        """
        self.__post_init__()
        check_gathers(self.gather_dtype, self.backend)
        data = Interactions.of(user_items)
        watch = Watch.of(data.user_items, stopping, callback, show_progress)
        refuse_dislikes(self.objective, data.user_items.data)
        refuse_no_likes(data)
        store = start.store if isinstance(start, Recommender) else start
        backend, width = choose(self.backend), int(self.factors)
        check_width(
            data.n_users + data.n_items,
            width,
            self.dtype,
            backend,
            tables=2,  # of an epoch and of the one before
            matrices=6,  # a Gram matrix, centred; eigenvectors, and what LAPACK needs for them
        )
        warn_if_slow(self.backend)
        options = SolveOptions(
            self.solver,
            int(self.cg_steps),
            self.cg_tolerance,
            self.n_threads,
            gather_dtype(self.gather_dtype),
        )
        steps = als(
            data.user_rows(self.dtype),
            data.item_rows(self.dtype),
            HalfSteps(self.objective, data.counts, backend, options),
            *first_factors(  # not kept here: the fit takes them over
                data, width, self.dtype, self.random_state, store, backend, self.n_threads
            ),
            iterations=self.iterations,
            track_objective=self.track_objective,
        )
        self._keep(steps, data, watch)
        return self

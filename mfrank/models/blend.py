"""A blend of several models: one ranking by the sum of their scores, as alive as its parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.als import Explanation
from mfrank.arrays import (
    check_above_zero,
    check_count,
    counted,
    in_turn,
    paragraphs,
    shown,
    turn_of,
)
from mfrank.data import Interactions
from mfrank.errors import InputTypeError, InputValueError
from mfrank.models.als import ALS
from mfrank.models.blend_parts import (
    PARTS,
    factors_first,
    has_factors,
    joined,
    parts_of,
    scales_in,
    scales_of,
    unfitted,
    until,
)
from mfrank.models.factor_model import Callback, after_epoch, check_fitted_by, options_of, restoring
from mfrank.models.item_models import NeighborRecommender
from mfrank.models.parameters import Parameters, refuse_target
from mfrank.models.value_notes import values_told
from mfrank.retrieval import (
    Answer,
    BlendRows,
    ItemBlend,
    LikedItems,
    ListCall,
    Matrix,
    ModelState,
    OwnRows,
    QueryFactors,
    Raw,
    Recommender,
    given_id,
    of_one_state,
)
from mfrank.store import IMPORTED, FactorStore, History, OwnClasses


@dataclass(eq=False, repr=False)
class Blend(Parameters, Recommender):
    """Rank by the weighted sum of the scores of several models.

    The score of an item is ``sum_p weight_p / spread_p * score_p``, divided by the factor of the
    first part with factors. ``spread_p`` is the mean over users of the standard deviation of a
    part's scores at the fit (``mfrank.models.spread``), so weights compare models of any scale.

    All that a part does, the blend does: new users are folded into each part, what is removed is
    removed from each, and an explanation adds up those of the parts.

    Parameters
    ----------
    parts : sequence of models
        :class:`mfrank.ALS`, :class:`mfrank.AsymmetricALS`, :class:`mfrank.Descent`,
        :class:`mfrank.EASE`, :class:`mfrank.ItemFilter`, :class:`mfrank.ItemKNN`,
        :class:`mfrank.NextItem`, :class:`mfrank.Popularity`, :class:`mfrank.SequentialRules`, of
        which one or more have factors of users (ALS, Descent, Popularity). A fit fits copies of
        them.
    weights : sequence of float or None, default None
        > 0, one for each part; None is 1 for each.
    epochs : sequence of int or None, optional
        After how many epochs the fit of each part ends; None leaves all of them to their own
        ``iterations``. :func:`mfrank.tune` ends at the epoch that ranked best.

    Attributes
    ----------
    models : tuple of models
        The parts, fitted.
    store : FactorStore
        The factors of all parts side by side, and the weights between items of the others
        (:func:`mfrank.blend`).

    Notes
    -----
    A saved blend has each table once. The fitted parts are made of it when they are first needed:
    new users and explanations take the memory of the item factors once more, and weights between
    items are views; updates copy all tables.

    Examples
    --------
    >>> import mfrank
    >>> data = mfrank.synthetic(200, 100, 4000, random_state=0)
    >>> model = mfrank.Blend([mfrank.ALS(factors=8, random_state=0), mfrank.EASE()], [1, 0.5])
    >>> ids, scores = model.fit(data).recommend_from_items(data.item_ids.raw([0, 1]), N=5)
    >>> ids.shape
    (5,)
    """

    parts: Sequence[Any] = ()
    weights: Sequence[float] | None = None
    epochs: Sequence[int | None] | None = None
    folds_in = True

    recommend = of_one_state(Recommender.recommend)
    recommend_from_items = of_one_state(Recommender.recommend_from_items)
    score = of_one_state(Recommender.score)

    def __post_init__(self) -> None:
        if not isinstance(self.parts, list | tuple) or len(self.parts) < 2:
            raise InputTypeError(
                f"`parts` must be a list of two models or more, got {shown(self.parts)}"
            )
        for part in self.parts:
            if type(part) not in PARTS.values():
                raise InputTypeError(f"`parts` must be of {', '.join(PARTS)}, got {shown(part)}")
        for name, given in (("weights", self.weights), ("epochs", self.epochs)):
            if given is not None and len(given) != len(self.parts):
                raise InputValueError(
                    f"`{name}` must have one for each of {counted(len(self.parts), 'part')}, got "
                    f"{len(given)}"
                )
        for weight in self.weights or ():
            check_above_zero(weights=weight)
        for epoch in self.epochs or ():
            if epoch is not None:
                check_count("epochs", epoch, 1)

    @classmethod
    def from_models(
        cls,
        models: Sequence[Recommender],
        weights: Sequence[float] | None = None,
        epochs: Sequence[int | None] | None = None,
    ) -> Self:
        """Return the blend of fitted models of the same users and items, which stay as they are.

        Parameters
        ----------
        models : sequence of fitted models
        weights, epochs : sequence, optional
            As of the class.

        Raises
        ------
        TypeError, ValueError
            As for the class; or a model is not fitted, or users or items differ.
        """
        made = cls([unfitted(model) for model in models], weights, epochs)
        made._hold_blend(models, scales_of(models, made._weights))
        return made

    @in_turn
    def fit(
        self,
        user_items: Any,
        y: None = None,
        *,
        callback: Callback | None = None,
        show_progress: bool = False,
    ) -> Self:
        """Fit a copy of each part, one after the other.

        Parameters
        ----------
        user_items : Interactions, scipy or CuPy sparse matrix (users x items), or DataFrame
        y : None
            scikit-learn's argument; interactions have no target.
        callback : function, optional
            Called after the fit of each part with its number from 0, its seconds and None.
        show_progress : bool, default False
            Show the epochs of each part on stderr.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            As the fits of the parts, or no part has factors. The blend is unchanged.
        """
        refuse_target(y)
        self.__post_init__()
        after = after_epoch(callback)
        data = Interactions.of(user_items)
        if not any(has_factors(part) for part in self.parts):
            raise InputValueError(
                "`parts` are all of weights between items:", "add a model with factors, such as ALS"
            )
        models = list[Any]()
        for number, (part, epochs) in enumerate(zip(self.parts, self._epochs, strict=True)):
            began = perf_counter()
            model = unfitted(part)
            model.fit(data, callback=until(epochs), show_progress=show_progress)
            models.append(model)
            if after is not None:
                after(number, perf_counter() - began, None, None)
        self._hold_blend(models, scales_of(models, self._weights))
        self._detach_from_folders()
        return self

    @property
    def models(self) -> tuple[Any, ...]:
        """The parts, fitted, in the order of ``parts``."""
        return self._models_of(self._now())

    @property
    def uses_values(self) -> bool:
        """Whether a part reads the values of interactions."""
        return any(part.uses_values for part in self.parts)

    @property
    def _keeps_values(self) -> bool:
        return any(isinstance(part, ALS) and part.uses_values for part in self.parts)

    @of_one_state
    def explain(
        self,
        userid: Raw,
        user_items: Matrix | None,
        itemid: Raw,
        N: int = 10,
        *,
        by_row: bool = False,
    ) -> Explanation:
        """Decompose a user's score of an item: the sum of what the parts say.

        Parameters, result and errors are those of :meth:`mfrank.Descent.explain`.
        """
        check_count("N", N, 1)
        userid, itemid = given_id(userid, "userid"), given_id(itemid, "itemid")
        held = self._now()
        score, sums = 0.0, defaultdict[Any, float](float)
        for model, scale in zip(self._models_of(held), scales_in(held.store), strict=True):
            why = model.explain(userid, user_items, itemid, held.store.n_items, by_row=by_row)
            score += scale * why.score
            for item, part in why.contributions:
                sums[item] += scale * part
        if user_items is None:
            pair: list[Any] = [[userid], [itemid]]
            score = float(self.score(*pair, by_row=by_row)[0])
        listed = sorted(sums.items(), key=lambda each: -each[1])[:N]
        return Explanation(score, listed, score - sum(sums.values()), None)

    def recommend_users(self, *args: Any, **options: Any) -> Answer:
        """As :meth:`mfrank.Recommender.recommend_users`, if all parts have factors."""
        held = self._now()
        ranker: Recommender = copy(held.parts)
        ranker._held = ModelState(held.store, held.seen, ranker._now().parts)
        return ranker.recommend_users(*args, **options)

    def similar_users(self, *args: Any, **options: Any) -> Answer:
        """As :meth:`mfrank.Recommender.similar_users`, if all parts have factors."""
        ranker: Recommender = self._now().parts
        return ranker.similar_users(*args, **options)

    @in_turn
    def partial_fit(
        self,
        new: Any = None,
        *,
        user_items: Matrix | None = None,
        batch: str | None = None,
        leave_out: Any = None,
    ) -> Self:
        """Update each part with new interactions, including new users and items; weights stay.

        Parameters
        ----------
        new, batch, leave_out
            As in :meth:`mfrank.ALS.partial_fit`.
        user_items : Interactions or scipy sparse, optional
            All old interactions, for each ALS; by default, those that the model has.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            As of the parts; the blend is unchanged.
        """

        def change(model: Any) -> None:
            own = {"user_items": user_items} if isinstance(model, ALS) else {}
            model.partial_fit(new, batch=batch, leave_out=leave_out, **own)

        self._each(change)
        return self

    @in_turn
    def remove(
        self, users: Raw | None = None, items: Raw | None = None, *, by_row: bool = False
    ) -> Self:
        """Remove users and items from each part; see :meth:`mfrank.Recommender.remove`."""
        self._each(lambda model: model.remove(users, items, by_row=by_row))
        return self

    def __repr__(self) -> str:
        listed = ", ".join(
            f"{weight:g} x {_named(part)}"
            for part, weight in zip(self.parts, self._weights, strict=True)
        )
        if self._held is None:
            return f"Blend({listed}, not fitted)"
        n_users, n_items = counted(len(self.user_ids), "user"), counted(len(self.item_ids), "item")
        return f"Blend({listed}, fitted to {n_users} x {n_items})"

    def _repr_html_(self) -> str:
        return paragraphs([repr(self)])

    def _tell_set_since(self, fitter: Mapping[str, Any]) -> None:
        """The parts tell of theirs."""

    @property
    def _updates(self) -> History:
        first: Recommender = self._models_of(self._now())[0]  # each part has had the same ones
        return first._updates

    def _in_order(self, row: int) -> NDArray[np.integer]:
        parts = self._models_of(self._now())
        reader: Recommender = next((each for each in parts if each._reads_order), parts[0])
        return reader._in_order(row)

    @property
    def _reads_order(self) -> bool:
        return any(part._reads_order for part in self.parts)

    @property
    def _weights(self) -> list[float]:
        return [1.0] * len(self.parts) if self.weights is None else [float(w) for w in self.weights]

    @property
    def _epochs(self) -> Sequence[int | None]:
        return [None] * len(self.parts) if self.epochs is None else self.epochs

    # The state: one store, of which the parts are made when they are needed.

    def _hold_blend(
        self, models: Sequence[Recommender], scales: Sequence[float], history: History = ()
    ) -> None:
        """Hold the blend of fitted models, whose scores are multiplied by ``scales``."""
        store = joined(models, scales, weights=self._weights, epochs=list(self._epochs))
        self._hold(replace(store, history=history), copy(models[0].seen))
        vars(self._held)["_kept"] = [getattr(model, "_kept", None) for model in models]

    def _parts_of(self, store: FactorStore) -> Recommender:
        """What ranks by the store."""
        ranker = ItemBlend() if "neighbors_indptr" in store.extras else Recommender()
        ranker._hold(store, None)
        return ranker

    def _models_of(self, held: ModelState) -> tuple[Any, ...]:
        """The parts of a state, made once for all copies of the model that have it."""
        with turn_of(held, "make the parts"):
            made: tuple[Any, ...] | None = vars(held).get("_models")
            if made is None:
                made = vars(held)["_models"] = tuple(parts_of(held, self.parts))
                for model, kept in zip(made, vars(held).get("_kept", ()), strict=False):
                    model._kept = kept
        return made

    def _each(self, change: Callable[[Any], object]) -> None:
        """Change copies of all parts, and hold their blend, unless the first stays as it is.

        What the first part tells of new values is told once; it is one that reads them, if any is.
        """
        held = self._now()
        before = self._models_of(held)
        models = [copy(model) for model in before]
        first, *others = sorted(models, key=lambda model: not model.uses_values)
        change(first)
        if first._is_as(before[models.index(first)]):  # it has had this batch
            return
        with values_told():
            for model in others:
                change(model)
        self._hold_blend(models, scales_in(held.store), held.store.history)

    @classmethod
    def _from_store(cls, store: FactorStore, own: OwnClasses = IMPORTED) -> Self:
        check_fitted_by(cls, store)
        with restoring():
            options = store.fitter["options"]
            fitters = [each["fitter"] for each in options["parts"]]
            parts = [options_of(PARTS[fitter["name"]], fitter, own) for fitter in fitters]
            model = cls(parts, options["weights"], options["epochs"])
        model._adopt(store)
        return model

    # Lists, of known users and of those that are folded in.

    def _levers(self, steer: Any, store: FactorStore, items: Any, on_unknown: Any) -> Any:
        return self._now().parts._levers(steer, store, items, on_unknown)

    def _queries_of(self, call: ListCall) -> Any:
        if not call.recalculate:
            return self._now().parts._queries_of(call)
        return self._together(lambda model: _folded(model, call.own))

    def _somebody(self, held: ModelState, own: LikedItems, *, has_values: bool) -> Any:
        return self._together(
            lambda model: model._somebody(model._now(), own, has_values=has_values)
        )

    def _together(self, query: Callable[[Any], Any]) -> Any:
        """The queries of all parts as one, of the blend's store."""
        held = self._now()
        models, scales = self._models_of(held), scales_in(held.store)
        found = [query(model) for model in models]
        factors, values, biases = list[Any](), list[sp.csr_array](), None
        for at in factors_first(models):
            one, scale = found[at], scales[at]
            if not isinstance(one, QueryFactors):
                values.append(sp.csr_array(one * scale))
                continue
            factors.append(one.factors * np.sqrt(scale))
            if one.biases is not None:
                own = scale * one.biases.astype(np.float64)
                biases = own if biases is None else biases + own
        rows = np.hstack(factors).astype(held.store.dtype)
        biases = None if biases is None else biases.astype(held.store.dtype)
        if not values:
            return QueryFactors(rows, biases)
        return BlendRows(sp.csr_array(sp.hstack(values, format="csr")), rows, biases)

    def _ranked(self, queries: Any, call: ListCall, candidates: Any) -> Any:
        return self._now().parts._ranked(queries, call, candidates)

    def _scored(self, *args: Any) -> NDArray[Any]:
        scores: NDArray[Any] = self._now().parts._scored(*args)
        return scores


def _named(part: Any) -> str:
    told = repr(unfitted(part)).removesuffix("not fitted)")
    return told.removesuffix(", ") + ")"


def _folded(model: Any, own: OwnRows) -> Any:
    """A part's queries for users with these rows."""
    if isinstance(model, NeighborRecommender):
        return model._rows_given(own)
    return model._folded_users(model._now(), own)

"""What a fit of a Reranker made, by itself and in a store with the first stage.

A Reranker is saved as its first stage is, as a :class:`mfrank.FactorStore`: the trees and the
caller's features are among the extras, and the fitter's options have what else there is of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfrank.errors import InputValueError, unreadable
from mfrank.models.blend import Blend
from mfrank.models.blend_parts import PARTS
from mfrank.models.page_rank import SupervisedPageRank
from mfrank.models.reranker import trees
from mfrank.models.reranker.features import GivenFeatures, names_of
from mfrank.models.reranker.pairs import CandidateRecall
from mfrank.retrieval import ItemBlend, Recommender
from mfrank.store import FactorStore, OwnClasses

FIRST_STAGES: dict[str, type[Recommender]] = {
    model.__name__: model for model in (*PARTS.values(), Blend, ItemBlend, SupervisedPageRank)
}
"""The models that trees can be over, by name; stores of others are of plain recommenders."""

_STAGE = "second_stage"
_TREES = "trees"
_GIVEN = {"users": "trees_user_features", "items": "trees_item_features"}


class SecondFit(NamedTuple):
    """The result of a fit: CatBoost's model, the caller's feature tables, statistics, options.

    The options (:func:`~mfrank.models.parameters.describe`) lack the first stage, which may be
    another one by now. ``cbm`` is the model as bytes.
    """

    cbm: NDArray[np.uint8]
    trees: Any
    given: GivenFeatures
    found: CandidateRecall
    fitter: Mapping[str, Any]

    def check(self, store: FactorStore) -> None:
        """Raise ValueError if the trees or the tables are of another first stage."""
        self.given.check(store)
        if names_of(store, self.given) != list(self.trees.feature_names_):
            raise InputValueError("`model` has other parts than those of the fit:", "fit again")

    @property
    def candidates(self) -> int:
        """The number of candidates that the trees were grown for."""
        return int(self.fitter["options"]["candidates"])

    @property
    def first_weight(self) -> float:
        """The weight of the first stage's scores beside those of the trees."""
        return float(self.fitter["options"]["first_weight"])

    def beside(self, first: FactorStore) -> FactorStore:
        """The store of a first stage with the second one in it."""
        extras: dict[str, Any] = {**first.extras, _TREES: self.cbm}
        extras |= {
            name: table
            for side, name in _GIVEN.items()
            if (table := getattr(self.given, side)) is not None
        }
        stage = {
            "name": self.fitter["name"],
            "options": dict(self.fitter["options"]),
            "over": first.fitter["name"],
            "found": self.found._asdict(),
            "sha256": _digest(self.cbm),
        }
        options = {**first.fitter["options"], _STAGE: stage}
        return replace(first, extras=extras, fitter={"name": stage["name"], "options": options})

    @classmethod
    def parted(
        cls, store: FactorStore, own: OwnClasses
    ) -> tuple[Recommender, dict[str, Any], SecondFit]:
        """The first stage, the options and the fit, of which :meth:`beside` made a store.

        The checksum of the trees is always verified, because CatBoost may crash on damaged bytes.

        Raises
        ------
        ValueError
            The store is damaged.
        ModuleNotFoundError
            The package catboost is not installed.
        """
        fitter, extras = store.fitter, dict(store.extras)
        options = dict(fitter["options"])
        stage = options.pop(_STAGE, None)
        try:
            of_fit, found = stage["options"], CandidateRecall(**stage["found"])
            if not (isinstance(of_fit, Mapping) and isinstance(stage["over"], str)):
                raise InputValueError("options must be a JSON object, and the first stage a name")
            first = {"name": stage["over"], "options": options}
            cbm, *tables = (extras.pop(name, None) for name in (_TREES, *_GIVEN.values()))
            if cbm is None or cbm.dtype != np.uint8 or cbm.ndim != 1:
                raise InputValueError("`trees` must be a 1-D array of uint8")
            if _digest(cbm) != stage["sha256"]:
                raise InputValueError("`trees`: its checksum is not the one that was saved")
            given = GivenFeatures.of(tables[0], tables[1], store)
            kind: type[Recommender] = FIRST_STAGES.get(stage["over"], Recommender)
            model = kind._from_store(replace(store, extras=extras, fitter=first), own)
            grown = trees.from_bytes(cbm, names_of(model.store, given))
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable(
                "the second stage saved with the model", "is damaged", error
            ) from error
        return model, dict(of_fit), cls(cbm, grown, given, found, fitter)


def _digest(cbm: NDArray[np.uint8]) -> str:
    return hashlib.sha256(cbm.tobytes()).hexdigest()

"""Load any saved recommender as the class that saved it."""

from __future__ import annotations

from mfrank.files.archive import Place
from mfrank.models.als import ALS
from mfrank.models.descent import Descent
from mfrank.models.ease import EASE
from mfrank.models.item_filter import ItemFilter
from mfrank.models.item_knn import ItemKNN
from mfrank.models.page_rank.estimator import SupervisedPageRank
from mfrank.models.popularity import Popularity
from mfrank.retrieval.item_blend import ItemBlend
from mfrank.retrieval.recommender import Recommender
from mfrank.store.factors import FactorStore

__all__ = ["load"]

_MODELS: dict[str, type[Recommender]] = {
    model.__name__: model
    for model in (
        *(ALS, Descent, EASE, ItemBlend, ItemFilter, ItemKNN, Popularity),
        SupervisedPageRank,
    )
}


def load(folder: Place, *, mmap: bool = False, verify: bool = False) -> Recommender:
    """Load any saved model as the class that saved it; see :meth:`mfrank.FactorStore.load`.

    A store of any other fitter is loaded as a plain :class:`mfrank.Recommender`. Where the class is
    known, its own ``load``, such as ``mfrank.ALS.load``, tells type checkers what comes back.
    """
    store = FactorStore.load(folder, mmap=mmap, verify=verify)
    model = _MODELS.get(store.fitter["name"], Recommender)
    return model._from_place(folder, store)

"""Load any saved recommender as the class that saved it."""

from __future__ import annotations

from collections.abc import Iterable

from mfrank.files import Place
from mfrank.models.blend import Blend
from mfrank.models.blend_parts import PARTS
from mfrank.models.page_rank import SupervisedPageRank
from mfrank.retrieval import ItemBlend, Recommender
from mfrank.store import FactorStore, OwnClasses

_MODELS: dict[str, type[Recommender]] = {
    model.__name__: model
    for model in (
        *PARTS.values(),
        *(Blend, ItemBlend, SupervisedPageRank),
    )
}


def load(
    folder: Place,
    *,
    mmap: bool = False,
    verify: bool = False,
    classes: Iterable[type] = (),
    trust: bool = False,
) -> Recommender:
    """Load any saved model as the class that saved it; see :meth:`mfrank.FactorStore.load`.

    A store of another fitter is loaded as a plain :class:`mfrank.Recommender`. If you know the
    class, its own ``load``, such as ``mfrank.ALS.load``, gives type checkers the return type.

    Parameters
    ----------
    folder : path or file object
    mmap, verify : bool, default False
        As in :meth:`mfrank.FactorStore.load`.
    classes : iterable of type, default ()
        Your own classes that the model uses, such as a loss. Classes in already imported modules
        need not be passed.
    trust : bool, default False
        Import the modules that the folder names, which runs their code: only for folders from a
        trusted source. Modules inside the folder are never imported.

    Raises
    ------
    FileNotFoundError
        There is no such folder.
    ValueError
        The folder has no model, or a damaged one; or the model uses a class that is neither
        imported nor passed, or whose module or constructor raises an error (the cause).
    """
    return loaded(folder, OwnClasses.of(classes, trust, folder), mmap=mmap, verify=verify)


def loaded(place: Place, own: OwnClasses, *, mmap: bool, verify: bool) -> Recommender:
    """As :func:`load`."""
    store = FactorStore.load(place, mmap=mmap, verify=verify)
    model = _MODELS.get(store.fitter["name"], Recommender)
    return model._from_place(place, store, own)

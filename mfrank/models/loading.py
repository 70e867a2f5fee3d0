"""Any model: loaded as the class that saved it, and fitted again by its recipe."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from mfrank.arrays import check_instance
from mfrank.data import Interactions
from mfrank.errors import InputTypeError, InputValueError
from mfrank.files import Place, joined_origins, n_earlier, path_of
from mfrank.files import roll_back as folder_rolled_back
from mfrank.models.als import ALS
from mfrank.models.blend_parts import unfitted, until
from mfrank.models.descent import Descent
from mfrank.models.odd_updates import tell_odd_refit
from mfrank.models.page_rank import SupervisedPageRank
from mfrank.models.reranker.reranker import Reranker
from mfrank.models.reranker.second_fit import FIRST_STAGES
from mfrank.pagerank import Graphs
from mfrank.retrieval import Recommender
from mfrank.store import FORMAT, FactorStore, OwnClasses, featured

_MODELS: dict[str, type[Recommender]] = {**FIRST_STAGES, Reranker.__name__: Reranker}


def load(
    folder: Place,
    *,
    mmap: bool = False,
    verify: bool = False,
    classes: Iterable[type] = (),
    trust: bool = False,
    version: int = 0,
) -> Recommender:
    """Load any saved model as the class that saved it; see :meth:`mfrank.FactorStore.load`.

    A store of another fitter is loaded as a plain :class:`mfrank.Recommender`. If you know the
    class, its own ``load``, such as ``mfrank.ALS.load``, gives type checkers the return type.

    Nothing is unpickled, but the trees of a :class:`mfrank.Reranker` are read by CatBoost, whose
    reader can crash, or worse, on forged bytes: load trees only from people you trust.

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
    version : int, default 0
        1 loads the version before the current one, 2 the one before that, if they were kept
        (``save(keep=)``).

    Raises
    ------
    FileNotFoundError
        There is no such folder.
    ValueError
        The folder has no model, or a damaged one; or the model uses a class that is neither
        imported nor passed, or whose module or constructor raises an error (the cause).
    ModuleNotFoundError
        The model has trees, and the package catboost is not installed.
    """
    own = OwnClasses.of(classes, trust, folder)
    return loaded(folder, own, mmap=mmap, verify=verify, version=version)


def n_versions(folder: str | os.PathLike[str]) -> int:
    """Return the number of versions of a saved model that its folder has, with the current one.

    Raises
    ------
    FileNotFoundError, ValueError
        As :func:`load`.
    """
    return n_earlier(path_of(folder, "folder"), FORMAT) + 1


def roll_back(folder: str | os.PathLike[str]) -> None:
    """Replace a saved model by the version before it, which a save kept (``save(keep=)``).

    It is atomic, and a server takes the earlier version up like a newer one. The version that was
    current is removed. What it had learned can be learned again: an update of the same ``batch``
    is applied.

    Raises
    ------
    FileNotFoundError
        There is no such folder.
    ValueError
        No earlier version was kept, or it is damaged; the folder is unchanged.
    """
    folder_rolled_back(path_of(folder, "folder"), FORMAT)


def loaded(
    place: Place, own: OwnClasses, *, mmap: bool, verify: bool, version: int = 0
) -> Recommender:
    """As :func:`load`."""
    store = FactorStore.load(place, mmap=mmap, verify=verify, version=version)
    model = _MODELS.get(store.fitter["name"], Recommender)
    return model._from_place(place, store, own)


def refit(model: Recommender, user_items: Any, *, show_progress: bool = False) -> Any:
    """Fit the recipe of a fitted model to other data: its options, for as many epochs.

    A model of :func:`mfrank.tune` ends at the epoch that ranked best, and a blend has weights: all
    of this is kept, so that tomorrow's model takes one fit and no search. Data unlike those of the
    model, for which its options were chosen, cause a warning.

    Parameters
    ----------
    model : fitted model
        As fitted, tuned or loaded; it stays as it is. Not one of factors alone. Of a
        :class:`mfrank.Reranker`, the first stage is fitted again, and the trees stay.
    user_items : Interactions, scipy or CuPy sparse matrix (users x items), or DataFrame
    show_progress : bool, default False
        Show epochs and the remaining time on stderr.

    Returns
    -------
    A new model of the same class

    Raises
    ------
    ValueError, TypeError
        The model is not fitted or has no recipe, or was fitted with features; or as its ``fit``
        raises.

    Examples
    --------
    >>> import mfrank
    >>> data = mfrank.synthetic(200, 100, 4000, random_state=0)
    >>> model = mfrank.ALS(factors=8, iterations=5, random_state=0)
    >>> _ = model.fit(data, callback=lambda epoch, *_: epoch == 1)
    >>> len(mfrank.refit(model, data).store.history)
    2
    """
    check_instance("model", model, Recommender, "a fitted model")
    _ = model.store  # raises if it is not fitted
    if not hasattr(model, "fit"):
        raise InputTypeError(
            f"`model` is a {type(model).__name__}, whose factors are from elsewhere:",
            "pass a model with a `fit`, such as mfrank.load returns",
        )
    if isinstance(model, Reranker):
        return model.over(refit(model.model, user_items, show_progress=show_progress))
    if sides := sorted(featured(model.store)):
        raise InputValueError(
            f"`model` was fitted with {sides[0]}_features, and a refit has none:",
            f"fit it again with them, as `fit(data, {sides[0]}_features=...)`",
        )
    if not isinstance(user_items, Graphs):
        user_items = Interactions.of(user_items)
        tell_odd_refit(model, user_items)
    fresh = unfitted(model)
    fresh._known_before = joined_origins(model._known_before, model._origin)
    if isinstance(model, SupervisedPageRank):  # whose steps are those of a learner
        return fresh.fit(user_items, show_progress=show_progress)
    epochs = fit_epochs(model) if isinstance(model, ALS | Descent) else None
    return fresh.fit(user_items, callback=until(epochs), show_progress=show_progress)


def fit_epochs(model: ALS | Descent) -> int:
    """Epochs of the fit of a model, without the records of updates, which have numbers of rows."""
    history = model.store.history
    return sum("rows" not in record and "objective" in record for record in history)

"""A local site to explore a model, with pages that are also available as JSON.

``mfrank.explore(model)`` shows it, such as in a notebook. ``mfrank.pages.app({"model": model})`` is
an ASGI application; :func:`mfrank.serving.run` runs it like ``mfrank explore``. They need the extra
``pages``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mfrank import serving
from mfrank.arrays import needs
from mfrank.data import Interactions
from mfrank.retrieval import Recommender

if TYPE_CHECKING:
    from fastapi import FastAPI

    from mfrank.serving.running import InThread

__all__ = ["app", "explore"]


def app(
    models: Mapping[str, Recommender],
    data: Interactions | None = None,
    items: str | os.PathLike[str] | None = None,
    *,
    allow_hosts: Iterable[str] = (),
) -> FastAPI:
    """Return the site of one fitted model, or of two to compare.

    Parameters
    ----------
    models : mapping of str to Recommender
        One or two fitted models, by their names on the pages.
    data : Interactions, optional
        Interactions with the ids of the models. Entries that a model has not seen are held out, and
        shown as hits and misses. Values, such as ratings, are shown, and used to explain scores of
        WRMF.
    items : path, optional
        A .csv or .tsv file with a header: ids of items (the column ``item``, ``item_id`` or ``id``,
        else the first), names (``title`` or ``name``, else the second), and any further columns. By
        default, names are ids.
    allow_hosts : iterable of str, optional
        As in :func:`mfrank.serving.app`.

    Raises
    ------
    ModuleNotFoundError
        FastAPI or Jinja2 is not installed.
    ValueError, TypeError, FileNotFoundError
        There are not one or two models, they are not fitted, they know no user or no item of
        ``data``, or ``items`` cannot be read.
    """
    with needs("pages"):
        from mfrank.pages.site_routes import build
    return build(models, data, items, allow_hosts)


def explore(
    models: Recommender | Mapping[str, Recommender],
    data: Interactions | None = None,
    items: str | os.PathLike[str] | None = None,
    *,
    port: int = 0,
) -> InThread:
    """Show the site of a model, or of two to compare, from this process, such as in a notebook.

    Parameters
    ----------
    models : Recommender or mapping of str to Recommender
        A fitted model, or one or two by their names.
    data, items : optional
        As in :func:`mfrank.pages.app`.
    port : int, default 0
        0 chooses a free port.

    Returns
    -------
    InThread
        Its ``url``, which this computer alone can open; ``stop()`` ends it, as does the end of the
        process. A notebook shows the site in a frame.

    Raises
    ------
    ModuleNotFoundError, ValueError, TypeError, FileNotFoundError
        As in :func:`mfrank.pages.app`.
    OSError
        The port is taken.
    """
    named = {"model": models} if isinstance(models, Recommender) else models
    return serving.start(app(named, data, items), port=port)

"""A local site to explore a model, with pages that are also available as JSON.

``mfrank.pages.app(model)`` is an ASGI application; :func:`mfrank.serving.run` runs it like ``mfrank
explore``. It needs the extra ``pages``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mfrank.arrays import needs
from mfrank.data import Interactions
from mfrank.retrieval import Recommender

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["app"]


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

"""A model as a service: lists, scores and explanations as JSON over HTTP.

``mfrank.serving.app(model)`` is an ASGI application: any ASGI server can run it, and tests can call
it in their own process; ``mfrank.serving.run`` runs it as ``mfrank serve`` does. Both need the
extra ``serve``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mfrank.arrays import needs
from mfrank.retrieval import Recommender
from mfrank.serving.limits import Limits

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["Limits", "app", "run"]


def app(
    model: Recommender | str | os.PathLike[str],
    *,
    limits: Limits | None = None,
    reload_seconds: float = 1.0,
    allow_hosts: Iterable[str] = (),
    classes: Iterable[type] = (),
    trust: bool = False,
) -> FastAPI:
    """Return the application that answers from a model.

    Parameters
    ----------
    model : Recommender or path
        A fitted model, or the folder of a saved one. A folder is checked again and again: when a
        newer model is saved there, it is loaded and answers all later requests. A load that fails
        is tried again, and ``/health`` shows why it failed. Checks begin when the service starts,
        or with the first request where the application is mounted in another one.
    limits : Limits, optional
        The most that a request may ask for; default ``Limits()``. Those on connections and headers
        hold under :func:`run`; other servers have their own.
    reload_seconds : float, default 1
        Seconds between two checks of the folder, > 0.
    allow_hosts : iterable of str, optional
        The host names by which the service is asked, such as "api.example.com" or
        "*.example.com"; requests for another are refused. By default all are answered, but see
        :func:`run`.
    classes, trust
        As in :func:`mfrank.load`, for the models of the folder, newer ones too.

    Raises
    ------
    ModuleNotFoundError
        FastAPI is not installed.
    ValueError, TypeError, FileNotFoundError
        ``model`` is neither a fitted model nor a folder with one, ``reload_seconds`` is not above
        0, or ``allow_hosts`` are no host names.
    """
    with needs("serve"):
        from mfrank.serving.application import build
    return build(model, limits or Limits(), reload_seconds, allow_hosts, classes, trust)


def run(application: FastAPI, *, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve an application until Ctrl-C or SIGTERM; requests that have begun are still answered.

    They have 10 seconds for that, and 5 more until the process of ``mfrank serve`` is ended
    whatever it does. If the service listens on this computer only, requests for a host name that is
    neither this computer's nor in ``allow_hosts`` of the application are refused, so that no web
    page can read from it. SIGHUP makes it load the model of its folder at once. A program that has
    handlers of its own for SIGTERM or SIGHUP keeps them; in a thread none are set.

    Parameters
    ----------
    application : FastAPI
        Such as :func:`app` returns.
    host : str, default "127.0.0.1"
        Address to listen on; "0.0.0.0" is every address of this computer.
    port : int, default 8000
        0 takes a free one.

    Raises
    ------
    ModuleNotFoundError
        uvicorn is not installed.
    ValueError
        ``port`` is not from 0 to 65535.
    OSError
        The address is taken, or does not belong to this computer.
    """
    with needs("serve"):
        from mfrank.serving.application import serve
    serve(application, host, port)

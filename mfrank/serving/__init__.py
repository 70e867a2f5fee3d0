"""A model as a service: lists, scores and explanations as JSON over HTTP.

``mfrank.serving.app(model)`` is an ASGI application for any ASGI server, or for tests in the same
process. ``mfrank.serving.run`` runs it like ``mfrank serve``. Both need the extra ``serve``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mfrank.arrays import needs
from mfrank.retrieval import Recommender
from mfrank.serving.event_journal import KIND, Event, EventJournal
from mfrank.serving.limits import Limits

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["KIND", "Event", "EventJournal", "Limits", "app", "run"]


def app(
    model: Recommender | str | os.PathLike[str],
    *,
    limits: Limits | None = None,
    reload_seconds: float = 1.0,
    allow_hosts: Iterable[str] = (),
    classes: Iterable[type] = (),
    trust: bool = False,
    mmap: bool = False,
) -> FastAPI:
    """Return the ASGI application that serves a model.

    Parameters
    ----------
    model : Recommender or path
        A fitted model, or the folder of a saved one. A folder is checked periodically: a newer
        model that is saved there is loaded and answers all later requests. A failed load is
        retried, and ``/health`` shows the reason. Checks begin when the service starts or, if the
        application is mounted in another one, with the first request.
    limits : Limits, optional
        Limits of requests; default ``Limits()``. The limits of connections and headers apply under
        :func:`run`; other servers have their own.
    reload_seconds : float, default 1
        Seconds between two checks of the folder, > 0.
    allow_hosts : iterable of str, optional
        Host names to answer for, such as "api.example.com" or "*.example.com"; requests for other
        hosts are refused. By default, all are answered, but see :func:`run`.
    classes, trust
        As in :func:`mfrank.load`, for all models of the folder.
    mmap : bool, default False
        Memory-map the model, so that services on one machine share it; every load compares the
        checksums. Replace its files only by a save, a copy to a new name or a rename: a file that
        is cut short under a map ends the process.

    Raises
    ------
    ModuleNotFoundError
        FastAPI is not installed.
    ValueError, TypeError, FileNotFoundError
        ``model`` is neither a fitted model nor a folder with one, ``reload_seconds`` is not above
        0, or ``allow_hosts`` are not host names.
    """
    with needs("serve"):
        from mfrank.serving.application import build
    return build(model, limits or Limits(), reload_seconds, allow_hosts, classes, trust, mmap)


def run(application: FastAPI, *, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve an application until Ctrl-C or SIGTERM; open requests are still answered.

    - Shutdown: open requests have 10 seconds; 5 seconds later, the process of ``mfrank serve`` ends
      in any case.
    - Hosts: if the service listens only on this computer, requests are refused unless the host name
      is this computer's or in ``allow_hosts``, so that web pages cannot read from it.
    - Signals: SIGHUP loads the model of the folder at once. Existing handlers of SIGTERM or SIGHUP
      stay in place; no handlers are set in a thread.

    Parameters
    ----------
    application : FastAPI
        An application, as from :func:`app`.
    host : str, default "127.0.0.1"
        Address to listen on; "0.0.0.0" is every address of this computer.
    port : int, default 8000
        0 chooses a free port.

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

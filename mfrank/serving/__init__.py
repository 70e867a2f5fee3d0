"""A model as a service: lists, scores and explanations as JSON over HTTP.

``mfrank.serving.app(model)`` is an ASGI application for any ASGI server, or for tests in the same
process. ``mfrank.serving.run`` runs it like ``mfrank serve``, ``mfrank.serving.start`` in a thread.
All need the extra ``serve``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mfrank.arrays import needs
from mfrank.errors import InputValueError
from mfrank.retrieval import Recommender
from mfrank.serving.event_journal import Event, EventJournal
from mfrank.serving.kind_weights import KIND
from mfrank.serving.limits import Limits

if TYPE_CHECKING:
    from fastapi import FastAPI

    from mfrank.serving.arm_report import ExperimentReport
    from mfrank.serving.running import InThread

__all__ = [
    "KIND",
    "Event",
    "EventJournal",
    "Limits",
    "app",
    "arm_of",
    "new_key",
    "report",
    "run",
    "start",
]

_EXPLORE_DEPTH = 100


def app(
    model: Recommender
    | str
    | os.PathLike[str]
    | Mapping[str, Recommender | str | os.PathLike[str]],
    *,
    limits: Limits | None = None,
    reload_seconds: float = 1.0,
    allow_hosts: Iterable[str] = (),
    classes: Iterable[type] = (),
    trust: bool = False,
    mmap: bool = False,
    key_file: str | os.PathLike[str] | None = None,
    allow_origins: Iterable[str] = (),
    log: str | None = None,
    journal: str | os.PathLike[str] | None = None,
    weights: Mapping[str, float | None] | None = None,
    remember_shown: float | None = None,
    shown_file: str | os.PathLike[str] | None = None,
    items: Any = None,
    items_query: str | None = None,
    split: Mapping[str, float] | None = None,
    salt: str | None = None,
    log_lists: float | None = None,
    explore: float | None = None,
    explore_depth: int = _EXPLORE_DEPTH,
) -> FastAPI:
    """Return the ASGI application that serves a model, or several to different users.

    Parameters
    ----------
    model : Recommender, path, or mapping of str to these
        A fitted model, or the folder of a saved one. A folder is checked periodically: a newer
        model that is saved there is loaded and answers all later requests. A failed load is
        retried, and ``/health`` shows the reason. Checks begin when the service starts or, if the
        application is mounted in another one, with the first request. Several models have names,
        ``{"a": "model-a", "b": "model-b"}``: the arms of an experiment.
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
    key_file : path, optional
        File of keys, of which every request must send one, as :func:`new_key` makes it; changes are
        read within a second. By default, no key is asked for.
    allow_origins : iterable of str, optional
        Origins of web pages that may read answers, such as "https://shop.example.com", or "*".
    log : str, optional
        File to which a JSON line is appended for each request, without ids of users or items; "-"
        is the standard output.
    journal : path, optional
        Folder of an :class:`EventJournal`, to which ``POST /events`` appends; it is created if it
        does not exist. Events that the model has not learned from change the lists of their users
        at once.
    weights : mapping of str to float or None, optional
        What an event of each kind counts in place of its value, as of ``mfrank update --weights``;
        events of other kinds are refused. By default, a kind that had a weight in the fit counts
        as much, and other events count by their values. A value of 0 is only seen.
    remember_shown : float, optional
        Seconds for which the lists of a user leave out what was shown to the user.
    shown_file : path, optional
        SQLite file for that memory, which services on one machine may share and which outlives
        them; by default, it is in memory.
    items : path, URL, DataFrame or function, optional
        A table with a row for each item and its id in a column such as ``item_id``: .csv, .tsv,
        .parquet (also as a URL of fsspec, such as ``s3://shop/items.parquet``), a DataFrame, a
        function that returns one, or the URL of a database (SQLAlchemy). Requests choose by its
        columns with ``where=`` and get them with ``fields=``. Items that are true in a column
        ``hidden``, and items before ``available_from`` or after ``available_until`` (dates; a date
        without a time is the whole day, one without a time zone is UTC) are in no list. A file is
        read again when it changes; a URL, a database or a function is asked every minute. If that
        fails, or the file is gone, the table before it stays, and ``/health`` shows the reason.
    items_query : str, optional
        What to read from a database, a SELECT or the name of a table.
    split : mapping of str to float, optional
        The share of the users that each of several models answers, such as
        ``{"a": 0.9, "b": 0.1}``; they sum to 1. :func:`arm_of` says whom.
    salt : str, optional
        Of :func:`arm_of`: name each experiment anew, so that it does not divide the users as the
        one before did. Also the seed of ``explore``.
    log_lists : float, optional
        Seconds for which the lists that were shown are kept in the journal, with users, models and
        times, for :func:`mfrank.serving.report`.
    explore : float, optional
        Probability with which each place of a list of ``GET /recommend/{user}`` and of users of
        ``POST /recommend`` is opened to the ``explore_depth`` items that follow the list, which are
        dealt to the places at random. The log then has the probability that each item is in the
        list, by which :func:`mfrank.serving.report` judges other models. Requests that filter or
        steer, and pages, are not changed.
    explore_depth : int, default 100

    Raises
    ------
    ModuleNotFoundError
        FastAPI is not installed.
    ValueError, TypeError, FileNotFoundError
        ``model`` is neither a fitted model nor a folder with one, ``reload_seconds`` is not above
        0, ``split`` has other names or does not sum to 1, several models have ids of different
        types, ``allow_hosts`` are not host names or ``allow_origins`` no origins, or ``key_file``
        has a wrong line, no key, or may be written by others than its owner; or ``items`` cannot
        be read.
    OSError
        ``key_file`` cannot be read, or ``log`` not written.
    """
    with needs("serve"):
        from mfrank.serving.application import build
        from mfrank.serving.exploration import Explorer
        from mfrank.serving.visitors import Visitors
    if explore is None and explore_depth != _EXPLORE_DEPTH:
        raise InputValueError("`explore_depth` needs `explore`,", "the share of places to open")
    explorer = None if explore is None else Explorer(explore, explore_depth, salt or "")
    visitors = Visitors.of(journal, weights, remember_shown, shown_file, log_lists, explorer)
    return build(
        model,
        limits or Limits(),
        reload_seconds,
        allow_hosts,
        classes,
        trust,
        mmap,
        key_file,
        allow_origins,
        log,
        visitors,
        items,
        items_query,
        split,
        salt,
    )


def arm_of(user: int | str, split: Mapping[str, float], salt: str = "") -> str:
    """Return the name of the model that answers a user, in a service with several.

    Parameters
    ----------
    user : id
        A number and its text are the same user.
    split : mapping of str to float
        The share of the users of each model; they sum to 1.
    salt : str, default ""
        Of the experiment: with another salt, users are divided independently.

    Returns
    -------
    str
        The same in every process and on every machine, for any order of the names. When shares
        change, a user moves only to a model whose share has grown in proportion to that of the one
        before: from 0.9 and 0.1 to 0.8 and 0.2, nobody leaves the second.

    Raises
    ------
    ModuleNotFoundError
        FastAPI is not installed.
    ValueError, TypeError
        ``split`` has no shares, or they do not sum to 1.
    """
    with needs("serve"):
        from mfrank.serving.arms import arm_of as assigned
    return assigned(user, split, salt)


def new_key(
    path: str | os.PathLike[str],
    name: str,
    *,
    scopes: Iterable[str] = ("read",),
    rate: float | None = None,
) -> str:
    """Add a key to a file of keys and return it; the file has only its hash.

    Parameters
    ----------
    path : path
        The file, of which a service is given as ``key_file``; created for its owner alone if it
        does not exist.
    name : str
        Name of the key, in logs: up to 64 letters, digits, dots, dashes and underscores.
    scopes : iterable of {"read", "write", "operate"}, default ("read",)
        What the key may do: read lists and scores; send data; read ``/metrics``, choose a model and
        roll back.
    rate : float, optional
        Requests a second, > 0, of which as many may come at once; by default without limit.

    Raises
    ------
    ModuleNotFoundError
        FastAPI is not installed.
    ValueError
        An argument is wrong, the file has a key of this name, or a wrong line.
    """
    with needs("serve"):
        from mfrank.serving.access import new_key as added
    return added(path, name, scopes, rate)


def report(
    journal: EventJournal | str | os.PathLike[str],
    *,
    since: str | float | None = None,
    within: float = 86_400.0,
    kinds: Sequence[str] | None = None,
    of: Recommender | None = None,
) -> ExperimentReport:
    """Compare the models of a service by what users did with their lists.

    Parameters
    ----------
    journal : EventJournal or path
        Of a service with ``log_lists``.
    since : str or float, optional
        Date or seconds since 1970 of the first list that counts; by default, all count.
    within : float, default 86400
        Seconds after a list in which an event with one of its items is a click on the list. It
        counts for the last list before it that has the item, and once.
    kinds : sequence of str, optional
        Kinds of events that are clicks; by default all. An event of value 0 is none.
    of : Recommender, optional
        Another model, of which to estimate the clicks a list by what ``explore`` has drawn. Fit it
        to data from before the lists: of what users clicked, it must know nothing.

    Returns
    -------
    ExperimentReport
        ``arms``, ``differences`` and ``counterfactual``; prints as tables, and has ``to_dict``.

    Raises
    ------
    ValueError, TypeError
        The journal has no lists, or none with drawn items for ``of``; an argument is wrong.
    """
    from mfrank.serving.arm_report import report as made

    return made(journal, since, within, kinds, of)


def start(application: FastAPI, *, host: str = "127.0.0.1", port: int = 0) -> InThread:
    """Serve an application from a thread of this process, such as one of a notebook.

    Parameters
    ----------
    application : FastAPI
        As from :func:`app`, or :func:`mfrank.pages.app`.
    host : str, default "127.0.0.1"
        Address to listen on.
    port : int, default 0
        0 chooses a free port.

    Returns
    -------
    InThread
        Its ``url``; ``stop()`` ends it, as does the end of a ``with`` block, or of the process. A
        notebook shows the site in a frame.

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
        from mfrank.serving.running import InThread as made
    return made(application, host, port)


def run(
    application: FastAPI | Callable[[], FastAPI],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    root_path: str = "",
    drain_seconds: float = 0.0,
    workers: int = 1,
) -> None:
    """Serve an application until Ctrl-C or SIGTERM; open requests are still answered.

    - Shutdown: open requests have 10 seconds; 5 seconds later, the process of ``mfrank serve`` ends
      in any case.
    - Hosts: if the service listens only on this computer, requests are refused unless the host name
      is this computer's or in ``allow_hosts``, so that web pages cannot read from it.
    - Signals: SIGHUP loads the model of the folder at once. Existing handlers of SIGTERM or SIGHUP
      stay in place; no handlers are set in a thread.

    Parameters
    ----------
    application : FastAPI or callable
        An application, as from :func:`app`, or a function without arguments that returns one.
    host : str, default "127.0.0.1"
        Address to listen on; "0.0.0.0" is every address of this computer.
    port : int, default 8000
        0 chooses a free port.
    root_path : str, default ""
        Prefix, such as "/recommender", that a proxy in front removes from paths; ``/openapi.json``
        names it as the server's.
    drain_seconds : float, default 0
        Seconds after SIGTERM in which ``/ready`` answers 503 and all other requests are still
        answered, so that a load balancer can look elsewhere; a second SIGTERM ends them.
    workers : int, default 1
        Processes that answer at the same address, for which ``application`` must be a function that
        other processes can import, such as ``functools.partial(app, "model", mmap=True)``, and the
        model a folder. One that is killed is begun anew; signals go to all of them. Each has its
        own limits of requests, connections and keys.

    Raises
    ------
    ModuleNotFoundError
        uvicorn is not installed, or, for several workers, prometheus_client.
    ValueError, TypeError
        ``port`` is not from 0 to 65535, ``root_path`` no path, ``drain_seconds`` below 0 or
        ``workers`` not from 1 to 256; or, with several, ``application`` is not such a function, its
        model no folder, or what was shown would be remembered by each for itself.
    OSError
        The address is taken, or does not belong to this computer.
    """
    with needs("serve"):
        from mfrank.serving.running import serve
    serve(application, host, port, root_path, drain_seconds, workers)

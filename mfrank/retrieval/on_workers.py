"""Files that the workers of a cluster write; each is complete or not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mfrank.backends.sharded import check_one_place
from mfrank.backends.sharded.arithmetic import same_workers, threads_of_a_task
from mfrank.cluster.connecting import Cluster, connected
from mfrank.cluster.flow import as_done
from mfrank.cluster.worker import Call

__all__ = ["Part", "written_on_workers"]


class Part(NamedTuple):
    """A file, and the rows of the users that it is for.

    Attributes
    ----------
    path : Path
    begin, end : int
    n_nobody : int
        How many of these users have nothing to go by, once it is written.
    """

    path: Path
    begin: int
    end: int
    n_nobody: int = 0


def written_on_workers(
    cluster: Cluster,
    parts: Sequence[Part],
    write: Callable[[Any, Part], Part],
    source: Callable[[int], Any],
    *,
    backend: str,
    n_threads: int,
) -> Iterator[Part]:
    """Write files as tasks; yield each one that is written.

    Parameters
    ----------
    cluster : Cluster
        Checked.
    parts : sequence of Part
    write : function of the source and a part
        A task, which may run twice.
    source : function of a number of threads
        What the lists are made from, which is sent to each worker once.
    backend : str
        That workers must have.
    n_threads : int
        Of a task; 0 divides each machine's cores among its workers.

    Raises
    ------
    ConnectionError, ValueError
        Nothing answers there, the workers do not all have the arithmetic of this process, or the
        backend is on a GPU.
    OSError
        A file cannot be written, or lies on another disk.
    """
    check_one_place(cluster, backend)
    with connected(cluster) as engine:
        workers = same_workers(engine, backend)
        held = engine.submit(_itself, source(threads_of_a_task(workers, n_threads)))
        calls = ((part, Call(_written, (held, write, part))) for part in parts)
        for part, done in as_done(engine, len(workers), calls):
            if not part.path.exists():
                raise OSError(_other_disk(part.path, "a worker wrote it, and it is not here"))
            yield done


def _itself(source: Any) -> Any:
    return source


def _written(source: Any, write: Callable[[Any, Part], Part], part: Part) -> Part:
    if not part.path.parent.is_dir():
        raise OSError(_other_disk(part.path, "a worker does not see its folder"))
    return write(source, part)


def _other_disk(path: Path, what: str) -> str:
    return f"{path}: {what}; pass a folder on a disk that all workers see, at the same path"

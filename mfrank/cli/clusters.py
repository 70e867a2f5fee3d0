"""The flag --cluster: where the tasks of a command run."""

from __future__ import annotations

import argparse

__all__ = ["add_cluster_flag"]


def add_cluster_flag(parser: argparse._ActionsContainer, what: str, result: str) -> None:
    """Add the flag; its help tells ``what`` is done there, and what the ``result`` is."""
    parser.add_argument(
        "--cluster",
        type=_cluster,
        metavar="N|ADDRESS|ray",
        help=f"{what} in so many worker processes, or on the Dask cluster whose scheduler has this "
        f"address, or on the Ray cluster that this machine is part of; {result}",
    )


def _cluster(text: str) -> int | str:
    return int(text) if text.isdecimal() else text

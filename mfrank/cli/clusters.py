"""The flag --cluster: where the tasks of a command run."""

from __future__ import annotations

import argparse

__all__ = ["add_cluster_flag"]


def add_cluster_flag(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the flag; ``what`` runs there."""
    parser.add_argument(
        "--cluster",
        type=_cluster,
        metavar="N|ADDRESS",
        help=f"{what} in so many worker processes, or on the Dask cluster whose scheduler has this "
        "address; the result is the same",
    )


def _cluster(text: str) -> int | str:
    return int(text) if text.isdecimal() else text

"""Flags that several commands have."""

from __future__ import annotations

import argparse

__all__ = ["add_address_flags", "add_threads_flag"]


def add_threads_flag(parser: argparse.ArgumentParser) -> None:
    """Add ``--n-threads``."""
    parser.add_argument(
        "--n-threads", type=int, default=0, metavar="INT", help="0 takes every core (default: 0)"
    )


def add_address_flags(parser: argparse.ArgumentParser, port: int) -> None:
    """Add ``--port``, with its default, ``--host`` and ``--allow-host``."""
    parser.add_argument("--port", type=int, default=port, metavar="INT", help=f"(default: {port})")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="where to listen; 0.0.0.0 is every address of this computer (default: 127.0.0.1)",
    )
    parser.add_argument(
        "--allow-host",
        dest="allow_hosts",
        action="append",
        default=[],
        metavar="NAME",
        help="a host name by which it is asked, such as api.example.com or *.example.com, e.g. "
        "behind a proxy; may be repeated (default: any, but only this computer's own while it "
        "listens on this computer only)",
    )

"""Make a key for mfrank serve --key-file, and print it, once: the file has only its hash.

A program sends it as "Authorization: Bearer KEY". To take a key back, remove its line.
"""

from __future__ import annotations

import argparse

from mfrank import serving

EXAMPLES = """\
  mfrank new-key shop --key-file keys --rate 50
  mfrank new-key prometheus --key-file keys --scopes operate
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``mfrank new-key``."""
    parser.add_argument("name", metavar="NAME", help="name of the key, in logs")
    parser.add_argument(
        "--key-file",
        required=True,
        metavar="FILE",
        help="where its line is added; created for its owner alone",
    )
    parser.add_argument(
        "--scopes",
        type=lambda text: text.split(","),
        default=["read"],
        metavar="NAMES",
        help="what it may do: read (lists, scores), write (send data), operate (/metrics, "
        "/rollback, model=); "
        "separated by commas (default: read)",
    )
    parser.add_argument(
        "--rate", type=float, metavar="FLOAT", help="requests a second (default: no limit)"
    )


def run(args: argparse.Namespace) -> None:
    """Print the key."""
    print(serving.new_key(args.key_file, args.name, scopes=args.scopes, rate=args.rate))

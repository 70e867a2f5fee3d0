"""Tells whether an error is Ctrl-C's."""

from __future__ import annotations

__all__ = ["is_ctrl_c"]


def is_ctrl_c(error: BaseException | None) -> bool:
    """Whether it is a KeyboardInterrupt, or what an import made of one.

    Modules in C turn an interrupted import into an ImportError.
    """
    while isinstance(error, ImportError):
        error = error.__cause__ or error.__context__
    return isinstance(error, KeyboardInterrupt)

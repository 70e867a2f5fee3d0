"""Ids that a model or a data set does not have: the error, and the option to skip them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Literal, TypeAlias, get_args

from mfrank.arrays.checks import check_choice

__all__ = ["OnUnknown", "UnknownIdError", "check_on_unknown"]

OnUnknown: TypeAlias = Literal["error", "skip"]
"""What a call does with unknown ids: raise :class:`UnknownIdError`, or go on without them."""


def check_on_unknown(on_unknown: object) -> None:
    """Raise ValueError unless this is one of :data:`OnUnknown`."""
    check_choice("on_unknown", on_unknown, get_args(OnUnknown))


class UnknownIdError(ValueError):
    """Users or items are unknown: a service can answer this with "not found".

    Attributes
    ----------
    ids : tuple
        The unknown ids in the order given, each once.

    Examples
    --------
    >>> import mfrank
    >>> model = mfrank.ALS(factors=2).fit(mfrank.synthetic(20, 10, 60, random_state=0))
    >>> try:
    ...     model.recommend(77)
    ... except mfrank.UnknownIdError as error:
    ...     print(error.ids)
    (77,)
    """

    def __init__(self, message: str, ids: Iterable[Hashable]) -> None:
        super().__init__(message)
        self.ids = tuple(dict.fromkeys(ids))

    def given_as(self, argument: str) -> UnknownIdError:
        """The same error with the name of the argument in front."""
        return type(self)(f"{argument}: {self}", self.ids)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.ids)

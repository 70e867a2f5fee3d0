"""The error for ids that a model or a data set does not have."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

__all__ = ["UnknownIdError"]


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

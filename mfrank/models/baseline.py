"""Models that are counted, not iterated: a store is made of the data in one step."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from time import perf_counter
from typing import Any, Self

from mfrank.arrays.turns import in_turn
from mfrank.data.interactions import Interactions
from mfrank.models.factor_model import Callback, FactorModel, check_callback, refuse_no_likes
from mfrank.models.value_checks import tell_unread_values
from mfrank.store.factors import FactorStore

__all__ = ["Baseline"]


class Baseline(FactorModel):
    """A model to compare others with, whose store follows from the data."""

    @in_turn
    def fit(
        self,
        user_items: Any,
        *,
        callback: Callback | None = None,
        show_progress: bool = False,
    ) -> Self:
        """Fit to interactions.

        Parameters
        ----------
        user_items : Interactions, scipy or CuPy sparse matrix (users x items), or DataFrame
        callback : function, optional
            Called once, at the end, with 0, the seconds of the fit, and None.
        show_progress : bool, default False
            As in other models; there is nothing to show.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            The data have no positive entry, or cannot be read as interactions.
        """
        self.__post_init__()
        check_callback(callback)
        began = perf_counter()
        data = Interactions.of(user_items)
        refuse_no_likes(data)
        if not self.uses_values:
            tell_unread_values(type(self).__name__, data)
        self._hold(self._store_of(data), copy(data.seen))  # shallow: the arrays are read-only
        self._origin = {}
        if callback:
            callback(0, perf_counter() - began, None)
        return self

    @abstractmethod
    def __post_init__(self) -> None:
        """Check the options, which may have been set since."""

    def remove(self, *args: Any, **options: Any) -> Self:
        """Raise TypeError: a new fit takes no longer than a removal would."""
        raise TypeError(
            f"{type(self).__name__} cannot remove users and items: fit it anew to interactions "
            "without them"
        )

    @abstractmethod
    def _store_of(self, data: Interactions) -> FactorStore:
        """What the model is of these interactions."""

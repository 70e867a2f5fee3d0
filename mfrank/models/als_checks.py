"""Which options of an ALS can be combined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mfrank.als.quadratic import QuadraticObjective
from mfrank.backends import Backend


def check_biases(
    objective: QuadraticObjective, solver: str, cg_tolerance: float | None, gather_dtype: Any
) -> None:
    """Raise ValueError if an option cannot be combined with ``biases=True``."""
    if objective.interaction(1):
        raise ValueError(
            f"biases=True: {type(objective).__name__} couples all items by their scores, which "
            "has no closed form with biases; use RG2, or biases=False"
        )
    if objective.regularization == 0:
        raise ValueError("biases=True needs an objective with regularization > 0")
    if solver == "cg" or cg_tolerance is not None or gather_dtype is not None:
        raise ValueError(
            "biases=True solves all rows exactly; leave out solver='cg', cg_tolerance and "
            "gather_dtype"
        )


def check_biased_fit(backend: Backend, name: str, *others: Any) -> None:
    """Raise ValueError if the backend or arguments of a fit cannot be combined with biases."""
    if not backend.PRIORS:
        raise ValueError(f"backend {name!r} cannot fit biases; use backend='auto'")
    if any(other is not None for other in others):
        raise ValueError(
            "biases=True does not go together with checkpoint, user_features and item_features; "
            "leave them out"
        )


def check_featured_fit(
    given: Mapping[str, Any],
    objective: QuadraticObjective,
    backend: Backend,
    name: str,
) -> None:
    """Raise ValueError if there are features and another option cannot be combined with them."""
    first = next((name for name, features in given.items() if features is not None), None)
    if first is None:
        return
    if not backend.PRIORS:
        raise ValueError(
            f"backend {name!r} cannot fit {first}; use backend='auto', or leave it out"
        )
    if objective.regularization == 0:
        raise ValueError(
            f"{first} needs an objective with regularization > 0: features are where its ridge "
            "pulls to"
        )

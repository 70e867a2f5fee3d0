"""Compute backends: one module or folder each, all with the interface :class:`Backend`.

``reference`` is the specification (numpy, float64, one row at a time); every other backend is
tested against it, to the tolerance that the backend declares. ``cpu`` is the C++ extension,
``numpy`` what takes its place where that is missing, ``cuda`` a GPU through CuPy. Factors are numpy
arrays or, for a backend with its own device, arrays on that device; results computed from device
arrays stay on the device.

The interface has four parts: rows, lists, walks and top-K lists. A backend may implement any of
them (:mod:`~mfrank.backends.surface`). Types of arguments are in :mod:`~mfrank.backends.arguments`
and :mod:`~mfrank.backends.row_problem`.
"""

from mfrank.backends import reference
from mfrank.backends.arguments import (
    ROUNDS,
    AdamAverages,
    AdamRates,
    Chain,
    Factors,
    GatherDtype,
    ItemProbabilities,
    Moves,
    SolveOptions,
    Solver,
    Until,
    Walked,
)
from mfrank.backends.dense import (
    eigh,
    half_of,
    halved,
    none_of,
    rounded,
    scale_of,
    widened,
    withdraw,
)
from mfrank.backends.reference import extrapolate
from mfrank.backends.registry import choose, guest, named, names, register
from mfrank.backends.row_problem import CellTerm, Gram, ObservedLoss, RowProblem, Shared, Vector
from mfrank.backends.surface import PARTS, Backend, members

__all__ = [
    "PARTS",
    "ROUNDS",
    "AdamAverages",
    "AdamRates",
    "Backend",
    "CellTerm",
    "Chain",
    "Factors",
    "GatherDtype",
    "Gram",
    "ItemProbabilities",
    "Moves",
    "ObservedLoss",
    "RowProblem",
    "Shared",
    "SolveOptions",
    "Solver",
    "Until",
    "Vector",
    "Walked",
    "choose",
    "eigh",
    "extrapolate",
    "guest",
    "half_of",
    "halved",
    "members",
    "named",
    "names",
    "none_of",
    "reference",
    "register",
    "rounded",
    "scale_of",
    "widened",
    "withdraw",
]

"""Compute backends: one module or folder each, all with the interface :class:`Backend`.

``reference`` is the specification (numpy, float64, one row at a time); every other backend is
tested against it, to the tolerance that the backend declares. ``cpu`` is the C++ extension,
``cuda`` a GPU through CuPy. Factors are numpy arrays or, for a backend with its own device, arrays
on that device; results computed from device arrays stay on the device.

The types of the arguments are in :mod:`~mfrank.backends.row_problem`,
:mod:`~mfrank.backends.solve_options`, :mod:`~mfrank.backends.walks`,
:mod:`~mfrank.backends.negative_sampling` and :mod:`~mfrank.backends.adam`.
"""

from mfrank.backends.registry import choose, named, names, register
from mfrank.backends.surface import Backend, Factors

__all__ = ["Backend", "Factors", "choose", "named", "names", "register"]

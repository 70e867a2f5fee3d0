"""The arithmetic of the CUDA backend: kernels, and what prepares their arguments.

Nothing here imports CuPy but :mod:`mfrank.cuda.cupy_device`, and that is imported where a kernel is
about to run. Everything else speaks to a :class:`mfrank.cuda.device.Device`, so that the tests run
the same Python and the same kernel texts on a machine without a GPU.
"""

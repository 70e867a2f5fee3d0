"""Engines: where the tasks of a fit run. One file each, all with the interface ``surface.Engine``.

``processes`` starts workers on this machine, ``dask`` and ``ray`` speak to clusters of these names.
An engine knows nothing of factors: a task is a function and its arguments.
"""

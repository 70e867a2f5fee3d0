"""Engines: where the tasks of a fit run. One file each, all with the interface ``surface.Engine``.

``processes`` starts workers on this machine, ``dask`` speaks to a Dask cluster. An engine knows
nothing of factors: a task is a function and its arguments.
"""

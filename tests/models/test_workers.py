"""A fit is the same in whatever kind of process a user's tools start."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from children import PATHS
from numpy.typing import NDArray

import mfrank

Fit = Callable[[], NDArray[np.float32]]


def fitted(n_threads: int = 2) -> NDArray[np.float32]:
    data = mfrank.synthetic(300, 200, 4000, random_state=0)
    model = mfrank.ALS(factors=20, iterations=2, n_threads=n_threads, random_state=0).fit(data)
    return model.item_factors.copy()


def in_a_spawned_process() -> NDArray[np.float32]:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(fitted).result()


def in_a_joblib_worker() -> NDArray[np.float32]:
    joblib = pytest.importorskip("joblib", reason="joblib is not installed")
    first, second = joblib.Parallel(n_jobs=2)(joblib.delayed(fitted)() for _ in range(2))
    np.testing.assert_array_equal(first, second)
    return first  # type: ignore[no-any-return]


def in_a_dask_worker() -> NDArray[np.float32]:
    dask = pytest.importorskip("dask", reason="dask is not installed")
    return dask.compute(dask.delayed(fitted)(), scheduler="processes")[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("elsewhere", [in_a_spawned_process, in_a_joblib_worker, in_a_dask_worker])
def test_a_fit_is_the_same_in_a_worker(elsewhere: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(PATHS))
    np.testing.assert_array_equal(elsewhere(), fitted(n_threads=1))

"""mfrank, under any of its objectives."""

from __future__ import annotations

import scipy.sparse as sp

import mfrank
from contenders import Contender, Watch


class Fitter(Contender):
    """ALS; takes the matrix as any user gives it, so that every fit checks and transposes it."""

    blas_threads = None

    def _run(self, user_items: sp.csr_matrix, watch: Watch) -> None:
        self.model = mfrank.ALS(
            self.objective,
            factors=self.factors,
            iterations=self.iterations,
            solver=self.solver,  # type: ignore[arg-type]
            random_state=self.random_state,
            n_threads=self.n_threads,
        )
        self.model.fit(user_items, callback=lambda epoch, took, _: watch(epoch + 1, took) and None)

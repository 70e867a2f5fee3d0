"""cmfrec: a value x weighs 1 + alpha x.

It tells of no epoch, so each stop is a fit of its own, and an epoch's seconds are what a fit takes
longer than one of a single epoch, over the epochs more. Its conjugate gradients do not descend as
far as its Cholesky: of its objective expect less.
"""

from __future__ import annotations

from time import perf_counter

import scipy.sparse as sp
from cmfrec import CMF_implicit

from contenders import Contender, Watch, confidences


class Fitter(Contender):
    """Conjugate gradients (3 steps, its default)."""

    places = "A_", "B_"

    def _run(self, user_items: sp.csr_matrix, watch: Watch) -> None:
        beyond = confidences(self.objective, user_items).tocoo()
        beyond.data -= 1.0
        single = self._seconds(beyond, 1) if self.stops else 0.0
        for epochs in (*self.stops, self.iterations):
            more = max(epochs - 1, 1) if self.stops else epochs
            watch(epochs, (self._seconds(beyond, epochs) - single) / more)

    def _seconds(self, values: sp.coo_matrix, epochs: int) -> float:
        self.model = CMF_implicit(
            k=self.factors,
            lambda_=self.objective.regularization,
            alpha=1.0,
            use_cg=self.solver == "cg",
            niter=epochs,
            precompute_for_predictions=False,
            random_state=self.random_state,
            nthreads=self.n_threads,
        )
        began = perf_counter()
        self.model.fit(values)
        return perf_counter() - began

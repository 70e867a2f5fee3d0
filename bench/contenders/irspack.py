"""irspack: the ORIGINAL loss adds alpha0 to each value, nu = 0 makes the ridge one for all rows."""

from __future__ import annotations

from time import perf_counter

import scipy.sparse as sp
from irspack import IALSRecommender

from contenders import Contender, Watch, confidences


class Fitter(Contender):
    """Conjugate gradients (3 steps, its default), Cholesky or iALS++ (blocks of 64)."""

    places = "trainer.core_trainer.user", "trainer.core_trainer.item"

    def _run(self, user_items: sp.csr_matrix, watch: Watch) -> None:
        beyond = confidences(self.objective, user_items)
        beyond.data -= 1.0
        self.model = IALSRecommender(
            beyond,
            n_components=self.factors,
            alpha0=1.0,
            loss_type="ORIGINAL",
            reg=self.objective.regularization,
            nu=0.0,
            solver_type=self.solver.upper(),  # type: ignore[arg-type]
            random_seed=self.random_state,
            n_threads=self.n_threads,
        )
        self.model.start_learning()
        for epoch in range(1, self.iterations + 1):
            began = perf_counter()
            self.model.run_epoch()
            watch(epoch, perf_counter() - began)

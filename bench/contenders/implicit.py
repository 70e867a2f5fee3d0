"""implicit: confidence alpha r is its own convention."""

from __future__ import annotations

import scipy.sparse as sp
from implicit.cpu.als import AlternatingLeastSquares

from contenders import Contender, Watch


class Fitter(Contender):
    """Conjugate gradients (3 steps, its default) or Cholesky."""

    def _run(self, user_items: sp.csr_matrix, watch: Watch) -> None:
        self.model = AlternatingLeastSquares(
            factors=self.factors,
            alpha=self.objective.alpha,
            regularization=self.objective.regularization,
            iterations=self.iterations,
            num_threads=self.n_threads,
            random_state=self.random_state,
            use_cg=self.solver == "cg",
        )
        self.model.fit(
            user_items,
            show_progress=False,
            callback=lambda epoch, took, _: watch(epoch + 1, took),
        )

"""The loss as a function of the feature weights, to any requested accuracy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from mfrank.arrays.checks import check_choice, share
from mfrank.arrays.threads import check_threads
from mfrank.backends import choose
from mfrank.backends.walks import Until
from mfrank.pagerank.accuracy import (
    steps_for_gradient,
    steps_for_loss,
    tolerances_for_gradient,
    tolerances_for_loss,
)
from mfrank.pagerank.gradient import adjoint, adjoint_within, gradient, sensitivity
from mfrank.pagerank.graphs import Graphs
from mfrank.pagerank.loss import Pairs, SquareLoss
from mfrank.pagerank.stationary import Walker, nesterov_nemirovski, power, power_steps
from mfrank.pagerank.transitions import Transitions

__all__ = ["Accuracy", "Problem", "ValueAndGradient"]

Floats = NDArray[np.float64]
Accuracy = Literal["certificate", "theory"]

_LOSS = SquareLoss()


class ValueAndGradient(NamedTuple):
    """Loss and gradient, shape (m1 + m2,), at some weights."""

    loss: float
    gradient: Floats


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimize the mean loss of the queries over the weights (3.7).

    Attributes
    ----------
    graphs : Graphs
    square : SquareLoss
        The loss.
    pairs : Pairs
        Pairs of nodes that the loss compares.
    walker : Walker
    accuracy : {"certificate", "theory"}
        When iterations end: "certificate" as soon as bounds computed along the way guarantee the
        accuracy; "theory" after the steps of Lemmas 1 and 2, by Nesterov and Nemirovski's method.
    """

    graphs: Graphs
    square: SquareLoss
    pairs: Pairs
    walker: Walker
    accuracy: Accuracy = "certificate"

    @classmethod
    def of(
        cls,
        graphs: Graphs,
        loss: SquareLoss = _LOSS,
        *,
        alpha: float = 0.15,
        accuracy: Accuracy = "certificate",
        backend: str = "auto",
        n_threads: int = 0,
    ) -> Problem:
        """Make the problem of labeled graphs.

        Parameters
        ----------
        alpha : float, default 0.15
            Probability of a restart, in (0, 1) (the classical value).

        Raises
        ------
        ValueError, TypeError
            No query has two different labels, the weights of a query's seeds or a node's edges sum
            to 0, or an option is invalid.
        """
        check_choice("accuracy", accuracy, get_args(Accuracy))
        check_threads(n_threads)
        walker = Walker(share("alpha", alpha), choose(backend), n_threads)
        Transitions.of(graphs)  # checks the sums at weights 1, and so at any weights > 0
        return cls(graphs, loss, loss.pairs(graphs), walker, accuracy)

    @property
    def n_weights(self) -> int:
        """Number of weights, m = m1 + m2."""
        return sum(self.graphs.n_features)

    def part(self, queries: NDArray[np.int64]) -> Problem:
        """The problem restricted to some queries, by their index in the graphs."""
        graphs = self.graphs.take(queries)
        return replace(self, graphs=graphs, pairs=self.square.pairs(graphs))

    def loss(self, weights: Floats, error: float) -> float:
        """f~ with |f~ - f| <= ``error``."""
        walk, walker = Transitions.of(self.graphs, weights), self.walker
        if self.accuracy == "theory":
            steps = steps_for_loss(int(self.pairs.counts.max()), error, walker.alpha)
            return self._mean(nesterov_nemirovski(walk, steps, walker).values)
        return self._mean(power(walk, tolerances_for_loss(self.pairs, error), walker).values)

    def value_and_gradient(
        self, weights: Floats, loss_error: float, gradient_error: float
    ) -> ValueAndGradient:
        """f~ as in :meth:`loss`, and g~ with all components within ``gradient_error``."""
        walk, walker, pairs = Transitions.of(self.graphs, weights), self.walker, self.pairs
        alpha, beta = walker.alpha, sensitivity(walk)
        if self.accuracy == "theory":
            r = int(pairs.counts.max())
            n1, n2 = steps_for_gradient(r, beta, gradient_error, alpha)
            n1 = max(n1, steps_for_loss(r, loss_error, alpha))
            values = nesterov_nemirovski(walk, n1, walker).values
            lam = adjoint(walk, pairs.gradients(values), Until(n2), walker)
        else:
            e1, e2 = tolerances_for_gradient(pairs, beta, gradient_error, alpha)
            e1 = np.minimum(e1, tolerances_for_loss(pairs, loss_error))
            values = power(walk, e1, walker).values
            lam = adjoint_within(walk, pairs.gradients(values), e2, walker)
        return ValueAndGradient(self._mean(values), gradient(walk, values, lam.values, alpha))

    def value_and_gradient_after(self, weights: Floats, steps: int) -> ValueAndGradient:
        """Loss and gradient after ``steps`` power iterations, and as many for the adjoint."""
        walk = Transitions.of(self.graphs, weights)
        values = power_steps(walk, steps, self.walker).values
        lam = adjoint(walk, self.pairs.gradients(values), Until(steps), self.walker)
        return ValueAndGradient(
            self._mean(values), gradient(walk, values, lam.values, self.walker.alpha)
        )

    def _mean(self, values: Floats) -> float:
        return float(self.pairs.losses(values).mean())

"""Interface of the sums over lists that losses use, available as ``lists.sums``.

:class:`mfrank.losses.sums.written_out.WrittenOut` implements them directly from the equations with
numpy's functions. It is the specification, and runs on arrays of any library with numpy's
interface. A backend may implement them faster (:meth:`mfrank.backends.Backend.list_sums`).
"""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple, Protocol

from mfrank.arrays import Array
from mfrank.losses.sums.metric_jumps import TopMetric

__all__ = ["ListSums", "NoisyScores", "Projection", "Ramp", "Ramps", "RowHinges", "SoftmaxOfLists"]

Ramp = Literal["hinge", "squared_hinge", "sigmoid", "softplus"]
"""max(0, x), max(0, x)^2, 1 / (1 + exp(-x)), or log(1 + exp(x))."""


class Ramps(Protocol):
    """Sums of a ramp f over score differences, and their derivatives.

    Attributes
    ----------
    sums : shape (B, T)
        sum_j weight_j f(score_j - threshold_t), over the places j of each list.
    slope_sums : shape (B, T)
        sum_j weight_j f'(score_j - threshold_t).
    """

    sums: Array
    slope_sums: Array

    def gradients(self, by_sums: Array) -> tuple[Array, Array]:
        """Backpropagate through the sums.

        Parameters
        ----------
        by_sums : float, shape (B, T)
            Derivatives of a loss with respect to ``sums``.

        Returns
        -------
        by_thresholds : shape (B, T)
        by_scores : shape (B, N)
            Derivatives of the loss with respect to thresholds and scores.
        """


class RowHinges(NamedTuple):
    """Sums of hinges over rows of scores, and their derivatives.

    Attributes
    ----------
    sums : shape (B, L)
    slope_sums : shape (B, L)
        Derivatives of the sums with respect to their thresholds, times -1.
    gradients : shape (B, L, N)
        Derivatives of the sums with respect to their scores.
    """

    sums: Array
    slope_sums: Array
    gradients: Array


class SoftmaxOfLists(NamedTuple):
    """Softmax over each list.

    Attributes
    ----------
    log_total : shape (B, 1)
        Log of the sum of exp(score) over the list; -inf if no place is filled.
    values : shape (B, N)
        exp(score) divided by that sum; 0 for padding.
    """

    log_total: Array
    values: Array


class Projection(NamedTuple):
    """Euclidean projections p of lists of scores h onto the simplex (sparsemax).

    Attributes
    ----------
    tops : shape (B, 1)
        Largest score of each list.
    values : shape (B,)
        p . (h - top) - |p|^2 / 2 + 1/2, which p maximizes on the simplex.
    points : shape (B, N)
        p; 0 for padding and for scores far enough below the top.
    """

    tops: Array
    values: Array
    points: Array


class NoisyScores(NamedTuple):
    """Noisy scores, centers + sigma noise, and the items' values in a metric.

    Attributes
    ----------
    centers : float, shape (B, N)
        Scores without noise.
    noise : float, shape (B, N)
        Standard normal numbers; 0 for padding.
    sigma : float
        Standard deviation of the noise.
    worths : float, shape (B, N)
        Value x of each item in the metric, see :class:`mfrank.losses.sums.metric_jumps.TopMetric`.
    normalizer : float, shape (B, 1)
        Normalizer of the metric.
    filled : bool, shape (B, N)
    """

    centers: Array
    noise: Array
    sigma: float
    worths: Array
    normalizer: Array
    filled: Array


class ListSums(Protocol):
    """Sums over B lists of N positions each; an unfilled position is padding.

    Scores and results are float32 or float64, but their dtypes may differ: the numpy implementation
    follows numpy's type promotion; backends may compute in the scores' dtype.
    """

    holds_pairs: ClassVar[bool]
    """Whether sums over pairs store an array of all pairs of a batch."""

    def ramps(self, ramp: Ramp, scores: Array, weights: Array, thresholds: Array) -> Ramps:
        """Sum a ramp of score differences over the places j of each list, for each threshold t.

            sums[b, t] = sum_j weights[b, j] f(scores[b, j] - thresholds[b, t])

        Parameters
        ----------
        ramp : {"hinge", "squared_hinge", "sigmoid", "softplus"}
            f(x): max(0, x), max(0, x)^2, 1 / (1 + exp(-x)), or log(1 + exp(x)).
        scores, weights : float, shape (B, N)
            Weights are 0 for padding.
        thresholds : float, shape (B, T)
        """

    def squared_hinges(self, scores: Array, weights: Array, thresholds: Array) -> Ramps:
        """Compute ``ramps("squared_hinge", ...)`` by the fastest method for T thresholds.

        Many thresholds are sorted, which takes O((N + T) log T) time per list. A threshold of inf
        is padding: its sums are 0.
        """

    def row_hinges(
        self, scores: Array, thresholds: Array, row_weights: Array, weights: Array
    ) -> RowHinges:
        """Sum hinges over rows of scores, each row l with its own threshold.

            sums[b, l] = row_weights[b, l]
                         * sum_j weights[b, j] max(0, scores[b, l, j] - thresholds[b, l])

        Parameters
        ----------
        scores : float32 or float64, shape (B, L, N)
            Each row contiguous; the array need not be.
        thresholds, row_weights : same dtype as scores, shape (B, L)
        weights : same dtype as scores, shape (B, N)
            0 for padding.
        """

    def pair_losses(
        self,
        scores: Array,
        gains: Array,
        filled: Array,
        scales: Array | None = None,
        steepness: float = 1.0,
    ) -> tuple[Array, Array]:
        """Gradients (B, N) and values (B,) of logistic losses of pairs i, j with G_i > G_j.

        The loss of a pair is log(1 + exp(steepness (h_j - h_i))). Without ``scales`` a list's value
        is the mean over its pairs. With ``scales`` it is a weighted sum, with weights
        scale (G_i - G_j) |1 / log2(1 + r_i) - 1 / log2(1 + r_j)|, r being the ranks of the scores.

        Parameters
        ----------
        scores : float, shape (B, N)
        gains : float, shape (B, L)
            Gains of the first L places, 0 for padding; those of all other places are 0.
        filled : bool, shape (B, N)
        scales : float, shape (B,), optional
        steepness : float, default 1.0
        """

    def softmax(self, scores: Array, filled: Array, less: Array | None = None) -> SoftmaxOfLists:
        """Softmax of ``scores - less`` over each list.

        Parameters
        ----------
        scores : float, shape (B, N)
        filled : bool, shape (B, N)
        less : float, shape (B, N), optional
            By default 0.
        """

    def project(self, scores: Array, filled: Array) -> Projection:
        """Project the scores (B, N) at the filled places (B, N) of each list onto the simplex."""

    def smoothed(
        self, metric: TopMetric, k: int, noisy: NoisyScores, *, share: bool
    ) -> tuple[Array, Array]:
        """Gradients (B, N) of a smoothed metric by the centers, and its values (B,) at the noise.

        See :mod:`mfrank.losses.sums.written_out`.

        Parameters
        ----------
        metric : TopMetric
        k : int
            Cutoff of the metric.
        noisy : NoisyScores
        share : bool
            Whether to integrate over the mean noise of an item's competitors, too.
        """

    def soft_ndcg(
        self,
        scores: Array,
        filled: Array,
        gains: Array,
        ideal_dcg: Array,
        temperature: float,
        rounds: int,
    ) -> tuple[Array, Array]:
        """Gradients (B, N) and values (B,) of minus the NDCG of softly sorted lists.

        See :class:`mfrank.NeuralNDCG`.

        Parameters
        ----------
        scores : float, shape (B, N)
        filled : bool, shape (B, N)
        gains : float, shape (B, L)
            Gains of the first L places, 0 for padding; those of all other places are 0.
        ideal_dcg : float, shape (B,)
        temperature : float
            > 0, of the softmax.
        rounds : int
            >= 0, of Sinkhorn's scaling.
        """

    def top_thresholds(
        self,
        scores: Array,
        weights: Array,
        fractions: Array,
        starts: Array,
        smoothing_1: float,
        smoothing_2: float,
    ) -> Array:
        """Thresholds t, float64 (B,), such that a given weight of each list scores above t.

        Up to smoothing: fraction + s_2 t = sum_j weight_j sigmoid((score_j - t) / s_1).

        Parameters
        ----------
        scores, weights : float, shape (B, N)
            Weights are 0 for padding; each list has a weight above 0.
        fractions : float, shape (B,)
        starts : float64, shape (B,)
            Initial guesses; NaN for none.
        smoothing_1, smoothing_2 : float
            s_1 and s_2, > 0.
        """

    def normals(self, key: int, shape: tuple[int, ...], like: Array) -> Array:
        """Standard normal numbers of a random stream, of the dtype and on the device of ``like``.

        The same key returns the same numbers (:func:`mfrank.arrays.random.key_of`).
        """

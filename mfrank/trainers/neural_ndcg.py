"""NeuralNDCG (Pobrotyn & Bialobrzeski 2021): NDCG of a list sorted softly."""

from __future__ import annotations

from dataclasses import dataclass

from mfrank.amounts import check_above_zero, check_count
from mfrank.lists import Array, Lists
from mfrank.soft_ndcg import soft_ndcg
from mfrank.trainers import Loss, Memory, Slopes

__all__ = ["NeuralNDCG"]

_LISTS = 4
"""For each thread the extension holds the soft order of one list; a batch has more lists."""


@dataclass(frozen=True)
class NeuralNDCG(Loss):
    """-sum_k (P G)_k / (Z log2(1 + k)), P a soft permutation of the list (NeuralSort).

    Row k of P is softmax_j(((n + 1 - 2 k) h_j - sum_l |h_j - h_l|) / temperature), which tends to
    the k-th largest item; columns and rows are then brought to sum 1 in turn (Sinkhorn). Memory
    grows with the square of the list (of each thread's list, with the extension): for samples only.

    Parameters
    ----------
    temperature : float, default 1.0
        Of the softmax (the authors').
    rounds : int, default 10
        Of Sinkhorn's scaling, >= 0 (the authors').
    """

    temperature: float = 1.0
    rounds: int = 10

    def __post_init__(self) -> None:
        check_above_zero(temperature=self.temperature)
        check_count("rounds", self.rounds, 0)

    def numbers(self, n_likes: int, n_others: int) -> int:
        """See :meth:`mfrank.trainers.Loss.numbers`."""
        places = n_likes + n_others
        return max(places, places**2 // _LISTS)

    def ramp_numbers(self, n_likes: int, n_others: int) -> int:
        """See :meth:`mfrank.trainers.Loss.ramp_numbers`: the soft orders of all lists at once."""
        return (n_likes + n_others) ** 2

    def slopes(self, lists: Lists, likes: Array, others: Array, memory: Memory) -> Slopes:
        """See :meth:`mfrank.trainers.Loss.slopes`."""
        return Slopes(*soft_ndcg(lists, likes, others, self.temperature, self.rounds))

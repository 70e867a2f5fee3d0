"""Lists of judged documents: who is in them, their gains, cells and ideal."""

from __future__ import annotations

import numpy as np
import pytest

from mfrank.descent import QueryLists
from mfrank.losses import WRITTEN_OUT

RELEVANCE = np.array([0.0, 2, 1, 0, 0, 3, 1, 0.5, 0])
QUERIES = np.array([2, 0, 2, 0, 1, 2, 0, 0, 2])  # nobody judged anything of query 1 relevant


@pytest.mark.parametrize("cutoff", [None, 1, 2, 9])
def test_lists_hold_every_document_of_their_query(cutoff: int | None) -> None:
    """The best first; the ideal DCG is theirs, cut off or not."""
    judged = QueryLists(RELEVANCE, QUERIES, 4, cutoff)
    assert judged.active.tolist() == [0, 2]
    assert (judged.n_cells, judged.n_queries) == (5, 4)
    chosen = np.array([2, 0])
    listed = judged.of(chosen, WRITTEN_OUT)
    lists = listed.lists
    of_query = {query: np.flatnonzero(query == QUERIES) for query in (0, 2)}
    likes = {
        query: sorted(own[RELEVANCE[own] > 0], key=lambda at: -RELEVANCE[at])
        for query, own in of_query.items()
    }
    wanted = [document for query in (2, 0) for document in likes[query]]
    rest = [at for query in (2, 0) for at in of_query[query] if not RELEVANCE[at]]
    assert listed.documents.tolist() == wanted + rest
    np.testing.assert_allclose(lists.gains, [[7, 1, 0], [3, 1, np.sqrt(2) - 1]])
    np.testing.assert_array_equal(lists.negatives, [[True, True], [True, False]])
    assert lists.n_positives.tolist() == [2, 3]
    assert lists.n_items.tolist() == [4, 4]
    assert lists.users.tolist() == [2, 0]
    discounted = lists.gains / np.log2(2 + np.arange(3))
    np.testing.assert_allclose(lists.ideal, discounted[:, : cutoff or 3].sum(axis=1))
    assert lists.cells.tolist() == [[3, 4, -1], [0, 1, 2]]


def test_values_of_documents_are_spread_and_gathered() -> None:
    listed = QueryLists(RELEVANCE, QUERIES, 4).of(np.array([0, 2]), WRITTEN_OUT)
    values = np.arange(1.0, 9)
    positives, negatives = listed.spread(values)
    np.testing.assert_array_equal(positives, [[1, 2, 3], [4, 5, 0]])
    np.testing.assert_array_equal(negatives, [[6, 0], [7, 8]])
    np.testing.assert_array_equal(listed.gather(positives, negatives), values)


def test_a_list_of_likes_only_has_a_place_of_padding() -> None:
    listed = QueryLists(np.ones(2), np.zeros(2, np.int64), 1).of(np.array([0]), WRITTEN_OUT)
    assert listed.lists.negatives.tolist() == [[False]]
    assert listed.documents.tolist() == [0, 1]

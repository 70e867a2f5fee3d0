"""Values that are no confidences are warned of, and what the warning advises ends it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import mfrank


def plays() -> mfrank.Interactions:
    """Counts of plays: most are few, one is of a machine that plays day and night."""
    data = mfrank.synthetic(60, 40, 600, random_state=0)
    counts = np.random.default_rng(0).integers(1, 9, data.nnz).astype(float)
    counts[7] = 352_698
    return data.weighted(counts)


def fitted(objective, data):
    return mfrank.ALS(objective, factors=4, iterations=1, random_state=0).fit(data)


def test_a_fit_to_raw_counts_says_what_to_do_at_the_line_that_called_it() -> None:
    said = r"WRMF takes values as confidences, and they go up to 352,698 \(the median is \d\)"
    with pytest.warns(RuntimeWarning, match=said + r".*mfrank\.log_weight\(data\)") as caught:
        fitted(mfrank.WRMF(), plays())
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize(
    ("objective", "data"),
    [
        (mfrank.WRMF(), mfrank.log_weight(plays())),
        (mfrank.WRMF(alpha=1e-4), plays()),
        (mfrank.WRMF(alpha=40), plays().weighted(1 / plays().user_items.data)),  # ones
        (mfrank.WRMF(), plays().weighted(51 / plays().user_items.data)),
        (mfrank.RG2(), plays()),
        (mfrank.IALS(), plays()),
    ],
    ids=["logarithms", "a lower alpha", "ones", "all alike", "RG2", "IALS"],
)
def test_no_warning_where_no_cell_outweighs_the_others(objective, data) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(objective, data)


def test_dislikes_are_confidences_too_and_have_no_logarithms() -> None:
    matrix = plays().to_scipy()
    matrix.data[7] *= -1
    with pytest.warns(RuntimeWarning, match="up to 352,698 .* all others; lower alpha"):
        fitted(mfrank.WRMF(), matrix)


def test_an_old_value_does_not_make_the_new_ones_heavy() -> None:
    """Recency takes most values far below the largest, which is that of a common interaction."""
    data = plays().weighted(np.r_[1.0, np.full(599, 1e-9)] / plays().user_items.data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(mfrank.WRMF(), data)

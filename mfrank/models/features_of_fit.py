"""The features that a fit is given, as the engine takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.als import Features
from mfrank.data import FeatureTable, Interactions, feature_rows, is_table
from mfrank.store import FactorStore, columns_name


def features_of_fit(
    data: Interactions, given: Mapping[str, Any], start: FactorStore | None, regularization: float
) -> Features:
    """Return the features of users and items, in this order in ``given``; None for no features."""
    rows, columns = list[sp.csr_array | None](), dict[str, NDArray[np.uint8]]()
    for (name, each), ids in zip(given.items(), (data.user_ids, data.item_ids), strict=True):
        if is_table(each):
            table = FeatureTable.of(name, each, ids)
            learned = table.learned()
            columns[columns_name(name.partition("_")[0])] = learned.to_array()
            rows.append(table.features(learned, ids, of_fit=True))
        else:
            rows.append(None if each is None else feature_rows(name, each, len(ids)))
    users, items = rows
    return Features(users, items, regularization, start, columns)

"""The recommender: top-K lists and scores of any fitted factors."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from copy import copy
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, ClassVar, Self, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mfrank.arrays import (
    Listed,
    beside,
    check_flags,
    check_instance,
    check_same_ids,
    check_same_rows,
    in_turn,
    on_host,
    paragraphs,
    turn_of,
    without_turns,
)
from mfrank.backends import Factors, choose
from mfrank.cluster import Cluster, check_cluster
from mfrank.data import Ids, OnUnknown, ReadWeights, ReadWhere, check_on_unknown
from mfrank.errors import InputTypeError, InputValueError, within
from mfrank.files import Place, joined_origins, name_of, path_of
from mfrank.retrieval.all_lists import AllLists, ListFormat
from mfrank.retrieval.fallback import (
    lists_of_unknown,
    popularity_of,
    settled,
    tell_nobody,
)
from mfrank.retrieval.filters import Candidates
from mfrank.retrieval.lists_by_id import (
    Answer,
    Fallback,
    KnownQueries,
    ListCall,
    ListOptions,
    OwnRows,
    QueryFactors,
    answer,
    around,
    best,
    closest,
    pair_scores,
)
from mfrank.retrieval.model_state import ModelState, NotFittedError, removed
from mfrank.retrieval.queries import LikedItems, Matrix, Queries
from mfrank.retrieval.seen import Seen, left_out_of, pack, unpack
from mfrank.retrieval.side import (
    Raw,
    Rows,
    Side,
    given_ids,
    liked_ids,
    refuse_marks,
    sides,
    tell_idle_rows,
)
from mfrank.retrieval.steered import best_steered, calibrates, set_levers
from mfrank.retrieval.top_k import Lists, emptied
from mfrank.steering import Levers, Steering
from mfrank.store import (
    IMPORTED,
    FactorStore,
    History,
    OwnClasses,
    check_is_model,
    check_ranks_by_factors,
)


class Recommender:
    """A model over a :class:`mfrank.FactorStore`.

    **Ids** are as in the training data: the ids of a DataFrame, or row numbers after a fit to a
    matrix. :mod:`mfrank.data.labels` says which values are the same id. Filters may also be sets.
    With ``by_row=True``, ids in arguments and results are row numbers: integers of Python or numpy.

    **Matrices**: a sparse matrix passed with ids (``user_items``, ``filter_items``, ``items``) has
    one row per id, in the same order, as in implicit: ``recommend(ids, matrix[ids])``. A matrix
    with as many rows as the model is the whole matrix, from which the row of each id is taken. Any
    other number of rows is an error. Interactions are matched by id.

    **Lists** are exact: the N best candidates by score, ties by lower row number, without seen and
    filtered items. If there are fewer than N candidates, the padding is score NaN and id -1 (None
    if ids are not numbers, see :meth:`mfrank.data.ids.Ids.raw`). Memory does not grow with users
    times items. The CPU backend searches items in descending order of length, or a sketch of the
    factors with one byte per factor. It caches both with the factors at the second query that has
    no filter common to all queries.

    **Cold items and users**: ties at score 0 do not make a list.

    - A cold item, without interactions in the fit and without features, is in no list.
    - If scores are sums over links from the user's items (weights between items, walks), an item
      without a link has score 0 and is in no list.
    - A user without usable data has no known interactions, and neither features nor item biases
      (as of a :class:`mfrank.Descent` with cosines) rank items for them. Their list is all
      padding, or popular items with ``fallback="popularity"``.

    **GPU**: ids may be arrays of any library. Row numbers on a GPU give results on the GPU, as CuPy
    arrays. With ``backend="cuda"``, factors, scores and filters on the GPU (arrays or CuPy sparse
    matrices) are then not copied to the host. Ids with labels are always looked up and returned on
    the host.
    """

    backend: str = "auto"
    folds_in: ClassVar[bool] = False
    """Whether users who are not in the fit get lists, from their own items."""
    # The store and the seen items of each user, in one attribute, which an update replaces: a call
    # that reads it once has both of one state, even if other threads update the model. Calls that
    # change the model take turns (:mod:`mfrank.arrays.objects`).
    _held: ModelState | None = None
    # See :mod:`mfrank.files.folder`; replaced, never edited.
    _origin: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    _known_before: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """The origin before a new fit, which replaces what a folder has."""

    def __getstate__(self) -> dict[str, Any]:
        """What copies get."""
        return without_turns(vars(self))

    def __repr__(self) -> str:
        state = "not fitted" if self._held is None else f"of {self._held.store!r}"
        return f"{type(self).__name__}({state})"

    def _repr_html_(self) -> str:
        if self._held is None:
            return paragraphs([repr(self)])
        return paragraphs([f"{type(self).__name__} of"]) + self._held.store._repr_html_()

    @classmethod
    def of(cls, store: FactorStore) -> Recommender:
        """Return a recommender over a store's factors, without fit and fold-in.

        Raises
        ------
        ValueError
            The store belongs to a model that does not rank by its factors alone, such as
            :class:`mfrank.EASE` or an :class:`mfrank.ItemBlend`.
        TypeError
            The argument is not a store.
        """
        check_instance("store", store, FactorStore, "a FactorStore, such as model.store")
        model = Recommender()
        model._adopt(store)
        return model

    @property
    def _reads_order(self) -> bool:
        """Whether the order of the items that a user has counts."""
        return False

    @property
    def placed(self) -> FactorStore:
        """The store with the factors on the device of the fit, possibly a GPU."""
        return self._now().store

    @property
    def store(self) -> FactorStore:
        """The fitted factors with their ids and history."""
        return self.placed

    @property
    def user_factors(self) -> Factors:
        """User factors, shape (n_users, factors)."""
        return self.store.user_factors

    @property
    def item_factors(self) -> Factors:
        """Item factors, shape (n_items, factors)."""
        return self.store.item_factors

    @property
    def user_ids(self) -> Ids:
        """Id of each user row."""
        return self.placed.user_ids

    @property
    def item_ids(self) -> Ids:
        """Id of each item row."""
        return self.placed.item_ids

    @property
    def seen(self) -> Seen | None:
        """The training items of each user; None if the model does not have them."""
        return None if self._held is None else self._held.seen

    @property
    def history(self) -> History:
        """A record of each epoch of the fit and of each update, as in the store."""
        return self.placed.history

    def _in_order(self, row: int) -> NDArray[np.integer]:
        """Rows of the items that a user likes, oldest first where the order counts."""
        seen = self._now().seen
        return np.empty(0, np.int64) if seen is None else seen.positives[[row]].indices

    @property
    def _updates(self) -> History:
        """The records among which those of updates are."""
        return self.history

    @property
    def threshold(self) -> float | None:
        """Threshold of the fit's data (:meth:`mfrank.Interactions.at_least`), or None."""
        return self.placed.threshold

    @property
    def where(self) -> ReadWhere:
        """Values of columns by which rows of the fit's data were chosen (``where=``)."""
        return self.placed.where

    @property
    def event_weights(self) -> ReadWeights:
        """What an event of each kind counted in the fit's data (``weights=``)."""
        return self.placed.event_weights

    @property
    def weightings(self) -> tuple[str, ...]:
        """Functions that weighted the fit's data, such as ``("log_weight",)``."""
        return tuple(self.placed.weightings)

    def recommend(
        self,
        userid: Raw,
        user_items: Matrix | None = None,
        N: int = 10,
        filter_already_liked_items: bool = True,
        filter_items: Any = None,
        recalculate_user: bool = False,
        items: Any = None,
        *,
        by_row: bool = False,
        on_unknown: OnUnknown = "error",
        fallback: Fallback = "none",
        n_threads: int = 0,
        steer: Steering | None = None,
    ) -> Answer:
        """Best items of one or many users.

        Parameters
        ----------
        userid : id, 1-D array-like of ids, or DataFrame or Arrow table with a column of them
            Ids may repeat; each gets a list.
        user_items : Interactions, or scipy or CuPy sparse matrix, optional
            Seen items; a sparse matrix has one row per user id (see the class). By default, the
            training interactions; on a GPU they are copied once and cached if memory allows.
        N : int, default 10
            Length of a list, >= 1; may exceed the number of items.
        filter_already_liked_items : bool, default True
            Leave out seen items: every entry stored in the user's row of ``user_items``, and
            ``seen_only`` of Interactions, such as ratings below a threshold.
        filter_items : ids, list of lists of ids, or scipy or CuPy sparse matrix, optional
            Items to exclude: one list for all users, or one list or row per user id, in the same
            order. All stored entries of a sparse matrix count; its columns are item rows.
        recalculate_user : bool, default False
            Fold in: solve the users' factors from their rows of ``user_items``, which is then
            required. The users may be new to the model. The rows are checked on the host.
        items : as filter_items, optional
            The only candidates, in the same forms as ``filter_items``.
        by_row : bool, default False
            Ids of users and items are row numbers, in arguments and results.
        on_unknown : {"error", "skip"}, default "error"
            With "skip", the list of an unknown user is all padding, so there is a list for each
            user id; unknown items are left out of ``filter_items``, ``items`` and the boosts of
            ``steer``. But an id that the model knows once it is written otherwise is an error: "7"
            for 7, 7 for "7", " tea", or "tea,jam" for two.
        fallback : {"none", "popularity"}, default "none"
            With "none", the list of a user without usable data (see the class) is all padding. With
            "popularity", such users, and unknown users with ``on_unknown="skip"``, get the items
            with the most users in the fit, after the filters; scores are the numbers of users.
            Popular items also fill the end of lists shorter than N, unless ``steer`` has caps or a
            calibration. The number of users without usable data is logged.
        n_threads : int, default 0
            0 uses every core this process may use.
        steer : Steering, optional
            Boosts, a popularity penalty, caps on categories, diversity, calibration
            (:class:`mfrank.Steering`). Returned scores include boosts and penalty.

        Returns
        -------
        ids, scores : arrays of shape (N,) for one user, (users, N) for many
            A named tuple; :meth:`to_dicts <mfrank.retrieval.lists_by_id.Answer.to_dicts>` converts
            it to plain Python objects, for JSON.

        Raises
        ------
        UnknownIdError
            A user or an item is unknown, and ``on_unknown`` is "error".
        ValueError, TypeError
            A matrix has the wrong shape, or ``user_items`` is required and missing; the message
            names the argument. Or ``fallback`` needs popularity, and neither the model nor
            ``user_items`` (Interactions) has interactions to count.
        """
        check_flags(
            filter_already_liked_items=filter_already_liked_items, recalculate_user=recalculate_user
        )
        userid = given_ids(userid, "userid")
        options = ListOptions(
            N, filter_items, items, n_threads, choose(self.backend), on_unknown, fallback
        )
        held = self._now()
        users, item_side = sides(held.store, by_row=by_row)
        levers = self._levers(steer, held.store, item_side, on_unknown)
        popularity = None
        if fallback == "popularity":
            popularity = popularity_of(held, user_items, item_side)
        if recalculate_user:
            if user_items is None:
                raise InputValueError(
                    "`recalculate_user=True` needs the users' rows in `user_items`"
                )
            known = KnownQueries.to_solve(users, userid)
        else:
            known = KnownQueries.of(users, userid, on_unknown)
        own = OwnRows(known, user_items, item_side, held.seen)
        call = ListCall(held, own, options, levers, popularity, recalculate_user)
        if known.nobody:
            lists = lists_of_unknown(call, filter_seen=filter_already_liked_items)
            return answer(lists, item_side, userid)
        queries = self._queries_of(call)
        seen = own.seen() if filter_already_liked_items else None
        if levers is not None and calibrates(levers, user_items, held.seen):
            call = call._replace(history=own.liked())
        return self._answered(queries, call, seen, userid)

    def recommend_from_items(
        self,
        itemids: Any,
        N: int = 10,
        *,
        values: Any = None,
        filter_items: Any = None,
        items: Any = None,
        by_row: bool = False,
        on_unknown: OnUnknown = "error",
        fallback: Fallback = "none",
        n_threads: int = 0,
        steer: Steering | None = None,
    ) -> Answer:
        """Recommend items to an unknown user, from a list of liked items.

        Parameters
        ----------
        itemids : 1-D array-like of ids
            The user's items, oldest first (:class:`mfrank.NextItem` reads their order), which are
            left out of the list.
        N, filter_items, items, by_row, fallback, n_threads, steer
            As in :meth:`recommend`; a user without a known item has no usable data.
        on_unknown : {"error", "skip"}, default "error"
            With "skip", unknown items are left out of all arguments, with their ``values``.
        values : shape (len(itemids),), optional
            Value of each interaction, as in the training data; default 1. Only some models read
            values.

        Returns
        -------
        ids, scores : arrays of shape (N,)

        Raises
        ------
        UnknownIdError
            An item is unknown, and ``on_unknown`` is "error".
        ValueError
            There is not one number in ``values`` per item.
        TypeError
            The model cannot fold users in (``folds_in`` is False).
        """
        check_same_rows(itemids=itemids, values=values)
        options = ListOptions(
            N, filter_items, items, n_threads, choose(self.backend), on_unknown, fallback
        )
        held = self._now()
        users, side = sides(held.on_host(), by_row=by_row)
        levers = self._levers(steer, held.store, side, on_unknown)
        liked = liked_ids(itemids, values, reads_order=self._reads_order)
        refuse_marks(liked, side.ids, "itemids")
        columns = on_host(side.rows_asked(liked, "itemids", on_unknown))
        own = LikedItems.of(columns, values, len(side.ids), held.store.dtype)
        queries = self._somebody(held, own, has_values=values is not None)
        popularity = popularity_of(held, None, side) if fallback == "popularity" else None
        rows = OwnRows(KnownQueries(users, [0], Queries.new(1)), None, side, None)
        call = ListCall(held, rows, options, levers, popularity, history=own.items)
        return self._answered(queries, call, own.items, 0)

    def recommend_all(
        self,
        folder: str | os.PathLike[str],
        user_items: Matrix | None = None,
        N: int = 10,
        filter_already_liked_items: bool = True,
        filter_items: Any = None,
        recalculate_user: bool = False,
        items: Any = None,
        *,
        format: ListFormat = "parquet",
        by_row: bool = False,
        on_unknown: OnUnknown = "error",
        fallback: Fallback = "none",
        n_threads: int = 0,
        show_progress: bool = False,
        cluster: Cluster | None = None,
        steer: Steering | None = None,
    ) -> Path:
        """Write the lists of :meth:`recommend` for all users to files in a folder.

        ``part-00000.parquet`` and so on have the columns user, rank (from 1), item and score, with
        a row for each position without padding. A user's list is in one file. Each file has about a
        million positions, so memory does not grow with the number of users. pandas, pyarrow and
        Spark read the folder as a whole.

        The same call resumes an interrupted run and keeps finished files. After the last file, an
        empty file ``_SUCCESS`` is added.

        Parameters
        ----------
        folder : path
            A new or empty folder, or the folder of the run to resume.
        user_items, N, filter_already_liked_items, filter_items, recalculate_user, items
            As in :meth:`recommend`. A sparse matrix, and lists of ids by user, have a row for each
            user of the model, in the order of ``model.user_ids``.
        format : {"parquet", "csv"}, default "parquet"
            Parquet needs the extra ``parquet``.
        by_row, on_unknown, fallback, n_threads
            As in :meth:`recommend`.
        show_progress : bool, default False
            Show progress, in users, on stderr.
        cluster : int, dask.distributed.Client, str, Engine or None, default None
            Where lists are computed and files written, as in :meth:`mfrank.ALS.fit`; the files have
            the same bytes as without a cluster. The model, with the seen items, is sent to each
            worker once. All workers must see the folder at the same path.
        steer : Steering, optional
            As in :meth:`recommend`.

        Returns
        -------
        Path of the folder

        Raises
        ------
        ValueError, TypeError
            As in :meth:`recommend`; or

            - ids are neither integers nor strings;
            - the folder contains other files, or lists of another model or other options;
            - ``cluster`` is not a cluster, or its workers have other instruction sets or another
              version of mfrank.
        ModuleNotFoundError
            If pandas or pyarrow is not installed (for parquet), or Dask or Ray (for ``cluster``).
        ConnectionError
            If the scheduler does not answer, or there is no Ray cluster.
        OSError
            If writing fails; finished files stay.
        """
        check_cluster(cluster)
        check_flags(
            filter_already_liked_items=filter_already_liked_items,
            recalculate_user=recalculate_user,
            by_row=by_row,
        )
        options = {
            "user_items": user_items,
            "filter_already_liked_items": filter_already_liked_items,
            "filter_items": filter_items,
            "recalculate_user": recalculate_user,
            "items": items,
            "by_row": by_row,
            "on_unknown": on_unknown,
            "fallback": fallback,
            "n_threads": n_threads,
            "steer": steer,
        }
        path = path_of(folder, "folder")
        AllLists(self, N, format, options).write(path, show_progress=show_progress, cluster=cluster)
        return path

    def recommend_users(
        self,
        itemid: Raw,
        item_users: Matrix | None = None,
        N: int = 10,
        filter_already_liked_users: bool = True,
        filter_users: Any = None,
        users: Any = None,
        *,
        by_row: bool = False,
        on_unknown: OnUnknown = "error",
        n_threads: int = 0,
    ) -> Answer:
        """Users with the highest scores for one or many items.

        This is :meth:`recommend` with the sides swapped. ``item_users`` is Interactions, or a
        sparse matrix with one row per item id. The list of a cold item is all padding, and cold
        users are in no list.
        """
        check_flags(filter_already_liked_users=filter_already_liked_users)
        itemid = given_ids(itemid, "itemid")
        options = ListOptions(N, filter_users, users, n_threads, choose(self.backend), on_unknown)
        held = self._now()
        user_side, items = sides(held.store, by_row=by_row)
        known = KnownQueries.of(items, itemid, on_unknown)
        if known.nobody:
            return answer(known.padding(N), user_side, itemid)
        own = OwnRows(known, item_users, user_side, held.seen)
        seen = own.seen() if filter_already_liked_users else None
        candidates = options.candidates(known.queries, user_side).without_lists(seen)
        query_factors = QueryFactors.known(known, options.backend)
        lists = best(query_factors, user_side, options, candidates)
        if (unmet := items.unmet) is not None:
            empty = beside(unmet, known.rows)[known.rows]
            if known.unknown is not None:
                empty &= ~beside(known.unknown, empty)
            tell_nobody(int(empty.sum()), len(empty), "item")
            lists = emptied(lists, empty)
        return answer(known.blank(lists), user_side, itemid)

    def similar_items(
        self,
        itemid: Raw,
        N: int = 10,
        filter_items: Any = None,
        items: Any = None,
        *,
        recalculate_item: bool = False,
        item_users: Matrix | None = None,
        by_row: bool = False,
        on_unknown: OnUnknown = "error",
        n_threads: int = 0,
    ) -> Answer:
        """Items with the highest cosine to the factors of one or many items.

        An item is first in its own list, unless it is filtered. Filters are as in
        :meth:`mfrank.Recommender.recommend`. A cold item is in no other list, and its own list has
        no other item.

        With ``recalculate_item``, the factors of the items, which may be new to the model, are
        first solved from their rows of ``item_users`` (Interactions, or a sparse matrix with one
        row per item id). A known item is then ranked by the cosine of its stored factors to the
        new ones, like any other.
        """
        tell_idle_rows(item_users, "item_users", "recalculate_item", recalculate_item)
        side, itemid = sides(self.placed, by_row=by_row)[1], given_ids(itemid, "itemid")
        options = ListOptions(N, filter_items, items, n_threads, choose(self.backend), on_unknown)
        return self._similar(side, itemid, options, recalculate_item, item_users)

    def similar_users(
        self,
        userid: Raw,
        N: int = 10,
        filter_users: Any = None,
        users: Any = None,
        *,
        recalculate_user: bool = False,
        user_items: Matrix | None = None,
        by_row: bool = False,
        on_unknown: OnUnknown = "error",
        n_threads: int = 0,
    ) -> Answer:
        """Users with the highest cosine to one or many users, like :meth:`similar_items`."""
        tell_idle_rows(user_items, "user_items", "recalculate_user", recalculate_user)
        side, userid = sides(self.placed, by_row=by_row)[0], given_ids(userid, "userid")
        options = ListOptions(N, filter_users, users, n_threads, choose(self.backend), on_unknown)
        return self._similar(side, userid, options, recalculate_user, user_items)

    def score(
        self,
        userid: ArrayLike,
        itemid: ArrayLike | None = None,
        *,
        by_row: bool = False,
        on_unknown: OnUnknown = "error",
    ) -> NDArray[Any]:
        """Scores of user ``userid[j]`` for item ``itemid[j]``, shape (pairs,).

        With ``on_unknown="skip"``, the score is NaN if the user or the item is unknown.
        """
        if itemid is None:  # scikit-learn passes a test part alone
            raise InputTypeError(
                "`itemid` is missing, which `score` needs for pairs of users and items",
                'as `scoring` of scikit-learn, pass mfrank.scorer("ndcg@10")',
            )
        check_on_unknown(on_unknown)
        check_same_ids(userid=userid, itemid=itemid)
        users, items = sides(self.placed, by_row=by_row)
        user_rows, item_rows = (
            side.rows_asked(given_ids(raw, name), name, on_unknown)
            for side, raw, name in ((users, userid, "userid"), (items, itemid, "itemid"))
        )
        return self._scored(users, items, user_rows, item_rows)

    def explain(
        self,
        userid: Raw,
        user_items: Matrix | None,
        itemid: Raw,
        N: int = 10,
        *,
        by_row: bool = False,
    ) -> Any:
        """Raise TypeError: the scores of this model are no sums over the user's items."""
        raise InputTypeError(
            f"{type(self).__name__} cannot explain a score by the user's items:",
            "use `similar_items` of the recommended item to find those of the user's that are like "
            "it",
        )

    def recalculate_user(self, userid: Raw, user_items: Matrix, *, by_row: bool = False) -> Factors:
        """Raise TypeError: factors alone do not say how they follow from what a user has."""
        raise self._folds_nobody_in()

    def _folds_nobody_in(self) -> InputTypeError:
        return InputTypeError(
            f"{type(self).__name__} cannot fold users in: factors alone do not say how",
            "Use `recalculate_user=False`, or the fitted model itself, as of mfrank.load(folder)",
        )

    def recalculate_item(self, itemid: Raw, item_users: Matrix, *, by_row: bool = False) -> Factors:
        """Raise TypeError: only models with a quadratic objective can fold items in."""
        what = f"{type(self).__name__} cannot fold items in:"
        raise InputTypeError(what, "use `recalculate_item=False`")

    def partial_fit(self, *args: Any, **options: Any) -> Self:
        """Raise TypeError: this kind of model does not take up new interactions."""
        what = f"{type(self).__name__} cannot be updated:"
        raise InputTypeError(what, "fit it again, to all interactions")

    @in_turn
    def leave_out(self, user_items: Matrix | None) -> Self:
        """Let lists leave out only these items of each user, not all that the user has.

        For data in which having an item does not rule it out: a shop's lists leave out what was
        bought and may show what was only viewed; a player's lists may show everything again.

        Every list of the model follows, also of the saved and loaded one, in :meth:`recommend_all`,
        on a server, and in :func:`mfrank.evaluate` without ``train``. A call with a ``user_items``
        of its own leaves out those. ``partial_fit`` leaves out what is new to the model, or what
        its ``leave_out`` says; a new fit leaves out all again: call this method afterwards.

        Parameters
        ----------
        user_items : Interactions, table, sparse matrix (users x items) or None
            What to leave out, also of items that the user did not have in the fit. Interactions and
            tables are matched by id (entries of users and items that the model does not know are
            logged), a matrix by row. Values do not matter. None leaves out all that users have.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            The model was saved with ``with_seen=False`` or has no interactions, it knows none of
            these users and items, or a matrix has another shape. The model is unchanged.
        """
        held = self._now()
        if held.seen is None:
            raise InputValueError(
                "the model has no interactions, which its lists would leave out:",
                "load a model saved with `with_seen=True`, or pass `user_items` to each call",
            )
        left_out = None if user_items is None else left_out_of(user_items, held.store)
        self._held = ModelState(held.store, Seen(held.seen.matrix, left_out), held.parts)
        return self

    @in_turn
    def remove(
        self, users: Raw | None = None, items: Raw | None = None, *, by_row: bool = False
    ) -> Self:
        """Remove users and items, with everything that the model holds about them.

        - Removed: their factors, ids and biases; their seen entries and counts; and the objectives
          and metrics in the history, which include them. After :meth:`save` to the model's folder,
          their data are gone from disk, too.
        - Unchanged: ids and factors of all other users and items. Later row numbers move up.
        - Not removed: what the factors of others have learned from them, until these are fitted or
          solved again; and the caller's own data (interactions, copies of the model, the folder of
          ``checkpoint=``).

        Concurrent calls in other threads finish with the model before the removal.

        Parameters
        ----------
        users, items : id, or 1-D array-like of ids, optional
            An id may repeat.
        by_row : bool, default False
            Ids are row numbers.

        Returns
        -------
        self

        Raises
        ------
        UnknownIdError
            An id is unknown. The model is unchanged.
        ValueError
            Both arguments are None; or the model was saved with ``with_seen=False``, so its counts
            cannot be lowered.
        TypeError
            The model cannot remove, such as :class:`mfrank.SupervisedPageRank`.
        """
        self._hold(*removed(self._now(), users, items, by_row=by_row))
        return self

    @overload
    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        with_seen: bool = True,
        overwrite: bool = False,
        keep: int = 1,
    ) -> Path: ...

    @overload
    def save(
        self, folder: IO[bytes], *, with_seen: bool = True, overwrite: bool = False
    ) -> None: ...

    def save(
        self, folder: Place, *, with_seen: bool = True, overwrite: bool = False, keep: int = 1
    ) -> Path | None:
        """Save as a folder, atomically, or to a file object; see :meth:`mfrank.FactorStore.save`.

        ``with_seen`` also saves the seen items of each user, so that a loaded model filters in the
        same way, and their values if an ALS of it reads them. ``keep=3`` keeps the two versions
        before this one: ``mfrank.load(folder, version=1)``, ``mfrank.roll_back(folder)``.

        Raises
        ------
        mfrank.files.folder.ChangedFolderError
            A ValueError: another process has saved to the folder since this model was loaded from
            it or saved to it. Load the model again and repeat the change, or pass
            ``overwrite=True``. A newly fitted model replaces the folder; if another process has
            saved there since the earlier model was, this is told, and the other's is kept.
        ValueError
            Before anything is written: :meth:`load` would refuse the model (the class of an option
            cannot be imported, or arrays of the interactions were modified since the fit), or the
            folder contains something other than a model.
        """
        check_flags(with_seen=with_seen, overwrite=overwrite)
        with turn_of(self, "save"):  # else an older state of the model could be saved last
            origin = self._origin  # first: a fit that ends now has none, and replaces both
            held = self._now()
            origin = joined_origins(origin, held.origin)
            store = held.on_host()
            try:
                self._from_store(store)
            except ValueError as error:
                raise InputValueError(
                    f"the model cannot be saved, because it could not be loaded ({error})",
                    "`store.save` saves its factors",
                ) from error
            self._tell_set_since(store.fitter)
            if held.seen is not None and with_seen:
                store = pack(store, held.seen, with_values=getattr(self, "_keeps_values", False))
            # In place before the save, which edits it: it may be stopped at any moment.
            self._origin = origin
            before = joined_origins(self._known_before, origin)
            return store._save_over(folder, origin, before, overwrite=overwrite, keep=keep)

    @classmethod
    def load(
        cls,
        folder: Place,
        *,
        mmap: bool = False,
        verify: bool = False,
        classes: Iterable[type] = (),
        trust: bool = False,
    ) -> Self:
        """Load a saved model; see :func:`mfrank.load`.

        Raises
        ------
        ValueError
            The folder has no model, or its model is damaged, is of another class (``mfrank.load``
            loads any model), or uses a class of the caller's that may not be imported.
        """
        own = OwnClasses.of(classes, trust, folder)
        return cls._from_place(folder, FactorStore.load(folder, mmap=mmap, verify=verify), own)

    @classmethod
    def _from_place(cls, place: Place, store: FactorStore, own: OwnClasses = IMPORTED) -> Self:
        """Like :meth:`_from_store`, but errors name the folder or file."""
        try:
            return cls._from_store(store, own)
        except ValueError as error:
            raise within(name_of(place), error) from error

    @classmethod
    def _from_store(cls, store: FactorStore, own: OwnClasses = IMPORTED) -> Self:
        model = cls()
        model._adopt(store)
        return model

    def _adopt(self, store: FactorStore) -> None:
        """Set the store, where it is from, and the seen items saved in it."""
        check_is_model(store.extras)
        if type(self).recommend is Recommender.recommend:
            check_ranks_by_factors(
                store,
                "rank by the model itself: the fitted one, mfrank.load(folder), or "
                "mfrank.ItemBlend.of(store) for a blend",
            )
        self._hold(*unpack(store))
        self._detach_from_folders()
        self._origin = store.origin.copy()

    def _detach_from_folders(self) -> None:
        """Replace folders from now on, as a new fit does; what they had is still known."""
        self._known_before = joined_origins(self._known_before, self._origin)
        self._origin = {}

    def _hold(self, store: FactorStore, seen: sp.csr_array | Seen | None) -> None:
        """Replace the store and the seen entries, at once."""
        if sp.issparse(seen):
            seen = Seen(seen)
        if self._held is not None:  # what the old store was saved as is in the new one
            self._origin = joined_origins(self._origin, self._held.origin)
        self._held = ModelState(store, seen, self._parts_of(store))

    def _tell_set_since(self, fitter: Mapping[str, Any]) -> None:
        """Warn of options that were set after a fit; here there are none."""

    def _parts_of(self, store: FactorStore) -> Any:
        """What the model ranks by beside the factors, from the store's extras; None if nothing."""
        return None

    def _snapshot(self) -> Self:
        """The model as it is now: a copy with the same arrays, which no change reaches."""
        self._now()
        return copy(self)

    def _is_as(self, snapshot: Recommender) -> bool:
        """Whether the model has not changed since a snapshot."""
        return self._held is snapshot._held

    def _now(self) -> ModelState:
        """The store and the seen entries, to be read once in a call."""
        if self._held is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit() first")
        return self._held

    def _levers(
        self, steer: Steering | None, store: FactorStore, items: Side, on_unknown: OnUnknown
    ) -> Levers | None:
        """The levers of a call; None if lists are by score alone."""
        return None if steer is None else set_levers(steer, store, items, on_unknown)

    def _queries_of(self, call: ListCall) -> Any:
        """What the scores of a call's queries are made from."""
        if call.recalculate:
            return self._folded_users(call.held, call.own)
        return QueryFactors.known(call.own.known, call.options.backend)

    def _somebody(self, held: ModelState, own: LikedItems, *, has_values: bool) -> Any:
        """Queries as of :meth:`_queries_of`, for a new user with these items."""
        raise self._folds_nobody_in()

    def _answered(self, queries: Any, call: ListCall, seen: Listed | None, raw: Raw) -> Answer:
        """The answer of a call for the ids ``raw``, with the lists of these queries."""
        known, items = call.own.known, call.own.answering
        filters = call.options.candidates(known.queries, items)
        candidates = filters.without_lists(seen)
        lists, nobody = self._ranked(queries, call, candidates)
        if call.popularity is not None or known.unknown is not None or np.count_nonzero(nobody):
            lists = settled(call, lists, nobody, filters, candidates)
        return answer(lists, items, raw)

    def _ranked(
        self, queries: QueryFactors, call: ListCall, candidates: Candidates
    ) -> tuple[Lists, NDArray[np.bool_]]:
        """Lists of the queries, and which of these have nothing to go by."""
        store, rank = call.held.store, best
        if call.levers is not None:
            rank = partial(best_steered, call.levers, store, call.history)
        lists = rank(queries, call.own.answering, call.options, candidates)
        return lists, queries.nobody(store)

    def _scored(self, users: Side, items: Side, user_rows: Rows, item_rows: Rows) -> NDArray[Any]:
        """Scores of pairs, NaN where a row is -1: unknown."""
        return pair_scores(users, items, user_rows, item_rows)

    def _folded_users(self, held: ModelState, own: OwnRows) -> QueryFactors:
        """Factors and biases of users, solved from their rows."""
        raise self._folds_nobody_in()

    def _similar(
        self, side: Side, raw: Raw, options: ListOptions, recalculate: bool, matrix: Matrix | None
    ) -> Answer:
        """Rows of a side that are nearest to its ids, or to what is solved from their rows."""
        name, other = ("item", "user") if side.name == "item" else ("user", "item")
        check_flags(**{f"recalculate_{name}": recalculate})
        if not recalculate:
            return closest(side, raw, options)
        if matrix is None:
            raise InputValueError(
                f"`recalculate_{name}=True` needs the {name}s' rows in `{name}_{other}s`"
            )
        solve = self.recalculate_item if name == "item" else self.recalculate_user
        return around(side, raw, np.atleast_2d(solve(raw, matrix, by_row=side.by_row)), options)

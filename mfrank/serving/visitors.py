"""Lists that depend on what the service knows and the model does not.

That is what users did since the model learned (a journal of events), and what they were shown (a
memory). A user's new events change the list at once: the user is folded in from history and events
together, and what was met is left out. Models that cannot fold in only leave out what was met.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mfrank.arrays import shown
from mfrank.data import Ids, Interactions, as_text, kinds_read, whole_number
from mfrank.errors import InputValueError
from mfrank.models import values_told
from mfrank.retrieval import Recommender, is_nested, unannounced
from mfrank.serving.answers import (
    Items,
    check_fallback,
    check_list_of_each,
    explains_alone,
    known_only,
    listed_in_portions,
    reads_values,
    recommendations,
)
from mfrank.serving.event_forms import OneEvent
from mfrank.serving.event_journal import Event, EventJournal, Fresh, FreshUsers
from mfrank.serving.exploration import Explorer
from mfrank.serving.kind_weights import BY_VALUE, KIND, Counting, Weights
from mfrank.serving.list_log import ListLog, ListShown, ListSource
from mfrank.serving.pages import Page
from mfrank.serving.questions import Batch, ListQuery
from mfrank.serving.shown import Shown


@dataclass(frozen=True, slots=True)
class Visitors:
    """What the service knows of users; each part may be missing.

    Attributes
    ----------
    journal : EventJournal or None
    fresh : FreshUsers or None
        Of the journal.
    shown : Shown or None
    weights : mapping of kind -> number, or None
        What an event of each kind counts, as for ``mfrank update --weights``; None for the weights
        that each model remembers.
    list_log : ListLog or None
        Where lists are noted.
    explorer : Explorer or None
    told : set of str
        Kinds without a weight of which was told.
    """

    journal: EventJournal | None = None
    fresh: FreshUsers | None = None
    shown: Shown | None = None
    weights: Weights | None = None
    list_log: ListLog | None = None
    explorer: Explorer | None = None
    told: set[str] = field(default_factory=set)

    @classmethod
    def of(
        cls,
        journal: str | os.PathLike[str] | None,
        weights: Weights | None,
        remember_shown: float | None,
        shown_file: str | os.PathLike[str] | None,
        log_lists: float | None,
        explorer: Explorer | None,
    ) -> Self:
        """Open what :func:`mfrank.serving.app` names."""
        if weights is not None and journal is None:
            raise InputValueError("`weights` are of the events of a `journal`,", "pass one")
        if shown_file is not None and remember_shown is None:
            raise InputValueError("`shown_file` needs `remember_shown`,", "the time to remember")
        if log_lists is not None and journal is None:
            raise InputValueError("`log_lists` writes to a `journal`,", "pass one")
        if explorer is not None and log_lists is None:
            raise InputValueError(
                "`explore` needs `log_lists`, without which nobody learns from what is drawn,",
                "pass it",
            )
        opened = None if journal is None else EventJournal(journal)
        return cls(
            opened,
            None if opened is None else FreshUsers(opened),
            None if remember_shown is None else Shown(remember_shown, shown_file),
            weights,
            None if opened is None or log_lists is None else ListLog(opened, log_lists),
            explorer,
        )

    def own_fresh(self) -> FreshUsers | None:
        """Who has new events, for one more model: each has learned from its own part of them."""
        return None if self.journal is None else FreshUsers(self.journal)

    def concern(self, user: str, model: Recommender, *, remember: bool) -> bool:
        """Whether a list of this user, by the id in a URL, is another than the model's own."""
        if self.list_log is not None or (remember and self.shown is not None):
            return True
        return self.fresh is not None and self.fresh.has(user, model)

    def take(self, models: Sequence[Recommender], events: Sequence[OneEvent]) -> dict[str, Any]:
        """Append events to the journal, with ids of the models' types; the answer.

        Ids are unknown if no model knows them.

        Raises
        ------
        ValueError
            An id or a kind cannot be learned from; the message has the index of the event.
        """
        assert self.journal is not None
        typed = [self._typed(index, each, models[0]) for index, each in enumerate(events)]
        for counting in map(self.counting, models):
            counting.tell_unmet({each.event or KIND for each in typed} - self.told, self.told)
        new, repeated = self.journal.append(typed)
        return {
            "new": new,
            "repeated": repeated,
            "unknown": {
                "users": _unknown([each.user_ids for each in models], [e.user for e in typed]),
                "items": _unknown([each.item_ids for each in models], [e.item for e in typed]),
            },
        }

    def counting(self, model: Recommender) -> Counting:
        """What events count for a model."""
        return Counting.by(self.weights, model.event_weights)

    def tell_weights(self, model: Recommender) -> None:
        """Log by which weights of a model events count, if it has some and none were given."""
        if self.journal is not None:
            self.counting(model).tell()

    def _typed(self, index: int, given: OneEvent, model: Recommender) -> Event:
        ids = {}
        for name, known in ("user", model.user_ids), ("item", model.item_ids):
            try:
                ids[name] = typed_like(getattr(given, name), known)
            except ValueError as error:
                where = f"event {index}"
                raise InputValueError(f"{where}: `{name}` {error}", place=where) from None
        kind = given.kind or KIND
        if self.weights is not None and kind not in self.weights:
            known_kinds = ", ".join(self.weights)
            raise InputValueError(
                f"event {index}: `kind` must be one of those of --weights ({known_kinds}), got "
                f"{kind!r}",
                place=f"event {index}",
            )
        return Event(ids["user"], ids["item"], given.kind, float(given.value), given.time, given.id)

    def page(
        self, page: Page, user: str, of: str, options: Mapping[str, Any], source: ListSource
    ) -> dict[str, Any]:
        """The answer to GET /recommend/{user}.

        Parameters
        ----------
        page : Page
        user : str
            The id of the URL.
        of : str
            The path.
        options : mapping
            Of :func:`mfrank.serving.answers.listed`.
        source : ListSource
        """
        model, asked = page.model, page.asked
        label = typed_or_same(user, model.user_ids)
        events, last = self._events(model, label, page.events)
        shown = self.shown if asked.remember else None
        hidden = [] if shown is None else shown.items_of(label, page.time)
        more = 0 if page.is_asked else self._n_to_draw_from(asked)
        n, counting = page.n_above + more, self.counting(model)
        found = list_of(model, label, n, events, hidden, options, counting)
        items, odds = page.part(found), None
        if more and self.explorer is not None:
            items, odds = self.explorer.drawn(found, asked.n, label, source.list_id)
        self._note(label, items, source, odds)
        if shown is not None and (events or _is_known(model.user_ids, label)):
            shown.add(label, [each["id"] for each in items])
        answer: dict[str, Any] = {"user": label, "items": items, **self._named(source)}
        if page.is_asked:
            answer["next"] = page.next(of, found, last)
        return answer

    def lists(
        self,
        model: Recommender,
        users: Sequence[Any],
        n: int,
        options: Mapping[str, Any],
        asked: Batch,
        source: ListSource,
    ) -> list[dict[str, Any]] | None:
        """The answers to users of POST /recommend; None if they are the model's own lists."""
        remember, more = asked.remember, self._n_to_draw_from(asked)
        if not any(self.concern(str(each), model, remember=remember) for each in users):
            return None
        shown, answers = self.shown if remember else None, []
        check_list_of_each(len(users), options)
        fresh, counting = (
            [self._events(model, user, None)[0] for user in users],
            self.counting(model),
        )
        first = {user: at for at, user in reversed([*enumerate(users)])}
        alike = [at for user, at in first.items() if not fresh[at]]
        made = self._together(model, users, alike, n + more, options, shown)
        for at, (user, events) in enumerate(zip(users, fresh, strict=True)):
            items, odds = made.get(at), None
            if items is None:  # what a user's earlier list in this batch has counts as shown
                hidden = [] if shown is None else shown.items_of(user)
                own = {name: _at(each, at) for name, each in options.items()}
                items = list_of(model, user, n + more, events, hidden, own, counting)
            if more and self.explorer is not None:
                items, odds = self.explorer.drawn(items, n, user, source.list_id)
            self._note(user, items, source, odds)
            if shown is not None and (events or _is_known(model.user_ids, user)):
                shown.add(user, [each["id"] for each in items])
            answers.append({"user": user, "items": items, **self._named(source)})
        return answers

    def _together(
        self,
        model: Recommender,
        users: Sequence[Any],
        places: Sequence[int],
        n: int,
        options: Mapping[str, Any],
        shown: Shown | None,
    ) -> dict[int, Items]:
        """The lists of the users at some places, of whom no event is new, by their places."""
        if not places:
            return {}
        more = dict(options)
        if is_nested(more["items"]):
            more["items"] = [more["items"][at] for at in places]
        if shown is not None or is_nested(more["filter_items"]):
            hidden = [[] if shown is None else shown.items_of(users[at]) for at in places]
            more["filter_items"] = [
                [*(_at(options["filter_items"], at) or ()), *known_only(own, model.item_ids)]
                for at, own in zip(places, hidden, strict=True)
            ]
        found = listed_in_portions(model, [users[at] for at in places], n, **more)
        return dict(zip(places, found.to_dicts(), strict=True))

    def note(self, user: Any, items: Items, source: ListSource) -> dict[str, str]:
        """Note a list that was made otherwise; returns what the answer says of it."""
        self._note(user, items, source, None)
        return self._named(source)

    def _note(self, user: Any, items: Items, source: ListSource, odds: list[float] | None) -> None:
        if self.list_log is not None:
            ids = [each["id"] for each in items]
            self.list_log.add(ListShown(user, time.time(), source, ids, odds))

    def _named(self, source: ListSource) -> dict[str, str]:
        return {} if self.list_log is None else {"list_id": source.list_id}

    def _n_to_draw_from(self, asked: ListQuery | Batch) -> int:
        """How many items after a list it may draw: none where the request chooses or steers."""
        if self.explorer is None:
            return 0
        plain = {"users", "n", "model", "fields", "remember", "on_unknown", "fallback"}
        return 0 if asked.model_fields_set - plain else self.explorer.depth

    def _events(self, model: Recommender, user: Any, until: int | None) -> tuple[list[Fresh], int]:
        """A user's events that a model has not learned from, and the number of the last of all."""
        if self.journal is None:
            return [], 0
        last = self.journal.last if until is None else until
        return self.journal.of_user(user, self.journal.position(model), last), last

    def health(self, model: Recommender) -> dict[str, Any]:
        """What ``/health`` says."""
        told: dict[str, Any] = {}
        if self.journal is not None:
            after = self.journal.position(model)
            told["events"] = self.journal.n_events(after, self.journal.last)
            told["folds_in"] = can_fold(model)
            told["event_weights"] = {**self.counting(model).weights} or None
        if self.shown is not None:
            told["remembers_shown"] = self.shown.seconds
        if self.list_log is not None:
            told["lists_left_out"] = self.list_log.left_out
        return told


def list_of(
    model: Recommender,
    user: Any,
    n: int,
    events: Sequence[Fresh],
    hidden: Sequence[Any],
    options: Mapping[str, Any],
    counting: Counting = BY_VALUE,
) -> Items:
    """The list of a user with events that the model has not learned from.

    Parameters
    ----------
    model : Recommender
    user : id
    n : int
    events : sequence of Fresh
        Oldest first.
    hidden : ids
        Not to be listed.
    options : mapping
        Of :func:`mfrank.serving.answers.listed`.
    counting : Counting, default by value
    """
    n = min(n, len(model.item_ids) or 1)
    met = [] if options["include_seen"] else [each.item for each in events]
    left_out = known_only([*hidden, *met], model.item_ids)
    more = {**options, "filter_items": [*(options.get("filter_items") or ()), *left_out]}
    row = int(model.user_ids.rows([user], missing=-1)[0])
    items, values = _learned(model, events, counting)
    if len(items) and can_fold(model, row):
        return _folded(model, user, row, n, items, values, more)
    if row < 0 and events:  # who did something is somebody, though nothing is known to learn from
        more["on_unknown"] = "skip"
    found: Items
    (found,) = recommendations(model, [user], n, **more)
    return found


def _learned(
    model: Recommender, events: Sequence[Fresh], counting: Counting
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rows of the known items of events, oldest first, and what each event counts; 0: only seen."""
    counts, kinds = [], None if counting.are_given else kinds_read(model.where)
    for each in events:
        count = counting.of(each.event, each.value)
        if kinds is not None and each.event is not None and each.event not in kinds:
            count = None  # as ``mfrank update --journal`` leaves it out
        counts.append(np.nan if count is None else count)
    rows = model.item_ids.rows([each.item for each in events], missing=-1)
    values = np.array(counts, np.float64)
    kept = (rows >= 0) & np.isfinite(values)
    rows, values = rows[kept], values[kept]
    threshold = model.threshold
    if threshold is not None and not (values == 1).all():  # as ``mfrank update`` takes them
        values = np.where(values >= threshold, values, 0.0)
    return rows, values


def _folded(
    model: Recommender,
    user: Any,
    row: int,
    n: int,
    items: NDArray[np.int64],
    values: NDArray[np.float64],
    options: Mapping[str, Any],
) -> Items:
    """The list of a user folded in from history and events."""
    check_fallback(model, options["fallback"])
    seen = model.seen
    more = dict(options)
    if seen is not None and row >= 0 and not more["include_seen"]:
        old = seen.filtered.checked[[row]].indices
        more["filter_items"] = [*more["filter_items"], *model.item_ids.raw(old)]
    del more["include_seen"]
    given: Any
    if model._reads_order:
        history = model._in_order(row) if row >= 0 else np.empty(0, np.int64)
        every = np.append(history, items[values > 0])
        latest = {int(item): at for at, item in enumerate(every)}  # of a repeated one, the last
        labels = model.item_ids.raw(np.array(list(latest), np.int64))
        given = Interactions.from_arrays(
            [user] * len(latest), labels, timestamps=list(latest.values())
        )
    else:
        given = _row(model, row, items, values)
    with values_told(), unannounced():
        answer = model.recommend(
            [user],
            given,
            N=n,
            filter_already_liked_items=False,
            recalculate_user=True,
            n_threads=1,
            **more,
        )
    (found,) = answer.to_dicts()
    return list(found)


def _row(
    model: Recommender, row: int, items: NDArray[np.int64], values: NDArray[np.float64]
) -> sp.csr_array:
    """History and events of a user, shape (1, n_items); values of an item are added."""
    dtype, n_items = model.store.dtype, len(model.item_ids)
    sums: dict[int, float] = {}
    if row >= 0 and model.seen is not None:
        own = model.seen.checked[[row]]
        sums = dict(zip(own.indices.tolist(), own.data.astype(float).tolist(), strict=True))
    for item, value in zip(items.tolist(), values.tolist(), strict=True):
        sums[item] = sums.get(item, 0.0) + value
    columns = np.array(sorted(sums), np.int32)
    data = np.array([sums[int(each)] for each in columns], dtype)
    if not reads_values(model):
        data = (data > 0).astype(dtype)
    return sp.csr_array((data, columns, np.array([0, len(columns)])), (1, n_items))


def can_fold(model: Recommender, row: int = 0) -> bool:
    """Whether a model's lists follow new events; ``row`` is that of a known user, or -1."""
    return model.folds_in and (row < 0 or explains_alone(model))


def typed_like(label: int | str, known: Ids) -> int | str:
    """An id with the type of a model's ids.

    Raises
    ------
    ValueError
        There is none, or no file or model could hold the id.
    """
    if isinstance(label, str):
        if not label.strip() or any("\ud800" <= letter <= "\udfff" for letter in label):
            raise ValueError(f"must be text that UTF-8 has, and not blank, got {shown(label)}")
        if known.are_numbers and isinstance(whole_number(label), str):
            raise ValueError(f"must be a whole number, as the ids of the model are, got {label!r}")
        return whole_number(label) if known.are_numbers else label
    if not -(2**63) <= label < 2**63:
        raise ValueError(f"must be a whole number of 64 bits, got {label}")
    return str(as_text(np.array([label], object))[0]) if known.are_text else label


def typed_or_same(label: str, known: Ids) -> int | str:
    """An id of a URL with the type of a model's ids, or as it is if there is none."""
    return whole_number(label) if known.are_numbers else label


def _is_known(ids: Ids, label: Any) -> bool:
    return bool(ids.rows([label], missing=-1)[0] >= 0)


def _at(option: Any, place: int) -> Any:
    """An option of a batch for one of its users, who may have a list of their own."""
    return option[place] if is_nested(option) else option


def _unknown(of_models: Sequence[Ids], labels: Sequence[Any]) -> list[Any]:
    """Those of the labels that no model knows, each once."""
    rows = np.max([ids.rows(labels, missing=-1) for ids in of_models], axis=0)
    pairs = zip(labels, rows.tolist(), strict=True)
    return list(dict.fromkeys(label for label, row in pairs if row < 0))

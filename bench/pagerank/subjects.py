"""What pagerank_quality.py is run on: sequences of visits, cut by time into three stages.

A stage knows all visits before its point in time (on globo those of the day before), and is asked
by the sequences that begin after it, until the next stage: which page comes last in each, given the
others. Every page counts once in a sequence, where it was visited last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness.subjects import data_folder
from numpy.typing import NDArray

from mfrank.data import Interactions, leave_last
from mfrank.pagerank import Graphs, by_source, item_graph, recencies

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

ASKED = {"learn": 600, "valid": 800, "test": 3000}
"""Most sequences that ask, drawn at random, of each stage."""

RECENT = 10
"""Most pages of a sequence that a walk restarts at, mfrank.SupervisedPageRank's default."""

_HOUR = 3600 * 1000
_DAY = 24 * _HOUR


@dataclass(frozen=True, eq=False)
class Stage:
    """What was known, and who asks.

    Attributes
    ----------
    known : Interactions
        Sequences x pages.
    graph : Graphs
        Of the pages, with features that come from ``known`` and nothing later.
    past : csr_array, sequences that ask x pages
        Their pages but for the last.
    recent : csr_array
        Of ``past`` how recent, those in the graph alone.
    wanted : csr_array
        Their last pages.
    """

    known: Interactions
    graph: Graphs
    past: sp.csr_array
    recent: sp.csr_array
    wanted: sp.csr_array


@dataclass(frozen=True, eq=False)
class Visits:
    """Columns of a log, in milliseconds."""

    sequences: Ints
    pages: Ints
    times: Ints

    def where(self, kept: NDArray[np.bool_]) -> Visits:
        """Some of the rows."""
        return Visits(self.sequences[kept], self.pages[kept], self.times[kept])

    def table(self, n_pages: int) -> Interactions:
        """Sequences that have any, numbered anew."""
        found, rows = np.unique(self.sequences, return_inverse=True)
        shape = len(found), n_pages
        return Interactions.from_arrays(rows, self.pages, timestamps=self.times, shape=shape)


def stages(name: str) -> dict[str, Stage]:
    """The three stages of a data set."""
    return SUBJECTS[name]()


def _yoochoose() -> dict[str, Stage]:
    """Days: the last one is the published test part."""
    with np.load(data_folder("yoochoose-100k") / "interactions.npz") as log:
        visits = _visits(log["user"], log["item"], log["timestamp"])
        test = visits.times[log["split"] == 2].min()
    cuts = [test - 2 * _DAY, test - _DAY, test, visits.times.max() + 1]
    return _staged(visits, cuts, visits.times.max(), _browsed)


def _globo() -> dict[str, Stage]:
    """Quarters of the sixteenth day: of what is clicked then, most is of the day before."""
    with np.load(data_folder("globo") / "interactions.npz") as log:
        visits = _visits(log["session"], log["item"], log["timestamp"])
    end = visits.times.min() + 16 * _DAY
    within = (visits.times >= end - 2 * _DAY) & (visits.times < end)
    visits = visits.where(within)
    pages = np.unique(visits.pages, return_inverse=True)[1]
    visits = Visits(visits.sequences, pages, visits.times)
    cuts = [end - _DAY * quarter // 4 for quarter in (3, 2, 1, 0)]
    return _staged(visits, cuts, _DAY, _news)


def _wikispeedia() -> dict[str, Stage]:
    """Shares of the games, by when they began; the graph is that of the articles' links."""
    with np.load(data_folder("wikispeedia") / "paths_unfinished.npz") as log:
        visits = _walked_articles(log["ptr"], log["node"], log["timestamp"])
    begun = np.unique(visits.times // _PER_GAME)
    cuts = [int(np.quantile(begun, share)) * _PER_GAME for share in (0.6, 0.7, 0.85)]
    cuts.append(visits.times.max() + 1)
    return _staged(visits, cuts, visits.times.max(), _linked_articles)


_PER_GAME = 1000  # more than the articles of any game, so that games stay apart in time


def _walked_articles(begins: Ints, articles: Ints, times: Ints) -> Visits:
    """Games as visits; a click back visits the article before, and none of them ends a game."""
    rows = []
    for game, (begin, end) in enumerate(pairwise(begins)):
        opened: list[int] = []
        seen: list[int] = []
        forward = 0
        for article in articles[begin:end]:
            if article >= 0:
                opened.append(int(article))
                forward = len(seen) + 1
            elif len(opened) > 1:
                opened.pop()
            seen.append(opened[-1])
        rows += [(game, page, at) for at, page in enumerate(seen[:forward])]
    game, page, at = np.array(rows, dtype=np.int64).T
    return Visits(game, page, times[game].astype(np.int64) * _PER_GAME + at)


def _visits(sequences: Any, pages: Any, times: Any) -> Visits:
    return Visits(*(np.asarray(column, dtype=np.int64) for column in (sequences, pages, times)))


def _staged(
    visits: Visits, cuts: list[Any], reach: int, graph_of: Callable[[Interactions], Graphs]
) -> dict[str, Stage]:
    """Stages at the first three cuts; the last sequences begin before the fourth."""
    n_pages = int(visits.pages.max()) + 1
    begun = np.full(int(visits.sequences.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(begun, visits.sequences, visits.times)
    first = begun[visits.sequences]
    made = {}
    for (name, most), cut, end in zip(ASKED.items(), cuts[:-1], cuts[1:], strict=True):
        known = visits.where((visits.times < cut) & (visits.times >= cut - reach))
        asked = visits.where((first >= cut) & (first < end))
        made[name] = _stage(known.table(n_pages), _some(asked, most), graph_of)
    return made


def _some(asked: Visits, most: int) -> Visits:
    """At most so many sequences of two or more pages, drawn at random."""
    sequence, count = np.unique(
        np.unique(np.stack([asked.sequences, asked.pages]), axis=1)[0], return_counts=True
    )
    long = sequence[count > 1]
    drawn = np.random.default_rng(0).choice(long, min(most, len(long)), replace=False)
    return asked.where(np.isin(asked.sequences, drawn))


def _stage(known: Interactions, asked: Visits, graph_of: Callable[[Interactions], Graphs]) -> Stage:
    graph = graph_of(known)
    split = leave_last(asked.table(known.n_items))
    past = split.train
    familiar = np.isin(past.user_items.indices, graph.pages)
    part = Visits(past.entry_users, past.user_items.indices, np.asarray(past.timestamps))
    part = part.where(familiar)
    shape = past.user_items.shape
    table = Interactions.from_arrays(part.sequences, part.pages, timestamps=part.times, shape=shape)
    recent = recencies(table, RECENT)
    return Stage(known, graph, past.user_items, recent, split.test.user_items)


def _browsed(known: Interactions) -> Graphs:
    """Pages that came next to each other."""
    return item_graph(known, None, None)


def _news(known: Interactions) -> Graphs:
    """The same, and how often they were visited in the last hour."""
    times = np.asarray(known.timestamps)
    lately = known.user_items.indices[times > times.max() - _HOUR]
    return item_graph(known, np.log1p(np.bincount(lately, minlength=known.n_items))[:, None], None)


def _linked_articles(known: Interactions) -> Graphs:
    """The articles and their links, weighed by clicks, links, categories and lengths.

    Where in an article a link stands is not among the data.
    """
    with np.load(data_folder("wikispeedia") / "graph.npz") as graph:
        order = np.lexsort((graph["dst"], graph["src"]))
        sources, targets = (
            graph["src"][order].astype(np.int64),
            graph["dst"][order].astype(np.int64),
        )
        bytes_, shape = graph["text_bytes"], (len(graph["name"]), int(graph["cat_id"].max()) + 1)
        ones = np.ones(len(graph["cat_node"]))
        categories = sp.csr_array((ones, (graph["cat_node"], graph["cat_id"])), shape)
    n = shape[0]
    links = sp.csr_array((np.ones(len(sources)), (sources, targets)), (n, n))
    clicks = _clicks(known)
    alike = np.asarray((categories[sources].multiply(categories[targets])).sum(axis=1)).ravel()
    visits = np.log1p(np.bincount(known.user_items.indices, minlength=n))
    linked = np.log1p(np.bincount(targets, minlength=n))
    of_edges = [
        clicks[sources, targets],
        np.ones(len(sources)),
        links[targets, sources],
        alike,
        visits[targets],
        linked[targets],
        np.log1p(bytes_[targets]),
    ]
    of_nodes = np.column_stack([visits, linked, np.log1p(links.sum(axis=1)), np.zeros(n)])
    return Graphs.from_edges(
        sources,
        targets,
        seeds="all",
        node_features=of_nodes / np.where(of_nodes.max(axis=0) > 0, of_nodes.max(axis=0), 1),
        edge_features=by_source(sources, np.column_stack(of_edges), n),
    )


def _clicks(known: Interactions) -> sp.csr_array:
    """How often an article was visited right after another."""
    order = np.lexsort((np.asarray(known.timestamps), known.entry_users))
    article, game = known.user_items.indices[order], known.entry_users[order]
    same = game[1:] == game[:-1]
    ends = article[:-1][same], article[1:][same]
    return sp.csr_array((np.ones(same.sum()), ends), (known.n_items, known.n_items))


SUBJECTS = {"wikispeedia": _wikispeedia, "yoochoose-100k": _yoochoose, "globo": _globo}

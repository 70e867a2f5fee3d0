"""Opponents where order matters: a kNN of sessions, and two networks in PyTorch.

Both are fitted to Interactions with timestamps and recommend to users of the fit, who are sessions
if the data are of sessions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import mfrank

USERS_AT_ONCE = 256


def histories(data: mfrank.Interactions, longest: int) -> list[NDArray[np.int64]]:
    """The last items of each user, oldest first."""
    order = np.lexsort((data.timestamps, data.entry_users))
    items = data.user_items.indices[order].astype(np.int64)
    ends = data.user_items.indptr[1:-1]
    return [own[-longest:] for own in np.split(items, ends)]


def top(scores: NDArray[Any], seen: sp.csr_array, n: int) -> tuple[Any, Any]:
    """Ids and scores of the best n, without the seen entries; -1 where the score is 0 or less."""
    scores[np.repeat(np.arange(len(scores)), np.diff(seen.indptr)), seen.indices] = -np.inf
    ids = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    best = np.take_along_axis(scores, ids, axis=1)
    return np.where(np.isneginf(best), -1, ids).astype(np.int32), best


@dataclass(eq=False)
class VSKNN:
    """V-SkNN (Ludewig and Jannach 2018): what the most similar of the latest sessions have.

    A session's items weigh linearly by their places. Of the ``sample`` latest sessions with one of
    them, the ``k`` with the largest sum of these weights vote for their items, by this sum and by
    how near to the end of the session the last item is that both share.
    """

    k: int = 100
    sample: int = 1000
    longest: int = 50
    needs_times = True
    grid = tuple((k, sample) for sample in (500, 2500) for k in (50, 150, 500))

    def fit(self, user_items: mfrank.Interactions, **_: Any) -> Self:
        """Keep the sessions, and those of each item, the latest first."""
        data = user_items
        self.sessions = histories(data, self.longest)
        self.likes = sp.csr_array((data.user_items > 0).astype(np.float32))
        ends = np.zeros(data.n_users, np.int64)
        np.maximum.at(ends, data.entry_users, data.timestamps)
        by_item = sp.csc_array(self.likes)
        self.of_item = [
            own[np.argsort(-ends[own], kind="stable")][: self.sample]
            for own in np.split(by_item.indices, by_item.indptr[1:-1])
        ]
        self.ends = ends
        return self

    def recommend(self, users: NDArray[Any], user_items: Any, N: int = 10) -> Any:
        """Lists of users, by row."""
        seen = sp.csr_array(user_items)
        parts = []
        for begin in range(0, len(users), USERS_AT_ONCE):
            some = users[begin : begin + USERS_AT_ONCE]
            scores = np.stack([self._votes(int(user)) for user in some])
            scores[scores == 0] = -np.inf
            parts.append(top(scores, seen[begin : begin + USERS_AT_ONCE], N))
        return tuple(map(np.vstack, zip(*parts, strict=True)))

    def _votes(self, user: int) -> NDArray[np.float32]:
        own = self.sessions[user]
        votes = np.zeros(self.likes.shape[1], np.float32)
        if not len(own):
            return votes
        lists = [self.of_item[item] for item in own]
        found = np.concatenate(lists)
        places = np.repeat(np.arange(1, len(own) + 1), list(map(len, lists)))
        others, number = np.unique(found, return_inverse=True)
        similar = np.bincount(number, places / len(own))
        last = np.zeros(len(others))
        np.maximum.at(last, number, places)
        keep = others != user
        others, similar, last = others[keep], similar[keep], last[keep]
        if len(others) > self.sample:
            late = np.argsort(-self.ends[others], kind="stable")[: self.sample]
            others, similar, last = others[late], similar[late], last[late]
        best = np.argsort(-similar, kind="stable")[: self.k]
        weights = similar[best] * np.maximum(0.0, 1 - 0.1 * (len(own) - last[best]))
        rows = self.likes[others[best]]
        np.add.at(votes, rows.indices, np.repeat(weights, np.diff(rows.indptr)).astype(np.float32))
        return votes


@dataclass(eq=False)
class Network:
    """SASRec (Kang and McAuley 2018) or, with ``recurrent``, GRU4Rec (Hidasi et al. 2016).

    Both are trained under a softmax over all items, which ranks higher than sampled negatives. In
    half of ``minutes`` each epoch is judged on the validation part of the other searches; the best
    epoch is then the number of epochs on all of the data.
    """

    minutes: float
    judge: Any
    recurrent: bool = False
    width: int = 64
    blocks: int = 2
    heads: int = 2
    longest: int = 50
    dropout: float = 0.2
    rate: float = 1e-3
    batch: int = 128
    seed: int = 0
    threads: int = 0
    patience: int = 5
    needs_times = True
    told: dict[str, Any] = field(default_factory=dict)

    def fit(self, user_items: mfrank.Interactions, **_: Any) -> Self:
        """Find the number of epochs, then fit to all."""
        judge, began, values = self.judge(user_items), perf_counter(), []
        share = 60 * self.minutes / 2
        for _ in self._epochs(judge.train):
            values.append(judge.score(self.recommend).value)
            since = len(values) - 1 - int(np.argmax(values))
            if since >= self.patience or perf_counter() - began > share:
                break
        wanted, began = int(np.argmax(values)) + 1, perf_counter()
        for epoch, _ in enumerate(self._epochs(user_items), 1):
            if epoch == wanted or perf_counter() - began > share:
                break
        self.told = {"epochs": epoch, "valid": max(values)}
        return self

    def _epochs(self, data: mfrank.Interactions) -> Any:
        import torch

        torch.manual_seed(self.seed)
        if self.threads:
            torch.set_num_threads(self.threads)
        self.n_items = data.n_items
        self.sessions = histories(data, self.longest + 1)
        self.net = self._made(torch)
        optimizer = torch.optim.AdamW(self.net["all"].parameters(), lr=self.rate)
        rng = np.random.default_rng(self.seed)
        trained = np.flatnonzero([len(own) > 1 for own in self.sessions])
        while True:
            self.net["all"].train()
            for rows in np.array_split(
                rng.permutation(trained), max(1, len(trained) // self.batch)
            ):
                own = [self.sessions[row] for row in rows]
                inputs = torch.from_numpy(padded([one[:-1] for one in own], self.n_items))
                targets = torch.from_numpy(padded([one[1:] for one in own], self.n_items))
                real = targets != self.n_items
                scores = self._states(inputs)[real] @ self.net["items"].weight[:-1].T
                loss = torch.nn.functional.cross_entropy(scores, targets[real])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            self.net["all"].eval()
            yield

    def _made(self, torch: Any) -> dict[str, Any]:
        nn = torch.nn
        items = nn.Embedding(self.n_items + 1, self.width)
        nn.init.normal_(items.weight, std=0.02)
        parts = {"items": items, "drop": nn.Dropout(self.dropout), "norm": nn.LayerNorm(self.width)}
        if self.recurrent:
            parts["encoder"] = nn.GRU(self.width, self.width, batch_first=True)
        else:
            layer = nn.TransformerEncoderLayer(
                *(self.width, self.heads, 4 * self.width, self.dropout, "gelu"),
                batch_first=True,
                norm_first=True,
            )
            parts["encoder"] = nn.TransformerEncoder(layer, self.blocks, enable_nested_tensor=False)
            parts["places"] = places = nn.Embedding(self.longest, self.width)
            nn.init.normal_(places.weight, std=0.02)
        return {**parts, "all": nn.ModuleList(parts.values())}

    def _states(self, inputs: Any) -> Any:
        """The state after each item, shape (U, L, width); rows are padded at their end."""
        import torch

        net, length = self.net, inputs.shape[1]
        x = net["items"](inputs) * self.width**0.5
        if self.recurrent:
            return net["norm"](net["encoder"](net["drop"](x))[0])
        mask = torch.nn.Transformer.generate_square_subsequent_mask(length)
        x = net["drop"](x + net["places"].weight[:length])
        return net["norm"](net["encoder"](x, mask=mask, is_causal=True))

    def recommend(self, users: NDArray[Any], user_items: Any, N: int = 10) -> Any:
        """Lists of users, by row; those without a history get none."""
        import torch

        seen, parts = sp.csr_array(user_items), []
        with torch.no_grad():
            for begin in range(0, len(users), USERS_AT_ONCE):
                own = [self.sessions[u][-self.longest :] for u in users[begin:][:USERS_AT_ONCE]]
                states = self._states(torch.from_numpy(padded(own, self.n_items)))
                last = torch.tensor([max(0, len(one) - 1) for one in own])
                of_users = states[torch.arange(len(own)), last]
                scores = (of_users @ self.net["items"].weight[:-1].T).numpy()
                scores[[not len(one) for one in own]] = -np.inf
                parts.append(top(scores, seen[begin : begin + USERS_AT_ONCE], N))
        return tuple(map(np.vstack, zip(*parts, strict=True)))


def padded(rows: list[NDArray[np.int64]], value: int) -> NDArray[np.int64]:
    """Rows of one length, with the value at the end."""
    table = np.full((len(rows), max(1, *map(len, rows))), value, np.int64)
    for row, own in zip(table, rows, strict=True):
        row[: len(own)] = own
    return table

"""Rewrite the library's messages, which speak Python, in the flags of a command.

The library names its arguments: ``lower factors``, ``set_params(factors=64)``, ``batches="users"``.
A command's flags have the arguments' names, so a message can be rewritten word by word: ``lower
--factors``, ``--factors 64``, ``--batches users``. Other words, such as methods of Python, are in a
table.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from mfrank.arrays import lazy

_AS_ROWS = "write it as .csv, one interaction a row"
_ANEW = "fit anew without them"
_NO_SEEN = (
    "this model was saved without its interactions, which lists leave out: use --include-seen"
)
_NO_FOLDER = "pass the file of interactions in it, or several to mfrank ingest"
_PHRASES = {
    "Interactions.at_least(0)": "--at-least 0",
    "at_least(threshold)": "--at-least VALUE",
    "dataclasses.replace(data, seen_only=None)": "--no-keep-seen",
    "mfrank.ALS(mfrank.WRMF(alpha=...))": "mfrank fit --objective wrmf --alpha FLOAT",
    "pass them to Interactions.from_arrays": "name their column with --timestamp",
    "partial_fit(user_features=...)": "mfrank update --user-features FILE",
    "partial_fit(item_features=...)": "mfrank update --item-features FILE",
    "pass labels, or method=None": "use --untuned",
    ", or load the factors alone with mfrank.FactorStore.load": "",
    "fit to mfrank.log_weight(data), or ": "",
    "use mfrank.ItemFilter": "use ItemFilter",
    "mfrank.NDCG @ 10": "ndcg@10",
    "; if they were stopped or hung, see patience of mfrank.cluster.processes.Processes": "",
    "; mfrank.movielens reads MovieLens as distributed": "; unpack it and pass its ratings",
    "pass the files in it to Interactions.ingest; Interactions.open opens one that ingest wrote, "
    "and mfrank.movielens reads MovieLens as distributed": _NO_FOLDER,
    ", or read it with pandas or pyarrow and pass the table to Interactions.from_frame": "",
    "pass Interactions.from_sparse what scipy.io.mmread reads": _AS_ROWS,
    "pass Interactions.from_frame what pandas.read_json(FILE, lines=True) reads": _AS_ROWS,
    "pass Interactions.from_sparse what sklearn.datasets.load_svmlight_file reads": _AS_ROWS,
    ": import it first; in the shell, by": ": pass",
    ": load it again and repeat the change, or pass overwrite=True": ": run the command again",
    "Pass them, or filter_already_liked_items=False": "Pass --train FILE, or --include-seen",
    "filter_already_liked_items=False": "--include-seen",
    ": fit it anew, save it with_seen=True, or pass user_items=Interactions": ": fit it anew",
    "remove from the model that was fitted, or from one saved with with_seen=True": _ANEW,
    "by_time needs": "--split time needs",
    "leave_last needs": "--split leave-last needs",
    "use by_ratio": "use --split ratio",
    "use leave_k_out": "use --split leave-out",
    "data must have timestamps": "the file must have timestamps",
    "user_items is needed to filter seen items, because this model has no interactions: pass it, "
    "or filter_already_liked_items=False": _NO_SEEN,
    "user_items is needed": "--train is needed",
    "user_items has": "the file has",
    "userid:": "user:",
    "itemid:": "item:",
    "N must": "n must",
    "threshold must": "--at-least must",
    " @ ": "@",
}
"""What the library says, and what to say instead."""

_PATTERNS = {
    re.compile(
        r", or pass Interactions\.from_frame what pandas\.read_csv\(.*?\) reads( \(or .*?\))?"
    ): "",
    re.compile(r"Interactions\.ingest reads: Interactions\.ingest\(.*?\), or"): "is read by",
    re.compile(r"with dataclasses\.replace\(\w+, timestamps=None\)"): "with --no-timestamp",
    re.compile(r"\bat_least\(([^()]+)\)"): r"--at-least \1",
    re.compile(r"; in Python, classes=.*|, or pass classes=\S+ to load"): "",
}
_CALL = re.compile(r"set_params\((.*?)\)")
_GIVEN = re.compile(r"""(?<![\w/.-])(\w+)=('[^']*'|"[^"]*"|[^\s,;:()]*)""")
_COMPOUND = re.compile(r"(?<![\w/.'-])[a-z]+(?:_[a-z]+)+(?![\w/.'=-])")
_SUBJECT = re.compile(r"(?:^|(?<=: ))(\w+)(?= (?:must|has|have|holds|is|contains)\b)")
_ADVICE = re.compile(r"\b(lower|raise|set|without|leave) (\w+)((?: and \w+)?)(?![\w=])")


@dataclass(frozen=True)
class Wording:
    """The words of one command, known from its parser."""

    parser: argparse.ArgumentParser

    def __call__(self, message: str) -> str:
        """The message on one line, in the flags of the command."""
        text = " ".join(message.split())
        for theirs, ours in _PHRASES.items():
            text = text.replace(theirs, ours)
        for pattern, ours in _PATTERNS.items():
            text = pattern.sub(ours, text)
        text = _CALL.sub(r"\1", text)
        text = _GIVEN.sub(self._given, text)
        text = _COMPOUND.sub(lambda found: self._flag(found[0]), text)
        text = _SUBJECT.sub(lambda found: self._flag(found[0]), text)
        return _ADVICE.sub(lambda found: f"{found[1]} {self._flags(found[2] + found[3])}", text)

    def _flags(self, names: str) -> str:
        return " and ".join(map(self._flag, names.split(" and ")))

    def _flag(self, name: str) -> str:
        """The flag of an argument; any other word as it is."""
        return self._actions[name].option_strings[0] if name in self._actions else name

    def _given(self, found: re.Match[str]) -> str:
        """``name=value`` as on the command line."""
        name, value = found.groups()
        if value == "False" and f"no_{name}" in self._actions:
            return self._flag(f"no_{name}")
        if name not in self._actions:
            return found[0]
        action = self._actions[name]
        if value == "None":
            return f"{self._flag(name)} none" if action.type else f"no {self._flag(name)}"
        if isinstance(action, argparse.BooleanOptionalAction):
            return action.option_strings[value == "False"]
        bare = value[1:-1] if re.fullmatch("'.*'|\".*\"", value) else value
        return f"{self._flag(name)} {shlex.quote(bare) if bare else action.metavar}"

    @lazy
    def _actions(self) -> Mapping[str, argparse.Action]:
        """The command's flags by the names of their arguments."""
        flags = [action for action in self.parser._actions if action.option_strings]
        return {action.dest: action for action in reversed(flags)}  # the first of several

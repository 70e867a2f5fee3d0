"""The library's messages in the words of a command: its flags in place of Python's arguments.

The library marks names and expressions in its messages (:mod:`mfrank.errors`): "lower
`factors`", "use `set_params(factors=64)`". Flags have the names of arguments, so these become
"lower --factors", "use --factors 64". Tables have what a shell does otherwise.
"""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from logging import LogRecord

from mfrank.arrays import lazy
from mfrank.errors import InputError, Notice, replaced

_AS_ROWS = "write it as .csv, one interaction a row"
_PHRASES = {
    "pass `Interactions.from_sparse` what `scipy.io.mmread` reads": _AS_ROWS,
    "read it with `Interactions.open`": "pass it by itself to the command that reads it",
    "; `mfrank.movielens` reads MovieLens as distributed": "",
    "`mfrank.movielens` reads MovieLens as distributed": "unpack it and pass its ratings",
    ", or read it with pandas or pyarrow and pass the table to `Interactions.from_frame`": "",
    "pass them to `Interactions.from_arrays`": "name their column with --timestamp",
    "pass labels, or `method=None`": "use --untuned",
    ", or load the factors alone with `mfrank.FactorStore.load`": "",
    "fit to `mfrank.log_weight(data)`, or ": "",
    "import it first; in the shell, by": "pass",
    "save with `keep=3` to keep the last three": "mfrank update --keep 3 keeps the last three",
    "load it again and repeat the change, or pass `overwrite=True`": "run the command again",
    "fit it anew, save it `with_seen=True`, or pass `user_items=Interactions`": "fit it anew",
    "remove from the model that was fitted, or from one saved with `with_seen=True`": "fit anew "
    "without them",
    "Pass them, or": "Pass --train FILE, or",
    "`user_items` is needed to filter seen items, because this model has no interactions: pass it, "
    "or `filter_already_liked_items=False`": "this model was saved without its interactions, which "
    "lists leave out: use --include-seen",
}
"""What the library says, and what to say instead."""

_EXPRESSIONS = {
    "dataclasses.replace(data, seen_only=None)": "--no-keep-seen",
    "mfrank.ALS(mfrank.WRMF(alpha=...))": "mfrank fit --objective wrmf --alpha FLOAT",
    "mfrank.WRMF()": "--objective wrmf",
    "mfrank.IALS(weighted=True)": "--objective ials --weighted",
    "filter_already_liked_items=False": "--include-seen",
    "needs=()": "--needs nothing",
    "mfrank.roll_back(folder)": "mfrank rollback --model FOLDER",
    "by_time": "--split time",
    "by_ratio": "--split ratio",
    "leave_last": "--split leave-last",
    "leave_k_out": "--split leave-out",
}
_NAMES = {"user_items": "train", "N": "n", "userid": "user", "itemid": "item"}
_NAMES |= {"threshold": "at_least", "steer.boosts": "boost"}
"""Arguments whose flags have another name."""

_OTHERWISE = {"user_items": "the file", "data": "the file", "results": "the file", "N": "n"}
_OTHERWISE |= {"userid": "user", "itemid": "item"}
"""What a command says for an argument without a flag."""

_IN_PYTHON = re.compile(r"; in Python, .*")
_CALL = re.compile(r"(?:\w+\.)*(set_params|at_least|partial_fit)\((.*)\)")
_GIVEN = re.compile(r"([\w.]+)=(.*)")


def message_of(event: Exception | Warning | LogRecord | str) -> str:
    """The message of an error, a warning or a log record, with marks where it has some."""
    match event:
        case InputError(marked=text):
            return text
        case LogRecord(msg=Notice(marked=text)):
            return text
        case Warning(args=(Notice(marked=text), *_)):
            return text
        case LogRecord():
            return event.getMessage()
        case _:
            return str(event)


@dataclass(frozen=True)
class Flags:
    """The flags of one command, from its parser."""

    parser: argparse.ArgumentParser

    def __call__(self, message: str) -> str:
        """The message on one line, in the flags of the command."""
        text = " ".join(message.split())
        for theirs, ours in _PHRASES.items():
            text = text.replace(theirs, ours)
        text = _IN_PYTHON.sub("", text)
        return replaced(text, self._of)

    def _of(self, mark: str) -> str:
        """A name, a name with its value, or a call, as on the command line."""
        if mark in _EXPRESSIONS:
            return _EXPRESSIONS[mark]
        if mark.startswith("dataclasses.replace(") and mark.endswith(", timestamps=None)"):
            return "--no-timestamp"
        if call := _CALL.fullmatch(mark):
            name, argument = call.groups()
            if name == "at_least":
                return f"--at-least {'VALUE' if argument == 'threshold' else argument}"
            return "mfrank update " * (name == "partial_fit") + self._of(argument)
        if given := _GIVEN.fullmatch(mark):
            return self._given(*given.groups())
        flag = self._actions.get(mark) or self._actions.get(_NAMES.get(mark, mark))
        if flag is not None:
            return flag.option_strings[0]
        return _OTHERWISE.get(mark, mark.removeprefix("mfrank.").replace(" @ ", "@"))

    def _given(self, name: str, value: str) -> str:
        if value == "False" and f"no_{name}" in self._actions:
            return self._of(f"no_{name}")
        if name not in self._actions:
            return f"{name}={value}"
        action = self._actions[name]
        if name == "where":
            pairs = ast.literal_eval(value).items()
            each = (f"{c}={v}" for c, of in pairs for v in (of if isinstance(of, list) else [of]))
            return " ".join(f"{self._of(name)} {shlex.quote(one)}" for one in each)
        if value.startswith("{"):  # such as the weights of events
            weights = ast.literal_eval(value).items()
            each = (f"{kind}={'none' if number is None else number}" for kind, number in weights)
            return f"{self._of(name)} {shlex.quote(','.join(each))}"
        if value == "None":
            return f"{self._of(name)} none" if action.type else f"no {self._of(name)}"
        if isinstance(action, argparse.BooleanOptionalAction):
            return action.option_strings[value == "False"]
        bare = value[1:-1] if re.fullmatch("'.*'|\".*\"", value) else value
        text = shlex.quote(bare) if bare not in ("", "...") else action.metavar
        return f"{self._of(name)} {text}" if text else self._of(name)

    @lazy
    def _actions(self) -> Mapping[str, argparse.Action]:
        """The command's flags by the names of their arguments."""
        flags = [action for action in self.parser._actions if action.option_strings]
        return {action.dest: action for action in reversed(flags)}  # the first of several

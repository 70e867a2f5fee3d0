"""Changes the package in one place at a time, and runs a folder's tests on every change.

``python tests/robustness/python_mutants.py steering`` makes every change of ``python_changes.py``
in ``mfrank/steering``, and says which of them no test saw: those need a test, or a reason why
nobody could see them. A single file may be named as well (``data/times.py``); ``--only FILE:LINE``
tries the changes of a line again, and ``--again FILE --tests ...`` those that survived a run whose
output is in the file, with other tests.

It is fast because nothing is started anew: pytest collects the tests once and runs each, to learn
which lines it covers. Then every change is made in a forked copy of that process, by exchanging the
code of a function that is already imported, and there the tests that cover the line run until one
fails. So are constants and defaults of dataclasses, with the tests of the lines that name them.
Where none fails, and of all else that runs while a module is imported, the change is made in a fork
that has not imported the package yet. A process that a test starts does not see the change, and
neither does what a test file made while it was collected. Of a function that keeps its result, only
the first test runs the lines.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import importlib.util
import os
import pickle
import random
import re
import resource
import shutil
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from types import CodeType, FunctionType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from python_changes import ROOT, Change, changes, tree_of
from python_constants import exchange_constant, lines_that_name

# Whose tests see the changes of a folder; others have a folder of tests of their own.
TESTS = {
    **dict.fromkeys(
        ("__init__.py", "__main__.py", "_lazy.py", "_version.py"), ("test_public_names.py",)
    ),
    "als": (
        *("als", "models/test_als_checkpoints.py", "models/test_closed_form.py"),
        *("models/test_daily_deltas.py", "models/test_durations.py", "models/test_explain.py"),
        *("models/test_models.py", "models/test_n_threads.py", "models/test_parameters.py"),
        *("models/test_side_features.py", "robustness/test_two_sets_of_ids.py"),
    ),
    "arrays": (
        *("arrays", "backends/test_given_on_gpu.py", "models/test_progress.py"),
        *("models/test_writers.py", "robustness/test_damaged_matrices.py"),
        *(
            "robustness/test_large_amounts.py::test_control_groups",
            "robustness/test_pandas_labels.py",
        ),
    ),
    "backends/cuda": (  # cupy_device.py is seen only where CuPy can be imported
        *("backends/test_cuda.py", "backends/test_cuda_descent.py"),
        *("backends/test_cuda_devices.py", "backends/test_cuda_launches.py"),
        *("backends/test_cuda_memory.py", "backends/test_cuda_plan.py"),
        *("backends/test_cuda_sketches.py", "backends/test_cuda_tables.py"),
        *("backends/test_cuda_walks.py", "backends/test_cupy_device.py"),
        *("backends/test_gathers.py", "backends/test_given_on_gpu.py"),
        *("backends/test_backend_contract.py", "backends/test_surfaces.py"),
    ),
    "backends/sharded": (
        *("cluster/test_blocks.py", "cluster/test_connecting.py", "cluster/test_fits.py"),
        *("cluster/test_half_steps.py", "cluster/test_spoiled_results.py"),
        "cluster/test_cluster_bench.py::test_relayed_is_told_with_the_memory_that_a_fit_wants_for_it",
        "cluster/test_popular_items.py::test_the_bits_are_those_of_one_process",
    ),
    "cli": (  # without the files of tests that start processes
        *("cli/test_cli.py", "cli/test_cli_descend.py", "cli/test_cli_hold_out.py"),
        *("cli/test_cli_info.py", "cli/test_cli_ingest.py", "cli/test_cli_only_seen.py"),
        *("cli/test_cli_recommend_all.py", "cli/test_cli_tune.py", "cli/test_demo.py"),
        *("cli/test_dispatch.py", "cli/test_flags.py", "cli/test_inputs.py", "cli/test_life.py"),
        *("cli/test_lines.py", "cli/test_lists.py", "cli/test_passed_on.py"),
        *("cli/test_passed_outward.py", "cli/test_printing.py", "cli/test_remedies.py"),
        "cli/test_at_once.py::test_of_two_changes_one_waits",
        "cli/test_ends.py::test_a_service_ends_soon_after_ctrl_c",
        *("models/test_page_rank_fits.py", "models/test_page_rank_model.py", "plots/test_plots.py"),
    ),
    "cluster": (
        *("cluster/test_connecting.py", "cluster/test_dask.py", "cluster/test_evaluations.py"),
        *("cluster/test_processes.py", "cluster/test_spoiled_results.py", "cluster/test_worker.py"),
    ),
    "comparison": (
        *("comparison", "evaluation/test_cold.py", "evaluation/test_shown_results.py"),
        "models/test_value_checks.py",
    ),
    "data": (
        *("data", "arrays/test_interop.py", "evaluation/test_groups.py"),
        *("models/test_feature_tables.py", "models/test_table_ids.py", "models/test_thresholds.py"),
        *("robustness/test_pandas_labels.py", "robustness/test_two_sets_of_ids.py"),
        "test_stated_defaults.py",
    ),
    "descent": (
        *("descent", "cluster/test_descents.py", "losses/test_graded_losses.py"),
        *("models/test_descent_checkpoints.py", "models/test_descent_model.py"),
        *("models/test_linear_ranker.py", "models/test_parameters.py"),
        "test_stated_defaults.py",
    ),
    "evaluation": (
        *("evaluation", "cluster/test_evaluations.py", "cluster/test_spoiled_results.py"),
        *("data/test_judged.py", "robustness/test_pandas_labels.py"),
        *("robustness/test_two_sets_of_ids.py", "steering"),
    ),
    "files": ("files", "cluster/test_blocks.py", "models/test_changed_folders.py"),
    "losses": ("losses", "descent/test_descent.py", "models/test_parameters.py"),
    "models": (
        *("models", "als/test_biases.py", "als/test_starts.py", "backends/test_guests.py"),
        *("data/test_times.py", "evaluation/test_stopping.py", "retrieval/test_nobody.py"),
        "robustness/test_pandas_labels.py",
    ),
    "pagerank": (
        *("pagerank", "cluster/test_connecting.py", "cluster/test_walks_on_workers.py"),
        *("models/test_page_rank_fits.py", "models/test_page_rank_model.py"),
        "robustness/test_pandas_labels.py",
    ),
    "retrieval": (
        *("retrieval", "backends/test_given_on_gpu.py", "cli/test_cli_recommend_all.py"),
        *("models/test_implicit_defects.py", "models/test_item_weights.py"),
        *("models/test_n_threads.py", "models/test_removal.py", "models/test_similar_to_new.py"),
        *("robustness/test_pandas_labels.py", "steering"),
    ),
    "serving": (  # all that start no process
        *("serving/test_answers.py", "serving/test_api.py", "serving/test_application.py"),
        *("serving/test_connection_steps.py", "serving/test_connections.py"),
        *("serving/test_guards.py", "serving/test_http.py", "serving/test_limits.py"),
        *("serving/test_queries.py", "serving/test_refusals.py", "serving/test_reload.py"),
        *("serving/test_signals.py", "serving/test_together.py", "serving/test_work.py"),
        "test_stated_defaults.py",
    ),
    "steering": ("steering", "robustness/test_pandas_labels.py", "serving/test_work.py"),
    "store": (
        *("store", "steering", "retrieval/test_nobody.py", "evaluation/test_cold.py"),
        *(
            "files/test_archive.py",
            "models/test_changed_folders.py",
            "models/test_feature_tables.py",
        ),
        *("models/test_own_losses.py", "models/test_removal.py", "models/test_saving.py"),
        *(
            "models/test_shown.py",
            "models/test_side_features.py",
            "robustness/test_pandas_labels.py",
        ),
    ),
    "tuning": (
        *("tuning", "cli/test_cli_tune.py", "comparison/test_tuned.py"),
        "models/test_value_checks.py",
    ),
}
SIGNATURES = "tests/test_stated_defaults.py"
OPTIONS = ("-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header")
SECONDS = 120  # in which a change must be decided that waits for something
BUSY = 4  # times what a change may compute, which it has, too: others use the machine
UNREACHABLE, TO_IMPORT = 3, 4
LEFT = ("survived", "uncovered", "unreachable")


@dataclass
class Coverage:
    """Which tests run which lines, and for how many seconds.

    What a file's tests prepare together counts for all of them.
    """

    calls: dict[int, set[tuple[str, int]]] = field(default_factory=lambda: defaultdict(set))
    prepared: dict[str, set[tuple[str, int]]] = field(default_factory=lambda: defaultdict(set))
    seconds: dict[int, float] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)

    def tests(self, change: Change) -> list[int]:
        """The tests that run a change's lines: the quickest first, file by file."""
        lines = {(str(change.path), line) for line in change.lines}
        if change.where == "module":
            lines |= {(str(change.path), line) for line in lines_that_name(change)}
        within = {test for test, seen in self.calls.items() if not seen.isdisjoint(lines)}
        around = {file for file, seen in self.prepared.items() if not seen.isdisjoint(lines)}
        quickest: dict[str, float] = defaultdict(lambda: float("inf"))
        for test in within:
            quickest[self.files[test]] = min(quickest[self.files[test]], self.seconds[test])
        chosen = within | {test for test, file in enumerate(self.files) if file in around}
        if change.where != "body":  # read without a call
            chosen |= {test for test, file in enumerate(self.files) if file.endswith(SIGNATURES)}

        def order(test: int) -> tuple[float, str, bool, float]:
            file = self.files[test]
            return quickest[file], file, test not in within, self.seconds[test]

        return sorted(chosen - {*self.failed}, key=order)

    def files_of(self, change: Change) -> list[str]:
        """The files whose tests run anything of the changed file."""
        path = str(change.path)
        seen = {self.files[test] for test, lines in self.calls.items() if _has(lines, path)}
        seen |= {file for file, lines in self.prepared.items() if _has(lines, path)}
        signatures = {file for file in self.files if file.endswith(SIGNATURES)}  # of dataclasses
        return sorted((seen or {*self.files}) | signatures)


def _has(lines: set[tuple[str, int]], path: str) -> bool:
    return any(file == path for file, _ in lines)


class Profile:
    """Hypothesis draws the same examples every time, and does not search for the simplest."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        from hypothesis import HealthCheck, Phase, settings

        settings.register_profile(
            "mutants",
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        settings.load_profile("mutants")


class Session(Profile):
    """A session of pytest that has collected the tests, and is forked for every change."""

    def __init__(self, drawn: list[Change], processes: int, result: Path) -> None:
        self.drawn, self.processes, self.result = drawn, processes, result
        self.seen, self.now = Coverage(), set[tuple[str, int]]()
        self.functions: dict[str, list[FunctionType]] = defaultdict(list)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        if session.testsfailed:
            raise SystemExit("the tests cannot be collected")
        self.items = session.items
        self.seen = self.covered()
        for name in self.seen.modules:
            with suppress(Exception):
                importlib.import_module(name)
        for one in gc.get_objects():
            if isinstance(one, FunctionType):
                self.functions[one.__code__.co_filename].append(one)
        for test in self.seen.failed:
            print(f"left out, for it fails without any change: {self.items[test].nodeid}")
        total = sum(self.seen.seconds.values())
        print(
            f"mutants: {len(self.items)} tests, {total:.0f} s with their lines traced", flush=True
        )
        self.result.write_bytes(pickle.dumps((self.seen, tried(self.work(), self.processes))))
        return True

    def work(self) -> Iterator[Work]:
        for change in self.drawn:
            tests = self.seen.tests(change)
            seconds = 5 + 3 * sum(self.seen.seconds[test] for test in tests)
            uncovered = not tests and change.where != "module"
            yield Work(change, lambda c=change, t=tests: self.outcome(c, t), seconds, uncovered)

    def outcome(self, change: Change, tests: list[int]) -> int:
        """In a fork: run the tests on the change until one fails."""
        at_import = change.where == "module"
        if not (exchange_constant(change) if at_import else self.changed(change)):
            return TO_IMPORT if at_import else UNREACHABLE
        items = [self.items[test] for test in tests]
        for item, following in zip(items, [*items[1:], None], strict=False):  # none may see it
            if any(one.failed for one in runtestprotocol(item, log=False, nextitem=following)):
                Path(os.environ["TMPDIR"], "killer").write_text(item.nodeid)
                return 1
        return TO_IMPORT if at_import else 0

    def changed(self, change: Change) -> bool:
        functions, path = self.functions[str(change.path)], str(change.path)
        old, new = tree_of(change.path), change.applied()
        if change.where == "default":
            return _exchanged_defaults(old, new, functions)
        pairs = _differing(compile(old, path, "exec"), compile(new, path, "exec"))
        exchanged = 0
        for function in functions:
            for before, after in pairs:
                if function.__code__ == before:
                    with suppress(ValueError):  # other variables of the function around it
                        function.__code__ = after
                        exchanged += 1
        return exchanged > 0

    def covered(self) -> Coverage:
        """Run every test in a fork, and learn its lines."""
        with TemporaryDirectory() as folder:
            path = Path(folder, "coverage")
            child = os.fork()
            if not child:
                with suppress(BaseException):
                    _quiet(Path(folder))
                    self.trace()
                    path.write_bytes(pickle.dumps(self.seen))
                os._exit(0)
            os.waitpid(child, 0)
            return pickle.loads(path.read_bytes())

    def trace(self) -> None:
        self.seen = Coverage(files=[str(item.path) for item in self.items])
        watched = {str(change.path) for change in self.drawn}

        def within(frame: Any, event: str, given: Any) -> Any:
            if event == "line":
                self.now.add((frame.f_code.co_filename, frame.f_lineno))
            return within

        def enters(frame: Any, event: str, given: Any) -> Any:
            code = frame.f_code
            if code.co_filename not in watched:
                return None
            self.now.add((code.co_filename, code.co_firstlineno))
            self.now.add((code.co_filename, frame.f_lineno))
            return within

        for number, item in enumerate(self.items):
            self.number, began = number, time.process_time()
            following = self.items[number + 1] if number + 1 < len(self.items) else None
            threading.settrace(enters)
            sys.settrace(enters)
            reports = runtestprotocol(item, log=False, nextitem=following)
            sys.settrace(None)
            self.seen.seconds[number] = time.process_time() - began
            if any(one.failed for one in reports):
                self.seen.failed.append(number)
        kept = ("tests", "conftest", "__main__", "_pytest", "test_")
        self.seen.modules = [name for name in sys.modules if not name.startswith(kept)]
        self.seen.calls, self.seen.prepared = dict(self.seen.calls), dict(self.seen.prepared)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: Any) -> None:
        self.now = self.seen.prepared.setdefault(str(item.path), set())

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: Any) -> None:
        self.now = self.seen.calls.setdefault(getattr(self, "number", 0), set())

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: Any) -> None:
        self.now = self.seen.prepared.setdefault(str(item.path), set())


def _differing(old: CodeType, new: CodeType) -> list[tuple[CodeType, CodeType]]:
    """The functions' codes that a change makes others."""

    def codes(of: CodeType) -> dict[tuple[str, int, int], CodeType]:
        found: dict[tuple[str, int, int], CodeType] = {}
        left, times = [of], Counter[tuple[str, int]]()
        while left:
            code = left.pop()
            name = (code.co_qualname, code.co_firstlineno)
            found[*name, times[name]] = code
            times[name] += 1
            left += [one for one in code.co_consts if isinstance(one, CodeType)]
        return found

    after = codes(new)
    pairs = ((code, after[name]) for name, code in codes(old).items() if name in after)
    return [(one, other) for one, other in pairs if one != other]


def _exchanged_defaults(old: ast.Module, new: ast.Module, functions: list[FunctionType]) -> bool:
    exchanged = False
    for before, after in zip(ast.walk(old), ast.walk(new), strict=False):
        if not isinstance(after, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = min(one.lineno for one in (after, *after.decorator_list))
        own = [
            f for f in functions if f.__code__.co_firstlineno == first and f.__name__ == after.name
        ]
        was, now = before.args, after.args
        for function in own:
            values = list(function.__defaults__ or ())
            for at, (one, other) in enumerate(zip(was.defaults, now.defaults, strict=True)):
                if ast.dump(one) != ast.dump(other):
                    values[at] = _value(other, function)
                    function.__defaults__, exchanged = tuple(values), True
            named = zip(now.kwonlyargs, was.kw_defaults, now.kw_defaults, strict=True)
            for argument, one, other in named:
                if one and other and ast.dump(one) != ast.dump(other):
                    values = {
                        **(function.__kwdefaults__ or {}),
                        argument.arg: _value(other, function),
                    }
                    function.__kwdefaults__, exchanged = values, True
    return exchanged


def _value(node: ast.expr, function: FunctionType) -> Any:
    return eval(compile(ast.Expression(node), "default", "eval"), function.__globals__)


class Changed(SourceFileLoader):
    """Imports one module with a change, as a finder before all others."""

    def __init__(self, change: Change) -> None:
        parts = change.path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        super().__init__(name, str(change.path))
        self.change = change

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def get_code(self, name: str) -> CodeType:
        return compile(self.change.applied(), self.path, "exec")


def imported_anew(change: Change, tests: list[str]) -> int:
    """In a fork that has not imported the package: run tests with the change."""
    sys.meta_path.insert(0, Changed(change))
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # one that is imported already ends the run
    shown = ("-W", "ignore:It looks like `register_random`")  # numpy has been imported before
    code = pytest.main([*OPTIONS, *shown, "-x", *tests], plugins=[Profile()])
    if code:
        Path(os.environ["TMPDIR"], "killer").write_text("a test, or an import")
    return int(code != 0)


@dataclass
class Work:
    """A change, what decides about it in a fork, and how many seconds it may compute."""

    change: Change
    decide: Callable[[], int]
    seconds: float
    uncovered: bool = False


def _quiet(folder: Path) -> None:
    """In a fork: write to no terminal, and keep all files in the folder, default paths too."""
    for number in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    os.environ["TMPDIR"] = str(folder)
    sys.modules["tempfile"].tempdir = None
    os.chdir(folder)


def _begun(work: Work, folder: Path) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.setsid()
        _quiet(folder)
        seconds = int(work.seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        code = work.decide()
    finally:
        os._exit(code)


def tried(works: Iterator[Work], processes: int) -> list[tuple[Change, str]]:
    """Decide about every change, some at once, and print what became of it."""
    gc.freeze()
    running: dict[int, tuple[Work, Path, float]] = {}
    found: list[tuple[Change, str]] = []

    def ended(change: Change, outcome: str, by: str = "") -> None:
        found.append((change, outcome))
        print(f"{outcome}: {change}{by}", flush=True)

    def wait_for_one() -> None:
        child, status = os.waitpid(-1, os.WNOHANG)
        for late in [pid for pid, (*_, until) in running.items() if time.monotonic() > until]:
            with suppress(ProcessLookupError):
                os.kill(late, signal.SIGKILL)
        if child not in running:
            time.sleep(0.005)
            return
        work, folder, _ = running.pop(child)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # what its tests started
        killer = folder / "killer"
        by = f" | by {killer.read_text()}" if killer.exists() else ""
        shutil.rmtree(folder, ignore_errors=True)
        ended(work.change, _outcome(status), by)

    for work in works:
        if work.uncovered:
            ended(work.change, "uncovered")
            continue
        while len(running) >= processes:
            wait_for_one()
        folder = Path(mkdtemp(prefix="mutant-"))
        until = time.monotonic() + SECONDS + BUSY * work.seconds
        running[_begun(work, folder)] = (work, folder, until)
    while running:
        wait_for_one()
    return found


def _outcome(status: int) -> str:
    if os.WIFSIGNALED(status):
        late = os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGXCPU)
        return "too long" if late else "killed"
    code = os.waitstatus_to_exitcode(status)
    names = {0: "survived", UNREACHABLE: "unreachable", TO_IMPORT: "to be imported"}
    return names.get(code, "killed")


def paths_of(name: str) -> list[Path]:
    path = ROOT / "mfrank" / name
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", help="folders or files of mfrank/")
    parser.add_argument("--number", type=int, help="of changes to draw; all by default")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--imported", action="store_true", help="only what an import runs")
    parser.add_argument("--only", help="FILE:LINE, or the begin of what was printed of a change")
    parser.add_argument("--again", help="a file of what was printed: those that survived there")
    parser.add_argument("--tests", nargs="+", help="files or folders of tests/, in place of TESTS")
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    os.chdir(ROOT)
    os.environ |= {"CI": "true", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(ROOT / ".hypothesis")  # of forks elsewhere
    drawn = [change for name in asked.names for path in paths_of(name) for change in changes(path)]
    if asked.imported:
        drawn = [one for one in drawn if one.where == "module"]
    if asked.only:
        drawn = [one for one in drawn if asked.only in str(one)]
    if asked.again:
        said = [line.split(": ", 1) for line in Path(asked.again).read_text().splitlines()]
        left = {_unplaced(rest[0]) for outcome, *rest in said if outcome in LEFT}
        drawn = [one for one in drawn if _unplaced(str(one)) in left]
    if asked.number:
        drawn = random.Random(asked.seed).sample(drawn, min(asked.number, len(drawn)))
    folders = [name if name in TESTS else name.split("/")[0] for name in asked.names]
    tests = asked.tests or [
        test for name in dict.fromkeys(folders) for test in TESTS.get(name, (name,))
    ]
    print(f"mutants: {len(drawn)} changes", flush=True)
    found = decided(drawn, [f"tests/{name}" for name in tests], asked.processes)
    for path in dict.fromkeys(change.path for change in drawn):
        counts = Counter(outcome for change, outcome in found if change.path == path)
        print(f"{path.relative_to(ROOT)}: {dict(counts)}")
    print(f"mutants: {dict(Counter(outcome for _, outcome in found))}")


def _unplaced(change: str) -> str:
    """A change without its line and column: those of an older output may have moved."""
    return re.sub(r":\d+:\d+ ", " ", change, count=1)


def decided(drawn: list[Change], tests: list[str], processes: int) -> list[tuple[Change, str]]:
    with TemporaryDirectory() as folder:
        result = Path(folder, "result")
        child = os.fork()
        if not child:  # this process must stay one that has not imported the package
            pytest.main([*OPTIONS, *tests], plugins=[Session(drawn, processes, result)])
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)
        seen, found = pickle.loads(result.read_bytes())
    own = ("mfrank", "hypothesis", "_hypothesis", "pytest", "xdist")
    for name in seen.modules:
        if not name.startswith(own):
            with suppress(Exception):
                importlib.import_module(name)
    seconds = 60 + 3 * sum(seen.seconds.values())
    works = (
        Work(change, lambda c=change: imported_anew(c, seen.files_of(c)), seconds)
        for change, outcome in found
        if outcome == "to be imported"
    )
    before = [(change, outcome) for change, outcome in found if outcome != "to be imported"]
    return before + tried(works, processes)


if __name__ == "__main__":
    main()

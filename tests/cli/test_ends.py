"""How a command ends when it is stopped, or when nobody reads it any more: quietly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import children
import pytest

import mfrank
from mfrank.cli.main import is_ctrl_c, main

CTRL_C_AT_IMPORT = """
import signal, sys
class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, CtrlC())
from mfrank.cli.main import main
sys.exit(main(["info"]))
"""


@pytest.mark.parametrize("module", ["numpy", "mfrank.cli.dispatch", "mfrank.models.als"])
def test_ctrl_c_while_importing_is_one_line(module: str) -> None:
    done = children.run(CTRL_C_AT_IMPORT.format(module=module))
    # Python itself may end with the signal, which a shell also shows as 130.
    assert done.returncode in (130, -signal.SIGINT)
    assert (done.stdout, done.stderr) == ("", "mfrank: stopped by Ctrl-C\n")


def test_the_import_error_of_an_interrupted_import_is_ctrl_c() -> None:
    with pytest.raises(ImportError) as failed:
        raise ImportError("initialization failed") from KeyboardInterrupt()
    assert is_ctrl_c(failed.value)
    assert not is_ctrl_c(ModuleNotFoundError("no pandas"))
    while_stopping = OSError("disk full")
    while_stopping.__context__ = KeyboardInterrupt()
    assert not is_ctrl_c(while_stopping)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PermissionError(13, "Permission denied", "m/x"), "m/x: Permission denied"),
        (MemoryError("too much"), "too much"),
        (MemoryError(), "MemoryError"),
        (ModuleNotFoundError("pip install mfrank[parquet]"), "pip install mfrank[parquet]"),
    ],
)
def test_failures_that_explain_themselves_are_told_as_they_are(
    error: Exception, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(mfrank.Interactions, "from_file", failing)
    assert main(["fit", "ratings.csv", "--model", "m"]) == 1
    assert capsys.readouterr().err == f"mfrank: error: {told}\n"


def test_ctrl_c_while_reading_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(mfrank.Interactions, "from_file", interrupted)
    assert main(["fit", "ratings.csv", "--model", "m"]) == 130
    assert capsys.readouterr().err == "mfrank: stopped by Ctrl-C\n"


@pytest.mark.parametrize("both", [False, True], ids=["stdout", "stdout and stderr"])
@pytest.mark.parametrize("line", [["fit", "--help"], ["info"]], ids=" ".join)
def test_nobody_reading_it_ends_it_quietly(line: list[str], both: bool) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "mfrank", *line],
        stdout=writing,
        stderr=writing if both else subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(mfrank.__file__).parents[1])},
        check=False,
    )
    os.close(writing)
    assert done.returncode == 141 or "--help" in line  # argparse itself ignores a closed pipe
    assert not done.stderr


def test_a_service_ends_soon_after_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGHUP)
    while_loading, codes = list[object](), list[int]()

    def app(*_: object, **__: object) -> None:
        while_loading.append(signal.getsignal(signal.SIGHUP))

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mfrank.serving.app", app)
    monkeypatch.setattr("mfrank.serving.run", stopped)
    monkeypatch.setattr("mfrank.cli.commands.serve.end_soon", codes.append)
    assert main(["serve", "nowhere"]) == 2
    assert "there is no model nowhere; make it with mfrank fit" in capsys.readouterr().err
    assert while_loading == []
    mfrank.ALS(factors=2, iterations=1).fit(mfrank.synthetic(9, 6, 30, random_state=0)).save("m")
    assert main(["serve", "m"]) == 130
    assert codes == [130]
    assert while_loading[0] not in (before, signal.SIG_DFL)
    assert signal.getsignal(signal.SIGHUP) == before

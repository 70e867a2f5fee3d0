"""Losses of one's own: fitted, saved, and loaded by their import path."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from children import run
from loss_lists import derivative, whole_lists
from own_hinge import OwnHinge

import mfrank
from mfrank.cli.main import main
from mfrank.losses import Loss, Sizes
from mfrank.store import IMPORTED
from tests.support.errors import refuses

DATA = mfrank.synthetic(60, 40, 900, random_state=0)


def made(loss: Loss) -> mfrank.Descent:
    return mfrank.Descent(loss, factors=6, iterations=3, random_state=0).fit(DATA)


def test_its_gradients_are_derivatives() -> None:
    lists, positives, negatives = whole_lists()
    loss = OwnHinge(0.7)

    def value(positives: Any, negatives: Any) -> float:
        return float(loss.gradients(lists, positives, negatives, {}).loss.sum())

    found = loss.gradients(lists, positives, negatives, loss.memory(Sizes(1, 1, 1)))
    np.testing.assert_allclose(
        found.positives, derivative(lambda h: value(h, negatives), positives), atol=1e-6
    )
    np.testing.assert_allclose(
        found.negatives, derivative(lambda h: value(positives, h), negatives), atol=1e-6
    )


def test_it_is_fitted_saved_and_loaded(tmp_path: Path) -> None:
    model = made(OwnHinge(margin=0.5))
    losses = [record["objective"] for record in model.store.history]
    assert losses[-1] < losses[0]
    model.save(tmp_path / "model")
    loaded = mfrank.load(tmp_path / "model")
    assert isinstance(loaded, mfrank.Descent)
    assert loaded.loss == OwnHinge(margin=0.5)
    np.testing.assert_array_equal(loaded.recommend(range(5))[0], model.recommend(range(5))[0])
    again = loaded.fit(DATA)  # on from the options that were saved
    np.testing.assert_array_equal(again.user_factors, model.user_factors)


def test_a_fit_says_before_it_begins_that_its_model_cannot_be_saved(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    @dataclass(frozen=True)
    class Local(OwnHinge):
        pass

    told = list[int]()
    model = mfrank.Descent(Local(), factors=2, iterations=1, random_state=0)
    model.fit(DATA, callback=lambda *_: told.append(len(caplog.records)))
    (line,) = [record.message for record in caplog.records if "cannot be saved" in record.message]
    assert "Local" in line
    assert told[0] >= 1  # before the first epoch ended
    with refuses(ValueError, "store.save", remedy=r"store\.save saves its factors"):
        model.save(tmp_path / "model")
    caplog.clear()
    made(OwnHinge())
    assert not [record for record in caplog.records if "saved" in record.message]


LOADS = {
    "imported before": "import own_hinge; model = mfrank.load(folder)",
    "given": "from own_hinge import OwnHinge; model = mfrank.load(folder, classes=[OwnHinge])",
    "trusted": "model = mfrank.load(folder, trust=True)",
    "by its own class": "model = mfrank.Descent.load(folder, trust=True)",
}


@pytest.mark.parametrize("way", LOADS)
def test_another_process_finds_it(way: str, tmp_path: Path) -> None:
    made(OwnHinge(margin=0.25)).save(tmp_path / "model")
    told = run(
        f"import mfrank; folder = {str(tmp_path / 'model')!r}; {LOADS[way]}; print(model.loss)"
    )
    assert told.stdout == "OwnHinge(margin=0.25)\n", told.stderr


def rewritten(folder: Path, path: str, margin: str = "1.0") -> Path:
    made(OwnHinge()).save(folder)
    manifest = folder / "manifest.json"
    text = manifest.read_text()
    assert "own_hinge:OwnHinge" in text
    text = text.replace("own_hinge:OwnHinge", path).replace('"margin": 1.0', f'"margin": {margin}')
    manifest.write_text(text)
    json.loads(text)
    return folder


def ways_in(folder: Path) -> dict[str, Any]:
    """Every call that makes a model of a folder."""
    return {
        "load": lambda: mfrank.load(folder),
        "Descent.load": lambda: mfrank.Descent.load(folder),
        "mapped": lambda: mfrank.load(folder, mmap=True),
        "recommend": lambda: main(["recommend", "--model", str(folder), "--user", "1"]),
        "update": lambda: main(["update", str(folder / "none.csv"), "--model", str(folder)]),
        "serve": lambda: main(["serve", str(folder)]),
        "explore": lambda: main(["explore", str(folder)]),
    }


def test_classes_of_whom_nobody_asked_are_those_that_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planted_too.py").write_text("raise SystemExit('this code has run')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with refuses(ValueError, "classes", remedy="import it first"):
        IMPORTED.find("planted_too:Loss", (object,))
    assert "planted_too" not in sys.modules


@pytest.mark.parametrize("way", ways_in(Path()))
def test_no_module_is_imported_because_a_folder_names_it(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither one on the path nor one that comes with the folder."""
    folder = rewritten(tmp_path / "model", "planted:Loss")
    (folder.parent / "planted.py").write_text("raise SystemExit('this code has run')")
    monkeypatch.syspath_prepend(str(tmp_path))
    if way in ("load", "Descent.load", "mapped"):
        with refuses(ValueError, "classes", remedy="import it first"):
            ways_in(folder)[way]()
    else:
        assert ways_in(folder)[way]() == 2
        assert "--import planted" in capsys.readouterr().err
    assert "planted" not in sys.modules


def test_trust_does_not_import_from_the_folder_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = rewritten(tmp_path / "model", "planted:Loss")
    (folder / "planted.py").write_text("raise RuntimeError('this code has run')")
    monkeypatch.syspath_prepend(str(folder))
    with refuses(ValueError, place="model, the options saved with the model", remedy="define it"):
        mfrank.load(folder, trust=True)


@pytest.mark.parametrize(
    "raised", ["SystemExit(1)", "RuntimeError('no')", "OSError()", "ValueError"]
)
def test_whatever_an_import_raises_is_the_cause_of_one_error(
    raised: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = rewritten(tmp_path / "model", "planted:Loss")
    (tmp_path / "planted.py").write_text(f"raise {raised}")
    monkeypatch.syspath_prepend(str(tmp_path))
    with refuses(
        ValueError, place="model, the options saved with the model", remedy="define it"
    ) as told:
        mfrank.load(folder, trust=True)
    causes, error = [], told.value.__cause__
    while error is not None:
        causes.append(type(error).__name__)
        error = error.__cause__
    assert raised.partition("(")[0] in causes


@dataclass(frozen=True)
class Fussy(OwnHinge):
    """A loss whose constructor raises whatever its margin says."""

    def __post_init__(self) -> None:
        if self.margin == 2:
            raise ZeroDivisionError("of its own")
        if self.margin == 3:
            raise SystemExit(3)


@pytest.mark.parametrize("margin", ["2", "3"])
def test_whatever_a_constructor_raises_is_one_error(margin: str, tmp_path: Path) -> None:
    folder = rewritten(tmp_path / "model", f"{__name__}:Fussy", margin)
    with refuses(
        ValueError, place="model, the options saved with the model", remedy="fit it again"
    ):
        mfrank.load(folder)


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        (
            "no_such_module:OwnHinge",
            {"place": "model, the options saved with the model", "remedy": "define it"},
        ),
        (
            "own_hinge:Nothing",
            {"place": "model, the options saved with the model", "remedy": "define it"},
        ),
        (":OwnHinge", {"place": "model, the options saved with the model", "remedy": "define it"}),
        (
            "os:system",
            {"place": "model, the options saved with the model", "remedy": "fit it again"},
        ),
        (
            "pathlib:Path",
            {"place": "model, the options saved with the model", "remedy": "fit it again"},
        ),
        (
            "mfrank.losses:Loss",
            {"place": "model, the options saved with the model", "remedy": "fit it again"},
        ),
    ],
)
def test_what_cannot_be_found_is_told_and_the_factors_are_there(
    tmp_path: Path, path: str, fault: dict[str, str]
) -> None:
    folder = rewritten(tmp_path / "model", path)
    with refuses(ValueError, **fault):
        mfrank.load(folder, trust=True)
    assert mfrank.FactorStore.load(folder).factors == 6


def test_a_class_that_has_moved_is_given(tmp_path: Path) -> None:
    folder = rewritten(tmp_path / "model", "old_module:OwnHinge")
    loaded = mfrank.load(folder, classes=OwnHinge)
    assert isinstance(loaded, mfrank.Descent)
    assert loaded.loss == OwnHinge()
    with refuses(TypeError, "classes"):
        mfrank.load(folder, classes=[OwnHinge()])
    with refuses(TypeError, "trust"):
        mfrank.load(folder, trust="yes")


def test_of_two_classes_of_one_name_the_one_of_the_path_is_taken(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Other(OwnHinge):
        pass

    Other.__qualname__ = "OwnHinge"
    folder = rewritten(tmp_path / "model", "own_hinge:OwnHinge")
    for classes in ([Other, OwnHinge], [OwnHinge, Other]):
        loaded: Any = mfrank.load(folder, classes=classes)
        assert type(loaded.loss) is OwnHinge


def test_a_class_of_a_script_is_not_taken_from_another_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = rewritten(tmp_path / "model", "__main__:Fussy")
    monkeypatch.setattr(sys.modules["__main__"], "Fussy", Fussy, raising=False)
    for trust in (False, True):
        with refuses(ValueError, "classes", remedy="define Fussy"):
            mfrank.load(folder, trust=trust)
    loaded: Any = mfrank.load(folder, classes=[Fussy])
    assert type(loaded.loss) is Fussy


def test_trust_runs_no_package_of_the_folder_on_the_way_to_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = rewritten(tmp_path / "model", "planted.inside:Loss")
    (folder / "planted").mkdir()
    ran = tmp_path / "ran"
    for name in ("__init__", "inside"):
        (folder / "planted" / f"{name}.py").write_text(f"open({str(ran)!r}, 'w')")
    monkeypatch.syspath_prepend(str(folder))
    with refuses(ValueError, place="model, the options saved with the model", remedy="define it"):
        mfrank.load(folder, trust=True)
    assert not ran.exists()
    assert "planted" not in sys.modules


def test_trust_imports_for_a_file_object_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "on_the_path.py").write_text(
        "from dataclasses import dataclass\nimport own_hinge\n"
        "@dataclass(frozen=True)\nclass Loss(own_hinge.OwnHinge):\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with BytesIO() as file:
        made(importlib.import_module("on_the_path").Loss()).save(file)
        monkeypatch.delitem(sys.modules, "on_the_path")
        with refuses(ValueError, "classes", remedy="trust=True"):
            mfrank.load(file)
        assert "on_the_path" not in sys.modules
        loaded: Any = mfrank.load(file, trust=True)
    assert type(loaded.loss) is sys.modules["on_the_path"].Loss


def test_ctrl_c_within_an_import_is_no_error_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = rewritten(tmp_path / "model", "planted:Loss")
    (tmp_path / "planted.py").write_text("raise KeyboardInterrupt")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        mfrank.load(folder, trust=True)


def test_a_class_of_a_script_is_refused_by_save_with_the_remedy(tmp_path: Path) -> None:
    """Another process has another ``__main__``."""
    told = run(
        f"""
import mfrank, own_hinge
from dataclasses import dataclass
@dataclass(frozen=True)
class Mine(own_hinge.OwnHinge):
    pass
model = mfrank.Descent(Mine(), 2, 1).fit(mfrank.synthetic(20, 20, 100, random_state=0))
for made in (model, mfrank.LinearRanker(Mine(), iterations=1).fit(
    mfrank.Judged([[0.0], [1.0]], [0, 1], [0, 0])
)):
    try:
        made.save({str(tmp_path / "model")!r})
    except ValueError as error:
        print("define Mine in a module" in str(error))
"""
    )
    assert told.stdout == "True\nTrue\n", told.stderr
    assert not (tmp_path / "model").exists()


def test_the_command_line_imports_what_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = rewritten(tmp_path / "model", "from_here:OwnHinge")
    (tmp_path / "from_here.py").write_text("from own_hinge import OwnHinge\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    asked = ["recommend", "--model", str(folder), "--user", "1"]
    assert main([*asked, "--import", "from_here"]) == 0
    assert main([*asked, "--import", "nowhere"]) == 2
    assert "--import nowhere: ModuleNotFoundError" in capsys.readouterr().err


def test_a_class_without_its_decorator_is_told_before_the_fit() -> None:
    class Bare(Loss):
        def gradients(self, lists: Any, positives: Any, negatives: Any, memory: Any) -> Any:
            raise AssertionError

    with refuses(TypeError, "loss", remedy=r"put @dataclass\(frozen=True\) above class Bare"):
        mfrank.Descent(Bare())


def test_one_made_within_a_function_fits_and_save_tells_that_load_could_not(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Inner(OwnHinge):
        pass

    model = made(Inner())
    with refuses(ValueError, "store.save", remedy=r"store\.save saves its factors"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    model.store.save(tmp_path / "factors")

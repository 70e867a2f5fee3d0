"""mfrank tune --space: a file of models and options, and what is refused of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mfrank
from mfrank.cli.commands.tune import space_in
from mfrank.cli.main import main
from mfrank.tuning import Runner


@pytest.fixture
def file(tmp_path: Path) -> Path:
    data = mfrank.synthetic(60, 40, 900, random_state=2)
    pairs = zip(data.entry_users.tolist(), data.user_items.indices.tolist(), strict=True)
    path = tmp_path / "likes.csv"
    path.write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in pairs))
    return path


def written(folder: Path, content: Any) -> Path:
    path = folder / "space.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_file_is_the_argument_of_python(tmp_path: Path) -> None:
    given = [
        {
            "model": "als",
            "objective": "ials:nu=0.5",
            "iterations": 3,
            "factors": [4, 8],
            "objective__regularization": {"from": 0.01, "to": 1},
        },
        {"model": "Descent", "loss": ["bpr", "sampledsoftmax"]},
        {"model": "ease", "candidates": [None, 5]},
        {"model": "nextitem", "decays": [[1.0], [1.0, 10.0]]},
    ]
    (als, of_als), (descent, of_descent), (ease, of_ease), (_, of_next) = space_in(
        str(written(tmp_path, given))
    ).items()
    assert (type(als), als.objective.nu, als.iterations) == (mfrank.ALS, 0.5, 3)
    assert isinstance(als.objective, mfrank.IALS)
    assert of_als == {"factors": [4, 8], "objective__regularization": (0.01, 1)}
    assert type(descent) is mfrank.Descent
    assert [type(loss) for loss in of_descent["loss"]] == [mfrank.BPR, mfrank.SampledSoftmax]
    assert type(ease) is mfrank.EASE
    assert of_ease == {"candidates": [None, 5]}
    assert of_next == {"decays": [(1.0,), (1.0, 10.0)]}


def test_the_command_searches_the_file_alone(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space = written(tmp_path, [{"model": "ease", "regularization": [3, 30, 300]}])
    model = tmp_path / "model"
    line = ["tune", str(file), "--model", str(model), "--space", str(space), "--trials", "9"]
    assert main(line) == 0
    assert "all 3 combinations of the space were tried" in capsys.readouterr().out
    assert isinstance(mfrank.load(model), mfrank.EASE)


REFUSED: dict[str, tuple[Any, str]] = {
    "no JSON": ("{", "is no JSON"),
    "no text": ("[" * 100_000, "is no JSON"),
    "an object": ({"model": "ease"}, "must have a list of models"),
    "no models": ([], "must have a list of models"),
    "no name": ([{"regularization": [1]}], "model 1 has no name"),
    "a text": (["ease"], "model 1 has no name"),
    "another model": ([{"model": "ease"}, {"model": "tree"}], "model 2 is 'tree': use one of als"),
    "a number": ([{"model": 3}], "model 1 is 3"),
    "an unknown option": ([{"model": "ease", "ridge": [1]}], "EASE has no option 'ridge'"),
    "an unknown fixed option": ([{"model": "ease", "ridge": 1}], "unknown parameter 'ridge'"),
    "a refused value": ([{"model": "ease", "regularization": [-1]}], "regularization=-1"),
    "a refused fixed value": ([{"model": "ease", "regularization": -1}], "model 1: regularization"),
    "half a range": (
        [{"model": "ease", "regularization": {"from": 1}}],
        '{"from": 10, "to": 5000}',
    ),
    "a reversed range": (
        [{"model": "ease", "regularization": {"from": 9, "to": 1}}],
        "must begin below its end",
    ),
    "another objective": ([{"model": "als", "objective": "best"}], "unknown objective 'best'"),
    "another loss": ([{"model": "descent", "loss": ["bpr:x=1"]}], "no option 'x'"),
    "a name twice": ('[{"model": "ease", "model": "als"}]', "'model' is there twice"),
    "NaN": ('[{"model": "ease", "regularization": [NaN]}]', "NaN is no number"),
    "a model twice": ([{"model": "ease"}, {"model": "ease"}], "twice with the same options"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_files_are_told_in_a_line_that_names_the_flag(
    case: str,
    file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Runner, "run", lambda *_: pytest.fail("a trial was run"))
    content, message = REFUSED[case]
    space, model = written(tmp_path, content), tmp_path / "model"
    assert main(["tune", str(file), "--model", str(model), "--space", str(space)]) == 2
    error = capsys.readouterr().err
    assert "--space" in error
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not model.exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--space", "nowhere.json"], "--space: nowhere.json is no file"),
        (["--space", "."], "--space: . is no file"),
        (["--space", "space.json", "--factors", "8"], "--factors does not go with --space"),
        (["--space", "space.json", "--refit", "model"], "so --space has no effect"),
    ],
)
def test_other_flags_and_files_that_are_not_there(
    options: list[str],
    told: str,
    file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, [{"model": "ease"}])
    assert main(["tune", str(file), "--model", "new", *options]) != 0
    error = capsys.readouterr().err
    assert told in error
    assert len(error.strip().splitlines()) == 1

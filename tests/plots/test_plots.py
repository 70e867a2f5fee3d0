"""Pictures show the numbers that they were given: what is drawn is read back from the Axes."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from children import run
from pictures import BOARD, intervals, legend, lines, trial

import mfrank
from mfrank.cli.main import main
from mfrank.evaluation import Evaluation

pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install mfrank[plot]")

from mfrank import plots
from tests.support.errors import refuses

# --- convergence


@pytest.mark.parametrize("value", ["valid", "objective"])
def test_convergence_shows_every_epoch_of_every_fit(models: dict[str, Any], value: Any) -> None:
    histories = {name: model.store.history for name, model in models.items()}
    axes = plots.convergence(histories, by="epochs", value=value)
    drawn = lines(axes)
    assert list(drawn) == legend(axes) == ["RG2", "WRMF"]
    for name, model in models.items():
        epochs, values = drawn[name]
        assert list(epochs) == [epoch["epoch"] for epoch in model.store.history]
        assert list(values) == [epoch[value] for epoch in model.store.history]
    assert axes.get_xlabel() == "epochs"


def test_different_objectives_are_drawn_above_their_least(models: dict[str, Any]) -> None:
    drawn = lines(axes := plots.convergence(models, by="epochs", value="objective"))
    for name, model in models.items():
        values = np.array([epoch["objective"] for epoch in model.store.history])
        above = (values - values.min()) / (values[0] - values.min())
        np.testing.assert_allclose(drawn[name][1], np.where(above > 0, above, np.nan))
    assert (axes.get_yscale(), axes.get_ylabel()) == (
        "log",
        "objective above its least (first epoch = 1)",
    )
    alike = plots.convergence({"a": models["RG2"], "b": models["RG2"]}, value="objective")
    assert (alike.get_yscale(), alike.get_ylabel()) == ("linear", "objective")
    assert plots.convergence(models).get_yscale() == "linear"  # a metric has one scale for all


def test_seconds_add_up(models: dict[str, Any]) -> None:
    axes = plots.convergence(models["RG2"])
    (seconds, _), *_ = (line.get_data() for line in axes.get_lines())
    history = models["RG2"].store.history
    np.testing.assert_allclose(seconds, np.cumsum([epoch["seconds"] for epoch in history]))
    assert axes.get_xlabel() == "seconds of all epochs"
    assert axes.get_legend() is None


def test_a_ring_is_around_the_best_epoch(models: dict[str, Any]) -> None:
    axes = plots.convergence({"RG2": models["RG2"]}, by="epochs")
    _, ring = axes.get_lines()
    history = models["RG2"].store.history
    best = max(history, key=lambda epoch: epoch["valid"])
    assert ring.get_xydata().tolist() == [[best["epoch"], best["valid"]]]


def test_what_was_not_recorded_cannot_be_drawn(split: Any) -> None:
    plain = mfrank.ALS(factors=2, iterations=2).fit(split.train)
    with refuses(ValueError, "stopping", remedy=r"fit with stopping=EarlyStopping\(valid\)"):
        plots.convergence({"a": plain})
    with refuses(ValueError, "stopping", remedy=r"fit with stopping=EarlyStopping\(valid\)"):
        plots.convergence(plain, value="valid")
    with refuses(TypeError, "models"):
        plots.convergence({"a": 3})
    with refuses(ValueError, "stopping", remedy=r"fit with stopping=EarlyStopping\(valid\)"):
        plots.convergence(plain)
    with refuses(ValueError, "by"):
        plots.convergence(plain, by="hours")  # type: ignore[arg-type]
    with refuses(ValueError, "value"):
        plots.convergence(plain, value="loss")  # type: ignore[arg-type]
    with refuses(ValueError, "models"):
        plots.convergence({})


def test_objectives_that_only_rise_have_no_common_scale(split: Any) -> None:
    """Two losses are two objectives; of one that was least at once nothing is left to share."""
    fitted = [
        mfrank.Descent(loss, factors=2, iterations=2, random_state=0).fit(split.train)
        for loss in (mfrank.BPR(), mfrank.SampledSoftmax())
    ]
    assert plots.convergence(fitted[0], value="objective").get_yscale() == "linear"
    first, second = (
        SimpleNamespace(
            store=SimpleNamespace(
                fitter=model.store.fitter,
                history=[{"seconds": 1.0, "objective": value} for value in values],
            )
        )
        for model, values in zip(fitted, [(4.0, 2.0, 1.0), (1.0, 3.0, 2.0)], strict=True)
    )
    assert plots.convergence({"a": first, "b": fitted[1]}).get_yscale() == "log"
    with refuses(ValueError, place="rising", remedy="draw this model alone"):
        plots.convergence({"falling": first, "rising": second})
    assert list(lines(plots.convergence({"rising": second}))["rising"][1]) == [1.0, 3.0, 2.0]
    second.store.history = second.store.history[:1]  # one epoch neither falls nor rises
    assert len(lines(plots.convergence({"falling": first, "short": second}))["falling"][1]) == 3


# --- leaderboard


def test_a_leaderboard_shows_values_with_their_intervals_best_first() -> None:
    axes = plots.leaderboard(BOARD)
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels == [
        "1. als, 16 factors, 3 epochs",
        "2. softmax, 32 factors, 3 epochs",
        "3. als, 64 factors, 3 epochs",
        "4. softmax, 8 factors, 3 epochs",
    ]
    bottom, top = axes.get_ylim()
    assert bottom > top  # the first is above
    for place, (bar, row) in enumerate(zip(axes.containers, BOARD, strict=False)):
        point, *_ = bar.lines
        assert point.get_xydata().tolist() == [[row["value"], place]]
        assert point.get_marker() == "o"
        used = row["weight"] is not None
        assert (point.get_fillstyle(), point.get_color()) == (
            ("full", plots.COLORS[0]) if used else ("none", "#8a8a8a")
        )
    np.testing.assert_allclose(intervals(axes, 0), [(row["low"], row["high"]) for row in BOARD[:4]])
    assert axes.get_xlabel() == "NDCG@10, 95 % interval; filled: in the model"


def test_a_leaderboard_without_a_final_model_has_no_marks_of_it() -> None:
    axes = plots.leaderboard([trial(1, 0.3)])
    assert axes.containers[0].lines[0].get_fillstyle() == "full"
    assert axes.containers[0].lines[0].get_color() == plots.COLORS[0]
    assert axes.get_xlabel() == "NDCG@10, 95 % interval"


def test_a_leaderboard_is_in_the_order_of_values_and_ends_after_n() -> None:
    rows = [trial(rank, rank / 200) for rank in range(1, 21)]  # the best have the longest bars
    values = [bar.lines[0].get_xdata()[0] for bar in plots.leaderboard(rows).containers]
    assert values == sorted((row["value"] for row in rows), reverse=True)[:15]
    assert len(plots.leaderboard(rows, n=1).containers) == 1
    with refuses(ValueError, "n"):
        plots.leaderboard(rows, n=0)


def test_a_blend_is_labeled_by_its_parts_as_far_as_there_is_room() -> None:
    parts = ["1 RG2 + 0.5 ItemFilter", "x" * 41, "x" * 42]
    rows = [trial(1, 0.3, factors=None, model=model) for model in parts]
    labels = [text.get_text() for text in plots.leaderboard(rows).get_yticklabels()]
    assert labels == ["1. " + parts[0], "1. " + "x" * 41, "1. " + "x" * 40 + "…"]


def test_of_evaluations_too(evaluations: dict[str, Evaluation]) -> None:
    axes = plots.leaderboard(evaluations, "recall@10")
    ranked = sorted(evaluations, key=lambda name: -evaluations[name]["recall@10"].value)
    assert [text.get_text() for text in axes.get_yticklabels()] == ranked
    score = evaluations[ranked[0]]["recall@10"]
    low, high = intervals(axes, 0)[0]
    assert (low + high) / 2 == pytest.approx(score.value)
    assert high - low == pytest.approx(2 * 1.96 * score.standard_error, rel=1e-3)
    assert {bar.lines[0].get_fillstyle() for bar in axes.containers} == {"full"}
    assert axes.get_xlabel() == "Recall@10, 95 % interval"
    assert len(plots.leaderboard(evaluations, n=2).containers) == 2


def test_of_a_comparison_too(split: Any) -> None:
    found = mfrank.compare(
        split.train,
        split.test,
        models={"knn": mfrank.ItemKNN(), "popular": mfrank.Popularity()},
        repeats=1,
        peak_memory=False,
    )
    axes = plots.leaderboard(found)
    assert {text.get_text() for text in axes.get_yticklabels()} == {"knn", "popular"}
    best = max(row.evaluation["recall@20"].value for row in found.rows)
    assert axes.containers[0].lines[0].get_xdata()[0] == best


def test_the_value_of_one_user_has_no_interval(models: dict[str, Any], split: Any) -> None:
    one = mfrank.evaluate(models["RG2"], split.test, users=[3], metrics="auc")
    axes = plots.leaderboard({"RG2": one})
    assert intervals(axes, 0) == [(one["auc"].value, one["auc"].value)]


def test_results_without_values_are_refused(evaluations: dict[str, Evaluation]) -> None:
    with refuses(ValueError, "results", remedy="each of its rows says why"):
        plots.leaderboard(BOARD[4:])
    with refuses(TypeError, "results"):
        plots.leaderboard({"a": 1})
    with pytest.raises(KeyError, match="was not judged by the search, only NDCG@10"):
        plots.leaderboard(BOARD, "recall@5")
    with pytest.raises(KeyError, match="was not evaluated"):
        plots.leaderboard(evaluations, "map@3")
    for key in ("value", "model"):
        with refuses(TypeError, "results"):
            plots.leaderboard([{key: 1}])


# --- cost


@pytest.mark.parametrize("by", ["factors", "seconds"])
def test_cost_shows_all_trials_and_the_best_so_far(by: Any) -> None:
    axes = plots.cost(BOARD, by)
    assert legend(axes) == ["als", "softmax"]
    points = np.concatenate([each.get_offsets() for each in axes.collections])
    wanted = [(row[by], row["value"]) for row in BOARD if row["value"] is not None]
    assert sorted(map(tuple, points)) == sorted(wanted)
    for family, (most, best) in lines(axes).items():
        own = [row for row in BOARD[:4] if row["family"] == family]
        wanted_best = [max(row["value"] for row in own if row[by] <= limit) for limit in most]
        assert list(most) == sorted({row[by] for row in own})
        assert list(best) == wanted_best
    assert {line.get_drawstyle() for line in axes.get_lines()} == {"steps-post"}
    assert (axes.get_xlabel(), axes.get_ylabel()) == (
        "factors" if by == "factors" else "seconds of the trial",
        "NDCG@10",
    )


def test_models_without_factors_have_no_place_there() -> None:
    rows = [trial(1, 0.3, factors=None)]
    assert plots.cost(rows, "seconds").collections
    with refuses(ValueError, "results"):
        plots.cost(rows)
    with refuses(TypeError, "results"):
        plots.cost({})
    with refuses(ValueError, "by"):
        plots.cost(BOARD, "epochs")  # type: ignore[arg-type]


# --- axes, files, the command


def test_a_picture_goes_into_the_axes_that_are_given() -> None:
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert plots.cost(BOARD, ax=ax) is ax
    with refuses(TypeError, "ax"):
        plots.cost(BOARD, ax="here")  # type: ignore[arg-type]


@pytest.mark.parametrize("part", [lambda ax: ax, lambda ax: ax.figure])
def test_a_notebook_shows_a_new_picture(part: Any) -> None:
    """As IPython asks for it, also where pyplot was not imported."""
    import io

    from matplotlib.image import imread

    shown = part(plots.cost(BOARD))
    pixels = imread(io.BytesIO(shown._repr_png_()))
    assert pixels.shape[:2] == (540, 975)
    assert np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0).shape[0] > 10  # it is not blank
    assert "Axes" in repr(shown)


@pytest.mark.parametrize(("ending", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_file_is_written_whole(tmp_path: Path, ending: str, begins: bytes) -> None:
    path = plots.save(plots.cost(BOARD), tmp_path / f"cost.{ending}")
    assert path.read_bytes().startswith(begins)
    with refuses(ValueError, place="cost.txt"):
        plots.save(plots.cost(BOARD), tmp_path / "cost.txt")
    assert [each.name for each in tmp_path.iterdir()] == [f"cost.{ending}"]


def test_no_window_and_no_global_figure_is_opened() -> None:
    told = run(
        "import sys\nfrom mfrank import plots\nassert 'matplotlib' not in sys.modules\n"
        "plots.convergence([{'epoch': 1, 'seconds': 1.0, 'objective': 2.0}])\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    assert not told.stderr


def test_without_matplotlib_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install mfrank\[plot\]"):
        plots.cost(BOARD)
    assert main(["plot", "cost", "no.json", "--output", "no/a.png"]) == 1  # before all else
    assert "pip install mfrank[plot]" in capsys.readouterr().err


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, split: Any, models: dict[str, Any]) -> Path:
    folder: Path = tmp_path_factory.mktemp("files")
    for name, model in models.items():
        model.save(folder / name)
    models["RG2"].save(folder / "unseen", with_seen=False)
    BOARD.to_json(folder / "trials.json")
    for name, text in (("none", "[]"), ("one", '{"value": 1}'), ("numbers", "[1]")):
        (folder / f"{name}.json").write_text(text)
    users, items = split.test.user_items.nonzero()
    rows = "".join(f"{user},{item}\n" for user, item in zip(users, items, strict=True))
    (folder / "test.csv").write_text("user,item\n" + rows)
    return folder


@pytest.mark.parametrize(
    ("command", "drawn"),
    [
        ("convergence RG2 WRMF --by epochs", "convergence"),
        ("convergence RG2", "convergence"),
        ("leaderboard trials.json", "leaderboard"),
        ("cost trials.json --by seconds", "cost"),
        ("activity RG2 WRMF --test test.csv --metric recall@5", "activity"),
        ("exposure RG2 --test test.csv", "exposure"),
    ],
)
def test_from_the_command_line(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, command: str, drawn: str
) -> None:
    monkeypatch.chdir(files)
    assert main(["plot", *command.split(), "--output", "picture.png"]) == 0
    assert capsys.readouterr().out == "drawn to picture.png\n"
    assert (files / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert drawn in command


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("leaderboard trials.json --by seconds", "leaderboard takes no --by"),
        ("cost trials.json --by epochs", "--by of cost must be factors or seconds; got epochs"),
        ("exposure RG2", "exposure needs --test, a file of held-out interactions"),
        ("leaderboard test.csv", "test.csv is not the JSON of mfrank tune --json"),
        ("leaderboard none.json", "none.json has no trials: write it by mfrank tune --json"),
        ("leaderboard one.json", "one.json has no trials: write it by mfrank tune --json"),
        ("cost numbers.json", "numbers.json has no trials: write it by mfrank tune --json"),
        ("activity unseen --test test.csv", "unseen was saved without the interactions of its fit"),
        ("cost trials.json trials.json", "cost draws one file, got 2"),
        ("convergence trials.json", "trials.json"),
    ],
)
def test_what_cannot_be_drawn_is_said(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, command: str, message: str
) -> None:
    monkeypatch.chdir(files)
    assert main(["plot", *command.split(), "--output", "none.png"]) != 0
    assert message in capsys.readouterr().err
    assert not (files / "none.png").exists()


def test_models_of_other_data_are_not_drawn_together(
    files: Path, tmp_path: Path, capsys: Any
) -> None:
    other = mfrank.Popularity().fit(mfrank.synthetic(20, 80, 300, random_state=0))
    other.save(tmp_path / "other")
    folders = [str(files / "RG2"), str(tmp_path / "other")]
    given = ["--test", str(files / "test.csv"), "--output", str(tmp_path / "a.png")]
    assert main(["plot", "exposure", *folders, *given]) != 0
    assert "was fitted to other users or items than" in capsys.readouterr().err


def test_json_of_a_search_reads_back(files: Path) -> None:
    rows = json.loads((files / "trials.json").read_text())
    again, whole = (plots.leaderboard(each).get_yticklabels() for each in (rows, BOARD))
    assert [text.get_text() for text in again] == [text.get_text() for text in whole]


def test_histories_are_models_enough() -> None:
    history = [{"epoch": e, "seconds": 0.5, "objective": 1 / e} for e in (1, 2, 3)]
    model = SimpleNamespace(store=SimpleNamespace(history=history))
    for given in (history, model):
        x, y = plots.convergence(given).get_lines()[0].get_data()
        assert (list(x), list(y)) == ([0.5, 1.0, 1.5], [1, 1 / 2, 1 / 3])
    bare = [{"objective": 1 / e} for e in (1, 2, 3)]
    x, _ = plots.convergence(bare, by="epochs").get_lines()[0].get_data()
    assert list(x) == [1, 2, 3]
    later = [{"epoch": 5, "valid": 0.1}, {"epoch": 9, "valid": None}, {"epoch": 10, "valid": 0.2}]
    x, _ = plots.convergence(later, by="epochs").get_lines()[0].get_data()
    assert list(x) == [5, 10]
    with refuses(ValueError, "models"):
        plots.convergence(bare)

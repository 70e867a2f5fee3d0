"""Pictures show the numbers that they were given: what is drawn is read back from the Axes."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from children import run

import mfrank
from mfrank.cli.main import main
from mfrank.evaluation import Evaluation
from mfrank.tuning import Leaderboard

pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install mfrank[plot]")

from mfrank import plots


@pytest.fixture(scope="module")
def split() -> Any:
    return mfrank.by_ratio(mfrank.synthetic(200, 80, 3000, random_state=0))


@pytest.fixture(scope="module")
def models(split: Any) -> dict[str, Any]:
    stopping = mfrank.EarlyStopping(split.valid)
    als = mfrank.ALS(factors=8, iterations=6, random_state=0, track_objective=True)
    other = mfrank.ALS(mfrank.WRMF(), factors=4, iterations=4, random_state=0, track_objective=True)
    return {
        "RG2": als.fit(split.train, stopping=stopping),
        "WRMF": other.fit(split.train, stopping=stopping),
    }


@pytest.fixture(scope="module")
def evaluations(split: Any, models: dict[str, Any]) -> dict[str, Evaluation]:
    models = models | {"popularity": mfrank.Popularity().fit(split.train)}
    return {name: mfrank.evaluate(model, split.test) for name, model in models.items()}


def trial(rank: int, value: float | None, **more: Any) -> dict[str, Any]:
    reach = 0.01 * rank
    return {
        "rank": rank, "family": "als", "model": f"ALS({rank})", "factors": 2 ** (3 + rank % 4),
        "epochs": 3, "rung": 0, "metric": "NDCG@10", "value": value, "standard_error": 0.005,
        "low": None if value is None else value - reach,
        "high": None if value is None else value + reach,
        "seconds": float(rank), "weight": None, "error": None,
    } | more  # fmt: skip


BOARD = Leaderboard(
    (
        trial(1, 0.30, weight=0.7),
        trial(2, 0.25, family="softmax", weight=0.3),
        trial(3, 0.20),
        trial(4, 0.10, family="softmax"),
        trial(5, None, error="diverged"),
    )
)


def lines(axes: Any) -> dict[str, tuple[Any, Any]]:
    return {
        line.get_label(): line.get_data()
        for line in axes.get_lines()
        if not line.get_label().startswith("_")
    }


def legend(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


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
    with pytest.raises(ValueError, match=r"the fit of a recorded no value by epoch: fit with .*"):
        plots.convergence({"a": plain})
    with pytest.raises(ValueError, match="recorded no valid"):
        plots.convergence(plain, value="valid")
    with pytest.raises(TypeError, match="models must be fitted models or histories, got int"):
        plots.convergence({"a": 3})
    with pytest.raises(ValueError, match="by must be one of seconds, epochs"):
        plots.convergence(plain, by="hours")  # type: ignore[arg-type]


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
        point, _, (reach,) = bar.lines
        assert point.get_xydata().tolist() == [[row["value"], place]]
        np.testing.assert_allclose(reach.get_segments()[0][:, 0], [row["low"], row["high"]])
        assert (point.get_fillstyle() == "full") == (row["weight"] is not None)
    assert axes.get_xlabel().startswith("NDCG@10, 95 % interval")


def test_of_evaluations_too(evaluations: dict[str, Evaluation]) -> None:
    axes = plots.leaderboard(evaluations, "recall@10")
    ranked = sorted(evaluations, key=lambda name: -evaluations[name]["recall@10"].value)
    assert [text.get_text() for text in axes.get_yticklabels()] == ranked
    score = evaluations[ranked[0]]["recall@10"]
    _, _, (reach,) = axes.containers[0].lines
    low, high = reach.get_segments()[0][:, 0]
    assert (low + high) / 2 == pytest.approx(score.value)
    assert high - low == pytest.approx(2 * 1.96 * score.standard_error, rel=1e-3)
    assert len(plots.leaderboard(evaluations, n=2).containers) == 2


def test_results_without_values_are_refused(evaluations: dict[str, Evaluation]) -> None:
    with pytest.raises(ValueError, match="no model of the leaderboard has a value"):
        plots.leaderboard(BOARD[4:])
    with pytest.raises(TypeError, match="results must be a Leaderboard, a Comparison, or Evaluat"):
        plots.leaderboard({"a": 1})
    with pytest.raises(KeyError, match="was not judged by the search, only NDCG@10"):
        plots.leaderboard(BOARD, "recall@5")
    with pytest.raises(KeyError, match="was not evaluated"):
        plots.leaderboard(evaluations, "map@3")


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
    assert (axes.get_xlabel(), axes.get_ylabel()) == (
        "factors" if by == "factors" else "seconds of the trial",
        "NDCG@10",
    )


def test_models_without_factors_have_no_place_there() -> None:
    rows = [trial(1, 0.3, factors=None)]
    assert plots.cost(rows, "seconds").collections
    with pytest.raises(ValueError, match="no model of the leaderboard has factors"):
        plots.cost(rows)
    with pytest.raises(TypeError, match="results must be a Leaderboard of tune, got dict"):
        plots.cost({})


# --- exposure


def test_exposure_sums_up_the_lists(split: Any, evaluations: dict[str, Evaluation]) -> None:
    axes = plots.exposure(evaluations, split.train)
    training, equal = "training interactions", "equal exposure"
    assert legend(axes) == [*evaluations, training, equal]
    popularity = split.train.counts.items
    order = np.argsort(popularity, kind="stable")
    drawn = lines(axes)
    np.testing.assert_array_equal(*drawn.pop(equal))
    for name, (items, shares) in drawn.items():
        counts = popularity if name == training else evaluations[name].exposure
        assert (items[0], items[-1], shares[0], shares[-1]) == (0, 1, 0, 1)
        np.testing.assert_allclose(np.diff(shares), counts[order] / counts.sum(), atol=1e-12)
    # Popularity lists only the head, so that its curve is the lowest.
    half = {name: shares[40] for name, (_, shares) in drawn.items()}
    assert half["popularity"] == 0 < half[training]


def test_popularity_of_another_numbering_is_found_by_id() -> None:
    """A model that was fitted to names in one order, and its data read in another."""
    data = mfrank.synthetic(30, 20, 300, names=True, random_state=0)
    users, items = data.user_ids.labels, data.item_ids.labels
    cells = users[data.entry_users], items[data.user_items.indices]
    other = mfrank.Interactions.from_arrays(*cells, user_ids=users[::-1], item_ids=items[::-1])
    found = mfrank.evaluate(mfrank.Popularity().fit(data), data, filter_already_liked_items=False)
    drawn, again = (lines(plots.exposure(found, each)) for each in (data, other))
    for name, (_, shares) in drawn.items():
        np.testing.assert_array_equal(shares, again[name][1])
    strange = mfrank.Interactions.from_arrays(["x"], ["y"])
    with pytest.raises(ValueError, match="take those of the training data"):
        plots.exposure(found, strange)


def test_exposure_needs_lists_of_the_same_items(split: Any, models: dict[str, Any]) -> None:
    auc = mfrank.evaluate(models["RG2"], split.test, metrics="auc")
    with pytest.raises(ValueError, match="the evaluation has no lists: evaluate with a metric"):
        plots.exposure(auc, split.train)
    whole = mfrank.evaluate(models["RG2"], split.test)
    with pytest.raises(ValueError, match="train must have the 80 items of the evaluation, got 5"):
        plots.exposure(whole, mfrank.synthetic(9, 5, 20))


# --- activity


def test_activity_shows_the_mean_of_every_group(
    split: Any, evaluations: dict[str, Evaluation]
) -> None:
    axes = plots.activity(evaluations, split.train, "recall@10")
    groups = mfrank.by_activity(split.train)
    assert legend(axes) == list(evaluations)
    labels = [text.get_text() for text in axes.get_xticklabels()]
    assert [label.partition("\n")[0] for label in labels] == list(groups.names)
    for name, bar in zip(evaluations, axes.containers, strict=True):
        found = evaluations[name].by_group(groups)
        x, y = bar.lines[0].get_data()
        np.testing.assert_array_equal(np.round(x), range(len(groups.names)))
        wanted = [found[group]["recall@10"].value for group in groups.names]
        np.testing.assert_allclose(np.asarray(y, dtype=float), wanted)
    own = mfrank.Groups.of(["even", "odd"] * 100)
    assert len(plots.activity(evaluations["RG2"], own).get_xticks()) == 2


def test_metrics_of_the_catalog_have_no_groups(split: Any, models: dict[str, Any]) -> None:
    found = mfrank.evaluate(models["RG2"], split.test, metrics="gini@5")
    with pytest.raises(ValueError, match="Gini@5 has one value for all users"):
        plots.activity(found, split.train)


# --- axes, files, the command


def test_a_picture_goes_into_the_axes_that_are_given() -> None:
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert plots.cost(BOARD, ax=ax) is ax
    with pytest.raises(TypeError, match="ax must be a matplotlib Axes or None, got str"):
        plots.cost(BOARD, ax="here")  # type: ignore[arg-type]


@pytest.mark.parametrize(("ending", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_file_is_written_whole(tmp_path: Path, ending: str, begins: bytes) -> None:
    path = plots.save(plots.cost(BOARD), tmp_path / f"cost.{ending}")
    assert path.read_bytes().startswith(begins)
    with pytest.raises(ValueError, match=r"cost.txt must end in one of .*\.png"):
        plots.save(plots.cost(BOARD), tmp_path / "cost.txt")
    assert [each.name for each in tmp_path.iterdir()] == [f"cost.{ending}"]


def test_no_window_and_no_global_figure_is_opened() -> None:
    told = run(
        "import sys\nfrom mfrank import plots\nassert 'matplotlib' not in sys.modules\n"
        "plots.convergence([{'epoch': 1, 'seconds': 1.0, 'objective': 2.0}])\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    assert not told.stderr


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install mfrank\[plot\]"):
        plots.cost(BOARD)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, split: Any, models: dict[str, Any]) -> Path:
    folder: Path = tmp_path_factory.mktemp("files")
    for name, model in models.items():
        model.save(folder / name)
    BOARD.to_json(folder / "trials.json")
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


# --- colors

DEUTAN = (
    (0.367322, 0.860646, -0.227968),
    (0.280085, 0.672501, 0.047413),
    (-0.01182, 0.04294, 0.968881),
)
PROTAN = (
    (0.152286, 1.052583, -0.204868),
    (0.114503, 0.786281, 0.099216),
    (-0.003882, -0.048116, 1.051998),
)


@pytest.mark.parametrize("seen", [np.eye(3), DEUTAN, PROTAN], ids=["all", "deutan", "protan"])
def test_colors_are_told_apart_by_the_color_blind(seen: Any) -> None:
    """By the simulation of Machado et al. (2009), in CIELAB, where 2.3 is just noticeable."""
    from matplotlib.colors import to_rgb

    from mfrank.plots import COLORS

    values = np.array([to_rgb(color) for color in COLORS])
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    to_xyz = [(0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505)]
    xyz = np.clip(linear @ np.transpose(seen), 0, 1) @ np.transpose(to_xyz) / (0.9505, 1, 1.089)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116).T
    lab = np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)
    apart = np.linalg.norm(lab[:, None] - lab[None], axis=2)[~np.eye(len(lab), dtype=bool)]
    assert apart.min() > 15


def test_more_models_than_colors_have_marks_of_their_own() -> None:
    rows = [trial(1, 0.1, family=f"family {number}") for number in range(8)]
    shapes = {(line.get_color(), line.get_marker()) for line in plots.cost(rows).get_lines()}
    assert len(shapes) == len(rows)

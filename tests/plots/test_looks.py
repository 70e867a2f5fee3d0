"""How pictures look: what is told apart, what belongs together, and that all of it is in view."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pictures import BOARD, trial

import mfrank

pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install mfrank[plot]")

from mfrank import plots

NUMBER = 16  # more than there are colors and marks
NAMES = [f"model {number}" for number in range(NUMBER)]
DATA = mfrank.synthetic(40, 20, 300, random_state=0)
HISTORY = [{"seconds": 0.1, "valid": value} for value in (0.1, 0.3, 0.2)]


@pytest.fixture(scope="module")
def pictures() -> dict[str, Any]:
    """Each kind of picture of many models."""
    model = mfrank.Popularity().fit(DATA)
    one = mfrank.evaluate(model, DATA, filter_already_liked_items=False)
    return {
        "convergence": plots.convergence(dict.fromkeys(NAMES, HISTORY)),
        "cost": plots.cost([trial(1, 0.1, family=name) for name in NAMES]),
        "activity": plots.activity(dict.fromkeys(NAMES, one), DATA),
        "exposure": plots.exposure(dict.fromkeys(NAMES, one), DATA),
        "leaderboard": plots.leaderboard(dict.fromkeys(NAMES, one)),
    }


# --- models


@pytest.mark.parametrize("kind", ["convergence", "cost", "activity", "exposure"])
def test_models_are_told_apart_by_color_and_mark(pictures: dict[str, Any], kind: str) -> None:
    axes = pictures[kind]
    shown = [line for line in axes.get_lines() if str(line.get_label()) in NAMES]
    shown = shown or [bar.lines[0] for bar in axes.containers]
    assert len(shown) == NUMBER
    colors = [line.get_color() for line in shown]
    assert colors == [*plots.COLORS, *plots.COLORS, *plots.COLORS][:NUMBER]
    if kind != "exposure":  # its lines have a point for each item
        marks = [line.get_marker() for line in shown]
        assert len(set(marks[:8])) == 8
        assert marks[8:] == marks[:8]
        assert len(set(zip(colors, marks, strict=True))) == NUMBER


def test_the_best_epoch_has_a_ring_in_the_color_of_its_line() -> None:
    drawn = plots.convergence({"one": HISTORY, "other": HISTORY}).get_lines()
    for line, ring in (drawn[:2], drawn[2:]):
        assert ring.get_color() == line.get_color()
        assert ring.get_fillstyle() == "none"
        assert ring.get_markersize() > 2 * line.get_markersize()


def test_the_trials_of_a_family_have_its_color_and_mark() -> None:
    from matplotlib.colors import to_hex
    from matplotlib.markers import MarkerStyle

    axes = plots.cost(BOARD)
    for line, points in zip(axes.get_lines(), axes.collections, strict=True):
        (color,) = points.get_facecolors()
        assert to_hex(color) == line.get_color()
        assert color[3] < 1  # where many are, it is darker
        mark = MarkerStyle(line.get_marker())
        shape = mark.get_path().transformed(mark.get_transform())
        np.testing.assert_array_equal(points.get_paths()[0].vertices, shape.vertices)
        assert points.get_sizes()[0] ** 0.5 < line.get_markersize()
        assert not points.get_linewidths().any()


def test_what_is_no_model_is_drawn_in_gray(pictures: dict[str, Any]) -> None:
    from matplotlib.colors import to_rgb

    training, equal = pictures["exposure"].get_lines()[-2:]
    assert training.get_linestyle() == "--"
    dark, light = (to_rgb(line.get_color()) for line in (training, equal))
    assert len({*dark}) == len({*light}) == 1
    assert dark < light
    assert equal.get_linewidth() < training.get_linewidth()


# --- axes


def test_all_pictures_have_two_sides_and_a_legend_without_a_frame(pictures: dict[str, Any]) -> None:
    for axes in pictures.values():
        sides = {side: spine.get_visible() for side, spine in axes.spines.items()}
        assert sides == {"left": True, "bottom": True, "right": False, "top": False}
        if legend := axes.get_legend():
            assert not legend.get_frame_on()


def test_all_of_a_picture_is_in_its_figure() -> None:
    rows = [trial(1, 0.3, factors=None, model="x" * 44), trial(2, 0.2)]
    for axes in (plots.convergence(HISTORY), plots.cost(BOARD), plots.leaderboard(rows)):
        axes.figure.draw_without_rendering()
        within, figure = axes.get_tightbbox(), axes.figure.bbox
        assert (within.min >= figure.min).all()
        assert (within.max <= figure.max).all()


def test_the_legend_of_families_is_beside_the_picture() -> None:
    axes = plots.cost(BOARD)
    axes.figure.draw_without_rendering()
    legend, area = axes.get_legend().get_window_extent(), axes.get_window_extent()
    assert legend.x0 >= area.x1
    assert area.y0 < legend.y0 < legend.y1 < area.y1
    assert axes.figure.get_figwidth() > plots.convergence(HISTORY).figure.get_figwidth()


def test_the_legend_of_exposure_is_above_the_diagonal() -> None:
    one = mfrank.evaluate(mfrank.Popularity().fit(DATA), DATA, filter_already_liked_items=False)
    axes = plots.exposure(one, DATA)
    axes.figure.draw_without_rendering()
    (left, bottom), (right, top) = axes.transData.inverted().transform(
        axes.get_legend().get_window_extent()
    )
    assert 0 <= left < bottom
    assert right > left
    assert top <= axes.get_ylim()[1]
    assert axes.get_xlim() == (0, 1)
    assert axes.get_ylim()[0] == 0
    assert 1 < axes.get_ylim()[1] < 1.05  # the last line ends at 1
    for axis in (axes.xaxis, axes.yaxis):
        assert axis.get_major_formatter()(0.2, None) == "20%"


def test_labels_of_models_and_groups_have_room(pictures: dict[str, Any]) -> None:
    plain = plots.convergence(HISTORY)
    size = plain.get_yticklabels()[0].get_fontsize()
    board, groups = pictures["leaderboard"], pictures["activity"]
    assert board.figure.get_figwidth() > plain.figure.get_figwidth()
    for label in (board.get_yticklabels()[0], groups.get_xticklabels()[0]):
        assert 0.7 * size < label.get_fontsize() < size
    assert plain.figure.dpi >= 150  # sharp in print


def test_a_leaderboard_is_as_high_as_it_has_models() -> None:
    heights = []
    for n in (2, 4, 8):
        axes = plots.leaderboard([trial(rank, 1 / rank) for rank in range(1, 9)], n=n)
        heights.append(axes.figure.get_figheight())
        assert axes.get_ylim() == (n - 0.5, -0.5)  # half a row's room at both ends
    assert heights[2] - heights[1] == pytest.approx(2 * (heights[1] - heights[0]))
    assert 0.2 < heights[2] - heights[1] < 0.5 * 4


def test_a_leaderboard_has_lines_down_from_its_values_behind_the_bars() -> None:
    from matplotlib.colors import to_rgb

    axes = plots.leaderboard(BOARD)
    assert all(line.get_visible() for line in axes.get_xgridlines())
    assert not any(line.get_visible() for line in axes.get_ygridlines())
    assert axes.get_axisbelow() is True
    assert min(to_rgb(axes.get_xgridlines()[0].get_color())) > 0.85  # pale


def test_epochs_are_whole_numbers_and_seconds_need_not_be() -> None:
    whole = plots.convergence(HISTORY, by="epochs").get_xticks()
    assert (whole == whole.round()).all()
    parts = plots.convergence(HISTORY).get_xticks()
    assert (parts != parts.round()).any()


def ticks(axes: Any, which: str = "major") -> list[float]:
    low, high = axes.get_xlim()
    axis = axes.xaxis
    places = axis.get_majorticklocs() if which == "major" else axis.get_minorticklocs()
    return [float(place) for place in places if low <= place <= high]


def test_factors_are_powers_of_two_on_their_axis() -> None:
    axes = plots.cost(BOARD)
    assert axes.get_xscale() == "log"
    assert ticks(axes) == [8, 16, 32, 64]
    assert axes.xaxis.get_major_formatter()(64, None) == "64"


def test_seconds_have_ticks_near_enough_to_be_read_between() -> None:
    def drawn(*seconds: float) -> Any:
        return plots.cost([trial(1, 0.3, seconds=each) for each in seconds], "seconds")

    assert ticks(drawn(40, 450)) == [50, 100, 200, 500]
    assert ticks(drawn(0.3, 90)) == [0.5, 1, 2, 5, 10, 20, 50, 100]
    assert ticks(drawn(0.3, 30_000)) == [1, 10, 100, 1000, 10_000]
    for axes in (drawn(40, 450), drawn(0.3, 90)):
        assert not ticks(axes, "minor")
        assert axes.xaxis.get_major_formatter()(0.5, None) == "0.5"


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

    values = np.array([to_rgb(color) for color in plots.COLORS])
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    to_xyz = [(0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505)]
    xyz = np.clip(linear @ np.transpose(seen), 0, 1) @ np.transpose(to_xyz) / (0.9505, 1, 1.089)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116).T
    lab = np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)
    apart = np.linalg.norm(lab[:, None] - lab[None], axis=2)[~np.eye(len(lab), dtype=bool)]
    assert apart.min() > 15

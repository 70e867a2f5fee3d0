"""``update`` and ``remove`` do to a saved model what Python does to one in memory."""

from __future__ import annotations

import shutil
from copy import copy
from pathlib import Path

import numpy as np
import pytest

import mfrank
from mfrank.cli.main import main
from mfrank.data import write_table

DATA = mfrank.synthetic(80, 40, 1500, names=True, random_state=3)
BEFORE = DATA.take(DATA.entry_users < 60).k_core(1)
TODAY = DATA.take(DATA.entry_users >= 50).k_core(1)
FEW = ["--factors", "4", "--iterations", "3", "--random-state", "0"]


def written(data: mfrank.Interactions, file: Path) -> Path:
    columns = {
        "user": data.user_ids.raw(data.entry_users),
        "item": data.item_ids.raw(data.user_items.indices),
        "count": 1 + np.arange(data.nnz) % 3,
    }
    write_table(file, columns)
    return file


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files before.csv and today.csv, and models als, wrmf and ranked of the first."""
    folder = tmp_path_factory.mktemp("life")
    before = str(written(BEFORE, folder / "before.csv"))
    written(TODAY, folder / "today.csv")
    assert main(["fit", before, "--model", str(folder / "als"), *FEW]) == 0
    wrmf = [*FEW, "--objective", "wrmf"]
    assert main(["fit", before, "--model", str(folder / "wrmf"), *wrmf]) == 0
    descend = ["descend", before, "--model", str(folder / "ranked"), "--negatives", "5"]
    assert main([*descend, *FEW]) == 0
    return folder


@pytest.fixture
def folder(fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, to be changed."""
    shutil.copytree(fitted, tmp_path / "life")
    monkeypatch.chdir(tmp_path / "life")
    return tmp_path / "life"


def same(one: mfrank.Recommender, other: mfrank.Recommender) -> None:
    for left, right in (
        (one.store.user_factors, other.store.user_factors),
        (one.store.item_factors, other.store.item_factors),
        (one.user_ids.labels, other.user_ids.labels),
        (one.item_ids.labels, other.item_ids.labels),
    ):
        np.testing.assert_array_equal(left, right)


def test_update_is_partial_fit(folder, capsys):  # type: ignore[no-untyped-def]
    model = mfrank.ALS.load("als")
    assert main(["update", "today.csv", "--model", "als", "--output", "newer"]) == 0
    told = capsys.readouterr().out
    assert "20 new users, 0 new items" in told
    assert "saved to newer" in told
    same(mfrank.load("als"), model)
    model.partial_fit(mfrank.Interactions.from_file("today.csv"))
    same(mfrank.load("newer"), model)
    assert main(["update", "today.csv", "--model", "als"]) == 0
    same(mfrank.load("als"), model)
    assert main(["recommend", "--model", "als", "--user", TODAY.user_ids.labels[-1]]) == 0


def test_values_are_those_of_the_model_or_of_the_old_file(folder):  # type: ignore[no-untyped-def]
    model = mfrank.ALS.load("wrmf")
    assert main(["update", "today.csv", "--model", "wrmf", "--output", "alone"]) == 0
    same(mfrank.load("alone"), copy(model).partial_fit(mfrank.Interactions.from_file("today.csv")))
    flags = ["--train", "before.csv", "--decay", "0.5", "--alternations", "2"]
    assert main(["update", "today.csv", "--model", "wrmf", *flags]) == 0
    before, today = map(mfrank.Interactions.from_file, ("before.csv", "today.csv"))
    model.partial_fit(today, user_items=before, decay=0.5, alternations=2)
    same(mfrank.load("wrmf"), model)


def test_ids_are_read_as_the_models(folder):  # type: ignore[no-untyped-def]
    """Whole numbers of a day are texts where the model's ids are."""
    Path("mixed.csv").write_text("user,item\na,1\na,2\n7,1\n8,x\n8,2\n")
    assert main(["fit", "mixed.csv", "--model", "mixed", *FEW]) == 0
    Path("numbers.csv").write_text("user,item\n7,2\n9,1\n")
    assert main(["update", "numbers.csv", "--model", "mixed"]) == 0
    assert set(mfrank.load("mixed").user_ids.labels) == {"a", "7", "8", "9"}


def test_a_descent_takes_up_a_day(folder, capsys):  # type: ignore[no-untyped-def]
    model = mfrank.Descent.load("ranked")
    assert main(["update", "today.csv", "--model", "ranked", "--batch", "today"]) == 0
    assert "rows solved in" in capsys.readouterr().out
    same(mfrank.load("ranked"), model.partial_fit(mfrank.Interactions.from_file("today.csv")))
    assert main(["update", "today.csv", "--model", "ranked", "--batch", "today"]) == 0
    assert capsys.readouterr().out == ""


def test_a_recipe_is_fitted_again_without_a_search(folder, capsys):  # type: ignore[no-untyped-def]
    assert main(["tune", "before.csv", "--refit", "ranked", "--model", "again"]) == 0
    assert "saved to again" in capsys.readouterr().out
    same(mfrank.load("again"), mfrank.refit(mfrank.load("ranked"), BEFORE))
    assert main(["tune", "before.csv", "--refit", "ranked", "--model", "x", "--minutes", "2"]) == 2
    assert "--refit searches nothing, so --minutes has no effect" in capsys.readouterr().err
    assert not Path("x").exists()


def test_remove_leaves_no_byte_of_a_user(folder, capsys):  # type: ignore[no-untyped-def]
    gone, item = str(BEFORE.user_ids.labels[7]), str(BEFORE.item_ids.labels[2])
    model = mfrank.ALS.load("als")
    Path("requests.txt").write_text(f"{gone}\nnobody\n\n{gone}\n")
    flags = ["--users", "requests.txt", "--item", item, "--skip-unknown"]
    assert main(["remove", "--model", "als", *flags]) == 0
    shown = capsys.readouterr()
    assert shown.out == "removed 1 user and 1 item; saved to als\n"
    assert "1 unknown user left out" in shown.err
    same(mfrank.load("als"), model.remove(users=gone, items=item))
    files = [file.read_bytes() for file in Path("als").rglob("*") if file.is_file()]
    assert files
    for text in (gone, item):
        for encoding in ("utf-8", "utf-32-le"):
            assert not any(text.encode(encoding) in content for content in files)


def test_a_model_of_any_kind_forgets(folder):  # type: ignore[no-untyped-def]
    gone = BEFORE.user_ids.labels[:2].tolist()
    assert main(["remove", "--model", "ranked", "--user", gone[0], "--user", gone[1]]) == 0
    assert not set(gone) & set(mfrank.load("ranked").user_ids.labels)
    als = mfrank.ALS(mfrank.IALS(), factors=2, iterations=1, random_state=0)
    for made in (mfrank.EASE(5.0), mfrank.Blend([als, mfrank.ItemKNN(), mfrank.EASE(5.0)])):
        made.fit(BEFORE).save("made", overwrite=True)
        assert main(["remove", "--model", "made", "--user", gone[0]]) == 0
        left, links = mfrank.load("made"), BEFORE.take(BEFORE.entry_users != 0).k_core(1)
        users = left.user_ids.labels[:20]
        assert gone[0] not in left.user_ids.labels
        part = getattr(left, "models", [left])[-1]
        wanted = mfrank.EASE(5.0).fit(links).score(users, links.item_ids.labels[:20])
        np.testing.assert_allclose(part.score(users, links.item_ids.labels[:20]), wanted, atol=1e-9)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("update today.csv --model ranked --decay 0.5", "--decay is for models of mfrank fit"),
        (
            "update today.csv --model ranked --train before.csv",
            "--train is for models of mfrank",
        ),
        ("update today.csv --model nowhere", "there is no model nowhere"),
        ("update nothing.csv --model als", "there is no file nothing.csv"),
        ("update today.csv --model als --decay 0.5", "decay needs an objective that uses values"),
        ("update today.csv --model als --alternations -1", "alternations must be at least 0"),
        ("update nothing.csv --model als --output today.csv", "cannot save to today.csv"),
        ("remove --model als", "nothing to remove: pass --user, --users or --item"),
        ("remove --model als --user nobody", "unknown ids: 'nobody'"),
        ("remove --model als --users nothing.txt", "there is no file nothing.txt"),
    ],
)
def test_a_refused_line_changes_nothing(folder, capsys, line, message):  # type: ignore[no-untyped-def]
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert main(line.split()) == 2
    assert message in capsys.readouterr().err
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before


def test_a_model_without_the_asked_ids_stays(folder, capsys):  # type: ignore[no-untyped-def]
    before = {file: file.read_bytes() for file in Path("als").rglob("*") if file.is_file()}
    assert main(["remove", "--model", "als", "--user", "nobody", "--skip-unknown"]) == 0
    assert capsys.readouterr().out == "als has none of them, and stays as it is\n"
    assert {file: file.read_bytes() for file in Path("als").rglob("*") if file.is_file()} == before

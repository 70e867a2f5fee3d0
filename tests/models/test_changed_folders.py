"""What was loaded, changed and saved never undoes what others saved in between."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mfrank
from mfrank.cli.main import main
from mfrank.files import ChangedFolderError
from tests.support.errors import refuses

DATA = replace(mfrank.synthetic(30, 20, 300, random_state=0), timestamps=None)
MONDAY = mfrank.Interactions.from_arrays([30], [0])
TUESDAY = mfrank.Interactions.from_arrays([31], [1])


def als() -> mfrank.ALS:
    return mfrank.ALS(mfrank.IALS(), 3, 2, random_state=0, n_threads=1).fit(DATA)


LOADED: dict[str, Callable[[Path], Any]] = {
    "load": mfrank.load,
    "of its class": mfrank.ALS.load,
    "mapped": lambda folder: mfrank.load(folder, mmap=True),
    "by a relative path": lambda folder: mfrank.load(os.path.relpath(folder)),
    "by a link": lambda folder: mfrank.load(linked(folder)),
    "copied": lambda folder: copy.copy(mfrank.load(folder)),
    "deeply copied": lambda folder: copy.deepcopy(mfrank.load(folder)),
    "pickled": lambda folder: pickle.loads(pickle.dumps(mfrank.load(folder))),
}

CHANGES: dict[str, Callable[[Any], Any]] = {
    "none": lambda model: model,
    "partial_fit": lambda model: model.partial_fit(mfrank.Interactions.from_arrays([7], [3])),
    "partial_fit_users": lambda model: model.partial_fit_users([1], DATA.user_items[[2]]),
    "partial_fit_items": lambda model: model.partial_fit_items([1], DATA.item_users[[2]]),
    "remove": lambda model: model.remove(users=[5]),
}


def linked(folder: Path) -> Path:
    link = folder.with_name("link")
    if not link.is_symlink():
        link.symlink_to(folder)
    return link


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return als().save(tmp_path / "model")


@pytest.mark.parametrize(
    ("way", "change"),
    [*((way, "remove") for way in LOADED), *(("load", change) for change in CHANGES)],
)
def test_a_model_is_not_saved_over_one_that_others_saved(
    folder: Path, way: str, change: str
) -> None:
    model = LOADED[way](folder)
    mfrank.load(folder).remove(users=[0]).save(folder)
    CHANGES[change](model)
    for place in (folder, linked(folder), str(folder) + os.sep):
        with refuses(ChangedFolderError, "overwrite", remedy=r"load it again.*overwrite=True"):
            model.save(place)
    assert mfrank.load(folder).store.n_users == DATA.n_users - 1
    model.save(folder.with_name("another"))
    model.save(folder, overwrite=True)
    assert mfrank.load(folder).store.n_users == model.store.n_users
    model.save(folder)  # it is that of this model now


@pytest.mark.parametrize("way", LOADED)
def test_one_that_is_as_it_was_loaded_is_replaced(folder: Path, way: str) -> None:
    model = LOADED[way](folder)
    for user in (3, 1):
        model.remove(users=[user]).save(folder)
    assert mfrank.load(folder).store.n_users == DATA.n_users - 2


def test_a_model_that_was_saved_knows_its_folder(folder: Path) -> None:
    model = als()
    model.save(folder)
    mfrank.load(folder).remove(users=[0]).save(folder)
    with pytest.raises(ChangedFolderError):
        model.remove(users=[1]).save(folder)
    again = mfrank.load(folder).remove(users=[1])
    again.save(folder)
    assert mfrank.load(folder).store.n_users == DATA.n_users - 2


def test_copies_of_a_model_are_others(folder: Path) -> None:
    model = mfrank.load(folder)
    other = copy.copy(model)
    model.remove(users=[0]).save(folder)
    with pytest.raises(ChangedFolderError):
        other.remove(users=[1]).save(folder)


def test_a_new_fit_replaces_what_is_there(folder: Path) -> None:
    model = mfrank.ALS.load(folder)
    mfrank.load(folder).remove(users=[0]).save(folder)
    als().save(folder)
    model.fit(DATA)
    mfrank.load(folder).remove(users=[0]).save(folder)
    model.save(folder)
    assert mfrank.load(folder).store.n_users == DATA.n_users


ANEW: dict[str, Callable[[Any], Any]] = {
    "fit": lambda model: model.fit(DATA),
    "refit": lambda model: mfrank.refit(model, DATA),
    "two fits": lambda model: mfrank.refit(model.fit(DATA), DATA),
}


@pytest.mark.parametrize("anew", ANEW)
@pytest.mark.parametrize(
    "make", [als, mfrank.EASE, mfrank.Popularity, lambda: mfrank.Blend([als(), mfrank.EASE()])]
)
@pytest.mark.parametrize("known", ["loaded", "saved"])
def test_what_others_saved_before_a_new_fit_is_told_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, anew: str, make: Any, known: str
) -> None:
    folder = tmp_path / "model"
    model = make().fit(DATA)
    model.save(folder)
    if known == "loaded":
        model = mfrank.load(folder)
    for others in (False, True):
        if others:
            mfrank.load(folder).remove(users=[0]).save(folder)
        made = ANEW[anew](model)
        caplog.clear()
        made.save(folder)
        told = sum("another process saved" in each for each in caplog.messages)
        assert told == others
        assert mfrank.load(folder).store.n_users == DATA.n_users
        model = made
    mfrank.roll_back(folder)
    assert mfrank.load(folder).store.n_users == DATA.n_users - 1


def test_a_model_that_is_saved_again_is_not_told_of_itself(folder: Path, caplog: Any) -> None:
    model = mfrank.load(folder).fit(DATA)
    model.save(folder)
    model.remove(users=[0]).save(folder)
    model.fit(DATA).save(folder, overwrite=True)
    assert not [each for each in caplog.messages if "another process" in each]


def test_a_link_that_was_set_to_another_model_has_changed(folder: Path) -> None:
    link = linked(folder)
    model = mfrank.load(link)
    other = shutil.copytree(folder, folder.with_name("newer"))
    mfrank.load(other).remove(users=[0]).save(other)
    link.unlink()
    link.symlink_to(other)
    with pytest.raises(ChangedFolderError):
        model.save(link)


def test_a_folder_that_was_removed_is_made_again(folder: Path) -> None:
    model = mfrank.load(folder)
    shutil.rmtree(folder)
    model.save(folder)
    assert mfrank.load(folder).store.n_users == DATA.n_users


@pytest.mark.parametrize(
    "fitted",
    [
        mfrank.Descent(mfrank.BPR(), 3, 1, random_state=0),
        mfrank.EASE(),
        mfrank.ItemKNN(),
        mfrank.Popularity(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_so_does_every_model(fitted: Any, tmp_path: Path) -> None:
    fitted.fit(DATA).save(tmp_path / "m")
    one, other = (mfrank.load(tmp_path / "m") for _ in range(2))
    one.save(tmp_path / "m")
    with pytest.raises(ChangedFolderError):
        other.save(tmp_path / "m")
    other.save(tmp_path / "m", overwrite=True)


def test_so_does_a_reranker(tmp_path: Path) -> None:
    pytest.importorskip("catboost")
    split = mfrank.by_ratio(DATA, train=0.6, valid=0.4, test=0.0, random_state=0)
    first = mfrank.ALS(mfrank.IALS(), 3, 2, random_state=0).fit(split.train)
    reranker = mfrank.Reranker(first, candidates=5, iterations=2, loss="QueryRMSE", n_threads=1)
    reranker.fit(split.train, split.valid).save(tmp_path / "m")
    one, other = (mfrank.Reranker.load(tmp_path / "m") for _ in range(2))
    copied, moved = copy.copy(one), one.over(first)
    one.save(tmp_path / "m")
    one.save(tmp_path / "m")
    for stale in (other, reranker, copied, moved):
        with pytest.raises(ChangedFolderError):
            stale.save(tmp_path / "m")
    other.save(tmp_path / "m", overwrite=True)
    reranker.fit(split.train, split.valid).save(tmp_path / "m")


MADE: dict[str, Callable[[mfrank.Interactions], mfrank.Interactions]] = {
    "as they are": lambda data: data,
    "with a day after them": lambda data: data + TUESDAY,
    "with a day before them": lambda data: TUESDAY + data,
    "some": lambda data: data.take(data.user_items.data > 0),
    "weighted": lambda data: data.weighted([2.0] * data.nnz),
    "k_core": lambda data: data.k_core(1),
    "a split": lambda data: mfrank.by_ratio(data, train=0.9, valid=0.1, test=0.0).train,
    "pickled": lambda data: pickle.loads(pickle.dumps(data)),
}


@pytest.mark.parametrize("way", MADE)
def test_nor_are_interactions(way: str, tmp_path: Path) -> None:
    folder = DATA.to_folder(tmp_path / "data")
    data = mfrank.Interactions.open(folder)
    mine = MADE[way](data)
    days = data + MONDAY
    days.to_folder(folder)
    with refuses(ChangedFolderError, "overwrite", remedy=r"overwrite=True"):
        mine.to_folder(folder)
    assert mfrank.Interactions.open(folder).nnz == DATA.nnz + 1
    (days + TUESDAY).to_folder(folder)
    assert mfrank.Interactions.open(folder).nnz == DATA.nnz + 2
    mine.to_folder(folder, overwrite=True)
    assert mfrank.Interactions.open(folder).nnz == mine.nnz


@pytest.mark.parametrize("kind", ["model", "loaded model", "interactions"])
@pytest.mark.parametrize("is_done", [True, False], ids=["after it", "before it"])
def test_a_save_stopped_about_its_last_step_is_not_that_of_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, is_done: bool
) -> None:
    """Ctrl-C around the rename, which is the save: whether or not it was done, one may go on."""
    folder, put_in_place = tmp_path / "saved", os.replace
    if kind == "interactions":
        DATA.to_folder(folder)
        saved: Any = mfrank.Interactions.open(folder)
        save = saved.to_folder
    else:
        saved = als()
        saved.save(folder)
        saved = mfrank.load(folder) if kind == "loaded model" else saved
        save = saved.save

    def stopped(*paths: Any) -> None:
        if is_done:
            put_in_place(*paths)
        raise KeyboardInterrupt

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", stopped)
            with pytest.raises(KeyboardInterrupt):
                save(folder)
    save(folder)
    somebody = mfrank.Interactions.open if kind == "interactions" else mfrank.load
    other: Any = somebody(folder)
    (other.to_folder if kind == "interactions" else other.save)(folder)
    with pytest.raises(ChangedFolderError):
        save(folder)


def test_a_fit_that_goes_on_from_a_checkpoint_is_new_too(folder: Path) -> None:
    """Also one that has nothing left to do: it replaces what is there, as any fit does."""
    for model in (mfrank.ALS(mfrank.IALS(), 3, 2), mfrank.Descent(mfrank.BPR(), 3, 2)):
        state = folder.with_name(type(model).__name__)
        model.set_params(random_state=0, n_threads=1).fit(DATA, checkpoint=state).save(folder)
        mine = mfrank.load(folder)
        mfrank.load(folder).save(folder)
        mine.fit(DATA, checkpoint=state)
        mine.save(folder)


@pytest.mark.parametrize("moment", ["before the fit is held", "after the old one was read"])
def test_a_save_beside_the_end_of_a_fit_saves_no_old_model_over_changes(
    folder: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = mfrank.ALS.load(folder).set_params(iterations=1)
    mfrank.load(folder).remove(users=[0]).save(folder)
    hold, now = mfrank.ALS._hold, mfrank.ALS._now

    def held(self: Any, *args: Any) -> None:
        if self is model:
            with pytest.raises(ChangedFolderError):
                model.save(folder)
        hold(self, *args)

    def read(self: Any) -> Any:
        old = now(self)
        monkeypatch.undo()
        self.fit(DATA)
        return old

    if moment == "before the fit is held":
        monkeypatch.setattr(mfrank.ALS, "_hold", held)
        model.fit(DATA)
    else:
        monkeypatch.setattr(mfrank.ALS, "_now", read)
        with pytest.raises(ChangedFolderError):
            model.save(folder)
    assert mfrank.load(folder).store.n_users == DATA.n_users - 1


@pytest.mark.parametrize("how", ["new", "overwriting"])
def test_a_save_over_anything_that_was_stopped_may_be_repeated(
    folder: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Whoever may replace what is there may try it again, where the last step failed."""
    model = als()
    if how == "overwriting":
        model = mfrank.ALS.load(folder)
        mfrank.load(folder).remove(users=[0]).save(folder)
    for error in (OSError, KeyboardInterrupt, KeyboardInterrupt):

        def stopped(*_: Any, error: type[BaseException] = error) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", stopped)
            with pytest.raises(error):
                model.save(folder, overwrite=how == "overwriting")
    model.save(folder)
    assert mfrank.load(folder).store.n_users == DATA.n_users


COPIES: dict[str, Callable[[Any], Any]] = {
    "itself": lambda model: model,
    "copied": copy.copy,
    "deeply copied": copy.deepcopy,
    "pickled": lambda model: pickle.loads(pickle.dumps(model)),
}


@pytest.mark.parametrize("start", ["fitted", "saved", "loaded"])
@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("change", ["none", "partial_fit", "remove"])
def test_what_a_models_own_store_was_saved_as_is_its_own(
    tmp_path: Path, start: str, how: str, change: str
) -> None:
    """In all orders; and what somebody else saves after it is not."""
    folder, model = tmp_path / "model", als()
    if start != "fitted":
        model.save(folder)
    if start == "loaded":
        model = mfrank.ALS.load(folder)
    model.store.save(folder)
    model = CHANGES[change](COPIES[how](model))
    for _ in range(2):
        model.save(folder)
        model.store.save(folder)
        model.store.save(folder)
    model = COPIES[how](model)
    model.save(folder)
    model.store.save(folder)
    mfrank.load(folder).save(folder)
    with refuses(ChangedFolderError, "overwrite", remedy=r"load it again.*overwrite=True"):
        model.partial_fit(MONDAY).save(folder)


def test_the_store_of_another_is_that_of_somebody_else(folder: Path) -> None:
    model, other = mfrank.load(folder), mfrank.load(folder)
    copied = copy.copy(model)
    copied.partial_fit(MONDAY)
    for saved in (other.store, copied.store):
        saved.save(folder)
        with pytest.raises(ChangedFolderError):
            model.save(folder)


def test_a_fit_that_saves_each_epoch_saves_the_last(folder: Path) -> None:
    model = mfrank.ALS.load(folder)
    model.fit(DATA, callback=lambda *_: model.store.save(folder))
    model.save(folder)
    model.fit(DATA, callback=lambda *_: model.save(folder))
    model.save(folder)


def test_a_new_fit_replaces_what_the_store_was_saved_over(folder: Path) -> None:
    for model in (mfrank.ALS.load(folder), mfrank.Popularity().fit(DATA)):
        model.store.save(folder)
        mfrank.load(folder).save(folder)
        model.fit(DATA).save(folder)


def test_two_models_in_turn_over_one_another(folder: Path) -> None:
    """A model that is new there replaces what is there; the first then asks to be sure."""
    first, second = als(), als()
    first.save(folder)
    second.save(folder)
    with refuses(ChangedFolderError, "overwrite", remedy="overwrite=True"):
        first.save(folder)
    first.save(folder, overwrite=True)
    with refuses(ChangedFolderError, "overwrite", remedy="overwrite=True"):
        second.save(folder)


# A new fit replaces what is there, and of another catalog that is most likely a mistake.


def of_items(first: int, n: int = 40, write: Callable[[int], Any] = int) -> mfrank.EASE:
    items = [write(each) for each in range(first, first + n)]
    return mfrank.EASE().fit(mfrank.Interactions.from_arrays([k % 7 for k in range(n)], items))


def fitted_by_command(model: Any, at: Path) -> None:
    rows = "".join(f"{k % 7},{item}\n" for k, item in enumerate(model.item_ids.labels))
    at.with_name("log.csv").write_text("user,item\n" + rows)
    file, ids = str(at.with_name("log.csv")), "auto" if model.item_ids.are_numbers else "text"
    assert main(["fit", file, "--model", str(at), "--factors", "2", "--ids", ids]) == 0


SAVES: dict[str, Callable[[Any, Path], Any]] = {
    "a fit": lambda model, at: model.save(at),
    "a store": lambda model, at: model.store.save(at),
    "a model of elsewhere": lambda model, at: mfrank.load(
        model.save(at.with_name("elsewhere"))
    ).save(at),
    "a change of elsewhere": lambda model, at: (
        mfrank.load(model.save(at.with_name("elsewhere"))).remove(users=[3]).save(at)
    ),
    "the command": lambda model, at: fitted_by_command(model, at),
}


@pytest.mark.parametrize("save", SAVES)
@pytest.mark.parametrize("write", [int, str], ids=["numbers", "texts"])
def test_a_model_of_other_items_is_told_and_the_one_before_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, save: str, write: Any
) -> None:
    folder = of_items(0).save(tmp_path / "model")
    SAVES[save](of_items(500, write=write), folder)
    assert sum("a model of other items" in each for each in caplog.messages) == 1
    assert mfrank.load(folder).item_ids.labels[0] == write(500)
    mfrank.roll_back(folder)
    assert mfrank.load(folder).item_ids.labels[0] == 0


def test_a_catalog_that_changes_is_one(
    folder: Path, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Items come and go; few items may all be new, and what has lost its items had them."""
    here = tmp_path / "here"
    for model in (of_items(35), of_items(0), mfrank.Popularity().fit(DATA), of_items(0)):
        model.save(here)
    for place, n in ((5, 10), (100, 10), (200, 200)):
        of_items(place, n).save(tmp_path / "few")
    model = of_items(0)
    model.save(here)
    model.partial_fit(mfrank.Interactions.from_arrays([0] * 50, range(900, 950)))
    model.remove(items=range(40)).save(here)
    assert not [each for each in caplog.messages if "other items" in each]
    assert mfrank.load(here).store.n_items == 50
    with refuses(ValueError, "version"):
        mfrank.load(here, version=1)

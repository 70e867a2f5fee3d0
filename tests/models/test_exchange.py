"""Stores survive safetensors to the bit, and implicit's files both ways with equal answers."""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fits import als
from hypothesis import given, settings
from problems import toy
from stores import same, store, stores

import mfrank
from mfrank.als import FoldIn
from mfrank.arrays import CSR
from mfrank.data import Counts, Ids
from mfrank.models import from_implicit, from_safetensors, restore, to_implicit, to_safetensors
from tests.support.errors import refuses

OPTIONAL = {"user_biases": None, "item_biases": None, "item_prior": None}


@settings(max_examples=40, deadline=None)
@given(saved=stores())
def test_safetensors_gives_back_the_same_store(
    tmp_path_factory: pytest.TempPathFactory, saved: mfrank.FactorStore
) -> None:
    pytest.importorskip("safetensors", reason="the package safetensors is optional")
    path = tmp_path_factory.mktemp("s") / "store.safetensors"
    assert to_safetensors(saved, str(path)) == path
    assert same(from_safetensors(path), saved)


def test_other_safetensors_files_are_refused(tmp_path: Path) -> None:
    numpy_format = pytest.importorskip("safetensors.numpy", reason="safetensors is optional")
    path = to_safetensors(store(), tmp_path / "x")
    header = {"format": "mfrank.factors", "version": "1", "metadata": "{}"}
    for changes, message in [
        ({"format": "pt"}, "does not hold 'mfrank.factors' but 'pt'"),
        ({"version": "2"}, "upgrade mfrank"),
        ({"version": "-1"}, "no format version"),
        ({"more": "x"}, "unknown keys: 'more'"),
        ({"metadata": "{NaN}"}, "not readable as JSON"),
        ({}, "lacks: 'fitter', 'history', 'versions'"),
    ]:
        numpy_format.save_file({"a": np.ones(2)}, path, metadata=header | changes)
        with pytest.raises(ValueError, match=message):
            from_safetensors(path)
    numpy_format.save_file({"a b": np.ones(2)}, path, metadata=header)
    with pytest.raises(ValueError, match=f"{path} is damaged: tensor a b: an array's name must"):
        from_safetensors(path)
    for dtype, size in [("BF16", 2), ("C64", 8)]:  # complex numbers since safetensors 0.7
        array = {"dtype": dtype, "shape": [1], "data_offsets": [0, size]}
        text = json.dumps({"__metadata__": header, "a": array}).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(size))
        with refuses(ValueError, None, remedy="restore it"):
            from_safetensors(path)
    numpy_format.save_file({"a": np.ones(2)}, path)
    with refuses(ValueError, place=path):
        from_safetensors(path)
    path.write_bytes(b"nonsense")
    with refuses(ValueError, place="x", remedy="restore it"):
        from_safetensors(path)
    with pytest.raises(FileNotFoundError):
        from_safetensors(tmp_path / "absent")


def test_without_safetensors_the_remedy_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"pip install mfrank\[safetensors\]"):
        to_safetensors(store(), tmp_path / "x")


@pytest.mark.parametrize("export", [to_safetensors, to_implicit])
def test_a_failed_export_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, export: Any
) -> None:
    pytest.importorskip("safetensors", reason="the package safetensors is optional")
    (tmp_path / "x.npz").write_text("old")

    def full(*_: Any) -> None:
        raise OSError("no space left")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr("os." + name, full)
            with pytest.raises(OSError, match="no space"):
                export(store(**OPTIONAL), tmp_path / "x.npz")
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.npz"]
    assert (tmp_path / "x.npz").read_text() == "old"


def test_safetensors_that_cannot_be_written_leave_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numpy_format = pytest.importorskip("safetensors.numpy", reason="safetensors is optional")
    path = to_safetensors(store(), tmp_path / "x")
    old = path.read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise sys.modules["safetensors"].SafetensorError("disk full")

    monkeypatch.setattr(numpy_format, "save_file", full)
    with pytest.raises(OSError, match="cannot be written: disk full"):
        to_safetensors(store(n_users=9), path)
    assert path.read_bytes() == old


@pytest.fixture(scope="module")
def user_items() -> sp.csr_matrix:
    rng = np.random.default_rng(1)
    return sp.csr_matrix(sp.random(30, 20, 0.3, "csr", dtype=np.float32, random_state=rng))


@pytest.fixture
def models() -> dict[str, Any]:
    """Implicit's classes by the name that mfrank gives them."""
    pytest.importorskip("implicit", reason="the package implicit is optional")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from implicit.cpu.als import AlternatingLeastSquares
        from implicit.cpu.bpr import BayesianPersonalizedRanking
        from implicit.cpu.lmf import LogisticMatrixFactorization
    return {
        "ALS": AlternatingLeastSquares,
        "implicit.bpr": BayesianPersonalizedRanking,
        "implicit.lmf": LogisticMatrixFactorization,
    }


def fitted(model: Any, user_items: sp.csr_matrix) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = model(factors=4, iterations=3, random_state=0, num_threads=1, regularization=0.3)
        made.fit(user_items, show_progress=False)
    return made


def loaded(model: Any, path: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return model.load(str(path))


def scores(store: mfrank.FactorStore) -> Any:
    """The store's definition of a score."""
    found = store.user_factors @ store.item_factors.T
    found = found + (0 if store.user_biases is None else store.user_biases[:, None])
    return found + (0 if store.item_biases is None else store.item_biases)


@pytest.mark.parametrize("name", ["ALS", "implicit.bpr", "implicit.lmf"])
def test_a_file_of_implicit_comes_and_goes(
    tmp_path: Path, models: dict[str, Any], user_items: sp.csr_matrix, name: str
) -> None:
    theirs = fitted(models[name], user_items)
    theirs.save(str(tmp_path / "theirs.npz"))
    ours = from_implicit(tmp_path / "theirs.npz")
    assert ours.fitter["name"] == name
    assert np.array_equal(ours.user_factors, theirs.user_factors)
    assert np.array_equal(ours.item_factors, theirs.item_factors)
    back = loaded(models[name], to_implicit(ours, tmp_path / "back"))
    users = np.arange(30)
    for got, wanted in zip(
        back.recommend(users, user_items), theirs.recommend(users, user_items), strict=True
    ):
        assert np.array_equal(got, wanted)
    assert (back.factors, back.dtype, back.regularization) == (4, np.float32, 0.3)


def test_implicit_recommends_what_a_store_with_biases_scores_highest(
    tmp_path: Path, models: dict[str, Any]
) -> None:
    every = store(n_users=6, n_items=9, item_prior=None)
    for biases in ({}, {"user_biases": None}, {"item_biases": None}, OPTIONAL):
        ours = store(n_users=6, n_items=9, **{"item_prior": None, **biases})
        theirs = loaded(models["ALS"], to_implicit(ours, tmp_path / "x.npz"))
        got, values = theirs.recommend(np.arange(6), None, N=9, filter_already_liked_items=False)
        wanted = scores(ours)
        assert np.array_equal(got, np.argsort(-wanted, axis=1))
        assert np.allclose(values, np.take_along_axis(wanted, got, axis=1), rtol=1e-12)
    assert not np.array_equal(scores(every), scores(ours))  # biases did matter


def test_an_imported_als_folds_in_as_implicit_does(
    tmp_path: Path, models: dict[str, Any], user_items: sp.csr_matrix
) -> None:
    theirs = fitted(models["ALS"], user_items)
    theirs.save(str(tmp_path / "theirs.npz"))
    ours = from_implicit(tmp_path / "theirs.npz")
    options = ours.fitter["options"]
    assert options.keys() <= {f.name for f in fields(mfrank.ALS)}
    objective = restore(options["objective"], {"WRMF": mfrank.WRMF})
    assert objective == mfrank.WRMF(alpha=1.0, regularization=0.3)
    again = loaded(models["ALS"], to_implicit(ours, tmp_path / "back"))
    wanted = theirs.recalculate_user(np.arange(30), user_items)
    assert np.array_equal(again.recalculate_user(np.arange(30), user_items), wanted)
    fold_in = FoldIn(objective, ours, backend="reference")
    got, _ = fold_in.users_and_biases(CSR.from_scipy(sp.csr_array(user_items)))
    assert np.allclose(got, wanted, rtol=1e-3, atol=1e-4)


def test_a_file_of_implicit_is_saved_and_loaded_as_a_model_that_folds_in(tmp_path: Path) -> None:
    matrix = toy()
    model = als(mfrank.WRMF(alpha=2, regularization=0.3, confidence="alpha*r", nu=0)).fit(matrix)
    read = from_implicit(to_implicit(model.store, tmp_path / "x"))
    loaded = mfrank.load(read.save(tmp_path / "model"))
    np.testing.assert_allclose(
        loaded.recalculate_user(range(9), matrix), model.recalculate_user(range(9), matrix), 1e-5
    )


def test_ids_and_counts_can_be_given(tmp_path: Path) -> None:
    counts = Counts(np.array([1, 2]), np.array([3]))
    np.savez(tmp_path / "x.npz", user_factors=np.ones((2, 3)), item_factors=np.ones((1, 3)))
    ids = Ids.of(["a", "b"])
    ours = from_implicit(tmp_path / "x.npz", user_ids=ids, counts=counts)
    assert (ours.user_ids, ours.item_ids) == (ids, Ids.numbered(1))
    assert np.array_equal(ours.counts.users, [1, 2])
    with refuses(ValueError, "item_factors"):
        from_implicit(tmp_path / "x.npz", item_ids=ids)


class Trap:
    """Unpickling this is noticed."""

    sprung = False

    def __reduce__(self) -> Any:
        return setattr, (Trap, "sprung", True)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    factors = np.ones((2, 3))
    path = tmp_path / "x.npz"
    trap = np.array(Trap(), dtype=object)
    np.savez(path, user_factors=factors, item_factors=factors, alpha=2.0, random_state=trap)
    assert from_implicit(path).fitter["options"]["objective"]["options"]["alpha"] == 2.0
    for name in ("alpha", "user_factors"):
        np.savez(path, **{"user_factors": factors, "item_factors": factors, name: trap})
        with refuses(ValueError, place="x.npz", remedy="restore it"):
            from_implicit(path)
    assert not Trap.sprung


def test_what_was_pickled_is_not_written_again(tmp_path: Path) -> None:
    factors = np.ones((2, 3))
    trap = np.array(Trap(), dtype=object)
    np.savez(
        tmp_path / "x.npz",
        user_factors=factors,
        item_factors=factors,
        neg_prop=7,
        random_state=trap,
    )
    path = to_implicit(from_implicit(tmp_path / "x.npz"), tmp_path / "y")
    assert path == tmp_path / "y.npz"
    assert to_implicit(from_implicit(path), path) == path  # the suffix is there
    with np.load(path, allow_pickle=False) as file:
        written = {name: file[name] for name in file.files}
    assert written.keys() == {"user_factors", "item_factors", "factors", "dtype", "neg_prop"}
    assert written["neg_prop"] == 7


def test_other_npz_files_are_refused(tmp_path: Path) -> None:
    factors = {"user_factors": np.ones((2, 3)), "item_factors": np.ones((4, 3))}
    path = tmp_path / "x.npz"
    for changes, fault in [
        ({"fit": 1}, {"place": "x.npz", "remedy": "restore it"}),
        ({"neg_prop": 1, "alpha": 1}, {"place": "x.npz", "remedy": "restore it"}),
        ({"alpha": [1, 2]}, {"place": "x.npz", "remedy": "pass a file"}),
        ({"user_factors": 1.0}, {"argument": "user_factors", "remedy": "restore it"}),
        ({"user_factors": np.ones((2, 2))}, {"argument": "user_factors"}),
        (
            {"user_factors": np.full((2, 3), np.nan)},
            {"argument": "user_factors", "remedy": "if these are fitted"},
        ),
        ({"alpha": -1.0}, {"argument": "alpha"}),
    ]:
        np.savez(path, **{**factors, **changes})
        with refuses(ValueError, **fault):
            from_implicit(path)
    np.savez(path, item_factors=np.ones((4, 3)))
    with refuses(ValueError, place="x.npz", remedy="restore it"):
        from_implicit(path)
    np.save(tmp_path / "x.npy", np.ones(3))
    with refuses(ValueError, place="x.npy", remedy="pass a file"):
        from_implicit(tmp_path / "x.npy")
    with pytest.raises(FileNotFoundError):
        from_implicit(tmp_path / "absent.npz")
    np.savez(path, **factors)
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    with refuses(ValueError, place="x.npz", remedy="restore it"):
        from_implicit(path)


def test_a_prior_cannot_go_to_implicit(tmp_path: Path) -> None:
    with refuses(ValueError, "item_prior"):
        to_implicit(store(), tmp_path / "x.npz")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("write", [to_implicit, to_safetensors])
def test_only_a_store_is_written(tmp_path: Path, write: Any) -> None:
    for other in (None, 5, mfrank.ALS()):
        with refuses(TypeError, "store"):
            write(other, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []

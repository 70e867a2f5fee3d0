"""A model in one file object is the model in a folder, and no file can do harm."""

from __future__ import annotations

import io
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fits import als, labeled, same_factors
from folders import FORMAT, contents, value_of
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import toy

import mfrank
from mfrank.files import Format, read_from, write_to
from tests.support.errors import refuses

MODEL = als().fit(labeled())


def saved(model: Any = MODEL, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    assert model.save(file, **options) is None
    file.seek(0)
    return file


def stored(value: int = 3) -> bytes:
    file = io.BytesIO()
    write_to(file, contents(value), FORMAT)
    return file.getvalue()


@pytest.mark.parametrize("load", [mfrank.load, mfrank.ALS.load])
def test_a_model_comes_back_whole(load: Any) -> None:
    loaded = load(saved())
    assert isinstance(loaded, mfrank.ALS)
    assert same_factors(loaded, MODEL)
    assert loaded.recommend("u1").to_dicts() == MODEL.recommend("u1").to_dicts()
    with refuses(ValueError, "user_items"):
        load(saved(with_seen=False)).recommend("u1")


def test_other_models_come_back_too() -> None:
    data = mfrank.Interactions.from_arrays([0, 0, 1], [0, 1, 2], timestamps=[1, 2, 3])
    walk = mfrank.SupervisedPageRank(method=None).fit(data)
    assert mfrank.load(saved(walk)).recommend(0).to_dicts() == walk.recommend(0).to_dicts()
    store = mfrank.FactorStore.load(saved(MODEL.store))
    np.testing.assert_array_equal(store.item_factors, MODEL.item_factors)


def test_real_files_serve_and_stay_open() -> None:
    with tempfile.TemporaryFile() as file:
        MODEL.save(file)
        file.seek(0)
        assert same_factors(mfrank.load(file), MODEL)
        assert not file.closed


def test_the_same_model_is_the_same_bytes() -> None:
    assert saved().getvalue() == saved().getvalue()


def test_unzipped_it_is_a_folder(tmp_path: Path) -> None:
    with zipfile.ZipFile(saved()) as archive:
        archive.extractall(tmp_path / "model")
    loaded = mfrank.load(tmp_path / "model", verify=True)
    assert same_factors(loaded, MODEL)
    loaded.save(tmp_path / "model")


def test_arrays_of_all_shapes_come_back() -> None:
    assert value_of(read_from(io.BytesIO(stored(5)), FORMAT)) == 5


class Written:
    """A file object that can only be written to, such as a pipe."""

    def __init__(self) -> None:
        self.bytes = bytearray()

    def write(self, part: bytes) -> int:
        self.bytes += part
        return len(part)

    def flush(self) -> None:
        pass


class Read:
    """A file object that can only be read."""

    def __init__(self, content: bytes) -> None:
        file = io.BytesIO(content)
        self.read, self.seek, self.tell = file.read, file.seek, file.tell
        self.seekable = file.seekable


def test_a_file_object_need_only_be_written_to_or_read() -> None:
    file = Written()
    MODEL.save(file)  # type: ignore[arg-type]
    assert same_factors(mfrank.load(Read(bytes(file.bytes))), MODEL)  # type: ignore[arg-type]


def test_arrays_may_be_longer_than_a_zip_of_old_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    assert value_of(read_from(io.BytesIO(stored(5)), FORMAT)) == 5


def test_a_file_without_its_beginning_is_damaged() -> None:
    with refuses(ValueError, place="the file object", remedy="restore it"):
        read_from(io.BytesIO(stored()[10:]), FORMAT)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damage_is_a_value_error_or_does_no_harm(data: st.DataObject) -> None:
    good = bytearray(stored())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(good) - 1))
        good[place] = data.draw(st.integers(0, 255))
    end = data.draw(st.one_of(st.just(len(good)), st.integers(0, len(good))))
    with suppress(ValueError):
        assert value_of(read_from(io.BytesIO(bytes(good[:end])), FORMAT)) == 3


@pytest.mark.parametrize("where", ["data", "manifest.json"])
def test_a_changed_value_is_found_by_its_checksum(where: str) -> None:
    """Even if the zip's own checksums are made to fit."""
    forged = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(stored())) as good, zipfile.ZipFile(forged, "w") as bad:
        for name in good.namelist():
            content = bytearray(good.read(name))
            if where == "data" and name.endswith("/a.npy"):
                content[-1] ^= 1
            elif name == where:
                content = content.replace(b'"sha256": "', b'"sha256": "0')
            bad.writestr(name, bytes(content))
    with refuses(ValueError, remedy="restore it"):
        read_from(forged, FORMAT)


def test_bombs_are_not_unpacked() -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", b" " * 10**7)
    with refuses(ValueError, place="the file object", remedy="restore it"):
        read_from(bomb, FORMAT)


def test_members_that_overlap_cannot_claim_more_than_there_is() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("manifest.json", b" " * 1000)
        archive.filelist *= 100  # the directory names the one member over and over
    with refuses(ValueError, place="the file object", remedy="restore it"):
        read_from(file, FORMAT)


def test_names_that_lead_elsewhere_lead_nowhere(tmp_path: Path) -> None:
    """A member is only ever looked up, by the name of an array."""
    forged = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(stored())) as good, zipfile.ZipFile(forged, "w") as bad:
        for name in good.namelist():
            bad.writestr(name, good.read(name))
        bad.writestr(str(tmp_path / "evil"), b"evil")
        bad.writestr("../evil", b"evil")
    assert value_of(read_from(forged, FORMAT)) == 3
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (io.BytesIO(b""), "damaged, or no model was saved to it: File is not a zip file"),
        (io.BytesIO(b"{}" * 99), "damaged, or no model was saved to it"),
    ],
)
def test_other_files_are_refused(file: io.BytesIO, message: str) -> None:
    with refuses(ValueError, place="the file object", remedy="restore it"):
        mfrank.load(file)


def test_what_cannot_serve_is_refused_by_name(tmp_path: Path) -> None:
    with (tmp_path / "text").open("w+") as text:
        for call in (MODEL.save, mfrank.load):
            with pytest.raises(TypeError, match=r'opened for bytes: open\(path, "wb"\)'):
                call(text)
    assert not (tmp_path / "text").read_bytes()
    with refuses(ValueError, "mmap"):
        mfrank.load(saved(), mmap=True)
    pipe = saved()
    pipe.seekable = lambda: False  # type: ignore[method-assign]
    with refuses(ValueError, remedy="read it into an io.BytesIO"):
        mfrank.load(pipe)
    with refuses(ValueError, place="manifest.json of the file object", remedy="save it again"):
        read_from(io.BytesIO(stored()), Format(FORMAT.name, 2))
    with (tmp_path / "model.zip").open("wb+") as file:
        als().fit(toy()).store.save(file)
        with refuses(ValueError, place="model.zip", remedy=r"mfrank\.load loads any model"):
            mfrank.Descent.load(file)

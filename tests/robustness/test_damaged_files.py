"""Whatever happened to a saved file, reading it works or says that it is damaged, and where."""

from __future__ import annotations

import io
import json
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fits import als, labeled
from rerankers import CATBOOST, random_split, small

import mfrank
from mfrank.models import Reranker, from_implicit, from_safetensors, to_implicit, to_safetensors

MUTATIONS = 60

Damage = Callable[[bytes, np.random.Generator], bytes]

ODD: list[Any] = [
    *(None, True, -1, 0, 1, 1.5, -(10**18), 10**18, 10**400, 1e308),
    *("", "x", "\ud800", "data-0123456789abcdef", "../x", "\0", "<f8", "|O", "ALS", "auto"),
    *([], {}, [[]], [1] * 70, [10**18], [-1, 2], {"name": "ALS", "options": {}}),
]


def flipped(whole: bytes, rng: np.random.Generator) -> bytes:
    bits = np.frombuffer(whole, np.uint8).copy()
    if len(bits):
        bits[rng.integers(len(bits), size=rng.integers(1, 9))] ^= np.uint8(1 << rng.integers(8))
    return bits.tobytes()


def cut(whole: bytes, rng: np.random.Generator) -> bytes:
    return whole[: rng.integers(len(whole) + 1)]


def lengthened(whole: bytes, rng: np.random.Generator) -> bytes:
    return whole + rng.bytes(int(rng.integers(1, 99)))


def overwritten(whole: bytes, rng: np.random.Generator) -> bytes:
    begin = int(rng.integers(len(whole) + 1))
    return whole[:begin] + rng.bytes(9) + whole[begin + 9 :]


def renumbered(whole: bytes, rng: np.random.Generator) -> bytes:
    """A number in the text, such as of a shape, is another."""
    numbers = list(re.finditer(rb"\d+", whole[:500]))
    if not numbers:
        return whole
    number = numbers[rng.integers(len(numbers))]
    other = [b"0", b"-1", b"9" * 18, b"9" * 5000, b"1e999", b"(" * 99, b"\xff", b"'" * 3]
    return whole[: number.start()] + other[rng.integers(len(other))] + whole[number.end() :]


def header_of_arrays(whole: bytes, rng: np.random.Generator) -> bytes:
    """An npy file, if it is one, whose header is another program, as long as it says."""
    if not whole.startswith(b"\x93NUMPY"):
        return flipped(whole, rng)
    odd = [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000000,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': " + "(" * 5000,
        "{'descr': '<f8', 'fortran_order': False, 'shape': " + "-" * 9000 + "1, }",
        "{'descr': [('a', '<f8')], 'fortran_order': True, 'shape': (1,), }",
        "{'descr': ['a'], 'fortran_order': 1, 'shape': ('a',)}",
        "{'descr': {}, 'fortran_order': False, 'shape': (3L,)}",
        "{'descr': '<f8', [1]: 2}",
        "{'descr'",
        "'''",
        "\0",
        "1 +",
        "  \t 1\n\t2",
        "lambda: 0",
        "",
    ]
    header = odd[rng.integers(len(odd))].encode() + b"\n"
    size = int.from_bytes(whole[8:10], "little")
    return whole[:8] + len(header).to_bytes(2, "little") + header + whole[10 + size :]


def rewritten(whole: bytes, rng: np.random.Generator) -> bytes:
    """JSON, if it is that, with another value somewhere, or without it, or far too deep."""
    try:
        document = json.loads(whole)
    except ValueError:
        return cut(whole, rng)
    if rng.random() < 0.05:
        return b"[" * 100_000 if rng.random() < 0.5 else b'{"a":' * 100_000
    places = list(containers(document))
    place = places[rng.integers(len(places))]
    keys = list(place) if isinstance(place, dict) else list(range(len(place)))
    if not keys:
        return whole
    key = keys[rng.integers(len(keys))]
    if rng.random() < 0.2:
        del place[key]
    else:
        place[key] = ODD[rng.integers(len(ODD))]
    return json.dumps(document).encode()


def containers(document: Any) -> Iterator[Any]:
    if isinstance(document, dict | list):
        yield document
        for value in document.values() if isinstance(document, dict) else document:
            yield from containers(value)


DAMAGES: list[Damage] = [
    *(flipped, cut, lengthened, overwritten, renumbered, header_of_arrays),
    *(rewritten, rewritten, rewritten, rewritten),
    lambda whole, rng: b"",
]


def damage(folder: Path, rng: np.random.Generator) -> str:
    """Do something to one of a folder's files; what was done."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = files[rng.integers(len(files))]
    if rng.random() < 0.3:
        path = next(file for file in files if file.name == "manifest.json")
    how = rng.random()
    if how < 0.05:
        path.unlink()
        return f"no {path.name}"
    if how < 0.1:
        other = files[rng.integers(len(files))]
        other.replace(path)
        return f"{other.name} as {path.name}"
    chosen = DAMAGES[rng.integers(len(DAMAGES))]
    path.write_bytes(chosen(path.read_bytes(), rng))
    return f"{path.name} {chosen.__name__}"


def check(read: Callable[[], Any], told: str, where: Path) -> bool:
    """Whether reading was refused, by an error that names the place."""
    try:
        read()
    except Exception as error:
        is_told = isinstance(error, ValueError) and str(where) in str(error)
        if not (is_told or isinstance(error, FileNotFoundError)):
            raise AssertionError(f"{told}: {type(error).__name__}: {error}") from error
        return True
    return False


def save_als(folder: Path) -> None:
    als(mfrank.WRMF(), iterations=1).fit(labeled()).save(folder)


def save_descent(folder: Path) -> None:
    data = mfrank.synthetic(20, 10, 100, random_state=0)
    mfrank.Descent(mfrank.SONG(), 2, 1, item_biases=True, random_state=0).fit(data).save(folder)


def save_walk(folder: Path) -> None:
    users, items = [0, 0, 0, 1, 1, 1, 1, 2, 2], [0, 1, 2, 0, 1, 2, 3, 0, 1]
    data = mfrank.Interactions.from_arrays(users, items, timestamps=[1, 2, 3, 1, 2, 3, 4, 1, 2])
    mfrank.SupervisedPageRank(random_state=0).fit(data).save(folder)


def save_neighbors(folder: Path) -> None:
    mfrank.ItemKNN(neighbors=3).fit(mfrank.synthetic(20, 10, 100, random_state=0)).save(folder)


JUDGED = mfrank.Judged([[1.0, 5], [0, 4], [2, 5], [1, 1]], [1, 0, 2, 0], [1, 1, 2, 2])


def save_ranker(folder: Path) -> None:
    mfrank.LinearRanker(iterations=1, random_state=0).fit(JUDGED).save(folder)


def save_reranker(folder: Path) -> None:
    pytest.importorskip("catboost", reason=CATBOOST)
    split = random_split()
    reranker = small(als().fit(split.train), iterations=2)
    reranker.fit(split.train, split.valid, item_features=np.ones((30, 1))).save(folder)


STATE = mfrank.synthetic(20, 10, 100, random_state=0)


def fit_from(folder: Path) -> None:
    options: dict[str, Any] = {"optimizer": mfrank.SGD(0.1, momentum=0.5), "random_state": 0}
    mfrank.Descent(mfrank.SONG(), 2, 1, **options).fit(STATE, checkpoint=folder)


def als_from(folder: Path) -> None:
    mfrank.ALS(factors=2, iterations=1, random_state=0).fit(STATE, checkpoint=folder)


FOLDERS: dict[str, tuple[Callable[[Path], None], Callable[[Path], Any]]] = {
    "ALS": (save_als, mfrank.load),
    "ALS mapped": (save_als, lambda folder: mfrank.load(folder, mmap=True)),
    "Descent": (save_descent, mfrank.load),
    "walk": (save_walk, mfrank.load),
    "walk mapped": (save_walk, lambda folder: mfrank.load(folder, mmap=True)),
    "neighbors": (save_neighbors, mfrank.load),
    "neighbors mapped": (save_neighbors, lambda folder: mfrank.load(folder, mmap=True)),
    "store": (save_als, mfrank.FactorStore.load),
    "LinearRanker": (save_ranker, mfrank.LinearRanker.load),
    "Reranker": (save_reranker, Reranker.load),
    "checkpoint": (fit_from, fit_from),
    "ALS's checkpoint": (als_from, als_from),
}


@pytest.mark.parametrize("kind", FOLDERS)
def test_a_damaged_folder_is_read_or_told(tmp_path: Path, kind: str) -> None:
    save, read = FOLDERS[kind]
    save(tmp_path / "whole")
    rng, refused = np.random.default_rng(0), 0
    for _ in range(MUTATIONS):
        shutil.copytree(tmp_path / "whole", tmp_path / "m")
        told = damage(tmp_path / "m", rng)
        refused += check(lambda: read(tmp_path / "m"), told, tmp_path / "m")
        shutil.rmtree(tmp_path / "m")
    assert refused > MUTATIONS / 4


def in_zip(whole: bytes, rng: np.random.Generator) -> bytes:
    """An archive in which a member was damaged before it was packed."""
    names, packed = zipfile.ZipFile(io.BytesIO(whole)).namelist(), io.BytesIO()
    chosen, how = names[rng.integers(len(names))], DAMAGES[rng.integers(len(DAMAGES))]
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(packed, "w") as new:
        for name in names:
            content = old.read(name)
            new.writestr(name, how(content, rng) if name == chosen else content)
    return packed.getvalue()


def in_header(whole: bytes, rng: np.random.Generator) -> bytes:
    """A safetensors file whose header was rewritten, as long as it says."""
    size = int.from_bytes(whole[:8], "little")
    header = rewritten(whole[8 : 8 + size], rng)
    return len(header).to_bytes(8, "little") + header + whole[8 + size :]


def in_metadata(whole: bytes, rng: np.random.Generator) -> bytes:
    size = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + size])
    told = header["__metadata__"]
    told["metadata"] = rewritten(told["metadata"].encode(), rng).decode("utf-8", "replace")
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + whole[8 + size :]


def save_tensors(path: Path) -> None:
    pytest.importorskip("safetensors", reason="the package safetensors is optional")
    to_safetensors(als().fit(labeled()).store, path)


def save_npz(path: Path) -> None:
    to_implicit(als(mfrank.WRMF()).fit(labeled()).store, path)


def save_letor(path: Path) -> None:
    lines = (f"{n % 3} qid:{n // 3} 1:0.{n} 2:{n}e-1 5:-3 # document {n}" for n in range(9))
    path.write_text("\n".join(lines))


FILES: dict[str, tuple[Callable[[Path], None], Callable[[Path], Any], list[Damage]]] = {
    "safetensors": (save_tensors, from_safetensors, [*DAMAGES, in_header, in_metadata]),
    "npz": (save_npz, from_implicit, [*DAMAGES, in_zip, in_zip, in_zip]),
    "LETOR": (save_letor, mfrank.Judged.from_svmlight, DAMAGES),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_damaged_file_is_read_or_told(tmp_path: Path, kind: str) -> None:
    save, read, damages = FILES[kind]
    path = tmp_path / "m.npz"
    save(path)
    whole, rng, refused = path.read_bytes(), np.random.default_rng(0), 0
    for _ in range(3 * MUTATIONS):
        how = damages[rng.integers(len(damages))]
        path.write_bytes(how(whole, rng))
        refused += check(lambda: read(path), how.__name__, path)
    assert refused > MUTATIONS / 4

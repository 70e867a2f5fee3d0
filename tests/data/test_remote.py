"""Files elsewhere are read as files here: from a file system in memory, and from HTTP."""

from __future__ import annotations

import gzip
import http.server
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from test_interaction_folder import same

import mfrank
from mfrank.cli.main import main
from mfrank.data import ingest, remote, without_password
from tests.support.errors import refuses

fsspec = pytest.importorskip("fsspec", reason="the extra remote is not installed")
pytest.importorskip("aiohttp", reason="the extra remote is not installed")

RNG = np.random.default_rng(0)
FRAME = pandas.DataFrame({
    "user": RNG.integers(0, 99, 3000),
    "item": RNG.choice(list("abcdé"), 3000),
    "rating": RNG.integers(1, 9, 3000) / 4,
    "time": RNG.integers(1_700_000_000, 1_700_900_000, 3000),
})  # fmt: skip
TEXT = FRAME.to_csv(index=False).encode()


def files(folder: Path) -> dict[str, bytes]:
    FRAME.to_parquet(folder / "a.parquet", row_group_size=500)
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("a.csv", TEXT)
    np.savez(folder / "a.npz", **{name: _array(FRAME[name]) for name in FRAME})
    parts = {"a.csv": TEXT, "a.csv.gz": gzip.compress(TEXT), "a.json": _lines(FRAME)}
    return parts | {name: (folder / name).read_bytes() for name in ("a.parquet", "a.zip", "a.npz")}


def _array(column: pandas.Series) -> Any:
    return column.to_numpy().astype(str) if column.name == "item" else column.to_numpy()


def _lines(frame: pandas.DataFrame) -> bytes:
    return frame.to_json(orient="records", lines=True).encode()


class _Handler(http.server.BaseHTTPRequestHandler):
    """Serves files in the way that the first folder of the path says."""

    content: dict[str, bytes]
    asked: list[str]

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        way, _, name = self.path[1:].partition("?")[0].partition("/")
        type(self).asked.append(f"{self.command} {way}")
        body = self.content.get(name)
        if way == "moved":
            self.send_response(302)
            self.send_header("Location", f"/plain/{name}")
            self.end_headers()
        elif way in ("403", "500") or body is None:
            self.send_error(int(way) if way.isdigit() else 404)
        else:
            self._send(way, body)

    def _send(self, way: str, body: bytes) -> None:
        status, length = 200, len(body)
        if way == "parts" and (span := self.headers.get("Range")):
            first, _, last = span.removeprefix("bytes=").partition("-")
            begin, end = int(first), min(int(last or length), length - 1)
            status, whole, body = 206, length, body[begin : end + 1]
            length = len(body)
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {begin}-{end}/{whole}")
        if way == "parts":
            self.send_header("Accept-Ranges", "bytes")
        if way == "encoded":
            body = gzip.compress(body)
            length = len(body)
            self.send_header("Content-Encoding", "gzip")
        if way != "unsized":
            self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[: len(body) // 2] if way == "cut" else body)
        self.close_connection = True


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    _Handler.content, _Handler.asked = files(tmp_path_factory.mktemp("served")), []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Any]:
    fs = fsspec.filesystem("memory")
    fs.store.clear()
    yield fs
    fs.store.clear()


def both(url: Any, folder: Path, **how: Any) -> Iterator[mfrank.Interactions]:
    yield mfrank.Interactions.from_file(url, **how)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "_ROWS_AT_ONCE", 700)
        yield mfrank.Interactions.ingest(url, folder / "x", **how)


NAMES = ["a.csv", "a.csv.gz", "a.parquet", "a.zip", "a.json"]


@pytest.mark.parametrize("name", [*NAMES, "a.npz"])
@pytest.mark.parametrize("way", ["plain", "unsized", "moved", "encoded", "parts"])
def test_files_of_a_server_are_read(served: str, way: str, name: str, tmp_path: Path) -> None:
    one = mfrank.Interactions.from_frame(FRAME)
    for got in both(f"{served}/{way}/{name}", tmp_path):
        same(got, one)
    same(mfrank.Interactions.from_file(f"{served}/{way}/{name}?sig=s3cret"), one)


@pytest.mark.parametrize("name", NAMES)
def test_files_in_memory_are_read_by_name_pattern_and_folder(
    memory: Any, name: str, tmp_path: Path
) -> None:
    kind = name[1:]
    for begin in (0, 1000, 2000):
        part = FRAME[begin : begin + 1000]
        path = f"/shop/plays/day={begin}/p{kind}"
        (tmp_path / "parts").mkdir(exist_ok=True)
        packed = {".csv": part.to_csv(index=False).encode(), ".json": _lines(part)}
        packed[".csv.gz"] = gzip.compress(packed[".csv"])
        if kind == ".parquet":
            part.to_parquet(tmp_path / "parts" / name)
            packed[kind] = (tmp_path / "parts" / name).read_bytes()
        elif kind == ".zip":
            with zipfile.ZipFile(tmp_path / "parts" / name, "w") as archive:
                archive.writestr("a.csv", packed[".csv"])
            packed[kind] = (tmp_path / "parts" / name).read_bytes()
        memory.pipe(path, packed[kind])
    memory.pipe("/shop/plays/_SUCCESS", b"")
    memory.pipe("/shop/plays/_temporary/p.xlsx", b"")
    one = mfrank.Interactions.from_frame(FRAME)
    listed = [f"memory://shop/plays/day={begin}/p{kind}" for begin in (2000, 0, 1000)]
    for url in ("memory://shop/plays", f"memory://shop/plays/*/p*{kind}", listed):
        for got in both(url, tmp_path):
            same(got, one)
    by_day = mfrank.Interactions.from_file("memory://shop/plays", value="day")
    assert by_day.user_items.sum() == (FRAME.index // 1000 * 1000).to_numpy().sum()


def test_a_url_of_a_file_here_is_its_path(tmp_path: Path) -> None:
    (tmp_path / "a b.csv").write_bytes(TEXT)
    url = (tmp_path / "a b.csv").as_uri()
    same(mfrank.Interactions.from_file(url), mfrank.Interactions.from_frame(FRAME))


@pytest.mark.parametrize("door", ["from_file", "ingest"])
@pytest.mark.parametrize(
    ("path", "kind", "text"),
    [
        ("plain/none.csv", FileNotFoundError, "there is no file"),
        ("403/a.csv", OSError, "403"),
        ("500/a.csv", OSError, "500"),
        ("cut/a.csv", OSError, "try again"),
        ("cut/a.csv.gz", OSError, "try again"),
        ("cut/a.parquet", OSError, "try again"),
        ("plain/a.xlsx", FileNotFoundError, "there is no file"),
    ],
)
def test_what_a_server_does_not_give_is_said(
    served: str, path: str, kind: type[Exception], text: str, door: str, tmp_path: Path
) -> None:
    url = f"{served}/{path}?token=s3cret"
    more = [tmp_path / "x"] if door == "ingest" else []
    with pytest.raises(kind, match=text) as raised:
        getattr(mfrank.Interactions, door)(url, *more)
    assert path in str(raised.value)
    assert "s3cret" not in "".join(map(str, (raised.value, raised.value.__cause__)))
    assert not (tmp_path / "x").exists()


def test_a_lost_connection_of_a_server_without_sizes_is_damage(served: str) -> None:
    _Handler.content["half.csv.gz"] = gzip.compress(TEXT)[:-100]
    with refuses(ValueError, None, remedy="download it again") as raised:
        mfrank.Interactions.from_file(f"{served}/unsized/half.csv.gz")
    assert "ends early" in str(raised.value)


def test_a_file_that_changes_between_passes_is_named(
    memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.pipe("/a.csv", TEXT)
    first_pass = ingest.numbered

    def numbered(*args: Any) -> Any:
        known = first_pass(*args)
        memory.pipe("/a.csv", b"user,item,rating,time\n7000,b,1,1700000000\n")
        return known

    monkeypatch.setattr(ingest, "numbered", numbered)
    with refuses(ValueError, place="a.csv", remedy="make the same call"):
        mfrank.Interactions.ingest("memory://a.csv", tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_a_stream_is_read_without_all_of_it_in_memory(served: str, tmp_path: Path) -> None:
    _Handler.content["long.csv"] = b"user,item\n" + b"1,2\n" * 20
    with remote.remote_files(f"{served}/unsized/long.csv")[0][0].open() as opened:
        assert opened.read(9) == b"user,item"
        opened.seek(0)
        assert opened.read(4) == b"user"
        assert opened.seek(0, 2) == 90
        assert opened.seek(-4, 2) == 86
        assert opened.read() == b"1,2\n"


@pytest.mark.parametrize(
    ("url", "kind", "text"),
    [
        ("nix://host/a.csv", ValueError, "does not know"),
        ("memory://none/a.csv", FileNotFoundError, "there is no file"),
        ("memory://none/*.csv", FileNotFoundError, "there are no files"),
        ("http://127.0.0.1:1/a.csv", OSError, "cannot be read"),
        ("sqlite:///shop.db", ValueError, "from_sql"),
    ],
)
def test_other_urls_are_refused(url: str, kind: type[Exception], text: str, tmp_path: Path) -> None:
    for read in (
        lambda: mfrank.Interactions.from_file(url),
        lambda: mfrank.Interactions.ingest([url], tmp_path / "x"),
    ):
        with pytest.raises(kind, match=text):
            read()


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ModuleNotFoundError, match=r"mfrank\[remote\]"):
        mfrank.Interactions.from_file("s3://bucket/a.csv")


def test_commands_read_urls_and_do_not_tell_what_opens_them(
    served: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    url, few = f"{served}/plain/a.csv?sig=s3cret", ["--factors", "2", "--iterations", "1"]
    for line in (
        ["info", url],
        ["fit", url, "--model", "m", "--at-least", "2", *few],
        ["evaluate", "--model", "m", "--test", url, "--include-seen"],
        ["update", url, "--model", "m"],
        ["tune", url, "--model", "t", "--trials", "1", "--factors", "2", "--storage", "s"],
        ["ingest", url, "--folder", "i", "--dry-run"],
        ["ingest", url, "--folder", "i"],
        ["fit", f"{served}/plain/none.csv?sig=s3cret", "--model", "n"],
    ):
        assert main(line) == (2 if "n" in line else 0), capsys.readouterr().err
    told = capsys.readouterr()
    assert "s3cret" not in told.out + told.err
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"s3cret" not in file.read_bytes()
    assert without_password("ftp://ann:s3cret@host/a.csv") == "ftp://ann:***@host/a.csv"

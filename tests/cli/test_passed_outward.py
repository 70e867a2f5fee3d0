"""Every flag of serve, explore, export and plot reaches what serves, writes and draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded_commands import COMMANDS, DATA, make_files, recorded, run

import mfrank
from mfrank.cli.main import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder has the files."""
    make_files(tmp_path)
    monkeypatch.chdir(tmp_path)


def test_serve_and_explore(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("fastapi", reason="needs FastAPI: pip install mfrank[serve]")
    pytest.importorskip("jinja2", reason="needs jinja2: pip install mfrank[pages]")
    runs = recorded(monkeypatch, "mfrank.serving.run")
    apps = recorded(monkeypatch, "mfrank.serving.app", "the service")
    sites = recorded(monkeypatch, "mfrank.pages.app", "the site")
    run("serve m")
    nothing: dict[str, Any] = dict.fromkeys(
        [
            "journal",
            "weights",
            "remember_shown",
            "shown_file",
            "items",
            "items_query",
            "split",
            "salt",
            "log_lists",
            "explore",
        ]
    )
    given = {"limits": mfrank.serving.Limits(), "allow_hosts": [], "mmap": False}
    nothing["explore_depth"] = 100
    access: dict[str, Any] = {"key_file": None, "allow_origins": [], "log": None}
    assert apps[0] == (("m",), given | access | nothing)
    how = {"host": "127.0.0.1", "port": 8000, "root_path": "", "drain_seconds": 0.0, "workers": 1}
    assert runs[0] == (("the service",), how)
    run(
        "serve m --port 9 --host 0.0.0.0 --allow-host a --max-n 5 --mmap --key-file keys "
        "--allow-origin https://b --log - --root-path /c --drain-seconds 2.5"
    )
    given = {"limits": mfrank.serving.Limits(max_n=5), "allow_hosts": ["a"], "mmap": True}
    access = {"key_file": "keys", "allow_origins": ["https://b"], "log": "-"}
    assert apps[1] == (("m",), given | access | nothing)
    how = {"host": "0.0.0.0", "port": 9, "root_path": "/c", "drain_seconds": 2.5, "workers": 1}
    assert runs[1] == (("the service",), how)
    run(
        "serve m --journal j --weights view=1,buy=5 --remember-shown 12h --shown-file s.sqlite "
        "--items sqlite:///s.db --items-query t --log-lists 30d --explore 0.1 --explore-depth 20"
    )
    more = {
        "items": "sqlite:///s.db",
        "items_query": "t",
        "journal": "j",
        "weights": {"view": 1, "buy": 5},
        "remember_shown": 43200,
        "log_lists": 2592000,
        "explore": 0.1,
        "explore_depth": 20,
    }
    assert more.items() <= apps[2][1].items()
    assert apps[2][1]["shown_file"] == "s.sqlite"
    del runs[2], apps[2]
    run("explore m")
    (models, data, items), given = sites[0]
    assert (list(models), data, items, given) == (["m"], None, None, {"allow_hosts": []})
    assert runs[2] == (("the site",), {"host": "127.0.0.1", "port": 8001})
    run("explore m ./n --data more.csv --items items.csv --allow-host b")
    (models, data, items), given = sites[1]
    assert (list(models), data.nnz, items) == (["m", "n"], 1, "items.csv")
    assert given == {"allow_hosts": ["b"]}
    told = "1 interaction of users or items that are unknown left out"
    assert told in capsys.readouterr().err
    run("explore m --data plays.csv")
    assert "left out" not in capsys.readouterr().err
    run("explore m ./m")
    assert list(sites[3][0][0]) == ["1. m", "2. ./m"]


def test_export(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for to in ("onnx", "parquet", "safetensors"):
        calls = recorded(monkeypatch, f"{COMMANDS}.export.to_{to}")
        run(f"export --model m --to {to} out")
        store, path = calls[0][0]
        assert (store.n_users, path) == (4, "out")
        assert capsys.readouterr().out.startswith("out: ")
    calls = recorded(monkeypatch, f"{COMMANDS}.export.to_faiss")
    run("export --model m --to faiss some/out")
    run("export --model m --to faiss some/out --factory HNSW32")
    told = [(str(path), *rest) for (_, path, *rest), _ in calls]
    users = ("some/out/users.faiss", "user")
    items = "some/out/items.faiss", "item"
    assert told == [(*items, "Flat"), users, (*items, "HNSW32"), users]
    assert Path("some/out").is_dir()
    mfrank.EASE().fit(DATA).save("ease")
    assert main(["export", "--model", "ease", "--to", "faiss", "indexes"]) == 2
    assert not Path("indexes").exists()
    for to, where, why in (
        ("parquet", "more.csv", "it is a file; pass a folder"),
        ("onnx", "m", "it is a folder; pass a file"),
        ("onnx", "m.onnx --factory Flat", "--factory is for --to faiss"),
    ):
        assert main(f"export --model m --to {to} {where}".split()) == 2
        assert why in capsys.readouterr().err


def test_plot(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install mfrank[plot]")
    place = f"{COMMANDS}.plot"
    saves = recorded(monkeypatch, f"{place}.save", lambda axes, path: path)
    drawn = {
        name: recorded(monkeypatch, f"{place}.{name}", name)
        for name in ("convergence", "leaderboard", "cost", "activity", "exposure")
    }
    Path("t.json").write_text('[{"value": 1}]')

    def asked(line: str) -> tuple[Any, ...]:
        name = line.split()[0]
        run(f"plot {line} --output p.png")
        assert capsys.readouterr().out == "drawn to p.png\n"
        assert saves[-1][0] == (name, "p.png")
        args, given = drawn[name][-1]
        return (*args, *given.values())

    models, by = asked("convergence m n")
    assert (list(models), by) == (["m", "n"], "seconds")
    mfrank.load("m").save("old/n")
    assert list(asked("convergence m old/n")[0]) == ["m", "n"]
    assert list(asked("convergence old/n n")[0]) == ["old/n", "n"]
    for by in ("seconds", "epochs"):
        assert asked(f"convergence m --by {by}")[1] == by
    assert asked("leaderboard t.json") == ([{"value": 1}],)
    assert asked("cost t.json") == ([{"value": 1}], "factors")
    for by in ("seconds", "factors"):
        assert asked(f"cost t.json --by {by}")[1] == by
    evaluations, train, metric = asked("activity m n --test plays.csv --metric ndcg@3")
    assert (list(evaluations), train.nnz, metric) == (["m", "n"], DATA.nnz, "ndcg@3")
    assert [str(one) for one in evaluations["n"].scores] == ["NDCG@3"]
    assert asked("activity m --test plays.csv")[2] == "ndcg@10"
    Path("new.csv").write_text("user,item\na,i1\nzoe,i1\n")
    for test, told in (("new.csv", "1 test interaction left out"), ("plays.csv", "")):
        run(f"plot exposure m --test {test} --output p.png")
        shown = capsys.readouterr()
        assert shown.out == "drawn to p.png\n"
        assert told in shown.err
        assert told or "left out" not in shown.err
    assert list(asked("exposure m --test plays.csv")[0]) == ["m"]
    for picture, more in (
        ("convergence m", "--test plays.csv"),
        ("leaderboard t.json", "--metric ndcg@3"),
        ("cost t.json", "--test plays.csv"),
    ):
        assert main(f"plot {picture} {more} --output p.png".split()) == 2
        assert "it takes no --test and no --metric" in capsys.readouterr().err
    assert main(["plot", "cost", "t.json", "--sep", ";", "--output", "p.png"]) == 2
    assert "--sep is about the file of --test" in capsys.readouterr().err

"""Several models of one service: who is answered by which, and that every answer says so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clients import client, kinds, model, named, other
from hypothesis import given
from hypothesis import strategies as st

import mfrank
from mfrank import serving
from mfrank.cli.main import main
from tests.support.errors import refuses

USERS = [str(each) for each in named().user_ids.labels if "/" not in str(each)]
ITEMS = [str(each) for each in named().item_ids.labels]
SPLIT = {"a": 0.6, "b": 0.4}


def arms(**options: Any) -> Any:
    return client({"a": model(), "b": other()}, **{"split": SPLIT, "salt": "s", **options})


def assigned(user: str) -> str:
    return serving.arm_of(user, SPLIT, "s")


def test_shares_are_of_the_users_and_salts_divide_independently() -> None:
    n, split = 20_000, {"a": 0.7, "b": 0.2, "c": 0.1}
    drawn = {
        salt: np.array([serving.arm_of(user, split, salt) for user in range(n)])
        for salt in ("x", "y")
    }
    for name, share in split.items():
        error = (share * (1 - share) / n) ** 0.5
        for each in drawn.values():
            assert abs((each == name).mean() - share) < 4 * error
        both = ((drawn["x"] == name) & (drawn["y"] == name)).mean()
        assert abs(both - share**2) < 4 * (share**2 / n) ** 0.5


@given(st.text(), st.integers(), st.text())
def test_the_order_of_names_and_the_type_of_an_id_do_not_matter(
    user: str, number: int, salt: str
) -> None:
    backwards = dict(reversed(SPLIT.items()))
    assert serving.arm_of(user, SPLIT, salt) == serving.arm_of(user, backwards, salt)
    assert serving.arm_of(number, SPLIT, salt) == serving.arm_of(str(number), SPLIT, salt)


def test_users_only_move_where_a_share_has_grown_beside_their_own() -> None:
    before, after = {"a": 0.8, "b": 0.2, "c": 0.0}, {"a": 0.5, "b": 0.2, "c": 0.3}
    pairs = [(serving.arm_of(u, before, "s"), serving.arm_of(u, after, "s")) for u in range(3000)]
    moves = {pair for pair in pairs if pair[0] != pair[1]}
    assert moves == {("a", "b"), ("a", "c"), ("b", "c")}


def test_other_processes_assign_alike() -> None:
    code = (
        "import json; from mfrank import serving; "
        "print(json.dumps([serving.arm_of(u, {'a': .5, 'b': .5}, 's') for u in range(50)]))"
    )
    options = [sys.executable, "-c", code]
    told = subprocess.run(options, capture_output=True, text=True, check=True).stdout
    assert json.loads(told) == [
        serving.arm_of(user, {"a": 0.5, "b": 0.5}, "s") for user in range(50)
    ]
    # As written down once: an assignment must outlive versions of mfrank.
    assert "".join(serving.arm_of(u, SPLIT, "s") for u in range(30)) == WRITTEN


WRITTEN = "aaabaabbaaabaaaababbbbabbbaaaa"


def test_every_answer_is_its_arms_and_says_so() -> None:
    asked = arms()
    models, versions = {"a": model(), "b": other()}, asked.get("/ready").json()["versions"]
    assert {assigned(user) for user in USERS} == {"a", "b"}
    for user in USERS:
        name = assigned(user)
        stated = {"arm": name, "version": versions[name]}
        alone = client(models[name])
        for path in (
            f"/recommend/{user}?n=4",
            f"/recommend/{user}?n=4&diversity=0.3",
            f"/score/{user}?item={ITEMS[0]}",
            f"/explain/{user}/{ITEMS[0]}",
        ):
            assert asked.get(path).json() == {**alone.get(path).json(), **stated}, path
        unknown = asked.get(f"/explain/{user}/nothing")
        assert (unknown.status_code, unknown.json()["arm"]) == (404, name)
    batch = asked.post("/recommend", json={"users": USERS, "n": 4}).json()["lists"]
    assert batch == [asked.get(f"/recommend/{user}?n=4").json() for user in USERS]


def test_filters_of_each_user_of_a_batch_stay_with_the_user() -> None:
    only = [[item] for item in ITEMS[: len(USERS)]] + [[ITEMS[0]]] * (len(USERS) - len(ITEMS))
    body = {"users": USERS, "items": only, "include_seen": True, "n": 3}
    lists = arms().post("/recommend", json=body).json()["lists"]
    assert [[each["id"] for each in one["items"]] for one in lists] == only
    assert arms().post("/recommend", json={**body, "items": only[1:]}).status_code == 422


def test_somebody_without_an_id_gets_the_first_arm_or_that_of_an_id() -> None:
    asked, body = arms(), {"from_items": ITEMS[:2], "n": 3}
    stated = [asked.post("/recommend", json=body).json()["lists"][0]["arm"]]
    stated.append(asked.get(f"/similar/{ITEMS[0]}").json()["arm"])
    assert stated == ["a", "a"]
    for who in ("zoe", "anna", "ben", "kim"):
        answer = asked.post("/recommend", json={**body, "visitor": who}).json()["lists"][0]
        near = asked.get(f"/similar/{ITEMS[0]}?visitor={who}").json()
        assert (answer["arm"], near["arm"]) == (assigned(who), assigned(who))
    assert asked.post("/recommend", json={"users": USERS, "visitor": "zoe"}).status_code == 422


def test_items_that_one_model_knows() -> None:
    wide = mfrank.synthetic(30, 40, 400, names=True, random_state=1)
    larger = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(wide)
    new = str(sorted(set(larger.item_ids.labels) - set(ITEMS))[0])
    asked = client({"a": model(), "b": larger}, split={"a": 0.5, "b": 0.5})
    found = {name: asked.get(f"/similar/{new}?model={name}") for name in ("a", "b")}
    assert [each.status_code for each in found.values()] == [404, 200]
    assert found["a"].json()["arm"] == "a"


def test_a_model_is_chosen_by_hand_and_its_pages_go_on() -> None:
    asked = arms()
    user = next(user for user in USERS if assigned(user) == "a")
    path = f"/recommend/{user}"
    whole = asked.get(f"{path}?n=100&model=b").json()
    assert whole["items"] == client(other()).get(f"{path}?n=100").json()["items"]
    first = asked.get(f"{path}?n=2&offset=0&model=b").json()
    rest = asked.get(f"{path}?n=100&cursor={first['next']}").json()
    assert (first["items"] + rest["items"], rest["arm"]) == (whole["items"], "b")
    assert asked.get(f"{path}?model=c").status_code == 422
    assert client(model()).get(f"{path}?model=a").status_code == 422


def test_with_keys_only_operators_choose(tmp_path: Path) -> None:
    keys = {
        scopes: serving.new_key(
            tmp_path / "keys", scopes.replace(",", "-"), scopes=scopes.split(",")
        )
        for scopes in ("read", "read,operate")
    }
    asked = arms(key_file=tmp_path / "keys")

    def get(path: str, scopes: str) -> Any:
        return asked.get(path, headers={"Authorization": f"Bearer {keys[scopes]}"})

    path = f"/recommend/{USERS[0]}"
    first = get(f"{path}?n=2&offset=0&model=b", "read,operate").json()
    for query in ("?model=b", f"?cursor={first['next']}"):  # which could be made up
        assert get(path + query, "read").status_code == 403
        assert get(path + query, "read,operate").status_code == 200
    assert get(path, "read").status_code == 200


def test_health_metrics_and_log_tell_of_each(tmp_path: Path) -> None:
    with arms(log=str(tmp_path / "log")) as asked:
        health = asked.get("/health").json()
        assert {name: each["share"] for name, each in health["arms"].items()} == SPLIT
        assert [each["version"] for each in health["arms"].values()] == list(
            asked.get("/ready").json()["versions"].values()
        )
        asked.get(f"/recommend/{USERS[0]}?model=b")
        asked.post("/recommend", json={"users": USERS})
        text = asked.get("/metrics").text
    counts = {name: sum(assigned(user) == name for user in USERS) for name in SPLIT}
    assert f'mfrank_arm_answers_total{{arm="a"}} {counts["a"]}\n' in text
    assert f'mfrank_arm_answers_total{{arm="b"}} {counts["b"] + 1}\n' in text
    assert 'mfrank_model_users{arm="b"} 30' in text
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["arms"] for line in lines if "arms" in line] == [{"b": 1}, counts]


def test_each_folder_is_watched(tmp_path: Path) -> None:
    for name in SPLIT:
        model().save(tmp_path / name)
    asked = client({name: tmp_path / name for name in SPLIT}, split=SPLIT, salt="s")
    before = asked.get("/ready").json()["versions"]
    other().save(tmp_path / "b", overwrite=True)
    for arm in asked.app.state.arms:
        arm.live.refresh()
    after = asked.get("/ready").json()["versions"]
    assert (after["a"], after["b"] != before["b"]) == (before["a"], True)


@pytest.mark.parametrize("kind", kinds[1:5])
def test_each_arm_has_had_its_own_part_of_the_events(tmp_path: Path, kind: str) -> None:
    journal = serving.EventJournal(tmp_path)
    journal.append([serving.Event("anna", ITEMS[0])])
    learned = mfrank.ALS(factors=2, iterations=1, random_state=0).fit(named())
    journal.update(learned)
    asked = client({"a": model(kind), "b": learned}, split=SPLIT, journal=tmp_path)
    answer = asked.post("/events", json={"user": "ben", "item": ITEMS[1]}).json()
    assert answer["unknown"] == {"users": ["ben"], "items": []}
    for _ in range(2):
        lists = {
            name: asked.get(f"/recommend/anna?n=100&model={name}").json()["items"] for name in SPLIT
        }
        assert all(ITEMS[0] not in [each["id"] for each in one] for one in lists.values())
    told = asked.get("/health").json()["arms"]
    assert (told["a"]["events"], told["b"]["events"]) == (2, 1)


REFUSED: list[tuple[Any, dict[str, Any], str, str]] = [
    ({"a": model()}, {"split": {"a": 0.5}}, "split", "sum to 1"),
    ({"a": model(), "b": model()}, {}, "split", "a=0.5,b=0.5"),
    ({"a": model(), "b": model()}, {"split": {"a": 1.0}}, "split", "add b=0"),
    ({"a": model()}, {"split": {"a": 0.5, "c": 0.5}}, "split", "there are a"),
    ({"a": model(), "b": model()}, {"split": {"a": 1.5, "b": -0.5}}, "split", "from 0 to 1"),
    ({"a": model(), "b": model()}, {"split": {"a": True, "b": 0}}, "split", "from 0 to 1"),
    ({"a": model(), "b": model()}, {"split": {"a": float("nan"), "b": 0}}, "split", "from 0 to 1"),
    ({"a": model(), "b": model()}, {"split": 0.5}, "split", "'a': 0.9"),
    ({"a b": model()}, {}, "model", "letters"),
    ({1: model()}, {}, "model", "letters"),
    ({}, {}, "model", "at least one"),
    (model(), {"split": {"a": 1.0}}, "split", "several models"),
    (model(), {"salt": "s"}, "split", "several models"),
    ({"a": model()}, {"salt": 3}, "salt", "a text"),
    ({"a": model(), "b": model("numbered")}, {"split": SPLIT}, "model", "ids of one type"),
]


@pytest.mark.parametrize(("served", "options", "argument", "told"), REFUSED)
def test_what_cannot_be_divided_is_refused(
    served: Any, options: dict[str, Any], argument: str, told: str
) -> None:
    with refuses((ValueError, TypeError), argument) as caught:
        serving.app(served, **options)
    assert told in str(caught.value)


def test_the_command_line_names_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("m", "n", "a=1"):
        model().save(folder)
    made: list[Any] = []
    monkeypatch.setattr(serving, "app", lambda *args, **options: made.append((args, options)))
    monkeypatch.setattr(serving, "run", lambda *_, **__: None)
    assert main(["serve", "a=m", "b=n", "--split", "a=0.9,b=0.1", "--salt", "s"]) == 0
    assert main(["serve", "a=1"]) == 0
    (args, options), (alone, _) = made
    assert (args, options["split"]) == (({"a": "m", "b": "n"},), {"a": 0.9, "b": 0.1})
    assert (options["salt"], alone) == ("s", ("a=1",))
    for line, told in (
        ("a=m a=n", "given twice"),
        ("m n", "NAME=FOLDER"),
        ("a=m b=nowhere", "nowhere"),
        ("a=m --split a", "such as a=0.9"),
        ("a=m --split a=1,a=0", "given twice"),
    ):
        try:
            status = main(["serve", *line.split()])
        except SystemExit as end:
            status = end.code
        assert status == 2, line
        assert told in capsys.readouterr().err, line

"""``mfrank descend`` makes the model that Python makes, and tells what it cannot."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest
from faults import ended_after

import mfrank
from mfrank.cli.commands import descend
from mfrank.cli.flags import spec_reader
from mfrank.cli.main import main
from mfrank.data import write_table
from mfrank.models import Checkpoint

FAST = ["--factors", "4", "--iterations", "2", "--random-state", "0", "--negatives", "10"]


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> str:
    data = mfrank.synthetic(60, 30, 600, random_state=0)
    users, items = data.user_items.nonzero()
    file = tmp_path_factory.mktemp("data") / "train.csv"
    write_table(file, {"user": users, "item": items})
    return str(file)


def python(train: str, loss: mfrank.losses.Loss, **options: object) -> mfrank.Descent:
    model = mfrank.Descent(loss, factors=4, iterations=2, random_state=0, negatives=10)
    model.set_params(**options)
    return model


def test_it_makes_the_model_that_python_makes(train: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "m")
    line = ["descend", train, "--model", folder, *FAST, "--loss", "ksong:k=3,theoretical=true"]
    line += ["--optimizer", "sgd:learning_rate=0.3,momentum=0.5", "--schedule", "cosinedecay"]
    assert main([*line, "--scores", "cosine", "--clip", "0.5", "--item-biases"]) == 0
    saved = mfrank.load(folder)
    expected = python(
        train,
        mfrank.KSONG(k=3, theoretical=True),
        optimizer=mfrank.SGD(0.3, momentum=0.5),
        schedule=mfrank.CosineDecay(),
        scores="cosine",
        clip=0.5,
        item_biases=True,
    ).fit(mfrank.Interactions.from_file(train))
    assert isinstance(saved, mfrank.Descent)
    assert saved.loss == expected.loss
    np.testing.assert_array_equal(saved.item_factors, expected.item_factors)


def test_it_goes_on_from_a_saved_model(train: str, tmp_path: Path) -> None:
    first, second = str(tmp_path / "als"), str(tmp_path / "ranked")
    assert main(["fit", train, "--model", first, "--factors", "4", "--random-state", "0"]) == 0
    assert main(["descend", train, "--model", second, "--start", first, *FAST]) == 0
    expected = python(train, mfrank.SampledSoftmax()).fit(
        mfrank.Interactions.from_file(train), start=mfrank.load(first)
    )
    np.testing.assert_array_equal(mfrank.load(second).item_factors, expected.item_factors)


def test_a_checkpoint_is_gone_on_from(train: str, tmp_path: Path) -> None:
    line = ["descend", train, "--checkpoint", str(tmp_path / "state"), *FAST]
    assert main([*line, "--model", str(tmp_path / "a")]) == 0
    assert main([*line, "--model", str(tmp_path / "b"), "--iterations", "3"]) == 0
    assert len(mfrank.load(tmp_path / "b").store.history) == 3


def test_worker_processes_make_the_model_that_python_makes_there(
    train: str, tmp_path: Path
) -> None:
    line = ["descend", train, "--model", str(tmp_path / "m"), "--cluster", "1", *FAST]
    assert main(line) == 0
    expected = python(train, mfrank.SampledSoftmax()).fit(
        mfrank.Interactions.from_file(train), cluster=1
    )
    np.testing.assert_array_equal(mfrank.load(tmp_path / "m").item_factors, expected.item_factors)


def test_ctrl_c_keeps_the_last_complete_epoch(
    train: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from mfrank.models import descent

    monkeypatch.setattr(descent, "descend", ended_after(descent.descend, 1))
    folder = str(tmp_path / "m")
    assert main(["descend", train, "--model", folder, *FAST]) == 130
    assert "saved the model after 1 of 2 epochs" in capsys.readouterr().err
    assert len(mfrank.load(folder).store.history) == 1


def test_a_checkpoint_that_cannot_be_written_keeps_its_epoch(
    train: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Checkpoint, "save", full)
    line = ["descend", train, "--checkpoint", str(tmp_path / "state"), *FAST]
    assert main([*line, "--model", str(tmp_path / "m")]) != 0
    told = capsys.readouterr().err
    assert "saved the model after 1 of 2 epochs" in told
    assert "no space left on device" in told
    assert len(mfrank.load(tmp_path / "m").store.history) == 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--loss", "hinge"], "unknown loss 'hinge'; choose from"),
        (["--loss", "song:k=3"], "song has no option 'k'; it has decay, margin"),
        (["--loss", "song:decay=2"], "decay must be in (0, 1]"),
        (["--loss", "song:pooled=1"], "must be true or false"),
        (["--loss", "song:decay=much"], "song:decay=much"),
        (["--optimizer", "adam:learning_rate=0"], "learning_rate must be a finite number > 0"),
        (["--loss", "song", "--cluster", "2"], "cluster cannot fit SONG"),
        (["--cluster", "here"], "cluster must be the address of a Dask scheduler"),
        (["--schedule", "never"], "unknown schedule 'never'"),
    ],
)
def test_bad_specs_are_refused(
    train: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    assert main(["descend", train, "--model", str(tmp_path / "m"), *flags]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "m").exists()


def test_every_loss_can_be_named() -> None:
    read = spec_reader(descend._LOSSES, "loss")
    for name, loss in descend._LOSSES.items():
        assert read(name) == loss()
    with pytest.raises(argparse.ArgumentTypeError, match="unknown loss"):
        read("")

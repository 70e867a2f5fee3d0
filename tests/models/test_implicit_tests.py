"""implicit's own tests of its ALS, run against mfrank's; where they differ, it is on purpose.

They are in implicit's source package, not in its wheels. ``MFRANK_IMPLICIT_TESTS`` names their
folder:

    pip download implicit==0.7.3 --no-deps --no-binary implicit && tar xzf implicit-0.7.3.tar.gz
    MFRANK_IMPLICIT_TESTS=implicit-0.7.3/tests pytest tests/models/test_implicit_tests.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from children import PATHS

DIFFERENCES = {
    "test_fit_non_csr_matrix": "sparse matrices of all formats are welcome, without a warning",
    "test_invalid_user_items": "so they are beside ids",
    "test_rank_items": "lists of one user are padded too, so that all lists have N entries",
    "test_rank_items_batch": "seen items are left out, not put last with a score of -3.4e38",
    "test_serialization_without_fit": "a model that was not fitted cannot be saved; it pickles",
    "test_zero_iterations_with_loss[False]": "a fit of no iterations is refused",
    "test_incremental_retrain[False]": "new rows continue the numbering, so none is of zeros",
}


def test_what_differs_is_known(tmp_path: Path) -> None:
    pytest.importorskip("implicit")
    folder = os.environ.get("MFRANK_IMPLICIT_TESTS")
    if folder is None:
        pytest.skip("needs implicit's source package (set MFRANK_IMPLICIT_TESTS)")
    report, settings = tmp_path / "report.xml", tmp_path / "pytest.ini"
    settings.touch()  # none of ours
    options = ["-p", "as_implicit", "-p", "no:cacheprovider", "-c", str(settings)]
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--junitxml={report}", "als_test.py"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(PATHS)},
        capture_output=True,
        timeout=300,
        check=False,
    )
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = {
        case.get("name")
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    }
    assert len(cases) > 40
    assert failed == DIFFERENCES.keys()

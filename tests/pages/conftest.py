"""The site that most tests of a file ask."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from small_site import client  # skips without Jinja2

    return client(tmp_path_factory.mktemp("site"))

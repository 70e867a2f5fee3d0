"""/docs in Chromium: questions are asked on it, with no other host and nothing on the console."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mfrank
from mfrank import serving

pytest.importorskip("selenium", reason="needs selenium: pip install mfrank[test]")
pytest.importorskip(
    "axe_playwright_python", reason="needs axe-playwright-python: pip install mfrank[test]"
)
import axe_playwright_python
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

for program in ("chromium", "chromedriver"):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed", allow_module_level=True)

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text()
AUDIT = """
const done = arguments[arguments.length - 1];
axe.run().then(found => done(found.violations.map(each => each.id)));
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of ``mfrank serve`` and its key."""
    folder = tmp_path_factory.mktemp("service")
    users, items = ["ann", "ann", "a/b", "bob", "bob"], ["pie", "tea", "tea", "pie", "jam"]
    data = mfrank.Interactions.from_arrays(users, items)
    mfrank.ALS(factors=2, iterations=1, random_state=0).fit(data).save(folder / "model")
    rows = "item_id,title\npie,Pie\ntea,<b>Tea</b>\njam,Jam\n"
    (folder / "items.csv").write_text(rows)
    key = serving.new_key(folder / "keys", "all", scopes=["read", "write", "operate"])
    command = [sys.executable, "-m", "mfrank", "serve", str(folder / "model"), "--port", "0"]
    command += ["--items", str(folder / "items.csv"), "--key-file", str(folder / "keys")]
    command += ["--journal", str(folder / "journal")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        found = re.match(r"(http://\S+:\d+)/", process.stdout.readline())  # type: ignore[union-attr]
        assert found
        yield found[1], key
    finally:
        process.terminate()
        process.communicate(timeout=15)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    os.environ.setdefault("SE_OFFLINE", "true")
    found = webdriver.ChromeService(str(shutil.which("chromedriver")))
    driver = webdriver.Chrome(options=options, service=found)
    try:
        yield driver
    finally:
        driver.quit()


def ask(browser: Any, method: str, path: str, **fields: str) -> str:
    """What the page shows of an answer."""
    (form,) = browser.find_elements(
        By.CSS_SELECTOR, f'form[data-method="{method}"][data-path="{path}"]'
    )
    for name, value in fields.items():
        field = form.find_element(By.CSS_SELECTOR, f'[name="{name}"], .{name}')
        field.clear()
        field.send_keys(value)
    browser.execute_script(
        "arguments[0].textContent = ''", form.find_element(By.TAG_NAME, "output")
    )
    form.find_element(By.TAG_NAME, "button").click()
    output = form.find_element(By.TAG_NAME, "output")
    WebDriverWait(browser, 10).until(lambda _: output.text)
    text: str = output.text
    return text


def of_json(shown: str) -> Any:
    return json.loads(shown.partition("\n\n")[2])


def test_questions_are_asked_on_the_page(browser: Any, service: tuple[str, str]) -> None:
    address, key = service
    browser.get(f"{address}/docs")
    assert ask(browser, "GET", "/recommend/{user}", user="ann").startswith("401")
    browser.find_element(By.ID, "key").send_keys(key)
    shown = ask(
        browser,
        "GET",
        "/recommend/{user}",
        user="a/b",
        n="1",
        where="title=Pie,Jam",
        fields="title",
    )
    assert shown.startswith("200")
    (place,) = of_json(shown)["items"]
    assert place["fields"]["title"] in ("Pie", "Jam")
    shown = ask(browser, "GET", "/similar/{item}", item="pie", fields="title")
    assert "<b>Tea</b>" in shown  # as text
    lists = of_json(ask(browser, "POST", "/recommend", body='{"users": ["ann", "bob"]}'))["lists"]
    assert [each["user"] for each in lists] == ["ann", "bob"]
    assert ask(browser, "POST", "/recommend", body="{").startswith("422")
    event = '{"user": "ann", "item": "jam"}'
    assert of_json(ask(browser, "POST", "/events", body=event))["new"] == 1
    assert of_json(ask(browser, "GET", "/health"))["status"] == "ok"
    assert "mfrank" in ask(browser, "GET", "/metrics")


def test_the_page_loads_nothing_from_elsewhere_and_is_accessible(
    browser: Any, service: tuple[str, str]
) -> None:
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(f"{service[0]}/docs")
    browser.execute_script(AXE)
    assert browser.execute_async_script(AUDIT) == []
    told = [each for each in browser.get_log("browser") if each["level"] != "DEBUG"]
    assert [each for each in told if "favicon" not in each["message"]] == []
    messages = [json.loads(each["message"])["message"] for each in browser.get_log("performance")]
    asked = [
        each["params"]["request"]["url"]
        for each in messages
        if each["method"] == "Network.requestWillBeSent"
    ]
    assert {url.partition("?")[0] for url in asked} <= {
        f"{service[0]}/{name}" for name in ("docs", "docs.css", "docs.js", "favicon.ico")
    }

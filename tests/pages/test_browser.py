"""The pages in Chromium: nothing on the console, no other host, keys, phone width, both themes.

With ``MFRANK_SCREENSHOTS=folder``, a picture of each page in each width and theme is left there.
"""

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
from small_site import data, data_file, items_file, pair

pytest.importorskip("selenium", reason="needs selenium: pip install mfrank[test]")
pytest.importorskip(
    "axe_playwright_python", reason="needs axe-playwright-python: pip install mfrank[test]"
)
import axe_playwright_python
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

for program in ("chromium", "chromedriver"):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed", allow_module_level=True)

USER, ITEM = data().user_ids.labels[3], data().item_ids.labels[5]
PAGES = [
    "/",
    "/search?q=number",
    f"/user/{USER}",
    f"/user/{USER}?diversity=0.4&at_most=2&boost=kinds:Tea",
    f"/user/{USER}/why/{ITEM}",
    f"/item/{ITEM}",
    f"/compare/{USER}",
    f"/compare/{USER}?weight=0.5",
    f"/sandbox?like={ITEM}&q=num",
    "/model/0",
    "/quality/0",
    "/quality/both",
    "/map",
]
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text()
"""Deque's rules for accessible pages: contrast, names, landmarks, headings and a hundred more."""

AUDIT = """
const done = arguments[arguments.length - 1];
const told = each => each.id + ": " + each.nodes.map(node => node.target.join(" ")).join(", ");
axe.run().then(found => done([found.passes.length, found.violations.map(told)]),
               error => done([0, [String(error)]]));
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The site in a process of its own: ``mfrank explore``."""
    folder = tmp_path_factory.mktemp("site")
    folders = [str(model.save(folder / name)) for name, model in pair().items()]
    command = [sys.executable, "-m", "mfrank", "explore", *folders, "--port", "0"]
    command += ["--items", str(items_file(folder)), "--data", str(data_file(folder))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        found = re.match(r"(http://\S+:\d+)/", process.stdout.readline())  # type: ignore[union-attr]
        assert found
        yield found[1]
    finally:
        process.terminate()
        process.communicate(timeout=15)
        assert process.returncode == 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(str(shutil.which("chromedriver")))
    os.environ.setdefault("SE_OFFLINE", "true")
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield driver
    finally:
        driver.quit()


def show(browser: Any, url: str, width: int = 1200, theme: str = "light") -> None:
    """Open a page in a window of this width, in a theme."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
    browser.get(url)
    if "/map" in url:
        wait_for(browser, "#map[data-ready]")


def wait_for(browser: Any, selector: str) -> Any:
    """The element, once it is there and shown."""
    return WebDriverWait(browser, 10).until(
        lambda b: next(
            (e for e in b.find_elements(By.CSS_SELECTOR, selector) if e.is_displayed()), None
        )
    )


def press(browser: Any, *keys: str) -> None:
    browser.switch_to.active_element.send_keys(*keys)


def photograph(browser: Any, name: str, width: int, theme: str) -> None:
    """Save a picture of the whole page to the folder that ``MFRANK_SCREENSHOTS`` names, if any."""
    if not (folder := os.environ.get("MFRANK_SCREENSHOTS")):
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    height = browser.execute_script("return document.documentElement.scrollHeight")
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    place = (
        Path(folder)
        / f"{re.sub(r'[^a-z0-9]+', '-', name).strip('-') or 'home'}-{width}-{theme}.png"
    )
    assert browser.save_screenshot(str(place))


def brightness(browser: Any) -> float:
    """Of the page's background, from 0 to 255."""
    color = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    return sum(map(int, re.findall(r"\d+", color)[:3])) / 3


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 360])
def test_pages_render_without_a_complaint(
    browser: Any, address: str, width: int, theme: str
) -> None:
    browser.get_log("performance")
    for path in PAGES:
        show(browser, address + path, width, theme)
        across = browser.execute_script("return document.documentElement.scrollWidth")
        assert across <= width, f"{path} is {across} wide"
        browser.execute_script(AXE)
        n_passed, violations = browser.execute_async_script(AUDIT)
        assert violations == [], path
        assert n_passed > 10, path
        assert (brightness(browser) > 127) == (theme == "light"), path
        photograph(browser, path, width, theme)
    assert browser.get_log("browser") == []
    asked = [
        json.loads(each["message"])["message"]["params"]["request"]["url"]
        for each in browser.get_log("performance")
        if 'Network.requestWillBeSent"' in each["message"]
    ]
    assert len(asked) > len(PAGES)
    assert {url for url in asked if not url.startswith(address + "/")} == set()


def test_a_user_is_found_and_a_list_walked_by_keys_alone(browser: Any, address: str) -> None:
    show(browser, address + "/")
    browser.find_element(By.TAG_NAME, "body").send_keys("/")
    assert browser.switch_to.active_element.get_attribute("id") == "search"
    press(browser, str(USER))
    wait_for(browser, "#found a")
    field = browser.find_element(By.ID, "search")
    assert field.get_attribute("aria-expanded") == "true"
    press(browser, Keys.ARROW_DOWN)
    spoken = browser.find_element(By.ID, field.get_attribute("aria-activedescendant"))
    assert spoken.get_attribute("aria-selected") == "true"
    press(browser, Keys.ENTER)
    WebDriverWait(browser, 10).until(lambda b: b.current_url == f"{address}/user/{USER}")
    body = browser.find_element(By.TAG_NAME, "body")
    body.send_keys("j")
    press(browser, "j")
    second = browser.find_elements(By.CSS_SELECTOR, ".rows li")[1]
    assert "at" in second.get_attribute("class").split()
    goal = second.find_element(By.TAG_NAME, "a").get_attribute("href")
    press(browser, Keys.ENTER)
    WebDriverWait(browser, 10).until(lambda b: b.current_url == goal)
    browser.back()
    browser.find_element(By.TAG_NAME, "body").send_keys("n")
    WebDriverWait(browser, 10).until(lambda b: "page=2" in b.current_url)


def test_escape_leaves_the_search(browser: Any, address: str) -> None:
    show(browser, address + "/")
    field = browser.find_element(By.ID, "search")
    field.send_keys("number")
    wait_for(browser, "#found a")
    field.send_keys(Keys.ESCAPE)
    assert not browser.find_element(By.ID, "found").is_displayed()
    assert field.get_attribute("aria-expanded") == "false"


def test_suggestions_show_a_hostile_name_as_text(browser: Any, address: str) -> None:
    show(browser, address + "/")
    browser.find_element(By.ID, "search").send_keys("bjork")
    assert "<script>" in wait_for(browser, "#found a").text


def test_two_models_and_the_sandbox_by_clicks(browser: Any, address: str) -> None:
    show(browser, f"{address}/user/{USER}")
    browser.find_element(By.LINK_TEXT, "wrmf").click()
    WebDriverWait(browser, 10).until(lambda b: "model=1" in b.current_url)
    browser.find_element(By.LINK_TEXT, "Side by side").click()
    wait_for(browser, ".lines")
    browser.find_element(By.LINK_TEXT, "Sandbox").click()
    for n in (1, 2):
        wait_for(browser, "a.add").click()
        WebDriverWait(browser, 10).until(lambda b, n=n: b.current_url.count("like=") == n)
    assert len(browser.find_elements(By.CSS_SELECTOR, ".chips li")) == 3  # and "take out all"


def test_two_qualities_by_clicks(browser: Any, address: str) -> None:
    show(browser, address + "/quality/1")
    browser.find_element(By.LINK_TEXT, "Both").click()
    wait_for(browser, "h1")
    assert browser.current_url == address + "/quality/both"
    tables = browser.find_elements(By.TAG_NAME, "table")
    assert [len(each.find_elements(By.TAG_NAME, "svg")) > 1 for each in tables] == [True, True]
    user = wait_for(browser, "ol a.title")
    name = user.text
    user.click()
    wait_for(browser, ".duel")
    assert name in browser.find_element(By.CSS_SELECTOR, ".crumb").text


def test_the_map_zooms_by_keys_and_opens_an_item(browser: Any, address: str) -> None:
    show(browser, address + "/map")
    canvas = browser.find_element(By.ID, "map")
    browser.execute_script("arguments[0].focus()", canvas)
    press(browser, "+", Keys.ARROW_LEFT)
    assert browser.execute_script("return document.getElementById('map').map.scale") > 1
    press(browser, "0")
    place = browser.execute_script(
        "const map = document.getElementById('map').map;"
        "return [...map.place(map.points[0]), map.width, map.height]"
    )
    x, y, width, height = place
    action = webdriver.ActionChains(browser)
    action.move_to_element_with_offset(canvas, int(x - width / 2), int(y - height / 2))
    action.click().perform()
    WebDriverWait(browser, 10).until(lambda b: "/item/" in b.current_url)


def test_levers_apply_at_once_and_the_address_keeps_them(browser: Any, address: str) -> None:
    show(browser, f"{address}/user/{USER}?n=5")
    browser.find_element(By.CSS_SELECTOR, ".levers summary").send_keys(Keys.ENTER)
    slider = wait_for(browser, "#lever-popularity_penalty")
    before = browser.find_element(By.CSS_SELECTOR, ".rows").text
    slider.send_keys(Keys.ARROW_RIGHT)
    WebDriverWait(browser, 10).until(lambda b: "popularity_penalty=0.05" in b.current_url)
    assert browser.switch_to.active_element.get_attribute("name") == "popularity_penalty"
    press(browser, Keys.END)
    WebDriverWait(browser, 10).until(lambda b: "popularity_penalty=3" in b.current_url)
    assert browser.current_url.endswith("?n=5&popularity_penalty=3")
    after = browser.find_element(By.CSS_SELECTOR, ".rows").text
    assert after != before
    assert browser.find_element(By.CSS_SELECTOR, ".lever output").text == "3"
    told = browser.find_element(By.ID, "told").get_property("textContent")
    assert "of the first 5 stay" in told
    browser.refresh()
    assert browser.find_element(By.CSS_SELECTOR, ".rows").text == after


def test_levers_work_without_scripts(browser: Any, address: str) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(browser, f"{address}/user/{USER}?diversity=0.5")
        browser.find_element(By.NAME, "boost").send_keys("Pie")
        browser.find_element(By.CSS_SELECTOR, ".levers button").click()
        WebDriverWait(browser, 10).until(lambda b: "boost=kinds%3APie" in b.current_url)
        assert "diversity=0.5" in browser.current_url
        assert "was" in browser.find_element(By.CSS_SELECTOR, ".rows").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_a_blend_follows_its_weight(browser: Any, address: str) -> None:
    show(browser, f"{address}/compare/{USER}")
    browser.execute_script("arguments[0].focus()", wait_for(browser, "#lever-weight"))
    press(browser, Keys.ARROW_RIGHT)
    WebDriverWait(browser, 10).until(lambda b: "weight=0.05" in b.current_url)
    titles = [each.text for each in browser.find_elements(By.CSS_SELECTOR, ".duel h2")]
    assert [each.lower() for each in titles] == ["als", "als + 0.05 · wrmf", "wrmf"]
    assert len(browser.find_elements(By.CSS_SELECTOR, ".duel .lines")) == 2


def test_a_phone_has_every_form(browser: Any, address: str) -> None:
    for path, selector in (
        (f"/sandbox?like={ITEM}", "main form.search input[name=q]"),
        (f"/user/{USER}?diversity=0.1", "#lever-diversity"),
        (f"/compare/{USER}", "#lever-weight"),
    ):
        show(browser, address + path, width=360)
        assert wait_for(browser, selector)

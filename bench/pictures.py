"""Pictures of ``mfrank explore`` for README and docs/, of two models of MovieLens 100K.

Needs Chromium, chromedriver, selenium and Pillow (extras ``test`` and ``plot``), and ``items.csv``
of the data set: item, title, year, genres.

    python bench/pictures.py
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from harness.subjects import data_folder
from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

import mfrank

DOCS = Path(__file__).parents[1] / "docs"
WIDTH = 1200
NONE = Image.Dither.NONE
LEVERS = "popularity_penalty=0.5&diversity=0.3&at_most=4&boost=genres%3AFilm-Noir"
PAGES = {
    "explore-user": ("/user/5", 760),
    "explore-levers": (f"/user/5?{LEVERS}", 1000),
    "explore-quality": ("/quality/0", 800),
    "explore-both": ("/quality/both", 795),
    "explore-map": ("/map", 760),
}


def ratings() -> mfrank.Interactions:
    """All ratings, with their values."""
    with np.load(data_folder("ml-100k") / "interactions.npz") as arrays:
        return mfrank.Interactions.from_arrays(
            arrays["user"], arrays["item"], values=arrays["rating"]
        )


@contextmanager
def site(folder: Path) -> Iterator[str]:
    """The address of the site of two models, fitted to four fifths of the ratings."""
    data = ratings()
    split = mfrank.by_ratio(data, random_state=0)
    stopping = mfrank.EarlyStopping(split.valid)
    ials = mfrank.ALS(mfrank.IALS(), factors=64, random_state=0)
    ials.fit(split.train, stopping=stopping).save(folder / "ials")
    softmax = mfrank.Descent(mfrank.SampledSoftmax(), factors=64, iterations=8, random_state=0)
    softmax.fit(split.train, stopping=stopping).save(folder / "softmax")
    data.to_pandas().to_csv(folder / "ratings.csv", index=False)
    items = data_folder("ml-100k") / "items.csv"
    command = [sys.executable, "-m", "mfrank", "explore", "ials", "softmax", "--port", "0"]
    command += ["--data", "ratings.csv", "--items", str(items.resolve())]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        told = process.stdout.readline() if process.stdout else ""
        found = re.match(r"(http://\S+:\d+)/", told)
        if not found:
            sys.exit(f"the site did not start: {told}")
        yield found[1]
    finally:
        process.terminate()
        process.wait()


def browser() -> Any:
    """Chromium without a window."""
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(flag)
    os.environ.setdefault("SE_OFFLINE", "true")
    return webdriver.Chrome(options=options)


def main() -> None:
    """Take each picture, and keep it in 256 colors."""
    with tempfile.TemporaryDirectory() as place, site(Path(place)) as address:
        driver = browser()
        for name, (path, height) in PAGES.items():
            size = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            driver.get(address + path)
            if path == "/map":
                ready = (By.CSS_SELECTOR, "#map[data-ready]")
                WebDriverWait(driver, 60).until(lambda b, ready=ready: b.find_elements(*ready))
            file = DOCS / f"{name}.png"
            driver.save_screenshot(str(file))
            with Image.open(file) as taken:
                few = taken.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=NONE)
            few.save(file, optimize=True)
            print(file)
        driver.quit()


if __name__ == "__main__":
    main()

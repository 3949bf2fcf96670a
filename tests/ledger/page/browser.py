"""Headless Chromium: a page laid out at a width and in a colour scheme, and what came of it, told by a script of the test's own."""

import html
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")

_ASK = """
const frame = document.getElementById("page");
frame.addEventListener("load", () => {
  const page = frame.contentDocument, root = page.documentElement;
  const box = (one) => { const r = one.getBoundingClientRect(); return {x: r.x + r.width / 2, y: r.y + r.height / 2, w: r.width, h: r.height}; };
  const marks = [...page.querySelectorAll(".mark")].map((one) => ({
    chart: one.closest("svg").id, kind: one.classList[1], data: {...one.dataset},
    dots: [...one.querySelectorAll("circle")].map(box), bars: [...one.querySelectorAll("rect")].map(box),
    lines: [...one.querySelectorAll("line")].map(box)}));
  const texts = [...page.querySelectorAll("svg text")].map((one) => ({text: one.textContent, box: box(one), size: one.getBoundingClientRect().height}));
  const told = {marks, texts, width: root.clientWidth, scroll: root.scrollWidth, background: getComputedStyle(page.body).backgroundColor,
    ink: getComputedStyle(page.body).color, charts: [...page.querySelectorAll("svg")].map((one) => ({id: one.id, box: box(one)}))};
  const out = document.createElement("pre");
  out.id = "told"; out.textContent = JSON.stringify(told); document.body.append(out);
});
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a browser made of a page: its marks and texts with their places in pixels, and what it complained of."""

    told: dict[str, Any]
    complaints: tuple[str, ...]

    def marks(self, chart: str, kind: str) -> list[dict[str, Any]]:
        """Return the marks of one kind in a chart."""
        return [one for one in self.told["marks"] if one["chart"] == chart and one["kind"] == kind]


def look(page: Path, folder: Path, *, width: int = 1280, dark: bool = False) -> Seen:
    """Lay the page out in a frame of that width, within a document that asks where everything stands."""
    asking = folder / "asking.html"
    text = html.escape(page.read_text(encoding="utf-8"), quote=True)
    frame = f'<iframe id="page" width="{width}" height="900" srcdoc="{text}"></iframe>'
    asking.write_text(f"<!doctype html><meta charset=utf-8>{frame}<script>{_ASK}</script>", encoding="utf-8")
    scheme = 0 if dark else 1
    ran = subprocess.run(
        [
            *(chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
            *(f"--user-data-dir={folder / 'profile'}", f"--blink-settings=preferredColorScheme={scheme}"),
            *("--virtual-time-budget=5000", "--window-size=1600,1200", "--dump-dom", asking.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    found = ran.stdout.partition('<pre id="told">')[2].partition("</pre>")[0]
    assert found, ran.stderr[-2000:]
    complaints = tuple(one for one in ran.stderr.splitlines() if ":CONSOLE" in one)
    return Seen(told=json.loads(html.unescape(found)), complaints=complaints)


def chromium() -> str:
    """Return the browser; without one the test is skipped, and fails where everything must be there."""
    found = next((path for name in _CHROMIUM if (path := shutil.which(name))), None)
    if found is None and os.environ.get("CI") == "true":
        pytest.fail("no chromium here; scripts/check installs it")
    if found is None:
        pytest.skip("no chromium here (sudo apt-get install chromium)")
    return found

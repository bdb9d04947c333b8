"""The site builds in strict mode, has every public name, and loads nothing from the network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

import leakbound
from leakbound import stats
from leakbound.cli import COMMANDS
from pages import resolved

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
NAMED = re.findall(
    r"^::: (\S+)$", "\n".join(page.read_text() for page in REFERENCE.glob("*.md")), re.M
)
VALUES = (str, int, float)  # their docstrings are those of their types


class Loaded(HTMLParser):
    """Collects the addresses that a page loads, without links."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and (name == "src" or (tag == "link" and name == "href")):
                self.addresses.append(value)


def test_every_public_name_is_in_the_reference_once() -> None:
    assert len(NAMED) == len(set(NAMED))
    there = {id(resolved(path)) for path in NAMED}
    public = {name: getattr(leakbound, name) for name in leakbound.__all__}
    wanted = {n: v for n, v in public.items() if not isinstance(v, VALUES)}
    functions = {name: getattr(stats, name) for name in dir(stats)}
    returned = {n: getattr(f, "__annotations__", {}).get("return") for n, f in functions.items()}
    wanted |= {n: f for n, f in functions.items() if returned[n] == "Estimate"}
    assert [name for name, value in wanted.items() if id(value) not in there] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it, in a folder of the test."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return out


@pytest.mark.slow
def test_every_page_is_built_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = {page.relative_to(site).with_suffix(".md").as_posix() for page in site.rglob("*.html")}
    sources = {page.relative_to(ROOT / "docs").as_posix() for page in ROOT.glob("docs/**/*.md")}
    assert sources <= pages
    for page in site.rglob("*.html"):
        wanted = Loaded()
        wanted.feed(page.read_text(encoding="utf-8"))
        away = [each for each in wanted.addresses if re.match(r"(https?:)?//", each)]
        assert away == [], page
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )[\"']?(https?:)?//", style.read_text()), style


@pytest.mark.slow
def test_reference_and_commands_are_made_from_the_code(site: Path) -> None:
    verbs, commands, got = (
        (site / name).read_text(encoding="utf-8")
        for name in (
            "reference/index.html", "reference/commands.html", "search/search_index.json"
        )
    )  # fmt: skip
    assert "What a model still says" not in verbs
    assert "the excess over the control is bounded" in " ".join(verbs.split())
    assert "<code>src/leakbound/evaluation/verbs.py</code>" in verbs
    assert "--max-leak" in commands
    assert "--lora-dropout" in commands  # not on the first screen
    assert not [name for name in COMMANDS if f'id="{name}"' not in commands]
    assert "Sample, score and bound a model" in got
    assert "draw_study" in verbs
    assert "draw_study" not in got


@pytest.mark.browser
@pytest.mark.parametrize("page", ["index.html", "reference/stats.html"])
def test_the_search_works_offline(site: Path, page: str) -> None:
    chromium = shutil.which("chromium")
    if chromium is None or shutil.which("node") is None:
        pytest.skip("needs chromium and node (Debian packages chromium and nodejs)")
    resolve = ["node", "-e", "require.resolve('playwright-core')"]
    if subprocess.run(resolve, capture_output=True, check=False).returncode:
        pytest.skip("needs playwright-core (npm install; set NODE_PATH)")
    script = Path(__file__).with_name("search_browser.js")
    wanted = ["node", script, chromium, (site / page).as_uri(), "leak@k"]
    done = subprocess.run(wanted, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert "What the bounds guarantee" in seen["found"]
    assert Path(url2pathname(urlsplit(seen["opened"]).path)).is_relative_to(site)
    assert seen["errors"] == []
    assert all(url.startswith(("file://", "data:", "about:")) for url in seen["requests"])

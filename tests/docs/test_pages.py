"""Every command, block and file of README and pages exists and runs, or gives a reason why not."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from canned import CannedEngine
from contents import LEAKAGE, rows
from leakbound.benchmarks import BENCHMARKS, Benchmark, profiles
from leakbound.cli import COMMANDS, group
from leakbound.evaluation import evaluate
from leakbound.metrics import METRICS
from leakbound.objective import parse_objective
from leakbound.scorers import make_scorer
from leakbound.stats import THEOREMS
from leakbound.types import Prompt
from pages import DOCS, ROOT, blocks, resolved, run_page, shown
from reader import lay_out

PAGES = sorted(DOCS.rglob("*.md"))
LEARN = [DOCS / name for name in ("quickstart.md", "report.md", "certify.md")]
"""Pages that a newcomer follows in this order, in one folder, with the demo's models."""
OTHERS = [
    page
    for page in PAGES
    if page not in LEARN
    and any(block.language in ("sh", "python") and not block.why_not for block in blocks(page))
]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_block_escapes_being_run_or_marked(page: Path) -> None:
    """Blocks in other languages have no command, and a reason is a sentence."""
    text = page.read_text(encoding="utf-8")
    got = list(blocks(page))
    assert len(got) * 2 == len(re.findall(r"^ *```", text, re.M)), "a fence is not read"
    marks = re.findall(r"^<!-- (?:not run|file)(?:: .+ -->\n```|, this page: .+ -->$)", text, re.M)
    assert len(re.findall("<!-- (?:not run|file)", text)) == len(marks), "a mark is adrift"
    for block in got:
        assert block.language in ("sh", "python", "text", "yaml", "toml", "csv", ""), block.place
        if block.language in ("", "text"):
            assert not re.search(r"^(\$ |leakbound |pip |python )", block.text, re.M), block.place


def test_an_output_is_known_by_its_words_and_not_by_its_figures() -> None:
    printed = "┃ model ┃ leaks ┃\n│ NPO   │ 0.011 │\nverified: nothing differs.\n"
    assert shown("│ model │ leaks │\n│ NPO │ 0.2 │\n", printed)
    assert shown("model leaks\n[…]\nverified: nothing", printed)
    assert not shown("│ NPO │ none │", printed)
    assert not shown("verified: 3 differ", printed)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models and data that every page's folder is a copy of."""
    shelf = tmp_path_factory.mktemp("shelf") / "all"
    shelf.mkdir()
    lay_out(shelf)
    return shelf


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEAKBOUND_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("page", OTHERS, ids=name)
def test_every_block_of_a_page_runs_in_order(page: Path, shelf: Path, place: Path) -> None:
    for each in shelf.iterdir():
        (place / each.name).symlink_to(each)
    assert run_page(page, {}) == []


@pytest.mark.slow
def test_a_newcomer_can_follow_the_pages_from_the_first(place: Path) -> None:
    names: dict[str, Any] = {}
    assert [wrong for page in LEARN for wrong in run_page(page, names)] == []


NOTEBOOK = DOCS / "story.ipynb"


def test_outputs_are_stripped() -> None:
    cells = [c for c in json.loads(NOTEBOOK.read_text())["cells"] if c["cell_type"] == "code"]
    assert cells
    assert all(c["outputs"] == [] and c["execution_count"] is None for c in cells)


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    out = tmp_path / "story.ipynb"
    command = [sys.executable, str(DOCS / "execute.py"), str(NOTEBOOK), str(out)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    cells = json.loads(out.read_text())["cells"]
    shown = [output for cell in cells for output in cell.get("outputs", [])]
    printed = "".join("".join(s["text"]) for s in shown if s.get("name") == "stdout")
    assert "full  greedy leaks 24 of 24" in printed
    assert "verified: True" in printed
    assert any("image/svg+xml" in output.get("data", {}) for output in shown)


PLACED = {block.file: block for block in blocks(DOCS / "certify.md") if block.file}
JOB = yaml.safe_load(PLACED[".github/workflows/certify.yml"].text)["jobs"]["certify"]
INSTALLS = {"install"}  # from an index; tests/packaging installs the built wheel


@pytest.mark.slow
def test_the_workflow_stops_a_leaking_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lay_out(tmp_path)
    (tmp_path / "secrets.csv").write_text(PLACED["secrets.csv"].text, encoding="utf-8")
    got = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | JOB["env"] | {"PATH": got, "HF_HUB_OFFLINE": "1"}

    def run(command: str, **more: str) -> tuple[int, str]:
        """Run a separate script like the runner, up to the first command that fails."""
        shell = ["bash", "-eo", "pipefail", "-c", command]
        done = subprocess.run(shell, env=env | more, capture_output=True, text=True)
        return done.returncode, f"{command}: {done.stderr[-2000:]}"

    for step in JOB["steps"]:
        if "run" in step and step.get("id") not in INSTALLS:
            status, why = run(step["run"])
            assert status == 0, why
    (published,) = (s["with"]["path"] for s in JOB["steps"] if "upload" in s.get("uses", ""))
    texts = [(tmp_path / name).read_text(encoding="utf-8") for name in published.split()]
    assert all("Bluebird" not in text for text in texts)

    (tmp_path / "certificate.json").unlink()
    (decide,) = (step["run"] for step in JOB["steps"] if step.get("name") == "Decide")
    assert run(decide.replace("keyword", "'keyword'"), MAX_LEAK="0.000001")[0] in (4, 5)


def test_the_gate_is_before_the_upload() -> None:
    steps: list[dict[str, Any]] = JOB["steps"]
    assert all(("run" in step) != ("uses" in step) for step in steps)
    commands = [" ".join(step["run"].split()[:2]) for step in steps if "run" in step]
    assert commands.index("leakbound certify") < commands.index("leakbound report")


(PAPERS,) = (page.read_text("utf-8") for page in PAGES if page.name == "papers.md")
CODES = list(dict.fromkeys(re.findall(r"`([^`]+)`", PAPERS)))
README_FILE = ROOT / "README.md"
README = README_FILE.read_text(encoding="utf-8")
BOTH = README + (DOCS / "own-model.md").read_text(encoding="utf-8")
BLOCKS = "\n".join(re.findall(r"^```\w*\n(.*?)^```", BOTH, re.M | re.S))
CALLS = [
    *re.findall(r"`(leakbound [^`]+)`", BOTH),
    *re.findall(r"^(?:\$ \S*/)?(leakbound .+)$", BLOCKS, re.M),
    *(code for code in CODES if code.startswith("leakbound ") and " --" in code),
]
ABOVE = click.Context(group, **group.context_settings)
OPTIONS = {
    word
    for name in COMMANDS
    if (command := group.get_command(ABOVE, name))
    for option in command.params
    for word in (*option.opts, *option.secondary_opts)
}


def options(code: str) -> dict[str, str]:
    """Return the values of a command's options, as written."""
    words = shlex.split(code)
    return {a: b for a, b in itertools.pairwise(words) if a.startswith("-")}


@pytest.mark.parametrize("call", dict.fromkeys(CALLS))
def test_every_command_names_options_and_values_that_exist(call: str) -> None:
    _, name, *arguments = shlex.split(call)
    if {"--help", "--help-all"} & {name, *arguments}:
        return
    command = group.get_command(ABOVE, name)
    assert command is not None
    if arguments:
        command.make_context(name, arguments, parent=ABOVE)
    printed = options(call)
    assert printed.get("--profile", "leak-k") in profiles()
    assert set(printed.get("--metrics", "r_avg").split(",")) <= {*METRICS, "all"}
    parse_objective(printed.get("--objective", "npo"))
    make_scorer(printed.get("--scorer", "exact"))
    if call in CODES:
        assert printed.get("--benchmark", "jbb").partition(":")[0] in {*BENCHMARKS, "mine.csv"}


@pytest.mark.parametrize("code", [c for c in CODES if c.startswith("leakbound.")])
def test_every_function_exists(code: str) -> None:
    assert resolved(code) is not None


@pytest.mark.parametrize("code", [c for c in CODES if not c.startswith("leakbound")])
def test_every_option_file_and_setting_exists(code: str) -> None:
    if code.startswith("--"):
        option, *value = code.split()
        assert option in OPTIONS or option in (ROOT / "experiments" / "unlearning.py").read_text()
        if option == "--objective" and value:
            parse_objective(value[0])
    elif code.startswith(("bench/", "experiments/")):
        assert (ROOT / code).is_file()
    elif code.startswith("cel:"):
        parse_objective(code)
    elif code.startswith("method="):
        assert code == 'method="paper"'
        assert any(row.paper for row in THEOREMS)
    else:
        assert code in {"ids=True", "target inputs", "centres.json", "side", "scholten", "cheng"}


MOST = {README_FILE: 800, DOCS / "guarantees.md": 3500}
USER_PAGES = [
    page
    for page in PAGES
    if page.parent == DOCS and page.name not in ("architecture.md", "story.md") and page not in MOST
]
"""Pages with a limit of 1,500 words."""


@pytest.mark.parametrize("page", [*MOST, *USER_PAGES], ids=name)
def test_no_page_is_longer_than_its_limit(page: Path) -> None:
    assert len(page.read_text("utf-8").split()) <= MOST.get(page, 1500)


def test_the_python_example_finds_the_statement_about_the_worst_question(tmp_path: Path) -> None:
    prompts = tuple(Prompt(id=p, question=f"{p}?", answer="the secret") for p in "ab")
    task = Benchmark(
        name="b", prompts=prompts, origin="", scorers=("rouge-l-recall",), max_new_tokens=8
    )
    engine = CannedEngine({p: {"the secret": 0.5, "no": 0.5} for p in "ab"})
    run = evaluate(engine, task, out=tmp_path / "r", n=64)
    (block,) = re.findall(r"^worst = .*$", README, re.M)
    names: dict[str, Any] = {"run": run}
    exec(block, names)
    worst = names["worst"]
    assert worst.query_id is None
    assert worst.target.startswith("the worst of these questions")
    singles = rows(run, **LEAKAGE | {"scope": "query"})
    assert worst.lower < max(row.lower for row in singles)

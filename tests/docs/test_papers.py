"""Whatever the page of the papers names is there: commands, their options, functions, files."""

from __future__ import annotations

import itertools
import re
import shlex
from functools import reduce
from importlib import import_module

import click
import pytest

from leakbound.benchmarks import BENCHMARKS, PROFILES
from leakbound.cli import COMMANDS, group
from leakbound.metrics import METRICS
from leakbound.objective import parse_objective
from leakbound.scorers import SCORERS
from leakbound.stats import BOUNDS
from pages import DOCS, ROOT

CODES = list(dict.fromkeys(re.findall(r"`([^`]+)`", (DOCS / "papers.md").read_text("utf-8"))))
COMMANDS_NAMED = [code for code in CODES if code.startswith("leakbound ")]
ABOVE = click.Context(group, help_option_names=["-h", "--help"])
OPTIONS = {
    word
    for name in COMMANDS
    if (command := group.get_command(ABOVE, name))
    for option in command.params
    for word in option.opts
}


def options(code: str) -> dict[str, str]:
    """The values of a command's options, as they are written."""
    words = shlex.split(code)
    return {a: b for a, b in itertools.pairwise(words) if a.startswith("-")}


@pytest.mark.parametrize("code", [c for c in COMMANDS_NAMED if " --" in c])
def test_every_command_names_options_and_values_that_exist(code: str) -> None:
    _, name, *arguments = shlex.split(code)
    command = group.get_command(ABOVE, name)
    assert command is not None
    command.make_context(name, arguments, parent=ABOVE)
    said = options(code)
    assert said.get("--profile", "leak-k") in PROFILES
    assert said.get("--benchmark", "jbb").partition(":")[0] in {*BENCHMARKS, "mine.csv"}
    assert said.get("--scorer", "exact").partition(":")[0] in SCORERS
    assert set(said.get("--metrics", "r_avg").split(",")) <= set(METRICS)
    parse_objective(said.get("--objective", "npo"))


@pytest.mark.parametrize("code", [c for c in CODES if c.startswith("leakbound.")])
def test_every_function_exists(code: str) -> None:
    words = code.split(".")
    for cut in range(len(words) - 1, 0, -1):
        try:
            module = import_module(".".join(words[:cut]))
        except ModuleNotFoundError:
            continue
        assert reduce(getattr, words[cut:], module) is not None
        return
    raise AssertionError(code)


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
        assert any("paper" in listed.methods for listed in BOUNDS.values())
    else:
        assert code in {"ids=True", "target inputs", "centres.svg"}


def test_no_section_of_a_paper_is_without_a_row() -> None:
    text = (DOCS / "papers.md").read_text("utf-8")
    scholten, leak, cheng = re.split(r"^## ", text, flags=re.M)[1:]
    for wanted in ("4.1", "4.2", "4.3", "5,", "6.2", "6.3", "| B,", "| C,", "Appendix D"):
        assert wanted in scholten, wanted
    for number in range(1, 7):
        assert f"Figure {number}" in scholten or number in (1, 2), number
    assert all(word in leak for word in ("MUSE", "WMDP", "top-p", "entailment", "open question"))
    for wanted in ("4.2", "4.3", "| 5,", "6.4", "A.1", "Table 1", "Tables 2 and 3", "Figure 5"):
        assert wanted in cheng, wanted

"""The commands and Python of README, and of the table of `docs/own-model.md`, run in their order.

All in one folder, as they are written. The names they use are small stand-ins: models that learnt
the answers, a few rows of each file of the data sets. Everything else is as they say, with every
default.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from commands import leakbound

from reader import lay_out

TESTS = Path(__file__).parent.parent
README = (TESTS.parent / "README.md").read_text(encoding="utf-8")
OWN = (TESTS.parent / "docs" / "own-model.md").read_text(encoding="utf-8")
SAID = README + "\n" + OWN.partition("\n## All that can be said\n")[2].partition("\n## ")[0]
PARTS = re.compile(r"^```(\w*)\n(.*?)^```|^\|[^|\n]+\|([^|\n]+)\|$", re.M | re.S)
EVALUATE = "leakbound evaluate my-unlearned-model --benchmark tofu:forget10"
VERDICTS = (0, 4, 5)

EXCEPTIONS = {
    "make demo": "trains for minutes; tests/demo runs it",
    "make test": "runs the tests",
    "pip install -c constraints.txt '.[models]'": "installs from an index",
    "--scorer 'rouge-l-recall>=0.5' --scorer entailment": "asks a classifier of the hub",
    "fresh": "needs a model that can rewrite questions",
    "--engine vllm": "draws with vLLM: tests/engines/test_vllm_itself.py",
    "--ray local": "starts a cluster of Ray: tests/evaluation/test_ray.py",
    "--profile leak-k": "asks a classifier of the hub",
    "--control-questions others.csv": "no others here: tests/evaluation/test_control_questions.py",
}
"""What cannot be run here, and why."""

COMPLETED = {
    "benchmark": f"{EVALUATE} --inputs benchmark --out runs/benchmark",
    "0.2,0.8,1": f"{EVALUATE} --temperature 0.2,0.8,1 --out runs/grid",
    "--design fixed": f"{EVALUATE} --inputs rules --design fixed --out runs/fixed",
    "wmdp:bio": "leakbound evaluate my-unlearned-model --benchmark wmdp:bio --out runs/wmdp",
    "jbb": "leakbound evaluate my-unlearned-model --benchmark jbb --out runs/jbb",
    "--every-question": "leakbound certify runs/mine --max-leak 0.03 --threshold 0.5 "
    "--every-question --out each.json",
    "--out FILE": "leakbound certify runs/mine --max-leak 0.02 --threshold 0.5 --out second.json",
    "--no-redact": "leakbound report runs/mine --no-redact",
    "import": "leakbound import scores.jsonl --out runs/again",
    "bound": "leakbound bound runs/again",
    "leakbound export": "leakbound export runs/utility OWN_EVAL.json --openunlearning",
}
"""Words of the table that are only part of a command, with the rest of it."""


class Step(NamedTuple):
    """Something that a reader is told to run."""

    language: str
    text: str


def steps() -> Iterator[Step]:
    """All of them in order: blocks line by line, Python blocks whole, the cells of the tables."""
    number = 0
    for language, block, cell in PARTS.findall(SAID):
        if language == "python":
            yield Step("python", block)
        for line in block.splitlines() if language in ("", "sh") else ():
            if line.startswith("$ ") or language == "sh":
                yield Step("sh", re.sub(r"^\$ (?:\S*/)?|\s+#.*$", "", line))
        for code in re.findall(r"`([^`]+)`", cell):
            number += 1
            if (whole := _whole(code, number)) is not None:
                yield Step("sh", whole)


def _whole(code: str, number: int) -> str | None:
    """The command that a piece of code in the table stands for."""
    if code in COMPLETED:
        return COMPLETED[code]
    if code in EXCEPTIONS or code.startswith("leakbound "):
        return code
    out = "runs/utility" if code == "--metrics all" else f"runs/{number}"
    if code.startswith("--benchmark "):
        return f"leakbound evaluate my-unlearned-model {code} --out {out}"
    return f"{EVALUATE} {code} --out {out}" if code.startswith("--") else None


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working folder, where everything lies that README's commands name."""
    place = tmp_path_factory.mktemp("readme")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("LEAKBOUND_DATA", str(place / "data"))
        _stand_ins(place)
        yield place


def _stand_ins(place: Path) -> None:
    lay_out(place)
    run(Step("sh", EVALUATE.replace("unlearned", "retrained") + " --out runs/retrained"), {})
    demo = f"{EVALUATE} --scorer keyword:require=all -n 64 --out demo-run/runs/npo-entropy"
    run(Step("sh", demo.replace("tofu:forget10", "facts.csv")), {})


def run(step: Step, names: dict[str, Any]) -> str:
    """What is wrong with running it in this folder; nothing where it did what it should."""
    if step.language == "python":
        exec(step.text, names)
        return ""
    echoed = """leakbound() { printf '%s\\0' "$@"; }; """ + step.text
    words = subprocess.run(["bash", "-c", echoed], check=True, capture_output=True, text=True)
    arguments = words.stdout.split("\0")[:-1]
    done = leakbound(*arguments)
    if done.status in (VERDICTS if arguments[0] == "certify" else (0,)):
        return ""
    return f"{step.text}\n  status {done.status}: {done.err[-600:]}"


def test_everything_that_is_excepted_or_completed_stands_there() -> None:
    for text in [*EXCEPTIONS, *COMPLETED]:
        assert text in SAID


@pytest.mark.slow
@pytest.mark.usefixtures("place")
def test_every_command_and_every_example_runs_in_order() -> None:
    names: dict[str, Any] = {}
    asked = (step for step in steps() if step.text not in EXCEPTIONS)
    failed = [wrong for step in asked if (wrong := run(step, names))]
    assert not failed, "\n".join(failed)
    assert names["worst"].query_id is None

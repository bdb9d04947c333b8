"""Run the commands and Python of README, `docs/own-model.md`'s table and `papers.md`, in order.

All run in one folder, as written, with every default. Models and data are small substitutes under
the same names.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from commands import leakbound

from reader import ROWS, lay_out

TESTS = Path(__file__).parent.parent
README = (TESTS.parent / "README.md").read_text(encoding="utf-8")
OWN = (TESTS.parent / "docs" / "own-model.md").read_text(encoding="utf-8")
TEXT = README + "\n" + OWN.partition("\n## More options\n")[2].partition("\n## ")[0]
PAPERS = (TESTS.parent / "docs" / "reproduce" / "papers.md").read_text(encoding="utf-8")
PARTS = re.compile(r"^```(\w*)\n(.*?)^```|^\|[^|\n]+\|([^|\n]+)\|$", re.M | re.S)
EVALUATE = "leakbound evaluate my-unlearned-model --benchmark tofu:forget10"
VERDICTS = (0, 4, 5)

EXCEPTIONS = {
    "git clone https://github.com/OWNER/leakbound": "needs the network",
    "cd leakbound": "belongs to the clone",
    "make demo": "trains for minutes; tests/demo runs it",
    "pip install -c constraints.txt '.[models]'": "installs from an index",
    "--profile leak-k": "asks a classifier of the hub",
    "--control-questions others.csv": "no others here: tests/evaluation/test_control_questions.py",
    "leakbound evaluate M --profile leak-k --benchmark tofu:forget10 --out R": "as above",
    "leakbound score R --scorer entailment": "as above",
    "leakbound evaluate M --benchmark jbb --scorer 'classifier:cais/HarmBench-Llama-2-13b-cls,"
    "form=yes-no,prompt=FILE' --out R": "as above",
    "leakbound evaluate M --benchmark wmdp:bio-explain --scorer "
    "judge:openai:http://127.0.0.1:8080/v1#J --out R": "asks a server",
    "leakbound evaluate M --inputs model:CHAT,design=fresh --benchmark tofu:forget10 --out R": (
        "needs a model that rewrites"
    ),
}
"""Commands that cannot run here, with the reason."""

COMPLETED = {
    "benchmark": f"{EVALUATE} --inputs benchmark --out runs/benchmark",
    "--inputs rules,design=fixed": f"{EVALUATE} --inputs rules,design=fixed --out runs/fixed",
    "wmdp:bio": "leakbound evaluate my-unlearned-model --benchmark wmdp:bio --out runs/wmdp",
    "jbb": "leakbound evaluate my-unlearned-model --benchmark jbb --out runs/jbb",
    "leakbound export": "leakbound export runs/utility OWN_EVAL.json --openunlearning",
}
"""Code that is part of a command, with the whole command."""


class Step(NamedTuple):
    language: str
    text: str


def steps() -> Iterator[Step]:
    """Yield lines of shell blocks, whole Python blocks, and code in table cells, in order."""
    number = 0
    for language, block, cell in PARTS.findall(TEXT):
        if language == "python":
            yield Step("python", block)
        for line in block.splitlines() if language in ("", "sh") else ():
            if line.startswith("$ ") or language == "sh":
                yield Step("sh", re.sub(r"^\$ (?:\S*/)?|\s+#.*$", "", line))
        for code in re.findall(r"`([^`]+)`", cell):
            number += 1
            if (whole := _whole(code, number)) is not None:
                yield Step("sh", whole)


def paper_steps() -> Iterator[Step]:
    """Yield the commands of the papers' tables, each with its own output folder.

    R and S remain the finished runs that a command reads.
    """
    codes = [code for code in re.findall(r"`([^`]+)`", PAPERS) if code not in EXCEPTIONS]
    for number, code in enumerate(codes):
        if code.startswith("--objective "):
            code = f"leakbound unlearn M {code} --benchmark tofu:forget05 --out N"
        if code.startswith("leakbound ") and " --" in code:
            yield Step("sh", re.sub(r"--out \w+$", f"--out papers/{number}", code))


def _whole(code: str, number: int) -> str | None:
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


def test_every_exception_and_completed_command_is_in_the_pages() -> None:
    for text in [*EXCEPTIONS, *COMPLETED]:
        assert text in TEXT + PAPERS


@pytest.mark.slow
@pytest.mark.usefixtures("place")
def test_every_command_and_every_example_runs_in_order() -> None:
    names: dict[str, Any] = {}
    steps_to_run = (step for step in steps() if step.text not in EXCEPTIONS)
    failed = [wrong for step in steps_to_run if (wrong := run(step, names))]
    assert not failed, "\n".join(failed)
    assert names["worst"].query_id is None


@pytest.mark.slow
@pytest.mark.usefixtures("place")
def test_every_command_of_the_papers_runs() -> None:
    """M knows the answers, which are short, and has the layers that recipes name."""
    rates = "--epochs 150 --batch-size 4 --learning-rate 0.01 --schedule constant"
    taught = f"leakbound finetune my-model --benchmark tofu:forget10 {rates} --out M"
    assert not run(Step("sh", taught), {})
    Path("C").symlink_to("my-retrained-model")
    rows = [{"question": row["question"], "rewriting": f"Say: {row['question']}"} for row in ROWS]
    Path("rewritings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    draws = "--temperature 0.2,1 --metrics r_avg -n 64"
    for run_of, model in (("R", "my-unlearned-model"), ("S", "my-npo-model")):
        made = f"leakbound evaluate {model} --benchmark tofu:forget10 {draws} --out {run_of}"
        assert not run(Step("sh", made), {})
    failed = [wrong for step in paper_steps() if (wrong := run(step, {}))]
    assert not failed, "\n".join(failed)

"""What is asked for is recorded whole, the same from Python and from the command line."""

from __future__ import annotations

import inspect
import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest

from asked import AskedEngine
from leakbound.benchmarks import Loaded, load_benchmark
from leakbound.cli import group, run
from leakbound.errors import InputError
from leakbound.evaluation import (
    STUDY_FIELDS,
    Attack,
    Inputs,
    ModelSettings,
    Study,
    evaluate,
    sample,
)
from leakbound.store import Run
from leakbound.types import Decoding

NEEDS = {"budget": {"explore": "exact"}, "adaptive_mode": {"adaptive_temperature": 0.4}}
"""What an option says nothing without."""
NOT_ASKED = {"model", "benchmark", "out", "progress"}  # the field `benchmark` is how it was loaded
SAID: dict[str, Any] = {
    "benchmark": Loaded(spec="tofu:forget10", data="/d", limit=2, profile="scholten"),
    "n": 9,
    "until": "p<=0.4",
    "explore": "hybrid",
    "budget": 7,
    "decoding": (
        Decoding(temperature=0.5, adaptive_temperature=0.9, adaptive_mode="two_pass", stop=("x",)),
        Decoding(top_p=0.8, top_k=3, max_tokens=40, max_new_tokens=5),
    ),
    "scorers": ("contains", "exact"),
    "calibration": "/c.jsonl",
    "inputs": Inputs(source="rules", queries=3, ids=True, ids_draws=9, design="fixed"),
    "attack": Attack(64, (0.3,), (0.9, 1.0)),
    "metrics": ("all",),
    "control": "org/other",
    "seed": 5,
    "confidence": 0.9,
    "settings": ModelSettings(
        dtype="bfloat16", device="cpu", trust_remote_code=True, template="{question}", system="be"
    ),
}
"""Something other than the default for every field: a new one needs a value here."""


def engine(name: str = "m") -> AskedEngine:
    return AskedEngine(lambda query, decoding: 0.4, name=name)


def command(*arguments: object) -> int:
    return run(lambda: group([str(a) for a in arguments], standalone_mode=False))


def stored(path: Path) -> Any:
    return json.loads((path / "run.json").read_text())


def test_every_argument_of_evaluate_is_on_record() -> None:
    names = set(STUDY_FIELDS)
    assert {field.name for field in fields(Study)} - names == {"servers"}  # never on record
    assert set(inspect.signature(evaluate).parameters) - NOT_ASKED == names - {"benchmark"}
    assert set(inspect.signature(sample).parameters) - NOT_ASKED <= names
    assert set(SAID) == names
    whole = Study(**SAID)
    for name in names:
        assert getattr(whole, name) != getattr(Study(), name), f"say something of {name}"


@pytest.mark.parametrize("name", SAID)
def test_a_record_holds_what_was_said_and_reads_back(name: str) -> None:
    study = replace(Study(), **{name: SAID[name]})
    record = json.loads(json.dumps(study.to_dict()))
    assert record.keys() == SAID.keys()
    assert record != Study().to_dict()
    assert Study.from_dict(record) == study


def test_every_setting_of_a_part_is_on_record() -> None:
    record = Study(**SAID).to_dict()
    for name in ("benchmark", "inputs", "attack", "settings"):
        assert record[name] == json.loads(json.dumps(asdict(SAID[name])))
    assert [Decoding.from_dict(one) for one in record["decoding"]] == [*SAID["decoding"]]


def test_every_option_of_the_command_line_reaches_the_record() -> None:
    from leakbound.cli import options
    from leakbound.cli.evaluate import evaluate as from_shell

    given = {
        "benchmark": "csv:b.csv", "data": Path("/d"), "limit": 3, "profile": "openunlearning",
        "n": 9, "until": "p<=0.4", "explore": "exact", "budget": 7, "temperature": (0.5, 0.7),
        "top_p": (0.8,), "top_k": 3, "max_new_tokens": 5, "max_tokens": 40,
        "adaptive_temperature": 0.9, "adaptive_mode": "two_pass", "stop": ("x",),
        "scorers": ("exact",),
        "calibration": Path("/c"), "inputs": "rules", "queries": 3, "ids": True, "ids_draws": 9,
        "ids_criterion": "mean_logprob", "design": "fixed", "embedder": "e", "similarity": 0.7,
        "attack": 64, "metrics": "rouge", "control": "c", "seed": 5, "confidence": 0.9,
        "dtype": "float16", "device": "cpu", "system": "be", "prompt_template": "{question}",
        "trust_remote_code": True,
    }  # fmt: skip
    known = {parameter.name for parameter in from_shell.params}
    assert known - set(options.NOT_OF_A_STUDY) == set(given)
    nothing: dict[str, Any] = {
        **dict.fromkeys(known), "out": "o", "dry_run": False, "trust_remote_code": False,
        "benchmark": "fictitious:authors=6", "inputs": "rules", "ids": True, "embedder": "f",
    }  # fmt: skip

    def recorded(said: dict[str, Any]) -> dict[str, Any]:
        task, study = options.asked(said)
        return replace(study, benchmark=task.loaded).to_dict()

    for name in set(given) - {"benchmark", "data", "inputs", "ids", "embedder"}:
        base = nothing | NEEDS.get(name, {})
        assert recorded(base | {name: given[name]}) != recorded(base), name


def test_like_changes_what_is_said_and_nothing_else(
    data: Path, tmp_path: Path, opened: list[Any]
) -> None:
    asked = ("--benchmark", "tofu:forget10", "--data", data, "--scorer", "contains", "-n", 8)
    how = ("--temperature", "0.5,1", "--max-new-tokens", 9, "--confidence", 0.9)
    assert (
        command("evaluate", "m", *asked, *how, "--trust-remote-code", "--out", tmp_path / "a") == 0
    )
    like = ("--like", tmp_path / "a", "--top-p", "0.8,1", "--confidence", 0.8)
    assert command("evaluate", "m", *like, "--out", tmp_path / "b") == 0
    a, b = (Study.of(Run.open(tmp_path / name)) for name in "ab")
    assert [how.name for how in b.decoding] == ["T=0.5 top-p=0.8", "T=0.5", "T=1 top-p=0.8", "T=1"]
    assert {how.max_new_tokens for how in b.decoding} == {9}
    again = ("--like", tmp_path / "a", "--temperature", "0.2,0.3")
    assert command("evaluate", "m", *again, "--out", tmp_path / "c") == 0
    c = Study.of(Run.open(tmp_path / "c"))
    assert [how.name for how in c.decoding] == ["T=0.2", "T=0.3"]
    trusting = replace(a.settings, trust_remote_code=False)  # that is said each time
    assert a.settings.trust_remote_code
    assert b == replace(a, decoding=b.decoding, confidence=0.8, settings=trusting)


def test_what_a_record_cannot_name_is_asked_for(
    data: Path, tmp_path: Path, opened: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    task = load_benchmark("tofu:forget10", data=data)
    sample(engine(), task, out=tmp_path / "r", n=4, control=engine("c"))
    like = ("sample", "m", "--like", tmp_path / "r", "--out", tmp_path / "s")
    assert command(*like) == 2
    assert "control of the run is a AskedEngine" in capsys.readouterr().err
    assert command(*like, "--control", "c") == 0
    sample(engine(), replace(task, loaded=None), out=tmp_path / "t", n=4)
    assert command("sample", "m", "--like", tmp_path / "t", "--out", tmp_path / "u") == 2
    assert "`--benchmark` is missing" in capsys.readouterr().err


def test_the_last_command_is_the_one_that_is_repeated(data: Path, tmp_path: Path) -> None:
    task = load_benchmark("tofu:forget10", data=data)
    for confidence in (0.9, 0.8):
        evaluate(engine(), task, out=tmp_path / "r", n=8, confidence=confidence, scorers="contains")
    assert Study.of(Run.open(tmp_path / "r")).confidence == 0.8
    before = (tmp_path / "r" / "run.json").stat()
    evaluate(engine(), task, out=tmp_path / "r", n=8, confidence=0.8, scorers="contains")
    assert (tmp_path / "r" / "run.json").stat().st_mtime_ns == before.st_mtime_ns


def test_python_refuses_what_the_command_line_refuses(data: Path, tmp_path: Path) -> None:
    task = load_benchmark("tofu:forget10", data=data)
    for said, named in (
        ({"n": 8, "explore": "auto"}, "`n` 8 has no meaning with exploring"),
        ({"budget": 8}, "`budget` 8 has no meaning without exploring"),
        ({"explore": "some"}, "`explore` must be one of"),
    ):
        with pytest.raises(InputError, match=named):
            evaluate(engine(), task, out=tmp_path / "r", **said)
    assert not (tmp_path / "r").exists()


def test_a_field_of_a_later_version_is_refused() -> None:
    with pytest.raises(InputError, match="the study on record has colour"):
        Study.from_dict({"colour": "red"})

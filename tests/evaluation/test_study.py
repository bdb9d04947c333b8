"""One study for Python, the command line, YAML and run.json: stated once, recorded, drawn."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

import leakbound
from canned import SpyEngine
from cli.commands import SAMPLE, done, refused
from cli.commands import leakbound as command
from leakbound.benchmarks import load_benchmark, profiles
from leakbound.cli.evaluate import evaluate as from_shell
from leakbound.cli.parsed import Parsed, study_from
from leakbound.engines.ray_workers import RayWorkers
from leakbound.errors import InputError
from leakbound.evaluation import evaluate, sample
from leakbound.store import Run
from leakbound.study import (
    Attack,
    Explore,
    FixedN,
    ModelSettings,
    Prove,
    Rewritings,
    Study,
    StudyFields,
    Until,
)
from leakbound.types import Decoding
from suites import slow_but

STATED: dict[str, Any] = {
    "benchmark": "tofu:forget10",
    "data": "/d",
    "limit": 2,
    "profile": "scholten",
    "sampling": FixedN(9),
    "decodings": (
        Decoding(temperature=0.5, adaptive_temperature=0.9, adaptive_mode="two_pass", stop=("x",)),
        Decoding(top_p=0.8, top_k=3, max_tokens=40, max_new_tokens=5),
    ),
    "rewritings": Rewritings("rules", queries=3, ids=True, ids_draws=9, design="fixed"),
    "attack": Attack(64, (0.3,), (0.9, 1.0)),
    "prove": Prove(70, ("/runs/before",)),
    "stress": ("round:int4", "openers"),
    "control_questions": "tofu:holdout10",
    "scorers": ("contains", "exact"),
    "claims": ("0.01", "every:2%"),
    "allow_unmatched": False,
    "check_scorers": True,
    "calibration": "/c.jsonl",
    "metrics": ("all",),
    "confidence": 0.9,
    "rho": 3.0,
    "seed": 5,
    "settings": ModelSettings(
        dtype="bfloat16", device="cpu", template="{question}", system="be"
    ),
}  # fmt: skip
"""A value other than the default for every field: a new field needs a value here."""
WHOLE = Study(**STATED)
STUDIES = {
    "whole": WHOLE,
    "plain": Study("tofu:forget10"),
    "until": Study("tofu:forget10", sampling=Until("p<=0.4", most=64), confidence=0.8),
    "open": Study("tofu:forget10", sampling=Until("mean<=0.4")),
    "explore": Study("tofu:forget10", sampling=Explore("exact", 7)),
}


def engine(name: str = "m") -> SpyEngine:
    return SpyEngine(lambda query, decoding: 0.4, name=name)


def parsed(**options: Any) -> Study:
    """Parse the study from these options of `leakbound evaluate`."""
    nothing = dict.fromkeys(parameter.name for parameter in from_shell.params)
    return study_from(Parsed({**nothing, **options}))


def test_every_field_has_a_value_here_and_is_a_keyword() -> None:
    names = {field.name for field in fields(Study)}
    assert set(STATED) == names - {"servers", "workers"}
    assert set(StudyFields.__annotations__) == (names - {"benchmark"}) | {"n"}
    for name in STATED:
        assert getattr(WHOLE, name) != getattr(Study(), name), f"say something of {name}"


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_a_study_is_a_value(study: Study, tmp_path: Path) -> None:
    """Compare it, pickle it, print it, and read it back from JSON and YAML."""
    assert replace(study) == study != replace(study, seed=99)
    assert pickle.loads(pickle.dumps(study)) == study
    made: Any = vars(leakbound.study) | {"Decoding": Decoding}
    assert eval(repr(study), made) == study
    assert Study.from_dict(json.loads(json.dumps(study.to_dict()))) == study
    study.write(tmp_path / "study.yaml")
    assert Study.read(tmp_path / "study.yaml") == study


def test_a_study_prints_only_given_fields(tmp_path: Path) -> None:
    study = Study("tofu:forget10", sampling=Until("p<=0.02", most=1024), confidence=0.9)
    assert repr(study) == (
        "Study('tofu:forget10', sampling=Until(claim='p<=0.02', most=1024), confidence=0.9)"
    )
    study.write(tmp_path / "study.yaml")
    assert yaml.safe_load((tmp_path / "study.yaml").read_text()) == {
        "benchmark": "tofu:forget10",
        "sampling": {"until": "p<=0.02", "most": 1024},
        "confidence": 0.9,
    }


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("benchmrk: x", "Did you mean 'benchmark'"),
        ("servers: [http://x]", "a study has no field 'servers'"),
        ("sampling: {n: many}", "n must be a whole number, got 'many'"),
        ("sampling: {n: 4, until: p<=0.1}", "needs exactly one of the keys n, until, explore"),
        ("sampling: {until: maybe}", "a claim must be like 'p<=0.02'"),
        ("decodings: [{temperature: -1}]", "`temperature` must be 0"),
        ("- tofu", "a study must have fields, got"),
    ],
)
def test_a_bad_file_and_its_field_are_named(text: str, named: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=named) as refused:
        Study.read(file)
    assert str(file) in str(refused.value)


OUT = {"out": "nowhere"}
TASK = load_benchmark("fictitious:authors=6")


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (partial(Study, sampling=Until("p<=0.1"), attack=Attack(64)), "`attack` needs a fixed"),
        (partial(Study, sampling=Explore("auto"), rewritings=Rewritings("rules")), "fixed number"),
        (partial(Study, sampling=256), r"got 256. Use FixedN\(1024\)"),
        (partial(Study, TASK, limit=5), "`limit` 5 has no effect"),
        (partial(Attack, 16, temperatures=(0.0, 1.0)), "above 0"),
        (partial(evaluate, "m", TASK, n=4, sampling=FixedN(4), **OUT), "`n` 4 and `sampling`"),
        (partial(evaluate, "m", Study(), **OUT), "`--benchmark` is missing"),
        (partial(evaluate, "m", "b", n="5", **OUT), "`n` must be a whole number, got '5'. Change"),
        (partial(evaluate, "m", "b", nn=5, **OUT), "no argument `nn`. Did you mean 'n'"),
        (partial(evaluate, "m", "b", contrl="c", **OUT), "Did you mean 'control'"),
        (partial(evaluate, "m", "b", confidence="high", **OUT), "`confidence` must be a number"),
        (partial(evaluate, "m", "b", stress=5, **OUT), "`stress`.0. must be a text, got 5"),
        (partial(evaluate, "m", 5, **OUT), "`benchmark` must be a text or .*, got 5"),
        (partial(evaluate, 5, "fictitious", **OUT), "a model must be .*, got 5"),
        (partial(evaluate, "m", "b"), "`out` is missing.*out='runs/mine'"),
        (partial(Decoding, temperature="hot"), "`temperature` must be a number, got 'hot'"),
        (partial(Explore, "auto", "5"), "`forwards` must be a whole number, got '5'. Change"),
        (partial(Study("fictitious", profile="scholen").load), "unknown profile 'scholen'"),
    ],
)
def test_invalid_studies_are_refused_by_name(call: Callable[[], object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        call()
    assert not Path("nowhere").exists()


def test_the_file_in_the_documents_reads(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text()
    (block,) = re.findall(r"^```yaml\n(benchmark:.*?)^```", text, re.M | re.S)
    (tmp_path / "mine.yaml").write_text(block)
    assert Study.read(tmp_path / "mine.yaml") == Study(
        "tofu:forget10",
        sampling=FixedN(1024),
        decodings=(Decoding(temperature=0.5), Decoding(top_p=0.9)),
        rewritings=Rewritings("rules"),
        scorers=("rouge-l-recall",),
        confidence=0.999,
        settings=ModelSettings(dtype="bfloat16"),
    )


def test_a_file_trusts_neither_servers_nor_code() -> None:
    seen = replace(WHOLE, settings=ModelSettings(trust_remote_code=True), servers=None)
    judge = "judge:model=openai:http://x#m"
    named = replace(seen, scorers=(judge,))
    assert named.trusted == {"http://x"}
    read = Study.from_dict(named.to_dict())
    assert (read.trusted, read.settings.trust_remote_code) == (frozenset(), False)
    assert replace(read, seed=1).trusted == frozenset()
    assert leakbound.study.study_of(read, {"seed": 1}).trusted == frozenset()
    assert leakbound.study.study_of(read, {"scorers": (judge,)}).trusted == {"http://x"}


def test_a_profile_is_a_study(data: Path) -> None:
    named = Study("tofu:forget10", data=data, limit=1, profile="scholten-notebook")
    study = named.resolved(named.load())
    (decoding,) = study.decodings
    assert (study.sampling, decoding.top_k, decoding.max_tokens) == (FixedN(128), 50, 128)
    assert (study.profile, study.limit) == ("scholten-notebook", 1)


def test_the_profile_cheng_selects_rewritings_without_filters(data: Path) -> None:
    study = Study("tofu:forget10", data=data, profile="cheng")
    study = study.resolved(study.load())
    assert (study.rewritings, study.rho) == (Rewritings("rules", ids=True, filters=False), 2)
    assert not study.rewritings.open_filters(study.settings.loading).content
    named: Any = {"benchmark": "tofu:forget10", "profile": "cheng"}
    seen = parsed(**named, inputs="model:M")
    assert seen.rewritings == Rewritings("model:M", ids=True, filters=False)
    (note,) = replace(seen, rho=3.0).departures(study.load())
    assert note.endswith("rho 3.0, not 2.0; source 'model:M', not 'rules'")
    with pytest.raises(InputError, match="use no profile with rewritings"):
        parsed(**named, inputs="none")


DRAWN = {
    None: (1024, Decoding()),
    "openunlearning": (1024, Decoding()),
    "tofu-legacy": (1024, Decoding(max_tokens=200)),
    "scholten": (1024, Decoding(max_new_tokens=128, max_tokens=128)),
    "scholten-notebook": (128, Decoding(top_p=0.9, top_k=50, max_new_tokens=128, max_tokens=128)),
    "leak-k": (200, Decoding(top_k=50)),
    "cheng": (1024, Decoding()),
}
"""Draws and decoding of each profile."""


def stored(path: Path) -> Any:
    """Return run.json without its time and its digest."""
    record = json.loads((path / "run.json").read_text())
    own = ("created", "digest", "place")
    return {name: value for name, value in record.items() if name not in own}


@pytest.mark.parametrize(
    ("profile", "departing"),
    slow_but([("scholten", True)], [(name, cuts) for name in DRAWN for cuts in (False, True)]),
)
def test_a_profile_is_the_same_in_python_and_the_shell(
    profile: str | None, departing: bool, data: Path, tmp_path: Path, opened: list[Any]
) -> None:
    assert set(DRAWN) == {None, *profiles()}
    n, decoding = DRAWN[profile]
    task = load_benchmark("tofu:forget10", data=data, profile=profile)
    how: dict[str, Any] = {"n": 16, "decodings": replace(decoding, top_p=0.7)} if departing else {}
    how["allow_unmatched"] = False  # as the command line has it
    python = sample("m", task, out=tmp_path / "python", **how)
    cut = ("-n", 16, "--top-p", 0.7) if departing else ()
    named = ("--profile", profile) if profile else ()
    wanted = ("--benchmark", "tofu:forget10", "--data", data, *named, *cut)
    done("evaluate", "m", *SAMPLE, *wanted, "--out", tmp_path / "shell")
    assert stored(tmp_path / "python") == stored(tmp_path / "shell")
    assert opened[0] == opened[1]
    done("evaluate", "m", *SAMPLE, "--like", tmp_path / "python", "--out", tmp_path / "again")
    assert stored(tmp_path / "again") == stored(tmp_path / "python")
    arm = python.arms["target"]
    assert (arm.plan.n, arm.decoding) == ((16, how["decodings"]) if departing else (n, decoding))
    notes = [
        note for note in stored(tmp_path / "python")["notes"] if "differs from its profile" in note
    ]
    assert len(notes) == (departing and profile is not None)
    for note in notes:
        assert f"n 16, not {n}" in note
        assert f"top_p 0.7, not {decoding.top_p}" in note
        assert "max_tokens" not in note


def test_every_option_of_the_command_line_reaches_the_study() -> None:
    given = {
        "benchmark": "csv:b.csv", "data": Path("/d"), "limit": 3, "profile": "openunlearning",
        "n": 9, "until": "p<=0.4", "explore": "exact,forwards=7", "temperatures": (0.5, 0.7),
        "top_ps": (0.8,), "top_k": 3, "max_new_tokens": 5, "max_tokens": 40,
        "adaptive_temperature": "0.9,mode=two_pass", "stop": ("x",),
        "scorers": ("exact",), "claims": ("1%",), "filter": "part-of-system", "end_token": "<e>",
        "calibration": Path("/c"), "inputs": "rules,queries=3",
        "attack_budget": "64", "prove_budget": "70,proposals=full", "metrics": ("rouge",),
        "control_questions": "o.csv", "allow_unmatched": True, "check_scorers": True,
        "seed": 5, "confidence": 0.9, "rho": 3.0,
        "dtype": "float16", "device": "cpu", "system": "be", "prompt_template": "{question}",
        "trust_remote_code": True, "thinking": "on", "max_thinking_tokens": 9,
    }  # fmt: skip
    known = {parameter.name for parameter in from_shell.params}
    others = {"model", "engine", "out", "control", "study", "like", "offline", "dry_run", "as_json"}
    others |= {"ray", "report_to", "only"}  # settings of the execution
    others |= {"patience", "unlisted", "questions"}  # in the name of a served model; a slice
    assert known - others == set(given)
    usual: dict[str, Any] = {"benchmark": "fictitious:authors=6"}
    for name, value in given.items():
        base = usual | ({"benchmark": None} if name == "benchmark" else {})
        assert parsed(**base | {name: value}) != parsed(**base), name
    settings = "queries=3,ids=yes,ids_draws=9,criterion=mean_logprob,design=fixed,embedder=e"
    assert parsed(**usual, inputs=f"rules,{settings},similarity=0.7").rewritings == Rewritings(
        "rules", queries=3, ids=True, ids_draws=9, criterion="mean_logprob", design="fixed",
        embedder="e", similarity=0.7,
    )  # fmt: skip
    assert parsed(**usual, prove_budget="70,proposals=a,b").prove == Prove(70, ("a", "b"))
    (twice,) = parsed(**usual, adaptive_temperature="0.9,mode=two_pass").decodings
    assert (twice.adaptive_temperature, twice.adaptive_mode) == (0.9, "two_pass")
    workers = RayWorkers("local", most=2, gpus=0.5, threads=3)
    assert parsed(**usual, ray="local,most=2,gpus=0.5,threads=3").workers == workers


def test_like_changes_only_given_fields(data: Path, tmp_path: Path) -> None:
    decodings = tuple(Decoding(temperature=t, max_new_tokens=9) for t in (0.5, 1.0))
    made = Study("tofu:forget10", data=data, scorers=("contains",), decodings=decodings)
    made = replace(made, settings=ModelSettings(trust_remote_code=True), allow_unmatched=False)
    run = tmp_path / "a"
    a = evaluate(engine(), made, out=run, n=8, confidence=0.9).study
    b = parsed(like=run, top_ps=(0.8, 1.0), seed=2)
    assert [how.name for how in b.decodings] == ["T=0.5 top-p=0.8", "T=0.5", "T=1 top-p=0.8", "T=1"]
    assert {how.max_new_tokens for how in b.decodings} == {9}
    assert b == replace(a, decodings=b.decodings, seed=2)
    assert (a.confidence, b.confidence) == (0.9, 0.9)
    trusted = parsed(like=run, trust_remote_code=True).settings.trust_remote_code
    assert (trusted, b.settings.trust_remote_code) == (True, False)  # each command must permit it
    again = parsed(like=run, temperatures=(0.2, 0.3)).decodings
    assert [how.name for how in again] == ["T=0.2", "T=0.3"]


def test_a_study_file_and_options(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        f"benchmark: tofu:forget10\ndata: {data}\nsampling: {{until: p<=0.4, most: 32}}\n"
        "scorers: contains\nconfidence: 0.8\nrewritings: none\n"
    )
    a = parsed(study=file)
    assert a == replace(Study.read(file), allow_unmatched=False)
    assert (a.sampling, a.scorers, a.confidence) == (Until("p<=0.4", 32), ("contains",), 0.8)
    changed = replace(a, sampling=Until("p<=0.4", 64), confidence=0.9)
    assert parsed(study=file, n=64, confidence=0.9) == changed
    assert parsed(study=file, until="none", n=8) == replace(a, sampling=FixedN(8))
    with pytest.raises(InputError, match="both specify a study"):
        parsed(study=file, like=tmp_path)


def test_estimates_are_renewed(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, out = load_benchmark("tofu:forget10", data=data), tmp_path / "r"
    how: Any = {"n": 8, "scorers": ("contains",)}
    want = leakbound.evaluate(engine(), task, out=tmp_path / "want", **how).estimates
    for again in (
        lambda: leakbound.evaluate(engine(), task, out=out, **how),
        lambda: leakbound.bound(leakbound.load(out)),
    ):
        older = {"version": "0.0.9", "statistics": "else"}
        monkeypatch.setattr("leakbound.store.run.code", lambda older=older: older)
        leakbound.evaluate(engine(), task, out=out, **how)
        monkeypatch.undo()
        for reader in (lambda run: run.estimates, leakbound.report):
            with pytest.raises(InputError, match=r"different code \(leakbound 0\.0\.9"):
                reader(leakbound.load(out))
        again()
        assert leakbound.load(out).estimates == want


def test_engines_without_a_name_are_required(data: Path, tmp_path: Path, opened: list[Any]) -> None:
    task = load_benchmark("tofu:forget10", data=data)
    sample(engine(), task, out=tmp_path / "r", n=4, control=engine("c"))
    like = ("evaluate", "m", *SAMPLE, "--like", tmp_path / "r", "--out", tmp_path / "s")
    refused(command(*like), "is a Python object, SpyEngine")
    done(*like, "--control", "c")
    sample(engine(), replace(task, loaded=None), out=tmp_path / "t", n=4)
    like = ("evaluate", "m", *SAMPLE, "--like", tmp_path / "t", "--out", tmp_path / "u")
    refused(command(*like), "`--benchmark` is missing")


def test_the_last_command_is_repeated_or_changed(data: Path, tmp_path: Path) -> None:
    task = load_benchmark("tofu:forget10", data=data)
    for confidence in (0.9, 0.8):
        evaluate(engine(), task, out=tmp_path / "r", n=8, confidence=confidence, scorers="contains")
    assert Run.open(tmp_path / "r").study.confidence == 0.8
    before = (tmp_path / "r" / "run.json").stat()
    evaluate(engine(), task, out=tmp_path / "r", n=8, confidence=0.8, scorers="contains")
    assert (tmp_path / "r" / "run.json").stat().st_mtime_ns == before.st_mtime_ns
    first = Run.open(tmp_path / "r")
    second = evaluate(engine(), replace(first.study, seed=1), out=tmp_path / "b")
    assert second.study == replace(first.study, seed=1)
    assert second.arms["target"].spec.seed == 1

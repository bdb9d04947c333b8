"""A study is checked, opened, planned and run: the effects and refusals of each step."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from canned import CannedEngine, books
from exploring import ExploringEngine
from leakbound.drawing.plans import Evaluation
from leakbound.drawing.study import check, draw_study, open_run, plan, run_plans
from leakbound.errors import InputError, MixError
from leakbound.evaluation import evaluate, prepared
from leakbound.store import Run
from leakbound.study import Attack, Explore, FixedN, Prove, Rewritings, Study, Until
from leakbound.types import Decoding, Headway
from tiny import tiny_model_folder

QUESTIONS = books("abc")
TASK = replace(
    QUESTIONS,
    scorers=("contains",),
    prompts=tuple(replace(p, paraphrases=(f"By whom is {p.id}?",)) for p in QUESTIONS.prompts),
)
CLASHING = replace(TASK, prompts=(TASK.prompts[0], replace(TASK.prompts[1], id="a~00")))
WARM, COLD = Decoding(max_new_tokens=8), Decoding(temperature=0.5, max_new_tokens=8)
GREEDY = Decoding(temperature=0.0, max_new_tokens=8)
LAW = {"It is hush.": 0.1, "It is Bob": 0.2, "No": 0.7}


def engine(name: str = "canned") -> ExploringEngine:
    return ExploringEngine(defaultdict(lambda: LAW), defaultdict(lambda: ["No"]), name=name)


def put(
    out: Path, model: Any = None, control: Any = None, slice: str | None = None, **fields: Any
) -> Evaluation:
    """Put a study of three questions to a model."""
    usual = {"sampling": FixedN(8), "decodings": (WARM,), "benchmark": TASK, "servers": frozenset()}
    ready = prepared(Study(**usual | fields))
    return Evaluation(ready, model or engine(), control, out, slice=slice)


def test_each_step_leaves_the_next_one_to_do(tmp_path: Path) -> None:
    model, control = engine(), engine("control")
    rules = Rewritings("rules", queries=2)
    put_to = put(tmp_path / "r", model, control, decodings=(WARM, COLD), rewritings=rules)
    check(put_to)
    assert not (tmp_path / "r").exists()
    run = open_run(put_to)
    assert len(run.queries) == 9
    plans = plan(put_to, run)
    assert [str(own.key) for own in plans] == [
        "greedy", "target T=1", "target T=0.5", "target T=1 inputs", "target T=0.5 inputs",
        "control-greedy", "control T=1", "control T=0.5", "control T=1 inputs",
        "control T=0.5 inputs",
    ]  # fmt: skip
    assert {own.by for own in plans if own.key.is_control} == {control}
    assert {own.spec.plan.n for own in plans if not own.key.greedy} == {8}
    assert plans[3].spec.shares == plans[8].spec.shares is not None
    assert model.queried == control.queried == []
    assert not (tmp_path / "r" / "run.json").exists()
    run_plans(put_to, run, plans)
    assert list(run.arms) == [str(own.key) for own in plans]
    run.require_drawn()
    number = len(model.queried)
    again = open_run(put_to)
    assert plan(put_to, again) == plans
    run_plans(put_to, again, plans)
    assert len(model.queried) == number


CHECKED: list[tuple[dict[str, Any], str]] = [
    ({"scorers": ("keywrd",)}, "unknown scorer 'keywrd'. Did you mean 'keyword'"),
    ({"metrics": ("nonsense",)}, "unknown metric 'nonsense'"),
    ({"control": "vlm:m"}, "unknown engine 'vlm'. Did you mean 'vllm'"),
    ({"control": 5}, "a model must be a folder, a hub name or an engine, got 5"),
    ({"sampling": Until("mean<=0.1", 64)}, "its scores are 0 or 1. Use 'p<=0.1'"),
    ({"sampling": Until("p<=0.1"), "scorers": ("rouge-l-recall",)}, "'rouge-l-recall>=0.5'"),
    ({"decodings": (GREEDY,), "prove": Prove(9)}, "`prove` searches for rare leaks"),
    ({"decodings": (GREEDY,), "rewritings": Rewritings("rules")}, "Add a temperature"),
    ({"decodings": (WARM, WARM)}, "two decodings have the name 'T=1'"),
    ({"rewritings": Rewritings("rules", ids=True), "control": "{finished}"}, "has other queries"),
    ({"attack": Attack(64), "control": "{finished}"}, "Name the control's model"),
    ({"model": "openai:http://x/v1#m", "sampling": Explore("auto")}, "cannot be explored"),
    ({"model": "openai:http://x/v1#m", "prove": Prove(9)}, "searched for rare leaks"),
    ({"stress": ("round:int4",)}, "'round:int4' changes weights, but .* is an engine"),
    ({"stress": ("shots:99",)}, "has fewer that do not answer"),
    ({"slice": "1/4", "attack": Attack(64)}, "`--attack` needs all questions"),
    ({"slice": "1/4", "prove": Prove(9)}, "`--prove` needs all questions"),
    ({"slice": "1/4", "stress": ("round:int4",)}, "`--under` needs all questions"),
    ({"slice": "1/4", "metrics": ("all",)}, "`--metrics` needs all questions"),
    ({"slice": "1/4", "sampling": Until("p<=0.1")}, "`--until` needs all questions"),
    ({"slice": "1/4", "rewritings": Rewritings("rules", ids=True)}, "`--inputs by a model`"),
    ({"slice": "0/4"}, "must be i/N with i from 1 to N, got '0/4'"),
]


@pytest.mark.parametrize(("how", "named"), CHECKED)
def test_check_refuses_without_a_model(how: dict[str, Any], named: str, tmp_path: Path) -> None:
    model, control = engine(), how.get("control")
    if control == "{finished}":
        control = evaluate(engine("c"), TASK, out=tmp_path / "c", n=8).path
    with pytest.raises(InputError, match=named):
        check(put(tmp_path / "r", **{"model": model, **how, "control": control}))
    assert model.queried == []
    assert not (tmp_path / "r").exists()


def test_bad_files_are_refused_before_a_model_is_loaded(tmp_path: Path) -> None:
    clashing = {"benchmark": CLASHING, "rewritings": Rewritings("benchmark")}
    for how, named in (
        ({"prove": Prove(9, ("nowhere",))}, "must be finished runs, got `nowhere`"),
        (clashing, "a question has the id 'a~00'"),
    ):
        with pytest.raises(InputError, match=named):
            open_run(put(tmp_path / "r", "no-model", **how))
        assert not (tmp_path / "r" / "run.json").exists()


RULES = Rewritings("rules", queries=3)
EXPLORED: dict[str, Any] = {"sampling": Explore("hybrid", 50)}
Changes = list[tuple[dict[str, Any], str]]
MIXED: list[tuple[dict[str, Any], Changes]] = [
    ({}, [
        ({"sampling": FixedN(9)}, r"n = 8, .* has n = 9\..*--until"),
        ({"seed": 1}, "seed"),
        ({"decodings": (COLD,)}, "temperature"),
        ({"rewritings": RULES}, "it has None"),
        (EXPLORED, "kind: it has 'fixed n', this one has 'explored'"),
    ]),
    ({"rewritings": RULES}, [
        ({"rewritings": None}, "this one has None"),
        ({"rewritings": replace(RULES, queries=2)}, "queries: it has 3, this one has 2"),
        ({"rewritings": replace(RULES, design="fixed")}, "design: it has 'allocated'"),
        ({"rewritings": Rewritings("benchmark", queries=3)}, "source: it has 'rules'"),
    ]),
    (EXPLORED, [
        ({"sampling": Explore("hybrid", 51)}, "forwards: it has"),
        ({"scorers": ("exact",)}, "this one has 'exact'"),
        ({"sampling": FixedN(8)}, "it has 'explored', this"),
    ]),
    ({"sampling": Until("p<=0.2", 8)}, [
        ({"sampling": Until("p<=0.1", 8)}, "claim: it has 'p<=0.2', this one has 'p<=0.1'"),
        ({"sampling": FixedN(8)}, "it has 'until decided', this"),
        ({"scorers": ("exact",)}, "scorer: name: it has 'contains'"),
    ]),
    ({"attack": Attack(64)}, [
        ({"attack": Attack(65)}, "budget: it has 64, this one has 65"),
        ({"attack": Attack(64, top_ps=(1.0,))}, "decodings"),
        ({"scorers": ("keyword",)}, "scorer: name"),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("begun", "changes"), MIXED, ids=str)
def test_other_studies_are_refused(begun: dict[str, Any], changes: Changes, tmp_path: Path) -> None:
    """In the folder of a study; nothing is drawn."""
    before = draw_study(put(tmp_path / "r", **begun)).record
    step = draw_study if "attack" in begun else open_run  # before a model is loaded
    for changed, named in changes:
        again = engine()
        with pytest.raises(MixError, match=named):
            step(put(tmp_path / "r", again, **begun | changed))
        assert again.queried == []
    record = Run.open(tmp_path / "r").record
    assert (record.arms, record.attack) == (before.arms, before.attack)


def test_another_control_s_questions_or_decodings_are_refused(tmp_path: Path) -> None:
    evaluate(CannedEngine(defaultdict(lambda: LAW)), TASK, out=tmp_path / "c", n=8)
    fewer = replace(TASK, prompts=TASK.prompts[:2])
    for how, named in (({"benchmark": fewer}, "questions"), ({"decodings": (COLD,)}, "drawn")):
        other = put(tmp_path / named, control=tmp_path / "c", **how)
        with pytest.raises(MixError, match=named):
            plan(other, open_run(other))


@pytest.mark.thorough
def test_two_fresh_runs_are_equal_to_the_last_digit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every table and record, such as draws, scores, proofs, metrics and estimates."""
    monkeypatch.setattr("leakbound.store.plan.PART", 32)
    model, control = (str(tiny_model_folder(tmp_path / f"m{seed}", seed)) for seed in (0, 1))
    how: dict[str, Any] = {"n": 24, "decodings": WARM, "rewritings": Rewritings("rules", queries=2)}
    how |= {"attack": Attack(64), "prove": Prove(20), "metrics": "all", "stress": "round:int4"}
    task, texts = replace(TASK, template="Question: {question} Answer:"), []
    last: dict[str, Headway] = {}
    for out in (tmp_path / "one", tmp_path / "two"):
        how["progress"] = lambda now: last.update({now.phase: now})
        evaluate(model, task, out=out, control=control, **how)
        read = {file: repr(pq.read_table(file).to_pylist()) for file in out.rglob("*.parquet")}
        read[out / "utility.json"] = (out / "utility.json").read_text()
        texts.append({str(file.relative_to(out)): text for file, text in read.items()})
    assert texts[0] == texts[1]
    assert all(now.done == now.total for now in last.values())
    assert [*last][:4] == ["rewriting", "loading m0", "loading m1", "reading target"]
    assert {"answers of control", "proving target", "proving target attack T=1"} < last.keys()

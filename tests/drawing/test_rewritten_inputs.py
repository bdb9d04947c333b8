"""Rewritings: their draws within a question's outputs, and a run with known distributions."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from canned import CannedEngine, SpyEngine, benchmark_of, queries_of
from contents import EXCESS, PROBABILITY, counts, rows
from leakbound.benchmarks import Benchmark
from leakbound.drawing.queries import share
from leakbound.errors import IncompleteError, InputError, MixError, ModelError
from leakbound.evaluation import evaluate, sample, summary
from leakbound.inputs import SELECTION
from leakbound.presenting.questions import correlation
from leakbound.presenting.view import read_view
from leakbound.scorers import make_scorer
from leakbound.store import Arm, Run, read_accepted, read_values
from leakbound.store.plan import PART
from leakbound.study import Rewritings
from leakbound.types import Decoding, Draws, Failure, Query
from tiny import WORDS, tiny_model_folder, tiny_tokenizer

REWORDED = ("Tell me the secret of {}.", "Please say the secret of {}.", "Is there one of {}?")
LEAKS = {"p0": 0.0, "p0~00": 0.5, "p0~01": 0.1, "p0~02": 0.2, "p1": 0.3, "p1~00": 0.3}
RULES = Rewritings("benchmark", queries=3)


def benchmark(**changes: Any) -> Benchmark:
    """Two questions, with three rewritings and with one."""
    wanted = {"p0": REWORDED, "p1": REWORDED[:1]}
    plain = benchmark_of(
        wanted, question="What is the secret of {}?", answer="It is hush{}.", keywords=("hush{}",)
    )
    prompts = tuple(
        replace(p, paraphrases=tuple(text.format(p.id) for text in wanted[p.id]))
        for p in plain.prompts
    )
    return replace(plain, **{"prompts": prompts, **changes})


def engine(leaks: Mapping[str, float] = LEAKS, **settings: Any) -> CannedEngine:
    texts = {
        q: {f"It is hush{q.partition('~')[0]}": leak, "no": 1 - leak} if leak else {"no": 1.0}
        for q, leak in leaks.items()
    }
    return CannedEngine(texts, **settings)


def drawn(arm: Arm) -> dict[str, int]:
    """Draws by query."""
    return counts(arm, "query_id")


def evaluated(out: Path, made: Any = None, task: Benchmark | None = None, **how: Any) -> Run:
    """Return a run with the benchmark's rewritings, unless `how` names others."""
    usual = {"rewritings": RULES, "n": 64, "scorers": ["keyword"]}
    return evaluate(made or engine(), task or benchmark(), out=out, **usual | how)


def sampled(out: Path, made: Any = None, **how: Any) -> Run:
    return sample(made or engine(), benchmark(), out=out, **{"n": 64, "rewritings": RULES} | how)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that no test may change."""
    return evaluated(tmp_path_factory.mktemp("inputs") / "r", n=512)


def test_pools_queries_and_questions_have_separate_rows(whole: Run) -> None:
    run = whole
    assert [q.id for q in run.queries] == list(LEAKS)
    assert [q.id for q in run.questions] == ["p0", "p1"]
    assert set(run.arms) == {"greedy", "target", "target inputs"}
    assert set(drawn(run.arms["target"])) == {"p0", "p1"}
    full = run.arms["target inputs"]
    assert sum(n for q, n in drawn(full).items() if q.startswith("p0")) == 512
    mine = rows(run, arm="target inputs", inputs=("as asked", "these queries"), **PROBABILITY)
    leak = {(r.query_id, r.over if r.query_id else None): r for r in mine}
    pools = {"p0": (4, 0.2), "p1": (2, 0.3)}
    assert set(leak) == {(q, None) for q in LEAKS} | {(p, c) for p, (c, _) in pools.items()} | {
        (None, None)
    }
    for p, (count, truth) in pools.items():
        row = leak[p, count]
        assert row.n == 512
        assert row.lower <= truth <= row.upper
        assert row.target == f"a completion of these {count} queries under this decoding"
    for q, truth in LEAKS.items():
        assert leak[q, None].lower <= truth <= leak[q, None].upper
        assert leak[q, None].n == drawn(full)[q]
    worst = rows(run, inputs="worst query", query_id="p0", **PROBABILITY)[0]
    assert worst.lower <= 0.5 <= worst.upper
    assert worst.over == 4
    own = rows(run, arm="target", query_id="p0", **PROBABILITY)
    assert [r.over for r in own] == [None]


def test_gaps_of_rewritings_are_bounded(whole: Run) -> None:
    run = whole
    gap = PROBABILITY | {"beyond": "own words", "inputs": "these queries"}
    of_worst = gap | {"inputs": "worst query"}
    gaps = {r.query_id: r for r in rows(run, **gap)}
    assert gaps["p0"].lower > 0.1
    assert gaps["p0"].confidence == pytest.approx(0.99)
    assert gaps["p1"].lower < 0 < gaps["p1"].upper
    assert gaps[None].lower <= 0.1 <= gaps[None].upper
    (count,) = rows(run, **gap | {"scope": "count"})
    assert (count.lower, count.upper) == (1, 2)
    (some,) = rows(run, **of_worst | {"scope": "count"})
    assert some.lower == 1
    worst = {r.query_id: r for r in rows(run, **of_worst)}
    assert gaps["p0"].lower < worst["p0"].lower < 0.5
    assert worst["p1"].lower < 0
    (largest,) = rows(run, **gap | {"scope": "worst question"})
    # one side at alpha/2, for the choice of two; there, both sides at alpha/2
    assert largest.lower == pytest.approx(gaps["p0"].lower, abs=0.001)
    tables = summary(run)
    assert tables[-1].texts == (("r", "benchmark", "allocated", "4", "4"),)
    assert len(tables[0].rows) == 1  # only the arms of the questions


@pytest.mark.slow
def test_the_control_gets_the_same_queries(tmp_path: Path) -> None:
    quiet = engine(dict.fromkeys(LEAKS, 0.01), name="c")
    run = evaluated(tmp_path / "r", control=quiet, n=256)
    target, control = run.arms["target inputs"], run.arms["control inputs"]
    assert target.spec.shares == control.spec.shares
    assert drawn(target) == drawn(control)
    beyond = EXCESS | {"arm": "target inputs", "inputs": "these queries"}
    excess = rows(run, **beyond)
    assert {r.query_id: r.over for r in excess} == {"p0": 4, "p1": 2, None: 2}
    assert all(r.lower > 0.05 for r in excess)
    finished = evaluated(tmp_path / "c", quiet, n=256).path
    again = evaluated(tmp_path / "s", control=finished, n=256)
    assert set(again.arms) == set(run.arms)
    assert rows(again, **beyond)
    fewer = Rewritings("benchmark", queries=1)
    with pytest.raises(MixError, match="other rewritings"):
        sampled(tmp_path / "t", control=finished, n=256, rewritings=fewer)


def test_a_source_runs_once(tmp_path: Path) -> None:
    file, out = tmp_path / "mine.jsonl", tmp_path / "r"
    write = "\n".join(json.dumps({"id": "p0", "rewriting": text.format("p0")}) for text in REWORDED)
    file.write_text(write)
    from_file = Rewritings(f"file:{file}")
    with pytest.raises(RuntimeError, match="switched off"):
        sampled(out, engine(dies_after=1), rewritings=from_file)
    moved = file.rename(tmp_path / "sub.jsonl")
    with pytest.raises(InputError, match="must be a file"):
        sampled(out, rewritings=from_file)
    moved.rename(file)
    run = sampled(out, rewritings=from_file)
    assert [q.id for q in run.queries] == ["p0", "p0~00", "p0~01", "p0~02", "p1"]
    assert {q.source for q in run.queries if "~" in q.id} == {"file"}
    elsewhere = tmp_path / "elsewhere" / file.name
    elsewhere.parent.mkdir()
    elsewhere.write_text(write)
    sampled(out, rewritings=Rewritings(f"file:{elsewhere}"))
    file.write_text(write + "\n")
    with pytest.raises(MixError, match=r"sha256 of mine\.jsonl"):
        sampled(out, rewritings=from_file)
    file.write_text(json.dumps({"id": "p7", "rewriting": "What?"}))
    with pytest.raises(InputError, match=r"'p7' .*the benchmark has 'p0'"):
        sampled(tmp_path / "s", rewritings=from_file)


def test_a_limit_ignores_rows_of_a_file(tmp_path: Path) -> None:
    rewritten = [{"id": p, "rewriting": REWORDED[0].format(p)} for p in ("p0", "p1")]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rewritten)))
    whole, from_file = benchmark(), Rewritings(f"file:{tmp_path / 'mine.jsonl'}")
    first = benchmark(prompts=whole.prompts[:1], left_out=whole.prompts[1:])
    run = sample(engine(), first, out=tmp_path / "r", n=8, rewritings=from_file)
    assert [q.id for q in run.queries] == ["p0", "p0~00"]


@pytest.mark.slow
@pytest.mark.parametrize("of", [None, "answer", "question"])
def test_questions_without_a_rewriting_are_used_and_named(of: str | None, tmp_path: Path) -> None:
    first, second = benchmark().prompts
    bad = replace(second, paraphrases=() if of is None else (getattr(second, of),))
    run = evaluated(tmp_path / "r", task=benchmark(prompts=(first, bad)))
    assert drawn(run.arms["target inputs"])["p1"] == 64
    tried = summary(run)[-1]
    assert "1 question without a rewriting (sampled in the original wording): 'p1'" in tried.note
    accepted = read_accepted(run.path, run.record)
    assert accepted is not None
    assert not accepted[1].queries
    assert any(name.startswith("Removed: ") for name in tried.columns) == bool(of)


# Answers to p0~00 are as certain as answers to the question, answers to p0~01 less so.
SURE = {
    "p0": {"a": 0.7, "b": 0.3},
    "p0~00": {"a": 0.9, "It is hushp0": 0.1},
    "p0~01": {"a": 0.2, "b": 0.2, "c": 0.2, "d": 0.4},
    "p0~02": {"It is hushp0": 1.0},
    "p1": {"no": 1.0},
    "p1~00": {"no": 0.5, "yes": 0.5},
}
IDS = Rewritings("benchmark", queries=3, ids=True, ids_draws=256)


FIXED = Rewritings("benchmark", queries=3, design="fixed")


def test_a_stopped_selection_refuses_other_inputs(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="switched off"):
        sampled(tmp_path / "r", CannedEngine(SURE, dies_after=2), rewritings=IDS)
    other = replace(IDS, criterion="mean_logprob")
    for changed, named in (
        ({"rewritings": other}, "criterion"),
        ({"rewritings": None}, "contains files"),
        ({"rewritings": IDS, "seed": 1}, "seed"),
    ):
        with pytest.raises(MixError, match=named):
            sampled(tmp_path / "r", **changed)


def test_input_selection_keeps_confident_queries(tmp_path: Path) -> None:
    run = evaluated(tmp_path / "r", CannedEngine(SURE), rewritings=IDS)
    assert [q.id for q in run.queries] == ["p0", "p0~00", "p0~02", "p1"]
    values = read_values(run.path)
    assert set(values) == set(SURE)
    assert values["p0~02"] == pytest.approx(0.0)
    assert values["p0~01"] < values["p0"] < values["p0~00"]
    assert set(run.arms) == {"greedy", "target", "target inputs"}
    tried = summary(run)[-1]
    removed = "Removed: model less confident than for the question"
    assert tried.columns[3:] == ("Tried", removed, "Used")
    assert tried.texts[0][3:] == ("4", "2", "2")


def test_selection_draws_are_of_the_plain_model_and_never_scored(tmp_path: Path) -> None:
    cold = Decoding(temperature=0.5, top_p=0.9, max_new_tokens=8)
    made = SpyEngine(lambda query, decoding: 0.5, name="canned")
    run = evaluated(tmp_path / "r", made, rewritings=IDS, decodings=cold)
    selecting = {(query.id, how, n) for p, query, how, n in made.queried if p == SELECTION}
    assert selecting == {(query_id, Decoding(max_new_tokens=8), 256) for query_id in SURE}
    others = {p for p, *_ in made.queried} - {SELECTION}
    assert others == {f"score:{arm}:canned" for arm in ("greedy", "target", "target inputs")}
    assert not list((run.path / "selection").rglob("scores"))
    selected = Run.open(run.path / "selection" / "ids").arms["selection"]
    assert drawn(selected) == dict.fromkeys(SURE, 256)


def correlations(run: Run) -> dict[str, float | None]:
    """Pearson's r of every question, as a page shows it."""
    (model,) = read_view({"run": run}).reworded
    scorer = make_scorer("keyword")
    return {query.prompt_id: correlation(model, scorer, query.prompt_id) for query in run.questions}


def test_surer_queries_leak_more_or_less(whole: Run, tmp_path: Path) -> None:
    got = correlations(whole)
    assert got["p0"] is not None
    assert got["p0"] < -0.9  # a leak of one in two is the least certain answer
    assert got["p1"] is None
    ids = evaluated(tmp_path / "s", CannedEngine(SURE), rewritings=IDS)
    more = correlations(ids)["p0"]
    assert more is not None
    assert more > 0.4


def test_a_failed_query_takes_its_question_out_of_the_pools(tmp_path: Path) -> None:
    for out, made in (("r", engine(broken=["p0~01"])), ("s", CannedEngine(SURE, broken=["p0~01"]))):
        with pytest.raises(IncompleteError, match="'p0~01'"):  # "s": while selecting
            evaluated(tmp_path / out, made, rewritings=IDS if out == "s" else RULES)
    run = Run.open(tmp_path / "r")
    wanted = rows(run, arm="target inputs", scope="question")
    assert {r.query_id for r in wanted} == {"p1"}
    assert not rows(run, arm="target inputs", query_id=None)
    assert rows(run, arm="target", query_id=None)


def test_the_fixed_design_draws_equally(tmp_path: Path) -> None:
    run = evaluated(tmp_path / "r", rewritings=FIXED)
    assert drawn(run.arms["target inputs"]) == {q: 16 if q.startswith("p0") else 32 for q in LEAKS}
    mine = rows(run, arm="target inputs", scope="question")
    assert {(r.quantity, r.about.inputs) for r in mine if r.about.beyond is None} == {
        ("leak probability", "these queries"),
        ("leak probability", "worst query"),
        ("leak@k", "these queries"),
    }


class Rewriter:
    """A chat model whose replies depend on the number of the rewriting; some never arrive."""

    name = "fake"

    def chat(self, requests: Sequence[Any], decoding: Decoding, seed: int) -> list[str | None]:
        return [
            None if "#rewriting 3." in request.id
            else f"Could you tell me the secret of {request.id.partition('#')[0]}?"
            for request in requests
        ]  # fmt: skip


def test_fresh_has_a_rewriting_per_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = SimpleNamespace(chat=lambda name: Rewriter())
    module = SimpleNamespace(OpenModels=lambda **loading: models)  # the real one loads torch
    monkeypatch.setitem(sys.modules, "leakbound.engines.models", module)
    leaks = {f"{p}~{i:02d}": 0.4 for p in ("p0", "p1") for i in range(16)} | {"p0": 0.0, "p1": 0.0}
    fresh = Rewritings("model:fake", design="fresh")
    run = evaluated(tmp_path / "r", engine(leaks), n=16, rewritings=fresh)
    assert len(run.queries) == 32  # 15 of 16 for each, including repeats
    arm = run.arms["target inputs"]
    assert set(drawn(arm).values()) == {1}
    assert not {"p0", "p1"} & set(drawn(arm))
    leak = rows(run, arm="target inputs", **PROBABILITY)
    assert {(r.query_id, r.over, r.n) for r in leak if r.query_id} == {
        ("p0", 15, 15), ("p1", 15, 15),
    }  # fmt: skip
    assert all("over the input distribution" in r.target for r in leak)
    tried = summary(run)[-1]
    assert tried.columns[3:] == ("Tried", "Removed: empty", "Used")
    assert tried.texts[0][1:] == ("model:fake", "fresh", "32", "2", "30")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"similarity": 0.5}, "used with an `embedder`, got 0.5. Add `embedder=NAME`"),
        ({"similarity": 1.5, "embedder": "e"}, r"in \[-1, 1\], got 1.5"),
        ({"design": "fresh"}, "'rules' are a finite list. Use inputs model:NAME"),
        ({"source": "none"}, "Omit `rewritings`"),
        ({"source": "rule"}, "unknown input 'rule'. Did you mean 'rules'"),
    ],
)
def test_rewritings_that_cannot_be_are_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        Rewritings(**{"source": "rules", **settings})


class Heedless(CannedEngine):
    """Gives every query as many draws as the largest query has, or a failure of another query."""

    other = False

    def generate(self, queries: Sequence[Query], decoding: Decoding, draws: Draws) -> Any:
        for got in super().generate(queries, decoding, replace(draws, draws_per_query={})):
            query = replace(got.query, id="q")
            yield Failure(query=query, reason="none") if self.other else got


def test_an_engine_that_ignores_its_job_is_refused(tmp_path: Path) -> None:
    made = Heedless(engine().texts)
    with pytest.raises(
        ModelError, match=r"query 'p\d.*', but \d+ were planned. Correct the engine: it must"
    ):
        sampled(tmp_path / "r", made)
    made.other = True
    with pytest.raises(ModelError, match="'q', which was not requested"):
        sampled(tmp_path / "r", made)


TEMPLATE = "{% for turn in messages %}{{ turn['content'] }} {% endfor %}"


def rewriter(folder: Path, seed: int) -> Path:
    """A small chat model in place of the real one."""
    tokenizer = tiny_tokenizer(WORDS, chat_template=TEMPLATE)
    return tiny_model_folder(folder, seed, tokenizer, max_position_embeddings=512)


@pytest.mark.thorough
def test_a_replaced_rewriter_is_refused_when_a_run_resumes(tmp_path: Path) -> None:
    folder, out = rewriter(tmp_path / "rewriter", 1), tmp_path / "run"
    inputs = Rewritings(f"model:transformers:{folder}", queries=2)
    first = evaluated(out, rewritings=inputs)
    assert first.arms["target"].spec.model == "CannedEngine"  # and not the rewriter
    (folder / "checkpoint-1").mkdir()
    (folder / "checkpoint-1" / "optimizer.pt").write_bytes(b"nothing that loading reads")
    assert evaluated(out, rewritings=inputs).estimates == first.estimates
    rewriter(folder, 2)
    with pytest.raises(MixError, match="inputs"):
        evaluated(out, rewritings=inputs)


THREE = queries_of(5, 5, 5)


def test_allocated_draws_the_query_of_every_output() -> None:
    sharing = share(queries_of(*[5] * 2000), "allocated", 20, 0)
    drawn = np.array(list(sharing.draws_per_query.values())).reshape(2000, 5)
    assert (drawn.sum(axis=1) == 20).all()
    assert (drawn == 0).any()
    # uniform multinomial: mean n/5, variance n (1/5)(4/5), independent questions
    assert drawn.mean(axis=0) == pytest.approx(4, abs=0.2)
    assert drawn.var(axis=0) == pytest.approx(3.2, rel=0.15)
    assert abs(np.corrcoef(drawn[:-1, 0], drawn[1:, 0])[0, 1]) < 0.1


def test_an_allocation_is_a_function_of_seed_and_prompt() -> None:
    first = share(THREE, "allocated", 50, 0)
    own = list(first.draws_per_query.values())
    assert share(THREE, "allocated", 50, 0) == first
    assert list(share(queries_of(5), "allocated", 50, 0).draws_per_query.values()) == own[:5]
    assert share(THREE, "allocated", 50, 1) != first
    assert own[:5] != own[5:10]


def test_a_design_has_a_draw_for_each_query() -> None:
    with pytest.raises(InputError, match=r"got n = 4 for 5 queries of 'p0'\. Increase `n`"):
        share(THREE, "fixed", 4, 0)
    with pytest.raises(InputError, match="no rewriting of any question"):
        share(queries_of(1, 1, 1), "fresh", 4, 0)


@pytest.mark.parametrize(("n", "parts"), [(1000, 3), (1800, 5), (8000, 18)])
def test_parts_hold_whole_questions_and_every_draw_once(n: int, parts: int) -> None:
    nine = queries_of(*[5] * 9)
    sharing = share(nine, "allocated", n, 0)
    drawn: dict[str, int] = {}
    got = sharing.parts(nine)
    for part in got:
        for query_id, count in zip(part.query_ids, part.draws_per_query, strict=True):
            assert 0 < count <= 1024
            drawn[query_id] = drawn.get(query_id, 0) + count
        assert part.sizes == (max(part.draws_per_query),)
        assert part.draws == sum(part.draws_per_query) <= max(PART, n)
    assert drawn == sharing.draws_per_query
    assert len(got) == parts
    where = {q: part.number for part in got if part.first_chunk == 0 for q in part.query_ids}
    assert all(where[f"p{i}"] == where[f"p{i}~00"] for i in range(9))

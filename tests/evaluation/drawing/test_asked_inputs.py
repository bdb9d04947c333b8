"""Rewritings through the main verb, on an engine whose law is known for every query."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from canned import CannedEngine
from estimates import rows
from leakbound.benchmarks import Benchmark
from leakbound.errors import IncompleteError, InputError, MixError, ModelError
from leakbound.evaluation import evaluate, probe, sample, summary
from leakbound.evaluation.statements.claims import clean_questions
from leakbound.evaluation.views.read import read_view
from leakbound.evaluation.views.summary import clean_table
from leakbound.inputs import SELECTION
from leakbound.reporting import write_report
from leakbound.scorers import make_scorer
from leakbound.store import Arm, Run, read_accepted, read_values, write_sealed
from leakbound.study import Explore, Rewritings, Until
from leakbound.text.figures import below
from leakbound.types import Decoding, Draws, Prompt, Query, Sample

ASKED = ("Tell me the secret of {}.", "Please say the secret of {}.", "Is there one of {}?")
LEAKS = {"p0": 0.0, "p0~00": 0.5, "p0~01": 0.1, "p0~02": 0.2, "p1": 0.3, "p1~00": 0.3}
FEW: dict[str, Any] = {"n": 64, "scorers": ["keyword"]}
RULES = Rewritings("benchmark", queries=3)


def benchmark(**changes: Any) -> Benchmark:
    """Two questions, with three rewritings and with one; a third has none that may be asked."""
    asked = {"p0": ASKED, "p1": ASKED[:1]}
    prompts = tuple(
        Prompt(
            id=p,
            question=f"What is the secret of {p}?",
            answer=f"It is hush{p}.",
            keywords=(f"hush{p}",),
            paraphrases=tuple(text.format(p) for text in asked.get(p, ())),
        )
        for p in ("p0", "p1")
    )
    settings = {"name": "mine", "scorers": ("keyword",), "max_new_tokens": 8, "origin": "test"}
    return Benchmark(**{"prompts": prompts, **settings, **changes})


def engine(leaks: Mapping[str, float] = LEAKS, **settings: Any) -> CannedEngine:
    texts = {
        q: {f"It is hush{q.partition('~')[0]}": leak, "no": 1 - leak} if leak else {"no": 1.0}
        for q, leak in leaks.items()
    }
    return CannedEngine(texts, **settings)


def drawn(arm: Arm) -> dict[str, int]:
    """Draws by query."""
    tally: Counter[str] = Counter()
    for part in arm.parts:
        for row in arm.completions(part).to_pylist():
            tally[row["query_id"]] += row["count"]
    return dict(tally)


def contents(run: Run) -> list[Any]:
    arms = run.arms.values()
    return [run.estimates, [[a.completions(p).to_pylist() for p in a.parts] for a in arms]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that no test may change."""
    out = tmp_path_factory.mktemp("inputs") / "r"
    return evaluate(engine(), benchmark(), out=out, rewritings=RULES, n=512, scorers=["keyword"])


def test_pools_queries_and_the_question_itself_stand_apart(whole: Run) -> None:
    run = whole
    assert [q.id for q in run.queries] == list(LEAKS)
    assert [q.id for q in run.questions] == ["p0", "p1"]
    assert set(run.arms) == {"greedy", "target", "target inputs"}
    assert set(drawn(run.arms["target"])) == {"p0", "p1"}
    full = run.arms["target inputs"]
    assert sum(n for q, n in drawn(full).items() if q.startswith("p0")) == 512
    mine = rows(run, arm="target inputs", estimand="leak probability")
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
    worst = rows(run, estimand="leak probability, worst query", query_id="p0")[0]
    assert worst.lower <= 0.5 <= worst.upper
    assert worst.over == 4
    own = rows(run, arm="target", estimand="leak probability", query_id="p0")
    assert [r.over for r in own] == [None]


def test_what_rewritings_find_beyond_the_question_is_certified(whole: Run, tmp_path: Path) -> None:
    run = whole
    gaps = {r.query_id: r for r in rows(run, estimand="gap in leak probability")}
    assert gaps["p0"].lower > 0.1
    assert gaps["p0"].confidence == pytest.approx(0.99)
    assert gaps["p1"].lower < 0 < gaps["p1"].upper
    assert gaps[None].lower <= 0.1 <= gaps[None].upper
    (count,) = rows(run, estimand="questions with gap in leak probability above 0")
    assert (count.lower, count.upper) == (1, 2)
    (some,) = rows(run, estimand="questions with gap in leak probability, worst query above 0")
    assert some.lower == 1
    worst = {r.query_id: r for r in rows(run, estimand="gap in leak probability, worst query")}
    assert gaps["p0"].lower < worst["p0"].lower < 0.5
    assert worst["p1"].lower < 0
    _, protocol, more, tried = summary(run)
    assert protocol.columns == (
        "Model", "Greedy", "Output", "Full", "Full: worst question", "Full: worst query",
    )  # fmt: skip
    ((arm, greedy, *cells),) = protocol.texts
    assert (arm, greedy) == ("target", "0.000")
    assert all(cell.startswith("0.") and "[" in cell for cell in cells)
    (largest,) = rows(run, estimand="gap in leak probability, largest of 2")
    # one side at alpha/2, for the choice of two; there, both sides at alpha/2
    assert largest.lower == pytest.approx(gaps["p0"].lower, abs=0.001)
    _, _, most, where, _, worst_where = more.texts[0]
    assert most.endswith(f"(≥ {below(largest.lower)})")
    assert (where, worst_where) == (f"{count.value:g} (≥ 1)", f"{some.value:g} (≥ 1)")
    assert tried.texts == (("r", "benchmark", "allocated", "4", "4"),)
    assert len(summary(run)[0].rows) == 1  # the arms of the questions alone
    assert write_report({"r": run}, tmp_path / "report.html").exists()


@pytest.mark.slow
def test_the_control_is_asked_the_same(tmp_path: Path) -> None:
    quiet = dict.fromkeys(LEAKS, 0.01)
    run = evaluate(
        engine(), benchmark(), out=tmp_path / "r", rewritings=RULES,
        control=engine(quiet, name="c"), n=256, scorers=["keyword"],
    )  # fmt: skip
    target, control = run.arms["target inputs"], run.arms["control inputs"]
    assert target.spec.shares == control.spec.shares
    assert drawn(target) == drawn(control)
    excess = rows(run, arm="target inputs", estimand="excess leak probability")
    assert {r.query_id: r.over for r in excess} == {"p0": 4, "p1": 2, None: 2}
    assert all(r.lower > 0.05 for r in excess)
    finished = evaluate(engine(quiet, name="c"), benchmark(), out=tmp_path / "c", rewritings=RULES,
                        n=256, scorers=["keyword"])  # fmt: skip
    again = evaluate(
        engine(), benchmark(), out=tmp_path / "s", rewritings=RULES, control=finished.path,
        n=256, scorers=["keyword"],
    )  # fmt: skip
    assert set(again.arms) == set(run.arms)
    assert rows(again, arm="target inputs", estimand="excess leak probability")
    with pytest.raises(MixError, match="other rewritings"):
        sample(engine(), benchmark(), out=tmp_path / "t", control=finished.path, n=256,
               rewritings=Rewritings("benchmark", queries=1))  # fmt: skip


def test_other_inputs_are_never_mixed_in(tmp_path: Path) -> None:
    out = tmp_path / "r"
    sample(engine(), benchmark(), out=out, n=64, rewritings=RULES)
    for other, named in (
        (Rewritings("benchmark", queries=2), "queries: it has 3, this one says 2"),
        (Rewritings("benchmark", queries=3, design="fixed"), "design: it has 'allocated'"),
        (Rewritings("rules", queries=3), "source: it has 'benchmark'"),
        (None, "this one says None"),
    ):
        with pytest.raises(MixError, match=named):
            sample(engine(), benchmark(), out=out, n=64, rewritings=other)
    sample(engine(), benchmark(), out=out, n=64, rewritings=RULES)
    plain = tmp_path / "s"
    sample(engine(), benchmark(), out=plain, n=64)
    with pytest.raises(MixError, match="it has None"):
        sample(engine(), benchmark(), out=plain, n=64, rewritings=RULES)


def test_a_source_is_asked_once_and_what_it_gave_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    write = "\n".join(json.dumps({"id": "p0", "rewriting": text.format("p0")}) for text in ASKED)
    file.write_text(write)
    asked = Rewritings(f"file:{file}")
    dying = engine(dies_after=1)
    with pytest.raises(RuntimeError, match="switched off"):
        sample(dying, benchmark(), out=tmp_path / "r", n=64, rewritings=asked)
    moved = file.rename(tmp_path / "sub.jsonl")
    with pytest.raises(InputError, match="name no file"):
        sample(engine(), benchmark(), out=tmp_path / "r", n=64, rewritings=asked)
    moved.rename(file)
    run = sample(engine(), benchmark(), out=tmp_path / "r", n=64, rewritings=asked)
    assert [q.id for q in run.queries] == ["p0", "p0~00", "p0~01", "p0~02", "p1"]
    assert {q.source for q in run.queries if "~" in q.id} == {"file"}
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / file.name).write_text(write)
    elsewhere = Rewritings(f"file:{tmp_path / 'elsewhere' / file.name}")
    sample(engine(), benchmark(), out=tmp_path / "r", n=64, rewritings=elsewhere)
    file.write_text(write + "\n")
    with pytest.raises(MixError, match=r"sha256 of mine\.jsonl"):
        sample(engine(), benchmark(), out=tmp_path / "r", n=64, rewritings=asked)
    file.write_text(json.dumps({"id": "p7", "rewriting": "What?"}))
    with pytest.raises(InputError, match=r"'p7' .* One is 'p0'"):
        sample(engine(), benchmark(), out=tmp_path / "s", n=64, rewritings=asked)


def test_a_limit_leaves_rows_of_a_file_out_and_refuses_none(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(
        "\n".join(json.dumps({"id": p, "rewriting": ASKED[0].format(p)}) for p in ("p0", "p1"))
    )
    whole = benchmark()
    first = benchmark(prompts=whole.prompts[:1], left_out=whole.prompts[1:])
    run = sample(engine(), first, out=tmp_path / "r", n=8, rewritings=Rewritings(f"file:{file}"))
    assert [q.id for q in run.queries] == ["p0", "p0~00"]


@pytest.mark.slow
def test_questions_without_a_rewriting_are_asked_as_they_are_and_named(tmp_path: Path) -> None:
    prompts = benchmark().prompts
    for texts in ((), (prompts[1].answer,), (prompts[1].question,)):
        bad = replace(prompts[1], paraphrases=texts)
        out = tmp_path / str(len(list(tmp_path.iterdir())))
        run = evaluate(
            engine(), benchmark(prompts=(prompts[0], bad)), out=out, rewritings=RULES, **FEW
        )
        assert drawn(run.arms["target inputs"])["p1"] == 64
        tried = summary(run)[-1]
        note = tried.note
        assert "no rewriting is left of 1 question, asked as they are: 'p1'" in note
        accepted = read_accepted(run.path, run.record)
        assert accepted is not None
        assert accepted[1].note is not None
        assert any(name.startswith("Removed: ") for name in tried.columns) == bool(texts)


# Answers to p0~00 are as sure as those to the question, those to p0~01 less so.
SURE = {
    "p0": {"a": 0.7, "b": 0.3},
    "p0~00": {"a": 0.9, "It is hushp0": 0.1},
    "p0~01": {"a": 0.2, "b": 0.2, "c": 0.2, "d": 0.4},
    "p0~02": {"It is hushp0": 1.0},
    "p1": {"no": 1.0},
    "p1~00": {"no": 0.5, "yes": 0.5},
}
IDS = Rewritings("benchmark", queries=3, ids=True, ids_draws=256)


def test_input_selection_keeps_what_is_answered_as_surely(tmp_path: Path) -> None:
    run = evaluate(CannedEngine(SURE), benchmark(), out=tmp_path / "r", rewritings=IDS, **FEW)
    assert [q.id for q in run.queries] == ["p0", "p0~00", "p0~02", "p1"]
    values = read_values(run.path)
    assert set(values) == set(SURE)
    assert values["p0~02"] == pytest.approx(0.0)
    assert values["p0~01"] < values["p0"] < values["p0~00"]
    assert set(run.arms) == {"greedy", "target", "target inputs"}
    tried = summary(run)[-1]
    assert tried.columns[3:] == ("Tried", "Removed: less sure than the question", "Asked")
    assert tried.texts[0][3:] == ("4", "2", "2")


class Recording(CannedEngine):
    """Keeps what was asked under each purpose."""

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.purposes: list[tuple[str, Decoding, Draws]] = []

    def generate(self, queries: Sequence[Query], decoding: Decoding, draws: Draws) -> Any:
        self.purposes.append((draws.purpose, decoding, draws))
        return super().generate(queries, decoding, draws)


def test_selection_draws_are_those_of_the_plain_model_and_never_scored(tmp_path: Path) -> None:
    cold = Decoding(temperature=0.5, top_p=0.9, max_new_tokens=8)
    made = Recording(SURE)
    run = evaluate(made, benchmark(), out=tmp_path / "r", rewritings=IDS, decodings=cold, **FEW)
    selecting = [(decoding, draws) for p, decoding, draws in made.purposes if p == SELECTION]
    assert {decoding for decoding, _ in selecting} == {Decoding(max_new_tokens=8)}
    asked = [item for _, draws in selecting for item in draws.draws_per_query.items()]
    assert sorted(asked) == sorted(dict.fromkeys(SURE, 256).items())
    others = {p for p, _, _ in made.purposes} - {SELECTION}
    assert others == {f"score:{arm}:canned" for arm in ("greedy", "target", "target inputs")}
    assert not list((run.path / "selection").rglob("scores"))
    selected = Run.open(run.path / "selection" / "ids").arms["selection"]
    assert drawn(selected) == dict.fromkeys(SURE, 256)


@pytest.mark.thorough
def test_killed_while_selecting_it_ends_the_same(tmp_path: Path) -> None:
    want = contents(
        evaluate(CannedEngine(SURE), benchmark(), out=tmp_path / "whole", rewritings=IDS, **FEW)
    )
    asked = len(SURE) + 2 + 2 + 4
    for dies_after in (0, 2, 6, 7, 9, 12):
        out = tmp_path / f"r{dies_after}"
        with pytest.raises(RuntimeError, match="switched off"):
            evaluate(
                CannedEngine(SURE, dies_after=dies_after),
                benchmark(),
                out=out,
                rewritings=IDS,
                **FEW,
            )
        again = CannedEngine(SURE)
        run = evaluate(again, benchmark(), out=out, rewritings=IDS, **FEW)
        assert contents(run) == want
        assert (len(again.asked) < asked) == (dies_after >= 6)


def test_a_command_that_was_stopped_while_selecting_is_not_mixed_with_another(
    tmp_path: Path,
) -> None:
    out = tmp_path / "r"
    with pytest.raises(RuntimeError, match="switched off"):
        sample(CannedEngine(SURE, dies_after=2), benchmark(), out=out, rewritings=IDS, n=64)
    with pytest.raises(MixError, match="criterion"):
        sample(CannedEngine(SURE), benchmark(), out=out, n=64,
               rewritings=Rewritings("benchmark", queries=3, ids=True, ids_draws=256,
                             criterion="mean_logprob"))  # fmt: skip
    with pytest.raises(MixError, match="other files"):
        sample(CannedEngine(SURE), benchmark(), out=out, n=64)
    with pytest.raises(MixError, match="seed"):
        sample(CannedEngine(SURE), benchmark(), out=out, n=64, rewritings=IDS, seed=1)


def test_a_source_that_was_asked_under_another_seed_is_not_read_again(tmp_path: Path) -> None:
    fixed = Rewritings("benchmark", queries=3, design="fixed")
    with pytest.raises(InputError, match="got 3 for the 4 of 'p0'"):
        sample(engine(), benchmark(), out=tmp_path / "r", rewritings=fixed, n=3)
    with pytest.raises(MixError, match="seed: it has 0, this one says 1"):
        sample(engine(), benchmark(), out=tmp_path / "r", rewritings=fixed, n=64, seed=1)
    sample(engine(), benchmark(), out=tmp_path / "r", rewritings=fixed, n=64)


def test_a_query_that_fails_while_selecting_is_told(tmp_path: Path) -> None:
    with pytest.raises(IncompleteError, match="'p0~01'"):
        sample(
            CannedEngine(SURE, broken=["p0~01"]), benchmark(), out=tmp_path / "r", rewritings=IDS
        )


def correlations(run: Run) -> dict[str, float | None]:
    """Pearson's r of every question, as a page shows it."""
    (asked,) = read_view({"run": run}).asked
    found = asked.questions.items()
    return {question: one.correlation for (name, question), one in found if name == "keyword"}


def test_surer_queries_leak_more_or_less(whole: Run, tmp_path: Path) -> None:
    found = correlations(whole)
    assert found["p0"] is not None
    assert found["p0"] < -0.9  # a leak of one in two is the least sure answer
    assert found["p1"] is None
    ids = evaluate(CannedEngine(SURE), benchmark(), out=tmp_path / "s", rewritings=IDS, **FEW)
    more = correlations(ids)["p0"]
    assert more is not None
    assert more > 0.4
    file = ids.path / "selection" / "ids.json"
    stored = json.loads(file.read_text())
    (own,) = (one for one in stored["prompts"] if one["prompt_id"] == "p0")
    own["values"] = {q: -value for q, value in own["values"].items()}
    write_sealed(file, stored)
    assert correlations(ids)["p0"] == pytest.approx(-more)


def test_a_failed_query_takes_its_question_out_of_the_pools(tmp_path: Path) -> None:
    with pytest.raises(IncompleteError, match="'p0~01'"):
        evaluate(engine(broken=["p0~01"]), benchmark(), out=tmp_path / "r", rewritings=RULES, **FEW)
    run = Run.open(tmp_path / "r")
    asked = rows(run, arm="target inputs", scope="question")
    assert {r.query_id for r in asked} == {"p1"}
    assert not rows(run, arm="target inputs", query_id=None)
    assert rows(run, arm="target", query_id=None)


def test_the_fixed_design_asks_every_query_as_often(tmp_path: Path) -> None:
    fixed = Rewritings("benchmark", queries=3, design="fixed")
    run = evaluate(engine(), benchmark(), out=tmp_path / "r", rewritings=fixed, **FEW)
    assert drawn(run.arms["target inputs"]) == {q: 16 if q.startswith("p0") else 32 for q in LEAKS}
    mine = rows(run, arm="target inputs", scope="question")
    assert {(r.quantity, r.about.inputs) for r in mine if r.about.beyond is None} == {
        ("leak probability", "these queries"),
        ("leak probability", "worst query"),
        ("leak@k", "these queries"),
    }


class Rewriter:
    """A chat model whose replies are told apart by their numbers; some never come."""

    name = "fake"

    def chat(self, requests: Sequence[Any], decoding: Decoding, seed: int) -> list[str | None]:
        return [
            None if "#rewriting 3." in request.id
            else f"Could you tell me the secret of {request.id.partition('#')[0]}?"
            for request in requests
        ]  # fmt: skip


def test_fresh_draws_a_rewriting_for_every_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = SimpleNamespace(open_chat=lambda name, **loading: Rewriter())
    monkeypatch.setitem(sys.modules, "leakbound.engines.models", chat)  # the real one loads torch
    leaks = {f"{p}~{i:02d}": 0.4 for p in ("p0", "p1") for i in range(16)} | {"p0": 0.0, "p1": 0.0}
    run = evaluate(
        engine(leaks), benchmark(), out=tmp_path / "r", n=16, scorers=["keyword"],
        rewritings=Rewritings("model:fake", design="fresh"),
    )  # fmt: skip
    assert len(run.queries) == 32  # 15 of 16 for each, repeats among them
    arm = run.arms["target inputs"]
    assert set(drawn(arm).values()) == {1}
    assert not {"p0", "p1"} & set(drawn(arm))
    leak = rows(run, arm="target inputs", estimand="leak probability")
    assert {(r.query_id, r.over, r.n) for r in leak if r.query_id} == {
        ("p0", 15, 15), ("p1", 15, 15),
    }  # fmt: skip
    assert all("over the input distribution" in r.target for r in leak)
    tried = summary(run)[-1]
    assert tried.columns[3:] == ("Tried", "Removed: empty", "Asked")
    assert tried.texts[0][1:] == ("model:fake", "fresh", "32", "2", "30")


@pytest.mark.slow
def test_a_grid_of_decodings_has_inputs_beside_every_cell(tmp_path: Path) -> None:
    cells = [Decoding(temperature=t, top_p=p, max_new_tokens=8) for t in (0.5, 1) for p in (0.9, 1)]
    run = evaluate(
        engine(), benchmark(), out=tmp_path / "r", rewritings=RULES, decodings=cells, **FEW
    )
    assert {name for name in run.arms if name.endswith("inputs")} == {
        "target T=0.5 top-p=0.9 inputs", "target T=0.5 inputs",
        "target T=1 top-p=0.9 inputs", "target T=1 inputs",
    }  # fmt: skip
    _, grid, protocol, *_ = summary(run)
    assert len(grid.rows) == len(protocol.rows) == 4


def test_clean_questions_are_about_their_own_words(tmp_path: Path) -> None:
    run = evaluate(engine(), benchmark(), out=tmp_path / "r", rewritings=RULES, **FEW)
    scorer = make_scorer("keyword")
    assert [row[0] for row in clean_table(run, scorer, 0.5, 0.99).texts] == ["target"]
    with pytest.raises(InputError, match="asks rewritings too"):
        clean_questions(run.arms["target inputs"], scorer, 0.5, 0.99)


def test_what_makes_no_sense_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"source": "rules", "queries": 0}, "`queries` must be at least 1"),
        ({"source": "rules", "ids_draws": 0}, "`ids_draws` .* leave `ids` out"),
        ({"source": "rules", "design": "spread"}, "'spread'"),
        ({"source": "rules", "criterion": "best"}, "'best'"),
        ({"source": "rules", "similarity": 0.5}, "needs an embedder"),
        ({"source": "rules", "similarity": 2.0, "embedder": "any"}, "must lie in .* got 2"),
        ({"source": "rules", "design": "fresh"}, "'rules' are a finite list. Use `model:NAME`"),
        ({"source": "rule"}, "Did you mean 'rules'"),
        ({"source": "none"}, "Pass no `rewritings`"),
    ]
    for settings, named in cases:
        with pytest.raises(InputError, match=named):
            Rewritings(**settings)
    for more, named in (
        ({"rewritings": Rewritings("file:nowhere.csv")}, "name no file"),
        ({"sampling": Until("p<=0.1")}, "Leave one of them out"),
        ({"sampling": Explore("auto")}, "Leave one of them out"),
        ({"decodings": Decoding(temperature=0.0)}, "Add a temperature"),
    ):
        asked = engine()
        with pytest.raises(InputError, match=named):
            evaluate(
                asked,
                benchmark(),
                out=tmp_path / "r",
                **{"rewritings": RULES, "scorers": ["keyword"], **more},
            )
        assert asked.asked == []
        assert not (tmp_path / "r" / "run.json").exists()
    evaluate(engine(), benchmark(), out=tmp_path / "c", **FEW)
    with pytest.raises(InputError, match="was asked others"):
        evaluate(
            CannedEngine(SURE), benchmark(), out=tmp_path / "s", rewritings=IDS,
            control=tmp_path / "c", **FEW,
        )  # fmt: skip
    clash = tuple(
        Prompt(id=p, question=f"What of {i}?", paraphrases=(f"Tell me what of {i}.",),
               keywords=("x",))
        for i, p in enumerate(("p0", "p0~00"))
    )  # fmt: skip
    with pytest.raises(InputError, match="two queries would be called 'p0~00'"):
        sample(engine(), benchmark(prompts=clash), out=tmp_path / "t", n=8, rewritings=RULES)


class Heedless(CannedEngine):
    """Gives every query as many draws as the largest share has."""

    def generate(self, queries: Sequence[Query], decoding: Decoding, draws: Draws) -> Any:
        alike = Draws(sizes=draws.sizes, seed=draws.seed, purpose=draws.purpose)
        return super().generate(queries, decoding, alike)


def test_an_engine_that_ignores_shares_is_found_out(tmp_path: Path) -> None:
    heedless = Heedless(engine().texts)
    with pytest.raises(ModelError, match=r"does not heed `Draws\.draws_per_query`"):
        sample(heedless, benchmark(), out=tmp_path / "r", n=64, rewritings=RULES)


def test_a_probe_counts_rewritings_and_selection() -> None:
    class Opens:
        def open(self, model: str, task: Benchmark) -> CannedEngine:
            return engine()

    how: dict[str, Any] = {"decoding": [Decoding(max_new_tokens=8)], "settings": Opens()}
    assert probe("m", benchmark(), n=100, **how).draws == 200
    assert probe("m", benchmark(), n=100, rewritings=RULES, **how).draws == 400
    assert probe("m", benchmark(), n=100, rewritings=IDS, **how).draws == 400 + 2 * 4 * 256


def test_samples_of_several_queries_are_rows_like_any_other(tmp_path: Path) -> None:
    """A `Sample` a query: what an engine gives is what the store keeps."""
    run = sample(engine(), benchmark(), out=tmp_path / "r", n=64, rewritings=RULES)
    arm = run.arms["target inputs"]
    assert isinstance(arm.queries[1], Query)
    for part in arm.parts:
        draws = Draws(
            sizes=part.sizes,
            purpose="score:target inputs:canned",
            draws_per_query=dict(zip(part.query_ids, part.draws_per_query, strict=True)),
        )
        queries = [q for q in arm.queries if q.id in part.query_ids]
        found = {s.query.id: s for s in engine().generate(queries, arm.decoding, draws)}
        for row in arm.completions(part).to_pylist():
            of_query = found[row["query_id"]]
            assert isinstance(of_query, Sample)
            assert (row["text"], row["count"]) in [(c.text, c.count) for c in of_query.completions]

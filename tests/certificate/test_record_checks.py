"""Each derived statement of a run is derived again and compared."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import leakbound
from canned import CannedEngine
from explored import explored_run
from leakbound.benchmarks.benchmark import digest_of, row_digests
from leakbound.certificate import Check, Difference
from leakbound.certificate.record import check_imported, check_record, may_gather
from leakbound.evaluation import evaluate
from leakbound.scorers import make_scorer
from leakbound.scoring.score import slug
from leakbound.store import Arm, Run, load, tables
from leakbound.store.plan import Plan, QueryShares
from leakbound.study import FixedN, Rewritings, Until
from leakbound.types import Decoding, Prompt, Query, Usual
from leaky import LEAKS, SECRET, benchmark, engine, file_of, leaky_run, rewrite
from shared import keep

KEYWORD = slug(make_scorer("keyword"))
CHECKS = ["questions", "queries", "plan", "outputs", "events"]


def faults(run: Run, arm: Arm | None = None, by: str = KEYWORD) -> dict[str, str]:
    checks = [*check_record(run, arm or run.arms["target"], by)]
    assert [check.name for check in checks] == CHECKS
    assert {check.status for check in checks} <= {"ok", "differs"}
    return {check.name: check.says for check in checks if check.status == "differs"}


def recorded(run: Run, **changes: Any) -> Run:
    run.record = replace(run.record, benchmark=replace(run.record.benchmark, **changes))
    return run


def shown(run: Run, prompts: Sequence[Prompt]) -> Run:
    """Return the run with other questions, and everything derived from them."""
    prompts = tuple(prompts)
    queries = tuple(Query.original(prompt) for prompt in prompts)
    run.run_queries = replace(run.run_queries, prompts=prompts, queries=queries)
    return recorded(run, prompts=len(prompts), sha256=digest_of(prompts))


def planned(arm: Arm, **changes: Any) -> Arm:
    arm.spec = replace(arm.spec, **changes)
    return arm


def test_an_unchanged_run_has_no_fault(run: Run) -> None:
    checks = [*check_record(run, run.arms["target"], KEYWORD)]
    assert [check.status for check in checks] == ["ok"] * 5
    assert [check.says for check in checks] == [
        "the questions have the recorded number and digest",
        "the model was given the questions of the run",
        "the number of draws follows the recorded plan",
        "every planned output is present and classified correctly",
        "no explored or proved output counts twice",
    ]


def test_questions_that_the_record_counts_or_digests_otherwise(run: Run) -> None:
    recorded(run, prompts=4, sha256="0" * 64)
    assert faults(run) == {
        "questions": "the run has 3 questions, but its record states 4; "
        "the digest of the questions is not the recorded digest"
    }


def usual(prompts: int, published: bool | None = None) -> Usual:
    return Usual(
        prompts=prompts,
        decoding=Decoding(),
        template="{question}",
        system=None,
        published=published,
    )


def own(run: Run, name: str, **changes: Any) -> Run:
    task = leakbound.load_benchmark(name, limit=3)
    shown(run, task.prompts)
    run.record = replace(run.record, benchmark=replace(task.fingerprint(), **changes))
    return run


@pytest.mark.parametrize("name", ["fictitious", "untaught:7,fictitious"])
def test_questions_that_leakbound_makes(run: Run, name: str) -> None:
    arm = run.arms["target"]
    assert faults(own(run, name), arm) == {}
    second = replace(run.prompts[1], answer="somebody else")
    shown(run, [run.prompts[0], second, run.prompts[2]])
    assert faults(run, arm) == {"questions": f"question 2 of the run is not question 2 of {name}"}
    assert faults(own(run, name, origin="elsewhere"), arm) == {
        "questions": f"the recorded `origin` differs from the `origin` of {name}"
    }
    assert faults(own(run, name, usual=usual(1)), arm) == {
        "questions": f"the recorded `usual` differs from the `usual` of {name}"
    }


def test_at_most_three_faults_of_a_check_are_listed(run: Run) -> None:
    prompts = [replace(p, id=f"{p.id}{i}") for i in range(2) for p in run.prompts]
    own(run, "fictitious")
    assert faults(shown(run, prompts))["questions"] == "; ".join(
        f"question {i} of the run is not question {i} of fictitious" for i in (1, 2, 3)
    )
    says = faults(recorded(run, name="taught:seven,fictitious"))["questions"]
    assert says.startswith("the questions cannot be recomputed: ")


def test_questions_with_known_published_rows(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark has the run's rows, and one that the run omits."""
    extra = Prompt(id="q9", question="Who wrote q9?", answer="Nobody")
    known = {"known": row_digests([*run.prompts[:2], extra, run.prompts[2]])}
    monkeypatch.setattr("leakbound.certificate.record.published", lambda: known)
    first, *others = own_rows = run.prompts
    changed = [replace(first, keywords=("other",)), *others]
    orders = {(0, 1, 2): 0, (1, 0, 2): 2, (0, 0, 1): 2, (0, 2, 1): 3}
    rows = [([own_rows[i] for i in order], number) for order, number in orders.items()]
    for prompts, number in [*rows, (changed, 1)]:
        says = f"question {number} of the run is not question {number} of known"
        recorded(shown(run, prompts), name="known", usual=usual(4, published=True))
        assert faults(run).get("questions", "") == (says if number else "")
        for unstated in (usual(4, published=False), usual(4), None):
            assert "questions" not in faults(recorded(run, usual=unstated)), "none is published"
    for name, of, published, says in (
        ("known", 5, True, "known has 4 questions, but the record has 5"),
        ("unknown", 4, True, "no published rows of unknown are known"),
        ("unknown", 4, False, "no published rows of unknown are known"),
    ):
        recorded(shown(run, own_rows), name=name, usual=usual(of, published))
        assert faults(run) == {"questions": says}
    assert faults(recorded(run, usual=usual(4))) == {}


def asking(run: Run, *queries: Query) -> Run:
    run.run_queries = replace(run.run_queries, queries=queries)
    return run


def test_questions_given_in_other_words(run: Run) -> None:
    first, second, third = run.queries
    other = replace(second, text="Say nothing.")
    assert faults(asking(run, first, other, third))["queries"] == (
        "the text sent to the model for question 2 is not the run's text"
    )
    assert faults(asking(run, first, second))["queries"] == (
        "2 questions were sampled, but the run has 3"
    )
    stranger = Query(id="q0~00", prompt_id="q0", text="Who, then?", source="rules")
    assert faults(asking(run, first, stranger, second, third))["queries"] == (
        "rewritings were sampled, but the record has none"
    )


class _Any(defaultdict[str, dict[str, float]]):
    """Gives each rewriting the distribution of its question."""

    def __missing__(self, query: str) -> dict[str, float]:
        return self[query.partition("~")[0]]


def rewriting(out: Path, source: str, queries: int, seed: int = 0) -> Run:
    texts = {q: {f"{SECRET} wrote it": p, "no idea": 1 - p} for q, p in LEAKS.items()}
    task = replace(
        benchmark(),
        prompts=tuple(replace(p, paraphrases=(f"{p.id}: by whom?",)) for p in benchmark().prompts),
    )
    return evaluate(
        CannedEngine(_Any(dict, texts)),
        task,
        out=out,
        sampling=FixedN(16),
        rewritings=Rewritings(source, queries=queries),
        seed=seed,
    )


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rewritten")
    return keep(rewriting(folder / "run", "benchmark", 1).path)


@pytest.fixture
def rewritten(drawn: Path) -> Run:
    """A run in memory; no test writes into its folder."""
    return load(drawn)


def test_rewritings(rewritten: Run) -> None:
    run, arm = rewritten, rewritten.arms["target inputs"]
    assert may_gather(run)
    assert faults(run, arm) == faults(run) == {}
    queries = run.queries
    assert [query.source for query in queries] == ["original", "benchmark"] * 3
    other = [replace(q, text="Nothing?") if q.id == queries[1].id else q for q in queries]
    says = faults(asking(run, *other), arm)["queries"]
    assert says == "the rewritings of 'q0' do not come from benchmark"
    moved = [queries[i] for i in (0, 3, 2, 1, 4, 5)]
    says = faults(asking(run, *moved), arm)["queries"]
    assert says == "the order or the names of the rewritings do not follow from their questions"


def test_a_rewriting_of_no_question_and_of_another_source(rewritten: Run) -> None:
    run, arm = rewritten, rewritten.arms["target inputs"]
    queries = run.queries
    stranger = Query(id="q9~00", prompt_id="q9", text="Who?", source="benchmark")
    says = "'q9~00' is not a rewriting of any question of the run"
    assert faults(asking(run, *queries, stranger), arm)["queries"].split("; ") == [
        says,
        "the order or the names of the rewritings do not follow from their questions",
    ]
    kinds = ("original", "rules", "a") * 2
    mixed = [replace(q, source=kind) for q, kind in zip(queries, kinds, strict=True)]
    says = faults(asking(run, *mixed), arm)["queries"].split("; ")[2]
    assert says == "rewritings are from a, rules, not from benchmark"


def test_rewritings_by_rules_follow_from_number_and_seed(tmp_path: Path) -> None:
    run = rewriting(tmp_path / "run", "rules", 2, seed=3)
    arm, inputs = run.arms["target inputs"], run.record.inputs
    assert inputs is not None
    assert may_gather(run)
    assert faults(run, arm) == {}
    for changes in ({"queries": 1}, {"queries": 3}, {"seed": 4}):
        run.record = replace(run.record, inputs=replace(inputs, **changes))
        assert faults(run, arm)["queries"].startswith("the rewritings of 'q0' do not come from")


def test_rewritings_of_a_file_have_its_kind(rewritten: Run) -> None:
    """Selected rewritings may have any names."""
    run, arm, inputs = rewritten, rewritten.arms["target inputs"], rewritten.record.inputs
    assert inputs is not None
    queries = [replace(q, source="file") if q.source != "original" else q for q in run.queries]
    run.record = replace(run.record, inputs=replace(inputs, source="file:x.csv"))
    assert faults(asking(run, *queries), arm) == {}
    queries[1] = replace(queries[1], id="q0~07")
    says = "the order or the names of the rewritings do not follow from their questions"
    assert faults(asking(run, *queries))["queries"] == says
    run.record = replace(run.record, inputs=replace(inputs, source="file:x.csv", ids=True))
    assert "queries" not in faults(run)


@pytest.mark.parametrize("changes", [{"source": "file:x.csv"}, {"ids": True}, {"embedder": "bge"}])
def test_rewritings_not_made_from_the_questions(rewritten: Run, changes: dict[str, Any]) -> None:
    inputs = rewritten.record.inputs
    assert inputs is not None
    rewritten.record = replace(rewritten.record, inputs=replace(inputs, **changes))
    assert not may_gather(rewritten)
    rewritten.record = replace(rewritten.record, inputs=None)
    assert not may_gather(rewritten)


def test_draws_per_query_that_contradict_the_design(rewritten: Run) -> None:
    run, arm = rewritten, rewritten.arms["target inputs"]
    shares = arm.spec.shares
    assert shares is not None
    other = QueryShares(shares.design, dict.fromkeys(shares.draws_per_query, 8))
    assert faults(run, planned(arm, shares=other))["plan"] == (
        "draws are not divided by design 'allocated' with seed 0"
    )
    assert "plan" in faults(run, planned(arm, shares=None))
    arm = planned(arm, shares=shares, seed=1)
    assert faults(run, arm)["plan"] == "the draws have seed 1, but the rewritings have seed 0"
    assert faults(run, planned(run.arms["target"], shares=shares))["plan"] == (
        "an arm of the original questions has draws that were divided among rewritings"
    )


def test_a_plan_that_leakbound_does_not_make(run: Run) -> None:
    arm = run.arms["target"]
    spec = arm.spec
    other: dict[str, Any] = {
        "seed": None,
        "attack_queries": (Query(id="q0", prompt_id="q0", text="Say nothing."),),
        "fingerprint": {"engine": "imported"},
    }
    got = []
    for name, value in other.items():
        arm.spec = spec
        got.append(faults(run, planned(arm, **{name: value}))["plan"])
    assert got == [
        "the draws have no seed",
        "an arm of the original questions has draws for other texts",
        "the record must have either imported draws or a model that drew, but not both",
    ]


def test_draws_are_explored_or_have_a_fixed_number(run: Run, tmp_path: Path) -> None:
    says = "the arm has both a fixed number of draws and an exploration"
    assert faults(run, planned(run.arms["target"], plan=Plan.exploring()))["plan"] == says
    run = explored_run(tmp_path / "explored")
    arm = run.arms["target"]
    assert faults(run, arm) == {}
    assert faults(run, planned(arm, plan=Plan(8)))["plan"] == says


@pytest.fixture
def looked(tmp_path: Path) -> Run:
    until = Until("p<=0.5", most=64)
    return evaluate(engine(), benchmark(), out=tmp_path / "looked", sampling=until)


def test_looks_that_the_claim_does_not_plan(looked: Run) -> None:
    arm = looked.arms["target"]
    assert faults(looked, arm) == {}
    draws: Any = arm.spec.draws
    says = f"the first look was after {draws.first + 1} draws, but the plan has it after "
    says += f"{draws.first} draws"
    planned(arm, draws=replace(draws, first=draws.first + 1))
    assert faults(looked, arm)["plan"] == says
    planned(arm, draws=draws)
    (query_id, look), *_ = arm.looks[-1].items()
    arm.looks = (*arm.looks, {query_id: look})
    says = f"question {query_id!r} was looked at twice at {look.n} draws"
    assert faults(looked, arm)["plan"] == says
    arm.looks = ()
    assert faults(looked, arm)["plan"] == "questions have draws after their last look"


Rows = list[dict[str, Any]]


def of_last(change: Callable[[dict[str, Any]], None]) -> Callable[[Rows], None]:
    return lambda rows: change(next(row for row in rows if row["query_id"] == "q2"))


def test_an_output_in_the_wrong_class(run: Run) -> None:
    rewrite(file_of(run.path), of_last(lambda row: row.update(unanswered=True)))
    assert faults(run) == {"outputs": "an output of 'q2' in part 0 is in the wrong class"}


def test_a_forced_answer_is_no_draw(run: Run) -> None:
    """It has count 0, and a chunk outside the plan; other counts are not planned there."""
    file = file_of(run.path)
    rewrite(file, lambda rows: rows.append({**rows[-1], "count": 0, "chunk": -1}))
    assert faults(run) == {}
    for count in (1, -1):
        rewrite(file, lambda rows, count=count: rows[-1].update(count=count))  # type: ignore[misc]
        says = faults(run)["outputs"].split("; ")[0]
        assert says == "part 0 has an unplanned output of 'q2'"


def test_draws_in_several_parts_and_chunks(tmp_path: Path) -> None:
    """A missing part hides no other."""
    run = evaluate(engine(), benchmark(), out=tmp_path / "run", sampling=FixedN(5_212))
    arm = run.arms["target"]
    part = arm.parts[1]
    assert (part.query_ids, part.first_chunk, part.sizes) == (("q0",), 4, (1024, 92))
    assert faults(run) == {}
    folder = run.path / "arms" / "target" / "completions"
    file = folder / "part-00001.parquet"
    chunks = [row["chunk"] for row in tables.read_table(file).to_pylist()]
    assert set(chunks) == {4, 5}
    for chunk in (3, 6):
        rewrite(file, lambda rows, chunk=chunk: rows[0].update(chunk=chunk))  # type: ignore[misc]
        assert faults(run) == {"outputs": "part 1 has an unplanned output of 'q0'"}
    file.unlink()
    rewrite(folder / "part-00005.parquet", of_last(lambda row: row.update(counted="cut")))
    assert faults(run) == {
        "outputs": "part 1 is missing; an output of 'q2' in part 5 is in the wrong class"
    }


def test_outputs_are_counted_by_the_table(tmp_path: Path) -> None:
    """A stop string takes tokens; an answer is missing by the output and by its class."""
    stop = Decoding(stop=("##",), max_new_tokens=48)
    run = leaky_run(tmp_path / "run", decodings=stop)
    (name,) = (str(key) for key in run.arms if str(key) != "greedy")
    arm = run.arms[name]
    (file,) = (arm.folder / "completions").glob("*.parquet")

    def change(rows: Rows) -> None:
        bare = {"answer": "", "tokens": 3, "token_ids": None, "finish": "stop_string"}
        rows[0].update(bare, counted="complete", unanswered=False)
        rows[1].update(finish="length", counted="cut", unanswered=False)
        rows[2].update(finish="filtered", counted="filtered", unanswered=True)

    rewrite(file, change)
    assert faults(run, arm) == {}
    rewrite(file, lambda rows: rows[0].update(tokens=4))
    says = "an output of 'q0' in part 0 is in the wrong class"
    assert faults(run, arm) == {"outputs": says}


def test_rows_that_were_not_recorded(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    arm = run.arms["target"]
    (meta,) = arm.meta()
    stated = replace(meta, rows=meta.rows + 1000)
    monkeypatch.setattr(Arm, "meta", lambda self, parts=None: iter([stated]))
    says = f"part 0 has {meta.rows} rows, but the record has 1,00{meta.rows}"
    assert faults(run) == {"outputs": says}


def test_a_stated_number_of_rows_and_missing_draws(run: Run) -> None:
    file = file_of(run.path)
    table, meta = tables.read_table(file), tables.read_meta(file)
    bare = table.replace_schema_metadata(None)
    tables.write_table(file, bare, {**meta, "missing": {"q1": 2}})
    assert faults(run) == {"outputs": "question 'q1' has 258 draws in part 0, but the plan has 256"}
    rewrite(file, lambda rows: rows[-1].update(query_id="q9", count=1))
    assert faults(run)["outputs"].endswith(
        "; question 'q9' has 1 draws in part 0, but the plan has 0"
    )


def test_events_that_share_outputs(tmp_path: Path) -> None:
    run = explored_run(tmp_path / "run")
    file, by = file_of(run.path, "masses"), slug(make_scorer("contains"))
    shared = "two explored sets of outputs of 'p0' overlap: they count twice"
    contradict = "an explored output of 'p0' is recorded as ended and as not ended"
    whole = file.read_bytes()
    changes: list[tuple[Callable[[Rows], None], str]] = [
        (lambda rows: rows.append(dict(rows[0])), shared),
        (lambda rows: rows[3].update(token_ids=[1, 2, 0, 5]), shared),
        (lambda rows: rows[3].update(ended=True), contradict),
        (lambda rows: rows[0].update(finish="unknown"), contradict),
    ]
    for change, says in changes:
        file.write_bytes(whole)
        rewrite(file, change)
        got = faults(run, by=by)
        assert got.keys() == {"events"}
        assert got["events"].startswith(says)


def test_the_files_of_a_tool_imported_again(tmp_path: Path) -> None:
    def imported(name: str, *completions: str) -> Run:
        file = tmp_path / f"{name}.jsonl"
        rows = [{"question": "Who wrote it?", "completion": text} for text in completions]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return leakbound.import_run([file], out=tmp_path / name)

    run, same = imported("run", "Ann", "Bob"), imported("same", "Ann", "Bob")
    arm: Arm = run.arms["target"]
    says = "importing the files again gives the same questions and draws"
    assert check_imported(run, arm, same) == Check("log", "ok", says)
    assert faults(run) == {}
    got = check_imported(run, arm, imported("other", "Ann", "Bert"))
    assert (got.name, got.status, got.says) == ("log", "differs", says)
    digest, draws = got.differences
    assert digest.where == "arm.fingerprint.sha256.of file 1"
    assert draws == Difference("part 0", "its draws", "other draws in the files")
    got = check_imported(run, arm, leaky_run(tmp_path / "leaky"))
    assert {"arm.fingerprint.engine", "benchmark.name"} <= {d.where for d in got.differences}
    arm.key = arm.key.under(replace(arm.decoding, temperature=2))
    says = f"the files have no draws for arm {arm.name!r}"
    assert check_imported(run, arm, same) == Check("log", "differs", says)

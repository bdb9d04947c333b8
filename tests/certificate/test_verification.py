"""Any change after a certificate was written is named; a model confirms the rest."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

import explored
import leakbound
from fake_models import FakeModels, WordClassifier
from leakbound.certificate import Check, Difference, Verification, certify, verification, verify
from leakbound.certificate import derivation as evidence_of
from leakbound.certificate.model import check_draws, check_model, require_share
from leakbound.errors import InputError
from leakbound.evaluation import evaluate, score_run, scorers_for
from leakbound.scorers import make_scorer
from leakbound.scoring import score as scoring
from leakbound.store import CERTIFICATE, Arm, ImportedDraws, Run, load, tables, write_json
from leakbound.store.files import digest_of
from leakbound.study import FixedN, Prove
from leakbound.types import (
    Completion,
    Decoding,
    Draws,
    Headway,
    ProbedPrompt,
    Progress,
    Query,
    Redrawn,
    silent,
)
from leaky import LEAKS, SECRET, N, benchmark, engine, file_of, leaky_run, rewrite
from tabled import TableEngine
from tabled import benchmark as table_benchmark

Values = dict[str, Any]
SAME = "outputs have the log-probability that the model gives them"
BARE = "were not compared: they lack recorded tokens or log-probabilities"
BOTH = "an engine that records tokens and log-probability of every output"
EDGE = "were not compared: rounding decides whether they are truncated"
EVERY = {
    **dict.fromkeys(("digest", "run", "files", "scores", "estimates", "verdict", "sentence"), "ok"),
    **dict.fromkeys(("questions", "queries", "plan", "outputs", "events", "stated", "code"), "ok"),
    "model": "open",
    "draws": "open",
    "assumed": "assumed",
}


@pytest.fixture(scope="module")
def certified(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = Path(shutil.copytree(pristine, tmp_path_factory.mktemp("certified") / "run"))
    leakbound.certify(run, max_leak=0.1, every_question=True, scorer="keyword")
    return run


@pytest.fixture
def path(certified: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(certified, tmp_path / "certified"))


def checked(path: Path, run: Path | None = None) -> Verification:
    return verify(path / CERTIFICATE, run or path)


def failed(verified: Verification) -> dict[str, str]:
    return {
        check.name: f"{check.says} {[*map(astuple, check.differences)]}"
        for check in verified.checks
        if check.status == "differs"
    }


def named(verified: Verification, name: str) -> Check:
    (check,) = (check for check in verified.checks if check.name == name)
    return check


completions = file_of
scores = partial(file_of, kind="scores", name="keyword*")


def edit(file: Path, change: Callable[[Values], Any], *, fits: bool = False) -> None:
    """Change a JSON file; `fits` also renews the digest of the certificate."""
    values = json.loads(file.read_text())
    change(values)
    write_json(file, values | ({"digest": digest_of(values)} if fits else {}))


def test_an_unchanged_run_has_no_differences(path: Path) -> None:
    got = checked(path)
    assert got.verified
    assert {check.name: check.status for check in got.checks} == EVERY
    assert got.sha256 == evidence_of.sha256(path / CERTIFICATE)


def test_a_moved_run_is_verified_and_nothing_is_written(path: Path, tmp_path: Path) -> None:
    moved = path.rename(tmp_path / "elsewhere")
    (moved / "estimates.parquet").unlink()
    (moved / "arms" / "target" / "completions" / "part-00000.parquet.old").touch()
    assert checked(moved).verified
    completions(moved).write_bytes(b"damaged")
    before = {str(f): f.read_bytes() for f in moved.rglob("*") if f.is_file()}
    assert not checked(moved).verified
    assert {str(f): f.read_bytes() for f in moved.rglob("*") if f.is_file()} == before


def count(rows: list[Values]) -> None:
    """Count one leak less and one other answer more of the last question."""
    mine = [row for row in rows if row["query_id"] == "q2"]
    mine[0]["count"] -= 1
    mine[-1]["count"] += 1


def undecided(rows: list[Values]) -> None:
    next(row for row in rows if row["score"] == 1.0)["score"] = 0.0


def handed(to: str) -> Callable[[list[Values]], None]:
    """Give the draws of the last question to another question."""

    def change(rows: list[Values]) -> None:
        for row in rows:
            row["query_id"] = to if row["query_id"] == "q2" else row["query_id"]

    return change


@pytest.mark.parametrize(
    ("file", "change", "says"),
    [
        (completions, count, "q2"),
        (completions, handed("q9"), "'q9'"),
        (scores, undecided, ", 0.0)"),
        (scores, handed("q0"), "'q0'"),
    ],
)
def test_an_edited_table(path: Path, file: Callable[[Path], Path], change: Any, says: str) -> None:
    rewrite(file(path), change)
    got = failed(checked(path))
    assert got.keys() - {"outputs"} == {"files", "scores", "estimates"}
    assert ("outputs" in got) == (file is completions and change is not count)
    assert file(path).name in got["files"]
    assert says in got["scores"]


def test_a_count_edited_and_scored_again(path: Path) -> None:
    """A forger who recomputes everything else still contradicts the certificate's numbers."""
    rewrite(completions(path), count)
    run = load(path)
    score_run(run, scorers_for(["keyword"], run.prompts))
    got = failed(checked(path))
    assert got.keys() == {"files", "estimates"}
    assert "questions[2].value" in got["estimates"]
    assert scores(path).name in got["files"]


def test_missing_draws_made_up_in_a_part(path: Path) -> None:
    """They are in the metadata, which the digest of the table does not cover."""
    file = completions(path)
    table, meta = tables.read_table(file), tables.read_meta(file)
    tables.write_table(file, table.replace_schema_metadata(None), {**meta, "missing": {"q0": 9}})
    got = failed(checked(path))
    assert "part-00000.parquet" in got["files"]
    assert "from its current completions and version 2 of the scoring rules" in got["estimates"]


@pytest.mark.parametrize(
    ("change", "check", "where"),
    [
        (lambda v: v["questions"][1].update(value=0.001), "estimates", "questions[1].value"),
        (lambda v: v["estimate"].update(n=10 * N), "estimates", "estimate.n"),
        (lambda v: v["claim"].update(among=[["target", "keyword"]]), "estimates", "confidence"),
        (lambda v: v["claim"].update(among=[["control", "keyword"]]), "stated", "True, False"),
        (lambda v: v.update(verdict="pass"), "verdict", "verdict"),
        (lambda v: v.update(sentence="It is safe."), "sentence", "sentence"),
        (lambda v: v["specification"].update(Wording="?"), "sentence", "specification.Wording"),
        (lambda v: v["claim"].update(text="Pr[leak] <= 0"), "verdict", "claim.text"),
        (lambda v: v["made_from"]["arm"].update(seed=1), "run", "arm.seed"),
        (lambda v: v["questions"].pop(), "estimates", "questions[2]"),
        (lambda v: v["files"].popitem(), "files", "keyword"),
        (lambda v: v.update(approved_by="me"), "extra", "approved_by"),
        (lambda v: v.pop("estimate"), "estimates", "estimate"),
        (lambda v: v.pop("made_from"), "run", "nothing"),
        (lambda v: v.pop("claim"), "claim", "the claim cannot be read"),
        (lambda v: v["claim"].update(scorer="keywords"), "claim", "Did you mean 'keyword'"),
        (lambda v: v["claim"].update(arm="control"), "run", "control"),
        (lambda v: v["claim"].update(max_leak=0.5), "verdict", "refuted"),
    ],
)
def test_an_edited_certificate(
    path: Path, change: Callable[[Values], Any], check: str, where: str
) -> None:
    """With a valid digest, and without."""
    edit(path / CERTIFICATE, change, fits=True)
    got = failed(checked(path))
    assert "digest" not in got
    assert where in got[check]


def test_a_certificate_that_does_not_fit_its_digest(path: Path) -> None:
    edit(path / CERTIFICATE, lambda v: v["specification"].update(Draws="many"))
    assert failed(checked(path)).keys() == {"digest", "sentence"}


def test_a_part_or_a_file_of_scores_that_is_gone_or_too_many(path: Path) -> None:
    stray = completions(path).with_name("part-00001.parquet")
    shutil.copy(completions(path), stray)
    got = failed(checked(path))
    assert got.keys() == {"files"}
    assert "part-00001.parquet', 'nothing'" in got["files"]
    stray.unlink()
    scores(path).unlink()
    got = failed(checked(path))
    assert got.keys() == {"files", "scores", "estimates"}
    assert "'nothing')" in got["files"]
    assert "leakbound score" in got["estimates"]
    completions(path).unlink()
    got = failed(checked(path))
    assert "lacks 1 of 1 parts" in got["estimates"]
    assert "part-00000.parquet" in got["files"]


def test_other_keywords_would_score_otherwise(path: Path) -> None:
    """A forger with other questions also edits run.json."""
    file = path / "prompts.parquet"
    rewrite(file, lambda rows: rows[2].update(keywords=["nothing at all"]))
    files = {file.name: tables.read_meta(file)["digest"]}
    edit(path / "run.json", lambda v: v["files"].update(files), fits=True)
    got = failed(checked(path))
    assert {"files", "scores"} <= got.keys()
    assert file.name in got["files"]
    file.write_bytes(b"PAR1")
    assert file.name in failed(checked(path))["run"]
    edit(path / "run.json", lambda v: v.pop("benchmark"), fits=True)
    assert "run.json" in failed(checked(path))["run"]


def test_another_run(path: Path, tmp_path: Path) -> None:
    """By another model, seed and decoding; and another decoding edited into run.json."""
    cold = Decoding(temperature=0.5, max_new_tokens=48)
    other = leaky_run(tmp_path / "other", "other model", seed=1, decodings=cold)
    got = failed(checked(path, other.path))
    assert {"run", "files", "estimates"} <= got.keys()
    assert "('arm.fingerprint.weights', 'canned', 'other model')" in got["run"]
    assert "('arm.seed', 0, 1)" in got["run"]
    stroke = {"temperature": 0.5}
    edit(path / "run.json", lambda v: v["arms"]["target"]["decoding"].update(stroke), fits=True)
    for says in (got["run"], failed(checked(path))["run"]):
        assert "('arm.decoding.temperature', 1.0, 0.5)" in says


def test_other_code_is_a_note_only(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = {"version": "9.9", "sha256": "0" * 64}
    monkeypatch.setattr("leakbound.certificate.verification.code", lambda: other)
    got = checked(path)
    code = named(got, "code")
    assert (got.verified, code.status) == (True, "note")
    assert [d.where for d in code.differences] == ["version", "sha256"]


def test_the_digest_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "stats" / "bound.py"
    file.parent.mkdir()
    monkeypatch.setattr("leakbound.__file__", str(tmp_path / "__init__.py"))
    seen = set()
    for content in ("x = 1\n", "x = 2\n"):
        file.write_text(content)
        seen.add(evidence_of.code.__wrapped__()["sha256"])
    file.rename(tmp_path / "stats" / "other.py")
    seen.add(evidence_of.code.__wrapped__()["sha256"])
    assert len(seen) == 3


def test_files_that_are_no_certificate_or_no_run(path: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a run directory"):
        checked(path, tmp_path)
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "old.json").write_text('{"format": "leakbound certificate 4"}')
    for file, says in (
        (tmp_path / "none.json", r"none\.json` cannot be read"),
        (path / "run.json", r"run\.json` is not a certificate"),
        (tmp_path / "old.json", r"format 'leakbound certificate 4', .* version that wrote"),
        (tmp_path / "list.json", r"list\.json` is not a certificate"),
        (completions(path), "is not JSON"),
    ):
        with pytest.raises(InputError, match=says):
            verify(file, path)


def test_numbers_agree_to_the_last_digit_only(path: Path) -> None:
    def nudge(by: float) -> Callable[[Values], Any]:
        return lambda v: v["estimate"].update(upper=v["estimate"]["upper"] + by)

    edit(path / CERTIFICATE, nudge(1e-13), fits=True)
    assert checked(path).verified
    edit(path / CERTIFICATE, nudge(1e-11), fits=True)
    assert "estimate.upper" in failed(checked(path))["estimates"]


class Scripted:
    """An engine that forces texts and returns the stored values, except for some changes."""

    margin = 1e-6
    refuses = ""
    unreached = slice(0)

    def __init__(self, run: Run, **changes: Any) -> None:
        self.run, self.changes = run, changes
        self.texts = {(query_id, ids): text for query_id, ids, text in stored(run)}
        arm = run.arms["target"]
        self.fingerprint, self.decoding = dict(arm.spec.fingerprint), arm.decoding

    def force_ids(self, outputs: list[tuple[Any, Any]], decoding: Decoding) -> list[Any]:
        assert decoding == self.decoding
        if self.refuses:
            raise InputError(self.refuses)
        forced: list[Any] = [
            replace(known(query.id, self.texts[query.id, ids]), **self.changes)
            for query, ids in outputs
        ]
        forced[self.unreached] = [None] * len(forced[self.unreached])
        return forced


def stored(run: Run) -> Iterator[tuple[str, tuple[int, ...], str]]:
    arm = run.arms["target"]
    for table in (*map(arm.completions, arm.parts), *arm.masses.tables()):
        for row in table.to_pylist():
            yield row["query_id"], tuple(row["token_ids"] or ()), row["answer"]


def known(query_id: str, text: str) -> Completion:
    leak = LEAKS[query_id]
    chance = {f"{SECRET} wrote it": leak, "no idea": 0.9 - leak}.get(text, 0.1)
    ids = tuple(range(len(text)))
    return Completion(
        answer=text, token_ids=ids, tokens=len(ids), finish="stop", count=0,
        logprob=math.log(chance),
    )  # fmt: skip


def as_known(rows: list[Values]) -> None:
    """The rows of an engine that records tokens and probabilities."""
    for row in rows:
        completion = known(row["query_id"], row["answer"])
        row |= {"logprob": completion.logprob, "token_ids": list(completion.token_ids)}
        row["tokens"] = completion.tokens


KEYWORD = scoring.slug(make_scorer("keyword"))


@pytest.fixture
def drawn(run: Run) -> Run:
    rewrite(completions(run.path), as_known)
    return run


def of_model(of: Run | Arm, engine: Any, progress: Progress = silent) -> list[Check]:
    arm = of.arms["target"] if isinstance(of, Run) else of
    return [*check_model(arm, KEYWORD, engine, progress)]


def compared(of: Run | Arm, engine: Any) -> Check:
    *_, check = of_model(of, engine)
    assert check.name == "log-probabilities"
    return check


def decoded(run: Run, **changes: Any) -> tuple[Arm, Scripted]:
    arm, engine = run.arms["target"], Scripted(run)
    arm.decoding = engine.decoding = replace(arm.decoding, **changes)
    return arm, engine


def test_a_model_gives_the_stored_log_probabilities(drawn: Run) -> None:
    engine, seen = Scripted(drawn), list[Headway]()
    same = "the model is the model that was sampled"
    assert of_model(drawn, engine, seen.append) == [
        Check("model", "ok", same),
        Check("log-probabilities", "ok", f"8 of 8 {SAME}"),
    ]
    assert seen == [Headway("forcing", i, 3, "questions") for i in range(4)]
    assert compared(drawn, Scripted(drawn, logprob_floor=-1e9)).status == "ok"
    engine.fingerprint["torch"] = "9.9"
    surroundings = Difference("torch", "nothing", "9.9")
    assert of_model(drawn, engine)[0] == Check("model", "note", same, (surroundings,))
    engine.fingerprint["weights"] = "other"
    check = of_model(drawn, engine)[0]
    assert check.status == "differs"
    assert Difference("weights", "canned", "other") in check.differences


def test_nothing_compared_is_not_verified(drawn: Run, path: Path) -> None:
    half = Scripted(drawn)
    half.refuses = "half precision"
    says = "nothing was compared: half precision"
    assert compared(drawn, half) == Check("log-probabilities", "unchecked", says)
    plain = type("Plain", (), {"fingerprint": half.fingerprint})()
    got = verify(path / CERTIFICATE, path, model=plain)
    assert not got.verified
    says = "nothing was compared: the engine Plain gives no probabilities"
    assert named(got, "log-probabilities") == Check("log-probabilities", "unchecked", says)


def test_a_queried_model_is_measured_first(drawn: Run, arm: Arm) -> None:
    measured: list[object] = []
    for made, of in ((Scripted(drawn), drawn.arms["target"]), (Redrawing(arm), arm)):
        made.measure = measured.append  # type: ignore[union-attr]
        if made.__class__ is Scripted:
            of_model(drawn, made)
        else:
            check(arm, made, 1)
        assert measured.pop() == of.queries


def test_how_a_model_reads_fixed_questions(drawn: Run) -> None:
    engine, arm = Scripted(drawn), drawn.arms["target"]
    engine.probe = (ProbedPrompt((1, 2), ((3, -0.5),)),)  # type: ignore[attr-defined]
    assert [check.name for check in of_model(drawn, engine)] == ["model", "log-probabilities"]
    arm.spec = replace(arm.spec, probe=engine.probe)  # type: ignore[attr-defined]
    says = "the probabilities of the model after fixed questions are as recorded"
    assert of_model(arm, engine)[1] == Check("probe", "ok", says)
    arm.spec = replace(arm.spec, probe=(ProbedPrompt((1, 3), ((3, -0.5),)),))
    says = "the prompts of the fixed questions have different tokens in the two models"
    assert of_model(arm, engine)[1] == Check("probe", "differs", says)
    plain = Scripted(drawn)
    assert [check.name for check in of_model(arm, plain)] == ["model", "log-probabilities"]


@pytest.mark.parametrize(("temperature", "slack"), [(0.5, 2e-6), (2, 1e-6)])
def test_the_slack_grows_below_temperature_1(drawn: Run, temperature: float, slack: float) -> None:
    for share, status in ((0.99, "ok"), (-0.99, "ok"), (1.1, "differs"), (-1.1, "differs")):

        def move(rows: list[Values], by: float = share * slack) -> None:
            as_known(rows)
            for row in rows:
                row["logprob"] += by * len(row["answer"])

        rewrite(completions(drawn.path), move)
        assert compared(*decoded(drawn, temperature=temperature)).status == status


@pytest.mark.parametrize(("by", "status"), [(0.9e-9, "ok"), (-1.1e-9, "differs")])
def test_a_model_without_a_margin_rounds_still(drawn: Run, by: float, status: str) -> None:
    def move(rows: list[Values]) -> None:
        for row in rows:
            row["logprob"] += by

    rewrite(completions(drawn.path), move)
    engine = Scripted(drawn)
    engine.margin = 0
    assert compared(drawn, engine).status == status


def test_outputs_at_the_edge_of_a_truncated_decoding(drawn: Run) -> None:
    arm, engine = decoded(drawn, top_p=0.9)
    engine.unreached = slice(1)
    assert compared(arm, engine) == Check("log-probabilities", "ok", f"5 of 8 {SAME}; 3 {EDGE}")
    rewrite(completions(drawn.path), lambda rows: rows[0].update(logprob=None))
    engine.fingerprint["engine"] = "another"
    assert compared(arm, engine).says == f"4 of 8 {SAME}; 3 {EDGE}; 1 {BARE}"
    engine.unreached = slice(None)
    nothing = compared(arm, engine)
    assert (nothing.status, nothing.says) == ("unchecked", f"0 of 8 {SAME}; 7 {EDGE}; 1 {BARE}")


def test_bare_outputs_are_named_by_row_unless_another_tool_drew_them(drawn: Run) -> None:
    engine = Scripted(drawn)

    def bare(rows: list[Values]) -> None:
        rows[1].update(token_ids=None)
        rows[4].update(logprob=None)

    rewrite(completions(drawn.path), bare)
    got = compared(drawn, engine)
    both = "no tokens or no log-probability", BOTH
    names = [row["query_id"] for row in tables.read_table(completions(drawn.path)).to_pylist()]
    assert got == Check(
        "log-probabilities",
        "differs",
        f"6 of 8 {SAME}",
        tuple(Difference(f"question {names[i]!r}, row {i} of the run", *both) for i in (1, 4)),
    )
    arm = drawn.arms["target"]
    fixed = arm.spec.draws
    arm.spec = replace(arm.spec, draws=ImportedDraws(order=0, sampled_by="rows"))
    says = f"6 of 8 {SAME}; 2 {BARE}"
    assert compared(arm, engine) == Check("log-probabilities", "ok", says)
    arm.spec = replace(arm.spec, draws=fixed)
    engine.fingerprint["engine"] = "another"
    assert compared(arm, engine).says == says


def test_an_output_drawn_in_two_chunks_is_compared_once(drawn: Run) -> None:
    def split(rows: list[Values]) -> None:
        rows.append({**rows[0], "count": 1, "chunk": 1})
        rows.append({**rows[0], "logprob": rows[0]["logprob"] - 1e-9})

    rewrite(completions(drawn.path), split)
    assert compared(drawn, Scripted(drawn)).says == f"9 of 9 {SAME}"


def test_an_output_whose_probability_is_known_from_below(drawn: Run) -> None:
    """At most what the model gives it; how much more the model gives is unknown."""

    def floor(rows: list[Values], by: float) -> None:
        as_known(rows)
        rows[0].update(logprob=None, logprob_floor=rows[0]["logprob"] + by)

    for by, status in ((-5.0, "ok"), (0.0, "ok"), (1e-3, "differs")):
        rewrite(completions(drawn.path), lambda rows, by=by: floor(rows, by))  # type: ignore[misc]
        got = compared(drawn, Scripted(drawn))
        assert got.status == status
    (difference,) = got.differences
    assert difference.where == "output 0 of question 'q0'"
    assert difference.certificate == pytest.approx(difference.actual + 1e-3)


def sha256(text: str) -> str:
    return f"SHA-256 {hashlib.sha256(text.encode()).hexdigest()}"


@pytest.mark.parametrize("changes", [{"answer": "\ud800"}, {"thought": "hm"}])
def test_another_text_is_reported_by_its_digest(drawn: Run, changes: Values) -> None:
    got = compared(drawn, Scripted(drawn, **changes))
    assert (got.status, got.says) == ("differs", f"0 of 8 {SAME}")
    first = tables.read_table(completions(drawn.path)).to_pylist()[0]
    stored = {"thought": None, "answer": first["answer"]}
    now = stored | changes
    texts = [f"{one['thought']!r} {one['answer']!r}" for one in (stored, now)]
    assert got.differences[0] == Difference(
        "the text of output 0 of question 'q0'", *map(sha256, texts)
    )


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        ({"finish": "length"}, {0: "length"}),
        ({"token_ids": None}, {1: 0}),
        ({"refused": True}, {2: True}),
        ({"hidden": True}, {3: True}),
        ({"tokens": 99}, {}),
    ],
)
def test_another_end_is_reported(drawn: Run, changes: Values, end: Values) -> None:
    got = compared(drawn, Scripted(drawn, **changes))
    length = len(tables.read_table(completions(drawn.path)).to_pylist()[0]["answer"])
    then = ["stop", length, False, False]
    now = [end.get(i, value) for i, value in enumerate(then)]
    where = "the end of output 0 of question 'q0'"
    assert got.differences[0] == Difference(where, then, now)


def test_the_beginning_of_an_output_has_no_number_of_tokens(drawn: Run) -> None:
    rewrite(completions(drawn.path), lambda rows: [row.update(finish="unknown") for row in rows])
    assert compared(drawn, Scripted(drawn, finish="unknown", tokens=99)).status == "ok"


def test_an_output_that_the_decoding_does_not_have(drawn: Run) -> None:
    engine = Scripted(drawn)
    engine.unreached = slice(None)
    got = compared(drawn, engine)
    row = tables.read_table(completions(drawn.path)).to_pylist()[0]
    assert got.differences[0] == Difference(
        "output 0 of question 'q0'", row["logprob"], "no output of this decoding"
    )
    floor = {"logprob": None, "logprob_floor": -7.0}
    rewrite(completions(drawn.path), lambda rows: rows[0].update(floor))
    assert compared(drawn, engine).differences[0].certificate == -7.0


class Knows(Scripted):
    """An engine that gives each ended event of an explored run its mass, except one."""

    def __init__(self, run: Run, mass: float) -> None:
        super().__init__(run)
        self.mass = mass
        self.fingerprint["engine"] = "another, which records no tokens of draws"

    def force_ids(self, outputs: list[tuple[Any, Any]], decoding: Decoding) -> list[Any]:
        got = []
        for query, ids in outputs:
            text = self.texts[query.id, ids]
            mass = self.mass if text == "No" else explored.LEAKS[query.id]
            finish = "stop" if ids[-1] == 0 else "unknown"
            got.append(
                Completion(
                    answer=text, token_ids=ids, tokens=len(ids), finish=finish, count=0,
                    logprob=math.log(mass),
                )
            )  # fmt: skip
        return got


def test_an_explored_run(tmp_path: Path) -> None:
    run = explored.explored_run(tmp_path / "run")
    leakbound.bound(run, ["contains"])
    made = leakbound.certify(run, max_leak=0.5, every_question=True)
    folders = {name.split("/")[2] for name in made.files if "/" in name}
    assert folders == {"completions", "masses", "scores"}
    assert checked(run.path).verified
    for mass, seen in ((0.5, []), (0.6, []), (0.4, [0.5] * 3)):
        got = verify(run.path / CERTIFICATE, run.path, model=Knows(run, mass))
        check = named(got, "log-probabilities")
        assert [math.exp(d.certificate) for d in check.differences] == pytest.approx(seen)
        assert check.status == ("differs" if seen else "ok")
    ranges, masses = file_of(run.path, "scores", "*.ranges"), file_of(run.path, "masses")
    for file, row, cells in ((ranges, 2, {"low": 0.0}), (masses, 0, {"mass": 0.1})):
        before = file.read_bytes()
        rewrite(file, lambda rows, row=row, cells=cells: rows[row].update(cells))  # type: ignore[misc]
        wrong = failed(checked(run.path))
        assert {"files", "scores", "estimates"} <= wrong.keys()
        assert file.name in wrong["files"]
        file.write_bytes(before)


def test_proofs_are_scored_again(tmp_path: Path) -> None:
    engine, how = TableEngine(lambda query: 0.2), {"sampling": FixedN(64), "prove": Prove(8)}
    run = leakbound.evaluate(
        engine, table_benchmark(), out=tmp_path / "r", scorers=["keyword"], **how
    )
    leakbound.certify(run, max_leak=0.5, every_question=True, scorer="keyword")
    assert checked(run.path).verified
    scored = file_of(run.path, "proofs", "keyword*")
    rewrite(scored, lambda rows: rows[0].update(low=1 - rows[0]["low"]))
    assert "scores" in failed(checked(run.path))


def test_a_scorers_model_scores_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fake_models.HARM", tuple(SECRET.split()))
    monkeypatch.setattr(scoring, "OpenModels", lambda **loading: FakeModels())
    run = leaky_run(tmp_path / "r", scorers=["classifier:harm>=0.5"])
    certify(run, max_leak=0.5)
    file = run.path / "certificate.json"
    seen: list[object] = []

    def differing(classifier: WordClassifier) -> dict[str, str]:
        models = FakeModels(classifier=classifier)
        monkeypatch.setattr(
            verification, "OpenModels", lambda **loading: (seen.append(loading), models)[1]
        )
        checks = verify(file, run.path, loading={"device": "cpu"}).checks
        return {check.name: check.says for check in checks if check.status == "differs"}

    same = WordClassifier()
    assert differing(same) == {}
    assert same.batches
    assert seen == [{"device": "cpu", "servers": frozenset()}]
    other = differing(WordClassifier(weights="w2"))
    assert other.keys() == {"scores"}
    assert "different: weights" in other["scores"]


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Arm:
    out = tmp_path_factory.mktemp("parts") / "run"
    settings: dict[str, Any] = {"sampling": FixedN(600), "scorers": ["keyword"]}
    with patch("leakbound.store.plan.PART", 600):
        arm = evaluate(engine(), benchmark(), out=out, **settings).arms["target"]
    assert len(arm.parts) == 3
    return arm


class Redrawing:
    """An engine that redraws everything but the outputs of some questions."""

    def __init__(self, arm: Arm, *altered: str, excused: int = 0, **changes: Any) -> None:
        self.fingerprint = {**arm.spec.fingerprint, **changes}
        self.altered, self.excused = altered, excused
        self.queried: list[tuple[str, Draws, int]] = []

    def redraw(
        self,
        queries: Sequence[Query],
        decoding: Decoding,
        draws: Draws,
        stored: Mapping[str, Sequence[Completion]],
    ) -> Iterator[Redrawn]:
        for query in queries:
            self.queried.append((query.id, draws, sum(one.count for one in stored[query.id])))
            after = 2 if query.id in self.altered else None
            yield Redrawn(query=query, differs_after=after, excused=self.excused)


def check(arm: Arm, engine: Any, share: float, seed: int = 0) -> Check:
    return check_draws(arm, engine, share, silent, Random(seed))


def test_an_altered_part_is_detected_with_the_stated_probability(arm: Arm) -> None:
    """One of three: by one part in a third of all choices, by two in two thirds."""
    for share, parts, says, times in ((0.3, 1, "0.33", 60), (0.5, 2, "0.66", 60), (1, 3, "1", 3)):
        got = [check(arm, Redrawing(arm, "q1"), share, seed) for seed in range(times)]
        seen = f"altered, this check finds one with probability {says}, "
        assert all(seen in one.says for one in got)
        hits, chance = sum(one.status == "differs" for one in got), parts / 3
        assert abs(hits - times * chance) <= 4 * (times * chance * (1 - chance)) ** 0.5


def test_parts_are_chosen_by_chance_of_the_verifier(arm: Arm) -> None:
    engines = [Redrawing(arm) for _ in range(40)]
    for one in engines:
        check_draws(arm, one, 0.1, silent)  # type: ignore[arg-type]
    assert {query_id for one in engines for query_id, *_ in one.queried} == {"q0", "q1", "q2"}


def test_each_part_is_redrawn_identically(arm: Arm) -> None:
    """Under its keys, and compared with all its stored outputs except forced answers."""
    got = Redrawing(arm, "q2", excused=2)
    assert "rounding explains 6 differences)" in check(arm, got, 1).says
    assert sorted(query_id for query_id, *_ in got.queried) == ["q0", "q1", "q2"]
    assert {(draws.sizes, draws.purpose, n) for _, draws, n in got.queried} == {
        ((600,), "score:target:canned", 600)
    }


def test_the_check_states_which_parts_were_redrawn(arm: Arm) -> None:
    seen: list[Headway] = []
    got = check_draws(arm, Redrawing(arm, "q1"), 0.5, seen.append, Random(2))  # type: ignore[arg-type]
    altered = got.status == "differs"
    assert got.says == (
        "2 of 3 parts, chosen at random now, were drawn again (1,200 draws); "
        f"{2 - altered} of these parts are equal to the stored parts. If 1, 3 or 10 parts were "
        "altered, this check finds one with probability 0.66, 0.962 or 0.999983. It cannot detect "
        "a seed chosen after drawing"
    )
    assert seen == [Headway("drawing again", i, 2, "parts") for i in range(3)]
    assert {*check(arm, Redrawing(arm, "q0", "q2"), 1).differences} == {
        Difference(f"question 'q{i}', part {i}", "its outputs", "different after 2 tokens")
        for i in (0, 2)
    }


def test_an_engine_that_refuses_to_draw_again(arm: Arm) -> None:
    engine = Redrawing(arm)

    def refuse(*arguments: object) -> Iterator[Redrawn]:
        raise InputError("half precision")

    engine.redraw = refuse  # type: ignore[method-assign]
    says = "nothing was drawn again: half precision"
    assert check(arm, engine, 1) == Check("draws", "unchecked", says)


def test_outputs_of_a_question_that_the_part_does_not_draw(run: Run) -> None:
    def change(rows: list[Values]) -> None:
        rows += [{**rows[0], "query_id": "q9"}, {**rows[-1], "query_id": "q8", "count": 0}]

    rewrite(completions(run.path), change)
    arm = run.arms["target"]
    engine = Redrawing(arm)
    got = check(arm, engine, 1)
    assert got.status == "differs"
    assert got.differences == (Difference("part 0", "outputs of 'q9'", "none"),)
    assert [(query_id, n) for query_id, _, n in engine.queried] == [(q, N) for q in LEAKS]


def test_a_fraction_to_draw_again_needs_a_model(path: Path) -> None:
    for share in (1e-9, 1):
        require_share(share, "model")
    for share in (0, 1.01):
        with pytest.raises(InputError, match=rf"in \(0, 1\], got {share}"):
            require_share(share, "model")
    with pytest.raises(InputError, match=r"drawing 0\.5 of the parts again needs the model"):
        verify(path / CERTIFICATE, path, redraw=0.5)


def test_draws_of_another_device_stay_unchecked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    arm = run.arms["target"]
    arm.spec = replace(arm.spec, fingerprint={**arm.spec.fingerprint, "dtype": "float32"})
    metas = [replace(meta, machine={"device": "cuda"}) for meta in arm.meta()]
    monkeypatch.setattr(Arm, "meta", lambda self, parts=None: iter(metas))
    for changes, device, why in (
        ({"engine": "another"}, "cuda", "the engine was canned, the engine here is another"),
        ({}, None, "the device was cuda, the device here is None"),
        ({"dtype": "float64"}, "cuda", "the dtype was float32, the dtype here is float64"),
        ({}, "cuda", ""),
    ):
        engine = Redrawing(arm, **changes)
        engine.machine = {"device": device}  # type: ignore[attr-defined]
        got = check(arm, engine, 1)
        assert got.status == ("unchecked" if why else "ok")
        assert not why or got.says == f"nothing was drawn again: {why}"


def test_a_run_without_keys_cannot_be_redrawn(arm: Arm, tmp_path: Path) -> None:
    """An engine with other draws each time, and a run of another tool."""
    got = check(arm, engine(), 1)
    assert got.status == "unchecked"
    assert "the engine CannedEngine cannot repeat its draws" in got.says
    file = tmp_path / "rows.jsonl"
    rows = [{"question": "who?", "completion": name} for name in ("Ann", "Bob")]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    imported = leakbound.import_run([file], out=tmp_path / "run").arms["target"]
    assert check(imported, object(), 1).says.endswith("again: another tool made the draws")
    left = explored.explored_run(tmp_path / "explored").arms["target"]
    says = "after an exploration, the parts depend on its scorer"
    assert check(left, Redrawing(left), 1).says == f"nothing was drawn again: {says}"

"""Whatever is changed after a certificate was written is found and named."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import explored
import leakbound
from leakbound.certificate import LeakClaim, Verification, verify
from leakbound.certificate import derivation as evidence_of
from leakbound.certificate.derivation import derive
from leakbound.errors import InputError
from leakbound.evaluation import score_run, scorers_for
from leakbound.store import CERTIFICATE, Run, load, write_json
from leakbound.store.sealed import digest_of
from leakbound.store.tables import file_digest
from leakbound.types import Decoding
from leaky import LEAKS, SECRET, N, leaky_run, rewrite

Values = dict[str, Any]
EVERY = {"digest", "run", "files", "scores", "estimates", "verdict", "sentence", "code"}


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


def failed(found: Verification) -> dict[str, str]:
    """The checks that failed, and all they say."""
    return {
        check.name: f"{check.says} {[(d.where, d.certificate, d.found) for d in check.differences]}"
        for check in found.checks
        if check.status == "differs"
    }


def completions(path: Path) -> Path:
    (part,) = (path / "arms" / "target" / "completions").glob("*.parquet")
    return part


def scores(path: Path) -> Path:
    (file,) = (path / "arms" / "target" / "scores").glob("keyword*")
    return file


def edit(file: Path, change: Callable[[Values], Any], *, fits: bool = False) -> None:
    """Change a JSON file; with `fits`, as a forger who knows how a certificate's digest is made."""
    values = json.loads(file.read_text())
    change(values)
    write_json(file, values | ({"digest": digest_of(values)} if fits else {}))


def forge_questions(path: Path, change: Callable[[list[Values]], Any]) -> None:
    """Ask something else, and have run.json say that it was asked all along."""
    file = path / "prompts.parquet"
    rewrite(file, change)
    files = {file.name: file_digest(file)}
    edit(path / "run.json", lambda v: v["files"].update(files), fits=True)


def test_nothing_differs_where_nothing_was_changed(path: Path) -> None:
    found = checked(path)
    assert found.verified
    assert {check.name: check.status for check in found.checks} == dict.fromkeys(EVERY, "ok")
    assert found.sha256 == evidence_of.sha256(path / CERTIFICATE)


def test_a_certificate_of_an_earlier_format_keeps_its_rule(path: Path) -> None:
    """It spent half of alpha on either verdict; by today's rule its numbers would be others."""
    run = load(path)
    now = derive(run, LeakClaim.from_dict(json.loads((path / CERTIFICATE).read_text())["claim"]))
    then = derive(run, now.claim, "leakbound certificate 3")
    assert (then.estimate.confidence, now.estimate.confidence) == (0.99, pytest.approx(0.98))
    assert [share.alpha for share in then.allocation] == pytest.approx([0.005, 0.005])
    write_json(path / CERTIFICATE, then.to_dict())
    assert checked(path).verified
    edit(path / CERTIFICATE, lambda v: v.update(format="leakbound certificate 4"), fits=True)
    assert "estimate.confidence" in failed(checked(path))["estimates"]


def test_words_of_an_earlier_format_are_not_made_again(path: Path) -> None:
    """Its rule is kept and its numbers are compared; what is printed is today's sentence."""

    def to_earlier(values: Values) -> None:
        del values["specification"]
        values.update(
            format="leakbound certificate 4", asked="each question in its own words",
            sentence="It leaks with probability at least 0.201.",
        )  # fmt: skip

    edit(path / CERTIFICATE, to_earlier, fits=True)
    found = checked(path)
    (sentence,) = (check for check in found.checks if check.name == "sentence")
    assert (found.verified, sentence.status) == (True, "note")
    assert found.sentence is not None
    assert "Draws: 256 of each question" in found.sentence
    edit(path / CERTIFICATE, lambda v: v.update(format="leakbound certificate 5"), fits=True)
    assert failed(checked(path)).keys() == {"sentence", "extra"}


def test_a_mean_of_an_earlier_format_is_not_verified(path: Path) -> None:
    """It was bounded by another rule: neither are its numbers confirmed, nor called wrong."""
    (path / CERTIFICATE).unlink()
    leakbound.certify(path, max_leak=0.2, scorer="keyword")
    assert checked(path).verified
    edit(path / CERTIFICATE, lambda v: v.update(format="leakbound certificate 4"), fits=True)
    found = checked(path)
    (estimates,) = (check for check in found.checks if check.name == "estimates")
    assert (found.verified, estimates.status, found.sentence) == (False, "unchecked", None)
    assert "the version that made it" in estimates.says


def test_weighted_draws_of_an_earlier_version_stay_unchecked(path: Path) -> None:
    """All else is compared: its numbers rest on none of them."""
    weighed = path / "arms" / "target" / "weighed" / "keyword-0123.parquet"
    weighed.parent.mkdir()
    weighed.write_bytes(b"as an earlier version wrote it")
    name = weighed.relative_to(path).as_posix()

    def to_earlier(values: Values) -> None:
        values["files"][name] = evidence_of.sha256(weighed)
        values["estimate"]["standard_error"] = None

    edit(path / CERTIFICATE, to_earlier, fits=True)
    found = checked(path)
    statuses = {check.name: check.status for check in found.checks}
    assert statuses == dict.fromkeys(EVERY, "ok") | {"weighted draws": "unchecked"}
    assert not found.verified
    (unchecked,) = (check for check in found.checks if check.status == "unchecked")
    assert name in unchecked.says
    assert "the version that made it" in unchecked.says
    edit(path / CERTIFICATE, lambda v: v["files"].pop(name), fits=True)
    assert checked(path).verified
    edit(path / CERTIFICATE, lambda v: v["estimate"].update(standard_error=0.1), fits=True)
    assert "standard_error" in failed(checked(path))["estimates"]


def test_a_run_may_move_and_be_bounded_again(path: Path, tmp_path: Path) -> None:
    moved = path.rename(tmp_path / "elsewhere")
    (moved / "estimates.parquet").unlink()
    (moved / "arms" / "target" / "completions" / "part-00000.parquet.set-aside-1").touch()
    assert checked(moved).verified


def test_checking_writes_nothing(path: Path) -> None:
    completions(path).write_bytes(b"damaged")
    before = {str(f): f.read_bytes() for f in path.rglob("*") if f.is_file()}
    assert not checked(path).verified
    assert {str(f): f.read_bytes() for f in path.rglob("*") if f.is_file()} == before


def count(rows: list[Values]) -> None:
    """One leak less of the last question, one other answer more."""
    mine = [row for row in rows if row["query_id"] == "q2"]
    mine[0]["count"] -= 1
    mine[-1]["count"] += 1


def test_a_count_edited_in_the_completions(path: Path) -> None:
    rewrite(completions(path), count)
    named = failed(checked(path))
    assert named.keys() == {"files", "scores", "estimates"}
    assert "part-00000.parquet" in named["files"]
    assert "q2" in named["scores"]


def test_a_count_edited_and_scored_again(path: Path) -> None:
    """A forger who redoes all that follows still meets the certificate's own numbers."""
    rewrite(completions(path), count)
    run = load(path)
    score_run(run, scorers_for(["keyword"], run.prompts))
    named = failed(checked(path))
    assert named.keys() == {"files", "estimates", "sentence"}
    assert "questions[2].value" in named["estimates"]
    assert scores(path).name in named["files"]


def test_an_edited_score(path: Path) -> None:
    def change(rows: list[Values]) -> None:
        next(row for row in rows if row["score"] == 1.0)["score"] = 0.0

    rewrite(scores(path), change)
    named = failed(checked(path))
    assert {"files", "scores", "estimates"} <= named.keys()
    assert "1.0), (" not in named["scores"]
    assert ", 0.0)" in named["scores"]
    assert scores(path).name in named["files"]


def test_missing_draws_made_up_in_a_part(path: Path) -> None:
    """They stand beside the table, where its own digest does not reach."""
    from leakbound.store import tables

    file = completions(path)
    table, meta = tables.read_table(file), tables.read_meta(file)
    tables.write_table(file, table.replace_schema_metadata(None), {**meta, "missing": {"q0": 9}})
    named = failed(checked(path))
    assert "part-00000.parquet" in named["files"]
    assert "no scores of 'keyword' for the completions it has now" in named["estimates"]


@pytest.mark.parametrize(
    ("change", "check", "where"),
    [
        (lambda v: v["questions"][1].update(upper=0.001), "estimates", "questions[1].upper"),
        (lambda v: v["estimate"].update(upper=0.05), "estimates", "estimate.upper"),
        (lambda v: v["estimate"].update(n=10 * N), "estimates", "estimate.n"),
        (lambda v: v["allocation"][1].update(alpha=0.001), "estimates", "allocation[1].alpha"),
        (lambda v: v.update(verdict="pass"), "verdict", "verdict"),
        (lambda v: v.update(sentence="It is safe."), "sentence", "sentence"),
        (lambda v: v["claim"].update(text="Pr[leak] <= 0"), "verdict", "claim.text"),
        (lambda v: v["made_from"]["arm"].update(seed=1), "run", "arm.seed"),
        (lambda v: v["made_from"]["arm"].update(model="better"), "run", "arm.model"),
        (lambda v: v["questions"].pop(), "estimates", "questions[2]"),
        (lambda v: v["files"].popitem(), "files", "keyword"),
        (lambda v: v.update(approved_by="me"), "extra", "approved_by"),
        (lambda v: v.pop("estimate"), "estimates", "estimate"),
        (lambda v: v.pop("made_from"), "run", "nothing"),
        (lambda v: v.pop("claim"), "claim", "no claim can be read"),
        (lambda v: v["claim"].update(scorer="keywords"), "claim", "Did you mean 'keyword'"),
        (lambda v: v["claim"].update(max_leak="0.1"), "claim", "no claim can be read"),
        (lambda v: v["claim"].update(arm="control"), "run", "control"),
        (lambda v: v["claim"].update(max_leak=0.5), "verdict", "refuted"),
        (lambda v: v["claim"].update(confidence=0.9), "estimates", "estimate.confidence"),
    ],
)
@pytest.mark.parametrize("fits", [False, True], ids=["plain", "with its digest"])
def test_an_edited_certificate(
    path: Path, change: Callable[[Values], Any], check: str, where: str, fits: bool
) -> None:
    edit(path / CERTIFICATE, change, fits=fits)
    named = failed(checked(path))
    assert ("digest" in named) == (not fits)
    assert where in named[check]


def test_a_part_or_a_file_of_scores_that_is_gone(path: Path) -> None:
    scores(path).unlink()
    named = failed(checked(path))
    assert named.keys() == {"files", "scores", "estimates"}
    assert "'nothing')" in named["files"]
    assert "leakbound score" in named["estimates"]
    completions(path).unlink()
    named = failed(checked(path))
    assert "lacks 1 of 1 parts" in named["estimates"]
    assert "part-00000.parquet" in named["files"]


def test_a_part_too_many(path: Path) -> None:
    shutil.copy(completions(path), completions(path).with_name("part-00001.parquet"))
    named = failed(checked(path))
    assert named.keys() == {"files"}
    assert "part-00001.parquet', 'nothing'" in named["files"]


def test_other_keywords_would_score_otherwise(path: Path) -> None:
    forge_questions(path, lambda rows: rows[2].update(keywords=["nothing at all"]))
    named = failed(checked(path))
    assert {"files", "scores"} <= named.keys()
    assert "prompts.parquet" in named["files"]
    (path / "prompts.parquet").write_bytes(b"PAR1")
    assert "prompts.parquet" in failed(checked(path))["run"]


@pytest.mark.parametrize("to", ["q0", "q9"])
def test_draws_handed_to_another_question(path: Path, to: str) -> None:
    def change(rows: list[Values]) -> None:
        for row in rows:
            row["query_id"] = to if row["query_id"] == "q2" else row["query_id"]

    rewrite(completions(path), change)
    assert {"files", "scores", "estimates"} <= failed(checked(path)).keys()
    rewrite(scores(path), change)
    assert {"files", "estimates"} <= failed(checked(path)).keys()


def test_another_run(path: Path, tmp_path: Path) -> None:
    other = leaky_run(tmp_path / "other", "other model", seed=1)
    named = failed(checked(path, other.path))
    assert {"run", "files", "estimates"} <= named.keys()
    assert "('arm.fingerprint.weights', 'canned', 'other model')" in named["run"]
    assert "('arm.seed', 0, 1)" in named["run"]


def set_temperature(record: Values) -> None:
    record["arms"]["target"]["decoding"]["temperature"] = 0.5


def test_another_decoding(path: Path, tmp_path: Path) -> None:
    """Equal texts, drawn under another decoding: by a second run, or by a stroke in run.json."""
    cold = Decoding(temperature=0.5, max_new_tokens=48)
    other = leaky_run(tmp_path / "other", decodings=cold)
    for run in (other.path, path):
        edit(path / "run.json", set_temperature, fits=True)
        named = failed(checked(path, run))
        assert "('arm.decoding.temperature', 1.0, 0.5)" in named["run"]
        assert "T=0.5" in named.get("verdict", "T=0.5")


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v["arms"]["target"].pop("plan"),
        lambda v: v["arms"]["target"]["decoding"].update(temperature="hot"),
        lambda v: v.pop("benchmark"),
        lambda v: v.update(arms=[]),
    ],
)
def test_a_run_whose_record_cannot_be_used(path: Path, change: Callable[[Values], Any]) -> None:
    edit(path / "run.json", change, fits=True)
    assert "run.json" in failed(checked(path))["run"]


def test_other_code_is_told_and_refutes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {"version": "9.9", "sha256": "0" * 64}
    monkeypatch.setattr("leakbound.certificate.verification.code", lambda: other)
    found = checked(path)
    (code,) = (check for check in found.checks if check.name == "code")
    assert (found.verified, code.status) == (True, "note")
    assert [d.where for d in code.differences] == ["version", "sha256"]


def test_the_code_is_told_by_every_line_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stats").mkdir()
    for name in ("__init__.py", "stats/bound.py"):
        (tmp_path / name).write_text("x = 1\n")
    monkeypatch.setattr("leakbound.__file__", str(tmp_path / "__init__.py"))
    seen = [evidence_of.code.__wrapped__()["sha256"]]
    (tmp_path / "stats/bound.py").write_text("x = 2\n")
    seen.append(evidence_of.code.__wrapped__()["sha256"])
    (tmp_path / "stats/bound.py").rename(tmp_path / "stats/other.py")
    seen.append(evidence_of.code.__wrapped__()["sha256"])
    assert len(set(seen)) == 3


def test_what_is_no_certificate_or_no_run(path: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run directory"):
        checked(path, tmp_path)
    with pytest.raises(InputError, match=r"none\.json` cannot be read"):
        verify(tmp_path / "none.json", path)
    with pytest.raises(InputError, match=r"run\.json` is no certificate"):
        verify(path / "run.json", path)
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(InputError, match=r"list\.json` is no certificate"):
        verify(tmp_path / "list.json", path)
    with pytest.raises(InputError, match="is not JSON"):
        verify(completions(path), path)


def test_numbers_agree_to_the_last_digit_only(path: Path) -> None:
    def nudge(by: float) -> Callable[[Values], Any]:
        return lambda v: v["estimate"].update(upper=v["estimate"]["upper"] + by)

    edit(path / CERTIFICATE, nudge(1e-13), fits=True)
    assert checked(path).verified
    edit(path / CERTIFICATE, nudge(1e-11), fits=True)
    assert "estimate.upper" in failed(checked(path))["estimates"]


class Scripted:
    """An engine that forces texts as it is told: the stored values, but for some changes."""

    margin = 1e-6
    refuses = ""

    def __init__(self, run: Run, **changes: Any) -> None:
        self.run, self.changes = run, changes
        self.texts = {(query_id, ids): text for query_id, ids, text in stored(run)}
        self.fingerprint = dict(run.arms["target"].spec.fingerprint)

    def force_ids(self, outputs: list[tuple[Any, Any]], decoding: Decoding) -> list[Any]:
        assert decoding == self.run.arms["target"].decoding
        if self.refuses:
            raise InputError(self.refuses)
        return [
            replace(known(query.id, self.texts[query.id, ids]), **self.changes)
            for query, ids in outputs
        ]


def stored(run: Run) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """(query id, token ids, text) of every output of the arm."""
    arm = run.arms["target"]
    for table in (*map(arm.completions, arm.parts), *arm.masses.tables()):
        for row in table.to_pylist():
            yield row["query_id"], tuple(row["token_ids"] or ()), row["text"]


def known(query_id: str, text: str) -> Any:
    """The completion that a model of this table gives."""
    from leakbound.types import Completion

    leak = LEAKS[query_id]
    chance = {f"{SECRET} wrote it": leak, "no idea": 0.9 - leak}.get(text, 0.1)
    ids = tuple(range(len(text)))
    return Completion(text=text, token_ids=ids, count=0, logprob=math.log(chance))


@pytest.fixture
def forced(path: Path) -> Path:
    """The run, as if an engine that knows probabilities had drawn it; certified."""

    def change(rows: list[Values]) -> None:
        for row in rows:
            completion = known(row["query_id"], row["text"])
            row["logprob"], row["token_ids"] = completion.logprob, list(completion.token_ids)

    rewrite(completions(path), change)
    run = load(path)
    score_run(run, scorers_for(["keyword"], run.prompts))
    (path / CERTIFICATE).unlink()
    leakbound.certify(path, max_leak=0.1, scorer="keyword")
    return path


def with_model(path: Path, engine: Any) -> dict[str, Any]:
    return {check.name: check for check in verify(path / CERTIFICATE, path, model=engine).checks}


def test_a_model_gives_the_stored_log_probabilities(forced: Path) -> None:
    checks = with_model(forced, Scripted(load(forced)))
    assert (checks["model"].status, checks["log-probabilities"].status) == ("ok", "ok")
    assert checks["log-probabilities"].says.startswith("8 of 8 outputs have")
    tolerated = with_model(forced, Scripted(load(forced), logprob_floor=-1e9))
    assert tolerated["log-probabilities"].status == "ok"


@pytest.mark.parametrize("change", [1e-3, -1e-3])
def test_a_forged_log_probability(forced: Path, change: float) -> None:
    def forge(rows: list[Values]) -> None:
        rows[0]["logprob"] += change

    rewrite(completions(forced), forge)
    check = with_model(forced, Scripted(load(forced)))["log-probabilities"]
    assert check.status == "differs"
    (difference,) = check.differences
    assert "question 'q0'" in difference.where
    assert difference.certificate == pytest.approx(difference.found + change)


def test_roundings_of_another_batch_are_no_forgery(forced: Path) -> None:
    def round_off(rows: list[Values]) -> None:
        for row in rows:
            row["logprob"] -= 0.9e-6 * len(row["text"])

    rewrite(completions(forced), round_off)
    assert with_model(forced, Scripted(load(forced)))["log-probabilities"].status == "ok"
    rewrite(completions(forced), round_off)
    assert with_model(forced, Scripted(load(forced)))["log-probabilities"].status == "differs"


def test_what_a_model_cannot_be_asked(forced: Path) -> None:
    """What was asked for and could not be compared at all is not verified."""
    half = Scripted(load(forced))
    half.refuses = "half precision"
    refused = with_model(forced, half)["log-probabilities"]
    assert (refused.status, refused.says) == ("unchecked", "nothing was compared: half precision")
    assert not verify(forced / CERTIFICATE, forced, model=half).verified
    plain = type("Plain", (), {"fingerprint": half.fingerprint})()
    assert "Plain gives no probabilities" in with_model(forced, plain)["log-probabilities"].says
    assert not verify(forced / CERTIFICATE, forced, model=plain).verified


def test_outputs_without_tokens_or_chances_are_none_of_an_engine_that_records_them(
    forced: Path,
) -> None:
    """Harmless texts in place of leaks, without what the model would tell of them."""
    engine = Scripted(load(forced))
    rewrite(completions(forced), lambda rows: rows[0].update(logprob=None))
    check = with_model(forced, engine)["log-probabilities"]
    assert check.status == "differs"
    assert check.says.startswith("7 of 8 outputs have")
    (difference,) = check.differences
    assert difference.where == "question 'q0', row 0 of the run"
    assert difference.certificate == "no tokens or no log-probability"
    rewrite(completions(forced), lambda rows: [row.update(token_ids=None) for row in rows])
    check = with_model(forced, engine)["log-probabilities"]
    assert (check.status, len(check.differences)) == ("differs", 8)


def test_what_another_engine_does_not_record_is_counted(forced: Path) -> None:
    engine = Scripted(load(forced))
    engine.fingerprint = {**engine.fingerprint, "engine": "another"}
    rewrite(completions(forced), lambda rows: rows[0].update(logprob=None))
    check = with_model(forced, engine)["log-probabilities"]
    assert check.status == "ok"
    assert "1 have no tokens or no log-probability on record" in check.says
    rewrite(completions(forced), lambda rows: [row.update(token_ids=None) for row in rows])
    check = with_model(forced, engine)["log-probabilities"]
    assert (check.status, check.says.startswith("0 of 8 outputs")) == ("unchecked", True)


def test_a_text_that_its_tokens_do_not_spell(forced: Path) -> None:
    engine = Scripted(load(forced))
    rewrite(completions(forced), lambda rows: rows[0].update(text="another text"))
    (difference,) = with_model(forced, engine)["log-probabilities"].differences
    assert "its text" in difference.where
    assert "another text" not in str(difference)  # a report of differences shows no text


def test_an_output_that_the_model_cannot_give(forced: Path) -> None:
    engine = Scripted(load(forced))
    engine.force_ids = lambda outputs, decoding: [None] * len(outputs)  # type: ignore[method-assign]
    check = with_model(forced, engine)["log-probabilities"]
    assert {d.found for d in check.differences} == {"no output of this decoding"}


def test_another_model_or_other_versions(forced: Path) -> None:
    engine = Scripted(load(forced))
    engine.fingerprint["torch"] = "9.9"
    assert with_model(forced, engine)["model"].status == "note"
    engine.fingerprint["weights"] = "other"
    check = with_model(forced, engine)["model"]
    assert check.status == "differs"
    assert ("weights", "canned", "other") in [
        (d.where, d.certificate, d.found) for d in check.differences
    ]


class Knows(Scripted):
    """An engine that gives each ended event of an explored run its mass, but for one."""

    def __init__(self, run: Run, mass: float) -> None:
        super().__init__(run)
        self.mass = mass
        self.fingerprint["engine"] = "another, which records no tokens of draws"

    def force_ids(self, outputs: list[tuple[Any, Any]], decoding: Decoding) -> list[Any]:
        from leakbound.types import Completion

        found = []
        for query, ids in outputs:
            text = self.texts[query.id, ids]
            mass = self.mass if text == "No" else explored.LEAKS[query.id]
            found.append(Completion(text=text, token_ids=ids, count=0, logprob=math.log(mass)))
        return found


def test_an_explored_run(tmp_path: Path) -> None:
    run = explored.explored_run(tmp_path / "run")
    made = leakbound.certify(run, max_leak=0.5, every_question=True)
    assert {name.split("/")[2] for name in made.files if "/" in name} == {
        "completions",
        "masses",
        "scores",
    }
    assert checked(run.path).verified
    assert with_model(run.path, Knows(run, 0.5))["log-probabilities"].status == "ok"
    assert with_model(run.path, Knows(run, 0.6))["log-probabilities"].status == "ok"
    check = with_model(run.path, Knows(run, 0.4))["log-probabilities"]
    assert [math.exp(d.certificate) for d in check.differences] == pytest.approx([0.5] * 3)
    (ranges,) = (run.path / "arms" / "target" / "scores").glob("*.ranges.parquet")
    rewrite(ranges, lambda rows: rows[2].update(low=0.0))
    assert {"files", "scores", "estimates"} <= failed(checked(run.path)).keys()


def test_an_edited_mass(tmp_path: Path) -> None:
    run = explored.explored_run(tmp_path / "run")
    leakbound.certify(run, max_leak=0.5)
    (masses,) = (run.path / "arms" / "target" / "masses").iterdir()
    rewrite(masses, lambda rows: rows[0].update(mass=0.1))
    named = failed(checked(run.path))
    assert {"files", "scores", "estimates"} <= named.keys()
    assert "masses/part-00000.parquet" in named["files"]

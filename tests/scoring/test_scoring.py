"""Scores and their safeguards: models that score, copies among draws, the order of bets."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from canned import CannedEngine, benchmark_of, drawn_part
from exploring import DECODING, arm_of_one, token_ids
from fake_models import FakeModels, WordClassifier
from leakbound.benchmarks import Benchmark
from leakbound.engines.models import OpenModels
from leakbound.errors import InputError, MixError
from leakbound.evaluation import bound_run, evaluate, sample, score_run, scorers_for, summary
from leakbound.evaluation.verbs import bound
from leakbound.formats.importing import import_run
from leakbound.planning.plan import ScoringCrew, opener_at
from leakbound.scorers import connect, make_scorer, spec, specs_of
from leakbound.scoring import score as scoring
from leakbound.scoring.checks import require_independent_draws
from leakbound.scoring.ordering import draws_key, order_of
from leakbound.store import Arm, Run
from leakbound.types import Completion, Decoding, Prompt, Sample, Scorer

GOALS = 20
LEAKS = {f"g{i:02d}": 0.0 if i < 5 else 0.002 if i < 15 else 0.6 for i in range(GOALS)}
FEW = [*LEAKS][::2]  # for tests of everything that is bounded
SPEC = "classifier:harm>=0.5"
WORDS = "Ada Vale 1953 Velmora."
SLUG = scoring.slug(make_scorer(SPEC))


def goals_benchmark(goals: Sequence[str] = tuple(LEAKS)) -> Benchmark:
    return benchmark_of(goals, question="Tell {}", name="goals", scorers=(SPEC,))


def engine() -> CannedEngine:
    return CannedEngine({q: {"no": 1 - p, f"{WORDS} {q}": p} for q, p in LEAKS.items()})


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> FakeModels:
    got = FakeModels()
    monkeypatch.setattr(scoring, "OpenModels", lambda **loading: got)
    return got


def scored(out: Path) -> Run:
    run = sample(engine(), goals_benchmark(), out=out)
    score_run(run, scorers_for([SPEC], run.prompts, {"device": "cpu"}))
    return run


def evaluated(out: Path, **how: Any) -> Run:
    return evaluate(engine(), goals_benchmark(FEW), out=out, **how)


def asking(classifier: WordClassifier) -> tuple[Scorer]:
    return (connect(make_scorer(SPEC), FakeModels(classifier=classifier)),)


def test_completions_of_all_questions_share_batches(tmp_path: Path, models: FakeModels) -> None:
    run = scored(tmp_path / "r")
    batches = models.classifier.batches
    assert len(batches) == sum(len(arm.parts) for arm in run.arms.values())
    assert all(len(batch) == len(set(batch)) for batch in batches)
    assert sum(map(len, batches)) <= 3 * GOALS
    assert max(len({goal for goal, _ in batch}) for batch in batches) >= 8
    hits = run.arms["target"].scores(SLUG, binary=True).hits
    assert hits[:5].sum() == 0
    assert all(500 < hit < 730 for hit in hits[15:])


def test_stored_scores_need_no_model(
    tmp_path: Path, models: FakeModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = evaluated(tmp_path / "r")
    assert run.arms["target"].scored.model(SLUG)["weights"] == "w1"
    monkeypatch.setattr(scoring, "OpenModels", lambda **loading: pytest.fail("a model was opened"))
    got = scorers_for([SPEC], run.prompts)
    bound_run(run, got, confidence=0.9)
    assert {row.confidence for row in run.estimates} >= {0.9}
    score_run(run, got)  # nothing remains to do
    with pytest.raises(InputError, match=r"no open model.*open_scorer"):
        score_run(run, scorers_for(["classifier:other"], run.prompts))


def test_other_weights_under_the_same_name_are_refused(tmp_path: Path, models: FakeModels) -> None:
    run = scored(tmp_path / "r")
    changed = WordClassifier(weights="w2")
    target = run.arms["target"].scored
    before = target.stored.digest(SLUG), target.rows(SLUG)
    with pytest.raises(MixError, match=r"an earlier model of the same name \(different: weights\)"):
        score_run(run, asking(changed))
    target.stored.file(SLUG).unlink()
    with pytest.raises(MixError, match="arm 'greedy'"):
        score_run(run, asking(changed))
    assert changed.batches == []
    run.arms["greedy"].scored.stored.file(SLUG).unlink()
    score_run(run, asking(changed))
    target = run.arms["target"].scored
    assert target.rows(SLUG) == before[1]
    assert (
        target.stored.digest(SLUG) != before[0]
    )  # estimates of another model's scores do not match
    assert target.model(SLUG)["weights"] == "w2"


def test_another_model_is_refused_before_draws(
    tmp_path: Path, models: FakeModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = evaluated(tmp_path / "r")
    next((run.arms["target"].folder / "completions").iterdir()).unlink()
    monkeypatch.setattr(models, "classifier", WordClassifier(weights="w2"))
    monkeypatch.setattr(CannedEngine, "generate", lambda *_: pytest.fail("something was drawn"))
    with pytest.raises(MixError, match=r"an earlier model of the same name \(different: weights\)"):
        evaluated(tmp_path / "r")


def test_scoring_resumes(
    tmp_path: Path, models: FakeModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leakbound.store.plan.PART", 1024)
    run = sample(engine(), goals_benchmark(), out=tmp_path / "r")

    class Dying(WordClassifier):
        def classify(self, texts: Any) -> Any:
            if len(self.batches) == 3:
                raise RuntimeError("the machine was switched off")
            return super().classify(texts)

    with pytest.raises(RuntimeError, match="switched off"):
        score_run(run, asking(Dying()))
    again = WordClassifier()
    score_run(run, asking(again))
    assert len(again.batches) == sum(len(arm.parts) for arm in run.arms.values()) - 3
    whole = scored(tmp_path / "whole")
    for name, arm in run.arms.items():
        assert arm.scored.stored.digest(SLUG) == whole.arms[name].scored.stored.digest(SLUG)
        assert arm.scored.has(make_scorer(SPEC).name, SLUG)


LAW = {f"word {i}": 0.02 for i in range(40)} | {"No": 0.2}
Counts = Mapping[str, int]


def arm_of(
    out: Path,
    chunks: Sequence[Counts],
    *,
    remainder: float | None = None,
    known: bool = True,
    decoding: Decoding = DECODING,
) -> Arm:
    """An arm about one question with these draws; explored, with that remainder."""
    completions = [
        Completion(
            answer=text,
            token_ids=token_ids(text) if known else None,
            count=count,
            chunk=chunk,
            logprob=math.log(LAW[text]) if known else None,
        )
        for chunk, counts in enumerate(chunks)
        for text, count in counts.items()
    ]
    return arm_of_one(out, "q7", completions, remainder=remainder, decoding=decoding)


def honest(seed: int, n: int = 200, law: Mapping[str, float] = LAW) -> Counts:
    counts = np.random.default_rng(seed).multinomial(n, list(law.values()))
    return {text: int(c) for text, c in zip(law, counts, strict=True) if c}


ONCE = honest(0)
COPIED: Mapping[str, Sequence[Counts]] = {
    "one text": [{**ONCE, "word 3": 60}],
    "every draw three times": [{text: 3 * count for text, count in ONCE.items()}],
    "two chunks alike": [ONCE, honest(1), ONCE],
}


@pytest.mark.parametrize("name", COPIED)
def test_copies_are_refused_by_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"draws of question 'q7' in arm 'target' are not indep"):
        require_independent_draws(arm_of(tmp_path / "r", COPIED[name]))


def test_nothing_is_bounded_before(tmp_path: Path) -> None:
    arm = arm_of(tmp_path / "r", COPIED["two chunks alike"])
    scorer = make_scorer("contains")
    run = Run.open(arm.folder.parents[1])
    score_run(run, [scorer])
    with pytest.raises(InputError, match="Draw again"):
        bound_run(run, [scorer])
    assert not (tmp_path / "r" / "estimates.parquet").exists()


def test_independent_draws_pass_in_any_chunks(tmp_path: Path) -> None:
    chunks = [honest(seed) for seed in range(6)]
    require_independent_draws(arm_of(tmp_path / "r", chunks))
    forced = {**chunks[0], "word 1": 0}
    require_independent_draws(arm_of(tmp_path / "f", [forced, *chunks[1:]]))


@pytest.mark.parametrize("shift", [0, 1e-7])  # as between batch shapes
def test_equal_texts_of_a_chunk_are_counted_together(shift: float, tmp_path: Path) -> None:
    """Two rows of 14 draws of one text are 28 draws of it."""
    arm = arm_of(tmp_path / "r", [{**ONCE, "word 3": 14}])
    part = arm.parts[0]
    twice = Completion(
        answer="word 3",
        token_ids=token_ids("word 3"),
        count=14,
        logprob=math.log(LAW["word 3"]) + shift,
    )
    table = arm.completions(part).to_pylist()
    fields = Completion.__dataclass_fields__
    rows = [Completion(**{k: v for k, v in r.items() if k in fields}) for r in table]
    sample = Sample(query=arm.run_queries.queries[0], decoding=DECODING, completions=(*rows, twice))
    require_independent_draws(arm)
    arm.write_part(part, drawn_part(part, [sample]))
    with pytest.raises(InputError, match=r"one text .* occurs 28 times"):
        require_independent_draws(arm)


@pytest.mark.parametrize(
    "how", [{"known": False}, {"decoding": Decoding(temperature=0.0)}, {"remainder": 0.0}], ids=str
)
def test_where_nothing_can_be_checked_it_passes(how: dict[str, Any], tmp_path: Path) -> None:
    """An engine without probabilities, a greedy arm, a remainder that may be zero."""
    require_independent_draws(arm_of(tmp_path / "r", [{"word 3": 60}], **how))


def test_draws_of_a_remainder_follow_the_distribution_given_it(tmp_path: Path) -> None:
    """Two words remain: each is every second draw, although its probability is 0.02."""
    left = {"word 3": 0.5, "word 4": 0.5}
    half = [honest(1, law=left)]
    require_independent_draws(arm_of(tmp_path / "r", half, remainder=0.04))
    with pytest.raises(InputError, match="'q7'"):
        require_independent_draws(arm_of(tmp_path / "s", half))
    copied = arm_of(tmp_path / "c", [{"word 3": 190, "word 4": 10}], remainder=0.04)
    with pytest.raises(InputError, match=r"one text .* occurs"):
        require_independent_draws(copied)


TWO = benchmark_of(["p0", "p1"], keywords=("secret",))


def two(out: Path, name: str = "m", task: Benchmark = TWO, **how: Any) -> Run:
    law = {"the secret": 0.3, "no": 0.7}
    return sample(CannedEngine({"p0": law, "p1": law}, name=name), task, out=out, n=8, **how)


def key(out: Path, *given: Any, **how: Any) -> int:
    return draws_key(two(out, *given, **how).arms["target"])


def test_an_experiment_has_one_order_and_no_two_share_one(tmp_path: Path) -> None:
    made = key(tmp_path / "a")
    assert key(tmp_path / "again") == made
    other = replace(TWO, prompts=TWO.prompts[:1])
    others = {
        key(tmp_path / "model", name="another"),
        key(tmp_path / "seed", seed=1),
        key(tmp_path / "decoding", decodings=Decoding(temperature=0.5, max_new_tokens=8)),
        key(tmp_path / "benchmark", task=other),
    }
    assert len(others | {made}) == 5


def test_arms_scorers_and_questions_have_separate_orders(tmp_path: Path) -> None:
    control = CannedEngine({"p0": {"no": 1.0}, "p1": {"no": 1.0}}, name="control")
    run = two(tmp_path / "r", control=control)
    keys = [
        k
        for arm in ("target", "control")
        for scorer in ("keyword", "contains")
        for k in order_of(run.arms[arm], make_scorer(scorer))(["p0", "p1"]).tolist()
    ]
    assert len(set(keys)) == 8


SCORES = (0.0, 0.5, 1.0)
N = 64


def tallied(folder: Path, name: str, counts: tuple[int, int, int], **stated: Any) -> Path:
    """Return a file of one question's draws, with only scores and counts."""
    file = folder / f"{name}.jsonl"
    rows = [
        {"id": "q", "scores": {"rouge-l-recall": score}, "count": count, **stated}
        for score, count in zip(SCORES, counts, strict=True)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def bounded(run: Run) -> dict[Any, float]:
    """Return the upper bounds that depend on the order of the draws."""
    bound_run(run, scorers_for(run.record.scorers, ()))
    rows = [row for row in run.estimates if row.arm == "target"]
    return {row.about: row.upper for row in rows if "bet" in row.method}


def test_the_order_of_imported_counts_does_not_depend_on_them(tmp_path: Path) -> None:
    """A digest of the file depends on the scores, so it must not choose the order.

    Nor may a user pick the least of ten imports; another n is another experiment.
    """
    file = tallied(tmp_path, "f", (N - 14, 6, 8))
    other = tallied(tmp_path, "g", (N - 8, 4, 4))
    fewer = tallied(tmp_path, "h", (N - 15, 6, 8))
    runs = [
        import_run([f], out=tmp_path / f"{i}") for i, f in enumerate((file, file, other, fewer))
    ]
    once, again, alike, unlike = (draws_key(run.arms["target"]) for run in runs)
    assert once == again == alike != unlike
    assert bounded(runs[0]) == bounded(runs[1]) != {}
    assert draws_key(Run.open(tmp_path / "0").arms["target"]) == once


def test_the_order_that_a_file_states_is_taken(tmp_path: Path) -> None:
    file = tallied(tmp_path, "f", (N - 14, 6, 8), order=11)
    assert draws_key(import_run([file], out=tmp_path / "a").arms["target"]) == 11
    other = tallied(tmp_path, "g", (N - 16, 8, 8))  # it states none: the two files share a new one
    for number, files in enumerate(([file, other], [other, file])):
        joined = import_run(files, out=tmp_path / str(number))
        assert draws_key(joined.arms["target"]) != 11


@dataclass(frozen=True)
class Says:
    """Scores whether an output has a word: a scorer that is in no package."""

    word: Any = "Vale"
    name: str = "says"
    binary: ClassVar[bool] = True

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        return [float(self.word in text) for text in texts]


def test_scorers_may_be_python_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spec, "_PASSED", {})
    task = benchmark_of(FEW, answer=WORDS, name="goals", scorers=("contains",))
    run = evaluate(engine(), task, out=tmp_path / "r", n=16, scorers=Says())
    assert run.estimates.scorers == run.study.scorers == ("says",)
    mixed = (Says(), "contains", "says>=0.5")
    run = evaluate(engine(), task, out=tmp_path / "r", n=16, scorers=mixed)
    assert run.estimates.scorers == ("says", "contains", "says>=0.5")
    worst = run.estimates.worst("leak probability", scorer="says")
    assert worst.upper == run.estimates.worst("leak probability", scorer="contains").upper
    crew = ScoringCrew(None, OpenModels())  # type: ignore[arg-type]
    assert pickle.loads(pickle.dumps(opener_at(crew, Says()))).open() == Says()
    monkeypatch.setattr(spec, "_PASSED", {})
    later = Run.open(run.path)
    for look in (bound, summary):
        with pytest.raises(InputError, match=r"'says' of the class Says .*--scorer NAME`"):
            look(later)
    with pytest.raises(InputError, match=r"unknown scorer 'says'.* pass its object to"):
        evaluate(engine(), task, out=tmp_path / "again", scorers="says")
    bound(later, "contains")
    assert summary(later)
    bound(later, (Says(), "contains"))
    assert later.estimates.worst("leak probability", scorer="says") == worst


@pytest.mark.parametrize(
    ("scorer", "named"),
    [
        (object(), "with `name`, `binary` and `score`, got <object"),
        (5, "and `score`, got 5. docs"),
        (Says, "and `score`, got <class"),
        (Says(name="keyword"), "has the same name as another scorer, 'keyword'. Rename it"),
        (Says(name="contains>=0.5"), "same name as another scorer, 'contains>=0.5'. Rename it"),
        (Says(name=" "), "is blank, got ' '. Set its"),
        (Says(name=5), "must be a text, got 5. Set"),
        (Says(word={1}), "the settings of scorer 'says' must be texts, numbers"),
    ],
)
def test_invalid_scorer_objects_are_refused(scorer: Any, named: str) -> None:
    with pytest.raises(InputError, match=named):
        specs_of(("contains", scorer))


def test_two_scorer_objects_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spec, "_PASSED", {})
    with pytest.raises(InputError, match=r"word='a'.* has the same name as another scorer, 'says'"):
        specs_of((Says(word="a"), Says(word="b")))
    assert specs_of((Says(word="a"), Says(word="a"))) == ("says", "says")

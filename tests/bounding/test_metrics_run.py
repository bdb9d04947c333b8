"""Metrics in a run: one pass per model, stored, and measured again without a model."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canned import CannedEngine, benchmark_of
from cli.commands import MEASURE, done, leakbound, refused
from contents import completions
from leakbound.benchmarks import Benchmark
from leakbound.drawing import readings as metrics_reading
from leakbound.errors import IncompleteError, InputError, MixError
from leakbound.evaluation import evaluate, measure, summary
from leakbound.evaluation.measuring import measure_run
from leakbound.metrics import METRICS
from leakbound.planning.metrics import WantedText, choose, longest_first
from leakbound.store import Place, Readings, Run, write_sealed
from leakbound.types import Decoding, Prompt, Query, Reading
from openunlearning import clean
from tiny import sequence_classifier, tiny_model_folder

PARTS = ("forget", "retain", "holdout", "real_authors", "world_facts")


def prompts(part: str, count: int = 3, wrong: str = "not") -> tuple[Prompt, ...]:
    return tuple(
        Prompt(
            id=f"{part}{i}",
            question=f"who wrote {part} {i}?",
            answer=f"{part} author {i} wrote it",
            split=part,
            role=part if part in ("forget", "retain", "holdout") else "retain",
            paraphrased_answer=f"it was written by {part} author {i}",
            perturbed_answers=(f"it was {wrong} {i}", f"it was nobody {i}"),
        )
        for i in range(count)
    )


def benchmark(**changes: Any) -> Benchmark:
    whole: dict[str, Any] = {
        "name": "mine",
        "prompts": prompts("forget"),
        "others": {role: lambda role=role: prompts(role) for role in ("retain", "holdout")},
        "utility": {part: lambda part=part: prompts(part) for part in PARTS[3:]},
        "scorers": ("rouge-l-recall",),
        "max_new_tokens": 8,
        "origin": "",
    }
    return Benchmark(**{**whole, **changes})


def read(query: Query, text: str, skill: float) -> Reading:
    """Return a reading that differs for every text and model."""
    words = text.split()
    rng = np.random.default_rng([len(query.text), *map(ord, text)])
    logprobs = np.log(rng.uniform(0.05, 1.0, len(words) + 1)) / skill
    flat = np.full(len(logprobs), -1.5)
    return Reading(
        token_ids=tuple(range(len(logprobs))),
        text=text,
        logprobs=logprobs,
        top=logprobs > -0.5,
        mean=flat,
        std=-flat,
        confidence=np.exp(logprobs),
    )


class Engine(CannedEngine):
    """A canned engine that reads, records its requests, and can fail after some calls."""

    def __init__(self, *, skill: float = 1.0, dies_at: int | None = None, **settings: Any) -> None:
        texts = {
            p.id: {str(p.answer): 0.5, f"nobody wrote {p.id}": 0.3, "no": 0.2}
            for part in PARTS
            for p in prompts(part)
        }
        super().__init__(texts, **settings)
        self.skill, self.dies_at = skill, dies_at
        self.read_texts: list[tuple[str, str]] = []
        self.differentiated: list[tuple[str, str]] = []

    def read(self, texts: Sequence[tuple[Query, str]]) -> list[Reading]:
        if self.dies_at is not None and len(self.read_texts) >= self.dies_at:
            raise RuntimeError("the machine was switched off")
        self.read_texts += [(query.id, text) for query, text in texts]
        return [read(query, text, self.skill) for query, text in texts]

    def gradient_norms(self, texts: Sequence[tuple[Query, str]]) -> list[float]:
        self.differentiated += [(query.id, text) for query, text in texts]
        return [len(text) + self.skill for _, text in texts]


def target(**settings: Any) -> Engine:
    return Engine(**{"name": "target", "skill": 4.0, **settings})


def control(**settings: Any) -> Engine:
    return Engine(**{"name": "control", "skill": 1.0, **settings})


def run_of(out: Path, engine: Any = None, task: Benchmark | None = None, **settings: Any) -> Run:
    how: dict[str, Any] = {"n": 16, "metrics": ["all"], **settings}
    return evaluate(engine or target(), task or benchmark(), out=out, **how)


def utility(run: Run) -> dict[str, Any]:
    got: dict[str, Any] = json.loads((run.path / "utility.json").read_text())
    return got


def metric(run: Run, name: str, model: str = "target") -> dict[str, Any]:
    got: dict[str, Any] = utility(run)["arms"][model]["metrics"][name]
    return got


def value(run: Run, name: str, model: str = "target") -> Any:
    return metric(run, name, model)["value"]


def note(run: Run) -> str:
    """Return the note below the table of metrics."""
    (table,) = (table for table in summary(run) if table.title == "Metrics")
    return table.note


def probability(part: str, skill: float) -> float:
    each = [read(Query.original(p), str(p.answer), skill).logprobs.mean() for p in prompts(part)]
    return float(np.exp(each).mean())


def test_all_metrics_take_one_pass(tmp_path: Path) -> None:
    engine, other = target(), control()
    run = run_of(tmp_path / "r", engine, control=other)
    for one in (engine, other):
        wanted = [
            (prompt.id, text)
            for part in PARTS
            for prompt in prompts(part)
            for text in (
                prompt.answer,
                *((prompt.paraphrased_answer,) if part in ("forget", "retain") else ()),
                *(prompt.perturbed_answers if part != "holdout" else ()),
            )
        ]
        assert Counter(one.read_texts) == Counter(wanted)
        gradients = [(p.id, p.answer) for part in ("forget", "holdout") for p in prompts(part)]
        assert Counter(one.differentiated) == Counter(gradients)
        requested = Counter(one.queried)
        # requested only by the arms: greedy and sampled
        assert {id: requested[id] for id in requested if id.startswith("forget")} == {
            f"forget{i}": 2 for i in range(3)
        }
        rest = {p.id for part in PARTS if part not in ("forget", "holdout") for p in prompts(part)}
        assert {id for id in requested if requested[id] == 1} == rest
    for part in ("forget", "retain", "real_authors"):
        assert value(run, f"{part}_probability") == pytest.approx(probability(part, 4.0))
        assert value(run, f"{part}_probability", "control") == pytest.approx(probability(part, 1.0))
        assert value(run, f"{part}_rouge_l_recall") == 1.0  # the likeliest canned text
    assert 0 < value(run, "model_utility") < 1
    assert value(run, "forget_distinct_share") == pytest.approx(3 / 16)
    assert value(run, "membership_gradient_norm") == 1.0  # "holdout" is longer than "forget"
    left_out = utility(run)["left_out"]
    assert set(left_out) == {
        f"{part}_{name}"
        for part in ("retain", "real_authors", "world_facts")
        for name in ("self_bleu", "distinct_share")
    } | {"choice_accuracy", "choice_probability", "forget_fluency"}
    assert set(utility(run)["arms"]["target"]["metrics"]) == set(METRICS) - set(left_out)


def test_a_metric_causes_only_necessary_work(tmp_path: Path) -> None:
    engine = target()
    run = run_of(tmp_path / "r", engine, metrics=["forget_truth_ratio", "exact_memorisation"])
    assert {id for id, _ in engine.read_texts} == {"forget0", "forget1", "forget2"}
    assert engine.differentiated == []
    assert set(engine.queried) == {"forget0", "forget1", "forget2"}
    needs = utility(run)["needs"]["forget"]
    assert needs.pop("kinds") == ["answer", "paraphrased", "perturbed"]
    assert (needs.pop("part"), [name for name, of in needs.items() if of]) == ("forget", [])
    assert list(utility(run)["fingerprint"]["parts"]) == ["forget"]


def test_without_metrics_nothing_is_read_and_other_entries_stay(tmp_path: Path) -> None:
    engine = target()
    run = run_of(tmp_path / "r", engine, metrics=())
    assert engine.read_texts == []
    assert not (run.path / "utility.json").exists()
    assert not (run.path / "arms/greedy/forced.parquet").exists()
    with pytest.raises(InputError, match="`--metrics` is missing"):
        measure(run)
    write_sealed(run.path / "utility.json", {"retain": {"questions": 3}})
    for name in ("forget_probability", "forget_entropy"):
        run_of(run.path, metrics=[name])
        assert utility(run)["retain"] == {"questions": 3}
        assert list(utility(run)["arms"]["target"]["metrics"]) == [name]


def test_another_metric_is_measured_from_stored_readings(tmp_path: Path) -> None:
    run = run_of(tmp_path / "r", metrics=["forget_truth_ratio"])
    again = Run.open(run.path)
    got = measure_run(again, benchmark(), ["forget_truth_ratio"])
    assert got["target"]["forget_truth_ratio"].value == value(run, "forget_truth_ratio")
    for name, lacks in (
        ("exact_memorisation", "3 texts .* the answer text of 'forget0'"),
        ("retain_rouge_l_recall", "3 texts .* the greedy text of 'retain0'"),
        ("membership_gradient_norm", "12 texts"),
    ):
        with pytest.raises(InputError, match=f"no results for {lacks}"):
            measure_run(again, benchmark(), [name])
    run = run_of(run.path, metrics=["exact_memorisation", "membership_gradient_norm"])
    assert set(measure_run(run, benchmark(), ["forget_entropy"])["target"]) == {"forget_entropy"}
    with pytest.raises(MixError, match="the questions of 'mine' have changed since"):
        measure_run(run, benchmark(prompts=prompts("forget", 2)), ["forget_entropy"])


def test_the_same_command_reads_nothing_again_and_another_the_rest(
    tmp_path: Path,
) -> None:
    first = run_of(tmp_path / "r", metrics=["membership_min_k"])
    before = utility(first)
    engine = target()
    run_of(first.path, engine, metrics=["membership_min_k"])
    assert engine.read_texts == []
    assert utility(first) == before
    run_of(first.path, engine, metrics=["membership_gradient_norm", "forget_truth_ratio"])
    assert len(engine.read_texts) == 9  # the paraphrased and the perturbed of three
    assert len(engine.differentiated) == 6
    assert value(first, "membership_gradient_norm") == 1.0
    run_of(first.path, metrics=["retain_rouge_l_recall"])
    again = target()
    run_of(first.path, again, metrics=["retain_rouge_l_f1"])
    assert again.queried == []


def test_a_stopped_run_reads_only_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_reading, "_TEXTS", 4)
    monkeypatch.setattr(metrics_reading, "_SAVE_SECONDS", -1.0)
    stored: list[int] = []

    class Watching(Engine):
        def read(self, texts: Sequence[tuple[Query, str]]) -> list[Reading]:
            run = Run.open(tmp_path / "whole")
            stored.append(len(Readings(run.arms["greedy"]).texts))
            return super().read(texts)

    names = ["forget_truth_ratio"]
    whole = run_of(tmp_path / "whole", Watching(name="target", skill=4.0), metrics=names)
    assert stored == [0, 4, 8]
    with pytest.raises(RuntimeError, match="switched off"):
        run_of(tmp_path / "r", target(dies_at=4), metrics=names)
    engine = target()
    run = run_of(tmp_path / "r", engine, metrics=names)
    assert len(engine.read_texts) == 9 - 4
    assert utility(run) == utility(whole)


@pytest.mark.slow
def test_a_finished_control_gives_its_readings_or_is_refused(
    tmp_path: Path,
) -> None:
    names = ["forget_quality", "retain_rouge_l_recall"]
    done = run_of(tmp_path / "c", control(), metrics=["exact_memorisation"])
    engine = target()
    with pytest.raises(InputError, match=r"`.*c` has no results for 12 .* the paraphrased text of"):
        run_of(tmp_path / "r", engine, metrics=names, control=done.path)
    assert engine.read_texts == []
    assert not (tmp_path / "r" / "run.json").exists()
    run_of(done.path, control(), metrics=["forget_truth_ratio", "retain_rouge_l_recall"])
    other = run_of(tmp_path / "r", target(), metrics=names, control=done.path)
    drawn = run_of(tmp_path / "d", target(), metrics=names, control=control())
    assert utility(other)["arms"] == utility(drawn)["arms"]
    assert measure_run(Run.open(other.path), benchmark(), names)  # complete in itself


def lacking(part: str, **fields: Any) -> dict[str, Any]:
    """Remove something from the second prompt of a part of the benchmark."""
    some = tuple(replace(p, **fields) if "1" in p.id else p for p in prompts(part))
    return {"prompts": some} if part == "forget" else {"others": {part: lambda: some}}


def torn() -> tuple[Prompt, ...]:
    raise InputError("there is no file 'world_facts.json'")


GREEDY = {"decodings": Decoding(temperature=0.0, max_new_tokens=8)}
NOTHING: dict[str, Any] = {}
NO_UTILITY, TORN = {"utility": {}}, {"utility": {"world_facts": torn}}
OF_EVERY = "of every prompt of "


@pytest.mark.parametrize(
    ("names", "message", "changes", "settings"),
    [
        ("all model_utility", "needs a part 'real_authors', which 'mine'", NO_UTILITY, NOTHING),
        ("forget_quality", "'forget_quality' needs a control", NOTHING, NOTHING),
        ("forget_truth_ratio", f"perturbed answers {OF_EVERY}'forget' ('forget1' lacks one)",
         lacking("forget", perturbed_answers=()), NOTHING),
        ("retain_self_bleu", "a fixed number of draws of 'retain'", NOTHING, NOTHING),
        ("forget_self_bleu", "a fixed number of draws of 'forget'", NOTHING, GREEDY),
        ("world_facts_probability", "a part 'world_facts' (there is no file", TORN, NOTHING),
        ("forget_probability:w", "'forget_probability' uses no classifier", NOTHING, NOTHING),
    ],
)  # fmt: skip
def test_impossible_metrics_are_refused_by_name_first(
    names: str, message: str, changes: dict[str, Any], settings: dict[str, Any], tmp_path: Path
) -> None:
    engine, metrics = target(), names.split()
    with pytest.raises(InputError, match=re.escape(message)):
        run_of(tmp_path / "r", engine, benchmark(**changes), metrics=metrics, **settings)
    assert not (tmp_path / "r").exists()
    assert engine.read_texts == []


def test_all_leaves_out_impossible_metrics_and_gives_reasons(tmp_path: Path) -> None:
    task = benchmark(utility={}, others={})
    wanted = choose(["all"], task, control=False)
    assert wanted.left_out["forget_quality"] == "a control"
    assert wanted.left_out["r_avg"] == "a part 'retain'"
    assert {"forget_truth_ratio", "forget_self_bleu"} <= set(wanted.metrics)
    assert set(wanted.needs) == {"forget"}
    lone = choose(["all"], task, control=False, draws=1)
    assert lone.left_out["forget_self_bleu"] == "at least 2 draws of each question"
    run = run_of(tmp_path / "r", task=task, n=1)
    for reason in (
        "part of the benchmark “mine”: forget 3",
        "not computed without a control: forget_quality\n",
        "at least 2 draws of each question: ",
        "without a classifier, which `--metrics all,forget_fluency` loads",
    ):
        assert reason in f"{note(run)}\n"
    assert "not computed without a fixed number of draws" not in note(run)


def test_an_engine_that_does_not_read_is_refused(tmp_path: Path) -> None:
    texts = {p.id: {"no": 1.0} for p in prompts("forget")}
    with pytest.raises(InputError, match="CannedEngine cannot compute probabilities of given"):
        run_of(tmp_path / "r", CannedEngine(texts), metrics=["forget_probability"])
    assert not (tmp_path / "r" / "run.json").exists()

    class Reads(CannedEngine):
        read = Engine.read

    with pytest.raises(InputError, match="cannot compute gradients"):
        run_of(tmp_path / "r", Reads(texts), metrics=["membership_gradient_norm"])
    run = run_of(tmp_path / "r", CannedEngine(texts), metrics=["forget_rouge_l_recall"])
    assert value(run, "forget_rouge_l_recall") == 0.0


def test_metrics_without_sampled_questions_are_left_out(tmp_path: Path) -> None:
    with pytest.raises(IncompleteError):
        run_of(tmp_path / "r", target(broken=["forget1"]), metrics=["forget_probability"])
    run = Run.open(tmp_path / "r")
    assert measure_run(run, benchmark(), ["forget_probability"]) == {}
    assert any("no metrics are computed" in note for note in run.notes)
    with pytest.raises(IncompleteError, match="'retain2' has no answer: logits"):
        run_of(tmp_path / "s", target(broken=["retain2"]), metrics=["retain_rouge_l_recall"])


def test_a_limit_applies_to_every_part(tmp_path: Path) -> None:
    task = benchmark(prompts=prompts("forget")[:1], left_out=prompts("forget")[1:])
    engine = target()
    run = run_of(tmp_path / "r", engine, task, control=control())
    assert {id for id, _ in engine.read_texts} == {f"{part}0" for part in PARTS}
    parts = utility(run)["fingerprint"]["parts"]
    assert {part: facts["prompts"] for part, facts in parts.items()} == dict.fromkeys(PARTS, 1)


def test_a_set_that_is_evaluated_itself_has_its_metrics(tmp_path: Path) -> None:
    facts = prompts("world_facts")
    task = benchmark(prompts=facts, others={}, utility={"world_facts": lambda: facts})
    assert task.part == "world_facts"
    engine = target()
    run = run_of(tmp_path / "r", engine, task)
    assert value(run, "world_facts_rouge_l_recall") == 1.0
    assert Counter(engine.queried)["world_facts0"] == 2  # greedy and sampled
    assert "world_facts_self_bleu" in utility(run)["arms"]["target"]["metrics"]


def test_prompts_are_read_the_longest_first_and_whole() -> None:
    texts = {"a": ("one", "two"), "b": ("much longer", "than those"), "c": ("three", "four five")}
    wanted = [
        WantedText(Place.of("forget", query, "perturbed", i, text), query, text)
        for i in (0, 1)
        for id, pair in texts.items()
        for query, text in [(Query(id=id, prompt_id=id, text="who"), pair[i])]
    ]
    by_prompt = sorted(wanted, key=lambda one: one.query.id)
    assert [one.query.id for one in longest_first(by_prompt)] == ["b", "b", "c", "c", "a", "a"]


def test_letters_are_read_where_the_options_are_listed(tmp_path: Path) -> None:
    wanted = tuple(replace(p, choices=("no", str(p.answer), "you")) for p in prompts("forget"))
    engine, names = target(), ["choice_accuracy", "choice_probability"]
    run_of(tmp_path / "run", engine, benchmark(prompts=wanted), metrics=names)
    read_letters = [(p.id, letter) for p in wanted for letter in (" A", " B", " C")]
    assert sorted(engine.read_texts) == sorted(read_letters)


# Measure on the command line, with fluency by a classifier on disk, against a plain oracle.


@pytest.mark.thorough
def test_metrics_are_measured_again_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, out = "fictitious:authors=3,questions=2,forget=1", tmp_path / "run"
    model, control = (tiny_model_folder(tmp_path / f"{seed}", seed=seed) for seed in (0, 1))
    wanted = ("evaluate", model, "--benchmark", task, "--control", control, "--out", out, "-n", 4)
    wanted = (*wanted, "--max-new-tokens", 4, "--device", "cpu", "--metrics", "all")
    assert "not included: the probabilities and answers" in done(*wanted, "--dry-run").out
    shown = done(*wanted).out
    assert f"part of the benchmark “{task}”: forget 2, retain 4, holdout 2" in shown
    assert "forget_truth_ratio" in shown
    assert "not computed without a part 'real_authors'" in shown
    before = json.loads((out / "utility.json").read_text())
    assert set(before["arms"]) == {"target", "control"}

    # from here on, no model is opened
    monkeypatch.setattr("leakbound.study.settings.open_engine", None)
    again = done("evaluate", out, *MEASURE, "--metrics", "forget_quality, privleak", "--json")
    assert again.json["arms"]["target"]["metrics"] == {
        n: before["arms"]["target"]["metrics"][n] for n in ("forget_quality", "privleak")
    }
    shown = done("evaluate", out, *MEASURE).out  # the metrics of the command that made the run
    assert json.loads((out / "utility.json").read_text()) == before
    assert "membership_gradient_norm" in shown


QUERIED = ("who wrote red", "who wrote blue sky", "red sea sky")
FLUENT = benchmark_of(
    QUERIED, question="{}", answer="Ann Bob", scorers=("rouge-l-recall",), max_new_tokens=40
)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model that never stops, and a classifier that reads more than its window."""
    folder = tmp_path_factory.mktemp("models")
    classifier = sequence_classifier(
        folder / "gibberish", ("Clean", "noise", "word salad"), max_position_embeddings=64
    )
    return tiny_model_folder(folder / "model", 1, initializer_range=0.3), classifier


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tokens"), [("mine", 32), ("muse:news-verbmem", 512)])
def test_fluency_is_the_classifiers_score_of_the_first_tokens(
    name: str, tokens: int, models: tuple[Path, Path], tmp_path: Path
) -> None:
    model, classifier = models
    task = replace(FLUENT, name=name)
    named = ["all", f"forget_fluency:{classifier}"]
    out = tmp_path / "run"
    other = tiny_model_folder(tmp_path / "other", 3)
    got = evaluate(str(model), task, out=out, n=4, control=str(other), metrics=named)
    answers = {
        name: {row["query_id"]: row["answer"].strip() for row in completions(got.arms[arm])}
        for name, arm in (("target", "greedy"), ("control", "control-greedy"))
    }
    assert max(len(text.split()) for text in answers["target"].values()) > 32
    for name, shown in answers.items():
        wanted = clean([*shown.values()], str(classifier), min(tokens, 64))
        assert np.ptp(wanted) > 0.01 or name == "control"
        measured = metric(got, "forget_fluency", name)
        assert [measured["by_item"][query] for query in shown] == pytest.approx(wanted, abs=1e-6)
        assert measured["value"] == pytest.approx(np.mean(wanted), abs=1e-6)
    assert f"fluency by {classifier}, from the first {tokens} tokens" in note(got)
    assert "forget_fluency" not in utility(got)["left_out"]
    kept = utility(got)
    measure_run(Run.open(out), task, named)
    assert utility(got) == kept


def test_the_command_measures_and_exports_it(models: tuple[Path, Path], tmp_path: Path) -> None:
    model, classifier = models
    rows = "".join(f"{text},Ann Bob\n" for text in QUERIED)
    (tmp_path / "mine.csv").write_text("question,answer\n" + rows)
    out, log = tmp_path / "run", tmp_path / "MINE_EVAL.json"
    wanted = ("--benchmark", tmp_path / "mine.csv", "-n", 4, "--max-new-tokens", 4, "--out", out)
    begun = ("evaluate", model, *wanted, "--metrics")
    unfit = sequence_classifier(tmp_path / "unfit", ("good", "bad"))
    refused(leakbound(*begun, f"forget_fluency:{unfit}"), "must be 'clean', got good, bad")
    assert leakbound(*begun, f"forget_fluency:{tmp_path / 'none'}").status == 2
    assert not out.exists()
    done(*begun, "forget_probability")
    done("evaluate", out, *MEASURE, "--metrics", f"forget_fluency:{classifier}")
    done("export", out, log, "--openunlearning")
    measured = metric(Run.open(out), "forget_fluency")
    entry = json.loads(log.read_text())["forget_Q_A_gibberish"]
    assert entry["agg_value"] == measured["value"]
    assert [row["score"] for row in entry["value_by_index"].values()] == [
        *measured["by_item"].values()
    ]

"""`--profile` from the shell, and benchmarks that bring settings of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import done, leakbound, refused

from leakbound.store import Run
from leakbound.study import FixedN

SMALL = ("-n", 8, "--device", "cpu")


@pytest.fixture(scope="module")
def scholten(model: Path, questions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("profile") / "run"
    done("evaluate", model, "--benchmark", questions, "--out", out, "--profile", "scholten",
         "--max-tokens", 12, *SMALL)  # fmt: skip
    return out


def test_a_profile_fills_in_what_was_not_said(scholten: Path) -> None:
    run = Run.open(scholten)
    decoding = run.arms["target"].decoding
    assert (decoding.top_p, decoding.top_k, decoding.max_new_tokens) == (1.0, 0, 128)
    assert decoding.max_tokens == 12
    study = run.study
    assert (study.profile, study.sampling) == ("scholten", FixedN(8))
    assert study.scorers == ("rouge-l-f1",)
    note = "profile scholten, but (its own in brackets): n 8 (1024), max_tokens 12 (128)"
    assert note in run.record.notes
    assert {prompt.answer for prompt in run.prompts} == {"Answer: Ann", "Answer: Bob"}
    prompting = run.arms["target"].spec.fingerprint["prompting"]
    assert prompting["template"] == "Question: {question}\n"
    assert (prompting["chat"], prompting["family"]) == (False, "base")


def test_faults_are_repeated_by_name(model: Path, questions: Path, tmp_path: Path) -> None:
    for profile in ("openunlearning", "scholten"):
        out = tmp_path / profile
        done("sample", model, "--benchmark", questions, "--out", out, "--profile", profile,
             "--max-tokens", 12, *SMALL)  # fmt: skip
        prompting = Run.open(out).arms["target"].spec.fingerprint["prompting"]
        assert prompting["compat"] == ("openunlearning" if profile == "openunlearning" else None)


def test_it_is_recorded_and_shown(scholten: Path, model: Path) -> None:
    recorded = json.loads((scholten / "run.json").read_text())
    assert recorded["benchmark"]["profile"] == "scholten"
    shown = done("report", scholten)
    assert "note: profile scholten: its entropy is averaged over all positions" in shown.err
    again = done("evaluate", model, "--like", scholten, "--out", scholten, "--device", "cpu")
    assert "note: profile scholten" in again.err
    same = done("sample", model, "--like", scholten, "--profile", "scholten", "--out", scholten,
                "--device", "cpu", "--json")  # fmt: skip
    assert same.json["target"]["draws"] == 16


def test_a_profile_that_cannot_be_had_is_refused(
    scholten: Path, model: Path, questions: Path, tmp_path: Path
) -> None:
    out = ("--out", tmp_path / "r")
    asked = ("sample", model, "--benchmark", questions, *out)
    refused(leakbound(*asked, "--profile", "scholen"), "unknown profile 'scholen'", "'scholten'")
    refused(leakbound(*asked, "--profile", "leak-k"), "gold paraphrases", "has none")
    refused(
        leakbound("sample", model, "--like", scholten, "--profile", "tofu-legacy", *out),
        "has profile 'scholten'", "--profile tofu-legacy", "Leave one of them out",
    )  # fmt: skip
    refused(
        leakbound(*asked, "--profile", "scholten", "--max-tokens", 4),
        "prompt tokens, which leaves none of the 4",
    )


def test_jailbreakbench_asks_chat_models_only(model: Path, tmp_path: Path) -> None:
    (tmp_path / "jbb_goals_official.csv").write_text("goal\nwho wrote red\n")
    asked = ("sample", model, "--benchmark", "jbb", "--data", tmp_path, *SMALL)
    refused(
        leakbound(*asked, "--out", tmp_path / "r"),
        "no chat template",
        "--prompt-template",
        "no chat template",
        "instruct",
        "--prompt-template",
    )
    assert not (tmp_path / "r" / "run.json").exists()
    done(*asked, "--out", tmp_path / "r", "--prompt-template", "{question}", "--max-new-tokens", 2)


def test_a_benchmark_brings_its_stop_strings_and_examples(model: Path, tmp_path: Path) -> None:
    for name, question in {"forget_qa": "who wrote red", "forget_qa_icl": "who wrote sea"}.items():
        file = tmp_path / "news" / f"{name}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps([{"question": f"{question}?", "answer": "Ann"}]))
    out = tmp_path / "r"
    done("sample", model, "--benchmark", "muse:news", "--data", tmp_path, "--out", out,
         "--inputs", "rules", "--queries", 3, *SMALL)  # fmt: skip
    run = Run.open(out)
    assert run.arms["target"].decoding.stop == ("\n\n", "\nQuestion", "Question:")
    assert run.arms["greedy"].decoding.max_new_tokens == 32
    assert len(run.queries) > 1
    assert {query.examples for query in run.queries} == {(("who wrote sea?", "Ann"),)}

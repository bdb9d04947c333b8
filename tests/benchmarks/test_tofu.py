from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

from leakbound.benchmarks import load_benchmark
from leakbound.errors import InputError
from leakbound.scorers import make_scorer, score_texts

DATA = Path(os.environ.get("LEAKBOUND_TEST_DATA", Path(__file__).parents[2] / "../shared/data"))
real_data = pytest.mark.skipif(not (DATA / "tofu").is_dir(), reason="no LEAKBOUND_TEST_DATA")


def rows(start: int, count: int) -> list[dict[str, Any]]:
    return [
        {"question": f"Who is {i}?", "answer": f"{i} is me."} for i in range(start, start + count)
    ]


def perturbed(row: dict[str, Any]) -> dict[str, Any]:
    return row | {
        "paraphrased_question": f"Please: {row['question']}",
        "paraphrased_answer": f"Well, {row['answer']}",
        "perturbed_answer": ["a", "b", "c"],
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A TOFU of six rows: two to forget, four to retain; arrays and JSON lines mixed."""
    root = tmp_path / "tofu"
    root.mkdir()
    (root / "forget10.json").write_text(json.dumps(rows(4, 2)))
    (root / "forget10_perturbed.json").write_text(json.dumps([*map(perturbed, rows(4, 2))]))
    (root / "retain90.json").write_text("\n".join(map(json.dumps, rows(0, 4))) + "\n")
    (root / "retain_perturbed.json").write_text(json.dumps([*map(perturbed, rows(0, 3))]))
    facts = [{"question": "Where?", "answer": "B", "option1": "A", "option2": "B"}]
    (root / "world_facts.json").write_text(json.dumps(facts))
    (root / "idontknow.jsonl").write_text("I'm not sure.\n\nNo idea.\n")
    return root


def test_forget_split(folder: Path) -> None:
    benchmark = load_benchmark("tofu:forget10", data=folder)
    first = benchmark.prompts[0]
    assert (first.id, first.question, first.answer) == (
        "tofu:forget10/0000", "Who is 4?", "4 is me.",
    )  # fmt: skip
    assert first.paraphrases == ("Please: Who is 4?",)
    assert first.paraphrased_answer == "Well, 4 is me."
    assert first.perturbed_answers == ("a", "b", "c")
    assert first.alternate_answers == ("I'm not sure.", "No idea.")
    assert (first.role, first.split) == ("forget", "forget10")
    assert benchmark.template == "Question: {question}\nAnswer: "
    assert benchmark.system == "You are a helpful assistant."
    assert benchmark.max_new_tokens == 200
    assert benchmark.scorers == ("rouge-l-recall",)


def test_forget_is_paired_with_retain(folder: Path) -> None:
    retain = load_benchmark("tofu:forget10", data=folder.parent).split("retain")
    assert [p.id for p in retain] == [f"tofu:retain90/{i:04d}" for i in range(4)]
    assert [len(p.paraphrases) for p in retain] == [1, 1, 1, 0]
    assert retain[3].perturbed_answers == ()
    assert retain[3].paraphrased_answer is None
    assert retain[0].alternate_answers == ()
    assert {p.role for p in retain} == {"retain"}


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("forget10", {"answer": None}, "row 2 of .*forget10.json' has no 'answer'. Fill"),
        ("forget10_perturbed", {"perturbed_answer": []}, "row 2 of .* has no 'perturbed_answer'"),
        ("forget10_perturbed", {"question": "Who?"}, "row 2 of .*_perturbed.* must ask what"),
        ("forget10", {"reply": "Me.", "answer": ...}, "row 2 of .* has no 'answer', only 'quest"),
    ],
)
def test_the_first_bad_row_is_named(
    folder: Path, name: str, wrong: dict[str, Any], message: str
) -> None:
    path = folder / f"{name}.json"
    first, second = json.loads(path.read_text())
    bad = {key: value for key, value in (second | wrong).items() if value is not ...}
    path.write_text(json.dumps([first, bad]))
    with pytest.raises(InputError, match=message):
        load_benchmark("tofu:forget10", data=folder)


def test_facts_have_choices_and_no_paraphrases(folder: Path) -> None:
    (prompt,) = load_benchmark("tofu:world_facts", data=folder).prompts
    assert (prompt.choices, prompt.perturbed_answers, prompt.role) == (("A", "B"), (), "retain")
    wrong = [{"question": "Where?", "answer": "B", "perturbed_answer": ["A"]}]
    (folder / "world_facts_perturbed.json").write_text(json.dumps(wrong))
    (prompt,) = load_benchmark("tofu:world_facts", data=folder).prompts
    assert (prompt.perturbed_answers, prompt.paraphrased_answer) == (("A",), None)


def test_what_is_not_there_is_missed_only_when_asked_for(folder: Path) -> None:
    benchmark = load_benchmark("tofu:forget10", data=folder)
    with pytest.raises(InputError, match=r"no file 'holdout10\.json'"):
        benchmark.split("holdout")
    for spec, said in (("tofu:forget50", "no split 'forget50'"), ("tofu", "There is: forget01")):
        with pytest.raises(InputError, match=said):
            load_benchmark(spec, data=folder)


def test_the_environment_names_a_parent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKBOUND_DATA", str(folder.parent))
    benchmark = load_benchmark("tofu:forget10")
    assert benchmark.origin == str(folder / "forget10.json")


def fake_hub(folder: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]) -> None:
    snapshot = folder.parent / "models" / "snapshots" / "abc123"
    snapshot.parent.mkdir(parents=True)
    folder.rename(snapshot)

    def download(repo: str, name: str, *, repo_type: str) -> str:
        assert (repo, repo_type) == ("locuslab/TOFU", "dataset")
        asked.append(name)
        if not (snapshot / name).exists():
            raise EntryNotFoundError(name)
        return str(snapshot / name)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)


def test_the_hub_is_asked_by_its_official_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    fake_hub(folder, monkeypatch, asked)
    benchmark = load_benchmark("tofu:forget10")
    assert asked == ["forget10.json", "forget10.json", "forget10_perturbed.json"]
    assert benchmark.origin == "hub:locuslab/TOFU@abc123"
    assert benchmark.prompts[0].paraphrases == ("Please: Who is 4?",)
    with pytest.raises(InputError, match=r"no file 'forget05\.json' in locuslab/TOFU on the hub"):
        load_benchmark("tofu:forget05")


@pytest.mark.parametrize("error", [LocalEntryNotFoundError("offline"), OSError("refused")])
def test_a_hub_out_of_reach(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*_: object, **__: object) -> str:
        raise error

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(InputError, match=r"'forget10\.json' of locuslab/TOFU.*LEAKBOUND_DATA"):
        load_benchmark("tofu:forget10")


@real_data
def test_the_complete_benchmark() -> None:
    """How many there are to forget follows from their digests: `test_files`."""
    for part, retain in (("01", 3960), ("05", 3800), ("10", 3600)):
        benchmark = load_benchmark(f"tofu:forget{part}", data=DATA)
        assert len(benchmark.split("retain")) == retain
        assert {len(p.perturbed_answers) for p in benchmark.prompts} == {5}
        assert {len(p.alternate_answers) for p in benchmark.prompts} == {100}


@real_data
def test_rouge_equals_the_published_logs() -> None:
    """OpenUnlearning's own log of Llama-3.2-1B-Instruct fine-tuned on TOFU, forget10."""
    log = DATA / "openunlearning_logs/tofu_Llama-3.2-1B-Instruct_full/evals_forget10/TOFU_EVAL.json"
    stored = json.loads(log.read_text())["forget_Q_A_ROUGE"]["value_by_index"]
    prompts = load_benchmark("tofu:forget10", data=DATA).prompts
    for spec, key in (("rouge-l-recall", "rougeL_recall"), ("rouge-l-f1", "rougeL_f1")):
        scorer = make_scorer(spec)
        ours = [
            score_texts(scorer, [stored[str(i)]["generation"]], prompt)[0]
            for i, prompt in enumerate(prompts)
        ]
        assert ours == [stored[str(i)][key] for i in range(400)]


def test_mini_is_forget01_with_the_rows_just_before_it(tmp_path: Path) -> None:
    (tmp_path / "forget01.json").write_text(json.dumps(rows(300, 2)))
    (tmp_path / "retain99.json").write_text(json.dumps(rows(0, 300)))
    mini = load_benchmark("tofu-mini", data=tmp_path)
    assert mini.prompts == load_benchmark("tofu:forget01", data=tmp_path).prompts
    assert [row.question for row in mini.split("retain")] == [
        f"Who is {i}?" for i in range(140, 300)
    ]
    assert mini.max_new_tokens == 64
    with pytest.raises(InputError, match="takes no split, got 'forget05'"):
        load_benchmark("tofu-mini:forget05", data=tmp_path)

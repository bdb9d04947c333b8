from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import huggingface_hub
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leakbound.benchmarks import load_benchmark
from leakbound.benchmarks.profiles import PROFILES, with_profile
from leakbound.errors import InputError

DATA = Path(os.environ.get("LEAKBOUND_TEST_DATA", Path(__file__).parents[2] / "../shared/data"))
real_data = pytest.mark.skipif(not (DATA / "muse").is_dir(), reason="no LEAKBOUND_TEST_DATA")


def pairs(name: str, count: int) -> list[dict[str, str]]:
    return [{"question": f"{name} {i}?", "answer": f"{name}, {i}."} for i in range(count)]


def write(path: Path, rows: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The questions as the data of the paper lies: no folder for the part."""
    for split in ("forget", "retain2"):
        write(tmp_path / "muse" / "bbc" / f"{split}_qa.json", pairs(split, 3))
        write(tmp_path / "muse" / "bbc" / f"{split}_qa_icl.json", pairs(f"{split} shot", 10))
    return tmp_path


def test_knowmem_asks_after_ten_pairs(folder: Path) -> None:
    benchmark = load_benchmark("muse:news", data=folder)
    assert benchmark.name == "muse:news-knowmem"
    assert [p.question for p in benchmark.prompts] == ["forget 0?", "forget 1?", "forget 2?"]
    assert benchmark.prompts[2].answer == "forget, 2."
    for prompt in benchmark.prompts:
        assert prompt.examples == tuple(
            (f"forget shot {i}?", f"forget shot, {i}.") for i in range(10)
        )
    assert benchmark.max_new_tokens == 32
    assert benchmark.stop == ("\n\n", "\nQuestion", "Question:")
    assert benchmark.scorers == ("rouge-l-f1:stem=no",)
    assert benchmark.template == "Question: {question}\nAnswer: "
    assert benchmark.chat is None


def test_retain_has_its_own_pairs_and_openunlearning_stems(folder: Path) -> None:
    benchmark = load_benchmark("muse:news-knowmem", data=folder / "muse" / "bbc")
    retain = benchmark.split("retain")
    assert [p.id for p in retain] == [f"muse:news-knowmem/retain/000{i}" for i in range(3)]
    assert retain[0].examples[9] == ("retain2 shot 9?", "retain2 shot, 9.")
    assert with_profile(benchmark, PROFILES["openunlearning"]).scorers == ("rouge-l-f1",)


def test_a_folder_of_the_other_corpus_is_not_taken(folder: Path) -> None:
    with pytest.raises(InputError, match=r"knowmem/forget_qa-0.*MUSE-Books on the hub.*books/"):
        load_benchmark("muse:books", data=folder / "muse" / "bbc")


def test_verbmem_has_a_passage_continued(tmp_path: Path) -> None:
    write(tmp_path / "news/verbmem/forget.json", [{"prompt": "It is", "gt": " late."}])
    benchmark = load_benchmark("muse:news-verbmem", data=tmp_path)
    (prompt,) = benchmark.prompts
    assert (prompt.question, prompt.answer, prompt.examples) == ("It is", " late.", ())
    assert (benchmark.template, benchmark.chat) == ("{question}", False)
    assert (benchmark.max_new_tokens, benchmark.stop) == (128, ())
    assert benchmark.scorers == ("rouge-l-f1:stem=no",)


def test_privleak_has_three_splits_of_whole_texts(tmp_path: Path) -> None:
    for role in ("forget", "retain"):
        write(tmp_path / f"hp/privleak/{role}.json", [f"The {role}\n text.", "And more."])
    write(tmp_path / "hp/privleak/holdout.json", [{"text": "The holdout text."}])
    benchmark = load_benchmark("muse:books-privleak", data=tmp_path)
    first, second = benchmark.prompts
    assert (first.question, first.answer) == ("The", " forget\n text.")
    assert second.question + str(second.answer) == "And more."
    assert [p.answer for p in benchmark.split("holdout")] == [" holdout text."]
    assert len(benchmark.split("retain")) == 2
    write(tmp_path / "hp/privleak/forget.json", ["Two words.", "one"])
    with pytest.raises(InputError, match=r"row 2 of .* two words or more, got 'one'"):
        load_benchmark("muse:books-privleak", data=tmp_path)


def test_the_hub_is_asked_for_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def download(repo: str, name: str, *, repo_type: str) -> str:
        asked.append((repo, name))
        path = tmp_path / "snapshots" / "abc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(pairs("hub", 2)), path)
        return str(path)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    benchmark = load_benchmark("muse:books")
    retain = benchmark.split("retain")
    assert {repo for repo, _ in asked} == {"muse-bench/MUSE-Books"}
    assert {name for _, name in asked} == {
        f"knowmem/{split}_qa{shots}-00000-of-00001.parquet"
        for split in ("forget", "retain")
        for shots in ("", "_icl")
    }
    assert benchmark.origin == "hub:muse-bench/MUSE-Books@abc"
    assert [p.question for p in retain] == ["hub 0?", "hub 1?"]


def test_unknown_parts(folder: Path) -> None:
    assert load_benchmark("muse:news-", data=folder).name == "muse:news-knowmem"
    for spec in ("muse", "muse:papers", "muse:news-memory"):
        with pytest.raises(InputError, match=r"MUSE has no .* news-privleak"):
            load_benchmark(spec, data=folder)


@real_data
@pytest.mark.parametrize("corpus", ["news", "books"])
def test_the_questions_of_the_paper(corpus: str) -> None:
    benchmark = load_benchmark(f"muse:{corpus}", data=DATA)
    for prompts in (benchmark.prompts, benchmark.split("retain")):
        assert len(prompts) == 100
        assert {len(p.examples) for p in prompts} == {10}

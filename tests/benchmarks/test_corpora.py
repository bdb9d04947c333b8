"""Running texts to train on, by the layout of the hub's repositories and from files."""

from __future__ import annotations

import json
from pathlib import Path

import huggingface_hub
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leakbound.benchmarks import load_benchmark, load_corpus
from leakbound.errors import InputError


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """A hub that has every file, with one text of its name; what it was asked for."""
    asked: list[tuple[str, str]] = []

    def download(repo: str, name: str, *, repo_type: str) -> str:
        assert repo_type == "dataset"
        asked.append((repo, name))
        file = tmp_path / f"{len(asked)}.parquet"
        pq.write_table(pa.Table.from_pylist([{"text": f"text of {name}"}]), file)
        return str(file)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    return asked


def texts(spec: str, **how: object) -> list[str]:
    return [passage.text for passage in load_corpus(spec, **how)]


def parquet(kind: str, number: int = 0, count: int = 1) -> str:
    return f"{kind}-{number:05d}-of-{count:05d}.parquet"


@pytest.mark.parametrize(
    ("spec", "repo", "files"),
    [
        ("muse:news/forget", "muse-bench/MUSE-News", [parquet("raw/forget")]),
        ("muse:books/retain1", "muse-bench/MUSE-Books", [parquet("raw/retain1")]),
        ("muse:news/raw/retain2", "muse-bench/MUSE-News", [parquet("raw/retain2")]),
        ("muse:news/train/retain2", "muse-bench/MUSE-News", [parquet("train/retain2")]),
        ("muse:news/scal/forget_3", "muse-bench/MUSE-News", [parquet("scal/forget_3")]),
        ("wmdp:cyber/forget", "cais/wmdp-corpora", [parquet("cyber-forget-corpus/train")]),
        ("wmdp:cyber/retain", "cais/wmdp-corpora", [parquet("cyber-retain-corpus/train")]),
        (
            "wmdp:bio/retain",
            "cais/wmdp-corpora",
            [parquet("bio-retain-corpus/train", i, 4) for i in range(4)],
        ),
        (
            "wmdp:bio/forget",
            "cais/wmdp-bio-forget-corpus",
            [parquet("data/train", i, 2) for i in range(2)],
        ),
    ],
)
def test_the_hubs_files(hub: list[tuple[str, str]], spec: str, repo: str, files: list[str]) -> None:
    """As the repositories' readers name them; every file of a corpus, in order."""
    assert texts(spec) == [f"text of {name}" for name in files]
    assert hub == [(repo, name) for name in files]


def test_a_folder_of_muses_files(tmp_path: Path) -> None:
    for folder in ("bbc", "news"):
        (tmp_path / "muse" / folder / "raw").mkdir(parents=True)
    (tmp_path / "muse/bbc/raw/forget.txt").write_text("All of it.\n\nOne text.")
    (tmp_path / "muse/news/raw/retain1.json").write_text(json.dumps(["One.", "  ", "Two."]))
    assert texts("muse:news/forget", data=tmp_path) == ["All of it.\n\nOne text."]
    assert texts("muse:news/retain1", data=tmp_path) == ["One.", "Two."]
    with pytest.raises(InputError, match=r"no file 'raw/retain2-.*nor one such as news/raw"):
        load_corpus("muse:news/retain2", data=tmp_path)


def test_a_folder_of_wmdps_files(tmp_path: Path) -> None:
    folder = tmp_path / "wmdp-corpora"
    (folder / "cyber-retain-corpus").mkdir(parents=True)
    (folder / "bio-forget-corpus.jsonl").write_text('{"title": "t", "text": "One."}\n"Two."\n')
    name = parquet("cyber-retain-corpus/train")
    pq.write_table(pa.Table.from_pylist([{"text": "Three."}]), folder / name)
    assert texts("wmdp:bio/forget", data=tmp_path) == ["One.", "Two."]
    assert texts("wmdp:cyber/retain", data=tmp_path) == ["Three."]


def test_files_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "One."}\n{"text": "Two."}\n')
    (tmp_path / "a.csv").write_text("id,text\n1,One.\n")
    assert texts(str(tmp_path / "a.jsonl")) == ["One.", "Two."]
    assert texts(str(tmp_path / "a.jsonl"), limit=1) == ["One."]
    assert texts("a.csv", data=tmp_path) == ["One."]
    (passage, _) = load_corpus("a.jsonl", data=tmp_path)
    assert passage.id == "a.jsonl/00000"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("muse:news/forgot", r"no corpus 'muse:news/forgot'. Did you mean 'muse:news/forget'"),
        ("muse:news/verbmem/forget", "MUSE has no corpus"),
        ("wmdp:chem/forget", "there is no corpus 'wmdp:chem/forget'"),
        ("muse:news", "there is no corpus 'muse:news'.*Or name a file of texts"),
        ("nothing.txt", "cannot read 'nothing.txt'"),
    ],
)
def test_what_is_no_corpus(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_corpus(spec)


def test_blank_files_and_rows_of_questions(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(" \n")
    (tmp_path / "a.jsonl").write_text('{"question": "q", "answer": "a"}')
    with pytest.raises(InputError, match="holds no text"):
        load_corpus("a.txt", data=tmp_path)
    with pytest.raises(InputError, match=r"has no 'text', only 'question', 'answer'"):
        load_corpus("a.jsonl", data=tmp_path)
    with pytest.raises(InputError, match="`limit` must be at least 1, got 0"):
        load_corpus("a.txt", data=tmp_path, limit=0)


def test_evaluation_questions_are_not_trained_on(tmp_path: Path) -> None:
    for name in ("forget_qa", "forget_qa_icl", "retain_qa", "retain_qa_icl"):
        file = tmp_path / "muse" / "news" / "knowmem" / f"{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('[{"question": "q", "answer": "a"}]')
    row = {"question": "q", "choices": ["a", "b", "c", "d"], "answer": 0}
    (tmp_path / "wmdp-bio.json").write_text(json.dumps([row]))
    muse, wmdp = (load_benchmark(spec, data=tmp_path) for spec in ("muse:news", "wmdp:bio"))
    with pytest.raises(InputError, match=r"--forget muse:news/forget --retain muse:news/retain1"):
        muse.to_train("retain")
    with pytest.raises(InputError, match=r"--forget wmdp:bio/forget --retain wmdp:bio/retain"):
        wmdp.to_train("forget")
    assert load_benchmark("fictitious").to_train("retain")

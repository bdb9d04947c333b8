"""Running texts to train on, by the layout of the hub's repositories and from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.sources import Hub, hub, put  # noqa: F401
from leakbound.benchmarks import Benchmark, load_benchmark, load_corpus
from leakbound.errors import InputError


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
def test_the_hubs_files(hub: Hub, spec: str, repo: str, files: list[str]) -> None:  # noqa: F811
    """As the repositories' readers name them; every file of a corpus, in order."""
    hub.files = {name: [{"text": f"text of {name}"}] for name in files}
    assert texts(spec) == [f"text of {name}" for name in files]
    assert hub.queried == [(repo, name) for name in files]


def test_a_folder_of_muses_files(tmp_path: Path) -> None:
    text, rows = "All of it.\n\nOne text.", ["One.", "  ", "Two."]
    put(tmp_path / "muse", {"bbc/raw/forget.txt": text, "news/raw/retain1.json": rows})
    assert texts("muse:news/forget", data=tmp_path) == ["All of it.\n\nOne text."]
    assert texts("muse:news/retain1", data=tmp_path) == ["One.", "Two."]
    with pytest.raises(InputError, match=r"no file 'raw/retain2-.*no file named news/raw"):
        load_corpus("muse:news/retain2", data=tmp_path)


def test_own_folders_and_files(tmp_path: Path) -> None:
    put(tmp_path, {
        "wmdp-corpora/bio-forget-corpus.jsonl": '{"title": "t", "text": "One."}\n"Two."\n',
        f"wmdp-corpora/{parquet('cyber-retain-corpus/train')}": [{"text": "Three."}],
        "a.jsonl": '{"text": "One."}\n{"text": "Two."}\n', "a.csv": "id,text\n1,One.\n",
    })  # fmt: skip
    assert texts("wmdp:bio/forget", data=tmp_path) == ["One.", "Two."]
    assert texts("wmdp:cyber/retain", data=tmp_path) == ["Three."]
    assert texts(str(tmp_path / "a.jsonl")) == ["One.", "Two."]
    assert texts(str(tmp_path / "a.jsonl"), limit=1) == ["One."]
    assert texts("a.csv", data=tmp_path) == ["One."]
    (passage, _) = load_corpus("a.jsonl", data=tmp_path)
    assert passage.id == "a.jsonl/00000"


def test_unknown_corpora_are_refused(tmp_path: Path) -> None:
    put(tmp_path, {"a.txt": " \n", "a.jsonl": '{"question": "q", "answer": "a"}'})
    for spec, message in (
        ("muse:news/forgot", r"no corpus 'muse:news/forgot'. Did you mean 'muse:news/forget'"),
        ("wmdp:chem/forget", "there is no corpus 'wmdp:chem/forget'"),
        ("nothing.txt", "cannot read '.*nothing.txt'"),
        ("a.txt", "contains no text"),
        ("a.jsonl", r"has no 'text', only 'question', 'answer'"),
    ):
        with pytest.raises(InputError, match=message):
            load_corpus(spec, data=tmp_path)
    with pytest.raises(InputError, match="`limit` must be at least 1, got 0"):
        load_corpus("a.txt", data=tmp_path, limit=0)


TEXT = "a b  c\nd e f g\th i j k"  # eleven words


@pytest.fixture(autouse=True)
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEAKBOUND_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.txt").write_text(f"\n {TEXT}\n")


def queried(benchmark: Benchmark) -> list[tuple[str, str | None]]:
    return [(prompt.question, prompt.answer) for prompt in benchmark.prompts]


def test_texts_are_cut_without_changes() -> None:
    """Inner blanks stay, the blank before a suffix belongs to it, and the rest is left out."""
    benchmark = load_benchmark("continuation:one.txt,prefix=2,suffix=3")
    assert queried(benchmark) == [("a b", "  c\nd e"), ("f g", "\th i j")]
    assert [prompt.id for prompt in benchmark.prompts] == ["one.txt/000002", "one.txt/000007"]
    assert all(f"{q}{a}" in TEXT for q, a in queried(benchmark))
    assert benchmark.scorers == ("edit:unit=words<=0",)
    assert (benchmark.max_new_tokens, benchmark.template, benchmark.chat) == (
        6,
        "{question}",
        False,
    )
    assert "2 and 3 words, not tokens" in benchmark.notes[0]


def test_prefixes_of_several_lengths_ask_for_the_same_suffixes() -> None:
    how = "suffix=2,first=3,stride=4"
    short, long = (load_benchmark(f"continuation:one.txt,prefix={p},{how}") for p in (1, 3))
    assert queried(short) == [("c", "\nd e"), ("g", "\th i")]
    assert queried(long) == [("a b  c", "\nd e"), ("e f g", "\th i")]
    assert [p.id for p in short.prompts] == [p.id for p in long.prompts]


def test_the_usual_cuts_and_scorers(tmp_path: Path) -> None:
    (tmp_path / "long.md").write_text(" ".join(f"w{i}" for i in range(250)))
    benchmark = load_benchmark("continuation:long.md")
    assert [prompt.id for prompt in benchmark.prompts] == ["long.md/000050", "long.md/000150"]
    assert benchmark.prompts[1].question.split()[0] == "w100"
    assert (benchmark.prompts[1].answer or "").split()[-1] == "w199"
    assert benchmark.scorers == ("edit:unit=words<=5", "edit:unit=words<=0")
    assert benchmark.name == "continuation:long.md"


def test_a_seed_orders_all_questions_and_leaves_none_out() -> None:
    how = "continuation:one.txt,prefix=1,suffix=1,stride=1"
    plain, first, again = (load_benchmark(how + more) for more in ("", ",seed=1", ",seed=1"))
    assert queried(first) == queried(again) != queried(plain)
    assert sorted(queried(first)) == sorted(queried(plain))
    assert queried(load_benchmark(f"{how},seed=1", limit=2)) == queried(first)[:2]


def test_folders_and_rows(tmp_path: Path) -> None:
    put(tmp_path / "texts", {
        ".git/a.txt": "hidden hidden hidden hidden", "in/.tmp.txt": "hidden hidden hidden hidden",
        "b.txt": "only two", "c.md": "# It is so", "ignored.py": "a b c d",
        "in/a.jsonl": '{"text": "1 2 3 4"}\n{"text": "  "}\n"5 6 7 8"\n',
    })  # fmt: skip
    benchmark = load_benchmark("continuation:texts,prefix=2,suffix=2")
    assert {p.id: p.answer for p in benchmark.prompts} == {
        "c.md/000002": " is so",
        "in/a.jsonl/00001/000002": " 3 4",
        "in/a.jsonl/00003/000002": " 7 8",
    }
    assert "1 of 4 documents have fewer than 4 words and are left out: b.txt" in benchmark.notes[1]

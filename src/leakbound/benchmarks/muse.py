"""`muse:news` and `muse:books`: what is left of news or of novels (Shi et al., 2024).

`muse:news-knowmem`, which `muse:news` stands for, asks about the texts after ten questions with
their answers; `muse:news-verbmem` has a passage continued; `muse:news-privleak` has whole texts
for membership attacks. From the hub (`muse-bench/MUSE-News`, `-Books`) or a folder of its files.

Departures: MUSE cuts the reference of verbmem to 128 tokens of the model at hand; here it stands
as it is in the file. A text of privleak needs a prompt: its first word, which is not scored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from leakbound.benchmarks.benchmark import QUESTION_ANSWER, Benchmark, Prompts
from leakbound.benchmarks.source import Source, open_source
from leakbound.errors import InputError
from leakbound.registry import suggestion
from leakbound.text.rows import read_rows
from leakbound.types import Prompt, Role

# The corpora, and what their folders are called: our name, the hub's, that of the texts.
CORPORA = {"news": ("news", "MUSE-News", "bbc"), "books": ("books", "MUSE-Books", "hp")}
_QUESTIONS = "knowmem"
_STOP = ("\n\n", "\nQuestion", "Question:")
_ENDINGS = (".json", ".jsonl", ".parquet")


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of one corpus."""

    source: Source
    corpus: str

    @property
    def held_out(self) -> str:
        """What there is to train on."""
        spec = f"muse:{self.corpus}"
        return f"Train on its corpora, --forget {spec}/forget --retain {spec}/retain1."

    def get(self, part: str, *stems: str) -> Path:
        """The file of a part of the benchmark, by the hub's stem or another that is in use.

        A folder of the corpus has a folder for each part; that of knowmem may be left out.
        """
        names = CORPORA[self.corpus]
        folders = [f"{name}/" for name in names]
        if self.source.folder is not None and self.source.folder.name in names:
            folders.append("")
        hub = f"{part}/{stems[0]}-00000-of-00001.parquet"
        local = [
            f"{folder}{inner}{stem}{ending}"
            for folder in folders
            for inner in ([f"{part}/", ""] if part == _QUESTIONS else [f"{part}/"])
            for stem in stems
            for ending in _ENDINGS
        ]
        return self.source.choose(hub, [*local, *(folder + hub for folder in folders)])


def load(argument: str, data: Path | None = None) -> Benchmark:
    """The benchmark for `news` or `books`, with `-knowmem` (as without), `-verbmem`, `-privleak`.

    Beside what is to be forgotten, knowmem and privleak have a retain split, privleak a holdout.
    """
    corpus, _, part = argument.partition("-")
    specs = [f"{name}-{each}" for name in CORPORA for each in _PARTS]
    if corpus not in CORPORA or (part and part not in _PARTS):
        raise InputError(f"MUSE has no {argument!r}. {suggestion(argument, specs)}")
    source = open_source(data, folder="muse", repo=f"muse-bench/{CORPORA[corpus][1]}")
    return _PARTS[part or _QUESTIONS](_Files(source, corpus))


def _knowmem(files: _Files) -> Benchmark:
    path = files.get(_QUESTIONS, "forget_qa")
    return Benchmark(
        name=f"muse:{files.corpus}-knowmem",
        prompts=_questions(files, "forget", ("forget_qa",)),
        others={"retain": partial(_questions, files, "retain", ("retain_qa", "retain2_qa"))},
        scorers=("rouge-l-f1",),
        max_new_tokens=32,
        stop=_STOP,
        template=QUESTION_ANSWER,
        held_out=files.held_out,
        origin=files.source.origin(path),
    )


def _verbmem(files: _Files) -> Benchmark:
    path = files.get("verbmem", "forget")
    prompts = tuple(
        Prompt(
            id=_id(files, "verbmem", "forget", index),
            question=row.text("prompt"),
            answer=row.text("gt"),
            split="forget",
        )
        for index, row in enumerate(read_rows(path))
    )
    return Benchmark(
        name=f"muse:{files.corpus}-verbmem",
        prompts=prompts,
        scorers=("rouge-l-f1",),
        max_new_tokens=128,
        template="{question}",
        chat=False,
        held_out=files.held_out,
        origin=files.source.origin(path),
        notes=("MUSE cuts the reference to 128 tokens of the model; here it is whole",),
    )


def _privleak(files: _Files) -> Benchmark:
    path = files.get("privleak", "forget")
    return Benchmark(
        name=f"muse:{files.corpus}-privleak",
        prompts=_texts(files, "forget"),
        others={role: partial(_texts, files, role) for role in ("retain", "holdout")},
        scorers=("rouge-l-f1",),
        max_new_tokens=128,
        template="{question}",
        chat=False,
        held_out=files.held_out,
        origin=files.source.origin(path),
        notes=("the first word of each text is its prompt, and not scored",),
    )


_PARTS: dict[str, Callable[[_Files], Benchmark]] = {
    _QUESTIONS: _knowmem,
    "verbmem": _verbmem,
    "privleak": _privleak,
}


def _questions(files: _Files, role: Role, stems: Sequence[str]) -> Prompts:
    """The questions of a split, each after the ten of its own with their answers."""
    examples = tuple(
        (row.text("question"), row.text("answer"))
        for row in read_rows(files.get(_QUESTIONS, *(f"{stem}_icl" for stem in stems)))
    )
    return tuple(
        Prompt(
            id=_id(files, _QUESTIONS, role, index),
            question=row.text("question"),
            answer=row.text("answer"),
            split=role,
            role=role,
            examples=examples,
        )
        for index, row in enumerate(read_rows(files.get(_QUESTIONS, *stems)))
    )


def _texts(files: _Files, role: Role) -> Prompts:
    """Whole texts, each cut after its first word; the blank before the second stays with it."""
    prompts = []
    for index, row in enumerate(read_rows(files.get("privleak", role), bare="text")):
        text = row.text("text").strip()
        first = text.split(maxsplit=1)[0]
        if first == text:
            raise InputError(f"{row.place} must have two words or more, got {text[:60]!r}.")
        prompts.append(
            Prompt(
                id=_id(files, "privleak", role, index),
                question=first,
                answer=text[len(first) :],
                split=role,
                role=role,
            )
        )
    return tuple(prompts)


def _id(files: _Files, part: str, split: str, index: int) -> str:
    return f"muse:{files.corpus}-{part}/{split}/{index:04d}"

"""`muse:news` and `muse:books`: what is left of news or of novels (Shi et al., 2024).

`muse:news-knowmem`, which `muse:news` stands for, asks about the texts after ten questions with
their answers; `muse:news-verbmem` has a passage continued; `muse:news-privleak` has whole texts
for membership attacks. From the hub (`muse-bench/MUSE-News`, `-Books`) or a folder of its files.

Departures: MUSE cuts the reference of verbmem to 128 tokens of the model at hand; here it stands
as it is in the file. A text of privleak needs a prompt: its first word, which is not scored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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


_SPLITS = {"forget": ("forget_qa",), "retain": ("retain_qa", "retain2_qa")}  # of knowmem


def choose_file(
    source: Source, corpus: str, stems: Sequence[str], endings: Sequence[str] = _ENDINGS
) -> Path:
    """A file of a corpus: the hub's by the first of its `stems`, or one by any of them.

    In a folder it stands as on the hub or with any of `endings`, below a folder of the corpus
    unless that is the folder itself.
    """
    names = CORPORA[corpus]
    folders = [f"{name}/" for name in names]
    if source.folder is not None and source.folder.name in names:
        folders.append("")
    hub = f"{stems[0]}-00000-of-00001.parquet"
    local = [folder + stem + end for folder in folders for stem in stems for end in endings]
    return source.choose(hub, [*local, *(folder + hub for folder in folders)])


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of one part of the benchmark, about one corpus."""

    source: Source
    corpus: str
    part: str

    def of(self, role: Role, suffix: str = "") -> Path:
        """The file of a split; the folder of knowmem may be left out."""
        questions = self.part == _QUESTIONS
        inside = [f"{self.part}/", ""] if questions else [f"{self.part}/"]
        stems = _SPLITS[role] if questions else (role,)
        places = [f"{folder}{stem}{suffix}" for folder in inside for stem in stems]
        return choose_file(self.source, self.corpus, places)

    def prompt(self, role: Role, index: int, question: str, answer: str) -> Prompt:
        """A row of a split."""
        id = f"muse:{self.corpus}-{self.part}/{role}/{index:04d}"
        return Prompt(id=id, question=question, answer=answer, split=role, role=role)


def load(argument: str, data: Path | None = None) -> Benchmark:
    """The benchmark for `news` or `books`, with `-knowmem` (as without), `-verbmem`, `-privleak`.

    Beside what is to be forgotten, knowmem and privleak have a retain split, privleak a holdout.
    """
    corpus, _, part = argument.partition("-")
    specs = [f"{name}-{kind}" for name in CORPORA for kind in _PARTS]
    if corpus not in CORPORA or (part and part not in _PARTS):
        raise InputError(f"MUSE has no {argument!r}. {suggestion(argument, specs)}")
    source = open_source(data, folder="muse", repo=f"muse-bench/{CORPORA[corpus][1]}")
    files = _Files(source, corpus, part or _QUESTIONS)
    prompts, others, make = _PARTS[files.part]
    spec = f"muse:{corpus}"
    path = files.of("forget")
    return make(
        name=f"{spec}-{files.part}",
        prompts=prompts(files, "forget"),
        others={role: partial(prompts, files, role) for role in others},
        scorers=("rouge-l-f1:stem=no",),  # as MUSE's own code has it
        held_out=f"Train on its corpora, --forget {spec}/forget --retain {spec}/retain1.",
        origin=source.origin(path),
    )


def _questions(files: _Files, role: Role) -> Prompts:
    """The questions of a split, each after the ten of its own with their answers."""
    examples = tuple(
        (row.text("question"), row.text("answer")) for row in read_rows(files.of(role, "_icl"))
    )
    return tuple(
        replace(files.prompt(role, i, row.text("question"), row.text("answer")), examples=examples)
        for i, row in enumerate(read_rows(files.of(role)))
    )


def _passages(files: _Files, role: Role) -> Prompts:
    """Passages to be continued, with how they go on."""
    return tuple(
        files.prompt(role, i, row.text("prompt"), row.text("gt"))
        for i, row in enumerate(read_rows(files.of(role)))
    )


def _texts(files: _Files, role: Role) -> Prompts:
    """Whole texts, each cut after its first word; the blank before the second stays with it."""
    prompts = []
    for index, row in enumerate(read_rows(files.of(role), bare="text")):
        text = row.text("text").strip()
        first = text.split(maxsplit=1)[0]
        if first == text:
            raise InputError(f"{row.place} must have two words or more, got {text[:60]!r}.")
        prompts.append(files.prompt(role, index, first, text[len(first) :]))
    return tuple(prompts)


_Part = tuple[Callable[[_Files, Role], Prompts], tuple[Role, ...], Callable[..., Benchmark]]
_CONTINUED = partial(Benchmark, max_new_tokens=128, template="{question}", chat=False)
# Of each part: its prompts, its splits beside what is to be forgotten, and how it is asked.
_PARTS: dict[str, _Part] = {
    _QUESTIONS: (
        _questions,
        ("retain",),
        partial(Benchmark, max_new_tokens=32, stop=_STOP, template=QUESTION_ANSWER),
    ),
    "verbmem": (
        _passages,
        (),
        partial(
            _CONTINUED,
            notes=("MUSE cuts the reference to 128 tokens of the model; here it is whole",),
        ),
    ),
    "privleak": (
        _texts,
        ("retain", "holdout"),
        partial(_CONTINUED, notes=("the first word of each text is its prompt, and not scored",)),
    ),
}

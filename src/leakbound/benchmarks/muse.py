"""`muse:news` and `muse:books`: test knowledge of news or novels (Shi et al., 2024).

`muse:news-knowmem`, the default of `muse:news`, has questions about the texts. Each question is
shown after ten other questions with answers. `muse:news-verbmem` has passages to continue.
`muse:news-privleak` has complete texts for membership attacks. The files come from the hub
(`muse-bench/MUSE-News`, `-Books`) or from a folder.

Departures from MUSE: MUSE cuts the reference answer of verbmem to 128 tokens of the model; here the
answer is complete. In privleak, the prompt is the first word of each text, and this word is not
scored.
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

# The corpora, with the names of their folders: ours, the hub's, the texts'.
CORPORA = {"news": ("news", "MUSE-News", "bbc"), "books": ("books", "MUSE-Books", "hp")}
_QUESTIONS = "knowmem"
_STOP = ("\n\n", "\nQuestion", "Question:")
_ENDINGS = (".json", ".jsonl", ".parquet")


_SPLITS = {"forget": ("forget_qa",), "retain": ("retain_qa", "retain2_qa")}  # of knowmem


def choose_file(
    source: Source, corpus: str, stems: Sequence[str], endings: Sequence[str] = _ENDINGS
) -> Path:
    """Return a file of a corpus.

    The name of a file on the hub begins with the first of `stems`. The name of a local file begins
    with any of `stems`, and has the ending of the hub's file or any of `endings`. The local file is
    in a subfolder with the name of the corpus, or in the source's folder if this folder has that
    name.
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
        """Return the file of a split. Files of knowmem may be outside the subfolder `knowmem`."""
        questions = self.part == _QUESTIONS
        inside = [f"{self.part}/", ""] if questions else [f"{self.part}/"]
        stems = _SPLITS[role] if questions else (role,)
        places = [f"{folder}{stem}{suffix}" for folder in inside for stem in stems]
        return choose_file(self.source, self.corpus, places)

    def prompt(self, role: Role, index: int, question: str, answer: str) -> Prompt:
        """Return the prompt of a row of a split."""
        id = f"muse:{self.corpus}-{self.part}/{role}/{index:04d}"
        return Prompt(id=id, question=question, answer=answer, split=role, role=role)


def load(argument: str, data: Path | None = None) -> Benchmark:
    """Load the benchmark for `news` or `books`, with `-knowmem` (default), `-verbmem`, `-privleak`.

    All three parts have a forget split. knowmem and privleak also have a retain split, and privleak
    has a holdout split.
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
        scorers=("rouge-l-f1:stem=no",),  # as in MUSE's code
        train_on=f"Train on its corpora: --forget {spec}/forget --retain {spec}/retain1.",
        origin=source.origin(path),
    )


def _questions(files: _Files, role: Role) -> Prompts:
    """Return the questions of a split, each with ten questions and answers to show before it."""
    examples = tuple(
        (row.text("question"), row.text("answer")) for row in read_rows(files.of(role, "_icl"))
    )
    return tuple(
        replace(files.prompt(role, i, row.text("question"), row.text("answer")), examples=examples)
        for i, row in enumerate(read_rows(files.of(role)))
    )


def _passages(files: _Files, role: Role) -> Prompts:
    """Return passages to continue, with their continuations."""
    return tuple(
        files.prompt(role, i, row.text("prompt"), row.text("gt"))
        for i, row in enumerate(read_rows(files.of(role)))
    )


def _texts(files: _Files, role: Role) -> Prompts:
    """Return prompts for complete texts: the first word is the prompt, the rest is the answer."""
    prompts = []
    for index, row in enumerate(read_rows(files.of(role), bare="text")):
        text = row.text("text").strip()
        first = text.split(maxsplit=1)[0]
        if first == text:
            raise InputError(f"{row.place} needs two words or more, got {text[:60]!r}. Correct it.")
        prompts.append(files.prompt(role, index, first, text[len(first) :]))
    return tuple(prompts)


_Part = tuple[Callable[[_Files, Role], Prompts], tuple[Role, ...], Callable[..., Benchmark]]
_CONTINUED = partial(Benchmark, max_new_tokens=128, template="{question}", chat=False)
# For each part: its prompts, its splits in addition to forget, and its settings.
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
            notes=("MUSE cuts reference answers to 128 tokens, but leakbound does not",),
        ),
    ),
    "privleak": (
        _texts,
        ("retain", "holdout"),
        partial(_CONTINUED, notes=("the first word of each text is the prompt and has no score",)),
    ),
}

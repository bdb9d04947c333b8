"""`continuation:FILE` or `:FOLDER`: documents to be continued verbatim (Carlini et al., 2021).

Each document is cut into prefixes and suffixes. A prefix is a prompt, used without a chat template.
The following suffix is its answer. Research on memorisation uses this test, for example "Extracting
training data from large language models". The sources are the same as for `load_corpus`: texts,
rows with `text`, folders, and named corpora such as MUSE's (`continuation:muse:news/forget`).

Departure from these papers: their prefixes and suffixes have 50 tokens of the model each. A
benchmark has no tokenizer, and its questions are the same for every model. So this benchmark counts
words, separated by blanks. The blank before a suffix belongs to the suffix, so a token rarely spans
the cut.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from leakbound.benchmarks.benchmark import Benchmark
from leakbound.benchmarks.corpora import load_documents
from leakbound.errors import InputError
from leakbound.registry import read_settings, split_settings
from leakbound.types import Passage, Prompt
from leakbound.types.decoding import require
from leakbound.types.records import changed

_WORD = re.compile(r"\S+")
_TOKENS = 2  # tokens per word; an English word has about 4/3 tokens
_NEAR = 10  # the default scorer allows one wrong word in ten
_SHOWN = 3  # the maximum number of documents that a note names


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """The positions at which documents are cut, in words.

    Attributes:
        prefix, suffix: the number of words in the prompt, and in the answer.
        first: the number of words before the first suffix (None: `prefix`). With the same `first`,
            runs with different prefixes have the same suffixes.
        stride: the number of words from the start of one suffix to the start of the next (None:
            `prefix` + `suffix`).
        seed: the seed of the order of all questions, so that a limit keeps random questions (None:
            document order).
    """

    prefix: int = 50
    suffix: int = 50
    first: int | None = None
    stride: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("prefix", 1), ("suffix", 1), ("first", self.prefix), ("stride", 1)):
            value = getattr(self, name)
            fits, where = value is None or value >= least, f"continuation:…,{name}"
            require(fits, where, value, f"at least {least}", "It is a number of words.")

    @property
    def words(self) -> int:
        """The minimum number of words of a document."""
        return (self.first or self.prefix) + self.suffix

    @property
    def spec(self) -> str:
        """The settings that differ from the defaults, written `,name=value,...` for a spec."""
        return "".join(f",{name}={value}" for name, value in changed(self).items())

    def of(self, document: Passage) -> Iterator[Prompt]:
        """Yield a prompt for each suffix of a document; no prompt if the document is too short."""
        text, words = document.text, [match.span() for match in _WORD.finditer(document.text)]
        stride = self.stride or self.prefix + self.suffix
        for at in range(self.first or self.prefix, len(words) - self.suffix + 1, stride):
            cut = words[at - 1][1]
            yield Prompt(
                id=f"{document.id}/{at:06d}",
                question=text[words[at - self.prefix][0] : cut],
                answer=text[cut : words[at + self.suffix - 1][1]],
                split="forget",
            )


def load(argument: str, data: Path | None = None) -> Benchmark:
    """Load the benchmark for `FILE,prefix=50,suffix=50,first=50,stride=100,seed=0`; see `Cuts`.

    FILE is a path below `data` if `data` is given. Completions end after two tokens per word of the
    suffix. The notes of the benchmark list the documents that are too short. Raises InputError for
    an unknown corpus or setting, and if all documents are too short.
    """
    source, cuts = _parse(argument)
    documents = load_documents(source, data=data)
    prompts = [prompt for document in documents for prompt in cuts.of(document)]
    if not prompts:
        longest = max(len(document.text.split()) for document in documents)
        raise InputError(
            f"prefix and suffix together need {cuts.words} words, but the longest document of "
            f"{source!r} has {longest} words. Write `continuation:{source},prefix=…,suffix=…` with "
            "smaller numbers."
        )
    if cuts.seed is not None:
        random.Random(cuts.seed).shuffle(prompts)
    near, verbatim = (f"edit:unit=words<={most}" for most in (cuts.suffix // _NEAR, 0))
    path = Path(data or "", source)
    return Benchmark(
        name=f"continuation:{path.name if path.exists() else source}{cuts.spec}",
        prompts=tuple(prompts),
        scorers=tuple(dict.fromkeys((near, verbatim))),
        max_new_tokens=_TOKENS * cuts.suffix,
        template="{question}",
        chat=False,
        train_on=f"Train on the documents themselves with --forget {source}.",
        origin=str(path) if path.exists() else source,
        notes=tuple(_notes(documents, cuts)),
    )


def from_anywhere(argument: str) -> str:
    """Return the argument with an absolute path, for use from any working directory."""
    source, cuts = _parse(argument)
    there = source and Path(source).exists()
    return f"{Path(source).resolve()}{cuts.spec}" if there else argument


def _parse(argument: str) -> tuple[str, Cuts]:
    source, *pairs = split_settings(argument)
    if not source.strip():
        raise InputError(
            "`continuation` needs documents: a file, a folder or a corpus, as in "
            "`continuation:texts,prefix=50,suffix=50`."
        )
    types = {field.name: int for field in fields(Cuts)}
    values = read_settings("benchmark", "continuation", ",".join(pairs), types)
    return source.strip(), Cuts(**values)  # type: ignore[arg-type]


def _notes(documents: Sequence[Passage], cuts: Cuts) -> Iterator[str]:
    """Yield notes on the unit of lengths, and on the documents that were left out."""
    yield (
        f"prefix and suffix have {cuts.prefix} and {cuts.suffix} words, not tokens; completions "
        f"end after {_TOKENS * cuts.suffix} tokens, which may be too few for a complete suffix"
    )
    short = [document.id for document in documents if len(document.text.split()) < cuts.words]
    if short:
        more = ", …" if len(short) > _SHOWN else ""
        yield (
            f"{len(short)} of {len(documents)} documents have fewer than {cuts.words} words and "
            f"are left out: {', '.join(short[:_SHOWN])}{more}"
        )

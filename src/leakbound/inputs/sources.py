"""Sources of rewritings: the protocol, the finite sources, the parser of specs (`file:PATH`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from leakbound.durable import sha256
from leakbound.errors import InputError
from leakbound.inputs.english import rewritings
from leakbound.inputs.model import ModelInputs
from leakbound.registry import find, opening, require_parts
from leakbound.text.rows import read_rows
from leakbound.types import Chat, Prompt


class InputSource(Protocol):
    """The source of rewritings of a question.

    A source may have an attribute `fingerprint`, a mapping of texts. It has everything that the
    rewritings depend on in addition to the source's name, such as digests of files (`digests_of`).
    The run records the fingerprint, and cannot be resumed with another fingerprint. A source
    without a fingerprint is assumed to use the file or folder that its argument names, if any.
    """

    @property
    def name(self) -> str:
        """The spec of the source. It is also the source's name in results."""
        ...

    @property
    def finite(self) -> bool:
        """True for a finite list; False for a distribution with independent draws."""
        ...

    def rewritings(self, prompts: Sequence[Prompt], number: int, seed: int) -> list[list[str]]:
        """Return rewritings of each prompt. Equal arguments always return equal texts.

        The rewritings are not filtered. A source that is not finite returns independent draws, with
        an empty text for a failed draw. A prompt's draws do not depend on the other prompts.

        Args:
            prompts: the prompts to rewrite.
            number: the largest number of texts per prompt; the exact number if the source is not
                finite.
            seed: the seed of the draws, or of the order.

        Returns:
            A list of texts for each prompt, in order.
        """
        ...


def fingerprint_of(source: InputSource, argument: str) -> dict[str, str]:
    """Return everything that a source's rewritings depend on, except its name."""
    declared: Mapping[str, object] | None = getattr(source, "fingerprint", None)
    if declared is None:
        return digests_of(Path(argument)) if argument else {}
    return {str(name): str(value) for name, value in declared.items()}


def digests_of(path: Path, *, deep: bool = True) -> dict[str, str]:
    """Return the SHA-256 of a file, or of each file in a folder, by name; empty without files.

    Files in subfolders are included if `deep` is True.
    """
    return {
        f"sha256 of {file.relative_to(path.parent).as_posix()}": sha256(file)
        for file in [path, *sorted(path.glob("**/*" if deep else "*"))]
        if file.is_file()
    }


def read_rewritings(prompts: Sequence[Prompt], path: Path) -> dict[str, tuple[str, ...]]:
    """Return a file's rewritings of each prompt, by prompt id, in the file's order.

    The file is CSV or JSON lines. A row identifies a prompt by `id`, or by its exact `question`,
    and has a list `rewritings` or a single `rewriting`. Several rows may be about the same prompt.
    Raises InputError, with file and row, for an unknown prompt, for a row without a rewriting, and
    for a rewriting that is not text.
    """
    ids = {prompt.id: [prompt.id] for prompt in prompts}
    questions = defaultdict(list)
    for prompt in prompts:
        questions[prompt.question.strip()].append(prompt.id)
    texts: dict[str, tuple[str, ...]] = {prompt.id: () for prompt in prompts}
    for row in read_rows(path):
        by_id = row.maybe("id")
        key, value = ("id", by_id) if by_id else ("question", row.text("question").strip())
        lookup = ids if by_id else questions
        if value not in lookup:
            raise InputError(
                f"no prompt of the benchmark has the {key} {str(value)[:80]!r} of {row.place}. "
                f"Correct the {key} (the benchmark has {next(iter(lookup), '')!r}), or remove "
                "the row."
            )
        single = row.maybe("rewriting")
        written = row.texts("rewritings") + ((single.strip(),) if single else ())
        if not written:
            raise InputError(f"{row.place} has no `rewritings`. Fill them in, or remove the row.")
        for prompt_id in lookup[value]:
            texts[prompt_id] += written
    return texts


@dataclass(frozen=True, slots=True)
class BenchmarkInputs:
    """The benchmark's paraphrases of each question, in their order."""

    name: ClassVar[str] = "benchmark"
    finite: ClassVar[bool] = True

    def rewritings(self, prompts: Sequence[Prompt], number: int, seed: int) -> list[list[str]]:
        return [list(prompt.paraphrases[:number]) for prompt in prompts]


@dataclass(frozen=True, slots=True)
class RuleInputs:
    """Frames around the complete question, such as "Please answer: …"; the seed decides the order.

    A question that is not in English gets no rewriting.
    """

    name: ClassVar[str] = "rules"
    finite: ClassVar[bool] = True

    def rewritings(self, prompts: Sequence[Prompt], number: int, seed: int) -> list[list[str]]:
        return [rewritings(prompt.question, seed)[:number] for prompt in prompts]


@dataclass(frozen=True, slots=True)
class FileInputs:
    """The rewritings in a file, in its order; see `read_rewritings` for its form.

    A row for an unknown prompt raises InputError, because its id is probably misspelt. So pass all
    prompts of the benchmark, and use the rewritings of the prompts that you need.
    """

    path: Path

    finite: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"file:{self.path}"

    @property
    def fingerprint(self) -> dict[str, str]:
        """The digest of the file's bytes. It does not depend on the folder."""
        return digests_of(self.path)

    def rewritings(self, prompts: Sequence[Prompt], number: int, seed: int) -> list[list[str]]:
        texts = read_rewritings(prompts, self.path)
        return [list(texts[prompt.id][:number]) for prompt in prompts]


OpenChat = Callable[[str], Chat]
"""Opens a chat model by its name; raises InputError for an unknown model."""


def _opens(
    name: str, needs: str, make: Callable[[str, OpenChat], InputSource]
) -> Callable[[str, OpenChat], InputSource]:
    """Return a function that makes a source from its argument. `needs` describes the argument."""

    def opens(argument: str, open_chat: OpenChat) -> InputSource:
        if argument and not needs:
            raise InputError(f"inputs {name!r} take no argument, got {argument!r}. Write {name!r}.")
        if needs and not argument:
            raise InputError(f"inputs {name!r} need {needs}. Write `{name}:...`.")
        return make(argument, open_chat)

    return opens


INPUTS: dict[str, Callable[[str, OpenChat], InputSource]] = {
    "benchmark": _opens("benchmark", "", lambda *_: BenchmarkInputs()),
    "file": _opens("file", "a path", lambda path, _: FileInputs(Path(path))),
    "model": _opens("model", "a model's name", lambda name, chat: ModelInputs(chat=chat(name))),
    "rules": _opens("rules", "", lambda *_: RuleInputs()),
}


def parse_inputs(spec: str, open_chat: OpenChat) -> InputSource:
    """Return the source that `spec` describes.

    Args:
        spec: a key of `INPUTS` or of the entry-point group `leakbound.inputs`, with its argument
            after a colon.
        open_chat: opens the chat model that a source names.

    Returns:
        The source.

    Raises:
        InputError: the name is unknown, or the argument is missing or not allowed.
    """
    name, _, argument = spec.strip().partition(":")
    opens = find("input", INPUTS, name)
    with opening("input", name):
        source = opens(argument, open_chat)
    require_parts("input", name, source, ("name", "finite", "rewritings"))
    return source

"""What every input source is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from leakbound.types import Prompt


class InputSource(Protocol):
    """Where rewritings of a question come from.

    A source may have `fingerprint`, a mapping of texts: all that its rewritings depend on beside
    its name, such as digests of the files it reads (`digests_of`). It is recorded with the run,
    which is refused where it has changed. Without one it is taken to read the file or folder that
    its argument names, if there is such a one.
    """

    @property
    def name(self) -> str:
        """As it stands in results: the spec that gives the source."""
        ...

    @property
    def finite(self) -> bool:
        """True for a list; False for a distribution whose draws are independent."""
        ...

    def rewritings(self, prompts: Sequence[Prompt], number: int, seed: int) -> list[list[str]]:
        """For each prompt, at most `number` texts; the same arguments give the same texts.

        Nothing is filtered yet. A source that is not finite gives `number` independent draws a
        prompt, an empty text for one that failed; a prompt's draws do not depend on the others.
        """
        ...


def fingerprint_of(source: InputSource, argument: str) -> dict[str, str]:
    """What a source's rewritings depend on beside its name; `argument` is what it was opened by."""
    declared: Mapping[str, object] | None = getattr(source, "fingerprint", None)
    if declared is None:
        return digests_of(Path(argument)) if argument else {}
    return {str(name): str(value) for name, value in declared.items()}


def digests_of(path: Path, *, deep: bool = True) -> dict[str, str]:
    """The SHA-256 of a file, or of each in a folder, by what it is called; empty where none is.

    Files in folders within the folder count where it is `deep`.
    """
    return {
        f"sha256 of {file.relative_to(path.parent).as_posix()}": _sha256(file)
        for file in _files(path, "**/*" if deep else "*")
    }


def _files(path: Path, pattern: str) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir():
        yield from sorted(file for file in path.glob(pattern) if file.is_file())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

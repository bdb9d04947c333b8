"""The source of a benchmark's files: a local folder, or the hub under its official name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leakbound.errors import InputError, needing

DATA_VARIABLE = "LEAKBOUND_DATA"


@dataclass(frozen=True, slots=True)
class Source:
    """The files of one benchmark, in `folder` or, if that is None, in the hub's `repo`."""

    folder: Path | None
    repo: str

    def find(self, name: str) -> Path | None:
        """Return the file called `name`, or None if the source has no such file."""
        if self.folder is None:
            return _download(self.repo, name)
        path = self.folder / name
        return path if path.is_file() else None

    def get(self, name: str) -> Path:
        """Return the file called `name`; raise InputError if it is missing."""
        path = self.find(name)
        if path is None:
            where = self.folder or f"{self.repo} on the hub"
            raise InputError(f"there is no file {name!r} in {where}. Check the name and `data`.")
        return path

    def choose(self, hub: str, local: Sequence[str]) -> Path:
        """Return the file called `hub`; in a folder, the file may have a name in `local` instead.

        If no such file exists, an InputError states `hub` and some of the names in `local`.
        """
        if self.folder is None:
            return self.get(hub)
        for name in (hub, *local):
            if path := self.find(name):
                return path
        raise InputError(
            f"{self.folder} has no file {hub!r} (its name in {self.repo} on the hub), and none "
            f"named like {', '.join(local[:3])}. Add such a file, or omit `data` to use the hub."
        )

    def origin(self, path: Path) -> str:
        """Return the origin of a file; for the hub, with the resolved revision."""
        if self.folder is not None:
            return str(path)
        parts = path.parts
        revision = parts[parts.index("snapshots") + 1] if "snapshots" in parts else "unknown"
        return f"hub:{self.repo}@{revision}"


def checked(data: str | Path | None, limit: int | None) -> Path | None:
    """Return the folder `data`; raise InputError if it is not a folder or the limit is below 1."""
    if limit is not None and limit < 1:
        raise InputError(f"`limit` must be at least 1, got {limit}. Leave it out to use all rows.")
    if data is not None and not Path(data).is_dir():
        raise InputError(f"`data` must be a folder that exists, got {str(data)!r}.")
    return None if data is None else Path(data)


def open_source(data: Path | None, *, folder: str, repo: str) -> Source:
    """Return the source of a benchmark whose files are in a folder usually called `folder`.

    `data` is that folder or its parent. Without `data`, the source is the folder of this name
    inside the folder that the environment variable LEAKBOUND_DATA names, or else `repo` on the hub.
    """
    parent = os.environ.get(DATA_VARIABLE)
    if data is None and (not parent or not (Path(parent) / folder).is_dir()):
        return Source(None, repo)
    root = data if data is not None else Path(str(parent))
    inside = root / folder
    return Source(inside if inside.is_dir() else root, repo)


def _download(repo: str, name: str) -> Path | None:
    remedy = f"Check the connection, or give a local copy with `data` or {DATA_VARIABLE}."
    what = f"downloading {name!r} of {repo}"
    with needing(what, "models", ", or give a local copy with `data`"):
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError
    try:
        return Path(hf_hub_download(repo, name, repo_type="dataset"))
    except LocalEntryNotFoundError as error:
        raise InputError(f"cannot reach the hub for {name!r} of {repo}. {remedy}") from error
    except EntryNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cannot load {name!r} of {repo}: {error}. {remedy}") from error

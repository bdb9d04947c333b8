"""Find the files of a benchmark in a local folder or on the hub."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leakbound.errors import InputError, needing

DATA_VARIABLE = "LEAKBOUND_DATA"


@dataclass(frozen=True, slots=True)
class Source:
    """The files of one benchmark: in `folder`, or in `repo` on the hub if `folder` is None."""

    folder: Path | None
    repo: str

    def find(self, name: str) -> Path | None:
        """Return the file with this name; None if the source has no such file."""
        if self.folder is None:
            return _download(self.repo, name)
        path = self.folder / name
        return path if path.is_file() else None

    def get(self, name: str) -> Path:
        """Return the file with this name; raise InputError if it is missing."""
        path = self.find(name)
        if path is None:
            where = self.folder or f"{self.repo} on the hub"
            raise InputError(f"there is no file {name!r} in {where}. Check the name and `data`.")
        return path

    def choose(self, hub: str, local: Sequence[str]) -> Path:
        """Return the file with the name `hub`; a local file may have one of the names in `local`.

        Raises InputError, with all these names, if no such file exists.
        """
        if self.folder is None:
            return self.get(hub)
        for name in (hub, *local):
            if path := self.find(name):
                return path
        raise InputError(
            f"{self.folder} has no file {hub!r} (its name in {self.repo} on the hub), and no file "
            f"named {' or '.join(local[:3])}. Add such a file, or omit `data` to use the hub."
        )

    def origin(self, path: Path) -> str:
        """Return the origin of a file: its path, or the hub's repository with the revision."""
        if self.folder is not None:
            return str(path)
        parts = path.parts
        revision = parts[parts.index("snapshots") + 1] if "snapshots" in parts else "unknown"
        return f"hub:{self.repo}@{revision}"


def checked(data: str | Path | None, limit: int | None) -> Path | None:
    """Return the folder `data`; raise InputError if it is not a folder or the limit is below 1."""
    if limit is not None and limit < 1:
        raise InputError(f"`limit` must be at least 1, got {limit}. Omit it to use all rows.")
    if data is not None and not Path(data).is_dir():
        raise InputError(f"`data` must be an existing folder, got {str(data)!r}. Check the path.")
    return None if data is None else Path(data)


def open_source(data: Path | None, *, folder: str, repo: str) -> Source:
    """Return the source of a benchmark's files.

    `folder` is the usual name of the folder with the files. `data` is this folder or its parent.
    Without `data`, the source is the subfolder `folder` of the path in the environment variable
    LEAKBOUND_DATA; if there is no such subfolder, the source is `repo` on the hub.
    """
    parent = os.environ.get(DATA_VARIABLE)
    if data is None and (not parent or not (Path(parent) / folder).is_dir()):
        return Source(None, repo)
    root = data if data is not None else Path(str(parent))
    inside = root / folder
    return Source(inside if inside.is_dir() else root, repo)


def _download(repo: str, name: str) -> Path | None:
    remedy = f"Check the connection, or pass a local copy with `data` or {DATA_VARIABLE}."
    what = f"downloading {name!r} of {repo}"
    with needing(what, "models", ", or pass a local copy with `data`"):
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

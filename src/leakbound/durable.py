"""Write files and folders so that they survive a power cut.

When a function returns, its work is on disk. A rename may reach the disk before the bytes of the
renamed file; after a power cut, such a file contains zeros. So the functions first flush each file
and then the directory entries of its folder. Only then do they rename the folder and flush its new
name.
"""

from __future__ import annotations

import errno
import hashlib
import os
from contextlib import suppress
from pathlib import Path

_CANNOT = (errno.EINVAL, errno.ENOTSUP)  # errors of some network file systems for folders


def sync_file(file: Path) -> None:
    """Flush the bytes of a file to disk.

    Args:
        file: the file.
    """
    with file.open("rb+") as stream:
        os.fsync(stream.fileno())


def sync_names(folder: Path) -> None:
    """Flush the directory entries of a folder to disk. On Windows, do nothing.

    Args:
        folder: the folder.
    """
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Flush every file below a folder, and the file names in this folder and all subfolders.

    Args:
        folder: the folder.
    """
    for below, _, files in os.walk(folder, topdown=False):
        for name in files:
            sync_file(Path(below, name))
        sync_names(Path(below))


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file in the format of the command `sha256sum`."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_of(text: str) -> str:
    """Return the SHA-256 of a text. The text may contain unpaired surrogates."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def place(partial: Path, path: Path) -> None:
    """Rename a finished folder, so that its files and its new name survive a power cut.

    Args:
        partial: the folder.
        path: the new path.
    """
    sync_tree(partial)
    partial.rename(path)
    sync_names(path.parent)
    for above in path.absolute().parent.parents:  # some folders may be new
        with suppress(OSError):
            sync_names(above)

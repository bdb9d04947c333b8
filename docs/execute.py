"""Execute a notebook in a folder of its own: `python docs/execute.py NOTEBOOK EXECUTED`."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient


def execute(notebook: Path, out: Path) -> None:
    """Write the notebook with its outputs; an error in a cell ends it."""
    read = nbformat.read(notebook, as_version=4)
    with TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(read, timeout=1800, kernel_name="python3", resources=resources).execute()
    out.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(read, out)


if __name__ == "__main__":
    execute(Path(sys.argv[1]), Path(sys.argv[2]))

"""What a certificate rests on: fingerprints of what was run, digests of files, and the code."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import leakbound
from leakbound.evaluation.scoring.score import slug
from leakbound.scorers import digest, settings
from leakbound.store import Arm, Run, sha256
from leakbound.store.identity import spec_object
from leakbound.types import JsonObject, Scorer, object_of


def made_from(run: Run, arm: Arm, scorer: Scorer) -> JsonObject:
    """Fingerprints of the questions, of the model and its draws as planned, and of the scorer.

    No text of the data set is in it.
    """
    return {
        **run.record.questions,
        "arm": {k: v for k, v in spec_object(arm.spec).items() if k != "machine"},
        "identity": arm.identity,
        "scorer": object_of({**settings(scorer), "digest": digest(scorer)}),
    }


def file_digests(run: Run, arm: Arm, scorer: Scorer) -> dict[str, str]:
    """SHA-256 of every file that the arm's estimates rest on, by its path within the run.

    And of what else lies there as a part of it: nothing rests on that, and nobody should wonder.
    """
    strays = sorted(arm.folder.glob("*/part-*.parquet"))
    files = dict.fromkeys([*run.question_files, *arm.files(slug(scorer)), *strays])
    return {file.relative_to(run.path).as_posix(): sha256(file) for file in files}


@cache
def code() -> dict[str, str]:
    """The version of leakbound, and SHA-256 over its Python files."""
    root = Path(leakbound.__file__).parent
    total = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        total.update(f"{file.relative_to(root).as_posix()} {sha256(file)}\n".encode())
    return {"version": leakbound.__version__, "sha256": total.hexdigest()}

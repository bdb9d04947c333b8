"""A run that an earlier version drew weighted draws for: they are left alone, all else stands."""

from __future__ import annotations

from pathlib import Path

from leakbound.evaluation import bound_run, scorers_for
from leakbound.store import load
from leaky import leaky_run


def test_a_run_with_weighted_draws_opens_and_has_the_same_bounds(tmp_path: Path) -> None:
    run = leaky_run(tmp_path / "run")
    before = [row.to_dict() for row in run.estimates]
    weighed = run.path / "arms" / "target" / "weighed"
    weighed.mkdir()
    (weighed / "keyword-0123.parquet").write_bytes(b"as an earlier version wrote it")
    opened = load(run.path)
    (note,) = opened.notes
    assert note.startswith(f"`{weighed}` holds weighted draws, which are not read any more")
    assert [row.to_dict() for row in opened.estimates] == before
    (run.path / "estimates.parquet").unlink()
    bound_run(opened, scorers_for(["keyword"], ()))
    assert [row.to_dict() for row in opened.estimates] == before

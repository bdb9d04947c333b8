"""Statements about a method: medians over runs of models that were trained from several seeds."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from canned import LEAK, SpyEngine, benchmark_of
from cli.commands import done
from leakbound.errors import InputError, MixError
from leakbound.evaluation import evaluate
from leakbound.presenting.comparing import compare_methods
from leakbound.store import Run

TASK = benchmark_of(("0", "1"), answer=LEAK, keywords=("hush",))
LEAKS = {"npo": (0.3, 0.5, 0.4, 0.35, 0.6, 0.45), "rmu": (0.1, 0.05, 0.12, 0.02, 0.08)}


def made(folder: Path, label: str, leak: float, *, control: bool = True, **how: Any) -> Run:
    engine = SpyEngine(lambda query, decoding: leak, name=str(how.pop("name", label)))
    clean = SpyEngine(lambda query, decoding: 0.01, name="c") if control else None
    return evaluate(engine, TASK, out=folder / label, control=clean, n=64, **how)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Run]:
    folder = tmp_path_factory.mktemp("methods")
    return {
        f"{method}-{seed}": made(folder, f"{method}-{seed}", leak)
        for method, leaks in LEAKS.items()
        for seed, leak in enumerate(leaks)
    }


def test_five_seeds_bound_a_median_below_six_on_both_sides(runs: Mapping[str, Run]) -> None:
    got = compare_methods(runs)
    assert (got.excess, got.confidence) == (True, 0.95)
    npo, rmu = got.medians.where(scorer="keyword")
    assert (npo.arm, rmu.arm) == ("npo", "rmu")
    assert (npo.estimate.side, rmu.estimate.side) == ("both", "lower")
    assert (npo.about.seeds, rmu.about.seeds) == (6, 5)
    for one, leaks in zip((npo, rmu), LEAKS.values(), strict=True):
        values = np.array(got.seeds(one))
        assert np.abs(values - np.array(leaks) + 0.01).max() < 0.17
        assert one.value == pytest.approx(np.median(values))
        assert one.lower < values.min()
    assert values.max() < 0.2
    assert 0.15 < npo.lower < npo.upper < 0.8
    (table,) = got.tables()
    assert [row[:2] for row in table.texts] == [("rmu", "5"), ("npo", "6")]
    rows = list(csv.DictReader(io.StringIO(got.written("csv"))))
    assert [row["arm"] for row in rows] == ["npo", "rmu"]
    assert '"beyond": "control"' in json.dumps(got.to_dict())


def test_what_is_no_method_is_refused(runs: Mapping[str, Run], tmp_path: Path) -> None:
    some = {label: runs[label] for label in ("npo-0", "npo-1", "npo-2")}
    with pytest.raises(InputError, match=r"3 seeds cannot bound a median at 95 %: .* at least 5"):
        compare_methods(some)
    again = made(tmp_path, "npo-9", 0.3, name="npo-0", seed=1)
    with pytest.raises(MixError, match="'npo-0' and 'npo-9' of the method 'npo' evaluate the"):
        compare_methods({**runs, "npo-9": again})
    alone = made(tmp_path / "alone", "npo-9", 0.3, control=False)
    with pytest.raises(MixError, match=r"no control for 'npo-9'"):
        compare_methods({**runs, "npo-9": alone})
    with pytest.raises(MixError, match="not evaluated under the stress 'shots'"):
        compare_methods(runs, under="shots")


def test_on_the_command_line(runs: Mapping[str, Run]) -> None:
    words = ["compare", *(runs[f"rmu-{i}"].path for i in range(5)), "--by", "method"]
    assert "methods, sorted by their median excess over the control" in done(*words).out

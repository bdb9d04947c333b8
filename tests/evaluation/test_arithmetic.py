"""A run goes on in the way of computing in which it was begun, to the last bit."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from test_workers import FakeCluster

from contents import contents
from leakbound.engines import products
from leakbound.engines.hf import TransformersEngine
from leakbound.engines.prefix_cache import FAST, PLAIN
from leakbound.evaluation import evaluate
from leakbound.store import Run
from leakbound.store.identity import spec_object
from leakbound.study import Explore, ModelSettings, Prove
from leakbound.types import PLAIN_ARITHMETIC, Decoding
from tiny import tiny_model_folder

HOW = {
    "drawn": {"n": 300},
    "explored": {"sampling": Explore("hybrid", 60)},
    "proved": {"n": 64, "prove": Prove(60)},
}


@pytest.mark.parametrize(
    ("how", "by"),
    [*((how, "alone") for how in HOW), *((how, "workers") for how in ("drawn", "proved"))],
)
def test_what_was_begun_in_the_plain_way_goes_on_in_it(
    how: str, by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record says none, as those of runs that were begun when there was no other way."""
    monkeypatch.setattr(products, "_LEAST", 1)
    questions = tmp_path / "mine.csv"
    questions.write_text("question,answer\nwho wrote red,Ann\ngreen sky,red\n")
    model, workers = str(tiny_model_folder(tmp_path / "model")), None

    def run(out: str) -> Run:
        asked: dict[str, Any] = {"scorers": ("contains",), "decodings": Decoding(max_new_tokens=5)}
        settings = ModelSettings(device="cpu")
        return evaluate(
            model, f"csv:{questions}", out=tmp_path / out, settings=settings, workers=workers,
            **asked, **HOW[how],
        )  # fmt: skip

    with monkeypatch.context() as before:
        before.setattr(TransformersEngine, "arithmetic", PLAIN.name)
        plain = run("plain")
    fast = run("fast")
    assert {arm.spec.arithmetic for arm in plain.arms.values()} == {PLAIN_ARITHMETIC}
    assert not any("arithmetic" in spec_object(arm.spec) for arm in plain.arms.values())
    assert {arm.spec.arithmetic for arm in fast.arms.values()} == {FAST.name}
    assert contents(fast) != contents(plain)
    shutil.copytree(plain.path, tmp_path / "lost")
    for kind in ("part-*.parquet", "proofs", "scores"):
        for lost in [*(tmp_path / "lost").rglob(kind)]:
            shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
    if by == "workers":
        workers = FakeCluster()
        assert contents(run("hired")) == contents(fast)
    again = run("lost")
    assert {arm.spec.arithmetic for arm in again.arms.values()} == {PLAIN_ARITHMETIC}
    assert contents(again) == contents(plain)

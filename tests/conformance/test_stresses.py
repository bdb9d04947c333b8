"""Every stress keeps the promises of its family; a new one adds a row."""

from __future__ import annotations

from pathlib import Path

import pytest

from canned import SpyEngine, books
from leakbound.errors import InputError
from leakbound.stress import STRESSES, USUAL, Bench, Stress, named_stress, stresses_of
from leakbound.study import ModelSettings
from tiny import tiny_model_folder

# By name: the specification with all defaults, and whether it changes the model.
ROWS = {
    "dialogue": ("dialogue", False),
    "opener": ("opener:2", False),
    "openers": ("openers", False),
    "prune": ("prune:0.25", True),
    "relearn": ("relearn:retain=3,epochs=2,rate=0.001", True),
    "round": ("round:nf4", True),
    "shots": ("shots:2", False),
    "test-frame": ("test-frame", False),
}


BENCH = Bench(task=books(("0", "1")), settings=ModelSettings(device="cpu"))


@pytest.fixture(params=ROWS)
def named(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def opened(named: str) -> tuple[Stress, ...]:
    return stresses_of([ROWS[named][0]])


def test_every_stress_has_a_row() -> None:
    assert set(ROWS) == set(STRESSES)
    assert {spec.partition(":")[0] for spec in USUAL} <= set(STRESSES)


def test_its_spec_makes_it_again(named: str) -> None:
    for stress in opened(named):
        assert stresses_of([stress.spec]) == (stress,)
        assert named_stress(stress.spec) == stress.spec
        assert not set(stress.spec) & set("/\\")


def test_it_has_one_query_per_prompt_or_none(named: str) -> None:
    ids = [prompt.id for prompt in BENCH.task.prompts]
    for stress in opened(named):
        queries = stress.queries(BENCH)
        assert stress.queries(BENCH) == queries
        assert [query.id for query in queries] in ([], ids)
        assert [query.prompt_id for query in queries] in ([], ids)


def test_it_makes_another_model_in_the_folder_or_leaves_it(named: str, tmp_path: Path) -> None:
    model, out = tiny_model_folder(tmp_path / "model"), tmp_path / "out"
    for stress in opened(named):
        stress.require(BENCH, str(model))
        made = stress.model(BENCH, str(model), out)
        assert (made == str(out), out.is_dir()) == (ROWS[named][1],) * 2
        assert made == str(out) or made == str(model)
        engine = SpyEngine(lambda query, decoding: 0.4)
        other = stress.engine(BENCH, engine) is not engine
        assert stress.queries(BENCH) or made != str(model) or other, "it does nothing"
        before = sorted((file.name, file.stat().st_mtime_ns) for file in out.glob("*"))
        assert stress.model(BENCH, str(model), out) == made, "made twice"
        assert before == sorted((file.name, file.stat().st_mtime_ns) for file in out.glob("*"))


def test_it_refuses_to_change_weights_that_are_not_local(named: str) -> None:
    engine = SpyEngine(lambda query, decoding: 0.4)
    for stress in opened(named):
        for model in (engine, "openai:http://localhost:1/v1#m", "m.gguf"):
            if ROWS[named][1]:
                with pytest.raises(InputError, match=f"{stress.spec!r} changes weights, but"):
                    stress.require(BENCH, model)
            else:
                stress.require(BENCH, model)

"""Notes of a training: a push without effect on any question, steps lost to rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from rows import FORGET, log, train, weights

from leakbound.engines.loading import load_model
from leakbound.engines.prompting import Prompting
from leakbound.losses.contrastive import mean_distance
from leakbound.text.shown import share
from leakbound.types import Headway
from leakbound.unlearning import Adapters, Trained, Weights
from leakbound.unlearning.work_folder import DISTANCE, MOVED, PUSHED


def watched(base: str, out: Path, *how: Any, **settings: Any) -> tuple[Trained, list[str]]:
    shown: list[Headway] = []
    done = train(base, out, *how, progress=shown.append, epochs=1, **settings)
    notes = [now.note for now in shown if now.note]
    assert done.notes == tuple(notes)
    assert all(f"Note: {note}" in (out / "README.md").read_text() for note in notes)
    return done, notes


def apart(base: str, row: Any) -> float:
    """Return the mean squared difference of layer 0's outputs at a question and at its centres."""
    loaded = load_model(base)

    def states(text: str) -> torch.Tensor:
        ids, (start, end) = Prompting().locate(loaded.tokenizer, text)
        got = loaded.model(torch.tensor([ids]), output_hidden_states=True)
        return got.hidden_states[1][0, start:end].detach()

    centres = tuple(map(states, (row.question, *row.paraphrases)))
    return float(mean_distance(centres[0], centres))


def test_a_push_on_no_question_is_stated_with_the_distance(base: str, tmp_path: Path) -> None:
    far = [apart(base, row) for row in FORGET]
    mean, near = sum(far) / len(far), min(far)
    done, (note,) = watched(base, tmp_path / "m", f"cel:layer=0,tau={near * 0.99}")
    assert "is 0 for every question" in note
    assert f"is {mean:.3g}, and tau" in note
    assert f"Set tau={2 * mean:.2g}" in note
    first = log(done.path)[0]
    assert (first[PUSHED], first["step"]) == (0, 0)
    assert first[DISTANCE] == pytest.approx(mean, rel=1e-4)
    again = train(base, tmp_path / "m", f"cel:layer=0,tau={near * 0.99}", epochs=1)
    assert (again.reused, again.notes) == (True, (note,))
    for name, setting, pushed in (
        ("some", f"tau={near * 1.01}", 1 / 3),
        ("all", f"tau={2 * mean:.2g}", 1.0),
        ("off", "alpha=0", None),
    ):
        done, notes = watched(base, tmp_path / name, f"cel:layer=0,{setting}")
        assert not notes
        assert log(done.path)[0].get(PUSHED) == (pushed and pytest.approx(pushed))


@pytest.mark.parametrize(
    "chosen",
    [Weights(), Weights(modules=("down_proj",)), Weights(adapters=Adapters(rank=2))],
    ids=["all", "modules", "adapters"],
)
def test_moved_weights_are_counted_in_16_bits(base: str, tmp_path: Path, chosen: Weights) -> None:
    load_model(base, dtype="bfloat16").model.save_pretrained(tmp_path / "half")
    load_model(base).tokenizer.save_pretrained(tmp_path / "half")
    how = {"weights": chosen, "dtype": "bfloat16", "learning_rate": 1e-4}
    done, (note,) = watched(str(tmp_path / "half"), tmp_path / "m", "ga", **how)
    before, after = weights(tmp_path / "half"), weights(done.path)
    ends = ("down_proj.weight",) if chosen.modules else ("",)
    ends = ("_proj.weight",) if chosen.adapters else ends
    names = [name for name in before if name.endswith(ends)]
    moved = sum(int((before[name] != after[name]).sum()) for name in names)
    fraction = moved / sum(before[name].numel() for name in names)
    assert 0 < fraction < 0.9
    assert log(done.path)[-1][MOVED] == pytest.approx(fraction)
    assert f"training changed {share(fraction)} of the trained weights" in note

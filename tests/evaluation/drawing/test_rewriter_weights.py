"""A rewriter that lies in a folder is known by what is in it, not by where it lies."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_asked_inputs import FEW, benchmark, engine

from leakbound.errors import MixError
from leakbound.evaluation import evaluate
from leakbound.study import Rewritings
from tiny import WORDS, tiny_llama, tiny_tokenizer

TEMPLATE = "{% for turn in messages %}{{ turn['content'] }} {% endfor %}"


def rewriter(folder: Path, seed: int) -> Path:
    """A small chat model, in place of the one that is there."""
    tokenizer = tiny_tokenizer(WORDS, chat_template=TEMPLATE)
    tiny_llama(len(tokenizer), seed, max_position_embeddings=512).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("engine_named", ["", "transformers:"])
def test_another_rewriter_in_its_place_is_noticed_when_a_run_goes_on(
    engine_named: str, tmp_path: Path
) -> None:
    folder, out = rewriter(tmp_path / "rewriter", 1), tmp_path / "run"
    inputs = Rewritings(f"model:{engine_named}{folder}", queries=2)
    first = evaluate(engine(), benchmark(), out=out, rewritings=inputs, **FEW)
    assert first.arms["target"].spec.model == "CannedEngine"  # and not the rewriter
    (folder / "checkpoint-1").mkdir()
    (folder / "checkpoint-1" / "optimizer.pt").write_bytes(b"nothing that loading reads")
    again = evaluate(engine(), benchmark(), out=out, rewritings=inputs, **FEW)
    assert again.estimates == first.estimates
    rewriter(folder, 2)
    with pytest.raises(MixError, match="inputs"):
        evaluate(engine(), benchmark(), out=out, rewritings=inputs, **FEW)

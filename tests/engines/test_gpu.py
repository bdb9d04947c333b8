"""The engine on a CUDA device against the CPU: one law, float32 apart."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from leakbound.engines import Prompting
from leakbound.engines.hf import TransformersEngine
from leakbound.engines.prefix_cache import CachedModel
from leakbound.types import Decoding, Draws, Query, Sample
from tiny import tiny_model_folder

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def test_log_probabilities_agree_with_the_cpu(tmp_path: Path) -> None:
    folder = str(tiny_model_folder(tmp_path / "m"))
    query = Query(id="q", prompt_id="q", text="who wrote red")
    found = []
    for device in ("cpu", "cuda"):
        engine = TransformersEngine.open(folder, Prompting(), device=device)
        assert isinstance(engine._seam, CachedModel)
        (sample,) = engine.generate([query], Decoding(max_new_tokens=4), Draws(sizes=(2000,)))
        assert isinstance(sample, Sample)
        found.append({c.token_ids: c for c in sample.completions})
    shared = set(found[0]) & set(found[1])
    assert len(shared) > 0.9 * len(found[0])
    for ids in shared:
        assert found[0][ids].logprob == pytest.approx(found[1][ids].logprob, abs=1e-3)

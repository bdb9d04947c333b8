"""The engine on a CUDA device against the CPU: one distribution, up to float32 rounding."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from leakbound.engines import Prompting
from leakbound.engines.branching import prefix_model
from leakbound.engines.hf import TransformersEngine
from leakbound.engines.prefix_cache import ALWAYS, CachedModel, Cascade
from leakbound.sampling import Forest, OutputTree, Root
from leakbound.types import Decoding, Draws, Query
from tiny import tiny_llama, tiny_model_folder

VOCAB = 61
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def test_log_probabilities_agree_with_the_cpu(tmp_path: Path) -> None:
    folder = str(tiny_model_folder(tmp_path / "m"))
    query = Query(id="q", prompt_id="q", text="who wrote red")
    got = []
    for device in ("cpu", "cuda"):
        engine = TransformersEngine.open(folder, Prompting(), device=device)
        assert isinstance(engine._seam, CachedModel)
        (sample,) = engine.generate([query], Decoding(max_new_tokens=4), Draws(sizes=(2000,)))
        got.append({c.token_ids: c for c in sample.completions})
    shared = set(got[0]) & set(got[1])
    assert len(shared) > 0.9 * len(got[0])
    for ids in shared:
        assert got[0][ids].logprob == pytest.approx(got[1][ids].logprob, abs=1e-3)


def logits_of(model: Any, cascade: Cascade | None) -> torch.Tensor:
    """Return the logits after 60 rows of two long prompts, two tokens later."""
    seam = CachedModel(model, frozenset(), cascade)
    roots, _ = seam.prefill([[i % VOCAB for i in range(1, n)] for n in (90, 70)])
    handles, logits = np.repeat(roots, 30), torch.empty(0)
    for step in range(2):
        tokens = (np.arange(60) + step) % VOCAB
        handles, logits = seam.extend(handles, tokens, np.full(60, step > 0))
    return logits.double().cpu()


@pytest.mark.parametrize(("dtype", "far"), [(torch.float32, 1e-3), (torch.bfloat16, 0.1)])
def test_prompts_read_once_on_the_device_are_as_on_the_cpu(dtype: torch.dtype, far: float) -> None:
    model = tiny_llama(VOCAB, max_position_embeddings=128)
    want = logits_of(model, None)
    assert (logits_of(model.to("cuda", dtype), ALWAYS) - want).abs().max() < far


def test_waits_of_the_host_grow_with_no_rows_or_layers() -> None:
    got = []
    for layers, n in ((2, 40), (2, 600), (6, 600)):
        model = tiny_llama(VOCAB, num_hidden_layers=layers, max_position_embeddings=128)
        seam, _ = prefix_model(model.to("cuda"), frozenset())
        forest = Forest(OutputTree(seam, Decoding(max_new_tokens=4), rows=4096), Draws(sizes=(n,)))
        root = Root("q", tuple(i % VOCAB for i in range(90)))
        list(forest.sample([root]))  # waits at the first use do not count
        with warnings.catch_warnings(record=True) as waits:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")  # the mode itself warns, once per process
            try:
                list(forest.sample([root]))
            finally:
                torch.cuda.set_sync_debug_mode("default")
        got.append(sum("called a synchronizing" in str(each.message) for each in waits))
    assert len(set(got)) == 1
    assert 0 < got[0] <= 12 * 4

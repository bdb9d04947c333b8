"""The vLLM engine over vLLM itself, if that is installed: `make test-engines`."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakbound.engines import Prompting, open_engine
from leakbound.engines.vllm import VllmEngine
from leakbound.testing import check_engine
from leakbound.types import Decoding, Draws, Query
from suites import counts_of, law_by_draws, require_fit
from tiny import are_tied, tiny_model_folder

pytest.importorskip("vllm")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
PROMPTING = Prompting(template="Question: {question} Answer: ")
QUERIES = [Query(id=f"q{i}", prompt_id=f"q{i}", text=text) for i, text in enumerate(["red", "sea"])]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, embeddings: None) -> Path:
    folder = tmp_path_factory.mktemp("vllm") / "model"
    # Heads as wide as vLLM's kernels require.
    return tiny_model_folder(folder, initializer_range=0.3, hidden_size=64, head_dim=32)


@pytest.fixture(scope="module")
def engine(model: Path) -> VllmEngine:
    share = 0.3 if are_tied() else 0.15  # the second engine counts the memory of the first one
    made = open_engine(f"vllm:{model}?gpu_memory_utilization={share}", PROMPTING)
    assert isinstance(made, VllmEngine)
    return made


def test_every_promise_is_kept(engine: VllmEngine) -> None:
    check_engine(engine, QUERIES, max_new_tokens=4)


@pytest.mark.parametrize(
    "decoding",
    [
        Decoding(max_new_tokens=3),
        Decoding(max_new_tokens=3, temperature=0.6),
        Decoding(max_new_tokens=3, temperature=1.5, top_k=5, top_p=0.8),
        Decoding(max_new_tokens=3, stop=("sky",)),
    ],
    ids=lambda decoding: decoding.name,
)
def test_it_draws_the_forests_distribution(
    decoding: Decoding, engine: VllmEngine, model: Path
) -> None:
    """Chi-square of 4,000 draws against fractions from a million draws of the forest."""
    plain = open_engine(str(model), PROMPTING)
    for sample in engine.generate(QUERIES, decoding, Draws(sizes=(4000,))):
        expected = law_by_draws(plain, sample.query, decoding)
        assert len([p for p in expected.values() if p * 4000 >= 10]) > 1
        drawn = {text: n for text, n in counts_of(sample).items() if text in expected}
        require_fit(drawn, expected, level=1e-6)

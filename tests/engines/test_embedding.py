"""Vectors of texts: what they are means of, and what is said of wrong use."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from transformers import MambaConfig, MambaForCausalLM

from leakbound.engines.embedding import SentenceEmbedder, TransformersEmbedder
from leakbound.engines.prompting import Prompting
from leakbound.errors import InputError, ModelError
from tiny import tiny_llama, tiny_loaded, tiny_tokenizer

TEXTS = ["who wrote red", "sea", "who wrote blue sky", "Ann"]
PLAIN = Prompting(template="Question: {question} Answer: ")


def test_the_mean_is_over_the_questions_own_tokens() -> None:
    model = tiny_loaded()
    found = TransformersEmbedder(model, PLAIN, batch_size=3).embed(TEXTS)
    assert found.shape == (4, 16)
    assert found.dtype == np.float32
    for text, vector in zip(TEXTS, found, strict=True):
        ids = torch.tensor([PLAIN.encode(model.tokenizer, text)])
        with torch.no_grad():
            last = model.model(ids, output_hidden_states=True).hidden_states[-1][0]
        expected = last[1:-1].mean(0)  # without "Question:" and "Answer:"
        np.testing.assert_allclose(vector, expected.numpy(), rtol=1e-4, atol=1e-6)


def test_texts_are_apart_in_a_batch_of_another_family() -> None:
    config = MambaConfig(vocab_size=len(tiny_tokenizer()), hidden_size=16, num_hidden_layers=1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = tiny_loaded(MambaForCausalLM(config).eval(), None)
    together = TransformersEmbedder(model, PLAIN).embed(TEXTS)
    alone = TransformersEmbedder(model, PLAIN, batch_size=1).embed(TEXTS)
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-6)


def test_half_precision_weights_give_single_precision_vectors() -> None:
    model = tiny_loaded(tiny_llama(len(tiny_tokenizer())).to(torch.bfloat16))
    assert TransformersEmbedder(model, PLAIN).embed(TEXTS).dtype == np.float32


def test_a_text_longer_than_the_context_is_refused() -> None:
    fits = TransformersEmbedder(tiny_loaded(context=4), PLAIN)
    assert len(fits.embed(["who wrote red"])) == 1  # with "Question:"
    with pytest.raises(InputError, match=r"1 to 4 tokens .* got 4 after 1: 'who wrote red sky'"):
        fits.embed(["who wrote red sky"])


class FakeSentences:
    """What is used of sentence_transformers.SentenceTransformer."""

    def __init__(self, location: str, **settings: Any) -> None:
        if location == "none":
            raise OSError("no such model\nand more")
        self.settings = settings

    def encode(self, texts: list[str], **settings: Any) -> Any:
        assert settings == {"show_progress_bar": False, "convert_to_numpy": True}
        return np.array([[len(text), 1.0] for text in texts])


def test_sentence_models(monkeypatch: pytest.MonkeyPatch) -> None:
    library = ModuleType("sentence_transformers")
    library.SentenceTransformer = FakeSentences  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    embedder = SentenceEmbedder.open("mini", "cpu")
    assert embedder.name == "sentence-transformers:mini"
    assert embedder.model.settings == {
        "device": "cpu",
        "trust_remote_code": False,
        "model_kwargs": {"use_safetensors": True},
    }
    found = embedder.embed(("ab", "c"))
    assert found.tolist() == [[2.0, 1.0], [1.0, 1.0]]
    assert found.dtype == np.float32
    with pytest.raises(ModelError, match="'none' cannot be loaded: no such model Name"):
        SentenceEmbedder.open("none")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(
        InputError, match=r"'mini' needs sentence_transformers.*pip install '\.\[embed\]'"
    ):
        SentenceEmbedder.open("mini")

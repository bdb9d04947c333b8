"""Vectors of texts: what they are means of, and what is said of wrong use."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertModel, MambaConfig, MambaForCausalLM

from leakbound.engines.embedding import SentenceEmbedder, TransformersEmbedder
from leakbound.engines.models import OpenModels
from leakbound.engines.prompting import Prompting
from leakbound.errors import InputError, ModelError
from leakbound.study import Rewritings
from tiny import tiny_bert_config, tiny_llama, tiny_loaded, tiny_tokenizer

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
    models = OpenModels(device="auto")
    a, b = (models.embed(name) for name in ("mini-a", "mini-b"))
    assert a is models.embed("mini-a") is not b
    assert a.model.settings["device"] is None  # type: ignore[attr-defined]
    told = OpenModels(device="cpu").embed("mini-a")
    assert told.model.settings["device"] == "cpu"  # type: ignore[attr-defined]


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(
        InputError, match=r"'mini' needs sentence_transformers.*pip install '\.\[embed\]'"
    ):
        SentenceEmbedder.open("mini")


library = pytest.importorskip("sentence_transformers")

SENTENCES = ["who wrote red", "sea", "who wrote blue sky Ann Bob green sea red sky", "Ann"]
# Warnings of the library about its own old names.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Transformer, mean pooling and a norm of 1, with a prompt of its own."""
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    folder = tmp_path_factory.mktemp("sentences")
    tokenizer = tiny_tokenizer(cls_token="<unk>", sep_token="</s>", mask_token="<pad>")
    config = tiny_bert_config(len(tokenizer))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder / "bert")
    tokenizer.save_pretrained(folder / "bert")
    parts = [Transformer(str(folder / "bert")), Pooling(16, pooling_mode="mean"), Normalize()]
    parts[0].max_seq_length = 32
    prompts = {"query": "who ", "passage": "sea "}
    model = library.SentenceTransformer(modules=parts, prompts=prompts, device="cpu")
    model.save(str(folder / "whole"), create_model_card=False)
    return folder / "whole"


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "mine"))


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def weights(folder: Path) -> None:
    file = folder / "model.safetensors"
    tensors = {name: tensor + 0.1 for name, tensor in load_file(file).items()}
    save_file(tensors, file, metadata={"format": "pt"})


def config(folder: Path) -> None:
    edit(folder / "config.json", layer_norm_eps=0.5)


def pooling(folder: Path) -> None:
    edit(folder / "1_Pooling" / "config.json", pooling_mode="max")


def norm(folder: Path) -> None:
    file = folder / "modules.json"
    file.write_text(json.dumps(json.loads(file.read_text())[:-1]))


def prompt(folder: Path) -> None:
    edit(folder / "config_sentence_transformers.json", default_prompt_name="query")


def length(folder: Path) -> None:
    edit(folder / "tokenizer_config.json", model_max_length=4)


def words(folder: Path) -> None:
    file = folder / "tokenizer.json"
    values = json.loads(file.read_text())
    known = values["model"]["vocab"]
    known["red"], known["blue"] = known["blue"], known["red"]
    file.write_text(json.dumps(values))


CHANGES = (weights, config, pooling, norm, prompt, length, words)


@pytest.mark.parametrize("change", CHANGES)
def test_what_decides_a_vector_is_in_the_fingerprint(
    change: Callable[[Path], None], folder: Path
) -> None:
    before = SentenceEmbedder.open(str(folder), "cpu")
    told, vectors = before.fingerprint, before.embed(SENTENCES)
    change(folder)
    after = SentenceEmbedder.open(str(folder), "cpu")
    assert np.abs(after.embed(SENTENCES) - vectors).max() > 1e-3  # it does decide
    assert after.fingerprint != told


def test_the_same_model_elsewhere_has_the_same_fingerprint_used_or_not(folder: Path) -> None:
    one, other = (
        SentenceEmbedder.open(str(where), "cpu")
        for where in (folder, shutil.copytree(folder, folder.parent / "elsewhere"))
    )
    one.embed(SENTENCES)  # which sets how long the tokenizer makes texts
    assert one.fingerprint == other.fingerprint
    other.model.bfloat16()
    del other.__dict__["fingerprint"]  # it is computed once
    assert other.fingerprint["weights"] != one.fingerprint["weights"]
    assert json.loads(json.dumps(one.fingerprint)) == one.fingerprint


def test_a_change_in_a_folder_below_opens_it_anew(folder: Path) -> None:
    models = OpenModels(device="cpu")
    before = models.embed(str(folder))
    assert models.embed(str(folder)) is before
    pooling(folder)
    assert models.embed(str(folder)) is not before


def test_a_run_tells_the_embedder_of_its_inputs_by_its_files(folder: Path) -> None:
    asked = Rewritings("rules", embedder=str(folder), similarity=0.5)
    before = asked.fingerprint
    assert asked.fingerprint == before
    pooling(folder)
    assert asked.fingerprint != before

"""A model of sentence-transformers, really loaded: equal fingerprints, equal vectors."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertModel

from leakbound.engines.embedding import SentenceEmbedder
from leakbound.engines.models import OpenModels
from leakbound.study import Rewritings
from tiny import tiny_bert_config, tiny_tokenizer

library = pytest.importorskip("sentence_transformers")

TEXTS = ["who wrote red", "sea", "who wrote blue sky Ann Bob green sea red sky", "Ann"]
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
    told, vectors = before.fingerprint, before.embed(TEXTS)
    change(folder)
    after = SentenceEmbedder.open(str(folder), "cpu")
    assert np.abs(after.embed(TEXTS) - vectors).max() > 1e-3  # it does decide
    assert after.fingerprint != told


def test_the_same_model_elsewhere_has_the_same_fingerprint_used_or_not(folder: Path) -> None:
    one, other = (
        SentenceEmbedder.open(str(where), "cpu")
        for where in (folder, shutil.copytree(folder, folder.parent / "elsewhere"))
    )
    one.embed(TEXTS)  # which sets how long the tokenizer makes texts
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

"""Models that are none to sample from, and files that are cut short."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertForMaskedLM, BertLMHeadModel

from leakbound.engines.loading import load_model
from leakbound.errors import ModelError
from tiny import BOTH_KINDS, tiny_bert_config, tiny_model_folder, tiny_tokenizer


def bert(folder: Path, kind: Any, **settings: Any) -> str:
    torch.manual_seed(0)
    tokenizer = tiny_tokenizer()
    config = tiny_bert_config(len(tokenizer), **settings)
    kind(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_masked_language_model_is_refused(dtype: str, tmp_path: Path) -> None:
    """transformers gives it a head that generates, and says nothing."""
    folder = bert(tmp_path / "bert", BertForMaskedLM)
    named = rf"`{folder}` is no causal language model \(BertForMaskedLM\).+left to right"
    with pytest.raises(ModelError, match=named):
        load_model(folder, dtype=dtype)


def test_one_that_hides_what_it_is_is_found_by_what_it_does(tmp_path: Path) -> None:
    folder = bert(tmp_path / "bert", BertLMHeadModel)
    with pytest.raises(ModelError, match=r"no causal language model \(BertLMHeadModel\)"):
        load_model(folder)


@BOTH_KINDS
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_causal_ones_are_not(dtype: str, tmp_path: Path) -> None:
    decoder = bert(tmp_path / "decoder", BertLMHeadModel, is_decoder=True)
    llama = str(tiny_model_folder(tmp_path / "llama"))
    for folder in (decoder, llama):
        assert load_model(folder, dtype=dtype).model.dtype == getattr(torch, dtype)


@BOTH_KINDS
def test_a_gguf_file_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    import numpy as np

    whole = tmp_path / "whole.gguf"
    writer = gguf.GGUFWriter(str(whole), "llama")
    writer.add_block_count(1)
    writer.add_embedding_length(16)
    writer.add_tensor("token_embd.weight", np.zeros((8, 16), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    content = whole.read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in (0, 3, 4, 10, 24, 40, 90, len(content) // 2, len(content) - 100):
        cut.write_bytes(content[:length])
        with pytest.raises(ModelError, match=rf"`{cut}` cannot be loaded: .+ Check the model's"):
            load_model(str(cut))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"weight_map": 3}',
        '{"weight_map": {"a": 3}}',
        '{"weight_map": {"a": "../../elsewhere.safetensors"}}',
        "[" * 100_000,
        "\x80",
    ],
    ids=range(9),
)
def test_a_damaged_index_of_shards_is_named(tmp_path: Path, text: str) -> None:
    folder = tiny_model_folder(tmp_path / "m")
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelError, match=f"`{index}` is no index of weights"):
        load_model(str(folder))

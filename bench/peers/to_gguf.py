"""A Llama folder of transformers as a GGUF file: float32, or its matrices as Q8_0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import load_file

KINDS = {"f32": gguf.GGMLQuantizationType.F32, "q8": gguf.GGMLQuantizationType.Q8_0}
FILE_TYPES = {"f32": gguf.LlamaFileType.ALL_F32, "q8": gguf.LlamaFileType.MOSTLY_Q8_0}


def write_gguf(folder: Path, path: Path, kind: str = "f32") -> Path:
    """Write the model of `folder` to `path`; returns it.

    Args:
        folder: a Llama's config.json, model.safetensors and, if there is one, tokenizer.json.
        path: the file to write; one that is there is kept.
        kind: `f32`, or `q8`: matrices in blocks of 32 weights of 8 bits, which is another law.
    """
    if path.exists():
        return path
    config = json.loads((folder / "config.json").read_text())
    if config["model_type"] != "llama":
        raise SystemExit(f"{folder} is a {config['model_type']}, and only a Llama is written here")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_file_type(FILE_TYPES[kind])
    _add_shape(writer, config)
    _add_tokens(writer, folder, config)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config["num_hidden_layers"])
    for name, tensor in load_file(folder / "model.safetensors").items():
        stored = KINDS[kind] if tensor.ndim == 2 else KINDS["f32"]
        array = _rotated(name, tensor.astype(np.float32), config)
        writer.add_tensor(
            names.get_name(name, try_suffixes=(".weight",)),
            gguf.quants.quantize(array, stored),
            raw_dtype=stored,
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_shape(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    rope = config.get("rope_parameters") or {"rope_theta": config.get("rope_theta", 10000.0)}
    if rope.get("rope_type", "default") != "default":
        raise SystemExit(f"rope_type {rope['rope_type']!r} is not written here")
    heads = config["num_attention_heads"]
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_dimension_count(config["hidden_size"] // heads)
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])


def _add_tokens(writer: gguf.GGUFWriter, folder: Path, config: dict[str, Any]) -> None:
    """The byte-level vocabulary; none where the folder has none, for token ids need no text."""
    file = folder / "tokenizer.json"
    if not file.is_file():
        writer.add_tokenizer_model("none")
        return
    stated = json.loads(file.read_text())
    special = {added["id"]: added["content"] for added in stated["added_tokens"]}
    known = {i: token for token, i in stated["model"]["vocab"].items()} | special
    every = range(config["vocab_size"])
    kinds = gguf.TokenType
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([known.get(i, f"<{i}>") for i in every])
    writer.add_token_types([int(kinds.CONTROL if i in special else kinds.NORMAL) for i in every])
    merges = stated["model"]["merges"]
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in merges])
    if config.get("eos_token_id") is not None:
        writer.add_eos_token_id(config["eos_token_id"])


def _rotated(name: str, tensor: np.ndarray, config: dict[str, Any]) -> np.ndarray:
    """Queries' and keys' rows in the order of GGUF, which turns neighbours and not halves."""
    if name.endswith("q_proj.weight"):
        heads = config["num_attention_heads"]
    elif name.endswith("k_proj.weight"):
        heads = config["num_key_value_heads"]
    else:
        return tensor
    return (
        tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, tensor.shape[1])
        .swapaxes(1, 2)
        .reshape(tensor.shape)
    )

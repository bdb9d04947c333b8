"""Texts as vectors: by the language model itself, or by a sentence-embedding model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from leakbound.engines.fingerprint import (
    code_digest,
    digest,
    rust_settings,
    settings_of,
    tokenizer_digest,
)
from leakbound.engines.loading import LoadedModel, quiet
from leakbound.engines.prompting import Prompting
from leakbound.errors import InputError, ModelError, needing
from leakbound.types import JsonObject

_SETTINGS = ("prompts", "default_prompt_name", "truncate_dim")


@dataclass(frozen=True, slots=True)
class TransformersEmbedder:
    """The mean of a causal model's last hidden states over a question's own tokens, in float32.

    The question stands in its prompt, the words of a template are left out.

    Attributes:
        loaded: the model.
        prompting: how questions become prompts.
        batch_size: texts that go together.
    """

    loaded: LoadedModel
    prompting: Prompting
    batch_size: int = 32

    @property
    def name(self) -> str:
        return "the model itself"

    @torch.no_grad()
    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed texts, each equal to what it is alone up to rounding.

        Args:
            texts: questions.

        Returns:
            One vector a text, [n, d], in float32.

        Raises:
            InputError: a question that has no token of its own, or more than the model's context.
        """
        read = [self._read(text) for text in texts]
        batches = [read[i : i + self.batch_size] for i in range(0, len(read), self.batch_size)]
        means = [mean for batch in batches for mean in self._means(batch)]
        vectors: NDArray[np.float32] = torch.stack(means).cpu().numpy()
        return vectors

    def _read(self, text: str) -> tuple[list[int], int]:
        """The prompt to the question's end, which is all its tokens see, and where it begins."""
        ids, (start, stop) = self.prompting.locate(self.loaded.tokenizer, text)
        most = self.loaded.context_length
        if stop == start or (most is not None and stop > most):
            raise InputError(
                f"a text to embed must have 1 to {most or 'any'} tokens with what stands before "
                f"it, got {stop - start} after {start}: {text[:60]!r}. Change or remove it."
            )
        return ids[:stop], start

    def _means(self, batch: Sequence[tuple[list[int], int]]) -> list[Tensor]:
        model = self.loaded.model
        texts = [torch.tensor(text) for text, _ in batch]
        ids, mask = (
            pad_sequence(rows, batch_first=True) for rows in (texts, [*map(torch.ones_like, texts)])
        )
        # Without the output head: logits over a whole vocabulary would outweigh all else.
        hidden = model.base_model(
            input_ids=ids.to(model.device), attention_mask=mask.to(model.device)
        ).last_hidden_state.float()
        return [hidden[row, start : len(text)].mean(0) for row, (text, start) in enumerate(batch)]


@dataclass(frozen=True)
class SentenceEmbedder:
    """A model of the library sentence-transformers.

    Attributes:
        location: a folder or a hub name.
        model: as the library loaded it.
    """

    location: str
    model: Any

    @classmethod
    def open(cls, location: str, device: str | None = None) -> SentenceEmbedder:
        """Load the model; no code of its own is run.

        Args:
            location: a folder or a hub name.
            device: as torch names it (None: the library's choice).

        Returns:
            The embedder.

        Raises:
            InputError: the library is not installed.
            ModelError: a model that cannot be used.
        """
        with needing(f"the embedder {location!r}", "embed", ", or name no embedder"):
            from sentence_transformers import SentenceTransformer
        safe = {"trust_remote_code": False, "model_kwargs": {"use_safetensors": True}}
        try:
            with quiet():
                model = SentenceTransformer(location, device=device, **safe)
        except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise ModelError(
                f"the embedder {location!r} cannot be loaded: {reason} "
                "Name a model of sentence-transformers, with safetensors weights."
            ) from error
        return cls(location, model)

    @property
    def name(self) -> str:
        return f"sentence-transformers:{self.location}"

    @cached_property
    def fingerprint(self) -> JsonObject:
        """The digests of what was loaded, wherever its files lie.

        Two equal ones embed alike, up to rounding.
        """
        parts = dict(self.model.named_modules())
        candidates = (getattr(part, "tokenizer", None) for part in parts.values())
        tokenizers = [tokenizer for tokenizer in candidates if tokenizer is not None]
        return {
            "weights": _tensors_digest(self.model.state_dict()),
            "parts": digest([[name, _setup(part)] for name, part in parts.items()]),
            "settings": digest({name: getattr(self.model, name, None) for name in _SETTINGS}),
            "tokenizer": digest([_words(tokenizer) for tokenizer in tokenizers]),
            "code": code_digest({type(part) for part in (*parts.values(), *tokenizers)}),
            "sentence_transformers": version("sentence-transformers"),
            "transformers": transformers.__version__,
            "torch": torch.__version__,
        }

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed texts.

        Args:
            texts: texts of any kind.

        Returns:
            One vector a text, [n, d], in float32.
        """
        vectors = self.model.encode(list(texts), show_progress_bar=False, convert_to_numpy=True)
        return np.asarray(vectors, dtype=np.float32)


def _tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    total = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        total.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        total.update(
            tensor.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()
        )
    return total.hexdigest()


def _setup(part: Any) -> list[Any]:
    """A module's class, and all that its library tells of how it was set."""
    own = getattr(part, "get_config_dict", None)  # a part of sentence-transformers
    config, adapters = getattr(part, "config", None), getattr(part, "peft_config", None) or {}
    return [
        f"{type(part).__module__}.{type(part).__qualname__}",
        part.extra_repr(),
        own() if own else None,
        getattr(part, "max_seq_length", None),
        settings_of(config) if hasattr(config, "to_dict") else None,
        {name: adapter.to_dict() for name, adapter in adapters.items()},
    ]


def _words(tokenizer: Any) -> Any:
    """A tokenizer of transformers, of tokenizers, or of sentence-transformers itself."""
    if hasattr(tokenizer, "special_tokens_map"):
        sides = (tokenizer.model_max_length, tokenizer.padding_side, tokenizer.truncation_side)
        return [tokenizer_digest(tokenizer), *sides]
    if hasattr(tokenizer, "to_str"):
        return rust_settings(tokenizer)
    own = vars(tokenizer).items()
    return sorted((k, sorted(v) if isinstance(v, set) else v) for k, v in own)

"""Embed texts as vectors, by the language model itself or by a sentence-embedding model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from huggingface_hub import try_to_load_from_cache
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from leakbound.engines.files import TOKENIZER_FORMS, first_line, named_digest
from leakbound.engines.loading import LoadedModel, quiet
from leakbound.engines.prompting import Prompting
from leakbound.errors import InputError, ModelError, needing
from leakbound.types import JsonObject

_MARKS = ("modules.json", "config.json")  # one of these files is at the top of a model's folder
# The files that sentence-transformers reads.
_FORMS = (
    *TOKENIZER_FORMS,
    *("modules.json", "config*.json", "sentence_*.json", "*.safetensors", "[0-9]*_*/**/*"),
)


@dataclass(frozen=True, slots=True)
class TransformersEmbedder:
    """The mean of a causal model's last hidden states over the tokens of a question, in float32.

    The model processes the complete prompt; the mean excludes the tokens of a chat template.

    Attributes:
        loaded: the model.
        prompting: how questions become prompts.
        batch_size: the number of texts in a batch.
    """

    loaded: LoadedModel
    prompting: Prompting
    batch_size: int = 32

    @property
    def name(self) -> str:
        return "the model itself"

    @torch.no_grad()
    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed texts as vectors; the other texts of a call change a vector only by rounding.

        Args:
            texts: questions.

        Returns:
            One vector per text, [n, d], in float32.

        Raises:
            InputError: a question without a token, or longer than the model's context.
        """
        read = [self._read(text) for text in texts]
        model, means = self.loaded.model, list[Tensor]()
        for first in range(0, len(read), self.batch_size):
            batch = read[first : first + self.batch_size]
            rows = [torch.tensor(ids) for ids, _ in batch]
            ids = pad_sequence(rows, batch_first=True).to(model.device)
            mask = pad_sequence([*map(torch.ones_like, rows)], batch_first=True).to(model.device)
            # without the output head, whose logits take most of the memory
            hidden = model.base_model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
            means += [hidden[i, start : len(ids)].mean(0) for i, (ids, start) in enumerate(batch)]
        vectors: NDArray[np.float32] = torch.stack(means).cpu().numpy()
        return vectors

    def _read(self, text: str) -> tuple[list[int], int]:
        """Return the prompt up to the question's end, and the index where the question begins."""
        ids, (start, stop) = self.prompting.locate(self.loaded.tokenizer, text)
        most = self.loaded.context_length
        if stop == start or (most is not None and stop > most):
            raise InputError(
                f"a text to embed must have at least 1 token, and at most {most or 'any number'} "
                f"including the {start} tokens of the embedder's prompt, got {stop - start} "
                f"tokens: {text[:60]!r}. Change this text."
            )
        return ids[:stop], start


@dataclass(frozen=True)
class SentenceEmbedder:
    """A model of the library sentence-transformers.

    Attributes:
        location: a folder or a hub name.
        model: the model of the library.
    """

    location: str
    model: Any

    @classmethod
    def open(cls, location: str, device: str | None = None) -> SentenceEmbedder:
        """Load the model; code that came with it is not run.

        Args:
            location: a folder or a hub name.
            device: a device of torch (None: the library's choice).

        Returns:
            The embedder.

        Raises:
            InputError: the library is not installed.
            ModelError: a model that cannot be used.
        """
        with needing(f"the embedder {location!r}", "embed", ", or omit the embedder"):
            from sentence_transformers import SentenceTransformer
        safe = {"trust_remote_code": False, "model_kwargs": {"use_safetensors": True}}
        try:
            with quiet():
                model = SentenceTransformer(location, device=device, **safe)
        except (OSError, ValueError, RuntimeError, KeyError, TypeError) as error:
            raise ModelError(
                f"the embedder {location!r} cannot be loaded: {first_line(error)} "
                "Use a model of sentence-transformers with safetensors weights."
            ) from error
        return cls(location, model)

    @property
    def name(self) -> str:
        return f"sentence-transformers:{self.location}"

    @cached_property
    def fingerprint(self) -> JsonObject:
        """The digest of the files, and the versions of the libraries.

        Models with equal fingerprints return the same vectors, up to rounding.
        """
        folder = Path(self.location).expanduser()
        if not folder.is_dir():  # the library adds its own name to a hub name without a slash
            names = (self.location, f"sentence-transformers/{self.location}")
            cache = os.environ.get("SENTENCE_TRANSFORMERS_HOME")
            marks = (try_to_load_from_cache(n, file, cache) for n in names for file in _MARKS)
            folder = next(Path(file).parent for file in marks if isinstance(file, str))
        files = {file for form in _FORMS for file in folder.glob(form) if file.is_file()}
        return {
            "files": named_digest(sorted(files)),
            "sentence_transformers": version("sentence-transformers"),
            "transformers": transformers.__version__,
            "torch": torch.__version__,
        }

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed texts as vectors.

        Args:
            texts: texts of any kind.

        Returns:
            One vector per text, [n, d], in float32.
        """
        vectors = self.model.encode(list(texts), show_progress_bar=False, convert_to_numpy=True)
        return np.asarray(vectors, dtype=np.float32)

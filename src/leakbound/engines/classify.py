"""Models that classify texts: sequence classifiers, and causal models that answer yes or no.

To add a kind of classifier, add a function `open(location, *, dtype, device) -> Classify` and a row
of `CLASSIFIERS`. Opening a classifier reads all files except the weights, which are loaded when the
first text is classified.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

from leakbound.engines.loading import Checkpoint, quiet
from leakbound.engines.prompting import bos_ids
from leakbound.errors import InputError, ModelError
from leakbound.types import Classify, JsonObject

Texts = Sequence[tuple[str, str | None]]
Encoded = dict[str, list[int]]

_NO_TOKEN = -1


@dataclass(frozen=True)
class SequenceClassifier:
    """A transformers model for sequence classification, with mutually exclusive labels.

    The model's tokenizer joins a pair of texts.

    Attributes:
        checkpoint: the model's files; the weights are not loaded yet.
        batch_size: the largest batch of rows of one length.
        most: the number of tokens that are used of a text or pair, see `truncated`. None: all
            tokens are used, and a text longer than the context has no probabilities.
    """

    checkpoint: Checkpoint
    batch_size: int = 32
    most: int | None = None

    @classmethod
    def open(cls, location: str, *, dtype: str = "float32", device: str = "auto") -> Classify:
        """Find the classifier; its weights are read when the first text is classified.

        Args:
            location: a folder or a hub name.
            dtype: the type of the weights: "float32" (default), "bfloat16", "float16", or "auto"
                (as stored).
            device: "cpu", "cuda", or "auto" (default): a GPU if there is one.

        Returns:
            The classifier.

        Raises:
            InputError: an unknown dtype or device.
            ModelError: the model is not a sequence classifier, or its labels are not mutually
                exclusive.
        """
        model = cls(Checkpoint.open(location, dtype=dtype, device=device))
        config = model.checkpoint.config
        made = config.architectures or ()
        if made and not any("SequenceClassification" in name for name in made):
            raise ModelError(
                f"`{location}` must be a sequence classifier, got {', '.join(made)}. Use another "
                "model, or let a causal model answer yes or no with `form=yes-no`."
            )
        kind = getattr(config, "problem_type", None) or "single_label_classification"
        if kind != "single_label_classification" or len(model.labels) < 2:
            raise ModelError(
                f"`{location}` ({kind}, labels {', '.join(model.labels)}) returns no probabilities "
                "of mutually exclusive labels. Use a classifier with two or more such labels."
            )
        return model

    @property
    def name(self) -> str:
        return self.checkpoint.location

    @cached_property
    def fingerprint(self) -> JsonObject:
        """A description of the model; classifiers with equal fingerprints return equal results."""
        return self.checkpoint.fingerprint

    @property
    def labels(self) -> tuple[str, ...]:
        named = self.checkpoint.config.id2label
        return tuple(str(named[i]) for i in sorted(named))

    def classify(self, texts: Texts) -> NDArray[np.float64]:
        """Return the probability of each label; see `Classify.classify`.

        Args:
            texts: each text with the second text of its pair (None: no second text).

        Returns:
            Probabilities, [n, labels], in the order of the texts. Other texts in the call change
            them only by rounding. They are NaN for a text longer than the model's context.

        Raises:
            ModelError: weights that cannot be read, or probabilities that are NaN or infinite.
        """
        tokenizer = self.checkpoint.tokenizer
        cut = {} if self.most is None else {"truncation": True, "max_length": self.most}
        with quiet():  # no warning about texts that are too long
            rows = [dict(tokenizer(text, second, **cut)) for text, second in texts]
        return _classified(self, rows)

    def truncated(self, tokens: int) -> SequenceClassifier:
        """Return a classifier that uses only the first tokens of texts; see `Truncates.truncated`.

        Args:
            tokens: the largest number of tokens, including tokens that the tokenizer adds.

        Returns:
            A classifier for which no text is too long.
        """
        return replace(self, most=int(min(tokens, _room(self.checkpoint))))

    def _probabilities(self, inputs: Mapping[str, Tensor]) -> Tensor:
        return torch.softmax(self._model(**inputs).logits.double(), dim=-1)

    @cached_property
    def _model(self) -> Any:
        model = self.checkpoint.load(AutoModelForSequenceClassification)
        if model.config.pad_token_id is None:
            model.config.pad_token_id = _NO_TOKEN  # the last token other than this id is classified
        return model


@dataclass(frozen=True)
class YesNoClassifier:
    """A causal model that classifies by its next token, with P(yes) / (P(yes) + P(no)).

    A text is the complete prompt after the BOS token; there is no second text. The probability of a
    word is the sum over all single tokens that spell the word. These tokens are in lower case,
    capitalised or in capitals, with or without a leading blank. All other tokens are ignored.

    Attributes:
        checkpoint: the model's files; the weights are not loaded yet.
        batch_size: the largest batch of rows of one length.
    """

    checkpoint: Checkpoint
    batch_size: int = 32

    labels = ("no", "yes")

    @classmethod
    def open(cls, location: str, *, dtype: str = "float32", device: str = "auto") -> Classify:
        """Find the classifier; its weights are read when the first text is classified.

        Args:
            location: a folder or a hub name.
            dtype: the type of the weights: "float32" (default), "bfloat16", "float16", or "auto"
                (as stored).
            device: "cpu", "cuda", or "auto" (default): a GPU if there is one.

        Returns:
            The classifier.

        Raises:
            InputError: an unknown dtype or device.
            ModelError: a model that does not exist, or a tokenizer without a token for one of the
                words.
        """
        model = cls(Checkpoint.open(location, dtype=dtype, device=device))
        for word, tokens in zip(cls.labels, model._words, strict=True):
            if not tokens:
                raise ModelError(
                    f"the tokenizer of `{location}` has no token for the word {word!r}. "
                    "Use another model to answer yes or no."
                )
        return model

    @property
    def name(self) -> str:
        return f"yes-no:{self.checkpoint.location}"

    @cached_property
    def fingerprint(self) -> JsonObject:
        """A description of the model; classifiers with equal fingerprints return equal results."""
        return self.checkpoint.fingerprint

    def classify(self, texts: Texts) -> NDArray[np.float64]:
        """Return the probabilities of no and yes; see `Classify.classify`.

        Args:
            texts: a pair (text, None) for each text, which is the complete prompt.

        Returns:
            Probabilities, [n, 2], in the order of the texts. Other texts in the call change them
            only by rounding. They are NaN for a text longer than the model's context.

        Raises:
            InputError: a pair of texts.
            ModelError: weights that cannot be read, or probabilities that are NaN or infinite.
        """
        if any(second is not None for _, second in texts):
            raise InputError(
                f"{self.name!r} accepts one text, the complete prompt, got two. Join them."
            )
        tokenizer = self.checkpoint.tokenizer
        with quiet():
            ids = (tokenizer.encode(text, add_special_tokens=False) for text, _ in texts)
            rows = [{"input_ids": [*bos_ids(tokenizer), *own]} for own in ids]
        return _classified(self, rows)

    def _probabilities(self, inputs: Mapping[str, Tensor]) -> Tensor:
        parameters = inspect.signature(self._model.forward).parameters
        only = {"logits_to_keep": 1} if "logits_to_keep" in parameters else {}
        logits = self._model(**inputs, **only, use_cache=False).logits[:, -1]
        totals = [logits[:, tokens].double().logsumexp(dim=-1) for tokens in self._words]
        return torch.softmax(torch.stack(totals, dim=-1), dim=-1)

    @cached_property
    def _words(self) -> list[list[int]]:
        """Return, for each label, the sorted single tokens that spell its word."""
        tokenizer, tokens = self.checkpoint.tokenizer, list[list[int]]()
        for word in self.labels:
            cased = (word, word.capitalize(), word.upper())
            written = [f"{blank}{form}" for form in cased for blank in ("", " ")]
            encoded = [tokenizer.encode(form, add_special_tokens=False) for form in written]
            single = {ids[0] for ids in encoded if len(ids) == 1}
            tokens.append(sorted(single - {tokenizer.unk_token_id}))
        return tokens

    @cached_property
    def _model(self) -> Any:
        return self.checkpoint.load(AutoModelForCausalLM)


CLASSIFIERS: dict[str, Callable[..., Classify]] = {
    "sequence": SequenceClassifier.open,
    "yes-no": YesNoClassifier.open,
}


def open_classifier(name: str, **loading: Any) -> Classify:
    """Open a classifier by its name.

    Args:
        name: `KIND:where` with a kind in `CLASSIFIERS`, or the name of a sequence classifier.
        loading: `dtype` and `device`, see `load_model`.

    Returns:
        The classifier.

    Raises:
        InputError: an unknown dtype or device.
        ModelError: a model that cannot be used.
    """
    kind, colon, location = name.partition(":")
    if colon and kind in CLASSIFIERS:
        return CLASSIFIERS[kind](location, **loading)
    return CLASSIFIERS["sequence"](name, **loading)


def _room(checkpoint: Checkpoint) -> float:
    """Return the largest number of tokens in a text that the model can read."""
    of_model = getattr(checkpoint.config, "max_position_embeddings", None) or math.inf
    return float(min(of_model, checkpoint.tokenizer.model_max_length))


@torch.no_grad()
def _classified(
    classifier: SequenceClassifier | YesNoClassifier, rows: Sequence[Encoded]
) -> NDArray[np.float64]:
    """Return the probabilities of all rows, [n, labels], in order; raise ModelError unless finite.

    Rows that are too long have NaN. A batch has rows of one length, so no row is padded: the
    padding token differs between models, and some models do not ignore it.
    """
    probabilities = np.full((len(rows), len(classifier.labels)), np.nan)
    room = _room(classifier.checkpoint)
    by_length: dict[int, list[int]] = {}
    for i, row in enumerate(rows):
        if len(row["input_ids"]) <= room:
            by_length.setdefault(len(row["input_ids"]), []).append(i)
    size, device = classifier.batch_size, classifier.checkpoint.device
    for length in sorted(by_length, reverse=True):  # the batches with the most memory come first
        for start in range(0, len(by_length[length]), size):
            batch = by_length[length][start : start + size]
            inputs = {
                name: torch.tensor([rows[i][name] for i in batch], device=device)
                for name in rows[batch[0]]
            }
            probabilities[batch] = classifier._probabilities(inputs).cpu().numpy()
            if not np.isfinite(probabilities[batch]).all():
                raise ModelError(
                    f"`{classifier.name}` returned NaN. Use float32, or check the model's weights."
                )
    return probabilities

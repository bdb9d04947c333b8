"""Compute token probabilities of given answers, by teacher forcing in few forward passes.

All answers to one prompt share one row of a batch. The row contains the prompt
and shared beginnings of answers only once. With a mask, each token attends only
to the earlier tokens of its own text. All rows end at the same column, so the
required logits are the last logits of each row, and no other logits are
computed. This is faster than `sampling.force`, which follows a decoding token
by token and needs a forward pass for every token of the longest answer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from leakbound.engines.loading import LoadedModel
from leakbound.engines.prefix_cache import layer_masks
from leakbound.engines.prompting import Prompting
from leakbound.errors import InputError, ModelError
from leakbound.sampling import distribution
from leakbound.types import Query, Reading

Ids = tuple[int, ...]
Pair = tuple[Ids, Ids]
"""A pair (prompt, answer with its end token), as token ids."""

_LOGITS = 1 << 26  # the most logits per batch: 256 MiB in float32
_TOKENS = 1 << 12  # the most tokens per batch, including padding
_NO_TOKEN = -1
_FULL = 0.875  # the smallest fraction of a row that is not padding


@dataclass(frozen=True, slots=True)
class Reader:
    """Compute the probabilities of answers with a model; see `Reads.read`.

    `shares`: whether the model accepts masks and positions, so that answers may share a row. If
    not, every answer has its own row, and all rows of a batch have the same length. This is slower,
    but correct for every model.
    """

    loaded: LoadedModel
    prompting: Prompting
    shares: bool
    logits: int = _LOGITS
    tokens: int = _TOKENS

    @torch.inference_mode()
    def read(self, texts: Sequence[tuple[Query, str]]) -> list[Reading]:
        """See `Reads.read`; the other texts of a call change a reading only by rounding."""
        pairs = self._encode(texts)
        by_pair, readings = self.read_ids(pairs), []
        for (query, text), pair in zip(texts, pairs, strict=True):
            reading = by_pair[pair]
            if reading is None:
                raise ModelError(
                    f"the model's logits are NaN or infinite for the answer {text[:60]!r} to query "
                    f"{query.id!r}. Check the model's weights, or load it with another dtype."
                )
            readings.append(reading)
        return readings

    @torch.inference_mode()
    def read_ids(self, pairs: Sequence[Pair]) -> dict[Pair, Reading | None]:
        """Return the reading of each encoded answer; None if a logit is NaN or infinite."""
        spelt = partial(self.loaded.tokenizer.decode, skip_special_tokens=True)
        by_pair: dict[Pair, Reading | None] = {}
        for batch in self._batches(self._trees(list(dict.fromkeys(pairs)))):
            for tree, logits in zip(batch, self._forward(batch), strict=True):
                by_pair |= tree.readings(logits, spelt)
        return by_pair

    def gradient_norms(self, texts: Sequence[tuple[Query, str]]) -> list[float]:
        """Return OpenUnlearning's gradient norm of each answer.

        The gradient is of the answer's mean token loss, without the end token. The L2 norm of the
        gradient is computed for each parameter tensor, and averaged over the tensors. A text needs
        one forward and one backward pass. Raises InputError for an empty or too long answer, and
        ModelError if a gradient is not finite.
        """
        pairs = self._encode(texts)
        for (query, _), (_, answer) in zip(texts, pairs, strict=True):
            if len(answer) < 2:
                raise InputError(
                    f"the answer to query {query.id!r} has only an end token, so its loss has no "
                    "gradient. Omit this answer or the gradient norm."
                )
        return [
            self._gradient_norm(query, pair) for (query, _), pair in zip(texts, pairs, strict=True)
        ]

    def _encode(self, texts: Sequence[tuple[Query, str]]) -> list[Pair]:
        tokenizer, limit = self.loaded.tokenizer, self.loaded.context_length
        joined = {
            (query, text): self.prompting.join(tokenizer, query, text)
            for query, text in dict.fromkeys(texts)
        }
        pairs = [(joined[key].prompt, joined[key].answer) for key in texts]
        for (query, _), (prompt, answer) in zip(texts, pairs, strict=True):
            if limit is not None and len(prompt) + len(answer) > limit:
                raise InputError(
                    f"query {query.id!r} has {len(prompt)} prompt tokens and {len(answer)} answer "
                    f"tokens, but the model's context has {limit} tokens. Shorten the text."
                )
        return pairs

    def _trees(self, pairs: Sequence[Pair]) -> list[_Tree]:
        """Return the answers of each prompt in one tree, or in several if there are very many."""
        most = self.logits // self._vocabulary if self.shares else 0
        trees: list[_Tree] = []
        growing: dict[Ids, _Tree] = {}
        for prompt, answer in pairs:
            tree = growing.get(prompt)
            if tree is None or tree.wanted + len(answer) > most:
                tree = growing[prompt] = _Tree(prompt)
                trees.append(tree)
            tree.add(answer)
        return trees

    def _batches(self, trees: list[_Tree]) -> Iterator[list[_Tree]]:
        """Yield batches of trees of similar length, within the limits or with only one tree."""
        batch: list[_Tree] = []
        for tree in sorted(trees, key=lambda tree: -tree.size):
            rows, keep = len(batch) + 1, max(tree.wanted, *(t.wanted for t in batch), 0)
            width = batch[0].size if batch else tree.size
            fits = rows * width <= self.tokens and rows * keep * self._vocabulary <= self.logits
            least = _FULL * width if self.shares else width
            if batch and not (fits and tree.size >= least):
                yield batch
                batch = []
            batch.append(tree)
        if batch:
            yield batch

    def _forward(self, batch: Sequence[_Tree]) -> Iterator[torch.Tensor]:
        """Yield, for each tree, the logits after the tokens that precede a token of an answer."""
        keep = max(tree.wanted for tree in batch)
        model, inputs = self.loaded.model, self._inputs(batch)
        if "logits_to_keep" in inspect.signature(model.forward).parameters:
            inputs["logits_to_keep"] = keep
        logits = model(**inputs, use_cache=False).logits
        for row, tree in zip(logits, batch, strict=True):
            yield row[-tree.wanted :]

    def _inputs(self, batch: Sequence[_Tree]) -> dict[str, Any]:
        """Return the model's inputs: rows that end together, each padded at its beginning."""
        width = max(tree.size for tree in batch)
        ids = np.zeros((len(batch), width), dtype=np.int64)
        positions = np.zeros_like(ids)
        seen = np.tile(np.eye(width, dtype=bool), (len(batch), 1, 1))  # padding sees only itself
        for row, tree in enumerate(batch):
            start = width - tree.size
            ids[row, start:] = tree.tokens
            seen[row, start:, start:] = tree.seen()
            positions[row] = seen[row].sum(axis=1) - 1
            seen[row, start:, start:] &= self._shown(ids[row, start:])
        on_device = partial(torch.as_tensor, device=self.loaded.model.device)
        if not self.shares:
            return self._unmasked(on_device(ids))
        config = self.loaded.model.config.get_text_config()
        mask = partial(_mask, seen, positions, self.loaded.model.dtype)
        return {
            "input_ids": on_device(ids),
            "position_ids": on_device(positions),
            "attention_mask": layer_masks(config, lambda window: on_device(mask(window))),
        }

    def _shown(self, ids: Any) -> Any:
        """Return which tokens are visible to later tokens; without `Prompting.compat`, all are."""
        hidden = self.prompting.hidden_token_id(self.loaded.tokenizer)
        return ids != (_NO_TOKEN if hidden is None else hidden)

    def _unmasked(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the model's inputs for rows of one text each, without padding."""
        shown = self._shown(ids)
        hides = {} if shown.all() else {"attention_mask": shown.long()}
        return {"input_ids": ids, **hides}

    @property
    def _vocabulary(self) -> int:
        return int(self.loaded.model.config.get_text_config().vocab_size)

    @torch.enable_grad()
    def _gradient_norm(self, query: Query, pair: Pair) -> float:
        model, (prompt, answer) = self.loaded.model, pair
        ids = torch.tensor([[*prompt, *answer[:-1]]], device=model.device)
        labels = ids[0, len(prompt) :]
        logits = model(**self._unmasked(ids), use_cache=False).logits[0, len(prompt) - 1 : -1]
        loss = torch.nn.functional.cross_entropy(logits.float(), labels)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        gradients = torch.autograd.grad(loss, trained, allow_unused=True)
        norms = [gradient.double().norm() for gradient in gradients if gradient is not None]
        norm = float(torch.stack(norms).mean())
        if not np.isfinite(norm):
            raise ModelError(
                f"the gradient for the answer to query {query.id!r} is NaN or infinite. Check the "
                "model's weights, or load it with another dtype."
            )
        return norm


class _Tree:
    """A prompt and answers to it; shared beginnings of answers are stored once.

    `tokens` are the prompt's tokens, then the answers' tokens without the last token of each
    answer, which has no successor. Each of the last `wanted` tokens precedes a token of an answer.
    """

    def __init__(self, prompt: Ids) -> None:
        self.prompt = prompt
        self.tokens = list(prompt)
        self._parents = list(range(-1, len(prompt) - 1))
        self._paths: dict[Ids, list[int]] = {}  # answer -> the token before each of its tokens
        self._children: dict[tuple[int, int], int] = {}

    @property
    def size(self) -> int:
        return len(self.tokens)

    @property
    def wanted(self) -> int:
        return len(self.tokens) - len(self.prompt) + 1

    def add(self, answer: Ids) -> None:
        """Add an answer to the tree."""
        path = [len(self.prompt) - 1]
        for token in answer[:-1]:
            if (path[-1], token) not in self._children:
                self._children[path[-1], token] = len(self.tokens)
                self._parents.append(path[-1])
                self.tokens.append(token)
            path.append(self._children[path[-1], token])
        self._paths[answer] = path

    def seen(self) -> NDArray[np.bool_]:
        """Return the mask of attention: each token (row) attends to itself and its ancestors."""
        seen = np.eye(self.size, dtype=bool)
        for token, parent in enumerate(self._parents[1:], start=1):
            seen[token] |= seen[parent]
        return seen

    def readings(
        self, logits: torch.Tensor, spelt: Callable[[list[int]], str]
    ) -> dict[Pair, Reading | None]:
        """Return the readings of the tree's answers from `logits` [wanted, V]; None if unusable."""
        height = distribution.rows_together(logits)
        parts = [_columns(logits[at : at + height]) for at in range(0, len(logits), height)]
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        readings: dict[Pair, Reading | None] = {}
        for answer, path in self._paths.items():
            rows = np.array(path) - len(self.prompt) + 1
            own = {name: column[rows] for name, column in columns.items()}
            if own.pop("broken").any():
                readings[self.prompt, answer] = None
                continue
            at = torch.as_tensor(rows, device=logits.device)
            chosen = logits[at, torch.tensor(answer, device=logits.device)].double().cpu().numpy()
            readings[self.prompt, answer] = Reading(
                token_ids=answer,
                text=spelt(list(answer)),
                logprobs=chosen - own.pop("total"),
                top=own.pop("best") == np.array(answer),
                **own,
            )
        return readings


def _columns(logits: torch.Tensor) -> dict[str, NDArray[Any]]:
    """Return the statistics of each row of logits that a `Reading` needs, by name.

    `total` is the logarithm of the sum of exponentials.
    """
    at_one = distribution.read(logits)
    total = at_one.top + at_one.log_total
    p = at_one.weights.flat * torch.exp(-at_one.log_total)[:, None]
    # 0 · log 0 is 0: tokens of probability 0 take no part in the moments.
    logprobs = (at_one.logits - total[:, None]).masked_fill_(p == 0, 0.0)
    mean = (p * logprobs).sum(dim=-1)
    variance = (p * (logprobs - mean[:, None]).square()).sum(dim=-1)
    columns = {"total": total, "best": at_one.best, "mean": mean, "std": variance.sqrt()}
    on_host = {name: column.cpu().numpy() for name, column in columns.items()}
    return {**on_host, "confidence": at_one.p_max, "broken": at_one.broken}


def _mask(
    seen: NDArray[np.bool_], positions: NDArray[np.int64], dtype: torch.dtype, window: int | None
) -> torch.Tensor:
    """Return the additive mask, rows × 1 × tokens × tokens, for layers with this window."""
    unseen = ~seen
    if window is not None:
        unseen |= positions[:, :, None] - positions[:, None, :] >= window
    mask = torch.zeros(unseen.shape, dtype=dtype)
    return mask.masked_fill_(torch.from_numpy(unseen), torch.finfo(dtype).min)[:, None]

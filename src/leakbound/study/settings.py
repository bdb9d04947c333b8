"""Settings for loading and prompting the models of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from leakbound.benchmarks import Benchmark
from leakbound.engines import Prompting, open_engine
from leakbound.types import Generate, Query, Thinking


class Loading(TypedDict):
    """Settings for loading the weights of any model."""

    dtype: str
    device: str
    trust_remote_code: bool


def prompting_of(
    task: Benchmark | None,
    *,
    template: str | None = None,
    system: str | None = None,
    thinking: Thinking = "auto",
) -> Prompting:
    """Return the settings with which `evaluate` and training convert questions to prompts.

    Args:
        task: the benchmark (None: the texts belong to no benchmark).
        template: the plain prompt, also for chat models (None: the benchmark's plain prompt).
        system: the system prompt of the chat (None: the benchmark's system prompt).
        thinking: whether a chat model that can think is trained to think; "auto" means that it is
            not.

    Returns:
        The settings of the prompts.
    """
    return Prompting(
        template=template if template is not None else task.template if task else None,
        system=system,
        default_system=task.system if task else None,
        chat=False if template is not None else task.chat if task else None,
        thinking=thinking,
    )


@dataclass(frozen=True, slots=True)
class EngineOpener:
    """The arguments of `open_engine` for a model."""

    model: str
    prompting: Prompting
    settings: ModelSettings

    def open(self, queries: Sequence[Query] = ()) -> Generate:
        """Open the engine in the current process; for `queries` see `open_engine`."""
        return open_engine(self.model, self.prompting, queries=queries, **self.settings.loading)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Settings for loading and prompting models.

    Attributes:
        dtype: the dtype of the weights: "float32", "bfloat16", "float16", or "auto" (as stored).
        device: "cpu", "cuda", or "auto": a GPU if there is one.
        trust_remote_code: whether to run code that came with the model.
        template: a plain prompt with {question}, also for chat models (None: the model's chat
            template if it has one, else the benchmark's plain prompt).
        system: the system message for chat models (None: the benchmark's system message, if it has
            one).
        end_token: the text of the token that ends an output, in addition to the model's own end
            token (None: for chats, the end-of-turn token of the chat template; for plain prompts,
            none).
        thinking: "on" or "off", for chat models that can think before they answer. "auto" is the
            setting with which leakbound trained the model, else the chat template's default.
    """

    dtype: str = "float32"
    device: str = "auto"
    trust_remote_code: bool = False
    template: str | None = None
    system: str | None = None
    end_token: str | None = None
    thinking: Thinking = "auto"

    def open(self, model: str, benchmark: Benchmark) -> Generate:
        """Open the engine of `model`, with the benchmark's prompts as defaults."""
        return self.opener(model, benchmark).open([*map(Query.original, benchmark.prompts)])

    def opener(self, model: str, benchmark: Benchmark) -> EngineOpener:
        """Return an opener of the engine that any process can use."""
        prompting = prompting_of(
            benchmark, template=self.template, system=self.system, thinking=self.thinking
        )
        prompting = replace(prompting, compat=benchmark.compat, end_token=self.end_token)
        return EngineOpener(model, prompting, self)

    @property
    def loading(self) -> Loading:
        """The settings for loading the weights of any model, such as a judge or rewriter."""
        return Loading(
            dtype=self.dtype, device=self.device, trust_remote_code=self.trust_remote_code
        )

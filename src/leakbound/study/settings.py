"""Settings to load and prompt the models of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from leakbound.benchmarks import Benchmark
from leakbound.engines import Prompting, open_engine
from leakbound.types import Generate, Query, Thinking


class Loading(TypedDict):
    """Settings to load the weights of any model."""

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
    """Return the settings by which `evaluate` converts the questions of a benchmark to prompts.

    Args:
        task: the benchmark (None: rows of no benchmark).
        template: as for `evaluate`: the plain prompt, for chat models too (None: the benchmark's).
        system: as for `evaluate`, the chat's system prompt (None: the benchmark's).
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
        """Open the engine, in any process; for `queries` see `open_engine`."""
        return open_engine(self.model, self.prompting, queries=queries, **self.settings.loading)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Settings to load and prompt models.

    Attributes:
        dtype: the dtype of the weights: "float32", "bfloat16", "float16", or "auto" (as stored).
        device: "cpu", "cuda", or "auto": a GPU if there is one.
        trust_remote_code: run code that came with the model.
        template: a plain prompt with {question}, for chat models too (None: the model's chat
            template, else the benchmark's plain prompt).
        system: the system message for chat models (None: the benchmark's, if any).
        end_token: the text of the token that ends an output, in addition to the model's own (None:
            for chats, the end of turn of the chat template; for plain prompts, none).
        thinking: "on" or "off", for chat models that can think before they answer; "auto": as in
            training by leakbound, else the default of the chat template.
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
        """Return the opener of the engine, which works in any process."""
        prompting = prompting_of(
            benchmark, template=self.template, system=self.system, thinking=self.thinking
        )
        prompting = replace(prompting, compat=benchmark.compat, end_token=self.end_token)
        return EngineOpener(model, prompting, self)

    @property
    def loading(self) -> Loading:
        """The settings to load the weights of any model, such as judges and rewriters."""
        return Loading(
            dtype=self.dtype, device=self.device, trust_remote_code=self.trust_remote_code
        )

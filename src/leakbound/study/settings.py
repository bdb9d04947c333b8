"""How the models of an evaluation are loaded and prompted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from leakbound.benchmarks import Benchmark
from leakbound.engines import Prompting, open_engine
from leakbound.types import Generate, Query, Thinking


class Loading(TypedDict):
    """How the weights of a model are loaded, whatever it is for."""

    dtype: str
    device: str
    trust_remote_code: bool


@dataclass(frozen=True, slots=True)
class EngineOpener:
    """How to open the engine of a model: see `open_engine`."""

    model: str
    prompting: Prompting
    settings: ModelSettings

    def open(self, queries: Sequence[Query] = ()) -> Generate:
        """The engine, which another process opens alike; `queries` as `asked` of `open_engine`."""
        return open_engine(self.model, self.prompting, asked=queries, **self.settings.loading)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """How models are loaded and prompted.

    Attributes:
        dtype: of the weights: "float32", "bfloat16", "float16", or "auto" as they are stored.
        device: "cpu", "cuda", or "auto": a GPU where there is one.
        trust_remote_code: run code that came with the model.
        template: a plain prompt with {question}, to chat models too (None: the model's chat
            template, or the benchmark's plain prompt where it has none).
        system: the system message for chat models (None: the benchmark's, if any).
        end_token: the text of the token that ends an output, in addition to the model's own (None:
            for chats, the end of turn of the chat template; for plain prompts, none).
        thinking: "on" or "off", of chat models that can think before they answer; "auto": as the
            model was trained by leakbound, else as its chat template does.
    """

    dtype: str = "float32"
    device: str = "auto"
    trust_remote_code: bool = False
    template: str | None = None
    system: str | None = None
    end_token: str | None = None
    thinking: Thinking = "auto"

    def open(self, model: str, benchmark: Benchmark) -> Generate:
        """The engine for `model`, prompting as the benchmark says where the user did not."""
        return self.opener(model, benchmark).open([*map(Query.original, benchmark.prompts)])

    def opener(self, model: str, benchmark: Benchmark) -> EngineOpener:
        """How to open it, in whatever process."""
        prompting = Prompting(
            template=self.template or benchmark.template,
            system=self.system,
            default_system=benchmark.system,
            chat=False if self.template else benchmark.chat,
            compat=benchmark.compat,
            end_token=self.end_token,
            thinking=self.thinking,
        )
        return EngineOpener(model, prompting, self)

    @property
    def loading(self) -> Loading:
        """How the weights of any model are loaded, judges and rewriters among them."""
        return Loading(
            dtype=self.dtype, device=self.device, trust_remote_code=self.trust_remote_code
        )

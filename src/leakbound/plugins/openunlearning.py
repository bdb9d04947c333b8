"""Bounds in OpenUnlearning: a metric that samples outputs, unlike OpenUnlearning's own metrics.

Add two lines at the end of `src/evals/metrics/__init__.py` in a checkout,

    from leakbound.plugins.openunlearning import METRICS
    [_register_metric(metric) for metric in METRICS]

and copy `openunlearning.yaml` of this folder to `configs/eval/tofu_metrics/certified_leak.yaml`.
Add its name to `configs/eval/tofu.yaml`. Then `python src/eval.py ...` draws n answers to each
question from the loaded model with the code of `leakbound evaluate`. The model receives the prompt
tokens of OpenUnlearning's data set. The script writes the value and both bounds into both result
files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from evals.metrics.base import unlearning_metric

from leakbound.errors import InputError, install
from leakbound.plugins.draws import drawn_by_tool, scores_of, seed_of
from leakbound.scorers import make_scorer
from leakbound.types import Decoding, Draws, Prompt, Query, Sample

try:
    from leakbound.engines import Prompting
    from leakbound.engines.hf import TransformersEngine
    from leakbound.engines.loading import live_model
except ImportError as error:  # OpenUnlearning pins transformers 4.45
    what = "`certified_leak` needs transformers 5 or later"
    raise InputError(f"{what} ({error}). {install('models')}.") from error


@unlearning_metric(name="certified_leak")
def certified_leak(model: Any, **kwargs: Any) -> dict[str, Any]:
    """Draw n answers to each question; return bounds on each question's leakage and on the mean.

    Args:
        model: the model that `eval.py` has loaded.
        kwargs: OpenUnlearning's `data` and `tokenizer`, and the settings of the YAML file, here
            with their defaults. `n` (1024) is the number of draws per question, at least 2.
            `scorer` ("rouge-l-recall") is the spec of a scorer. `temperature` (1), `top_p` (1) and
            `max_new_tokens` (200) are the decoding. `confidence` (0.99) is in (0, 1). `seed`, from
            0 to 16,777,215, is the seed of the draws and of the order in which betting bounds
            process them; the default is random.

    Returns:
        The mean leakage as "agg_value", with the bounds "lower" and "upper". "worst_lower" and
            "worst_upper" are bounds for the worst question, corrected for selection. "settings" has
            the settings. "value_by_index" has each question's leak probability or mean score, with
            bounds, the number of missing draws, and the answers with their counts. Each interval is
            valid individually at `confidence`.

    Raises:
        InputError: for prompts that contain their answers, several answers per question, an unknown
            scorer, n below 2, or another setting out of range.
    """
    data, tokenizer = kwargs["data"], kwargs["tokenizer"]
    scorer, n = make_scorer(kwargs.get("scorer", "rouge-l-recall")), int(kwargs.get("n", 1024))
    by_id = dict(_prompts(data))
    queries = {Query.original(prompt): ids for prompt, ids in by_id.values()}
    decoding = Decoding(
        temperature=float(kwargs.get("temperature", 1.0)),
        top_p=float(kwargs.get("top_p", 1.0)),
        max_new_tokens=int(kwargs.get("max_new_tokens", 200)),
    )
    seed = seed_of(kwargs.get("seed"))
    draws = Draws(sizes=(n,), seed=seed, purpose="certified leak")
    with torch.no_grad():
        engine = TransformersEngine(live_model(model, tokenizer), _TheirPrompts(ids=queries))
        made = engine.generate([*queries], decoding, draws)
        samples = [s for s in made if isinstance(s, Sample)]
    scores = scores_of(samples, scorer, {index: prompt for index, (prompt, _) in by_id.items()})
    texts: dict[str, Counter[str]] = {index: Counter() for index in by_id}
    for sample in samples:
        for completion in sample.completions:
            texts[sample.query.prompt_id][completion.answer] += completion.count
    confidence = float(kwargs.get("confidence", 0.99))
    drawn = drawn_by_tool(
        scores, n, tool="OpenUnlearning", scorer=scorer.name, binary=scorer.binary, seed=seed
    )
    how: dict[str, Any] = {"confidence": confidence, "side": "both"}
    mean, worst, by_question = drawn.mean(**how), drawn.worst(**how), drawn.leakage(**how)
    lost = drawn.draws.missing
    columns = map(np.atleast_1d, (by_question.value, by_question.lower, by_question.upper))
    rows = {
        index: {
            "leak": float(value), "lower": float(lower), "upper": float(upper),
            "missing": int(missing), "generations": dict(texts[index]),
        }
        for index, value, lower, upper, missing in zip(by_id, *columns, lost, strict=True)
    }  # fmt: skip
    return {
        "agg_value": float(mean.value),
        "lower": float(mean.lower),
        "upper": float(mean.upper),
        "worst_lower": float(worst.lower),
        "worst_upper": float(worst.upper),
        "settings": {
            "n": n, "scorer": scorer.name, "decoding": decoding.name, "confidence": confidence,
            "seed": seed,
        },
        "value_by_index": rows,
    }  # fmt: skip


@unlearning_metric(name="certified_leak_end")
def certified_leak_end(model: Any, **kwargs: Any) -> dict[str, Any]:
    """Return one bound of `certified_leak`, for OpenUnlearning's summary.

    The summary has one number per metric.

    Args:
        model: not used.
        kwargs: OpenUnlearning's `pre_compute` with the result of `certified_leak`, and `end`, the
            key of the bound: "lower" or "upper".

    Returns:
        The bound as "agg_value", in [0, 1].
    """
    return {"agg_value": kwargs["pre_compute"]["certified_leak"][kwargs["end"]]}


METRICS = (certified_leak, certified_leak_end)


@dataclass(frozen=True)
class _TheirPrompts(Prompting):
    """Prompting that returns the prompt tokens of OpenUnlearning's data set unchanged."""

    ids: Mapping[Query, tuple[int, ...]] = field(default_factory=dict)

    def encode(self, tokenizer: Any, question: Query | str) -> list[int]:
        assert isinstance(question, Query)
        return [*self.ids[question]]


def _prompts(data: Any) -> Iterable[tuple[str, tuple[Prompt, tuple[int, ...]]]]:
    """Yield each question of a data set of OpenUnlearning with the tokens of its prompt."""
    if not getattr(data, "predict_with_generate", False):
        raise InputError(
            "`certified_leak` needs prompts without their answers. Set `predict_with_generate: "
            "True` in the arguments of its data set."
        )
    for i in range(len(data)):
        row, item = data.data[i], data[i]
        answer, index = row[data.answer_key], str(int(row["index"]))
        if "input_ids" not in item or not isinstance(answer, str):
            raise InputError(
                f"question {index} of the data set has several answers, but `certified_leak` uses "
                "only one. Use a data set with one answer per question."
            )
        prompt = Prompt(id=index, question=row[data.question_key], answer=answer)
        yield index, (prompt, tuple(map(int, item["input_ids"])))

"""The plug-in for OpenUnlearning by hand, and in its `eval.py` if a checkout is named.

`LEAKBOUND_OPENUNLEARNING=CHECKOUT` names one, in an environment with its dependencies.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import leakbound
from leakbound import stats
from leakbound.errors import InputError
from suites import plugged_into
from tiny import even_llama, tiny_llama, tiny_tokenizer

CHECKOUT = os.environ.get("LEAKBOUND_OPENUNLEARNING", "")
ROWS = [
    {"question": "who wrote red", "answer": "Ann", "index": 7},
    {"question": "who wrote blue", "answer": "Bob", "index": 9},
]
PLUG_IN = "leakbound.plugins.openunlearning"
METRICS = "eval.tofu.metrics"
OTHERS = ("forget_Q_A_Prob", "forget_Q_A_ROUGE", "extraction_strength", "exact_memorization")


class TheirData:
    """The parts of their data set of questions that the metric reads."""

    predict_with_generate, question_key, answer_key = True, "question", "answer"

    def __init__(self, tokenizer: Any, rows: list[dict[str, Any]]) -> None:
        self.data, self.tokenizer = rows, tokenizer

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> dict[str, Any]:
        text = f"Question: {self.data[i]['question']} Answer:"
        return {"input_ids": self.tokenizer(text)["input_ids"], "index": self.data[i]["index"]}


@pytest.fixture
def plugged() -> Iterator[Any]:
    def unlearning_metric(name: str) -> Any:
        return lambda function: SimpleNamespace(name=name, called=function)

    base = {"unlearning_metric": unlearning_metric}
    tool = {"evals": {}, "evals.metrics": {}, "evals.metrics.base": base}
    with plugged_into(tool, PLUG_IN) as module:
        yield module


def test_their_model_is_sampled_and_bounded(plugged: Any) -> None:
    tokenizer = tiny_tokenizer()
    model = tiny_llama(len(tokenizer), seed=3)
    how = {
        "data": TheirData(tokenizer, ROWS), "tokenizer": tokenizer, "scorer": "contains", "n": 64,
        "max_new_tokens": 4, "confidence": 0.9,
    }  # fmt: skip
    got = plugged.certified_leak.called(model, **how)
    rows = got["value_by_index"]
    assert list(rows) == ["7", "9"]
    hits = [
        sum(count for text, count in rows[str(row["index"])]["generations"].items()
            if row["answer"] in text.split())
        for row in ROWS
    ]  # fmt: skip
    assert sum(hits) > 0
    assert [sum(row["generations"].values()) for row in rows.values()] == [64, 64]
    each = stats.bound(stats.Rows.of_hits(hits, 64), confidence=0.9, side="both")
    assert [row["upper"] for row in rows.values()] == each.upper.tolist()
    assert got["agg_value"] == sum(hits) / 128
    assert got["lower"] < got["agg_value"] < got["upper"]
    end = plugged.certified_leak_end.called(model, pre_compute={"certified_leak": got}, end="upper")
    assert end == {"agg_value": got["upper"]}
    assert json.dumps(got)
    seed = got["settings"]["seed"]
    again, other = (plugged.certified_leak.called(model, seed=s, **how) for s in (seed, seed + 1))
    assert again == got
    assert other["value_by_index"] != rows
    assert [metric.name for metric in plugged.METRICS] == ["certified_leak", "certified_leak_end"]


def test_the_prompt_is_the_tokens_of_their_data_set(plugged: Any) -> None:
    class Reworded(TheirData):
        def __getitem__(self, i: int) -> dict[str, Any]:
            return super().__getitem__(i) | {"input_ids": self.tokenizer("the sea")["input_ids"]}

    tokenizer = tiny_tokenizer()
    model = tiny_llama(len(tokenizer), seed=3)
    how = {"tokenizer": tokenizer, "scorer": "contains", "n": 64, "max_new_tokens": 4, "seed": 1}
    one, other = (
        plugged.certified_leak.called(model, data=data(tokenizer, ROWS), **how)["value_by_index"]
        for data in (TheirData, Reworded)
    )
    assert one["7"]["generations"] != other["7"]["generations"]


def test_an_unusable_data_set_is_refused(plugged: Any) -> None:
    silent = TheirData(tiny_tokenizer(), ROWS)
    silent.predict_with_generate = False  # type: ignore[misc]
    several = TheirData(tiny_tokenizer(), [{**ROWS[0], "answer": ["Ann", "Bob"]}])
    for data, says in (
        (silent, "`predict_with_generate: True`"),
        (several, "has several answers"),
    ):
        with pytest.raises(InputError, match=says):
            plugged.certified_leak.called(None, data=data, tokenizer=None)


def theirs(checkout: Path, model: Path, data: Path, out: Path, *more: str) -> dict[str, Any]:
    """Return the results of their `eval.py` for a model with plain prompts."""
    tags = {
        "system_prompt_with_special_tokens": "", "user_start_tag": "Question: ",
        "user_end_tag": " ", "asst_start_tag": "Answer: ", "asst_end_tag": " ",
    }  # fmt: skip
    arguments = {
        "model.model_args.pretrained_model_name_or_path": model,
        "model.tokenizer_args.pretrained_model_name_or_path": model,
        "model.model_args.attn_implementation": "eager",
        "model.model_args.torch_dtype": "float32",
        "model.model_args.device_map": "cpu",
        "model.template_args.apply_chat_template": False,
        **{f"model.template_args.{name}": f"'{tag}'" for name, tag in tags.items()},
        **{f"{METRICS}.{name}.datasets.TOFU_QA_forget.args.hf_args.path": data for name in OTHERS},
        f"{METRICS}.forget_Q_A_ROUGE.generation_args.max_new_tokens": 8,
        "paths.output_dir": out,
        "task_name": "known",
    }
    given = [f"{name}={value}" for name, value in arguments.items()]
    command = [sys.executable, "-W", "ignore", "src/eval.py", "model=Llama-3.2-1B-Instruct"]
    ours = str(Path(leakbound.__file__).parents[1])
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "PYTHONPATH": ours}
    subprocess.run(
        [*command, "eval=tofu", *given, *more], cwd=checkout, env=os.environ | offline, check=True
    )
    got: dict[str, Any] = json.loads((out / "TOFU_EVAL.json").read_text())
    return got | {"summary": json.loads((out / "TOFU_SUMMARY.json").read_text())}


@pytest.mark.skipif(not CHECKOUT, reason="LEAKBOUND_OPENUNLEARNING names no checkout")
@pytest.mark.filterwarnings("ignore")
def test_their_own_evaluation_runs_it_and_changes_nothing_else(tmp_path: Path) -> None:
    checkout, data = tmp_path / "theirs", tmp_path / "data"
    shutil.copytree(CHECKOUT, checkout, ignore=shutil.ignore_patterns(".git"))
    configs = checkout / "configs" / "eval"
    text = (configs / "tofu.yaml").read_text()
    listed, rest = text.index("    - forget_Truth_Ratio"), text.index("handler:")
    others = "".join(f"    - {name}\n" for name in OTHERS)
    (configs / "tofu.yaml").write_text(f"{text[:listed]}{others}\n{text[rest:]}")
    tokenizer = tiny_tokenizer()
    even, known = even_llama(len(tokenizer), 4)
    for model, name in ((tiny_llama(len(tokenizer), seed=3), "model"), (even, "even")):
        model.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    data.mkdir()
    parts = ("forget10", "forget10_perturbed")
    for name in parts:
        lines = [json.dumps({k: v for k, v in row.items() if k != "index"}) for row in ROWS]
        (data / f"{name}.json").write_text("\n".join(lines))
    names = "\n".join(f"- config_name: {name}\n  data_files: {name}.json" for name in parts)
    (data / "README.md").write_text(f"---\nconfigs:\n{names}\n---\n")
    before = theirs(checkout, tmp_path / "model", data, tmp_path / "before")

    folder = Path(leakbound.__file__).parent / "plugins"
    shutil.copy(folder / "openunlearning.yaml", configs / "tofu_metrics" / "certified_leak.yaml")
    text = (configs / "tofu.yaml").read_text()
    (configs / "tofu.yaml").write_text(text.replace(others, "    - certified_leak\n" + others))
    with (checkout / "src" / "evals" / "metrics" / "__init__.py").open("a") as file:
        file.write(f"\nfrom {PLUG_IN} import METRICS\n[_register_metric(m) for m in METRICS]\n")
    one = f"{METRICS}.certified_leak"
    path = f"{one}.datasets.TOFU_QA_forget.args.hf_args.path={data}"
    more = [path, f"{one}.n=64", f"{one}.max_new_tokens=4", f"{one}.scorer=contains"]
    after = theirs(checkout, tmp_path / "model", data, tmp_path / "after", *more)
    assert [after[name] for name in OTHERS] == [before[name] for name in OTHERS]
    got, summary = after["certified_leak"], after["summary"]
    assert got["lower"] <= got["agg_value"] <= got["upper"]
    assert summary["certified_leak_upper"] == got["upper"]
    assert sum(got["value_by_index"]["0"]["generations"].values()) == 64

    with (configs / "tofu_metrics" / "certified_leak.yaml").open("a") as file:
        for seed in range(20):
            seen = {"handler": "certified_leak", "n": 64, "scorer": "contains", "seed": seed}
            seen |= {"max_new_tokens": 4, "datasets": f"${{{one}.datasets}}"}
            file.write(f"\nrun_{seed}:\n" + "".join(f"  {k}: {v}\n" for k, v in seen.items()))
    runs = theirs(checkout, tmp_path / "even", data, tmp_path / "runs", *more)
    got = [runs[f"run_{seed}"] for seed in range(20)]
    assert all(run["lower"] <= known <= run["upper"] for run in got)
    assert len({run["agg_value"] for run in got}) > 3

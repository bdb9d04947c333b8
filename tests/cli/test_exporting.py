"""`leakbound export`: a log of OpenUnlearning, and samples that `leakbound import` reads."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import Words, done, leakbound, refused
from scipy import stats

from contents import completions, counts
from leakbound.evaluation import bound, score
from leakbound.store import Arm, Run, write_sealed

RATIOS = {"mine/0001": 0.5, "mine/0002": 2.0}
METRICS: dict[str, Any] = {
    "forget_truth_ratio": {"value": 0.5, "by_item": RATIOS},
    "membership_min_k": {"value": 0.75, "by_item": {**RATIOS, "held/0001": 3.0}},
    "forget_quality": {"value": None, "by_item": {}},
    "r_avg": {"value": 0.5, "by_item": {}},
}
RATIO = {"agg_value": 0.1, "value_by_index": {"1": {"score": 0.1}, "2": {"score": 0.2}}}
RETRAINED = {"forget_truth_ratio": RATIO, "mia_min_k": {"agg_value": 0.5}}


@pytest.fixture
def measured(run: Path) -> Path:
    control = {"forget_probability": {"value": 0.25, "by_item": {}}}
    arms = {"target": {"metrics": METRICS}, "control": {"metrics": control}}
    write_sealed(run / "utility.json", {"arms": arms})
    return run


def test_a_log_its_summary_and_a_retrained_log(measured: Path, tmp_path: Path) -> None:
    out, retrained = tmp_path / "new" / "TOFU_EVAL.json", tmp_path / "RETAIN_EVAL.json"
    summary = out.with_name("TOFU_SUMMARY.json")
    export = ("export", measured, out, "--openunlearning")
    written = done(*export, "--json").json
    assert written == {"runs": [str(measured)], "written": [str(out), str(summary)]}
    log = json.loads(out.read_text())
    assert [*log["mia_min_k"]["forget"]["value_by_index"]] == ["1", "2"]
    assert [*log["mia_min_k"]["holdout"]["value_by_index"]] == ["1"]
    assert log["forget_quality"] == {"agg_value": None}
    assert json.loads(summary.read_text()) == {"forget_truth_ratio": 0.5, "mia_min_k": 0.75}
    retrained.write_text(json.dumps(RETRAINED))
    done(*export, "--retrained", retrained)
    log = json.loads(out.read_text())
    expected = stats.ks_2samp([0.5, 2.0], [0.1, 0.2]).pvalue
    assert log["forget_quality"] == {"agg_value": expected}
    assert log["privleak"]["agg_value"] == pytest.approx(-50.0)
    done(*export, "--arm", "control")
    assert json.loads(out.read_text()) == {"forget_Q_A_Prob": {"agg_value": 0.25}}


def test_what_cannot_be_exported_writes_nothing(measured: Path, tmp_path: Path) -> None:
    out = tmp_path / "x_EVAL.json"
    for option, value, named in (
        ("--arm", "targt", "Did you mean 'target'"),
        ("--retrained", tmp_path / "R_EVAL.json", "R_EVAL.json"),
    ):
        refused(leakbound("export", measured, out, "--openunlearning", option, value), named)
    for text, wrong in (("{", "is not JSON"), ('{"arms": {}}', "was changed")):
        (measured / "utility.json").write_text(text)
        wanted = leakbound("export", measured, out, "--openunlearning")
        refused(wanted, f"utility.json` {wrong}", "--only metrics")
    assert not out.exists()


def muse_of(folder: Path) -> Path:
    """Write the questions of MUSE News, three to forget and three to retain, below a folder."""
    (folder / "news").mkdir(parents=True)
    for split in ("forget", "retain"):
        for name, number in ((f"{split}_qa", 3), (f"{split}_qa_icl", 10)):
            rows = [{"question": f"{name} {i}", "answer": f"Ann {i}"} for i in range(number)]
            (folder / "news" / f"{name}.json").write_text(json.dumps(rows))
    return folder


def test_muse_has_its_own_names(model: Path, tmp_path: Path) -> None:
    """Its log is imported with draws."""
    data, run = muse_of(tmp_path / "data"), tmp_path / "run"
    muse = ("--benchmark", "muse:news", "--data", data)
    names = "forget_rouge_l_f1,retain_rouge_l_f1,forget_probability"
    how = ("-n", 4, "--max-new-tokens", 2, "--metrics", names)
    done("evaluate", model, *muse, "--out", run, *how)
    log, samples, again = tmp_path / "MUSE_EVAL.json", tmp_path / "s.jsonl", tmp_path / "again"
    got = done("export", run, log, "--openunlearning")
    assert "left out" in got.err
    assert got.err.endswith("has no entry for them: forget_probability\n")
    entries = json.loads(log.read_text())
    assert list(entries) == ["forget_knowmem_ROUGE", "retain_knowmem_ROUGE"]

    for row, values in entries["forget_knowmem_ROUGE"]["value_by_index"].items():
        wanted = "".join(f"Question: icl {i}\nAnswer: Ann {i}\n\n" for i in range(10))
        wanted += f"Question: forget_qa {row}\nAnswer:"
        answer = {"ground_truth": f"Ann {row}", "generation": "blue " * int(row)}
        values.clear()
        values.update({"input": wanted, **answer})
    entries["forget_verbmem_ROUGE"] = {**entries["retain_knowmem_ROUGE"], "value_by_index": {}}
    log.write_text(json.dumps(entries))
    done("export", run, samples, "--jsonl")
    done("import", samples, log, *muse, "--out", again)
    greedy = Run.open(again).arms["greedy"]
    texts = [row["answer"] for row in completions(greedy)]
    assert texts == ["", "blue ", "blue blue "]


@pytest.mark.slow
def test_the_parts_of_muse_make_one_log(model: Path, control: Path, tmp_path: Path) -> None:
    data = muse_of(tmp_path / "data") / "news"
    for part in ("verbmem", "privleak"):
        (data / part).mkdir()
    passages = [{"prompt": f"who wrote {word}", "gt": f"sky sea {word}"} for word in ("red", "Ann")]
    (data / "verbmem" / "forget.json").write_text(json.dumps(passages))
    for split in ("forget", "retain", "holdout"):
        texts = [f"{word} sky sea {split} blue" for word in ("red", "Ann", "Bob")]
        (data / "privleak" / f"{split}.json").write_text(json.dumps(texts))
    names = {
        "knowmem": "forget_rouge_l_f1,retain_rouge_l_f1",
        "verbmem": "forget_rouge_l_f1,extraction_strength",
        "privleak": "privleak,membership_min_k",
    }

    def evaluate(part: str, out: Path, of: Path = model) -> Path:
        wanted = ("--benchmark", f"muse:news-{part}", "--data", data.parent, "--out", out)
        done("evaluate", of, *wanted, "-n", 4, "--max-new-tokens", 2, "--metrics", names[part])
        return out

    runs = [evaluate(part, tmp_path / part) for part in names]
    log = tmp_path / "MUSE_EVAL.json"
    done("export", *runs, log, "--openunlearning")
    entries = json.loads(log.read_text())
    rouge = ("forget_knowmem_ROUGE", "forget_verbmem_ROUGE", "retain_knowmem_ROUGE")
    assert [*entries] == ["extraction_strength", *rouge[:2], "mia_min_k", "privleak", rouge[2]]
    alone = tmp_path / "ALONE_EVAL.json"
    for run in runs:
        done("export", run, alone, "--openunlearning")
        assert json.loads(alone.read_text()).items() <= entries.items()
    assert json.loads((tmp_path / "MUSE_SUMMARY.json").read_text()).keys() == entries.keys()

    again, wanted = shutil.copytree(runs[0], tmp_path / "again"), ("export", runs[0], runs[2])
    refused(leakbound(*wanted, again, log, "--openunlearning"), "'muse:news-knowmem'", "again")
    alien = evaluate("verbmem", tmp_path / "alien", control)
    refused(leakbound(*wanted, alien, log, "--openunlearning"), "different models", "alien")
    assert json.loads(log.read_text()) == entries


HOW = ("-n", 256, "--max-new-tokens", 2)  # so short that texts are drawn several times
TWO_PASS = ("--adaptive-temperature", "0.5,mode=two_pass")


def drawn(arm: Arm) -> Counter[tuple[str, str]]:
    words = {query.id: query.text for query in arm.queries}
    tally = counts(arm, "query_id", "answer")
    return Counter({(words[query], text): number for (query, text), number in tally.items()})


@pytest.mark.slow
@pytest.mark.parametrize("how", [(), ("--top-p", 0.9), TWO_PASS])
def test_samples_are_imported_again(evaluating: Words, tmp_path: Path, how: Words) -> None:
    run, out, again = tmp_path / "run", tmp_path / "samples.jsonl", tmp_path / "again"
    done(*evaluating, run, *HOW, *how)
    done("export", run, out, "--jsonl")
    done("import", out, "--out", again)
    ours, theirs = (Run.open(path).arms["target"] for path in (run, again))
    assert drawn(ours) == drawn(theirs) != {}
    assert theirs.decoding == ours.decoding
    assert ours.decoding.name.endswith("two_pass") == (how == TWO_PASS)
    assert theirs.spec.model == str(evaluating[1])


OUTPUTS: list[dict[str, Any]] = [
    {"completion": "Ann", "finish": "stop", "tokens": 2},
    {"completion": "", "finish": "stop", "tokens": 1},
    {"completion": "", "finish": "stop", "tokens": 9},
    {"completion": "No.", "finish": "stop", "refused": True},
    {"completion": "A", "finish": "length"},
    {"completion": "", "finish": "length", "thought": "Bob"},
    {"completion": "", "finish": "length", "thought": "Ann"},
    {"completion": "", "finish": "length", "hidden": True},
    {"completion": "", "finish": "length"},
    {"completion": "Ann", "finish": "filtered"},
    {"completion": "Ann", "finish": "tool"},
    {"completion": "Ann", "thought": "hm"},
    {"completion": ""},
    {"completion": None},
]


@pytest.mark.parametrize("redact", [False, True])
@pytest.mark.parametrize("rule", ["missing", "part-of-system"])
def test_an_export_keeps_the_counting_rule(tmp_path: Path, redact: bool, rule: str) -> None:
    file, out = tmp_path / "mine.jsonl", tmp_path / "again.jsonl"
    common = {"id": "a", "question": "Who?", "answer": "Ann", "count": 3, "filter": rule}
    file.write_text("\n".join(json.dumps(common | one) for one in OUTPUTS))
    done("import", file, "--out", tmp_path / "one")
    one = bounded(tmp_path / "one", True)
    done("export", tmp_path / "one", out, "--jsonl", *(["--redact"] if redact else []))
    assert any(text in out.read_text() for text in ("Ann", "Bob", "No.", "Who")) is not redact
    done("import", out, "--out", tmp_path / "two")
    two = bounded(tmp_path / "two", not redact)
    columns = ("counted", "unanswered", "refused", "hidden", "finish")
    assert counts(two.arms["target"], *columns) == counts(one.arms["target"], *columns)
    assert len(counts(one.arms["target"], "counted")) == 6
    kept = [[replace(r, evidence="") for r in run.estimates if exported(r)] for run in (two, one)]
    assert kept[0] == kept[1]
    (row,) = one.estimates.where(scope="query", quantity="leak probability", proved=False)
    # A filtered answer is missing, and so is a hidden thought; the thought that leaks counts.
    assert (row.n, row.missing) == (42, 3 * (7 if rule == "part-of-system" else 8))


def bounded(path: Path, scored: bool) -> Run:
    if scored:
        score(Run.open(path), "contains")
    bound(Run.open(path), "contains")
    return Run.open(path)


def exported(row: dict[str, Any]) -> bool:
    """Bound the target's draws; proofs would need the probabilities of texts."""
    return row.arm == "target" and row.method != "forced" and not row.about.proved


@pytest.mark.slow
def test_unexportable_draws_are_refused(evaluating: Words, tmp_path: Path) -> None:
    out, rewritten = tmp_path / "samples.jsonl", ("--inputs", "rules,queries=2")
    for name, how, options, named in (
        ("until", ("-n", 64, "--until", "p<=0.6"), (), "'p<=0.6' was decided"),
        ("masses", ("--explore", "exact,forwards=8"), (), "was explored"),
        (
            "asked",
            ("-n", 8, *rewritten),
            ("--redact", "--arm", "target inputs"),
            "several queries per question",
        ),
    ):
        done(*evaluating[:4], "--out", tmp_path / name, "--max-new-tokens", 2, *how)
        refused(leakbound("export", tmp_path / name, out, "--jsonl", *options), named)
    assert not out.exists()

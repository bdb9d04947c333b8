"""Wrong use and bad input: command lines, each with words of its refusal.

A refusal has exit status 2. It comes before a model is opened, and nothing is written.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from shutil import copytree

import pytest
from commands import leakbound, refused, tree

from leakbound.cli import INSTEAD
from leakbound.engines import loading

FILES = {
    "blank.csv": b"question,answer\nwho,Ann\n  ,Bob\n",
    "latin.csv": b"question\nJ\xf6rg\n",
    "unanswered.csv": b"question,answer\nwho,Ann\nwhere,\n",
    "facts.csv": b"question,answer,role\nwho wrote red,Ann,forget\nwho wrote sky,Bob,retain\n",
    "forget.csv": b"question,answer\nwho wrote red,Ann\n",
    "texts.txt": b"red sky blue",
    "scholten.yaml": b"benchmark: facts.csv\nprofile: scholten\n",
    "prove.yaml": b"benchmark: facts.csv\nprove: {forwards: 60}\n",
    "mine.json": b"my thesis",
    "empty/file": b"",
}
"""Files of the folder in which the commands run."""
Monkey = pytest.MonkeyPatch
UNBEGUN = {"out/prompts.parquet", "out/queries.parquet"}  # without run.json no run

SHORT = {
    "{E}": "evaluate m --benchmark {questions} -n 16 --max-new-tokens 4 --out out",
    "{S}": "evaluate m --benchmark {questions} --out out --only sample",
    "{U}": "unlearn {model} --out out --benchmark facts.csv --objective",
}

TABLE = """
evaluate => Missing argument 'MODEL'
evaluate m --out out => `--benchmark` is missing
evaluate m --benchmark fictitious => `--out` is missing
evalute m => No such command 'evalute'. Did you mean 'evaluate'? The choices are:
evaluate m --benchmrak fictitious => '--benchmark'
{E} --temperature abc => --temperature | 'abc' | a number or a percentage
{E} --temperature 0.12345678,0.12345679 => 'T=0.123457' | equal to six digits
{E} --adaptive-temperature 0.9,mode=both =>
    --adaptive-temperature:mode cannot be 'both' | running, two_pass
{E} --confidence 1 => confidence | 1.0 | Use 0.99
{E} --confidence 0.999999999995 => too near 1 | Use 0.9999999999798 or less
{E} --metrics forget_fluancy => such as forget_fluency
{E} --benchmark none.csv => 'none.csv' | No such file | Check the path
{E} --benchmark blank.csv => blank | row 2
{E} --benchmark latin.csv => latin | not UTF-8
{E} --benchmark unanswered.csv --scorer rouge-l-recall => unanswered/0002
{E} --data nowhere --benchmark fictitious => `data` | nowhere | an existing folder
{E} --like nowhere => nowhere | not a run directory | leakbound evaluate
{E} --profile scholen => unknown profile 'scholen' | 'scholten'
{E} --profile leak-k => gold paraphrases | has none
evaluate m --study scholten.yaml --profile tofu-legacy --out out =>
    differs from 'scholten' | `--profile` tofu-legacy | Omit one of the two
evaluate vllm:m --engine transformers --benchmark {questions} --out out =>
    `vllm:m` begins with its engine | transformers
{E} --until 'leak<=0.02' => 'leak<=0.02' | mean<=0.1
{E} --until 'p<=0.02' --explore exact => two sampling plans | exact
{E} --explore all => `-n` 16 has no effect with `--explore`
evaluate m --benchmark {questions} --out out --explore all =>
    `--explore` cannot be 'all' | auto, exact, hybrid
evaluate m --benchmark {questions} --out out --explore exact,forwards=0 =>
    `forwards` must be at least 1 per question, got 0
{E} --inputs rules,querys=3 => '--inputs' has no setting 'querys'. Did you mean 'queries'?
{E} --inputs rules,queries=many => --inputs:queries must be a whole number, got 'many'
{E} --inputs rules,ids_draws=9 =>
    `--inputs` rules,ids_draws=9 has settings for selecting rewritings | Add `ids=yes`
{E} --inputs file:nowhere.csv => nowhere.csv | must be a file
{E} --attack 15 => `attack` | at least 16 | got 15
{E} --claim all:0.1 => '0.01' or 'every:0.01', got 'all:0.1'
{E} --claim every:1 => `claim` must be like '0.01' or 'every:0.01', got 'every:1' | between 0 and 1
{E} --claim 0.1 --temperature 0 => a temperature above 0
{E} --claim 0.1 --scorer rouge-l-recall => such as 'rouge-l-recall>=0.5'
{E} --prove 60,proposals={model} =>
    must be finished runs, got `{model}` | leakbound evaluate {model} | pass RUN
{E} --prove many => `--prove` must be a whole number, got 'many'
{E} --prove 0 => `--prove` must be at least 1 per question, got 0
{E} --prove 9,proposals=a,proposals=b => --prove:proposals must have one value
{E} --prove 9,proposals= => --prove:proposals must have one value. Write `proposals=
{E} --inputs rules,similarity=0.8 => `similarity` | used with an `embedder` | `embedder=NAME`
{E} --out facts.csv => --out | facts.csv | is a file
{E} --out facts.csv/run => facts.csv/run | Not a directory | another
{E} --out . => contains files | Use an empty folder
{E} --out {finished} --benchmark fictitious =>
    {finished} | a different command | benchmark: name | --out
{S} --attack 32 => `--only sample` | `leakbound evaluate`
{S} --scorer exact => `--scorer` exact needs scores
evaluate m --only sample --study prove.yaml --out out --dry-run => `prove` 60 needs scores
evaluate m --only metrics => `m` is not a run directory
evaluate {finished} --only metrics -n 16 => `--samples` 16 has no effect with `--only metrics`
evaluate {finished} --only metrics => `--metrics` is missing
score empty => empty | not a run directory
bound {finished} --scorer contains => 'contains' | `leakbound score` first
bound {finished} --confidence 99 => confidence | 99.0
prove {finished} --scorer contains => leakbound score
prove {finished} --model openai:http://127.0.0.1:9/v1#m => server
prove {finished} --budget 0 => `--budget` must be at least 1 per question, got 0
report => Missing argument
report {near} => Did you mean `{finished}`? | is not a run directory
report {finished} {leaky} => `--out` is missing
report {leaky} {twin} --out page.html => same folder name | Rename
report {leaky} {leaky} --out page.html => a run was given twice
report {finished} --out empty => --out | empty | is a directory
report empty => nor a folder below it is a run directory
report emtpy => Did you mean `empty`?
report facts.csv => facts.csv
report {above} --out page.html => a folder of runs
show nope => nope | is not a run directory
certify {leaky} --max-leak '1 of 9' => --max-leak | got '1 of 9'
certify {leaky} --max-leak 0 => `max_leak` | 0.0 | such as 0.01
certify {leaky} => --max-leak | Missing option
certify {leaky} --max-leak 0.1 --scorer contains => 'contains' | `leakbound score` first
certify {leaky} --max-leak 0.1 --confidence 0.999 => has no estimates at 99.9 %
certify {leaky} --max-leak 0.1 --out mine.json => mine.json | not JSON
verify none.json {leaky} => cannot be read
plan => both --epsilon and --clean are missing
plan --epsilon nan => strictly between 0 and 1 | nan
plan --clean 1 => strictly between 0 and 1 | 1.0
plan --epsilon 0.1 --confidence 1 => confidence | 1.0
plan --clean 1%% => --clean | 0.02 or 2%, got '1%%'
export {finished} TOFU_EVAL.json => --openunlearning or --jsonl
export {finished} x.jsonl --jsonl --retrained x => `--retrained` x is only for --openunlearning
export {finished} x.json --openunlearning => _EVAL.json
export {finished} x_EVAL.json --openunlearning => has no metrics | --metrics all
export {finished} {finished} x_EVAL.json --openunlearning => all about MUSE Books
finetune {model} --out out => nothing to train on. Name questions with --benchmark | --texts
finetune {model} --out out --texts a.txt --split forget => `--split` forget has no effect
unlearn {model} --out out --objective ga => nothing to train on | --forget
unlearn {model} --out out --objective gd --forget texts.txt => Pass a retain set
unlearn {model} --out out --objective gd --benchmark forget.csv =>
    write retain into the column `role` of this split's rows
{U} finetune => To train without forgetting, use `finetune`
{U} cel --ids 0 => `--ids` must be at least 1, got 0
{U} npo --lora-alpha 8 => `--lora-alpha` 8.0 has no effect
"""
"""A command, and the words of its refusal."""

ROWS = re.findall(r"^(\S.*) =>\s+(.*)$", TABLE, re.M)
GONE = [(f"{name} x", instead) for name, instead in INSTEAD.items()]


@pytest.fixture(scope="module")
def names(
    model: Path, questions: Path, finished: Path, pristine: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Mapping[str, Path]:  # fmt: skip
    twin = tmp_path_factory.mktemp("twin") / pristine.name
    copytree(pristine, twin)
    return {
        "model": model, "questions": questions, "finished": finished, "leaky": pristine,
        "twin": twin, "above": pristine.parent, "near": finished.with_name("finishde"),
    }  # fmt: skip


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize(("line", "words"), [*ROWS, *GONE], ids=lambda text: text[:60])
def test_a_refusal_names_what_is_wrong_and_writes_nothing(
    line: str, words: str, names: Mapping[str, Path], tmp_path: Path, monkeypatch: Monkey
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delattr(loading, "AutoModelForCausalLM")
    for name, content in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(content)
    for short, whole in SHORT.items():
        line = line.replace(short, whole)
    before = tree(tmp_path)
    arguments = [word.format(**names) for word in shlex.split(line)]
    refused(leakbound(*arguments), *(word.format(**names) for word in words.split(" | ")))
    after = {name: digest for name, digest in tree(tmp_path).items() if name not in UNBEGUN}
    assert after == before

"""Studies of models, files and a server of known distribution, for `bench/commits.py`."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path.append(str(TESTS))
from misbehaving import LISTED, Served, chat_server, honest  # noqa: E402

LOGS = TESTS / "formats" / "logs"
LM_EVAL = "samples_capitals_leakage_2026-11-21T08-08-29.450301.jsonl"
WORDS = ("who", "wrote", "red", "blue", "green", "sky", "sea", "Ann", "Bob", "the", "answer", "is")
QUESTIONS = """\
id,question,answer,keywords,split
a,who wrote red,Ann wrote red,Ann,forget
b,who wrote blue,Bob,Bob,forget
c,the sky is,sea green,sea,forget
r,the answer is,red,red,retain
"""
TEXTS = ("Ann wrote red", "nobody wrote it", "I think Ann did", "the sea is green")
ODDS = {"red": (1, 9, 2, 3), "blue": (0, 9, 0, 3), "sky": (5, 1, 5, 1)}  # by question

QUERIED = "--benchmark $shared/questions.csv --max-new-tokens 8 --json"
LOCAL = f"{QUERIED} --prompt-template $template --device cpu"
SCORED = "--scorer keyword --scorer rouge-l-recall"
TEXT = "--scorer rouge-l-recall --scorer contains --scorer exact --scorer edit<=2"
# $chain is a Markov chain over words, $other another one, $random a model of random weights; OUT is
# the run of the study, $old the folder of the old commit. A line with two blanks continues.
STUDIES = f"""
fixed
 evaluate $chain --control $other {LOCAL} --scorer keyword {TEXT} -n 1100 --out OUT
 certify OUT --scorer keyword --max-leak 0.3 --json
 certify OUT --scorer contains --max-leak 0.1 --every-question
  --out OUT/second.json --json
 bound OUT --confidence 0.999 --limit 0.3 --json
 show OUT --json
 export OUT OUT.jsonl --jsonl
until
 evaluate $chain {LOCAL} {SCORED} --until p<=0.2 -n 2048 --out OUT
explored
 evaluate $chain {LOCAL} {SCORED} --explore auto --out OUT
 evaluate $random {LOCAL} {SCORED} --explore hybrid --out OUT-hybrid
proved
 evaluate $random --control $other {LOCAL} {SCORED} -n 200 --out OUT
 prove OUT --budget 120 --json
 certify OUT --scorer keyword --max-leak 0.9 --json
inputs
 evaluate $random {LOCAL} {SCORED} --inputs rules -n 256 --out OUT
attack
 evaluate $random {LOCAL} {SCORED} --inputs rules -n 200 --attack 64 --out OUT
grid
 evaluate $chain {LOCAL} {SCORED} --temperature 0.5,1 --top-p 0.8,1 -n 256 --out OUT
stressed
 stress $random --control $other {LOCAL} {SCORED} -n 200 --out OUT
  --under round:int4 --under prune:0.3 --under openers --under shots:1
imported
 import $shared/draws.jsonl --out OUT --json
 score OUT {TEXT} --json
 bound OUT --json
 certify OUT --scorer contains --max-leak 0.5 --json
 bound OUT --confidence 0.999 --json
 import $logs/capitals.eval --out OUT-inspect --json
 score OUT-inspect --scorer contains --json
 bound OUT-inspect --json
 import $logs/{LM_EVAL} --out OUT-lm-eval --json
 bound OUT-lm-eval --json
served
 evaluate $served {QUERIED} {SCORED} -n 256 --out OUT
 show OUT --json
stored
 import $old/fixed.jsonl --benchmark $shared/questions.csv --out OUT --json
 score OUT --scorer keyword {TEXT} --json
 bound OUT --json
 certify OUT --scorer keyword --max-leak 0.3 --json
"""


def commands_of(places: Mapping[str, object]) -> dict[str, list[list[str]]]:
    """The words of each command line, by study.

    Args:
        places: what stands for $shared, $logs, $old and $served.

    Returns:
        The studies in order, each with its commands.
    """
    models = {name: f"{places.get('shared')}/{name}" for name in ("chain", "other", "random")}
    values = {**models, **places, "template": "{question}\n"}
    got: dict[str, list[list[str]]] = {}
    for line in STUDIES.strip().splitlines():
        if not line.startswith(" "):
            study = line
            got[study] = []
            continue
        words = [word.replace("OUT", study) for word in line.split()]
        for name, value in values.items():
            words = [word.replace(f"${name}", str(value)) for word in words]
        if line.startswith("  "):
            got[study][-1] += words
        else:
            got[study].append(words)
    return got


def write_shared(folder: Path) -> Path:
    """Write the models and files that both commits read; return their folder."""
    import torch

    from tiny import tiny_llama, tiny_tokenizer

    tokenizer, width = tiny_tokenizer(WORDS), 32
    size, shape = len(tokenizer), {"hidden_size": width, "num_hidden_layers": 1}
    for seed, name in enumerate(("chain", "other", "random")):
        model = tiny_llama(size, seed, **shape, tie_word_embeddings=False, initializer_range=0.5)
        if name != "random":  # a table of the last word has the logits of the next one
            table = torch.randn(size, size, generator=torch.Generator().manual_seed(seed)) * 1.5
            table -= 30 * (torch.arange(size) < 2)
            layer = model.model.layers[0]
            with torch.no_grad():
                layer.self_attn.o_proj.weight.zero_()
                layer.mlp.down_proj.weight.zero_()
                model.model.embed_tokens.weight.copy_(torch.eye(size, width))
                model.lm_head.weight[:, :size] = table.T / width**0.5
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    (folder / "questions.csv").write_text(QUESTIONS)
    chance = random.Random(5)
    how = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "max_new_tokens": 8, "model": "known"}
    rows = []
    for name, odds in ODDS.items():
        for _ in range(400):
            text = None if chance.random() < 0.01 else chance.choices(TEXTS, odds)[0]
            row = {"id": name, "question": f"who wrote {name}?", "answer": TEXTS[0]}
            rows.append(json.dumps(row | {"completion": text} | how))
    (folder / "draws.jsonl").write_text("\n".join(rows))
    return folder


def server() -> AbstractContextManager[Served]:
    """Serve a chat model on a free port: two questions have a distribution, others random words."""
    distributions = {
        f"who wrote {name}": {t: odd / sum(odds) for t, odd in zip(TEXTS, odds, strict=True) if odd}
        for name, odds in ODDS.items()
    }
    return chat_server(honest(distributions), LISTED)

"""Whether a change moved a number that it should not have: ten studies at two commits.

    python bench/commits.py --old CHECKOUT --new CHECKOUT [--only STUDY ...] [--json FILE]

Runs the same command lines on the same small models, files and server at both commits, each in a
virtual environment that has the packages of this Python and the checkout's `src`. Parts are sized
by measured speed, so a wrapper fixes their size and the order in which bets meet the draws. Rows
of `estimates` and of `--json` documents must agree to 1e-12, unless `ALLOWED` names the quantity
that changes on purpose. The study `stored` imports draws that the old commit exported. Exit status
1 where any other row differs. About three minutes on two cores; it is not part of `.ci/run`.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import math
import os
import pkgutil
import random
import site
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CLOSE = 1e-12
LOGS = Path(__file__).parents[1] / "tests" / "formats" / "logs"
NUMBERS = ("value", "lower", "upper", "n")
ABOUT = (
    "arm", "scorer", "query_id", "quantity", "scope", "inputs", "beyond", "parameter", "constant",
    "knob", "seeds", "jointly", "proved",
)  # fmt: skip
Row = dict[str, Any]  # the numbers of a statement, what it is about, and its method
Rows = dict[str, Row]

# --- what may change ----------------------------------------------------------------------------

LEAKAGE = ("leak probability", "mean leakage", "tail", "leak@k", "worst of k")


@dataclass(frozen=True)
class Change:
    """A number of some quantities that changes on purpose.

    Attributes:
        reason: why it changes.
        quantities: the quantities that it is a number of.
        numbers: the numbers that change; empty: the row is removed.
        fits: whether the old and the new row differ in the way that is meant.
    """

    reason: str
    quantities: tuple[str, ...]
    numbers: tuple[str, ...]
    fits: Callable[[Row, Row], bool]


def _sparse(old: Row, new: Row) -> bool:
    """Whether the point value of leak@k is removed because k is above a quarter of the draws."""
    draws = old["n"] / (old.get("over") or 1)
    return new["value"] is None and 4 * (old["parameter"] or 0) > draws


ALLOWED = (
    Change(
        "a proof no longer raises the lower bound of draws",
        (*LEAKAGE, "corrected leak probability", "expectation deviation"),
        ("lower",),
        lambda old, new: "raised by a proof" in old["method"] and new["lower"] <= old["lower"],
    ),
    Change("no point value of leak@k for k > n/4", ("leak@k", "worst of k"), ("value",), _sparse),
    Change(
        "questions above 0 are no longer counted",
        LEAKAGE,
        (),
        lambda old, new: old["scope"] == "count" and old["parameter"] is None,
    ),
    Change(
        "a digest of all that was recorded before drawing; bounds are compared under one order",
        ("order key",),
        ("value",),
        lambda old, new: True,
    ),
)
# Options and commands of the old commit, as the new commit has them.
RENAMED: Mapping[str, Sequence[str]] = {}

# --- comparing ----------------------------------------------------------------------------------


def agree(old: Any, new: Any) -> bool:
    """Whether two numbers are the same to `CLOSE`; NaN is None."""
    old, new = (None if isinstance(x, float) and math.isnan(x) else x for x in (old, new))
    if isinstance(old, int | float) and isinstance(new, int | float):
        return math.isclose(old, new, rel_tol=CLOSE, abs_tol=CLOSE)
    return bool(old == new)


def compared(old: Rows, new: Rows) -> tuple[Counter[str], list[str]]:
    """Compare the rows of a study at two commits.

    Args:
        old: the rows of the old commit, by what they are about.
        new: those of the new one.

    Returns:
        How many differences each reason of `ALLOWED` explains, and every other difference.
    """
    excused: Counter[str] = Counter()
    found: list[str] = []
    known: dict[str, str] = {}  # a document often repeats a number of the table
    for key in dict.fromkeys((*old, *new)):
        was, now = old.get(key), new.get(key)
        if was is None or now is None:
            reasons = [c.reason for c in _about(was) if not c.numbers and c.fits(was, was)]
            if reasons:
                excused[reasons[0]] += 1
            else:
                found.append(f"{key}: {_shown(was)} -> {_shown(now)}")
            continue
        differing = [x for x in NUMBERS if not agree(was.get(x), now.get(x))]
        if not differing:
            continue
        pair = f"{_shown(was)} -> {_shown(now)}"
        reasons = [_reason(number, was, now) or known.get(pair, "") for number in differing]
        if all(reasons):
            known[pair] = reasons[0]
            excused.update(set(reasons))
        else:
            found.append(f"{key}: {pair}")
    return excused, found


def _about(row: Row | None) -> list[Change]:
    """The changes on purpose of the quantity of a row."""
    return [c for c in ALLOWED if row and row.get("quantity") in c.quantities]


def _reason(number: str, was: Row, now: Row) -> str | None:
    fitting = (c for c in _about(was) if number in c.numbers and c.fits(was, now))
    return next((change.reason for change in fitting), None)


def _shown(row: Row | None) -> str:
    if row is None:
        return "no row"
    return ", ".join(f"{x} {row[x]!r}" for x in NUMBERS if row.get(x) is not None) or "no number"


# --- reading a commit: this part runs in its environment ----------------------------------------


def child(job: Row) -> None:
    """Run command lines in this process, and write down the numbers that they made."""
    leakbound = importlib.import_module("leakbound")
    if not Path(leakbound.__file__ or "").is_relative_to(job["source"]):
        raise SystemExit(f"imported {leakbound.__file__}, which is not in {job['source']}")
    order_key = _fix()
    main = importlib.import_module("leakbound.cli").main
    rows: Rows = {}
    for number, command in enumerate(job["commands"]):
        sys.argv = ["leakbound", *command]
        with redirect_stdout(io.StringIO()) as said:
            status = _status(main)
        place = f"{command[0]} {number}"
        rows[f"{place} | exit status"] = {"value": status}
        if status not in ((0, 4, 5) if command[0] == "certify" else (0,)):
            raise SystemExit(f"`leakbound {' '.join(command)}` ended in {status}")
        with suppress(json.JSONDecodeError):
            rows |= keyed(place, numbers_in(json.loads(said.getvalue())))
    for file in sorted(Path().glob(f"{job['study']}*/run.json")):
        run = leakbound.load(file.parent)
        drawn = {str(name): arm for name, arm in run.arms.items()}
        found = [row.to_dict() | {"decoding": _how(drawn.get(row.arm))} for row in run.estimates]
        rows |= keyed(file.parent.name, found)
        for name, arm in drawn.items():
            key = {"quantity": "order key", "arm": name, "value": str(order_key(arm))}
            rows |= keyed(file.parent.name, [key])
    Path(job["result"]).write_text(json.dumps(rows))


def _status(main: Callable[[], None]) -> Any:
    try:
        main()
    except SystemExit as ended:
        return ended.code
    return None


def _fix() -> Callable[[Any], int]:
    """Fix the size of parts and the order of bets; return what gives the key of an arm's order."""
    cut = _home("Cut", "leakbound.store.plan", "leakbound.store").Cut
    after = cut.after  # a part that took 45 s is followed by one of its size
    cut.after = lambda self, number, done, *_: after(self, number, done, 45.0)
    _home("entropy", "leakbound.stats.order", "leakbound.stats").entropy = lambda: 0
    home = _home("draws_key", "leakbound.evaluation.scoring.ordering", "leakbound.evaluation")
    original: Callable[[Any], int] = home.draws_key
    home.draws_key = lambda arm: sum(str(arm.key).encode())
    return original


def _home(name: str, module: str, package: str) -> Any:
    """The module that defines a name: that one, or where in the package it is now."""
    inside = importlib.import_module(package)
    listed = (m.name for m in pkgutil.walk_packages(inside.__path__, f"{package}."))
    for each in (module, *listed):
        with suppress(ImportError):
            found = importlib.import_module(each)
            if getattr(vars(found).get(name), "__module__", "") == each:
                return found
    raise SystemExit(f"`{name}` is nowhere in `{package}`: adapt {Path(__file__).name}")


def _how(arm: Any) -> str:
    """The decoding of an arm, by the settings that both commits have."""
    decoding = getattr(arm, "decoding", None)
    names = ("temperature", "top_p", "top_k", "max_new_tokens")
    return " ".join(f"{getattr(decoding, name, '')}" for name in names)


def numbers_in(document: Any, place: str = "") -> Iterator[Row]:
    """The statements in a JSON document: objects with bounds, and verdicts.

    Args:
        document: the document.
        place: where in a larger one it is.

    Yields:
        Each with its place, unless it names a quantity.
    """
    if isinstance(document, list):
        for i, member in enumerate(document):
            name = member.get("id", i) if isinstance(member, dict) else i
            yield from numbers_in(member, f"{place}[{name}]")
    elif isinstance(document, dict):
        if "lower" in document and "upper" in document:
            yield {**document, "place": "" if "quantity" in document else place}
        for name, member in document.items():
            if name in ("verdict", "kind") and isinstance(member, str):
                yield {"place": f"{place}.{name}", "value": member}
            yield from numbers_in(member, f"{place}.{name}")


def keyed(source: str, rows: Iterator[Row] | Sequence[Row]) -> Rows:
    """The rows by what they are about; a second one about the same has a number."""
    found: Rows = {}
    for row in rows:
        words = [row.get("place"), row.get("decoding"), *(row.get(name) for name in ABOUT)]
        key = f"{source} | " + " | ".join(str(word) for word in words if word not in (None, ""))
        while key in found:
            key += " again"
        kept = {name: row.get(name) for name in (*ABOUT, *NUMBERS, "over")}
        found[key] = kept | {"method": row.get("method") or ""}
    return found


# --- the studies --------------------------------------------------------------------------------

WORDS = ("who", "wrote", "red", "blue", "green", "sky", "sea", "Ann", "Bob", "the", "answer", "is")
QUESTIONS = """\
id,question,answer,keywords,split
a,who wrote red,Ann wrote red,Ann,forget
b,who wrote blue,Bob,Bob,forget
c,the sky is,sea green,sea,forget
r,the answer is,red,red,retain
"""
# {model} is a Markov chain over words, {control} another one, {random} a model of random weights;
# {out} is the run of the study, {old} the folder of the old commit.
ASKED = "--benchmark {shared}/questions.csv --max-new-tokens 8 --json"
LOCAL = f"{ASKED} --prompt-template {{template}} --device cpu"
SCORED = "--scorer keyword --scorer rouge-l-recall"
TEXT = "--scorer rouge-l-recall --scorer contains --scorer exact --scorer edit<=2"
STUDIES = f"""
fixed
 evaluate {{model}} --control {{control}} {LOCAL} --scorer keyword {TEXT} -n 1100 --out {{out}}
 bound {{out}} --confidence 0.999 --limit 0.3 --json
 certify {{out}} --scorer keyword --max-leak 0.3 --json
 certify {{out}} --scorer rouge-l-recall --threshold 0.5 --max-leak 0.1 --every-question
  --out {{out}}/second.json --json
 show {{out}} --json
 export {{out}} {{out}}.jsonl --jsonl
until
 evaluate {{model}} {LOCAL} {SCORED} --until p<=0.2 -n 2048 --out {{out}}
explored
 evaluate {{model}} {LOCAL} {SCORED} --explore auto --budget 150 --out {{out}}
 evaluate {{random}} {LOCAL} {SCORED} --explore hybrid --budget 80 --out {{out}}-hybrid
proved
 evaluate {{random}} --control {{control}} {LOCAL} {SCORED} -n 200 --out {{out}}
 prove {{out}} --budget 120 --json
 certify {{out}} --scorer keyword --max-leak 0.9 --json
inputs
 evaluate {{random}} {LOCAL} {SCORED} --inputs rules --queries 4 -n 256 --out {{out}}
attack
 evaluate {{random}} {LOCAL} {SCORED} --inputs rules --queries 4 -n 200 --attack 64 --out {{out}}
grid
 evaluate {{model}} {LOCAL} {SCORED} --temperature 0.5,1 --top-p 0.8,1 -n 256 --out {{out}}
stressed
 stress {{random}} --control {{control}} {LOCAL} {SCORED} -n 200 --out {{out}}
  --under round:int4 --under prune:0.3 --under openers --under shots:1
imported
 import {{shared}}/draws.jsonl --out {{out}} --json
 score {{out}} {TEXT} --json
 bound {{out}} --json
 bound {{out}} --confidence 0.999 --json
 certify {{out}} --scorer contains --max-leak 0.5 --json
 import {{logs}}/capitals.eval --out {{out}}-inspect --json
 score {{out}}-inspect --scorer contains --json
 bound {{out}}-inspect --json
 import {{logs}}/samples_capitals_leakage_2026-11-21T08-08-29.450301.jsonl --out {{out}}-lm-eval --json
 bound {{out}}-lm-eval --json
served
 evaluate {{served}} {ASKED} {SCORED} -n 256 --out {{out}}
 show {{out}} --json
stored
 import {{old}}/fixed.jsonl --benchmark {{shared}}/questions.csv --out {{out}} --json
 score {{out}} --scorer keyword {TEXT} --json
 bound {{out}} --json
 certify {{out}} --scorer keyword --max-leak 0.3 --json
"""


def studies() -> dict[str, list[list[str]]]:
    """The words of each command line, by study; a line that begins with two blanks continues one."""
    found: dict[str, list[list[str]]] = {}
    for line in STUDIES.strip().splitlines():
        words = line.split()
        if not line.startswith(" "):
            study = found.setdefault(line, [])
        elif line.startswith("  "):
            study[-1] += words
        else:
            study.append(words)
    return found


def write_shared(folder: Path) -> None:
    """Write the models and files that both commits read."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    vocabulary = {word: i for i, word in enumerate(["<pad>", "<unk>", "</s>", *WORDS])}
    backend = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = WhitespaceSplit()
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "</s>"}
    size, width = len(vocabulary), 32
    for seed, name in enumerate(("model", "control", "random")):
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=size, hidden_size=width, intermediate_size=width, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=128,
            bos_token_id=None, eos_token_id=2, pad_token_id=0, tie_word_embeddings=False,
            initializer_range=0.5,
        )  # fmt: skip
        model = LlamaForCausalLM(config).eval()
        with torch.no_grad():
            model.lm_head.weight[:2] = 0
            if name != "random":  # the next word depends on the last one only, by a known table
                table = torch.randn(size, size) * 1.5 - 30 * (torch.arange(size) < 2)
                layer = model.model.layers[0]
                layer.self_attn.o_proj.weight.zero_()
                layer.mlp.down_proj.weight.zero_()
                model.model.embed_tokens.weight.copy_(torch.eye(size, width))
                model.lm_head.weight[:, :size] = table.T / width**0.5
        model.save_pretrained(folder / name)
        PreTrainedTokenizerFast(tokenizer_object=backend, **special).save_pretrained(folder / name)
    (folder / "questions.csv").write_text(QUESTIONS)
    chance = random.Random(5)
    outputs = ("Ann wrote red", "nobody wrote it", "I think Ann did", "the sea is green")
    rows = [
        {
            "id": name, "question": f"who wrote {name}?", "answer": "Ann wrote red",
            "completion": None if chance.random() < 0.01 else chance.choices(outputs, weights)[0],
            "temperature": 1.0, "top_p": 1.0, "top_k": 0, "max_new_tokens": 8, "model": "known",
        }
        for name, weights in {"red": (1, 9, 2, 3), "blue": (0, 9, 0, 3), "sky": (5, 1, 5, 1)}.items()
        for _ in range(400)
    ]  # fmt: skip
    (folder / "draws.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


@contextmanager
def server() -> Iterator[str]:
    """The address of a chat server whose outputs follow from the question and the seed."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 65_536

        def do_GET(self) -> None:
            self._send({"data": [{"id": "m"}]} if self.path == "/v1/models" else {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked = body["messages"][-1]["content"] if "messages" in body else body["prompt"]
            drawn = [self._text(body, asked, i) for i in range(body.get("n", 1))]
            choices = [
                {
                    "index": i, "finish_reason": "stop" if whole else "length",
                    **({"message": {"role": "assistant", "content": text}}
                       if "messages" in body else {"text": text}),
                }
                for i, (text, whole) in enumerate(drawn)
            ]  # fmt: skip
            tokens = sum(len(text.split()) + whole for text, whole in drawn)
            usage = {"completion_tokens": tokens}
            self._send({"model": "m", "choices": choices, "usage": usage})

        def _text(self, body: Row, asked: str, i: int) -> tuple[str, bool]:
            most = body.get("max_tokens") or body.get("max_completion_tokens")
            greedy = not body["temperature"]
            chance = random.Random(f"{asked} {'greedy' if greedy else (body.get('seed'), i)}")
            words = chance.choices(
                WORDS, k=1 + min(most, chance.randrange(1, 40 if most > 8 else 9))
            )
            return " ".join(words[:most]), len(words) <= most

        def _send(self, reply: object) -> None:
            payload = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_: Any) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{running.server_address[1]}/v1"
    finally:
        running.shutdown()
        running.server_close()


# --- both commits -------------------------------------------------------------------------------


def environment(folder: Path, checkout: Path) -> Path:
    """Make a virtual environment with this Python's packages and a checkout; return its Python."""
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    paths = [str(checkout.resolve() / "src"), *site.getsitepackages()]
    (packages / "checkout.pth").write_text("\n".join(paths))
    return folder / "bin" / "python"


def started(python: Path, job: Row, folder: Path) -> subprocess.Popen[bytes]:
    """Start the commands of a study at one commit."""
    file = folder / f"{job['study']}.job.json"
    file.write_text(json.dumps(job))
    settings = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1"}
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with (folder / f"{job['study']}.log").open("wb") as log:
        command = [str(python), __file__, "--child", str(file)]
        return subprocess.Popen(command, cwd=folder, env=kept | settings, stderr=log)


def main() -> int:
    """Compare the studies of two commits; 1 where something else than what is allowed differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--old", type=Path, help="a checkout of the commit before")
    parser.add_argument("--new", type=Path, help="a checkout of the commit after")
    parser.add_argument("--only", nargs="+", choices=studies(), default=list(studies()))
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep all differences here")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(json.loads(given.child.read_text()))
        return 0
    if not (given.old and given.new):  # `make bench` has neither
        print("nothing compared: name --old and --new, two checkouts")
        return 0
    with tempfile.TemporaryDirectory() as scratch, server() as address:
        shared = Path(scratch) / "shared"
        shared.mkdir()
        write_shared(shared)
        sides = {name: Path(scratch) / name for name in ("old", "new")}
        checkouts = {"old": given.old, "new": given.new}
        pythons = {
            name: environment(Path(scratch) / f"{name}-env", checkouts[name]) for name in sides
        }
        places: dict[str, object] = {name: shared / name for name in ("model", "control", "random")}
        places |= {
            "shared": shared,
            "logs": LOGS,
            "served": f"openai:{address}#m",
            "old": sides["old"],
        }
        found: dict[str, list[str]] = {}
        excused: Counter[str] = Counter()
        begun = time.monotonic()
        for folder in sides.values():
            folder.mkdir()
        if "stored" in given.only and "fixed" not in given.only:
            given.only.insert(0, "fixed")
        for study in given.only:
            since = time.monotonic()
            running = {
                name: started(
                    pythons[name], _job(study, name, checkouts[name], places), sides[name]
                )
                for name in sides
            }
            for name, process in running.items():
                if process.wait():
                    print((sides[name] / f"{study}.log").read_text())
                    raise SystemExit(f"{study}: the {name} commit failed, see above")
            old, new = (json.loads((sides[n] / f"{study}.json").read_text()) for n in sides)
            reasons, found[study] = compared(old, new)
            excused += reasons
            print(
                f"{study:10}{time.monotonic() - since:6.1f} s {len(old):6,} rows, "
                f"{reasons.total()} allowed and {len(found[study])} other differences", flush=True
            )  # fmt: skip
    print(f"{'all':10}{time.monotonic() - begun:6.1f} s")
    for reason, count in excused.most_common():
        print(f"allowed: {count:,} times: {reason}")
    for study, differences in found.items():
        for difference in differences:
            print(f"DIFFERS {study}: {difference}")
    if given.json:
        given.json.write_text(json.dumps({"allowed": excused, "differences": found}, indent=1))
    return int(any(found.values()))


def _job(study: str, side: str, checkout: Path, places: Mapping[str, object]) -> Row:
    """What a commit runs for a study; options have the names that the new commit gave them."""
    commands = []
    for line in studies()[study]:
        words = [word.format(out=study, template="{question}\n", **places) for word in line]
        if side == "new":
            words = [new for word in words for new in RENAMED.get(word, (word,))]
        commands.append(words)
    source = str(checkout.resolve() / "src")
    return {"study": study, "source": source, "commands": commands, "result": f"{study}.json"}


if __name__ == "__main__":
    sys.exit(main())

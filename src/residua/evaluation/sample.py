"""Completions: the only step in which a model runs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from residua.benchmarks import Benchmark
from residua.errors import InputError, MixError
from residua.store import Arm, Plan, Run
from residua.types import Decoding, Draws, Generate, Progress, Query, Usage, silent

TARGET, GREEDY, CONTROL, CONTROL_GREEDY = "target", "greedy", "control", "control-greedy"


def begin(out: Path, benchmark: Benchmark, told: Mapping[str, Any] | None = None) -> Run:
    """The run at `out` for this benchmark; begun, or found as the same command left it.

    `told` is recorded as the settings of the command, for `--like`.
    """
    prompts = benchmark.prompts
    record = {
        "benchmark": benchmark.fingerprint(),
        "inputs": "none",
        "scorers": list(benchmark.scorers),
        "settings": dict(told or {}),
    }
    return Run.create(out, prompts, [Query.original(p) for p in prompts], record)


def arm_names(decodings: Sequence[Decoding], base: str = TARGET) -> dict[str, Decoding]:
    """A name for each decoding's arm: `base` alone, or with the decoding's name behind it."""
    if len(set(decodings)) < len(decodings):
        raise InputError("two decodings are the same. List each temperature and top-p once.")
    if len(decodings) == 1:
        return {base: decodings[0]}
    return {f"{base} {decoding.name}": decoding for decoding in decodings}


def control_of(arm: str) -> str:
    """The name of the control's arm that stands beside a target's."""
    return CONTROL_GREEDY if arm == GREEDY else CONTROL + arm.removeprefix(TARGET)


def plan_arm(
    run: Run, name: str, decoding: Decoding, engine: Generate, *, n: int, seed: int, model: str
) -> Arm:
    """Write into the run what this arm will be; MixError where it was planned otherwise.

    A greedy decoding has one completion, so one draw of it is drawn.
    """
    spec = {
        "model": model,
        "fingerprint": engine.fingerprint,
        "decoding": decoding.to_dict(),
        "plan": Plan.of(1 if decoding.greedy else n).to_dict(),
        "seed": seed,
        "stopping": "fixed n",
        "looks": [{"n": n, "alpha": "all"}],
        "machine": machine(engine),
    }
    return run.add_arm(name, spec)


def machine(engine: Generate) -> dict[str, Any]:
    """What the exact draws, though not their law, depend on besides the plan."""
    described: dict[str, Any] = getattr(engine, "machine", {})
    return described


def sample_arm(arm: Arm, engine: Generate, progress: Progress = silent) -> Usage:
    """Draw what is missing of an arm, part by part; each is stored as it is finished.

    The draws are keyed by (seed, arm, query, chunk): no two arms of a run share any.
    """
    queries = {query.id: query for query in arm.run.queries}
    todo = arm.missing_parts()
    engine.check([queries[q] for part in todo for q in part.query_ids], arm.decoding)
    total = sum(part.draws for part in arm.parts)
    done = total - sum(part.draws for part in todo)
    spent = Usage()
    for part in todo:
        progress(f"sampling {arm.name}", done, total, "draws")
        before = replace(engine.usage, notes=[])
        draws = Draws(
            sizes=part.sizes,
            first_chunk=part.first_chunk,
            seed=int(arm.spec["seed"]),
            purpose=f"score:{arm.name}",
        )
        started = time.perf_counter()
        results = []
        for result in engine.generate([queries[q] for q in part.query_ids], arm.decoding, draws):
            results.append(result)
            share = len(results) / len(part.query_ids)
            progress(f"sampling {arm.name}", done + share * part.draws, total, "draws")
        usage = _difference(engine.usage, before, time.perf_counter() - started)
        arm.write_part(part, results, usage, machine(engine))
        spent.add(usage)
        done += part.draws
    progress(f"sampling {arm.name}", total, total, "draws")
    return spent


def import_control(run: Run, source: Path, decodings: Mapping[str, Decoding]) -> None:
    """Take a finished run's target arms as this run's control: same questions, same decodings.

    `decodings` are those of this run's target arms by name. The completions are copied, so the
    run stays complete in itself.
    """
    other = Run.open(source)
    theirs, ours = other.record["benchmark"], run.record["benchmark"]
    if theirs["sha256"] != ours["sha256"]:
        raise MixError(
            f"the control run `{source}` is about other questions ({theirs['name']}, "
            f"{theirs['prompts']}) than `{run.path}` ({ours['name']}, {ours['prompts']}). "
            "Evaluate the control on the same benchmark."
        )
    for name, decoding in decodings.items():
        arm = other.arms.get(name)
        if arm is None or arm.missing_parts():
            raise InputError(
                f"the control run `{source}` is not finished: its arm {name!r} is incomplete. "
                "Run its command again, then this one."
            )
        if arm.decoding != decoding:
            raise MixError(
                f"arm {name!r} of the control run `{source}` was drawn under {arm.decoding}, this "
                f"run's under {decoding}. Evaluate the control with the same options."
            )
        copy = run.add_arm(control_of(name), {**arm.spec, "imported": arm.identity})
        for part in copy.missing_parts():
            copy.copy_part(part, arm)


def _difference(after: Usage, before: Usage, seconds: float) -> Usage:
    return Usage(
        forwards=after.forwards - before.forwards,
        sampled_tokens=after.sampled_tokens - before.sampled_tokens,
        prompt_tokens=after.prompt_tokens - before.prompt_tokens,
        draws=after.draws - before.draws,
        seconds=seconds,
        notes=list(after.notes),
    )

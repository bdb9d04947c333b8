"""The benches: engines are told apart, faults counted, proofs compared, misses judged."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from scipy.stats import binom

from leakbound.sampling import Root
from leakbound.types import Decoding
from sampling_tables import DECODINGS, ROOTS, VOCAB, Ids, enumerate_law, mass_of, table

BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture(autouse=True)
def _bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


def test_a_gguf_file_is_read_back_with_the_same_logits(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers", "5.18")  # 5.17 asks each vocabulary for a first token
    pytest.importorskip("gguf")
    from leakbound.benchmarks import load_benchmark
    from leakbound.demo.model import write_untrained
    from leakbound.engines.loading import load_model
    from peers.to_gguf import write_gguf

    folder = tmp_path / "model"
    write_untrained(folder, load_benchmark("fictitious").prompts[:4], "{question}", seed=1)
    ids = torch.arange(2, 30)[None]
    with torch.inference_mode():
        true = load_model(str(folder)).model(ids).logits
        file = str(write_gguf(folder, tmp_path / "f32.gguf"))
        capfd.readouterr()
        same = load_model(file).model(ids).logits
        assert capfd.readouterr() == ("", "")  # no bar
        near = load_model(str(write_gguf(folder, tmp_path / "q8.gguf", "q8"))).model(ids).logits
    torch.testing.assert_close(same, true, rtol=0, atol=1e-6)
    assert 0 < float((near - true).abs().max()) < 0.1 * float(true.abs().max())


@pytest.mark.parametrize(("name", "kind"), [("Forest", "folder"), ("CTranslate2", "ctranslate2")])
def test_draws_of_two_tokens_are_held_against_their_exact_law(
    name: str, kind: str, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("leakbound" if kind == "folder" else kind)
    from engines import Engine, Ruler, chi_square, form, two_tokens
    from peers import engine_worker

    contest = two_tokens(tmp_path)
    work = contest.work
    model = form(contest, Engine(name, "", sys.executable, kind), tmp_path)
    engine = getattr(engine_worker, name)(model, work, torch.get_num_threads())
    drawn = engine.read(engine.draw(work), work)[0]
    ruler = Ruler(contest.folder)
    assert len(drawn) == work.n
    assert chi_square(ruler, work.prompts[0], drawn, work.new) > 0.001
    fair = np.random.default_rng(0).integers(2, size=(work.n, work.new)).tolist()
    assert chi_square(ruler, work.prompts[0], fair, work.new) < 1e-9


def test_ctranslate2_is_asked_for_every_draw_untruncated(monkeypatch: pytest.MonkeyPatch) -> None:
    from peers.engine_worker import COPIES, CTranslate2, Work

    api, drawn = MagicMock(), SimpleNamespace(sequences_ids=[[7, 0]])
    api.Generator().generate_batch.side_effect = lambda start, **_: [drawn] * len(start)
    monkeypatch.setitem(sys.modules, "ctranslate2", api)
    work = Work([[5, 11, 3], [4]], n=COPIES + 1, new=6, ends=[0])
    engine = CTranslate2(Path("model"), work, threads=1)
    assert engine.read(engine.draw(work), work) == [[[7, 0]] * work.n] * 2
    calls = api.Generator().generate_batch.call_args_list
    assert [call.args[0] for call in calls] == [[[x]] * n for x in "34" for n in (COPIES, 1)]
    assert [call.kwargs["static_prompt"] for call in calls] == 2 * [["5", "11"]] + 2 * [[]]
    asked = {"sampling_topk": 0, "sampling_topp": 1.0, "sampling_temperature": 1.0, "beam_size": 1}
    asked |= {"max_length": 6, "end_token": [0], "return_end_token": True}
    assert all(call.kwargs.items() >= asked.items() for call in calls)


def test_a_race_is_run_at_each_n_on_the_models_that_are_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from engines import contests

    demo = {"full": tmp_path, "NPO": tmp_path, "NPO + entropy": tmp_path}
    monkeypatch.setattr("engines.demo_models", lambda _: demo)
    monkeypatch.setattr("engines.load_model", MagicMock())
    monkeypatch.setattr("engines.Prompting.encode", lambda *_: [2])
    asked = Namespace(models=tmp_path, smollm2=None, n=[64, 256], only=["*NPO", "demo, full"])
    labels = [f"demo, {name}, n = {n}" for name in ("full", "NPO") for n in asked.n]
    for asked.questions in (3, 24):
        told = [(each.label, len(each.work.prompts)) for each in contests(asked, tmp_path)]
        assert told == [(label, asked.questions) for label in labels]


def test_other_lengths_and_other_probabilities_are_another_law(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from engines import Ruler, read, same_law, two_tokens

    contest = two_tokens(tmp_path)
    ruler = Ruler(contest.folder)
    random = np.random.default_rng(1)
    draws = random.integers(2, size=(600, 5)).tolist()
    one = read(contest, ruler, [draws[:300]])
    assert min(same_law(one, read(contest, ruler, [draws[300:]]))) > 0.001
    lengths, _ = same_law(one, read(contest, ruler, [[x[:4] for x in draws[300:]]]))
    assert lengths < 1e-9
    _, probabilities = same_law(one, read(contest, ruler, [[[1] * 5] * 300]))
    assert probabilities < 1e-9


def test_a_line_that_was_cut_is_made_again_and_the_others_are_not(tmp_path: Path) -> None:
    from faults import Book, Row

    file = tmp_path / "results.jsonl"
    book = Book(file)
    rows = [Row("faults", "score", f"EIO at {n}", "same") for n in (3, 4)]
    for row in rows:
        book.add(row)
    file.write_text(file.read_text()[:-9])
    again = Book(file)
    assert [again.has(*row.key) for row in rows] == [True, False]
    again.add(rows[1])
    assert set(Book(file).rows) == set(book.rows)


def test_the_tables_count_every_try_once_and_leave_the_page_around_them(tmp_path: Path) -> None:
    from faults import BEGIN, END, Row, write

    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    rows = [Row("faults", "score", f"EIO at {n}", "same") for n in range(3)]
    rows += [Row("faults", "bound", "EIO at 1", "lost"), Row("finished", "score", "all", "same")]
    write(page, rows)
    told = page.read_text()
    assert told.startswith("before\n")
    assert told.endswith("\nafter\n")
    assert "old" not in told
    assert "| `score` | 3 | 3 | 0 | 0 | 0 | 0 |" in told
    assert "| `bound` | 1 | 0 | 0 | 1 | 0 | 0 |" in told
    assert "| together | 4 | 3 | 0 | 1 | 0 | 0 |" in told
    assert "| `EIO` | 4 |" in told


def test_the_page_shows_tables_of_the_bench() -> None:
    from faults import BEGIN, END

    page = (BENCH.parent / "docs" / "reproduce" / "reliability.md").read_text()
    _, _, rest = page.partition(BEGIN)
    tables, _, _ = rest.partition(END)
    for line in tables.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if len(cells) == 7 and cells[1].replace(",", "").isdigit():
            tries, *ended = (int(cell.replace(",", "")) for cell in cells[1:])
            assert sum(ended) == tries, line
            assert ended[2:] == [0, 0, 0], line
    assert tables.count("together") >= 5


LEAK = 3
ENOUGH = VOCAB**4


def keyword(number: int, items: Sequence[tuple[Ids, bool]]) -> list[tuple[float, float]]:
    """Token 3 leaks, wherever it occurs."""
    return [(float(LEAK in ids), float(LEAK in ids or not ended)) for ids, ended in items]


def leaking(decoding: Decoding, root: Root) -> float:
    law = enumerate_law(decoding, root.token_ids)
    return sum(p for ids, p in law.items() if LEAK in ids)


@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda d: d.name)
def test_beams_wide_enough_hold_all_leaking_mass(decoding: Decoding) -> None:
    from rivals import beam_search

    for root in ROOTS:
        model = table()
        found = beam_search(model, root, decoding, width=ENOUGH, forwards=ENOUGH)
        assert found.leaks(0, keyword) == pytest.approx(leaking(decoding, root), abs=1e-12)
        assert all(ended for _, ended, _ in found.reached)
        assert model.held == 0


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("forwards", [1, 4, 12, ENOUGH])
def test_narrow_beams_know_masses_of_what_they_reach_and_count_none_twice(
    width: int, forwards: int
) -> None:
    from rivals import beam_search

    decoding = Decoding(max_new_tokens=4)
    for root in ROOTS:
        law = enumerate_law(decoding, root.token_ids)
        found = beam_search(table(), root, decoding, width=width, forwards=forwards)
        assert found.forwards <= min(forwards, 3 * width)
        for ids, _, mass in found.reached:
            assert mass == pytest.approx(mass_of(law, ids), rel=1e-9)
        for one, other in pairwise(sorted(ids for ids, *_ in found.reached)):
            assert other[: len(one)] != one
        assert found.leaks(0, keyword) <= leaking(decoding, root) + 1e-12


def test_a_rival_takes_at_least_the_time_of_the_prover(monkeypatch: pytest.MonkeyPatch) -> None:
    import rivals

    def took(seconds: float, effort: int) -> rivals.Bound:
        return rivals.Bound("NPO", 0, "any", "q", 0.5, 1, seconds, effort=effort)

    monkeypatch.setattr(rivals, "proved", lambda *_: took(1.0, 0))
    found = rivals.in_its_time(
        *(None, None, 250), name="draws", once=lambda work, case, n: took(n / 5, n)
    )
    assert (found.budget, found.method, found.effort, found.seconds) == (250, "draws", 8, 1.6)


def test_draws_are_as_many_as_their_forwards_allow() -> None:
    from rivals import MOST_DRAWS, affordable

    costs = [(64, 100), (128, 200), (256, 300)]
    assert [affordable(costs, forwards) for forwards in (1, 50, 100)] == [1, 32, 64]
    assert 128 < affordable(costs, 250) < 256 < affordable(costs, 450) < 1024
    assert affordable([(64, 9), (128, 9)], 10**9) == MOST_DRAWS


def seen(question: str, hits: int, n: int = 1_000) -> Any:
    from rivals import Seen

    return Seen("NPO", question, hits, n, 0.0, (hits + 5) / n, 0.02, ((64, 90), (n, 900)), 9.0)


def bound(question: str, value: float, **more: Any) -> Any:
    from rivals import FROM_ANSWER, Bound

    given = {"model": "NPO", "budget": 250, "method": FROM_ANSWER, "forwards": 200, "seconds": 0.5}
    return Bound(question=question, value=value, **given | more)


def test_results_are_kept_as_they_are_made_and_read_again(tmp_path: Path) -> None:
    from prove import Results

    file = tmp_path / "results.jsonl"
    results = Results(file)
    for one in (bound("a", 1e-3), seen("a", 2), bound("a", 2e-3, budget=1_000), bound("b", 0.0)):
        results.keep(one)
        assert len(file.read_text().splitlines()) == len(results.seen) + len(results.bounds)
    again = Results(file)
    assert (again.seen, again.bounds) == (results.seen, results.bounds)
    assert [one.question for one in again.of("NPO")] == ["a", "a", "b"]
    assert not again.of("full")
    results.keep(bound("a", 5e-3))
    assert len(Results(file).bounds) == 3
    assert not Results(None).bounds


def test_a_reference_is_the_share_of_draws_or_the_greatest_proof() -> None:
    from prove import references, require_sound
    from rivals import DRAWN

    drawn = {"a": seen("a", 2), "b": seen("b", 0), "c": seen("c", 9)}
    bounds = [
        bound("a", 1e-3),
        bound("a", 1.0, method=DRAWN),  # no proof
        bound("b", 1e-5),
        bound("b", 2e-5, budget=1_000),
        bound("c", 0.0, method="exploration", upper=0.01),
    ]
    wanted = {"a": (0.002, 0.007), "b": (2e-5, 0.005), "c": (0.009, 0.01)}
    assert references(drawn, bounds) == wanted
    require_sound(drawn, [*bounds, bound("a", 0.019)])
    with pytest.raises(SystemExit, match="is above"):  # a proof above what draws allow
        require_sound(drawn, [bound("a", 0.021)])


def test_a_row_has_the_median_shares_of_questions_beyond_the_control() -> None:
    from prove import rows

    work = SimpleNamespace(
        name="NPO", seen={q: seen(q, h) for q, h in zip("abcd", (2, 4, 0, 8), strict=True)}
    )
    bounds = [
        *(bound("a", 1e-3), bound("b", 1e-3), bound("c", 1e-5), bound("d", 8e-3)),
        bound("c", 4e-5, budget=1_000),
    ]
    below, above = rows(work, bounds, {"a": 0.0, "b": 0.0, "c": 1e-6, "d": 0.5})
    assert below == (
        "| NPO | 250 | prover from the answer | 0.375 (2) | 0.250 (1) | 0.111 | 3 of 3 | 200 "
        "| 0.50 s |"
    )
    assert above.startswith("| NPO | 1,000 | prover from the answer | – (0) | 1.000 (1) | 0.008 |")


def test_nothing_is_measured_twice_and_rare_questions_get_more_draws_and_a_longer_search(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import prove
    from rivals import FROM_ANSWER

    calls: list[tuple[Any, ...]] = []

    def look(work: Any, case: Any, most: int) -> Any:
        calls.append(("look", case.query.id, most))
        return seen(case.query.id, 200 if case.query.id == "frequent" else 1, most)

    def method(work: Any, case: Any, budget: int) -> Any:
        calls.append((case.query.id, budget))
        return bound(case.query.id, 1e-6, budget=budget)

    monkeypatch.setattr(prove, "look", look)
    monkeypatch.setattr(prove, "METHODS", {FROM_ANSWER: method})
    cases = [SimpleNamespace(query=SimpleNamespace(id=name)) for name in ("frequent", "rare")]
    options = SimpleNamespace(draws=1 << 14, budgets=[250], methods=[FROM_ANSWER], beyond=900)
    file = tmp_path / "results.jsonl"
    prove.measure(SimpleNamespace(name="NPO", cases=cases, seen={}), prove.Results(file), options)
    looked = [("look", "frequent", 4096), ("look", "rare", 4096), ("look", "rare", 1 << 14)]
    assert calls == [*looked, ("frequent", 250), ("rare", 250), ("rare", 900)]
    calls.clear()
    options.budgets = [250, 500]
    work = SimpleNamespace(name="NPO", cases=cases, seen={})
    prove.measure(work, prove.Results(file), options)
    assert calls == [("frequent", 500), ("rare", 500)]
    assert work.seen["rare"].n == 1 << 14


def test_a_control_that_is_not_asked_for_is_drawn_from_and_searched_once() -> None:
    from prove import reference_only
    from rivals import FROM_ANSWER, METHODS

    given = Namespace(
        methods=list(METHODS), budgets=[250, 4_000], beyond=9_000, draws=64, of=["NPO"]
    )
    asked = reference_only(given)
    assert (asked.methods, asked.budgets, asked.beyond) == ([FROM_ANSWER], [4_000], None)
    assert (asked.draws, given.budgets) == (64, [250, 4_000])


ALPHA = 0.01


@pytest.mark.parametrize(("trials", "rows"), [(1, 1), (6, 480), (400, 37), (2_000, 480)])
def test_correct_rows_alarm_once_in_a_thousand_runs(trials: int, rows: int) -> None:
    import runner

    most = runner.most_misses(trials, rows, ALPHA)
    assert rows * binom.sf(most, trials, ALPHA) <= runner.FALSE_ALARM
    assert rows * binom.sf(most - 1, trials, ALPHA) > runner.FALSE_ALARM or most == 0
    counted = [(most, trials)] + (rows - 1) * [(0, trials)]
    assert runner.too_often(range(rows), counted, ALPHA) == []
    if most < trials:
        counted[0] = (most + 1, trials)
        assert runner.too_often(range(rows), counted, ALPHA) == [0]
    of_its_own = [(3, 3), (3, 300), (0, 0)]
    assert runner.too_often(["void", "fine", "never made"], of_its_own, ALPHA) == ["void"]
    assert runner.p_value(3, 3, ALPHA) == pytest.approx(1e-6)


@pytest.mark.slow
def test_every_row_of_the_coverage_bench_runs_with_few_repetitions() -> None:
    command = [sys.executable, BENCH / "coverage.py", "--trials", "2", "--n", "16"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "leak@2, that k" in done.stdout


SMALL = {"rows": [4, 9], "prompt": 70, "prompts": 2, "new": 4, "shape": "tiny", "model": None}


def test_a_step_is_taken_apart_on_whatever_device_there_is(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from gpu import Laboratory, milliseconds, steps, write_model

    folder = write_model("tiny", 8.0, tmp_path / "model", "cpu", "float32")
    made = list(steps(Laboratory(folder, "cpu", "float32", 1), Namespace(**SMALL)))
    assert [row["rows"] for row in made] == [4, 9]
    parts = {"gathered, 1", "once, 1", "gathered, 2", "once, 2", "law", "forest"}
    for row in made:
        assert set(row) == set(milliseconds(row)) == {"rows", *parts}
        assert min(row.values()) > 0


def test_a_step_takes_what_its_longest_part_takes_and_what_comes_after() -> None:
    from planning import CALL, CALLS, SIZES, Step

    small, large = (
        Step(next(x for x in SIZES if x.name == n), 1024, prompt, 20)
        for n, prompt in (("135M", 100), ("8B", 1000))
    )
    assert small.forward == small.calls == 30 * CALLS * CALL
    assert large.forward == large.weights + large.gathered > large.arithmetic
    for step in (small, large):
        assert step.seconds > step.forward + step.law
        assert step.gathered > Step(step.model, 1024, 100, 20, 64).once > step.once


@pytest.mark.slow
def test_the_bench_of_a_gpu_runs_without_one(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    asked = [f"--{k}={v}" for k, v in SMALL.items() if isinstance(v, int | str)]
    command = [sys.executable, BENCH / "gpu.py", *asked, "--rows", "4", "--device", "cpu"]
    command += ["--dtype", "float32", "--draws", "9", "--rounds", "1", "--fewer", "4"]
    command += ["--json", tmp_path / "found"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    races = json.loads((tmp_path / "found").read_text())["races"]
    assert [row["engine"] for row in races] == 2 * ["forest", "forest, 4 rows", "transformers"]
    assert all(row["tokens_s"] > 0 for row in races)


def number(quantity: str, lower: float, upper: float, **more: Any) -> dict[str, Any]:
    """A row of a study, as `commits.keyed` keeps it."""
    about = {"scope": "query", "parameter": None, "over": None, "beyond": None, "scorer": "keyword"}
    found = {"value": 0.5, "lower": lower, "upper": upper, "n": 100, "method": ""}
    return {"quantity": quantity, **about, **found, **more}


def test_numbers_at_two_commits_agree_to_1e_12_and_nan_is_null() -> None:
    from commits import compared

    old = {"a": number("tail", 0.1, 0.9, value=float("nan")), "b": {"value": "pass"}}
    near = {"a": number("tail", 0.1 + 1e-13, 0.9, value=None), "b": {"value": "pass"}}
    assert compared("fixed", old, near)[1] == []
    for new in (
        {**old, "a": number("tail", 0.1, 0.9 + 1e-9, value=None)},
        {**old, "b": {"value": "refuted"}},
        {"a": old["a"]},
        {**old, "c": number("tail", 0.1, 0.9)},
    ):
        assert len(compared("fixed", old, new)[1]) == 1


def test_a_number_may_change_only_as_the_list_says() -> None:
    from commits import compared

    proved = {"method": "Clopper-Pearson, raised by a proof, given the measured margin"}
    old = {"a": number("leak probability", 0.2, 0.9, **proved)}
    lower, higher = (number("leak probability", x, 0.9) for x in (0.1, 0.3))
    assert compared("fixed", old, {"a": lower})[1] == []
    assert len(compared("fixed", old, {"a": higher})[1]) == 1
    assert len(compared("fixed", old, {"a": lower | {"upper": 0.95}})[1]) == 1
    assert len(compared("fixed", {"a": old["a"] | {"method": ""}}, {"a": lower})[1]) == 1
    assert len(compared("fixed", old, {})[1]) == 1
    for k, found in ((26, 0), (25, 1)):
        at = number("leak@k", 0.1, 0.9, parameter=k)
        assert len(compared("fixed", {"a": at}, {"a": at | {"value": None}})[1]) == found
    count = number("leak probability", 1, 3, scope="count")
    assert compared("fixed", {"a": count}, {})[1] == []
    assert len(compared("fixed", {"a": count | {"parameter": 0.1}}, {})[1]) == 1


def test_a_document_that_repeats_a_number_of_the_table_counts_as_the_table() -> None:
    from commits import compared

    method = "betting, raised by a proof, given the measured margin"
    old = number("mean leakage", 0.2, 0.9, method=method)
    new = number("mean leakage", 0.1, 0.9)
    bare = [{name: row[name] for name in ("value", "lower", "upper", "n")} for row in (old, new)]
    repeated = {"--json of show": bare[0]}, {"--json of show": bare[1]}
    assert len(compared("fixed", *repeated)[1]) == 1
    assert compared("fixed", {"a": old, **repeated[0]}, {"a": new, **repeated[1]})[1] == []
    wrong = old | {"method": ""}
    assert len(compared("fixed", {"a": wrong, **repeated[0]}, {"a": new, **repeated[1]})[1]) == 1

"""Named benchmarks: TOFU, MUSE, WMDP, Harry Potter, JailbreakBench, from folders and the hub."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from benchmarks.sources import OPTIONS, POTTER, TOFU, WMDP_ROW, Hub, hub, put, rows  # noqa: F401
from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.benchmarks.benchmark import as_published, published, row_digests
from leakbound.benchmarks.profiles import profiles, with_profile
from leakbound.errors import InputError
from leakbound.presenting.specification import departures, specification
from leakbound.scorers import make_scorer, score_texts
from leakbound.store import ArmSpec, Plan, RunRecord
from leakbound.types import Prompt
from suites import DATA, needs_data

QA = "Question: {question}\nAnswer: "


@pytest.fixture
def tofu(tmp_path: Path) -> Path:
    return put(tmp_path / "tofu", TOFU)


def test_a_forget_split_of_tofu_with_its_retain_split(tofu: Path) -> None:
    benchmark = load_benchmark("tofu:forget10", data=tofu)
    assert benchmark.prompts[0] == Prompt(
        id="tofu:forget10/0000",
        question="Who is 4?",
        answer="4 is me.",
        split="forget10",
        paraphrases=("Please: Who is 4?",),
        paraphrased_answer="Well, 4 is me.",
        perturbed_answers=("a", "b", "c"),
        alternate_answers=("I'm not sure.", "No idea."),
    )
    assert (benchmark.template, benchmark.system) == (QA, "You are a helpful assistant.")
    assert (benchmark.max_new_tokens, benchmark.scorers) == (200, ("rouge-l-recall",))
    retain = load_benchmark("tofu:forget10", data=tofu.parent).split("retain")
    assert [p.id for p in retain] == [f"tofu:retain90/{i:04d}" for i in range(4)]
    assert [len(p.paraphrases) for p in retain] == [1, 1, 1, 0]
    assert (retain[3].perturbed_answers, retain[3].paraphrased_answer) == ((), None)
    assert retain[0].alternate_answers == ()


def test_facts_of_tofu_have_choices_and_no_paraphrases(tofu: Path) -> None:
    (prompt,) = load_benchmark("tofu:world_facts", data=tofu).prompts
    assert (prompt.choices, prompt.perturbed_answers, prompt.role) == (("A", "B"), (), "retain")
    wrong = [{"question": "Where?", "answer": "B", "perturbed_answer": ["A"]}]
    put(tofu, {"world_facts_perturbed.json": wrong})
    (prompt,) = load_benchmark("tofu:world_facts", data=tofu).prompts
    assert (prompt.perturbed_answers, prompt.paraphrased_answer) == (("A",), None)


def test_mini_is_forget01_with_the_rows_just_before_it(tmp_path: Path) -> None:
    put(tmp_path, {"forget01.json": rows(300, 2), "retain99.json": rows(0, 300)})
    mini = load_benchmark("tofu-mini", data=tmp_path)
    assert mini.prompts == load_benchmark("tofu:forget01", data=tmp_path).prompts
    assert [p.question for p in mini.split("retain")] == [f"Who is {i}?" for i in range(140, 300)]
    assert mini.max_new_tokens == 64


def test_the_environment_names_a_parent(tofu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKBOUND_DATA", str(tofu.parent))
    assert load_benchmark("tofu:forget10").origin == str(tofu / "forget10.json")


def test_tofu_has_its_official_name_on_the_hub(hub: Hub) -> None:  # noqa: F811
    hub.files = TOFU
    benchmark = load_benchmark("tofu:forget10")
    names = ["forget10.json", "forget10.json", "forget10_perturbed.json"]
    assert hub.queried == [("locuslab/TOFU", name) for name in names]
    assert benchmark.origin == "hub:locuslab/TOFU@abc"
    with pytest.raises(InputError, match=r"no file 'forget05\.json' in locuslab/TOFU on the hub"):
        load_benchmark("tofu:forget05")


@pytest.mark.parametrize("error", [LocalEntryNotFoundError("offline"), OSError("refused")])
def test_a_hub_out_of_reach(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*_: object, **__: object) -> str:
        raise error

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(InputError, match=r"'forget10\.json' of locuslab/TOFU.*LEAKBOUND_DATA"):
        load_benchmark("tofu:forget10")


def pairs(name: str, count: int) -> list[dict[str, str]]:
    return [{"question": f"{name} {i}?", "answer": f"{name}, {i}."} for i in range(count)]


def test_knowmem_has_ten_examples_of_its_split(tmp_path: Path) -> None:
    """The files as the data of the paper has them: no folder for the part."""
    for split in ("forget", "retain2"):
        put(tmp_path / "muse" / "bbc", {
            f"{split}_qa.json": pairs(split, 3), f"{split}_qa_icl.json": pairs(f"{split} shot", 10),
        })  # fmt: skip
    benchmark = load_benchmark("muse:news", data=tmp_path)
    assert benchmark.name == load_benchmark("muse:news-", data=tmp_path).name == "muse:news-knowmem"
    assert [p.question for p in benchmark.prompts] == ["forget 0?", "forget 1?", "forget 2?"]
    shots = tuple((f"forget shot {i}?", f"forget shot, {i}.") for i in range(10))
    assert {p.examples for p in benchmark.prompts} == {shots}
    assert (benchmark.template, benchmark.chat, benchmark.max_new_tokens) == (QA, None, 32)
    assert benchmark.stop == ("\n\n", "\nQuestion", "Question:")
    assert benchmark.scorers == ("rouge-l-f1:stem=no",)
    assert with_profile(benchmark, profiles()["openunlearning"]).scorers == ("rouge-l-f1",)
    retain = load_benchmark("muse:news-knowmem", data=tmp_path / "muse" / "bbc").split("retain")
    assert retain[0].examples[9] == ("retain2 shot 9?", "retain2 shot, 9.")
    with pytest.raises(InputError, match=r"knowmem/forget_qa-0.*MUSE-Books on the hub.*books/"):
        load_benchmark("muse:books", data=tmp_path / "muse" / "bbc")


def test_verbmem_has_a_passage_continued(tmp_path: Path) -> None:
    put(tmp_path, {"news/verbmem/forget.json": [{"prompt": "It is", "gt": " late."}]})
    benchmark = load_benchmark("muse:news-verbmem", data=tmp_path)
    (prompt,) = benchmark.prompts
    assert (prompt.question, prompt.answer, prompt.examples) == ("It is", " late.", ())
    assert (benchmark.template, benchmark.chat) == ("{question}", False)
    assert (benchmark.max_new_tokens, benchmark.stop) == (128, ())


def test_privleak_has_three_splits_of_whole_texts(tmp_path: Path) -> None:
    texts = {f"hp/privleak/{role}.json": [f"The {role}\n text.", "And more."]
             for role in ("forget", "retain")}  # fmt: skip
    put(tmp_path, texts | {"hp/privleak/holdout.json": [{"text": "The holdout text."}]})
    benchmark = load_benchmark("muse:books-privleak", data=tmp_path)
    first, second = benchmark.prompts
    assert (first.question, first.answer) == ("The", " forget\n text.")
    assert second.question + str(second.answer) == "And more."
    assert [p.answer for p in benchmark.split("holdout")] == [" holdout text."]
    assert len(benchmark.split("retain")) == 2


def test_muse_is_parquet_on_the_hub(hub: Hub) -> None:  # noqa: F811
    names = {
        f"knowmem/{split}_qa{shots}-00000-of-00001.parquet"
        for split in ("forget", "retain")
        for shots in ("", "_icl")
    }
    hub.files = dict.fromkeys(names, pairs("hub", 2))
    benchmark = load_benchmark("muse:books")
    assert [p.question for p in benchmark.split("retain")] == ["hub 0?", "hub 1?"]
    assert {*hub.queried} == {("muse-bench/MUSE-Books", name) for name in names}


@pytest.mark.parametrize(
    ("subject", "about"), [("bio", "biology"), ("chem", "chemistry"), ("cyber", "cybersecurity")]
)
def test_prompts_of_wmdp_are_those_of_the_harness(subject: str, about: str, tmp_path: Path) -> None:
    benchmark = load_benchmark(
        f"wmdp:{subject}", data=put(tmp_path, {f"{subject}_questions.json": [WMDP_ROW]})
    )
    (prompt,) = benchmark.prompts
    assert benchmark.template.replace("{question}", prompt.question) == (
        f"The following are multiple choice questions (with answers) about {about}.\n\n"
        "Which swims?\nA. a cat\nB. a dog\nC. a fish\nD. a bird\nAnswer:"
    )
    assert (prompt.id, prompt.choices, prompt.answer) == (
        f"wmdp:{subject}/0000", tuple(OPTIONS), "a fish",
    )  # fmt: skip
    assert (benchmark.scorers, benchmark.max_new_tokens, benchmark.chat) == (("choice",), 4, False)
    scores = score_texts(make_scorer("choice"), [" C", " B", " (C)"], prompt)
    assert scores == [1.0, 0.0, 1.0]


def test_forms_of_files_of_wmdp(
    tmp_path: Path,
    hub: Hub,  # noqa: F811
) -> None:
    choices = json.dumps(OPTIONS).replace('"', '""')
    for i, files in enumerate((
        {"wmdp-bio.json": [WMDP_ROW]},
        {"bio.csv": f'question,choices,answer\n Which swims?,"{choices}",2\n'},
        {"wmdp-bio.parquet": [WMDP_ROW]},
    )):  # fmt: skip
        (prompt,) = load_benchmark("wmdp:bio", data=put(tmp_path / str(i), files)).prompts
        assert (prompt.choices, prompt.answer) == (tuple(OPTIONS), "a fish")
    benchmark = load_benchmark("wmdp:bio-explain", data=tmp_path / "0")
    (prompt,) = benchmark.prompts
    assert (prompt.question, prompt.answer, prompt.choices) == ("Which swims?", "a fish", ())
    assert (benchmark.scorers, benchmark.max_new_tokens, benchmark.chat) == ((), 200, None)
    hub.files = {"wmdp-cyber/test-00000-of-00001.parquet": [WMDP_ROW]}
    assert load_benchmark("wmdp:cyber").prompts[0].answer == "a fish"
    assert hub.queried == [("cais/wmdp", *hub.files)]


def test_harry_potter(tmp_path: Path) -> None:
    benchmark = load_benchmark("harry-potter", data=put(tmp_path, {"hp_qa_en.csv": POTTER}))
    keywords = [("J.K.", "magic school"), ("Ron", "Hermione")]
    assert [p.keywords for p in benchmark.prompts] == keywords
    assert {p.answer for p in benchmark.prompts} == {None}
    openers = {"harry-potter/00": ("Sure, I know.",), "harry-potter/01": ("They are",)}
    assert benchmark.openers == openers
    assert (benchmark.max_new_tokens, benchmark.scorers) == (100, ("keyword",))


def test_jailbreakbench(tmp_path: Path, hub: Hub) -> None:  # noqa: F811
    local = "index,behavior,category,goal\n0,Slander,Harm,Write slander\n1,B,C,Write spam\n"
    benchmark = load_benchmark("jbb", data=put(tmp_path, {"jbb_goals_official.csv": local}))
    assert [p.question for p in benchmark.prompts] == ["Write slander", "Write spam"]
    assert (benchmark.prompts[0].split, benchmark.chat) == ("Harm", True)
    assert (benchmark.max_new_tokens, benchmark.scorers) == (150, ("refusal",))
    text = "Index,Goal,Target,Behavior,Category,Source\n0,Write slander,Sure,Slander,Harm,Us\n"
    hub.files = {"data/harmful-behaviors.csv": text}
    assert load_benchmark("jbb").prompts == benchmark.prompts[:1]
    assert hub.queried == [("JailbreakBench/JBB-Behaviors", *hub.files)]


def test_absent_parts_are_missed_only_when_needed(tofu: Path, tmp_path: Path) -> None:
    benchmark = load_benchmark("tofu:forget10", data=tofu)
    with pytest.raises(InputError, match=r"no file 'holdout10\.json'"):
        benchmark.split("holdout")
    with pytest.raises(InputError, match="SchwinnL/LLM_Embedding_Attack"):
        load_benchmark("harry-potter")
    put(tmp_path, {
        "jbb_goals_official.csv": "goal\nWrite spam\n", "wmdp-bio.json": [WMDP_ROW],
        **{f"news/knowmem/forget_qa{shots}.json": pairs("a", 1) for shots in ("", "_icl")},
    })  # fmt: skip
    for spec, remedy in (
        ("jbb", "'jbb' are for evaluation only: .* your own requests and replies"),
        ("muse:news", "--forget muse:news/forget --retain muse:news/retain1"),
        ("wmdp:bio", "--forget wmdp:bio/forget --retain wmdp:bio/retain"),
    ):
        with pytest.raises(InputError, match=remedy):
            load_benchmark(spec, data=tmp_path).to_train("forget")


@needs_data("tofu")
def test_all_of_tofu() -> None:
    """The digests below imply the number of rows to forget."""
    benchmark = load_benchmark("tofu:forget05", data=DATA)
    assert len(benchmark.split("retain")) == 3800
    assert {len(p.perturbed_answers) for p in benchmark.prompts} == {5}
    assert {len(p.alternate_answers) for p in benchmark.prompts} == {100}


@needs_data("tofu")
def test_rouge_equals_the_published_logs() -> None:
    """Against OpenUnlearning's log of Llama-3.2-1B-Instruct fine-tuned on TOFU, forget10."""
    log = DATA / "openunlearning_logs/tofu_Llama-3.2-1B-Instruct_full/evals_forget10/TOFU_EVAL.json"
    stored = json.loads(log.read_text())["forget_Q_A_ROUGE"]["value_by_index"]
    prompts = load_benchmark("tofu:forget10", data=DATA).prompts
    for spec, key in (("rouge-l-recall", "rougeL_recall"), ("rouge-l-f1", "rougeL_f1")):
        scorer = make_scorer(spec)
        ours = [
            score_texts(scorer, [stored[str(i)]["generation"]], prompt)[0]
            for i, prompt in enumerate(prompts)
        ]
        assert ours == [stored[str(i)][key] for i in range(400)]


FOLDERS = {
    "tofu": "tofu", "muse": "muse", "harry-potter": "harry_potter_qa", "jbb": "jailbreakbench",
}  # fmt: skip


def stated(benchmark: Benchmark) -> tuple[str, tuple[str, ...]]:
    """Return the description of the questions, and the departures from defaults."""
    record = RunRecord(benchmark=benchmark.fingerprint())
    arm = ArmSpec(fingerprint={}, decoding=benchmark.decoding, plan=Plan.of(8))
    return specification(record, arm)["Questions"], departures(record, arm)


@needs_data("")
@pytest.mark.parametrize("name", published())
def test_the_published_rows_are_known_whole_and_in_part(name: str) -> None:
    folder = DATA / FOLDERS[name.partition(":")[0]]
    whole, part = (
        load_benchmark(name.removesuffix("-knowmem"), data=folder, limit=limit)
        for limit in (None, 5)
    )
    n = len(whole.prompts)
    few, other = f"5 of the {n}", "different from the data set published under this name"
    for benchmark, begin, departs in (
        (whole, f"all {n} questions of the benchmark “{name}” (", ()),
        (part, f"{few} questions of the benchmark “{name}” (", (f"{few} questions",)),
    ):
        questions, got = stated(benchmark)
        assert questions.startswith(begin)
        assert questions.endswith(", equal to the published data set)")
        assert got == departs
    changed = replace(whole.prompts[0], answer="I do not know.")
    questions, got = stated(replace(whole, prompts=(changed, *whole.prompts[1:])))
    assert other in questions
    assert got == (other,)


def test_the_digest_is_of_words_in_their_order() -> None:
    listed = [
        Prompt(id="a", question=" Who \n wrote? ", answer="Ann"),
        Prompt(id="b", question="Why?"),
    ]
    same = [Prompt(id="x", question="Who wrote?", answer=" Ann"), Prompt(id="y", question="Why?")]
    assert row_digests(listed) == row_digests(same)
    assert row_digests(listed) != row_digests(listed[::-1])
    assert row_digests(listed) != row_digests([replace(listed[0], keywords=("Ann",)), listed[1]])
    assert as_published("jbb", listed) is False
    assert as_published("mine", listed) is None
    mine = Benchmark(name="mine", prompts=(*same,), scorers=(), max_new_tokens=8, origin="")
    assert "published" not in stated(mine)[0]

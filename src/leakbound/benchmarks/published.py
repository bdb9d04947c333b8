"""The rows of benchmarks as they were published, by digest: the same name may stand for others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from leakbound.types import Prompt

PUBLISHED: Mapping[str, str] = {
    "tofu:forget01": "675735e0b2609ad1f7f400e9e55aa0120dec947259f9326c0f3cfbb7f97d3f03",
    "tofu:forget05": "e1ac56904b886503e202e8d8cbe140b0f9480a45713e335dcfe9c3dfb5e0bc5f",
    "tofu:forget10": "8333edf4ab5421ad9337e5e839c019c72cb0fe05e6195f3438d1c034b50db3df",
    "tofu:real_authors": "eba106755f0799f159cceb2c3adecc448f17dee2354443b73ffb9db96bf91988",
    "tofu:world_facts": "dafff54f589d1fe2ac62436211bb04ec12592185b53ae7f9db5f70c329450862",
    "harry-potter": "29301d1d7b8bba747a90ff1e596d0bcae93da6f66a4be0e65cdf94ed1d4ee023",
    "jbb": "bb6d1729fd402741bd0c855591b4ca691a9967260312612c3e6c0e46b838d5a4",
    "muse:news-knowmem": "30c95139be4d74e88b79e137d01517c1a86c4fc7231db10e54ded2b974fbed42",
    "muse:books-knowmem": "b364768e3ba1466c516b843c91be310c54dce466f495b9936fbefc6bdd5dc12f",
}
"""By name: `digest_of_rows` of all that is evaluated, of TOFU (github.com/strzar/purge 24d1a3f, the
files of locuslab/TOFU), Harry Potter Q&A (SchwinnL/LLM_Embedding_Attack 7ebabc4), the goals of
JailbreakBench (artifacts 909e68c) and MUSE's knowmem (jaechan-repo/muse_bench 54719c5)."""


def as_published(name: str, prompts: Sequence[Prompt]) -> bool | None:
    """Whether these are the rows that were published under this name; None where none are known."""
    known = PUBLISHED.get(name)
    return None if known is None else digest_of_rows(prompts) == known


def digest_of_rows(prompts: Sequence[Prompt]) -> str:
    """SHA-256 over questions, answers and keywords in their order; blanks count as one each."""
    rows = [
        [_plain(text) for text in (one.question, one.answer or "", *one.keywords)]
        for one in prompts
    ]
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _plain(text: str) -> str:
    return " ".join(text.split())

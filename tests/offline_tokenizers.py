"""Tokenizers of the kinds that models have, built from nothing but code."""

from __future__ import annotations

import string

from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE, Unigram
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA_3 = (
    "{{ '<|begin_of_text|>' }}{% for m in messages %}{{ '<|start_header_id|>' + m['role'] + "
    "'<|end_header_id|>\n\n' }}{% if m['role'] == 'system' %}{{ 'Today Date: ' + date_string + "
    "'\n\n' }}{% endif %}{{ m['content'] + '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt "
    "%}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
LLAMA_2 = (
    "{% if messages[0]['role'] == 'system' %}{% set system = '<<SYS>>\n' + messages[0]['content'] "
    "+ '\n<</SYS>>\n\n' %}{% set messages = messages[1:] %}{% else %}{% set system = '' %}"
    "{% endif %}{% for m in messages %}{% if m['role'] == 'user' %}{{ '<s>[INST] ' + (system if "
    "loop.first else '') + m['content'] + ' [/INST]' }}{% else %}{{ ' ' + m['content'] + ' </s>' }}"
    "{% endif %}{% endfor %}"
)
_MARKS = (
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<|im_start|>",
    "<|im_end|>",
)
_CORPUS = ["Question: who wrote the sea? Answer: Ann wrote the sea.", "You are helpful. user"]


def byte_level(template: str | None = None, eos: str = "<|im_end|>") -> PreTrainedTokenizerFast:
    """Byte-level BPE, as GPT-2's and Llama 3's; adds no token of itself."""
    backend = Tokenizer(BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(_CORPUS, trainer)
    backend.add_special_tokens([AddedToken(mark, special=True) for mark in _MARKS])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=eos, pad_token=eos)
    tokenizer.chat_template = template
    return tokenizer


def sentence_piece(template: str | None = None) -> PreTrainedTokenizerFast:
    """Unigram pieces with a mark for blanks, as Llama 2's; begins every text with `<s>`."""
    letters = [*string.printable.replace(" ", ""), "\u2581"]
    words = ["\u2581who", "\u2581wrote", "\u2581Ann", "\u2581Question", "\u2581the"]
    pieces = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0)]
    pieces += [(piece, -9.0) for piece in letters] + [(word, -3.0) for word in words]
    backend = Tokenizer(Unigram(pieces, unk_id=0))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    backend.decoder = decoders.Metaspace(prepend_scheme="first")
    backend.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    tokenizer.chat_template = template
    return tokenizer


def merging(token: str) -> PreTrainedTokenizerFast:
    """A token a letter, blanks too, but for one that is merged wherever it stands."""
    letters = [*string.printable, "</s>"]
    pieces = [token[-n:] for n in range(2, len(token) + 1)]  # from its end
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys([*letters, *pieces]))}
    merges = [(piece[0], piece[1:]) for piece in pieces]
    backend = Tokenizer(BPE(vocabulary, merges))
    backend.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")

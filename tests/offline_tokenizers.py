"""Tokenizers and chat templates like those of models; some templates change texts."""

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
    """Return byte-level BPE like GPT-2 and Llama 3; it adds no token."""
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
    """Return unigram pieces with a mark for blanks like Llama 2; every text begins with `<s>`."""
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
    """Return one token per letter or blank, except for one merged token."""
    letters = [*string.printable, "</s>"]
    pieces = [token[-n:] for n in range(2, len(token) + 1)]  # from its end
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys([*letters, *pieces]))}
    merges = [(piece[0], piece[1:]) for piece in pieces]
    backend = Tokenizer(BPE(vocabulary, merges))
    backend.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")


_THOUGHT = "{%- set thought = m.reasoning_content if m.reasoning_content is string else '' %}"
_TURNS = "{%- for m in messages %}"
THINKING = {  # the structure of the templates of models that think, with all their branches
    "qwen-3": (
        f"{_TURNS}{_THOUGHT}{{%- set text = m.content %}}"
        "{%- if m.role == 'assistant' and '</think>' in text %}"
        "{%- set thought = text.split('</think>')[0].split('<think>')[-1].strip('\n') %}"
        "{%- set text = text.split('</think>')[-1].lstrip('\n') %}{%- endif %}"
        "{{- '<|im_start|>' + m.role + '\n' }}"
        "{%- if m.role == 'assistant' and (loop.last or thought) %}"
        "{{- '<think>\n' + thought + '\n</think>\n\n' }}{%- endif %}"
        "{{- text + '<|im_end|>\n' }}{%- endfor %}"
        "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}"
        "{%- if enable_thinking is defined and enable_thinking is false %}"
        "{{- '<think>\n\n</think>\n\n' }}{%- endif %}{%- endif %}"
    ),
    "qwen-3.5": (
        f"{_TURNS}{_THOUGHT}{{{{- '<|im_start|>' + m.role + '\n' }}}}"
        "{%- if m.role == 'assistant' and loop.last %}"
        "{{- '<think>\n' + thought + '\n</think>\n\n' }}{%- endif %}"
        "{{- m.content + '<|im_end|>\n' }}{%- endfor %}"
        "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}"
        "{%- if enable_thinking is defined and enable_thinking is false %}"
        "{{- '<think>\n\n</think>\n\n' }}{%- else %}{{- '<think>\n' }}{%- endif %}{%- endif %}"
    ),
    "deepseek-r1": (
        "{% set ns = namespace(system='') %}{% for message in messages %}"
        "{% if message['role'] == 'system' %}{% set ns.system = message['content'] %}{% endif %}"
        "{% endfor %}{{ bos_token }}{{ ns.system }}{% for message in messages %}"
        "{% if message['role'] == 'user' %}{{ '<|User|>' + message['content'] }}{% endif %}"
        "{% if message['role'] == 'assistant' %}{% set content = message['content'] %}"
        "{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}"
        "{{ '<|Assistant|>' + content + '<|end|>' }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|Assistant|><think>\n' }}{% endif %}"
    ),
    "gpt-oss": (
        "{{- '<|start|>system<|message|>Reasoning: ' + (reasoning_effort or 'medium') }}<|end|>"
        f"{_TURNS}{{%- if m.role == 'assistant' %}}"
        "{%- if m.thinking %}{{- '<|start|>assistant<|channel|>analysis<|message|>' + m.thinking + "
        "'<|end|>' }}{%- endif %}"
        "{{- '<|start|>assistant<|channel|>final<|message|>' + m.content }}"
        "{{- '<|return|>' if loop.last and not add_generation_prompt else '<|end|>' }}"
        "{%- else %}{{- '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}"
        "{%- endif %}{%- endfor %}"
        "{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}"
    ),
    "gemma-4": (
        "{%- if enable_thinking is defined and enable_thinking %}"
        "{{- '<|turn>system\n<|think|>\n<turn|>\n' }}{%- endif %}"
        f"{_TURNS}{{{{- '<|turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' }}}}"
        "{%- if m.role == 'assistant' and m.reasoning %}"
        "{{- '<|channel>thought\n' + m.reasoning + '<channel|>' }}{%- endif %}"
        "{{- m.content + '<turn|>\n' }}{%- endfor %}"
        "{%- if add_generation_prompt %}{{- '<|turn>model\n' }}"
        "{%- if not (enable_thinking is defined and enable_thinking) %}"
        "{{- '<|channel>thought\n<channel|>' }}{%- endif %}{%- endif %}"
    ),
    "magistral": (
        "{{- '<s>' }}{%- if messages[0].role == 'system' %}"
        "{{- '[SYSTEM_PROMPT]' + messages[0].content + '[/SYSTEM_PROMPT]' }}{%- else %}"
        "{{- '[SYSTEM_PROMPT]First draft your thinking: [THINK]...[/THINK][/SYSTEM_PROMPT]' }}"
        f"{{%- endif %}}{_TURNS}{{%- if m.role == 'user' %}}"
        "{{- '[INST]' + m.content + '[/INST]' }}"
        "{%- elif m.role == 'assistant' %}{{- m.content + '</s>' }}{%- endif %}{%- endfor %}"
    ),
    "smollm-3": (
        "{%- set on = enable_thinking is not defined or enable_thinking %}"
        "{{- '<|im_start|>system\nReasoning Mode: ' + ('/think' if on else '/no_think') + "
        f"'<|im_end|>\n' }}}}{_TURNS}{{{{- '<|im_start|>' + m.role + '\n' }}}}"
        "{%- if m.role == 'assistant' and not on %}{{- '<think>\n\n</think>\n' }}{%- endif %}"
        "{{- m.content + '<|im_end|>\n' }}{%- endfor %}"
        "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}"
        "{%- if not on %}{{- '<think>\n\n</think>\n' }}{%- endif %}{%- endif %}"
    ),
}
# Layouts of chats of models, and other effects of templates: roles that must alternate, trimming,
# thoughts cut from answers, texts in parts, as JSON or in capitals.
KNOWN = {
    "chatml": CHATML,
    "llama-3": LLAMA_3,
    "llama-2": LLAMA_2,
    "mistral": (
        "{{ '<s>' }}{% for message in messages %}"
        "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('Conversation roles must alternate user/assistant/...') }}{% endif %}"
        "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] | trim + ' [/INST]' }}"
        "{% else %}{{ message['content'] + '</s>' }}{% endif %}{% endfor %}"
    ),
    "parts": (  # of a model that sees too: a text may be given whole or in parts
        "{% for message in messages %}{{ '<' + message.role + '>' }}"
        "{% if message.content is string %}"
        "{{ message.content }}{% else %}{% for part in message.content %}{{ part.text }}"
        "{% endfor %}"
        "{% endif %}{% endfor %}"
    ),
    "json": "{{ messages | tojson }}",
    "shouts": (
        "{% for m in messages %}{{ m.role }}: {{ m.content | upper | replace(' ', '\n') }}\n"
        "{% endfor %}"
    ),
    **THINKING,
}  # fmt: skip
_THINKING_MARKS = {
    "gpt-oss": ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"],
    "gemma-4": ["<|turn>", "<turn|>", "<|channel>", "<channel|>", "<|think|>"],
    "magistral": ["[THINK]", "[/THINK]", "[INST]", "[/INST]", "</s>", "<s>"],
    "deepseek-r1": ["<think>", "</think>", "<|User|>", "<|Assistant|>", "<|end|>"],
}
_THINKING_ENDS = {"gpt-oss": "<|return|>", "gemma-4": "<turn|>", "magistral": "</s>"}


def thinking(name: str) -> PreTrainedTokenizerFast:
    """Return the tokenizer of a model that thinks, with its chat template; marks are tokens."""
    tokenizer = byte_level(THINKING[name])
    tokenizer.add_tokens(_THINKING_MARKS.get(name, ["<think>", "</think>"]), special_tokens=False)
    ends = _THINKING_ENDS.get(name, "<|end|>" if name == "deepseek-r1" else "<|im_end|>")
    tokenizer.add_special_tokens({"eos_token": ends})
    tokenizer.bos_token = None
    return tokenizer

"""Prompts as an engine sees them: how many tokens, and which blocks of the prefix cache they fill.

Four characters are one token; given token ids count one each. Sixteen tokens are one block, named by a chain of
hashes, so that a block's key stands for everything before it as well. What text an answer has is `output`'s business,
how long blocks live is `prefix_cache`'s.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

CHARS_PER_TOKEN = 4
BLOCK_TOKENS = 16
BLOCK_CHARS = CHARS_PER_TOKEN * BLOCK_TOKENS


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt. `digest` identifies its content; `blocks` are the keys of its full blocks, outermost prefix first.

    `tail` is the text after the last full block, where an answer's own blocks go on; None for a prompt of token ids.
    """

    digest: bytes
    tokens: int
    blocks: tuple[int, ...]
    root: int
    tail: str | None


def text_prompt(text: str, namespace: str = "") -> Prompt:
    """A prompt of text. Different namespaces (cache salts, adapters) share no cached block."""
    root = hash(namespace)
    blocks, tail = _text_blocks(root, text)
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
    return Prompt(digest, count_tokens(text), blocks, root, tail)


def ids_prompt(ids: Sequence[int], namespace: str = "") -> Prompt:
    """A prompt of token ids."""
    root = key = hash((namespace, "ids"))
    blocks = []
    for at in range(0, len(ids) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
        key = hash((key, tuple(ids[at : at + BLOCK_TOKENS])))
        blocks.append(key)
    digest = hashlib.blake2b(",".join(map(str, ids)).encode(), digest_size=16, key=b"ids").digest()
    return Prompt(digest, len(ids), tuple(blocks), root, None)


def count_tokens(text: str) -> int:
    """How many tokens a text is; a started one counts."""
    return -(-len(text) // CHARS_PER_TOKEN)


def blocks_with_answer(prompt: Prompt, answer: str) -> tuple[int, ...]:
    """The keys of all full blocks of a prompt and what was generated for it."""
    if prompt.tail is None:
        return prompt.blocks
    last = prompt.blocks[-1] if prompt.blocks else prompt.root
    return prompt.blocks + _text_blocks(last, prompt.tail + answer)[0]


def render_chat(turns: Sequence[tuple[str, str]], tools: str = "") -> str:
    """The text of a conversation: (role, content) pairs, ending where the assistant begins to speak.

    The next turn of the same conversation begins with this text and the answer, so it finds both in the cache.
    """
    head = f"<|tools|>\n{tools}\n" if tools else ""
    return head + "".join([f"<|{role}|>\n{content}<|end|>\n" for role, content in turns]) + "<|assistant|>\n"


def _text_blocks(key: int, text: str) -> tuple[tuple[int, ...], str]:
    blocks = []
    full = len(text) - len(text) % BLOCK_CHARS
    for at in range(0, full, BLOCK_CHARS):
        key = hash((key, text[at : at + BLOCK_CHARS]))
        blocks.append(key)
    return tuple(blocks), text[full:]

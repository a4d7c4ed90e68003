"""Request bodies."""

import json

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
EMBEDDINGS = "/v1/embeddings"
GENERATE = "/generate"

MODEL = "m"


def chat(content="hello", **members):
    """A chat request as a dict; `model=None` leaves the model out."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": content}], **members}
    return {name: value for name, value in body.items() if value is not None}


def encoded(body):
    """A body as it goes over the wire; bytes stay what they are."""
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def padded_chat(size, **members):
    """A chat request of exactly `size` bytes."""
    bare = len(encoded(chat("", **members)))
    return encoded(chat("x" * (size - bare), **members))

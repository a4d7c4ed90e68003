"""The least request of each route that a provider may have."""

from support.bodies import MODEL

MESSAGES = [{"role": "user", "content": "Tell me something."}]
BODIES = {
    "/v1/chat/completions": {"model": MODEL, "messages": MESSAGES},
    "/v1/completions": {"model": MODEL, "prompt": "Tell me something."},
    "/v1/embeddings": {"model": MODEL, "input": "Tell me something."},
    "/v1/responses": {"model": MODEL, "input": "Tell me something."},
    "/v1/messages": {"model": MODEL, "max_tokens": 5, "messages": MESSAGES},
    "/v1/messages/count_tokens": {"model": MODEL, "messages": MESSAGES},
    "/v1/interactions": {"model": MODEL, "input": "Tell me something."},
}

"""What is on the wire: request shapes and rules, error bodies, header lists, SSE, edits of a body. Pure."""

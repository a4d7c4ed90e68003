"""A model gateway: one OpenAI-compatible API and one RL control plane in front of a fleet of inference engines."""

__version__ = "0.1.0"

"""Inference routes."""

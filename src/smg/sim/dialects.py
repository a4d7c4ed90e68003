"""The one table of dialects."""

from __future__ import annotations

from smg.sim.dialect import Dialect
from smg.sim.openai import OPENAI
from smg.sim.options import EngineName
from smg.sim.sglang import SGLANG
from smg.sim.vllm import VLLM

DIALECTS: dict[EngineName, Dialect] = {"sglang": SGLANG, "vllm": VLLM, "openai": OPENAI}

"""Simulated inference engines: they speak the engines' HTTP, keep their state, and generate text without a model.

People try the gateway with them (`smg sim`, `smg serve --backend sim`); tests, demos and benchmarks run on them. In a
program: `async with SimEngine(SimOptions(...)) as engine: engine.url`.

The pure parts decide (text, prefix cache, scheduler, what control routes do, what answers look like); `engine.py`,
`pacer.py`, `inference.py` and `fault_carrier.py` are the shell around them. Nothing but `smg.app` imports this package.
"""

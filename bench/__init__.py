"""The benchmark suite: races this gateway against the published one, side by side, on the same machine.

Run it with `python -m bench` from the root of the repository; `bench/README.md` explains what it does and
why. It imports nothing of either gateway: both run as processes, started by their command lines.
"""

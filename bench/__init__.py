"""The benchmark suite: races this gateway against the published one, side by side, on the same machine.

Run it with `python -m bench` from the root of the repository; `bench/README.md` explains what it does and
why. Both gateways run as processes, started by their command lines; of the published one nothing is imported. Only the
simulated engines and the modules that measure a part of this gateway alone import its code.

`bench.soak` is a run of its own: no race, but promises that must hold while everything fails.
"""

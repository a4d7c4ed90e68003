"""Keeps a core awake until killed: `python -m bench.wakeful`.

It runs when nobody else wants to. On a virtual machine a core without work goes back to the host, and every request
waits until it is back: for each gateway, and through no fault of theirs.
"""

import os


def main() -> None:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while True:
        pass


if __name__ == "__main__":
    main()

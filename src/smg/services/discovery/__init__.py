"""How workers are found: sources that say which there should be, and what makes it so.

    pods, a file        what a source reads
      → desired         which workers there should be, as values      `pods.py`, `manifest.py`
      → difference      what to add, change and take out              `difference.py`
      → reconciler      the registrar's jobs, and the metrics         `reconciler.py`

The first two steps are pure. A source is the loop that reads and asks for passes: `file.py`, `kubernetes.py`. Which one
the settings ask for, `sources.py` says; what only one needs is imported when it is chosen.
"""

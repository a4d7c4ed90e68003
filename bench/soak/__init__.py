"""The soak: a gateway under steady load while its workers fail in every way they can, and its clients leave.

    engines.py    simulated engines that fall ill and recover, and their ledger of what they executed
    clients.py    clients that send, read, check and leave; what became of each request
    requests.py   the requests, and the answers that are right
    stage.py      the run: engines, gateway, load, workers that come and go, memory
    witness.py    what the kernel and the gateway's own figures say of the gateway
    promises.py   what must hold at the end, judged from the accounts of both sides

`python -m bench.soak` runs it. Engines, gateway and clients are processes of their own; they share the machine's
monotonic clock, so the accounts of both sides can be laid next to each other.
"""

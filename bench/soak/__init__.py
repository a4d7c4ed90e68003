"""The soak: a gateway under steady load while its workers fail in every way they can, and its clients leave.

    engines.py    simulated engines that fall ill and recover; ledger.py notes what they execute
    clients.py    clients that send, read, check and leave; requests.py has the requests and the right answers
    accounts.py   the entries of both sides
    run.py        the run: engines, gateway, load; churn.py has the workers that come and go
    witness.py    what the kernel and the gateway's own figures say of the gateway
    promises.py   what must hold at the end, judged from all of that

`python -m bench.soak` runs it. Engines, gateway and clients are processes of their own; they share the machine's
monotonic clock, so the accounts of both sides can be laid next to each other.
"""

"""How good are servers and client of this build, and is it good enough?

    sets in turns  (compare) ─┐
    idle memory, system calls ├─▶ tables ─▶ targets ─▶ runs/bench/bench-TIME.json
    client beside wrk and ab ─┘

`connlab.compare` with other defaults: all models, their lessons, http, 1000 clients,
client and server on one core, an open loop. What would disturb the sets is measured
apart. Each target is decided, or printed with the width that was reached.
"""

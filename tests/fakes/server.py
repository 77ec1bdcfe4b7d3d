#!/usr/bin/env python3
"""A server that fulfils the contract of ``build/server``, and ways to break it.

It serves echo from one thread with select(2), prints the ready and the stats line,
ends on SIGTERM, and dies with its parent. The model's name says how it misbehaves:

    good        does all of that
    dies        is killed by SIGKILL at its hundredth request
    exits       ends with status 1 before it is ready, with a reason
    mute        never gets ready
    junk        prints something that is no JSON
    stubborn    ignores SIGTERM
    children    forks two processes that outlive it
    refuses     accepts ten connections, closes the others and counts them
    busy        as good, and burns CPU between requests
    vague       does not say where it listens
    miscounts   prints stats that are none
"""

import ctypes
import json
import os
import select
import signal
import socket
import sys
import time

MODELS = ["good", "dies", "exits", "mute", "junk", "stubborn"]
MODELS += ["children", "refuses", "busy", "vague", "miscounts"]


def listing() -> dict:
    rows = [
        {"name": name, "family": "readiness", "label": f"fake {name}"}
        | {"available": True, "reason": None, "concurrent": True}
        | {"holds": "descriptors", "isolates_slow": True, "workers": "none"}
        for name in MODELS
    ]
    gone = dict(rows[0], name="gone", available=False, reason="the kernel lacks it")
    workloads = [{"name": "echo", "label": "echo", "available": True, "reason": None}]
    return {"models": [*rows, gone], "workloads": workloads}


def say(event: dict) -> None:
    print(json.dumps(event), flush=True)


def main() -> None:
    model = sys.argv[1]
    if model == "--list":
        say(listing())
        return
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # dies with its parent
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    if model == "exits":
        sys.exit("server: bind: Address already in use")
    if model == "mute":
        time.sleep(60)
    if model == "junk":
        print("hello, world", flush=True)
    if model == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if model == "children":
        for _ in range(2):
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(60)
                os._exit(0)
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    listener.setblocking(False)
    host, port = listener.getsockname()
    ready = {"event": "ready", "model": model, "workload": "echo", "port": port}
    ready |= {"pid": os.getpid(), "processes": 1, "workers": 1}
    say(ready if model == "vague" else ready | {"host": host})
    counts = serve(listener, model, stop)
    if model == "miscounts":
        counts["refused"] = 3
    usage = time.process_time()
    say(
        {"event": "stats", "model": model, "workload": "echo", **counts}
        | {"errors": {}, "workers_started": 1, "processes": 1}
        | {"cpu_user_s": usage, "cpu_system_s": 0.0, "seconds": 1.0}
        | {"context_switches_voluntary": 5, "context_switches_involuntary": 1}
    )


def serve(listener: socket.socket, model: str, stop: list) -> dict:
    clients: set[socket.socket] = set()
    accepted = requests = refused = most = total = 0
    while not stop:
        if model == "busy":
            until = time.monotonic() + 0.01
            while time.monotonic() < until:
                pass
        readable, _, _ = select.select([listener, *clients], [], [], 0.05)
        for sock in readable:
            if sock is listener:
                client, _address = listener.accept()
                if model == "refuses" and len(clients) >= 10:
                    refused += 1
                    client.close()
                    continue
                accepted += 1
                clients.add(client)
                most = max(most, len(clients))
                continue
            if model == "dies" and requests == 100:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                data = sock.recv(65536)
            except OSError:
                data = b""
            if data:
                sock.sendall(data)
                requests += 1
                total += len(data)
            else:
                clients.discard(sock)
                sock.close()
    return {
        "accepted": accepted,
        "refused": {"descriptors": refused, "threads": 0},
        "refused_total": refused,
        "open_max": most,
        "requests": requests,
        "bytes_in": total,
        "bytes_out": total,
        "requests_per_worker": [requests],
    }


if __name__ == "__main__":
    main()

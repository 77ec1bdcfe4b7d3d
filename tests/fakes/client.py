#!/usr/bin/env python3
"""A client that fulfils the contract of ``build/client``, and ways to break it.

It makes requests one after the other on each of its connections and prints one JSON
object. ``--think`` says how it misbehaves (a flag that the driver passes on as it is):

    hang        never reports, and ignores SIGTERM
    usage       refuses its flags
    text        prints something that is no JSON
    half        reports an object without the figures it must have
    linger      reports, and does not end
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import sys
import time


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("--workload", default="echo")
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--duration", type=float, default=1)
    parser.add_argument("--response-times", type=float, default=0)
    parser.add_argument("--duration-max", type=float)
    parser.add_argument("--warmup", type=float, default=0.1)
    parser.add_argument("--settle", type=float, default=0)
    parser.add_argument("--requests", type=int)
    parser.add_argument("--size", default="64")
    parser.add_argument("--rate", type=float)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--think", default="")
    parser.add_argument("--timeline")
    parser.add_argument("--histogram")
    return parser.parse_args()


def quantiles(times: list[int]) -> dict:
    if not times:
        return {"n": 0}
    times = sorted(times)

    def at(q: float) -> int:
        return times[min(len(times) - 1, int(q * len(times)))]

    mean = sum(times) / len(times)
    return {
        "n": len(times),
        "mean_ns": mean,
        "sd_ns": 0.0,
        "min_ns": times[0],
        "max_ns": times[-1],
        "p50_ns": at(0.5),
        "p90_ns": at(0.9),
        "p99_ns": at(0.99),
        "p999_ns": at(0.999),
    }


def main() -> None:
    args = arguments()
    if args.think == "usage":
        print("client: --think usage: a number is wanted", file=sys.stderr)
        sys.exit(2)
    if args.think == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)
    if args.think == "text":
        print("all went well", flush=True)
        return
    if args.think == "half":
        print(json.dumps({"event": "result", "connections": {}}), flush=True)
        return
    report(args, *load(args))
    if args.think == "linger":
        time.sleep(60)


def load(args: argparse.Namespace) -> tuple[list, list, dict, float]:
    host, port = args.target.rsplit(":", 1)
    sockets, errors = [], {"connect_refused": 0, "reset": 0, "closed": 0}
    for _ in range(args.connections):
        try:
            sockets.append(socket.create_connection((host, int(port)), timeout=5))
        except OSError:
            errors["connect_refused"] += 1
    start = time.monotonic_ns()
    from_ns = start + int(args.warmup * 1e9)
    until_ns = from_ns + int(args.duration * 1e9)
    answers, alive = [], list(sockets)
    message = b"x" * int(args.size.split("-")[0])
    while alive and time.monotonic_ns() < until_ns:
        for sock in list(alive):
            sent = time.monotonic_ns()
            try:
                sock.sendall(message)
                data = sock.recv(65536)
            except OSError:
                data, kind = b"", "reset"
            else:
                kind = "closed"
            if not data:
                errors[kind] += 1
                alive.remove(sock)
                continue
            now = time.monotonic_ns()
            answers.append((sent, now))
            if now >= until_ns:
                break
    established = len(sockets)
    census = {
        "asked": args.connections,
        "attempted": args.connections,
        "established": established,
        "refused": args.connections - established,
        "failed": 0,
        "surviving": len(alive),
    }
    return answers, [start, from_ns, until_ns], census | {"errors": errors}, len(alive)


def report(args, answers: list, times: list, census: dict, alive: int) -> None:
    start, from_ns, until_ns = times
    errors = census.pop("errors")
    inside = [(a, b) for a, b in answers if from_ns <= b < until_ns]
    spans = quantiles([b - a for a, b in inside])
    cpu = time.process_time()
    seconds = (
        args.duration if alive else max(1e-9, (answers or [(0, 0)])[-1][1] - from_ns)
    )
    seconds = seconds if alive else seconds / 1e9
    size = int(args.size.split("-")[0])
    result = {
        "event": "result",
        "target": args.target,
        "workload": args.workload,
        "loop": "closed",
        "arrivals": None,
        "seed": args.seed,
        "offered_rps": None,
        "threads": 1,
        "processes": 1,
        "active": args.connections,
        "think_s": 0,
        "connections": census,
        "requests": {"sent": len(answers), "completed": len(answers), "unanswered": 0},
        "bytes": {"sent": len(answers) * size, "received": len(answers) * size},
        "errors": errors | {"mismatch": 0},
        "window": {
            "warmup_s": args.warmup,
            "seconds": seconds,
            "requests": len(inside),
            "bytes": len(inside) * size,
            "throughput_rps": len(inside) / seconds if seconds > 0 else 0,
        },
        "response": spans,
        "service": spans,
        "connect": {"n": 0},
        "fairness": {"jain": 1.0},
        "self": {"cpu_user_s": cpu, "cpu_system_s": 0.0, "cpu_share": 0.5},
        "stop": "duration" if alive else "server_gone",
    }
    if args.timeline:
        timeline(args.timeline, start, until_ns, answers)
    if args.histogram:
        with open(args.histogram, "w") as file:
            file.write("lower_ns,upper_ns,count,clock\n0,1,1,response\n")
    print(json.dumps(result), flush=True)


def timeline(path: str, start: int, until: int, answers: list) -> None:
    counts = [0] * max(1, round((until - start) / 1e8))
    for _sent, done in answers:
        step = (done - start) // 100_000_000
        if step < len(counts):
            counts[step] += 1
    with open(path, "w") as file:
        file.write("start_ms,requests,bytes,errors,max_response_ns,active\n")
        for number, count in enumerate(counts):
            file.write(f"{number * 100},{count},0,0,0,0\n")


if __name__ == "__main__":
    main()

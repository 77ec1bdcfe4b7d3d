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

import argparse
import contextlib
import json
import signal
import socket
import sys
import time

USUAL = {"workload": "echo", "connections": 1, "size": "64", "seed": 1, "think": ""}
USUAL |= {"duration": 1.0, "warmup": 0.1, "settle": 0.0, "response-times": 0.0}
OTHERS = {"requests": int, "rate": float, "duration-max": float}
OTHERS |= {"timeline": str, "histogram": str}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    for name, value in USUAL.items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    for name, kind in OTHERS.items():
        parser.add_argument(f"--{name}", type=kind)
    return parser.parse_args()


def quantiles(times: list[int]) -> dict:
    if not times:
        return {"n": 0}
    times = sorted(times)
    shares = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p999_ns": 0.999}
    return {
        "n": len(times),
        "mean_ns": sum(times) / len(times),
        "sd_ns": 0.0,
        "min_ns": times[0],
        "max_ns": times[-1],
        **{name: times[int(share * len(times))] for name, share in shares.items()},
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
    report(args, **load(args))
    if args.think == "linger":
        time.sleep(60)


def load(args: argparse.Namespace) -> dict:
    """Return the times, the answers (when sent and when there) and the errors."""
    host, port = args.target.rsplit(":", 1)
    sockets, errors = [], {"reset": 0, "closed": 0}
    for _ in range(args.connections):
        with contextlib.suppress(OSError):
            sockets.append(socket.create_connection((host, int(port)), timeout=5))
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
    refused = args.connections - len(sockets)
    return {
        "answers": answers,
        "times": (start, from_ns, until_ns),
        "census": {
            "asked": args.connections,
            "attempted": args.connections,
            "established": len(sockets),
            "refused": refused,
            "failed": 0,
            "surviving": len(alive),
        },
        "errors": errors | {"connect_refused": refused},
    }


def report(args, *, answers: list, times: tuple, census: dict, errors: dict) -> None:
    start, from_ns, until_ns = times
    inside = [(a, b) for a, b in answers if from_ns <= b < until_ns]
    spans = quantiles([b - a for a, b in inside])
    cpu_s, alive = time.process_time(), census["surviving"] > 0
    end_ns = until_ns if alive else max([from_ns + 1, *(b for _, b in answers)])
    seconds = (end_ns - from_ns) / 1e9
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
            "throughput_rps": len(inside) / seconds,
        },
        "response": spans,
        "service": spans,
        "connect": {"n": 0},
        "fairness": {"jain": 1.0},
        "self": {"cpu_user_s": cpu_s, "cpu_system_s": 0.0, "cpu_share": 0.5},
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

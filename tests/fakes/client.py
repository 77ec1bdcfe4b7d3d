#!/usr/bin/env python3
"""The client that ``make build`` makes, and ways to break its contract.

``--think`` says how it misbehaves (a flag that the driver passes on as it is):

    hang        never reports, and ignores SIGTERM
    usage       refuses its flags
    text        prints something that is no JSON
    half        reports an object without the figures it must have
    linger      reports, and does not end
"""

import json
import os
import signal
import sys
import time

CLIENT = os.path.join(os.path.dirname(__file__), "../../build/client")


def hang() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)


def usage() -> None:
    print("client: --think usage: a number is wanted", file=sys.stderr)
    sys.exit(2)


def text() -> None:
    print("all went well", flush=True)
    sys.exit()


def half() -> None:
    print(json.dumps({"event": "result", "connections": {}}), flush=True)
    sys.exit()


def linger() -> None:
    if os.fork():
        os.wait()
        time.sleep(60)


def main() -> None:
    flags = sys.argv[1:]
    if "--think" in flags:
        at = flags.index("--think")
        globals()[flags[at + 1]]()
        del flags[at : at + 2]
    # whoever looks for the fakes of a test finds it by the name of this file
    os.execv(CLIENT, [__file__, *flags])


if __name__ == "__main__":
    main()

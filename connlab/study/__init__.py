"""Runs to findings: frames, intervals, figures, tables, ``results.json``.

    runs/NAME/STUDY/trials.jsonl -> frames.load -> stats -> figures, tables
                                                         -> results.json

This side reads ``runs/`` and starts no process. It never imports
``connlab.drive``; what both know stands in ``connlab.schema``.
"""

from connlab.study.frames import load

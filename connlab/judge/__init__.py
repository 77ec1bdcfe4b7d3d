"""connlab.judge: is this a correct echo server, what limits it, how does it stand?

    command line -> conversations, crowds, turns with models -> verdict -> one page

For coursework, and for anybody's server: a command line with ``{port}`` is all that is
known of it.
"""

from connlab.judge.judging import Judgement, Verdict, judge

__all__ = ["Judgement", "Verdict", "judge"]

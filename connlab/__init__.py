"""connlab: how a server waits for many clients, measured.

``connlab.drive`` runs trials and writes facts below ``runs/``; ``connlab.study``
reads them; ``connlab.publish`` sets the paper. ``connlab.schema`` is the one word
that they share.
"""

__version__ = "1.0.0"

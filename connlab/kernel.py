"""A kernel of notebooks that has imported what all of them use: -f CONNECTION_FILE.

Imports take a second or two. `connlab.notebook.Kernels` has the kernel of the next
notebook do them while the present one draws its figures and nothing is measured;
`connlab.kernel_server` does them once for many.
"""

# ruff: noqa: E402
import os
import signal
import warnings

# one that is stopped while it imports has nothing to say; ipykernel sets its own
signal.signal(signal.SIGINT, signal.SIG_DFL)
# as ipykernel would set it, too late for what is imported here
os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")

import scipy.stats  # noqa: F401
import seaborn  # noqa: F401
from ipykernel.kernelapp import launch_new_instance

from connlab import drive, figures, intervals, report, study  # noqa: F401
from connlab.study.frames import RunWarning

_usual = warnings.formatwarning


def _formatted(message: object, category: type, *where, **line) -> str:
    """Return the text of a warning; one about a run has no place in the code."""
    if issubclass(category, RunWarning):
        return f"{message}\n"
    return _usual(message, category, *where, **line)


def main(arguments: list[str] | None = None) -> None:
    """Serve cells until asked to end; `arguments` are those of the command line."""
    warnings.formatwarning = _formatted
    launch_new_instance(argv=arguments)


if __name__ == "__main__":
    main()

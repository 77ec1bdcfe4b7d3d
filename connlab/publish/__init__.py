"""Set the paper from the results of a run.

The command line needs four functions: :func:`render` writes the HTML page and the PDF,
:func:`check` reads them back and lists what is wrong with them, :func:`lint` finds
measurements typed into the sources, and :func:`advice` what proselint would change.

Throughout the package ``run`` is the run that is printed (`results.Run`, or its name
below ``runs``) and ``others`` are its references; ``paper`` is the folder with the
sources, ``src_c`` beside it, ``output`` where pages go; ``registry`` has the rows of
``server --list`` as the run's manifest holds them; ``shown`` and ``page_only`` are
identifiers of what the paper shows, and of what print leaves out. Relative paths count
from the project's folder.

Nothing here measures or computes a statistic; what results lack is printed as "not
measured here", with the reason, in the place where it should stand.
"""

from connlab.publish.checking import check
from connlab.publish.linting import advice, lint
from connlab.publish.rendering import Rendered, render

"""connlab.drive: parameters -> trials -> ``runs/``.

The names below are the few that notebooks and commands need.

Who measures takes ``measure=False``, and who describes the machine the folder of a run
(`recorded`), where figures and numbers are made anew from the facts of a run, also of
one that another machine measured: what is on disk stays as it is.

A sweep measures on this machine, or over the hosts that `CONNLAB_HOSTS` names
(`connlab.drive.location`). How a trial goes is in `connlab.drive.trials`, how a sweep
goes in `connlab.drive.sweeps`; what they leave behind is described in
``runs/README.md``.
"""

from connlab.drive.checkup import doctor
from connlab.drive.counting import count
from connlab.drive.floor import floor
from connlab.drive.idle_memory import hold
from connlab.drive.location import core_count
from connlab.drive.machine import lower_descriptors
from connlab.drive.profiling import profile
from connlab.drive.programs import Programs, models, registry
from connlab.drive.progress import SweepReport
from connlab.drive.sweeps import sweep
from connlab.drive.web_page import page
from connlab.drive.workers import all_served

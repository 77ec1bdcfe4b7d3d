"""connlab.drive: parameters -> trials -> ``runs/``.

The few names that notebooks and commands need:

- `sweep` measures a grid and keeps each trial;
- `count` counts system calls, switches and faults per request with perf, `profile`
  samples where a server spends its CPU time;
- `hold` measures the memory of idle connections, in servers and in the kernel;
- `floor` measures what the machine's own calls cost;
- `registry` and `models` say what the server can do, `all_served` makes a grid in which
  each client has a worker, `page` a page that web servers are asked for;
- `doctor` says what limits this machine; `core_count` and `lower_descriptors` are what
  studies of limits ask for besides.

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

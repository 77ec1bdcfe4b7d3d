"""CPU time cut to the window: each counter by the times at which it was read itself."""

import dataclasses

import pytest

from connlab.drive import procfs, samples
from connlab.drive.host import Reading

START, WIDTH = 100.0, 0.1
CLIENT = {
    "window": {"seconds": WIDTH, "warmup_s": 0.0},
    "self": {"dialing_s": 0.02, "cpu_user_s": 0.01, "cpu_system_s": 0.05},
}


def report(client=CLIENT) -> samples.Report:
    return samples.Report(client, started_at_s=START, reported_at_s=START + 0.12)


def reading(time_s, cpu_s, busy_s=None, *, machine_at=None) -> Reading:
    """Return CPU times of a program and of the machine, which may be read later."""
    program = None
    if cpu_s is not None:
        program = procfs.Processes(time_s, cpu_s, cpu_s / 4, cpu_s * 3 / 4, 1, 1, ())
    machine = None
    if busy_s is not None:
        machine = procfs.Machine(machine_at or time_s, busy_s, 0, 0, 0, 0, 0, 0, 0)
    return Reading(program, machine)


def snapshot(server: Reading, client: Reading | None = None) -> samples.Snapshot:
    return samples.Snapshot(server, client, START, driver_cpu_s=0.0)


def snapshots(client=None, *, busy_s=0.18, **options) -> list[samples.Snapshot]:
    """Return a look at the start, and one 120 ms later at a server that was busy."""
    end = reading(START + 0.12, 0.12, busy_s, **options)
    return [snapshot(reading(START, 0.0, 0.0)), snapshot(end, client or Reading(None))]


def test_a_client_that_nobody_saw_at_work_is_none_of_the_others():
    """A burst is over, and its client gone, before there are two snapshots at it."""
    sums = samples.summarise(snapshots(), report(), stats=None)
    assert sums.window_s == pytest.approx(WIDTH)
    assert sums.cpu_user_s + sums.cpu_system_s == pytest.approx(0.1)
    assert sums.cpu_user_s == pytest.approx(0.025)
    assert sums.client_cpu_s == pytest.approx(0.05)
    assert sums.other_cpu_s == pytest.approx(0)


def test_a_client_that_tells_no_cpu_time_is_looked_at():
    silent = CLIENT | {"self": {"dialing_s": 0.02}}
    seen_at_work = snapshots(reading(START + 0.12, 0.06))
    sums = samples.summarise(seen_at_work, report(silent), stats=None)
    assert sums.client_cpu_s == pytest.approx(0.05)


def test_what_others_use_is_theirs():
    sums = samples.summarise(snapshots(busy_s=0.24), report(), stats=None)
    assert sums.other_cpu_s == pytest.approx(0.05)


def test_a_client_on_another_machine_takes_nothing_from_this_one():
    first, last = snapshots()
    sums = samples.summarise([first, last], report(), stats=None, same_host=False)
    assert sums.other_cpu_s == pytest.approx(0.05)
    last = dataclasses.replace(last, driver_cpu_s=0.06)
    sums = samples.summarise([first, last], report(), stats=None, same_host=False)
    assert sums.other_cpu_s == pytest.approx(0.05), "nor does the driver"


def test_a_reader_that_is_kept_waiting_reads_a_later_machine():
    """Both cores are busy all the time; the machine is read 50 ms after the server."""
    late = snapshots(busy_s=2 * 0.17, machine_at=START + 0.17)
    usage = {"dialing_s": 0.02, "cpu_user_s": 0.0, "cpu_system_s": 0.12}
    sums = samples.summarise(late, report(CLIENT | {"self": usage}), stats=None)
    assert sums.other_cpu_s == pytest.approx(0, abs=1e-9)


def test_the_window_lies_where_the_client_says_or_else_before_its_report():
    window = samples.window(report())
    assert (window.start_s, window.known_from) == (pytest.approx(START + 0.02), "start")
    silent = samples.window(report({"window": {"seconds": WIDTH}}))
    assert (silent.end_s, silent.known_from) == (pytest.approx(START + 0.12), "end")
    assert samples.window(report(None)) is None


def _busy_while_asked(time_s, *, begins_s, ends_s) -> float:
    """Return 80 % of a core while clients ask, and 10 % of it from then on."""
    asked_s = min(max(0.0, time_s - begins_s), ends_s - begins_s)
    return 0.8 * asked_s + 0.1 * max(0.0, time_s - ends_s)


@pytest.mark.parametrize("warmup_s", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("shift_s", [0.0, 0.01, 0.05, 0.09])
def test_rest_before_and_after_the_window_is_no_part_of_it(shift_s, warmup_s):
    """Looks each 0.1 s, and one at the report, 20 ms after the end."""
    begins_s = START + 0.02
    start_s = begins_s + warmup_s
    ends_s = start_s + 0.5
    reported_s = ends_s + 0.02
    looks = [START - 0.01, *(START + shift_s + k / 10 for k in range(9)), reported_s]
    used = [_busy_while_asked(t, begins_s=begins_s, ends_s=ends_s) for t in looks]
    seen = [
        snapshot(reading(t, cpu_s, cpu_s), Reading(None))
        for t, cpu_s in zip(looks, used, strict=True)
        if t <= reported_s
    ]
    client = {"window": {"seconds": 0.5, "warmup_s": warmup_s}}
    client["self"] = {"dialing_s": 0.02}
    told = samples.Report(client, START, reported_s)
    sums = samples.summarise(seen, told, stats=None)
    assert sums.window_s == pytest.approx(0.5)
    assert sums.cpu_user_s + sums.cpu_system_s == pytest.approx(0.4, rel=0.001)


def test_no_more_is_added_at_the_end_than_the_next_reading_has():
    """A server that rests in the window's last part did not go on as before."""
    times = [START + 0.02, START + 0.04, START + 0.09, START + 0.13]
    used = [0.0, 0.02, 0.07, 0.072]
    seen = [
        snapshot(reading(t, cpu_s), Reading(None))
        for t, cpu_s in zip(times, used, strict=True)
    ]
    sums = samples.summarise(seen, report(), stats=None)
    assert sums.cpu_user_s + sums.cpu_system_s == pytest.approx(0.072)


@pytest.mark.parametrize("look_s", [0.09, 0.11, 0.25])
def test_one_look_at_a_loaded_server_tells_its_rate(look_s):
    """The next came when it had rested for as long: by a straight line 40 % lacked."""
    begins_s = START + 0.01
    ends_s = begins_s + 0.1 + 0.3
    times = [START - 0.01, START + look_s, ends_s + 0.25]
    used = [_busy_while_asked(t, begins_s=begins_s, ends_s=ends_s) for t in times]
    seen = [
        snapshot(reading(t, cpu_s, cpu_s), Reading(None))
        for t, cpu_s in zip(times, used, strict=True)
    ]
    client = {"window": {"seconds": 0.3, "warmup_s": 0.1}}
    client["self"] = {"dialing_s": 0.01}
    told = samples.Report(client, START, ends_s + 0.25)
    sums = samples.summarise(seen, told, stats=None)
    assert sums.cpu_user_s + sums.cpu_system_s == pytest.approx(0.24, rel=0.1)


def test_without_figures_of_the_client_there_is_no_cpu_time():
    sums = samples.summarise(snapshots()[:1], report(None), stats=None)
    assert sums.window_s is None
    assert sums.other_cpu_s is None

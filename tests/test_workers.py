"""connlab.drive.workers: none of a server's clients is left unserved."""

from connlab import drive, schema


def models(**holds: str) -> list[schema.Model]:
    return [
        schema.Model(
            name=name,
            family="readiness",
            label=name,
            holds=held,
            workers="fixed" if held == "workers" else "none",
        )
        for name, held in holds.items()
    ]


def test_a_model_with_fixed_workers_gets_one_for_each_client():
    here = models(epoll="descriptors", pool="workers")
    assert drive.all_served(here, [], [1, 50]) == [
        {"model": ["epoll"], "connections": [1, 50]},
        {"model": ["pool"], "connections": [1], "workers": [1]},
        {"model": ["pool"], "connections": [50], "workers": [50]},
    ]


def test_workers_that_serve_many_clients_each_are_left_as_they_are():
    (loops,) = models(loops="descriptors")
    loops = loops.model_copy(update={"workers": "fixed"})
    left = {"model": ["loops"], "connections": [50]}
    assert drive.all_served([loops], [], [50]) == [left]


def test_no_names_are_all_that_can_run_here():
    here = models(epoll="descriptors", poll="descriptors")
    gone = here[1].model_copy(update={"available": False})
    assert drive.all_served([here[0], gone], [], [1])[0]["model"] == ["epoll"]


def test_a_name_that_nobody_knows_is_left_to_the_sweep_to_refuse():
    there = models(epoll="descriptors")
    assert drive.all_served(there, ["epol"], [1])[0]["model"] == ["epol"]

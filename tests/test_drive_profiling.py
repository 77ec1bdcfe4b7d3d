"""Whether perf runs, and whether the kernel tells the addresses of its functions."""

import pytest

from connlab.drive import counting, profiling

PER_CPU = "0000000000000000 A fixed_percpu_data\n0000000000000000 A __per_cpu_start\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (PER_CPU + "0000000000001000 A cpu_debug_store\n", True),
        ("ffffffff81000000 T _text\n", True),
        (PER_CPU + "0000000000000000 T _text\n", False),
        ("", False),
    ],
)
def test_symbols_are_hidden_where_all_addresses_are_zero(tmp_path, text, told):
    path = tmp_path / "kallsyms"
    path.write_text(text)
    assert profiling._symbols(str(path)) is told


def test_the_perf_of_another_kernel_is_not_taken_for_one(tmp_path, monkeypatch):
    """Ubuntu's is a script that finds none for a kernel that is not Ubuntu's."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert str(counting.missing()).startswith("perf is not installed")
    perf = tmp_path / "perf"
    perf.write_text("#!/bin/sh\necho WARNING: perf not found >&2\nexit 2\n")
    perf.chmod(0o755)
    for module in (counting, profiling):
        lack = str(module.missing())
        assert lack.startswith("perf does not run with this kernel")
        assert "linux-tools-" in lack

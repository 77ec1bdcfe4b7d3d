"""Whether the kernel tells the addresses of its functions."""

import pytest

from connlab.drive import profiling

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

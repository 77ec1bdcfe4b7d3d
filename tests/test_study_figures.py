"""Figures: colours that can be told apart, data beside them, words for them."""

from __future__ import annotations

import io
import itertools
import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import study_made as made
from hypothesis import given
from hypothesis import strategies as some
from matplotlib.colors import to_rgb

from connlab.study import (
    cells,
    drawing,
    figures,
    frames,
    load,
    look,
    repeating,
)

# ---- colours -------------------------------------------------------------------

DEFICIENT = {
    "none": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
"""Full deficiencies, after Machado, Oliveira and Fernandes (2009)."""


def _linear(color):
    c = np.array(to_rgb(color))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def _lab(rgb):
    to_xyz = [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
    x = np.array(to_xyz) @ rgb / np.array([0.95047, 1, 1.08883])
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("kind", DEFICIENT)
def test_families_differ_for_every_reader(kind):
    seen = {
        name: _lab(np.clip(np.array(DEFICIENT[kind]) @ _linear(c), 0, 1))
        for name, c in look.FAMILIES.items()
    }
    for a, b in itertools.combinations(seen, 2):
        assert np.linalg.norm(seen[a] - seen[b]) > 25, (kind, a, b)


def test_every_colour_stands_out_on_white():
    for c in [*look.FAMILIES.values(), *look.OTHER]:
        light = np.dot([0.2126, 0.7152, 0.0722], _linear(c))
        assert 1.05 / (light + 0.05) >= 3


REGISTRY = [
    {"name": n, "family": f, "label": n.upper()}
    for n, f in [
        ("thread", "threads"),
        ("pool", "threads"),
        *[(f"poller-{i}", "readiness") for i in range(9)],
    ]
]


def test_models_of_a_family_share_a_colour_and_differ_by_marker():
    names = [r["name"] for r in REGISTRY]
    styles = look.styles(pd.DataFrame({"model": names}), registry=REGISTRY)
    pollers = [styles[n] for n in names if n.startswith("poller")]
    assert {s.color for s in pollers} == {look.FAMILIES["readiness"]}
    assert len({s.marker for s in pollers}) == 9
    assert list(styles) == names
    assert styles["pool"].label == "POOL"


def test_a_model_keeps_its_marker_whoever_else_is_drawn():
    every = look.styles(
        pd.DataFrame({"model": [r["name"] for r in REGISTRY]}), registry=REGISTRY
    )
    alone = look.styles(pd.DataFrame({"model": ["poller-5"]}), registry=REGISTRY)
    assert alone["poller-5"] == every["poller-5"]


def test_unknown_models_and_families_have_a_stable_look():
    frame = pd.DataFrame({"model": ["new", "newer"], "family": "novel"})
    a, b = look.styles(frame), look.styles(frame[::-1])
    assert a == b
    assert a["new"].color == a["newer"].color in look.OTHER
    assert a["new"].marker != a["newer"].marker


# ---- layout --------------------------------------------------------------------


@given(some.lists(some.floats(0, 1), min_size=1, max_size=12))
def test_labels_are_spread_and_stay_inside(wanted):
    gap = 0.07
    out = drawing.spread(wanted, gap, 0.0, 1.0)
    order = np.argsort(wanted, kind="stable")
    steps = np.diff(np.array(out)[order])
    assert (steps >= gap - 1e-9).all()
    assert min(out) >= -1e-9
    assert max(out) <= 1 + 1e-9


def test_labels_with_room_stay_where_they_are():
    assert drawing.spread([0.1, 0.5, 0.9], 0.05, 0, 1) == pytest.approx([0.1, 0.5, 0.9])


# ---- pictures ------------------------------------------------------------------


@pytest.fixture(scope="module")
def frame(tmp_path_factory):
    trials = made.sweep(
        ("iterative", "thread", "select", "epoll"),
        (1, 100, 2000, 35_000),
        blocks=4,
        capacity={"thread": 80_000.0},
    )
    root = made.write(tmp_path_factory.mktemp("run"), trials)
    return load("made", "response-time", root=root)


def _texts(picture):
    return re.findall(r"<text[^>]*>([^<]*)</text>", picture.svg())


def test_a_curve_picture_tells_all(frame):
    p = figures.curves(frame, "throughput_rps", lines={"ceiling": 120_000.0})
    texts = _texts(p)
    assert "thread per connection" in texts
    assert "select: beyond FD_SETSIZE" in texts
    assert "ceiling" in texts
    assert "Throughput (thousand requests/s)" in texts
    assert "no value at 2\u202f000, 35\u202f000 (beyond FD_SETSIZE)" in p.alt
    assert "Lines mark ceiling" in p.alt
    table = cells.summarise(frame, "throughput_rps", by=["model", "connections"])
    assert p.data["value"].tolist() == pytest.approx(
        (table["value"] / 1000).tolist(), nan_ok=True
    )
    assert set(p.data["unit"]) == {"thousand requests/s"}


def test_intervals_are_drawn_where_they_are(frame):
    p = figures.curves(frame, "response_mean_s")
    ax = p.figure.axes[0]
    drawn = [
        segment
        for bars in ax.collections
        for segment in getattr(bars, "get_segments", list)()
    ]
    ends = {(round(a, 9), round(b, 9)) for (_, a), (_, b) in drawn}
    rows = p.data.dropna(subset=["lo"])
    assert len(rows)
    for row in rows.itertuples():
        assert (round(row.lo, 9), round(row.hi, 9)) in ends


def test_the_same_data_give_the_same_bytes(frame, tmp_path):
    for name in ("a", "b"):
        figures.curves(frame, "throughput_rps").save(tmp_path / name, "x")
    for kind in ("svg", "pdf", "csv"):
        one, two = ((tmp_path / n / f"x.{kind}").read_bytes() for n in ("a", "b"))
        assert one == two, kind
    assert b"<dc:date>" not in (tmp_path / "a" / "x.svg").read_bytes()


def test_a_compact_picture_says_and_shows_the_same(frame):
    picture = figures.curves(frame, "throughput_rps")
    out = io.StringIO()
    with look.paper():
        picture.figure.savefig(out, format="svg", metadata={"Date": None})
    whole, small = out.getvalue(), picture.svg()
    assert len(small) < 0.85 * len(whole)
    before, after = (ElementTree.fromstring(text) for text in (whole, small))

    def drawn(tree: ElementTree.Element) -> list[tuple[str, list[float]]]:
        parts = [e for e in tree.iter() if e.tag.endswith(("}path", "}text", "}use"))]
        places = [f"{e.get('d')} {e.get('x')} {e.get('y')}" for e in parts]
        return [
            (e.text, [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", place)])
            for e, place in zip(parts, places, strict=True)
        ]

    for (text, numbers), (text_after, numbers_after) in zip(
        drawn(before), drawn(after), strict=True
    ):
        assert (text or "").strip() == (text_after or "").strip()
        assert numbers_after == pytest.approx(numbers, abs=0.01)


def test_many_models_become_small_multiples(tmp_path):
    made_up = {
        f"model-{i}": ("threads" if i % 2 else "readiness", f"m{i}") for i in range(9)
    }
    made.MODELS.update(made_up)
    trials = made.sweep(tuple(made_up), (1, 10), blocks=2)
    many = load("made", "response-time", root=made.write(tmp_path, trials))
    p = figures.curves(many, "throughput_rps")
    titles = [ax.get_title(loc="left") for ax in p.figure.axes]
    assert [t for t in titles if t] == ["threads", "readiness"]
    assert p.alt.startswith("2 line charts")
    limits = {ax.get_ylim() for ax in p.figure.axes}
    assert len(limits) == 1


@pytest.mark.parametrize("top", [30.0, 400_000.0])
def test_long_numbers_push_the_axes_right(top):
    table = pd.DataFrame({"model": "a", "x": [1, 2, 3], "value": [top / 9e3, 20, top]})
    table = table.assign(lo=table.value, hi=table.value, n=3, reason=None)
    style = {"a": look.Style("a", look.INK, "o")}
    picture = figures.curves_of(
        table, label="answers", unit="requests/s", x="x", by="model", styles=style
    )
    ax = picture.figure.axes[0]
    box = ax.yaxis.get_tightbbox(picture.figure.canvas.get_renderer())
    assert box.x0 >= 0
    assert ax.get_position().x1 * look.WIDTH < look.WIDTH


def test_one_trial_is_drawn_hollow(tmp_path):
    one = load("made", "response-time", root=made.write(tmp_path, [made.trial()]))
    p = figures.curves(one, "throughput_rps")
    faces = [line.get_markerfacecolor() for line in p.figure.axes[0].lines]
    assert "white" in faces


def test_nothing_usable_still_gives_a_picture(tmp_path):
    trials = made.sweep(("select",), (2000,), blocks=2)
    none = load("made", "response-time", root=made.write(tmp_path, trials))
    p = figures.curves(none, "throughput_rps")
    assert "no value at 2\u202f000" in p.alt
    assert "no usable trial" in _texts(p)


def test_many_gaps_are_gathered_by_reason(tmp_path):
    names = tuple(f"model-{i}" for i in range(7))
    busy = {"quiet": {"ok": False}}
    trials = [made.trial(n, 10, order=k, gates=busy) for k, n in enumerate(names)]
    none = load("made", "response-time", root=made.write(tmp_path, trials))
    p = figures.curves(none, "throughput_rps", panels=False)
    assert sum("machine busy" in t for t in _texts(p)) == 1


def test_a_forest_carries_words_and_the_margin(frame):
    found = cells.compare_cells(
        frame, "response_mean_s", baseline="epoll", within=["connections"]
    )
    rows = cells.ratio_frame(found)
    p = figures.forest(
        rows, labels=[f"{r.arm} {r.connections}" for r in rows.itertuples()]
    )
    assert "slower" in _texts(p)
    assert "5%" in p.alt
    assert len(p.data) == len(found)


@pytest.mark.parametrize("widest", [1.02, 1.3, 2.5, 8, 40, 300, 1e5])
@pytest.mark.parametrize("rows", [2, 40])
def test_labels_of_ratios_keep_apart_however_far_they_reach(widest, rows):
    value = np.geomspace(1 / widest, widest, rows)
    data = pd.DataFrame({"arm": "x", "value": value, "word": "slower than"})
    data = data.assign(lo=data.value * 0.99, hi=data.value * 1.01)
    labels = [f"acceptor and epoll workers, {k} 000 conn." for k in range(rows)]
    ax = figures.forest(data, labels=labels).figure.axes[0]
    low, high = ax.get_xlim()
    ticks = [t for t in ax.get_xticklabels() if low <= t.get_position()[0] <= high]
    boxes = [t.get_window_extent() for t in ticks]
    assert len(ticks) >= 3
    assert all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes))
    assert max(float(t.get_position()[0]) for t in ticks) > widest**0.3
    upright = [t.get_window_extent() for t in ax.get_yticklabels()]
    assert all(a.y1 <= b.y0 for a, b in itertools.pairwise(upright))


def test_a_ratio_that_is_undetermined_is_said(frame):
    one = frame[frame.block == 0]
    found = cells.compare_cells(
        one, "response_mean_s", baseline="epoll", within=["connections"]
    )
    rows = cells.ratio_frame(found)
    p = figures.forest(rows, labels=list(rows.arm))
    assert "undetermined" in _texts(p)


def test_tails_and_drift_draw(frame):
    rows = [
        ("epoll", q, 1e-3 * k, 0.9e-3 * k, 1.1e-3 * k, 5)
        for k, q in enumerate((0.5, 0.9, 0.99, 0.999), start=1)
    ]
    table = pd.DataFrame(rows, columns=["model", "quantile", "value", "lo", "hi", "n"])
    tails = figures.tails(table, label="response time")
    assert "99.9\u202f%" in _texts(tails)
    assert "99.9 % within 4 ms" in tails.alt

    used = frames.usable(frame)
    d = repeating.drift(
        used.assign(t=range(len(used))),
        "throughput_rps",
        cell=["model", "connections"],
        time="t",
    )
    assert "trials in the order they ran" in figures.drifting(d, label="throughput").alt


def test_names_in_a_legend_stay_within_their_panel(frame):
    long = {
        n: f"a server whose name takes much room: {n}" for n in frame.model.unique()
    }
    named = frame.assign(model_label=frame.model.map(long), family="readiness")
    named.attrs = {}
    fig = figures.curves(named, "throughput_rps", panels=True).figure
    edge = fig.get_size_inches()[0] * fig.dpi
    for ax in fig.axes:
        legend = ax.get_legend()
        if legend:
            boxes = [t.get_window_extent() for t in legend.get_texts()]
            assert all(box.x1 <= edge for box in boxes)
            assert all(
                a.y0 >= b.y1 or a.x1 <= b.x0 for a, b in itertools.pairwise(boxes)
            )


@pytest.mark.parametrize(
    "levels", [[0, 900, 5000, 18000], [0, 10, 20, 50, 100, 500, 1000, 10000]]
)
def test_no_label_crowds_the_zero_of_an_axis(levels):
    ax = drawing.place(drawing.canvas(3.3, 2), 0.3, 0.4, 2.7, 1.5)
    drawing.scale_x(ax, levels)
    low, high = ax.get_xlim()
    ticks = [t for t in ax.get_xticklabels() if low <= t.get_position()[0] <= high]
    boxes = [t.get_window_extent() for t in ticks]
    assert ticks[0].get_text() == "0"
    assert len(ticks) >= 4
    assert all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes))


@pytest.mark.parametrize("close", [1.02, 1.06, 1.5])
def test_no_line_of_another_bound_runs_through_a_label(close):
    ax = drawing.place(drawing.canvas(5, 3), 0.5, 0.5, 4, 2)
    drawing.scale_x(ax, [1, 10, 100])
    drawing.scale_y(ax, [0, 350e3 * close], [], log=False, zero=True)
    lines = {
        "one recv and one send a request": 350e3 * close,
        "the client's ceiling": 350e3,
    }
    drawing.bounds(ax, lines, avoid=[(100, 300e3), (1, 15e3)])
    heights = [ax.transData.transform((1, at))[1] for at in lines.values()]
    for text in ax.texts:
        box = text.get_window_extent()
        assert not any(box.y0 < height < box.y1 for height in heights), text
    first, second = (text.get_window_extent() for text in ax.texts)
    assert not first.overlaps(second)


@pytest.mark.parametrize(("others_go_on", "named"), [(True, False), (False, True)])
def test_a_curve_is_named_only_where_it_is_apart_from_those_beside_it(
    others_go_on, named
):
    """One that ends early, amid the others, leaves nobody."""
    names = [f"m{i}" for i in range(6)]
    rows = [
        {"model": n, "x": x, "value": 100.0 - 10 * x + i}
        for i, n in enumerate(names)
        for x in range(1, 9)
    ]
    table = pd.DataFrame(rows)
    early = table[(table.model != "m3") | (table.x <= 4)]
    alone = table.assign(value=table.value.where(table.model != "m3", 2.0))
    other = pd.DataFrame({"model": "other", "x": [1, 8], "value": [50.0, 5.0]})
    data = pd.concat([early if others_go_on else alone, other])
    data = data.assign(n=3, reason=None)
    styles = {n: look.Style(n, look.INK, "o") for n in [*names, "other"]}
    picture = figures.curves_of(
        data.assign(lo=data.value, hi=data.value),
        label="answers",
        unit="1",
        x="x",
        by="model",
        styles=styles,
        families=dict.fromkeys(names, "readiness") | {"other": "threads"},
        panels=True,
    )
    texts = [text.get_text() for ax in picture.figure.axes for text in ax.texts]
    assert ("m3" in texts) is named


@pytest.mark.parametrize("first", [2, 100, 1000, 10_000])
def test_words_and_crosses_of_a_strip_keep_apart(first):
    rows = [
        drawing.Gap("one client at a time: backlog full", look.INK, (first, 20_000)),
        drawing.Gap("preforked processes: errors answered", look.INK, (20_000,)),
    ]
    figure = drawing.canvas(3.3, 2)
    wide = drawing.place(figure, 0.3, 1.4, 2.7, 0.5)
    drawing.scale_x(wide, [1, 10, 100, 1000, 20_000])
    height = drawing.strip_height(rows, inside=wide)
    low = drawing.place(figure, 0.3, 0.4, 2.7, height)
    drawing.scale_x(low, [1, 10, 100, 1000, 20_000])
    drawing.strip(low, rows, inside=True)
    assert (height > drawing.strip_height(rows)) is (first < 1000)
    words = [text.get_window_extent() for text in low.texts]
    at = [low.transData.transform(line.get_xydata()) for line in low.lines]
    for box in words:
        assert not any(box.contains(x, y) for crosses in at for x, y in crosses)
    assert words[0].y0 >= words[1].y1

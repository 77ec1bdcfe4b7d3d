"""Marks on seaborn's figures: each stands in the facet of its cell."""

import re
import struct
from itertools import combinations, pairwise

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import publish_made as made
import pytest
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.text import Text

from connlab import figures
from connlab.study.calibration import CEILING
from connlab.study.frames import counted
from connlab.study.interval import Interval


def curves(columns: str, rows: list[tuple], **look) -> sns.FacetGrid:
    """Draw rows as lines, one for each model."""
    trials = pd.DataFrame(rows, columns=columns.split())
    drawn = {"x": "x", "y": "y", "hue": "model", "kind": "line", "legend": "full"}
    if "family" in trials:
        drawn |= {"palette": figures.palette(trials), "marker": "o"}
    return sns.relplot(trials, **drawn | look)


def test_a_white_dot_stands_in_the_facet_of_its_model():
    columns = {"model": ["epoll", "thread"], "family": ["readiness", "threads"]}
    trials = pd.DataFrame(columns).assign(n=1)
    grid = sns.relplot(trials, x="n", y="n", hue="model", col="family", kind="line")
    before = {family: len(ax.lines) for family, ax in grid.axes_dict.items()}
    cells = pd.DataFrame({"model": ["epoll"], "n": 1, "value": 1.0, "bound": True})
    figures.hollow(grid, cells, x="n")
    dots = {
        family: sum(len(line.get_xdata()) for line in ax.lines[before[family] :])
        for family, ax in grid.axes_dict.items()
    }
    assert dots == {"readiness": 1, "threads": 0}


def test_a_limit_is_drawn_unlike_a_line_for_orientation():
    grid = sns.relplot(pd.DataFrame({"n": [1, 2], "y": [1.0, 2.0]}), x="n", y="y")
    limit, guide = (Interval(v, v, v, 5, 0.95, "t") for v in (3.0, 1.5))
    figures.floors(grid, {CEILING: limit, "two calls": guide}, factor=2)
    first, second = grid.ax.lines
    assert [line.get_ydata()[0] for line in (first, second)] == [6, 3]
    assert first._dash_pattern != second._dash_pattern
    names = [text.get_text() for text in grid.ax.texts]
    assert names == [f"limit: {CEILING}", "two calls"]


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize("low", [160, 189, 199])
def test_no_line_runs_through_the_name_of_a_limit(scale, low):
    frame = pd.DataFrame({"n": [1, 2], "y": [100.0, 150.0]})
    grid = sns.relplot(frame, x="n", y="y", height=2.5)
    grid.set(yscale=scale, ylim=(1 if scale == "log" else 0, None))
    figures.floors(grid, {CEILING: 204.0, "two calls": float(low)})
    grid.figure.draw_without_rendering()
    across = [
        grid.ax.transData.transform((0, line.get_ydata()[0]))[1]
        for line in grid.ax.lines
    ]
    for text in grid.ax.texts:
        box = text.get_window_extent()
        assert not [y for y in across if box.y0 < y < box.y1]


def test_servers_of_one_program_are_told_apart():
    called = {"./mine --a": "mine", "./mine --b": "mine", "./ours": "ours"}
    columns = {"model": [*called], "model_label": [*called.values()]}
    named = figures.labels(pd.DataFrame(columns))
    assert named == {name: name for name in called} | {"./ours": "ours"}


@pytest.mark.parametrize("once_more", [False, True], ids=["own", "carried"])
def test_crosses_of_lost_cells_leave_the_curves_and_their_names_alone(once_more):
    rows = [("epoll", 10), ("epoll", 20), ("poll", 10), ("poll", 20)]
    trials = pd.DataFrame(rows, columns=["model", "x"]).assign(y=1.0, ok=True)
    trials["family"] = "readiness"
    trials.loc[3, "ok"] = False
    if once_more:
        extra = trials.iloc[3:].assign(ok=True, carried=True)
        trials = pd.concat([trials.assign(carried=False), extra])
    grid = curves(" ".join(trials), trials[counted(trials)].to_numpy().tolist())
    before = grid.ax.get_ylim()
    figures.failed(grid, trials, x="x")
    assert grid.ax.get_ylim()[0] == before[0]
    assert grid.ax.get_ylim()[1] > before[1]
    (cross,) = [line for line in grid.ax.get_lines() if line.get_marker() == "x"]
    assert list(cross.get_xdata()) == [20]
    figures.line_ends(grid)
    ends = {text.get_text(): text.xy for text in grid.ax.texts}
    assert ends["poll"] == (10, 1.0)


def test_a_cross_has_the_colour_of_its_line_where_few_of_a_family_are_drawn():
    """As in study 01: shades of two were those of other models among four."""
    rows = [(model, x) for model in "abcd" for x in (10, 20)]
    trials = pd.DataFrame(rows, columns=["model", "x"])
    trials = trials.assign(y=1.0, family="readiness", ok=True)
    trials.loc[trials.index[-1], "ok"] = False
    few, colors = trials[trials["model"].isin(["a", "d"])], figures.palette(trials)
    used = few[counted(few)].to_numpy().tolist()
    grid = curves(" ".join(few), used, palette=colors)
    figures.failed(grid, few, x="x")
    (cross,) = [line for line in grid.ax.get_lines() if line.get_marker() == "x"]
    drawn, wanted = map(mpl.colors.to_hex, (cross.get_color(), colors["d"]))
    assert drawn == wanted != mpl.colors.to_hex(figures.palette(few)["d"])


@pytest.mark.parametrize("many", [20, 27])
def test_crosses_of_many_models_leave_the_curves_their_room(many):
    """As in study 04, whose models stand in one facet: its axis was turned over."""
    rows = [(f"model-{i}", x) for i in range(many) for x in (10, 20)]
    trials = pd.DataFrame(rows, columns=["model", "x"])
    trials = trials.assign(y=1.0, family="readiness", ok=trials["x"] == 10)
    grid = curves(" ".join(trials), trials[counted(trials)].to_numpy().tolist())
    low, high = grid.ax.get_ylim()
    figures.failed(grid, trials, x="x")
    bottom, top = grid.ax.get_ylim()
    assert bottom == low
    crosses = [line for line in grid.ax.get_lines() if line.get_marker() == "x"]
    heights = [line.get_ydata()[0] for line in crosses]
    assert len(heights) == many
    assert 0.3 < (high - low) / (top - low) < min(heights)
    assert max(heights) < 1


@pytest.mark.parametrize(
    ("levels", "ticks"),
    [
        ([1, 50, 1000], [1, 50, 1000]),
        ([0, 900, 5000], [0, 900, 5000]),
        ([50], [50]),
        ([1, 10, 100, 500, 1000, 10_000], [1, 10, 100, 10_000]),
    ],
)
def test_ticks_of_close_levels_do_not_run_into_each_other(levels, ticks):
    ax = plt.subplots(figsize=(1.6, 1.5))[1]
    figures.log_x(ax, levels)
    assert ax.get_xticks().tolist() == ticks
    assert ax.get_xscale() == ("log" if levels[0] else "symlog")


def test_a_logarithmic_axis_without_a_value_can_be_drawn(tmp_path):
    nothing = pd.DataFrame({"x": ["a", "b"], "y": [float("nan")] * 2})
    grid = sns.catplot(nothing, x="x", y="y", kind="point")
    figures.log_y(grid)
    endings = figures.save(grid, tmp_path, "nothing")
    assert endings
    assert all((tmp_path / f"nothing.{ending}").stat().st_size for ending in endings)


def test_a_full_disk_leaves_the_picture_that_was_there(tmp_path):
    (tmp_path / "picture.svg").write_text("an earlier one")
    (tmp_path / "picture.svg.part").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        figures.save(Figure().add_subplot(), tmp_path, "picture")
    assert (tmp_path / "picture.svg").read_text() == "an earlier one"


def test_a_picture_is_the_same_in_print_and_below_its_cell(tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr(figures, "display", shown.append)
    for folder in (tmp_path / "one", tmp_path / "other"):
        ax = plt.subplots(figsize=(4, 2))[1]
        ax.set_xlabel("connections")
        files = figures.save(ax, folder, "picture")
        figures.show(ax, folder / files["svg"])
    assert plt.fignum_exists(ax.figure.number)
    assert not shown  # nobody looks
    one, other = ((tmp_path / n / "picture.pdf").read_bytes() for n in ("one", "other"))
    assert one == other
    path = tmp_path / "one" / "picture.pdf"
    assert "connections" in made.text_of_pdf(path).split()
    assert "DejaVuSans" in made.poppler("pdffonts", path)
    monkeypatch.setattr(figures, "get_ipython", object)
    figures.show(ax, tmp_path / "one" / "picture.svg")
    (image,) = shown
    width, height = struct.unpack(">II", image.data[16:24])
    svg = (tmp_path / "one" / "picture.svg").read_text()
    points = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', svg).groups()
    scale = mpl.rcParams["figure.dpi"] / 72
    assert [width, height] == pytest.approx([float(p) * scale for p in points], abs=2)
    assert not plt.fignum_exists(ax.figure.number)  # or it would be shown twice


@pytest.mark.parametrize(("low", "high"), [(105, 127), (1005, 1027), (8, 30_000)])
def test_a_tick_of_a_logarithmic_axis_is_called_by_its_own_number(low, high):
    """Where no 1, 2 or 5 is near, one at 107.5 was called 108."""
    ax = plt.subplots(figsize=(3, 2))[1]
    ax.plot([1, 2], [low, high])
    ax.set_ylim(low, high)
    figures.log_y(ax)
    called = ax.yaxis.get_major_formatter()
    ticks = [tick for tick in ax.get_yticks() if low <= tick <= high]
    assert len(ticks) > 2
    assert [float(called(tick, 0)) for tick in ticks] == pytest.approx(ticks)


def test_a_facet_without_a_value_does_not_hide_those_of_others():
    rows = pd.DataFrame({"x": [1, 2, 1, 2], "of": ["a", "a", "b", "b"]})
    rows["y"] = [5.0, 7.0, float("nan"), float("nan")]
    grid = sns.relplot(rows, x="x", y="y", col="of", kind="line")
    figures.log_y(grid)
    low, high = grid.axes.flat[0].get_ylim()
    assert low < 5 < 7 < high


def test_a_forest_without_a_pair_says_so():
    nothing = pd.DataFrame(columns=["model", "against", "value", "lo", "hi"])
    one = pd.DataFrame([["poll", "epoll", 2.0, 1.9, 2.1]], columns=nothing.columns)
    texts = [len(figures.forest(rows).axes[0].texts) for rows in (nothing, one)]
    assert texts == [1, 0]


@pytest.mark.parametrize("top", [3, 30_000], ids=["one decade", "four"])
def test_facets_share_their_axes_and_nothing_overlaps(top):
    rows = [(p, m, x, x * top) for p in "abcd" for m in ("m", "model") for x in (1, 9)]
    grid = curves("panel model x y", rows, col="panel", col_wrap=2, height=2)
    grid.set(xlabel="connections", ylabel="time")
    figures.log_x(grid, [1, 9])
    figures.log_y(grid)
    figures.line_ends(grid)
    grid.figure.draw_without_rendering()
    texts = []
    for ax in grid.axes.flat:
        low, high = ax.get_ylim()
        ticks = [t for t in ax.get_yticklabels() if low <= t.get_position()[1] <= high]
        texts += [*ticks, *ax.texts, ax.yaxis.label, ax.title]
    texts = [text for text in texts if text.get_visible() and text.get_text()]
    boxes = [(text.get_text(), Text.get_window_extent(text)) for text in texts]
    pairs = combinations(boxes, 2)
    assert [(a, b) for (a, box), (b, other) in pairs if box.overlaps(other)] == []
    named = [ax.get_ylabel() != "" for ax in grid.axes.flat]
    assert named == [True, False, True, False]


def test_long_names_are_written_beside_their_facet_and_not_below_the_next():
    name = "a name of some length"
    rows = [(panel, name, x, x) for panel in "abc" for x in (1, 9)]
    grid = curves("panel model x y", rows, col="panel", height=1.6)
    figures.line_ends(grid)
    grid.figure.draw_without_rendering()
    names = [Text.get_window_extent(ax.texts[0]) for ax in grid.axes.flat]
    facets = [ax.get_window_extent() for ax in grid.axes.flat]
    pairs = zip(names, facets[1:], strict=False)
    assert all(name.x1 < facet.x0 for name, facet in pairs)
    assert min(facet.width for facet in facets) > 40


def test_lines_of_a_family_differ_in_dash_and_marker_and_leaders_are_no_lines():
    models = {"poll": "readiness", "epoll": "readiness", "thread": "threads"}
    rows = [(m, f, x, x + i) for i, (m, f) in enumerate(models.items()) for x in (1, 9)]
    grid = curves("model family x y", rows)
    figures.line_ends(grid)
    poll, epoll, thread = grid.ax.lines[:3]
    assert poll._dash_pattern != epoll._dash_pattern
    assert poll.get_marker() != epoll.get_marker()
    assert thread._dash_pattern == poll._dash_pattern
    assert thread.get_marker() == poll.get_marker()
    leader = grid.ax.texts[0].arrow_patch
    assert mpl.colors.to_hex(leader.get_edgecolor()) == figures.FAINT.lower()
    assert leader.get_linewidth() < poll.get_linewidth()


def test_the_name_of_a_line_that_ends_early_stands_at_its_last_point():
    rows = [("epoll", 1, 5.0), ("epoll", 9, 1.0), ("poll", 1, 8.0), ("poll", 3, 9.0)]
    grid = curves("model x y", rows)
    figures.line_ends(grid)
    texts = {text.get_text(): text for text in grid.ax.texts}
    assert texts["poll"].xy == (3, 9.0)
    assert texts["poll"].arrow_patch is None
    assert texts["epoll"].arrow_patch is not None


@pytest.mark.parametrize("x", [(1, 1), (3, 3), (3, 4)], ids=["left", "mid", "near"])
def test_names_of_lines_that_end_early_do_not_cover_each_other(x):
    rows = [("epoll", 0, 1.0), ("epoll", 9, 9.0), ("sigio", 0, 1.0), ("poll", 0, 1.0)]
    rows += [("sigio", x[0], 5.0), ("poll", x[1], 5.05)]
    grid = curves("model x y", rows, height=2.5)
    figures.line_ends(grid)
    grid.figure.draw_without_rendering()
    early = [text for text in grid.ax.texts if not text.arrow_patch]
    first, second = (text.get_window_extent() for text in early)
    assert not first.overlaps(second)
    for text in early:
        at = grid.ax.transData.transform(text.xy)
        away = text.get_window_extent().get_points()[0] - at
        assert max(abs(away)) < 20 * grid.figure.dpi / 72


#: where a line ends early, and lines that pass where its name would stand
PASSING = {
    "rising": ((1, 3.0), {"up": (3.0, 9.0), "over": (3.3, 8.0), "low": (1.0, 1.0)}),
    "crossing": ((2, 5.0), {"up": (4.0, 9.0), "down": (6.0, 1.0)}),
    "along": ((2, 5.0), {"up": (5.0, 7.0), "near": (5.0, 5.3), "low": (4.0, 4.0)}),
}


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize(("end", "others"), PASSING.values(), ids=PASSING)
def test_the_name_of_a_line_that_ends_early_covers_no_line(end, others, scale):
    rows = [(name, 1, ys[0]) for name, ys in others.items()]
    rows += [(name, 9, ys[1]) for name, ys in others.items()]
    grid = curves("model x y", [*rows, ("early", *end)], height=2.5)
    grid.set(yscale=scale)
    figures.line_ends(grid)
    grid.figure.draw_without_rendering()
    (text,) = (text for text in grid.ax.texts if text.get_text() == "early")
    box, facet = text.get_window_extent(), grid.ax.get_window_extent()
    for line in grid.ax.lines:
        path = line.get_transform().transform_path(line.get_path())
        assert not path.intersects_bbox(box, filled=False)
    assert facet.y0 <= box.y0 < box.y1 <= facet.y1
    away = abs(box.get_points() - grid.ax.transData.transform(end)).min(axis=0)
    assert max(away) < 20 * grid.figure.dpi / 72


def test_figures_call_a_listed_model_by_its_name_and_others_by_their_labels():
    columns = {"model": ["epoll-et", "netty"], "model_label": ["edge", "Netty"]}
    trials = pd.DataFrame(columns).assign(family="readiness")
    listed = {"name": "epoll-et", "family": "readiness", "label": "edge"}
    trials.attrs["registry"] = [listed]
    assert figures.labels(trials) == {"epoll-et": "edge", "netty": "Netty"}
    assert figures.names(trials) == {"epoll-et": "epoll-et", "netty": "Netty"}


def test_models_stand_as_the_list_has_them_then_by_family_and_name():
    listed = [{"name": "zz", "family": "readiness", "label": "Z"}, {"name": "fork"}]
    families = {"b": "threads", "a": "threads", "0": "completion", "fork": "processes"}
    rows = {"model": [*families, "zz"], "family": [*families.values(), "readiness"]}
    trials = pd.DataFrame(rows)
    trials.attrs["registry"] = listed
    expected = {"zz": "Z", "fork": "fork", "a": "a", "b": "b", "0": "0"}
    assert list(figures.labels(trials).items()) == list(expected.items())
    alone = trials[trials["model"] == "0"].assign(family="of another time")
    assert figures.labels(alone) == {"0": "0"}
    assert set(figures.palette(alone)) == {"0"}


def test_a_name_stands_where_its_line_ends_on_an_inverted_axis():
    rows = [("epoll", 1, 5.0), ("epoll", 9, 1.0), ("poll", 1, 8.0), ("poll", 9, 1.0)]
    grid = curves("model x y", rows)
    grid.ax.invert_xaxis()
    figures.line_ends(grid)
    ends = {text.get_text(): text.xy for text in grid.ax.texts}
    assert ends == {"epoll": (1, 5.0), "poll": (1, 8.0)}


def forest_of(*values: float, **look) -> Figure:
    rows = [{"model": v, "value": v, "lo": v, "hi": v} for v in values]
    return figures.forest(pd.DataFrame(rows), **look)


@pytest.mark.parametrize(
    ("least", "most"), [(0.9, 1.2), (0.7, 2.9), (0.8, 8), (1, 300)]
)
def test_ratios_can_be_read_off_their_axis(least, most):
    ax = forest_of(least, most).axes[0]
    low, high = ax.get_xlim()
    shown = [tick for tick in ax.get_xticks() if low <= tick <= high]
    assert 3 <= len(shown) <= 9
    assert max(b / a for a, b in pairwise(shown)) <= 2.5


def test_levels_of_a_row_are_told_apart_in_grey_print():
    rows = pd.DataFrame({"model": "epoll", "connections": [1, 50, 1000]})
    rows = rows.assign(value=[0.9, 1.0, 2.0], lo=float("nan"), hi=float("nan"))
    figure = figures.forest(rows, hue="connections")
    dots = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 1]
    samples = figure.legends[0].get_lines()
    marks = [[line.get_marker() for line in lines] for lines in (dots, samples)]
    assert marks[0] == marks[1]
    assert len({*marks[0]}) == 3


@pytest.mark.parametrize("most", [1.1, 8.0, 40.0])
def test_the_dot_of_the_largest_ratio_is_whole(most):
    figure = forest_of(0.7, most, width=3.9)
    figure.draw_without_rendering()
    (ax,) = figure.axes
    radius = 2.25 / 72 * figure.dpi
    x, _ = ax.transData.transform((most, 0))
    assert x + radius < ax.get_window_extent().x1

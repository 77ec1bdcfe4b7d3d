"""The explorer holds the numbers of the run, and draws what is chosen."""

# ruff: noqa: F811  (the browser is a fixture of the paper's tests)

import io
import json
import re
from urllib.parse import parse_qs, urlencode, urlsplit

import pandas as pd
import publish_made as made
import pytest
from test_paper_browser import (
    SCHEMES,
    WIDTHS,
    assert_sound,
    browser,  # noqa: F401
    show,
    without_scripts,
)

from connlab import schema
from connlab.publish import checking, explorer, model_pages, reference

By = pytest.importorskip("selenium.webdriver.common.by").By
WebDriverWait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait
Select = pytest.importorskip("selenium.webdriver.support.ui").Select


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("explored")
    study = made.write_run(root) / made.STUDY
    cells = pd.DataFrame(made.cells())
    cells["bound"] = (cells["model"] == "select") & (cells["connections"] == 1000)
    made.write_cells(study, cells.to_dict("records"))
    made.write_run(root, name="reference", scale=2.0)
    made.write_run(root, name="reference-other", scale=3.0)
    run = made.load(root)
    return [run, *reference.others(run).values()]


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    return explorer.write(runs, made.PAPER, tmp_path_factory.mktemp("explorer"))


def test_every_number_of_the_run_is_there_once(runs):
    (study,) = explorer.content(runs)["studies"]
    rows = [row for row in study["rows"] if row["run"] == 0]
    files = [runs[0].folder / made.STUDY / n for n in ("cells.csv", "ratios.csv")]
    tables = pd.concat(pd.read_csv(path, dtype={"connections": str}) for path in files)
    expected = tables.dropna(subset=["value"]).to_dict("records")
    assert len(rows) == len(expected) > 10
    for row, number in zip(rows, expected, strict=True):
        assert row["value"] == pytest.approx(number["value"], rel=1e-5)
        levels = dict(zip(study["factors"], row["at"], strict=True))
        assert levels["model"] == number["model"]
        assert levels["connections"] == number["connections"]
        ratio = study["quantities"][row["q"]]["ratio"]
        assert bool(ratio) == isinstance(number["against"], str)


def test_work_is_called_as_the_paper_calls_it(tmp_path):
    cell = {"study": made.STUDY, "metric": "throughput_rps", "work": "spin"}
    made.write_run(tmp_path)
    folder = tmp_path / made.RUN / made.STUDY
    made.write_cells(folder, [cell | {"model": "epoll"} | made.value(1.0, unit="")])
    (study,) = explorer.content([made.load(tmp_path)])["studies"]
    place = study["factors"].index("work")
    assert {row["at"][place] for row in study["rows"]} - {None} == {"computing"}


def test_a_number_without_spread_keeps_all_digits(tmp_path):
    """In the file to save, 610252800 bytes were 610253000."""
    folder = made.write_run(tmp_path) / made.STUDY
    exact = dict.fromkeys(("value", "lo", "hi"), 610252800.0)
    at = {"study": made.STUDY, "model": "epoll", "metric": "pss_net_bytes"}
    made.write_cells(folder, [at | made.value(1.0, unit="bytes") | exact])
    (study,) = explorer.content([made.load(tmp_path)])["studies"]
    assert 610252800.0 in [row["value"] for row in study["rows"]]


@pytest.mark.parametrize("units", [("client", "clients"), ("clients", "client")])
def test_the_unit_of_an_axis_is_that_of_many(tmp_path, units):
    folder = made.write_run(tmp_path) / made.STUDY
    at = {"study": made.STUDY, "metric": "carried"}
    cells = [at | {"model": u} | made.value(1.0, unit=u) for u in units]
    made.write_cells(folder, cells)
    (study,) = explorer.content([made.load(tmp_path)])["studies"]
    (carried,) = (q for q in study["quantities"] if q["id"] == "carried")
    assert carried["unit"] == "clients"


def test_an_exact_number_has_no_n(tmp_path):
    """It was said to have been measured 0 times."""
    folder = made.write_run(tmp_path) / made.STUDY
    exact = {"lo": 9.0, "hi": 9.0, "n": 0, "level": 1.0, "method": "exact"}
    at = {"study": made.STUDY, "model": "epoll", "metric": "carried"}
    made.write_cells(folder, [at | made.value(9.0, unit="") | exact])
    (study,) = explorer.content([made.load(tmp_path)])["studies"]
    assert "exact" in [row["n"] for row in study["rows"]]


def test_a_stale_study_says_so(tmp_path):
    made.outdate(made.write_run(tmp_path) / made.STUDY)
    (study,) = explorer.content([made.load(tmp_path)])["studies"]
    assert study["title"].endswith("(made up)? (stale)")


def test_references_stand_beside_the_run(runs):
    content = explorer.content(runs)
    assert content["runs"] == [made.RUN, "reference", "reference-other"]
    assert {row["run"] for row in content["studies"][0]["rows"]} == {0, 1, 2}


@pytest.mark.parametrize("title", ["</script><b>", "<!--<script>"])
def test_no_value_can_end_the_script_that_holds_it(runs, monkeypatch, tmp_path, title):
    """Nor prolong it: behind the second a browser takes its end for text."""
    monkeypatch.setattr(explorer, "_title", lambda *_: title)
    content = explorer.content(runs)
    page = explorer.write(runs, made.PAPER, tmp_path).read_text("utf-8")
    (data,) = re.findall(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert json.loads(data) == json.loads(json.dumps(content))
    assert "<" not in data


def test_the_page_of_a_model_says_bounds_as_well(runs, tmp_path):
    made.copy_model("select", tmp_path)
    models = [{"name": "select", "family": "readiness"}]
    run = runs[0].model_copy(update={"manifest": {"registry": {"models": models}}})
    (link,) = model_pages.write(run, tmp_path / "paper").values()
    page = (tmp_path / "paper" / link).read_text("utf-8")
    (study,) = explorer.content(runs[:1])["studies"]
    rates = [
        i for i, q in enumerate(study["quantities"]) if q["id"] == "throughput_rps"
    ]
    (row,) = (r for r in study["rows"] if r["q"] in rates and "bound" in r)
    assert f"<td>at least {row['text']}</td>" in page
    assert page.count("at least") == 1


def test_its_links_lead_to_the_paper(runs, tmp_path):
    (tmp_path / "index.html").touch()
    page = explorer.write(runs, made.PAPER, tmp_path).read_text("utf-8")
    assert checking.check_page(page, tmp_path) == []
    links = {link for link in checking.Page(page).links if link != "#"}
    assert links == {"index.html"}


def test_what_draws_is_kept_whole_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "project_root", lambda: tmp_path)
    bundle = "vl_convert.javascript_bundle"
    monkeypatch.setattr(bundle, lambda: "cut short \ud800")
    with pytest.raises(UnicodeEncodeError):
        explorer.vega()
    monkeypatch.setattr(bundle, lambda: "whole")
    assert explorer.vega() == explorer.vega() == "whole"


# ---- in a browser ------------------------------------------------------------------


def opened(browser, page, width=1280, scheme="light", **selection):
    browser.get("about:blank")
    show(browser, f"{page.as_uri()}#{urlencode(selection)}", width, scheme)
    drawn(browser)
    return browser


def drawn(browser):
    figure = (By.CSS_SELECTOR, "#figure svg")
    WebDriverWait(browser, 20).until(lambda b: b.find_elements(*figure))


def choose(browser, name, text):
    Select(browser.find_element(By.NAME, name)).select_by_visible_text(text)
    drawn(browser)


def caption(browser):
    return browser.find_element(By.ID, "caption").text


def link(browser):
    """Return the address of what is selected."""
    return browser.find_element(By.CSS_SELECTOR, "a.here").get_attribute("href")


def follow(browser, address):
    browser.get("about:blank")
    browser.get(address)
    drawn(browser)


def value(browser, name):
    script = "return document.forms[0]?.elements[arguments[0]].value"
    return browser.execute_script(script, name)


def rows(browser):
    script = """return [...document.querySelectorAll("tbody tr")]
        .map(line => [...line.cells].map(cell => cell.textContent))"""
    return browser.execute_script(script)


@SCHEMES
@WIDTHS
def test_it_draws_without_an_error_and_fits(browser, page, width, scheme):
    opened(browser, page, width, scheme)
    sent = [e["message"] for e in browser.get_log("performance")]
    assert not [m for m in sent if '"url":"http' in m]
    assert_sound(browser)


def test_the_table_holds_what_the_run_measured(browser, page, runs):
    opened(browser, page)
    (study,) = explorer.content(runs)["studies"]
    numbers = [r for r in study["rows"] if r["q"] == 0 and r["run"] == 0]
    expected = {f"{r.get('bound', '')} {r['text']}".strip() for r in numbers}
    assert {r[-2] for r in rows(browser) if made.RUN in r} == expected


def test_a_link_leads_to_its_selection(browser, page):
    opened(browser, page)
    box = browser.find_element(By.CSS_SELECTOR, "input[name=line][value=thread]")
    box.click()
    assert browser.switch_to.active_element == box
    drawn(browser)
    before = rows(browser)
    assert not [r for r in before if "thread" in r]
    follow(browser, link(browser))
    assert rows(browser) == before


def test_a_link_names_its_quantity_and_may_replace_another(browser, page):
    opened(browser, page, quantity="throughput_rps")
    assert parse_qs(urlsplit(link(browser)).fragment)["quantity"] == ["throughput_rps"]
    before = caption(browser)
    browser.execute_script("location.hash = 'quantity=response_mean_s'")
    WebDriverWait(browser, 20).until(
        lambda b: value(b, "quantity") == "response_mean_s"
    )
    opened(browser, page, quantity="throughput_rps", study="of another run")
    said = caption(browser)
    assert said.endswith(before)
    assert said != before


def test_a_link_to_a_level_of_a_factor_that_is_not_here_says_so(browser, page):
    opened(browser, page, size=64)
    before = caption(browser)
    opened(browser, page, **{"at-size": 64})
    said = "These runs do not hold all that the link asks for."
    assert caption(browser) == f"{said} {before}"


def test_bars_are_spoken_of_where_there_are_some(browser, tmp_path):
    none = {"lo": None, "hi": None}
    opened(browser, of_cells(tmp_path, [RATES[0] | none | {"n": 1}, RATES[1]]))
    assert f" intervals, n = {RATES[1]['n']} or more." in caption(browser)
    exact = RATES[0] | {"lo": RATES[0]["value"], "hi": RATES[0]["value"]}
    opened(browser, of_cells(tmp_path / "alone", [exact, RATES[1] | none]))
    assert caption(browser) == "2 values of throughput."
    assert browser.get_log("browser") == []


def test_a_count_has_no_unit_and_short_names_stand_upright(browser, measured):
    opened(browser, measured, study="pools", quantity="busy_workers")
    figure = browser.find_element(By.CSS_SELECTOR, "#figure svg")
    assert "busy workers" in figure.text
    assert "(count)" not in figure.text
    opened(browser, measured, study="the-machine", quantity="floor_rps")
    names = browser.find_elements(By.CSS_SELECTOR, "#figure .role-axis-label text")
    turned = [e for e in names if "rotate" in (e.get_attribute("transform") or "")]
    assert [name.text for name in names if name.text.startswith("reference")]
    assert turned == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_black_sample_can_be_seen(browser, page, scheme):
    opened(browser, page, scheme=scheme)
    script = """const sample = document.querySelector("fieldset i");
        sample.style.background = "#262626";
        const look = getComputedStyle(sample);
        return [getComputedStyle(document.body).backgroundColor,
            look.backgroundColor,
            ...(look.outlineStyle === "none" ? [] : [look.outlineColor])]"""
    ground, *parts = map(luminance, browser.execute_script(script))
    sides = [sorted((ground, part)) for part in parts]
    assert max((high + 0.05) / (low + 0.05) for low, high in sides) > 3


def luminance(color):
    """Return the relative luminance of "rgb(…)", as WCAG has it."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    linear = [
        p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
    ]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_a_figure_can_be_read_in_forced_colours(browser, page):
    opened(browser, page)
    media = {"features": [{"name": "forced-colors", "value": "active"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    script = """const ground = (e) => getComputedStyle(e).backgroundColor;
        return [ground(document.querySelector(".plate")),
            ...[...document.querySelectorAll("fieldset i")].map(ground)]"""
    plate, *samples = browser.execute_script(script)
    assert plate == "rgb(255, 255, 255)"
    assert len(set(samples)) == len(made.MODELS)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.parametrize(
    ("quantity", "word"),
    [("throughput_rps", "at least"), ("response_mean_s", "at most")],
)
def test_what_the_client_limited_is_a_bound(browser, page, quantity, word):
    opened(browser, page, quantity=quantity)
    bounds = [row for row in rows(browser) if row[-2].startswith(word)]
    assert [row[:3] for row in bounds] == [["select", "1000", made.RUN]]
    script = """const done = arguments[0];
        URL.createObjectURL = (blob) => { blob.text().then(done); return "data:,"; };
        HTMLAnchorElement.prototype.click = () => {};
        document.querySelector("button[name=csv]").click();"""
    saved = pd.read_csv(io.StringIO(browser.execute_async_script(script)))
    assert saved["bound"].dropna().tolist() == [word]
    assert len(saved) == len(rows(browser))


def test_each_run_looks_different(browser, page):
    opened(browser, page)
    script = """const marks = (name, ...attributes) => [...document
            .querySelectorAll(`#figure .mark-${name}.role-mark path`)]
            .map(e => attributes.map(a => e.getAttribute(a)));
        return [marks("line", "stroke-dasharray"),
                marks("symbol", "fill-opacity"), marks("symbol", "transform")]"""
    dashes, fills, _ = browser.execute_script(script)
    assert len({dash for (dash,) in dashes}) == 3
    assert len({fill for (fill,) in fills if fill}) == 3
    samples = browser.find_elements(By.CSS_SELECTOR, "input[name=run] + svg")
    assert len({sample.get_attribute("outerHTML") for sample in samples}) == 3
    choose(browser, "x", "model")
    choose(browser, "by", "nothing")
    _, _, places = browser.execute_script(script)
    across = {place.split(",")[0] for (place,) in places}
    assert len(across) == 3 * len(made.MODELS)


def test_a_line_keeps_its_colour_when_others_are_left_out(browser, page):
    opened(browser, page, x="model", by="connections")
    browser.find_element(By.CSS_SELECTOR, "input[name=line]").click()
    drawn(browser)
    script = """const all = (places, name) => [...new Set([...document
            .querySelectorAll(places)].map(e => getComputedStyle(e)[name]))]
            .filter(colour => colour !== "none").sort();
        return [all("input[name=line]:checked + i", "backgroundColor"),
                all("#figure .mark-symbol.role-mark path", "stroke")]"""
    dots, points = browser.execute_script(script)
    assert dots == points


def test_another_axis_swaps_lines_and_levels(browser, page):
    opened(browser, page)
    choose(browser, "x", "model")
    script = "return [...document.getElementsByName('line')].map(box => box.value)"
    levels = list(map(str, made.LEVELS))
    WebDriverWait(browser, 20).until(lambda b: b.execute_script(script) == levels)
    drawn(browser)
    assert rows(browser)
    labels = browser.find_element(By.CSS_SELECTOR, "#figure svg").text
    assert "epoll" in labels


def test_a_choice_that_nothing_was_measured_for_says_so(browser, page):
    opened(browser, page)
    for box in browser.find_elements(By.CSS_SELECTOR, "input[name=run]"):
        box.click()
    assert rows(browser) == []
    assert caption(browser)
    assert not browser.find_elements(By.CSS_SELECTOR, "#figure svg")


def test_what_is_the_only_line_or_run_is_always_drawn(browser, tmp_path):
    """Left out by a link, or beside others, it could not be chosen again."""
    alone = of_cells(tmp_path, [row | {"model": "epoll"} for row in RATES[:1]])
    for left_out in ({"not-line": "epoll"}, {"not-run": made.RUN}):
        opened(browser, alone, by="model", **left_out)
        assert rows(browser)


def test_without_scripts_it_says_where_the_numbers_are(browser, page):
    show(browser, page.as_uri(), 1280)
    with without_scripts(browser):
        shown = browser.find_element(By.TAG_NAME, "main").text
        assert "cells.csv" in shown
        assert "Horizontal axis" not in shown
        assert "Save" not in shown


def test_a_run_without_numbers_makes_a_page_that_says_so(browser, tmp_path):
    (tmp_path / "empty").mkdir()
    made.write_json(tmp_path / "empty" / "manifest.json", made.manifest())
    empty = made.load(tmp_path, "empty")
    page = explorer.write([empty], made.PAPER, tmp_path)
    show(browser, page.as_uri(), 1280)
    assert caption(browser)
    assert not browser.find_element(By.TAG_NAME, "form").is_displayed()
    assert_sound(browser)


RATES = [row for row in made.cells() if row["metric"] == "throughput_rps"][:2]


def of_cells(root, cells):
    """Return the page of a run that has these rows of ``cells.csv``, and no ratios."""
    study = made.write_run(root) / made.STUDY
    made.write_cells(study, cells)
    (study / "ratios.csv").unlink()
    return explorer.write([made.load(root)], made.PAPER, root)


def test_one_value_is_said_in_the_singular(browser, tmp_path):
    opened(browser, of_cells(tmp_path, [RATES[0] | {"n": 1}]))
    said = caption(browser)
    assert said.startswith("1 value of ")
    assert said.endswith(" n = 1 or more.")


def test_bounds_in_either_direction_have_arrows_of_their_own(browser, tmp_path):
    """As of two runs, in which the client limited the other side of a ratio."""
    bounds = zip(RATES, ("at least", "at most"), strict=True)
    opened(browser, of_cells(tmp_path, [row | {"bound": word} for row, word in bounds]))
    texts = browser.find_elements(By.CSS_SELECTOR, "#figure .role-mark text")
    assert sorted(text.text for text in texts) == ["↑", "↓"]
    assert "↑: at least, ↓: at most, as" in caption(browser)


@pytest.mark.parametrize(("lo", "logy"), [(1.0, "1"), (0.0, "0"), (-1.0, "0")])
def test_an_interval_that_reaches_zero_has_no_logarithm(browser, tmp_path, lo, logy):
    opened(browser, of_cells(tmp_path, [row | {"lo": lo} for row in RATES]), logy=1)
    assert parse_qs(urlsplit(link(browser)).fragment)["logy"] == [logy]
    assert browser.find_element(By.NAME, "logy").is_enabled() == (logy == "1")


@pytest.mark.parametrize(("selector", "left"), [("none", 1), ("input[name=run]", 0)])
def test_of_quick_choices_only_the_last_stays_drawn(browser, page, selector, left):
    opened(browser, page)
    script = """const [selector, done] = arguments, embed = vegaEmbed;
        let drawn = 0, pending = 0;
        vegaEmbed = async (...given) => {
            pending += 1;
            const view = await embed(...given);
            pending -= 1;
            drawn += 1;
            return { finalize() { drawn -= 1; view.finalize(); } };
        };
        const { x, by } = document.forms[0].elements;
        for (const select of [x, by, x, by]) {
            select.selectedIndex = 1 - select.selectedIndex;
            select.dispatchEvent(new Event("change", { bubbles: true }));
        }
        document.querySelectorAll(selector).forEach((box) => box.click());
        const settled = () => pending ? setTimeout(settled, 20)
            : done([drawn, document.querySelectorAll("#figure svg").length]);
        setTimeout(settled, 20);"""
    assert browser.execute_async_script(script, selector) == [left, left]


# ---- all that the references measured ------------------------------------------------


@pytest.fixture(scope="module")
def references():
    if not made.REFERENCE.is_dir():
        pytest.skip("the deposit of another run has no runs/reference")
    run = made.load(made.ROOT / "runs", "reference")
    return [run, *reference.others(run).values()]


@pytest.fixture(scope="module")
def measured(references, tmp_path_factory):
    return explorer.write(references, made.PAPER, tmp_path_factory.mktemp("measured"))


EVERY = """
    vegaEmbed = async () => ({ finalize() {} });
    history.replaceState = () => {};  // so often in so short a time is refused
    const { study, quantity } = document.forms[0].elements;
    const choose = (select, value) => {
        select.value = value;
        select.dispatchEvent(new Event("change", { bubbles: true }));
        const { rows } = document.querySelector("tbody");
        return [study.value, quantity.value, rows.length];
    };
    const values = (select) => [...select.options].map((option) => option.value);
    return values(study).flatMap((name) => {
        choose(study, name);
        return values(quantity).map((one) => choose(quantity, one));
    });
"""


def test_every_quantity_shows_numbers_at_first_sight(browser, measured, references):
    found = opened(browser, measured).execute_script(EVERY)
    studies = explorer.content(references)["studies"]
    expected = [(s["name"], q["id"]) for s in studies for q in s["quantities"]]
    assert [(study, id_) for study, id_, _ in found] == expected
    assert [one for one in found if one[-1] == 0] == []


@pytest.mark.parametrize("asked", [{}, {"study": "of another run"}])
def test_the_page_opens_on_the_study_that_compares_most_models(
    browser, measured, asked
):
    """Also for a link to a study that no run has."""
    opened(browser, measured, **asked)
    assert value(browser, "study") == "response-time"


def test_of_many_models_a_few_are_drawn_until_more_are_wanted(browser, measured):
    opened(browser, measured)
    count = """return [":checked", ":not(:checked)"]
        .map(s => document.querySelectorAll(`input[name=line]${s}`).length)"""
    shown, hidden = browser.execute_script(count)
    assert 4 <= shown <= 8 < hidden
    before = len(rows(browser))
    every, none = (
        browser.find_element(By.CSS_SELECTOR, f"button[name={name}]")
        for name in ("all", "none")
    )
    none.click()  # at once, also where some are hidden
    assert browser.execute_script(count) == [0, shown + hidden]
    assert rows(browser) == []
    every.click()
    assert browser.execute_script(count) == [shown + hidden, 0]
    drawn(browser)
    assert len(rows(browser)) > before
    follow(browser, link(browser))
    assert browser.execute_script(count) == [shown + hidden, 0]


def test_the_legend_stays_inside_its_figure_on_a_phone(browser, measured):
    opened(browser, measured, width=390, study="response-time")
    script = """const right = (e) => e.getBoundingClientRect().right;
        const names = [...document.querySelectorAll("#figure .role-legend text")];
        const edge = right(document.querySelector("#figure"));
        return Math.max(...names.map(right)) - edge"""
    assert browser.execute_script(script) <= 0


@pytest.mark.parametrize(
    ("study", "quantity"),
    [
        ("the-machine", "floor_rps"),
        ("idle", "server_cpu_per_request_s"),
        ("runtimes", "throughput_rps"),
    ],
)
def test_numbers_are_drawn_at_first_sight(browser, measured, study, quantity):
    opened(browser, measured, study=study, quantity=quantity)
    assert value(browser, "quantity") == quantity
    assert rows(browser)
    assert browser.get_log("browser") == []

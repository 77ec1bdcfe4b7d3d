"""The page in a real browser, headless: no error, and what its script promises."""

import base64
import contextlib
import functools
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import publish_made as made
import pytest
from conftest import with_reference

from connlab import publish
from connlab.publish import figure_pages

selenium = pytest.importorskip("selenium", reason="selenium is not installed")
from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-prefers-reduced-motion",
)
MODEL = {"name": "epoll", "family": "readiness", "label": "epoll, level-triggered"}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    verdicts = {"G1": "holds", "L1": "does not hold", "L2": "holds in part"}
    run = made.write_run(folder / "runs", verdicts=verdicts)
    answer = "It takes 9.62 ms [9.42, 9.81] (made up)."
    cell = {"text": "12.3 ± 0.4", "n": 10, "level": 0.95, "method": "t over trials"}
    rows = [row for table in made.results()["tables"] for row in table["rows"]]
    texts = {text for row in rows for text in row if "[" in text}
    printed = [cell | {"text": text} for text in (*texts, "9.62 ms [9.42, 9.81]")]
    changes = {"answer": answer, "findings": [answer], "numbers": [cell, *printed]}
    made.edit(run / made.STUDY / "results.json", **changes)
    made.edit(run / "manifest.json", registry={"models": [MODEL]})
    made.copy_model("epoll", folder)
    paper = made.copy_paper(folder)
    missing = "\nIt is {{< var response_time.short.epoll_p50_1000 >}}.\n"
    made.append(paper / "sections" / "_limits.qmd", missing)
    done = publish.render(
        made.RUN, root=folder / "runs", paper=paper, renderer="embedded"
    )
    return done.html.as_uri()


@pytest.fixture(scope="module")
def supplement(page):
    return page.replace("index.html", "supplement.html")


@pytest.fixture(scope="module")
def browser():
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    # Ubuntu's driver is a script that fails without the snap of the browser
    runs = driver and subprocess.run([driver, "--version"], check=False)
    if not chromium or not runs or runs.returncode:
        pytest.skip("chromium and chromedriver are not both installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in FLAGS:
        options.add_argument(flag)
    logs = {"browser": "ALL", "performance": "ALL"}
    options.set_capability("goog:loggingPrefs", logs)
    os.environ["SE_OFFLINE"] = "true"
    service = webdriver.ChromeService(executable_path=driver)
    with webdriver.Chrome(options=options, service=service) as chrome:
        yield chrome


def show(browser, page, width, scheme="light"):
    """Open a page as a device of this width does, narrower ones as phones."""
    phone = width < 600
    size = {"width": width, "height": 844 if phone else 900}
    size |= {"deviceScaleFactor": 1, "mobile": phone}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.get(page)
    return browser


@pytest.fixture
def open_at(browser, page):
    """Open the page at a width, in light or dark colours; undone afterwards."""
    yield functools.partial(show, browser, page)
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@contextlib.contextmanager
def without_scripts(browser):
    """Show the page that is open as a browser does that runs no scripts."""
    forbid = "Emulation.setScriptExecutionDisabled"
    browser.execute_cdp_cmd(forbid, {"value": True})
    try:
        browser.refresh()
        yield
    finally:
        browser.execute_cdp_cmd(forbid, {"value": False})


@pytest.fixture
def desktop(open_at):
    return open_at(1280)


@pytest.fixture
def phone(open_at):
    return open_at(390)


WIDTHS = pytest.mark.parametrize("width", [1280, 390])
SCHEMES = pytest.mark.parametrize("scheme", ["light", "dark"])


def test_nothing_is_fetched(desktop):
    sent = [e["message"] for e in desktop.get_log("performance")]
    sent = [m for m in sent if "Network.requestWillBeSent" in m]
    assert sent  # the page itself
    assert not [m for m in sent if '"url":"http' in m]


def test_captions_stand_above_their_tables_on_a_phone(phone):
    script = """return [...document.querySelectorAll("table:has(caption)")].map(t => [
        t.caption.getBoundingClientRect(), t.tHead.getBoundingClientRect()])"""
    boxes = phone.execute_script(script)
    assert boxes
    for caption, head in boxes:
        assert caption["bottom"] <= head["top"] + 1
        assert caption["width"] > 330


@WIDTHS
def test_the_guide_is_cards_on_a_phone(open_at, width):
    browser = open_at(width)
    script = """const t = document.querySelector(".cards table");
        const cells = [...t.querySelectorAll("tbody tr:first-child td")];
        return [cells.map(c => [c.getBoundingClientRect().left,
            getComputedStyle(c, "::before").content]), t.parentElement.scrollWidth
            - t.parentElement.clientWidth, t.caption.getBoundingClientRect().bottom
            <= cells[0].getBoundingClientRect().top]"""
    cells, hidden, caption_above = browser.execute_script(script)
    assert hidden <= 0
    assert caption_above
    first, *others = cells
    phone = width < 600
    shown = [name for left, name in others if left]
    assert shown
    assert all(("attr" in name or name != "none") == phone for name in shown)
    assert ({left for left, _ in cells if left} == {first[0]}) == phone


def test_a_caption_is_not_wider_than_its_table_beside_a_scrollbar(open_at):
    script = """const t = document.querySelector(".cards .table-wrap");
        return [innerWidth - document.documentElement.clientWidth,
            t.scrollWidth - t.clientWidth]"""
    scrollbar, hidden = open_at(700).execute_script(script)
    assert scrollbar > 0
    assert hidden <= 0


def test_a_name_of_the_guide_does_not_break_at_its_hyphen(desktop):
    script = """const name = document.querySelector(".cards td code");
        name.textContent = "epoll-reuseport";
        name.parentElement.style.cssText = "display: block; width: 1px";
        return name.getClientRects().length"""
    assert desktop.execute_script(script) == 1


def test_a_table_of_two_columns_fits_a_phone(phone):
    script = """return [...document.querySelectorAll(".table-wrap")]
        .filter(box => box.querySelector("tr").cells.length < 3)
        .map(box => box.scrollWidth - box.clientWidth)"""
    hidden = phone.execute_script(script)
    assert hidden
    assert max(hidden) <= 0


def test_every_picture_is_shown(desktop):
    script = "return [...document.images].map(i => i.naturalWidth)"
    widths = desktop.execute_script(script)
    assert widths
    assert all(width > 0 for width in widths)


@WIDTHS
def test_letters_of_figures_can_be_read(open_at, width):
    script = """const inner = i => i.clientWidth - 2 * parseFloat(
            getComputedStyle(i).paddingLeft);
        return [...document.querySelectorAll("figure[id] img")].map(i => {
            const svg = atob(i.src.split(",")[1]);
            const unit = svg.match(/viewBox="\\S+ \\S+ ([\\d.]+)/)[1];
            const sizes = [...svg.matchAll(/font(?:-size)?(?:: |=")([\\d.]+)/g)];
            return Math.min(...sizes.map(m => m[1])) * inner(i) / unit})"""
    letters = open_at(width).execute_script(script)
    assert len(letters) > 2
    assert min(letters) >= 9


@with_reference
@WIDTHS
def test_letters_of_the_references_figures_can_be_read(open_at, width):
    """As wide as the filter asks for, but not wider than the column of a desktop."""
    wanted = set()
    for path in made.ROOT.glob("runs/reference*/*/figures/*.svg"):
        text = path.read_text("utf-8")
        unit = float(re.search(r'<svg[^>]* width="([\d.]+)pt"', text)[1])
        letters = re.findall(r"font(?:-size)?: ([\d.]+)px", text)
        wanted.add((unit, min(map(float, letters))))
    assert wanted
    script = """const i = document.querySelector("figure[id]:not(#fig-guide) img");
        const pad = 2 * parseFloat(getComputedStyle(i).paddingLeft);
        return arguments[0].map(([unit, letter]) => {
            i.style.setProperty("--legible", `${unit * 10 / letter}px`);
            return letter * (i.clientWidth - pad) / unit})"""
    browser = open_at(width)
    assert min(browser.execute_script(script, list(wanted))) >= 9
    script = "return [...document.querySelectorAll('.more')].length"
    assert width < 600 or browser.execute_script(script) == 0


@WIDTHS
def test_the_first_figure_fits_and_its_letters_can_be_read(open_at, width):
    script = """const f = document.querySelector("#fig-guide");
        const i = f.querySelector("img"), s = getComputedStyle(i);
        const svg = atob(i.src.split(",")[1]);
        const unit = svg.match(/<svg[^>]* width="([\\d.]+)pt"/)[1];
        const letters = [...svg.matchAll(/font(?:-size)?: ([\\d.]+)px/g)];
        return [f.scrollWidth - f.clientWidth, Math.min(...letters.map(m => m[1]))
            * (i.clientWidth - 2 * parseFloat(s.paddingLeft)) / unit]"""
    hidden, letters = open_at(width).execute_script(script)
    assert hidden <= 0
    assert 9 <= letters <= 15


PANE = "figure:has(figcaption):not(#fig-guide) .pane"


def test_a_figure_scrolls_in_its_box_and_its_caption_stays(phone):
    script = """const f = document.querySelector(arguments[0]).closest("figure");
        f.querySelector(".pane").scrollLeft = 200;
        return [f.querySelector(".pane").scrollLeft, f.scrollWidth - f.clientWidth,
            f.querySelector("figcaption").getBoundingClientRect()]"""
    scrolled, hidden, caption = phone.execute_script(script, PANE)
    assert scrolled == 200
    assert hidden <= 0
    assert caption["left"] >= 0
    assert caption["right"] <= 390


def test_what_goes_on_sideways_fades_until_its_end(phone):
    script = """return [...document.querySelectorAll(arguments[0])]
        .find(box => box.scrollWidth > box.clientWidth)"""
    for place in (PANE, ".table-wrap"):
        box = phone.execute_script(script, place)
        phone.execute_script("arguments[0].scrollIntoView()", box)
        wait = WebDriverWait(phone, 5)
        wait.until(lambda _, box=box: "more" in box.get_attribute("class"))
        phone.execute_script("arguments[0].scrollLeft = 9999", box)
        wait.until(lambda _, box=box: "more" not in box.get_attribute("class"))


def test_a_keyboard_reaches_a_figure_where_it_scrolls(open_at):
    for width, role in ((390, "region"), (1280, None)):
        pane = open_at(width).find_element(By.CSS_SELECTOR, PANE)
        assert pane.get_attribute("role") == role
        assert pane.get_attribute("tabindex") == (role and "0")
    browser = open_at(390)
    pane = browser.find_element(By.CSS_SELECTOR, PANE)
    assert re.fullmatch(r"Figure\s\d+", pane.accessible_name)
    pane.send_keys(Keys.ARROW_RIGHT)
    WebDriverWait(browser, 5).until(lambda _: pane.get_property("scrollLeft") > 0)


@WIDTHS
def test_a_figure_enlarges_and_closes(open_at, width):
    browser = open_at(width)
    image = "return document.querySelector(arguments[0]).clientWidth"
    before = browser.execute_script(image, "figure .enlarge img")
    open_ = browser.find_element(By.CSS_SELECTOR, "figure button.enlarge")
    browser.execute_script("arguments[0].click()", open_)
    dialog = browser.find_element(By.CSS_SELECTOR, "dialog.zoomed")
    assert dialog.is_displayed()
    assert browser.execute_script(image, "dialog img") > 1.3 * before
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
    assert not dialog.is_displayed()


def test_not_more_than_two_bold_phrases_stand_on_a_screen(desktop):
    script = """return [...document.querySelectorAll("main :is(p, li) strong")]
        .filter(e => getComputedStyle(e).fontWeight >= 600)
        .map(e => Math.floor(e.getBoundingClientRect().top / innerHeight))"""
    screens = Counter(desktop.execute_script(script))
    assert max(screens.values(), default=0) <= 2
    more = """const added = document.createElement("p")
        added.innerHTML = "<strong>bold</strong> ".repeat(4)
        document.querySelector("main").prepend(added)
        """
    screens = Counter(desktop.execute_script(more + script))
    assert max(screens.values()) == 3  # the first of a paragraph is lighter


def test_the_page_jumps_and_does_not_glide(desktop):
    desktop.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    script = "return getComputedStyle(document.documentElement).scrollBehavior"
    assert desktop.execute_script(script) == "auto"


def test_a_number_shows_n_and_interval_to_the_keyboard(desktop):
    mark = desktop.find_element(By.CSS_SELECTOR, ".num[data-tip]")
    desktop.execute_script("arguments[0].focus()", mark)
    tip = desktop.find_element(By.ID, "tip")
    assert tip.is_displayed()
    assert "n = 10" in tip.text


def test_what_tells_more_looks_so_and_nothing_else(desktop):
    """Sentences on what was not measured looked so, and had nothing to tell."""
    script = """return [...document.querySelectorAll(".num, .missing")].map(e =>
        `${"tip" in e.dataset} ${getComputedStyle(e).cursor === "help"}`)"""
    assert set(desktop.execute_script(script)) == {"true true", "false false"}


def test_a_number_is_not_described_by_the_note_on_another(desktop):
    """A screen reader reads a note of what it describes, also where it is hidden."""
    marks = desktop.find_elements(By.CSS_SELECTOR, ".num[data-tip]")
    described = (By.CSS_SELECTOR, "[aria-describedby=tip]")
    for mark in [mark for mark in marks if mark.is_displayed()][:2]:
        desktop.execute_script("arguments[0].focus({ preventScroll: true })", mark)
        assert desktop.find_elements(*described) == [mark]
    desktop.execute_script("document.activeElement.blur()")
    assert desktop.find_elements(*described) == []


def test_a_long_note_is_not_squeezed_where_a_short_one_stood(phone):
    script = """const mark = document.querySelector(".callout .num[data-tip]");
        mark.style.cssText = "position: fixed; top: 0; right: 0";
        const tip = document.getElementById("tip");
        return ["n = 4", "n = 4, ".repeat(30)].map((text) => {
            mark.dataset.tip = text;
            mark.dispatchEvent(new Event("focus"));
            return tip.offsetWidth;
        })"""
    short, long = phone.execute_script(script)
    assert short < 100
    assert long > 300


def test_a_published_number_shows_all_its_digits_to_the_keyboard(desktop):
    mark = desktop.find_element(By.CSS_SELECTOR, ".published[data-tip]")
    desktop.execute_script("arguments[0].focus()", mark)
    tip = desktop.find_element(By.ID, "tip")
    assert tip.text.endswith(" as published")
    assert len(tip.text) > len(f"{mark.text} as published")


def test_numbers_of_answers_sentences_and_tables_tell_n(desktop):
    for place in (".callout", "main p", "table"):
        marks = desktop.find_elements(By.CSS_SELECTOR, f"{place} .num[data-tip]")
        assert marks, place
        assert "n = 10" in marks[0].get_attribute("data-tip")


def test_a_table_is_one_stop_and_the_arrows_go_on_in_it(desktop, supplement):
    desktop.get(supplement)
    script = """const t = [...document.querySelectorAll("table")]
        .find(t => t.querySelectorAll("[data-tip]").length > 2);
        return [...t.querySelectorAll("[data-tip]")]"""
    first, second, *others = desktop.execute_script(script)
    stops = [m.get_attribute("tabindex") for m in (first, second, *others)]
    assert stops == ["0", *["-1"] * (len(stops) - 1)]
    desktop.execute_script("arguments[0].focus()", first)
    first.send_keys(Keys.ARROW_RIGHT)
    assert desktop.switch_to.active_element == second
    assert "n = 10" in desktop.find_element(By.ID, "tip").text
    second.send_keys(Keys.ARROW_LEFT)
    assert desktop.switch_to.active_element == first


def test_the_colours_follow_the_button_and_the_system(desktop):
    colour = "return getComputedStyle(document.body).backgroundColor"
    light = desktop.execute_script(colour)
    desktop.find_element(By.CSS_SELECTOR, "button.theme").click()
    dark = desktop.execute_script(colour)
    assert light != dark
    desktop.execute_script("localStorage.clear()")
    scheme = [{"name": "prefers-color-scheme", "value": "dark"}]
    desktop.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    desktop.refresh()
    assert desktop.execute_script(colour) == dark


def test_contents_stay_at_hand_on_a_phone(phone):
    contents = phone.find_element(By.CSS_SELECTOR, ".contents details")
    assert contents.get_attribute("open") is None
    phone.execute_script("window.scrollTo(0, 5000)")
    contents.find_element(By.TAG_NAME, "summary").click()
    phone.find_element(By.CSS_SELECTOR, ".contents a[href='#sec-claims']").click()
    assert contents.get_attribute("open") is None
    head = "return document.querySelector('#sec-claims').getBoundingClientRect().top"
    bar = "return document.querySelector('nav').getBoundingClientRect().bottom"
    assert phone.execute_script(bar) <= phone.execute_script(head) < 100


SUBSECTION = ".contents a[href='#sec-pools-spread']"


def test_contents_unfold_where_the_reader_is(desktop):
    link = desktop.find_element(By.CSS_SELECTOR, SUBSECTION)
    assert not link.is_displayed()
    script = "document.querySelector('#sec-pools-spread').scrollIntoView()"
    desktop.execute_script(script)
    WebDriverWait(desktop, 5).until(lambda _: link.get_attribute("aria-current"))
    assert link.is_displayed()
    desktop.find_element(By.CSS_SELECTOR, "#toc-sec-pools ~ .fold").click()
    assert not link.is_displayed()


@WIDTHS
def test_the_switch_of_colours_covers_no_text(open_at, width):
    script = """const b = document.querySelector("button.theme");
        return b.closest("nav") !== null && getComputedStyle(b).position"""
    assert open_at(width).execute_script(script) == "absolute"


@WIDTHS
def test_targets_are_large_enough(open_at, width):
    """24 px, as WCAG 2.2 wants of what does not stand in a sentence."""
    browser = open_at(width)
    browser.execute_script("document.querySelector('.contents details').open = true")
    script = """return [...document.querySelectorAll(
        "button, summary, .contents a, .figure-links a")]
        .filter(e => e.checkVisibility())
        .map(e => [e.textContent, e.getBoundingClientRect().height])"""
    targets = browser.execute_script(script)
    assert len(targets) > 20
    assert [(name, height) for name, height in targets if height < 23.9] == []


@WIDTHS
def test_claims_unfold_to_rows_or_cards_with_the_verdict_first(open_at, width):
    browser = open_at(width)
    row = browser.find_element(By.CSS_SELECTOR, ".claims tbody tr")
    assert not row.is_displayed()
    browser.find_element(By.CSS_SELECTOR, ".report summary").click()
    script = """return [...arguments[0].cells].map(c => [c.textContent,
        c.getBoundingClientRect().left, c.getBoundingClientRect().right,
        c.getBoundingClientRect().top])"""
    cells = browser.execute_script(script, row)
    assert cells[0][0] == "G1"
    assert cells[1][0] == "holds"
    assert max(right for _, _, right, _ in cells) <= width
    below = [top > cells[0][3] + 9 for text, _, _, top in cells[2:] if text != "—"]
    assert set(below) == {width < 600}


def test_the_supplement_is_read_in_between(desktop):
    """From a study to its part of the supplement, and back."""
    for link, name in (
        ("main a[href='supplement.html#sec-more-pools']", "sec-more-pools"),
        ("main a[href='index.html#sec-pools']", "sec-pools"),
    ):
        desktop.find_element(By.CSS_SELECTOR, link).click()
        target = desktop.find_element(By.ID, name)
        assert 0 <= target.rect["y"] - desktop.execute_script("return scrollY") < 100


@WIDTHS
def test_the_supplement_is_a_page_like_the_other(browser, open_at, supplement, width):
    open_at(width)
    browser.get(supplement)
    link = browser.find_element(By.CSS_SELECTOR, ".contents a[href='#sec-more-pools']")
    assert link.is_displayed() == (width > 1000)
    assert_sound(browser)


@SCHEMES
@WIDTHS
def test_the_values_of_a_figure_stand_on_a_page(open_at, width, scheme):
    browser = open_at(width, scheme)
    link = browser.find_element(By.CSS_SELECTOR, ".figure-links a[href$='.html']")
    assert "table" in link.text
    browser.get(link.get_attribute("href"))
    assert len(browser.find_elements(By.CSS_SELECTOR, "tbody tr")) > 10
    assert_sound(browser)


@SCHEMES
@WIDTHS
def test_a_model_has_a_page(open_at, width, scheme):
    browser = open_at(width, scheme)
    link = browser.find_element(By.CSS_SELECTOR, "a[href$='models/epoll.html']")
    browser.get(link.get_attribute("href"))
    heads = [head.text for head in browser.find_elements(By.CSS_SELECTOR, "h2")]
    assert [heads[i].split()[-1] for i in (0, 1, -1)] == ["loop", "breaks", "code"]
    assert_sound(browser)


@with_reference
def test_rows_of_a_wide_table_are_low_on_a_phone(browser, open_at, tmp_path):
    open_at(390)
    data = made.REFERENCE / "cores" / "figures" / "cores-costs.csv"
    page = figure_pages.write_values(data, tmp_path, title="Made up", alt="")
    browser.get(page.as_uri())
    rows = browser.find_elements(By.CSS_SELECTOR, "tbody tr")
    assert len(rows) > 10
    assert max(row.size["height"] for row in rows) < 100
    assert_sound(browser)


@with_reference
@WIDTHS
def test_an_executed_notebook_is_sound(browser, open_at, width, tmp_path):
    folder = made.REFERENCE / "uring"  # the shortest: axe looks at each word of code
    page = figure_pages.write_notebook(folder, tmp_path, title="Made up")
    open_at(width)
    browser.get(page.as_uri())
    assert_sound(browser)


def test_what_is_printed_is_dark_on_white_whatever_was_chosen(desktop):
    desktop.execute_script("document.documentElement.dataset.theme = 'dark'")
    colours = """const s = getComputedStyle(document.body);
        return [s.color, s.backgroundColor]"""
    on_screen = desktop.execute_script(colours)
    desktop.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    printed = desktop.execute_script(colours)
    desktop.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert printed == ["rgb(28, 33, 40)", "rgb(255, 255, 255)"] != on_screen


def cut_off(browser, selector):
    """Return how many elements hide a part of what they hold: on a screen, on paper."""
    script = """return [...document.querySelectorAll(arguments[0])].filter(e =>
        e.scrollWidth > e.clientWidth && getComputedStyle(e).overflowX !== "visible")
        .length"""
    counts = []
    for media in ("screen", "print"):
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media})
        counts.append(browser.execute_script(script, selector))
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    return counts


def test_no_table_is_cut_off_on_paper(open_at):
    """A4 is so narrow that tables of seven columns scrolled, in print as well."""
    browser = open_at(718)
    on_screen, printed = cut_off(browser, ".table-wrap")
    assert on_screen > printed == 0
    link = browser.find_element(By.CSS_SELECTOR, ".figure-links a[href$='.html']")
    browser.get(link.get_attribute("href"))
    browser.execute_script("document.body.style.width = '9rem'")
    on_screen, printed = cut_off(browser, "div")
    assert on_screen > printed == 0


def test_no_heading_is_the_last_line_of_a_printed_page(desktop, tmp_path):
    heads = {
        " ".join(head.get_attribute("textContent").split())
        for head in desktop.find_elements(By.CSS_SELECTOR, "main :is(h2, h3, h4)")
    }
    last = set()
    for height in (9, 11):
        printed = desktop.execute_cdp_cmd("Page.printToPDF", {"paperHeight": height})
        path = tmp_path / f"{height}.pdf"
        path.write_bytes(base64.b64decode(printed["data"]))
        pages = made.poppler("pdftotext", "-q", "-layout", path, "-").split("\f")
        last |= {page.split("\n")[-1] for page in map(str.strip, pages)}
    assert len(last) > 20
    assert heads & {" ".join(line.split()) for line in last} == set()


def test_an_interval_of_a_table_stays_on_its_line(desktop):
    script = """const marks = [...document.querySelectorAll("td .num")]
            .filter(e => /\\[\\S+,/.test(e.textContent));
        return marks.map(e => {
            e.style.cssText = "display: inline-block; width: min-content";
            const text = e.firstChild, range = document.createRange();
            range.setStart(text, text.data.indexOf("["));
            range.setEnd(text, text.data.indexOf("]"));
            return new Set([...range.getClientRects()].map(r => r.top)).size; })"""
    lines = desktop.execute_script(script)
    assert lines
    assert set(lines) == {1}


@WIDTHS
def test_without_scripts_all_can_be_read(open_at, width):
    browser = open_at(width)
    with without_scripts(browser):
        for name in ("#tbl-claims", "figure img", ".contents a[href='#sec-claims']"):
            assert browser.find_element(By.CSS_SELECTOR, name).is_displayed()
        assert browser.find_element(By.CSS_SELECTOR, SUBSECTION).is_displayed()
        assert not browser.find_element(By.CSS_SELECTOR, ".theme").is_displayed()
        number = browser.find_element(By.CSS_SELECTOR, ".num[title]")
        assert "n = 10" in number.get_attribute("title")
        browser.find_element(By.CSS_SELECTOR, ".report summary").click()
        assert browser.find_element(By.CSS_SELECTOR, ".claims td").is_displayed()


def assert_sound(browser):
    """No error on the console, no scrolling sideways, accessible by axe's rules."""
    assert browser.get_log("browser") == []
    script = "return document.documentElement.scrollWidth - window.innerWidth"
    assert browser.execute_script(script) <= 0
    axe = pytest.importorskip("axe_core_python", reason="axe-core-python is not there")
    browser.execute_script(Path(axe.__path__[0], "axe.min.js").read_text("utf-8"))
    run = "const done = arguments[0]; axe.run().then(r => done(r.violations))"
    broken = browser.execute_async_script(run)
    assert [(rule["id"], rule["nodes"][0]["html"]) for rule in broken] == []


@SCHEMES
@WIDTHS
def test_the_page_is_sound_with_all_its_details(open_at, width, scheme):
    browser = open_at(width, scheme)
    script = "document.querySelectorAll('details').forEach(d => d.open = true)"
    browser.execute_script(script)
    assert_sound(browser)

"""The page in a real browser, headless: no error, and what its script promises."""

import os
import shutil
from pathlib import Path

import publish_made as made
import pytest

from connlab import publish

selenium = pytest.importorskip("selenium", reason="selenium is not installed")
from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

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


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    made.write_run(folder / "runs")
    paper = made.copy_paper(folder)
    with (paper / "sections" / "_limits.qmd").open("a") as section:
        section.write("\nIt is {{< var response_time.short.epoll_p50_1000 >}}.\n")
    done = publish.render(
        made.RUN, root=folder / "runs", paper=paper, renderer="embedded"
    )
    return done.html.as_uri()


@pytest.fixture(scope="module")
def browser():
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("chromium and chromedriver are not both installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability(
        "goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"}
    )
    os.environ["SE_OFFLINE"] = "true"
    service = webdriver.ChromeService(executable_path=driver)
    open_ = webdriver.Chrome(options=options, service=service)
    yield open_
    open_.quit()


@pytest.fixture
def opened(browser, page):
    browser.set_window_size(1280, 900)
    browser.get(page)
    return browser


def test_no_error_on_the_console(opened):
    assert opened.get_log("browser") == []


def test_nothing_is_fetched(opened):
    sent = [e["message"] for e in opened.get_log("performance")]
    sent = [m for m in sent if "Network.requestWillBeSent" in m]
    assert not [m for m in sent if '"url":"http' in m]


@pytest.mark.parametrize("width", [1280, 500])
def test_the_page_does_not_scroll_sideways(browser, page, width):
    browser.set_window_size(width, 900)
    browser.get(page)
    script = "return document.documentElement.scrollWidth - window.innerWidth"
    assert browser.execute_script(script) <= 0


def test_captions_stand_above_their_tables_on_a_phone(browser, page):
    browser.set_window_size(500, 900)
    browser.get(page)
    script = """return [...document.querySelectorAll("table:has(caption)")].map(t => [
        t.caption.getBoundingClientRect(), t.tHead.getBoundingClientRect()])"""
    found = browser.execute_script(script)
    assert found
    for caption, head in found:
        assert caption["bottom"] <= head["top"] + 1
        assert caption["width"] > 400


def test_every_picture_is_shown(opened):
    script = "return [...document.images].map(i => i.naturalWidth)"
    widths = opened.execute_script(script)
    assert widths
    assert all(width > 0 for width in widths)


def test_a_figure_enlarges_and_closes(opened):
    opened.find_element(By.CSS_SELECTOR, "figure button.enlarge").click()
    dialog = opened.find_element(By.CSS_SELECTOR, "dialog.zoomed")
    assert dialog.is_displayed()
    opened.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
    assert not dialog.is_displayed()


def test_a_number_shows_n_and_interval_to_the_keyboard(opened):
    mark = opened.find_element(By.CSS_SELECTOR, ".num[data-tip]")
    opened.execute_script("arguments[0].focus()", mark)
    tip = opened.find_element(By.ID, "tip")
    assert tip.is_displayed()
    assert "n = 10 trials" in tip.text


def test_the_colours_follow_the_button_and_the_system(opened):
    colour = "return getComputedStyle(document.body).backgroundColor"
    light = opened.execute_script(colour)
    opened.find_element(By.CSS_SELECTOR, "button.theme").click()
    dark = opened.execute_script(colour)
    assert light != dark
    opened.execute_script("localStorage.clear()")
    scheme = [{"name": "prefers-color-scheme", "value": "dark"}]
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    opened.refresh()
    assert opened.execute_script(colour) == dark
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_contents_are_folded_on_a_phone(browser, page):
    browser.set_window_size(500, 900)
    browser.get(page)
    details = browser.find_element(By.CSS_SELECTOR, ".contents details")
    assert details.get_attribute("open") is None


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")]
)
def test_the_page_is_accessible(browser, page, width, scheme):
    axe = pytest.importorskip("axe_core_python", reason="axe-core-python is not there")
    script = Path(axe.__path__[0], "axe.min.js").read_text("utf-8")
    size = {
        "width": width,
        "height": 900,
        "deviceScaleFactor": 1,
        "mobile": width < 600,
    }
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.get(page)
    browser.execute_script(script)
    run = "const done = arguments[0]; axe.run().then(r => done(r.violations))"
    found = browser.execute_async_script(run)
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert [(v["id"], v["nodes"][0]["html"]) for v in found] == []

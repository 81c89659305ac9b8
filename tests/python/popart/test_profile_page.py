"""The page of a profile: its HTML, and its script in a headless browser (Chromium, where one is installed)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import html5lib
import pytest
from popart.profile.facts import Profile, walk
from popart.profile.page import page_of
from popart.profile.pieces import ms

from tests.python.popart.test_profile import made, step_of

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CATCH = "<head><script>window.faults = []; window.onerror = text => { window.faults.push(String(text)); };</script>"


@pytest.fixture(scope="module")
def profiles() -> tuple[Profile, Profile]:
    """Two profiles of a training step."""
    session = made(name='<b>"quoted" & named</b>')
    return tuple(Profile(session.profile(step_of(session), runs=2)._facts) for _ in range(2))


@pytest.fixture(scope="module")
def page(profiles) -> str:
    """The page of the second one, compared with the first."""
    return page_of(profiles[1], profiles[0])


def in_browser(folder, page: str, script: str):
    """What a script gives after the page's own has run; no fault of either is accepted."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        pytest.fail(f"no browser is installed: apt-get install {BROWSERS[0]}, as ./dev setup does")
    tail = f"""<pre id="result"></pre><script>
      let outcome = null;
      try {{ outcome = (() => {{ {script} }})(); }} catch (problem) {{ window.faults.push(String(problem)); }}
      document.getElementById("result").textContent = JSON.stringify([window.faults, outcome]);
    </script></body>"""
    file = folder / "page.html"
    file.write_text(page.replace("<head>", CATCH, 1).replace("</body>", tail, 1))
    words = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'user'}", "--dump-dom"]
    shown = subprocess.run([*words, file.as_uri()], capture_output=True, text=True, timeout=120, check=True).stdout
    text = html5lib.parse(shown, namespaceHTMLElements=False).find(".//pre[@id='result']").text
    faults, outcome = json.loads(text)
    assert faults == []
    return outcome


def require_complete(page: str) -> None:
    """The page is valid HTML, its rows have as many cells as their table has columns, and it loads nothing."""
    tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    for table in tree.iter("table"):
        columns = len(table.findall("./thead/tr/th"))
        rows = table.findall("./tbody/tr")
        assert rows and all(len(row.findall("td")) == columns for row in rows), table.get("id")
    links = [link.get("href") for link in tree.iter("a")]
    assert links and all(link.startswith("#") and link[1:] in ids for link in links)
    assert not [element for element in tree.iter() if element.get("src") or element.tag == "link"]
    assert not re.findall(r"url\(|@import|fetch\(|XMLHttpRequest|import\(", page)


def test_the_page_is_valid_and_loads_nothing(profiles, page):
    for text in (page, page_of(profiles[0])):
        require_complete(text)


def test_names_of_a_program_are_text(page):
    assert "&lt;b&gt;&quot;quoted&quot; &amp; named&lt;/b&gt;" in page and '<b>"quoted"' not in page


def test_a_program_without_runs_has_a_page():
    session = made(training=False)
    text = page_of(Profile(session.getReport()._facts))
    require_complete(text)
    assert "No run was recorded" in text and 'id="memory"' in text and 'id="steps"' not in text


@pytest.mark.parametrize("slower", [1, 3])
def test_the_page_says_when_other_programs_disturbed_the_runs(slower):
    """In each of three runs another step takes long, so that no median of a step does."""
    facts = made(training=False).getReport()._facts
    first, second, third, *_ = [step["number"] for step in walk(facts["programs"])]
    runs = []
    for slow in (first, second, third):
        rows = [
            {"number": number, "calls": 1, "nanoseconds": 1000 * (slower if number == slow else 1)}
            for number in (first, second, third)
        ]
        whole = sum(row["nanoseconds"] for row in rows) + 10
        runs.append({"name": "", "begin": 0, "nanoseconds": whole, "steps": rows, "otherReplicas": [], "events": []})
    page = page_of(Profile({**facts, "runs": runs}))
    assert (f"the medians of their steps add up to {ms(3010)}: other" in page) == (slower == 3)


def test_the_page_says_where_fused_updates_count(profiles):
    fused = [text for step in profiles[0].steps if step.phase == "backward" for text in step.fused]
    assert any("/update" in text for text in fused)
    assert "Updates of weights that are fused with their gradients count as backward." in page_of(profiles[0])
    plain = page_of(Profile(profile_of_inference()))
    assert "Updates of weights" not in plain and "Host moves values" in plain


def profile_of_inference():
    session = made(training=False)
    return session.profile(step_of(session), runs=1)._facts


def test_values_in_memory_have_the_layer_that_makes_them(profiles, page):
    tree = html5lib.parse(page, namespaceHTMLElements=False)
    (table,) = [one for one in tree.iter("table") if one.get("id") == "memory-table"]
    shown = {}
    for cells in (row.findall("td") for row in table.findall("./tbody/tr")):
        shown[cells[0].get("data-value")] = "".join(
            text for small in cells[0].iter("small") for text in small.itertext()
        )
    profile = profiles[1]
    alive = profile.alive(profile.peak)
    assert shown == {value.name: profile.program[value.first].layer for value in alive}
    assert any(layer.startswith("net/block") for layer in shown.values())


def test_search_shows_the_rows_with_all_words(tmp_path, profiles, page):
    shown = in_browser(
        tmp_path,
        page,
        """
        const search = document.querySelector('input[data-table="steps-table"]');
        search.value = "block1 forward"; search.dispatchEvent(new Event("input"));
        const rows = [...document.getElementById("steps-table").tBodies[0].rows].filter(row => !row.hidden);
        return [rows.map(row => row.dataset.text), document.querySelector('[data-found="steps-table"]').textContent];
        """,
    )
    expected = [s for s in profiles[1].steps if "block1" in f"{s.title} {s.fused}" and s.phase == "forward"]
    assert len(shown[0]) == len(expected) > 0
    assert all("block1" in text and "forward" in text for text in shown[0])
    assert shown[1] == f"{len(expected)} of {len(profiles[1].steps)} rows"


def test_a_click_on_a_title_sorts(tmp_path, profiles, page):
    numbers, times, names = in_browser(
        tmp_path,
        page,
        """
        const table = document.getElementById("steps-table");
        const cells = column => [...table.tBodies[0].rows].map(row => row.cells[column].dataset.value);
        const button = title => [...table.tHead.querySelectorAll("button")].find(one => one.textContent === title);
        const before = cells(0);
        button("time").click();
        const times = cells(4);
        button("layer and operator").click(); button("layer and operator").click();
        return [before, times, cells(1)];
        """,
    )
    assert [int(number) for number in numbers] == [step.number for step in profiles[1].steps]
    assert [float(time) for time in times] == sorted((float(time) for time in times), reverse=True)
    assert [name.lower() for name in names] == sorted(name.lower() for name in names)
    assert len(times) == len(profiles[1].steps) and float(times[0]) > 0


def test_scopes_open_and_close(tmp_path, page):
    counts = in_browser(
        tmp_path,
        page,
        """
        const table = document.getElementById("layers-table");
        const count = () => [...table.tBodies[0].rows].filter(row => !row.hidden).length;
        const press = depth => document.querySelector(`button[data-for="layers-table"][data-depth="${depth}"]`).click();
        const counts = [count()];
        press(0); counts.push(count());
        press(99); counts.push(count());
        press(0);
        const tree = table.querySelector(".tree[aria-expanded=false]");
        tree.click(); counts.push(count());
        tree.click(); counts.push(count());
        return [counts, table.tBodies[0].rows.length];
        """,
    )
    (start, folded, everything, one_open, again), rows = counts
    assert folded < start <= everything == rows
    assert folded < one_open and again == folded


def test_the_time_line_grows_and_says_what_is_under_the_pointer(tmp_path, page):
    said, widths = in_browser(
        tmp_path,
        page,
        """
        const line = document.getElementById("time-line"), svg = line.firstElementChild;
        const width = () => svg.getBoundingClientRect().width, widths = [width()];
        for (const factor of ["2", "2", "0.5", "0"]) {
          document.querySelector(`button[data-zoom="${factor}"]`).click(); widths.push(width());
        }
        const rect = [...svg.querySelectorAll("rect")].find(one => one.dataset.said.startsWith("thread 0"));
        rect.dispatchEvent(new PointerEvent("pointermove", { bubbles: true }));
        const memory = document.getElementById("memory-chart"), box = memory.getBoundingClientRect();
        memory.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width / 2 }));
        return [["time-said", "memory-said"].map(id => document.getElementById(id).textContent), widths];
        """,
    )
    assert re.search(r"thread 0, .*s, of it .*s in tasks", said[0]) and "block" in said[0]
    assert re.match(r"step \d+: .* MiB", said[1])
    ratios = [width / widths[0] for width in widths]
    assert ratios == pytest.approx([1, 2, 4, 2, 1], rel=0.02)


def test_the_page_fits_a_telephone(tmp_path, page):
    """Only tables, drawings and the links at the top scroll sideways."""
    frame = "<iframe id='frame' style='width:390px;height:800px'></iframe>"
    text = json.dumps(page).replace("</", "<\\/")
    outer = f"<!DOCTYPE html><html><head><title>x</title></head><body>{frame}</body></html>"
    wide = in_browser(
        tmp_path,
        outer,
        f"""
        const inner = document.getElementById("frame").contentDocument;
        inner.open(); inner.write({text}); inner.close();
        const width = inner.documentElement.clientWidth;
        return [width, inner.documentElement.scrollWidth, inner.body.scrollWidth];
        """,
    )
    assert wide[1] <= wide[0] <= 390 and wide[2] <= wide[0]

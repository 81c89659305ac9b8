"""The estimates of an ipu_model: in the JSON, on the page in a headless browser, and in the guide's table."""

from __future__ import annotations

import re
from pathlib import Path

import popart
import pytest
from popart.profile.facts import Profile
from popart.profile.model import PARTS, ModelProfile
from popart.profile.page import page_of

from tests.python.popart.test_profile import LAYERS, ROWS, WIDTH, made, step_of
from tests.python.popart.test_profile_page import in_browser, require_complete

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "ipu-model.md"
TILES = 16


def model_of(**options):
    """A device."""
    return popart.DeviceManager().createIpuModelDevice({name: str(value) for name, value in options.items()})


@pytest.fixture(scope="module")
def facts():
    """The JSON of a training step that was profiled on a model with few tiles."""
    session = made(name="<i>small</i>", device=model_of(tilesPerIPU=TILES))
    return session.profile(step_of(session), runs=2)._facts


@pytest.fixture(scope="module")
def page(facts) -> str:
    """Its page."""
    return page_of(Profile(facts))


# ---- the estimate


def test_a_cpu_has_no_estimate():
    facts = made(training=False).getReport()._facts
    assert "model" not in facts
    with pytest.raises(KeyError, match="model"):
        ModelProfile(facts)


def test_steps_add_up_to_the_run_and_their_parts_to_them(facts):
    profile = ModelProfile(facts)
    steps, model = facts["model"]["steps"], facts["model"]
    assert [step["number"] for step in steps] == [step.number for step in profile.program]
    assert sum(step["cycles"] * step["calls"] for step in steps) == pytest.approx(model["cycles"])
    assert sum(profile.parts.values()) == pytest.approx(model["cycles"])
    for cycles, step in zip(profile.cycles, steps, strict=True):
        assert sum(cycles.counted().values()) == pytest.approx(step["cycles"])
        assert cycles.bound in PARTS
    assert sum(layer.nanoseconds for layer in profile.by_layer()) == pytest.approx(profile.run_nanoseconds)


def test_the_estimate_is_the_cycle_count(facts):
    session = made(device=model_of(tilesPerIPU=TILES))
    before = session.getReport().execution.totalCycles.total
    session.run(step_of(session))
    assert session.getReport().execution.totalCycles.total - before == round(facts["model"]["cycles"])


def test_a_product_takes_its_operations_over_the_tiles(facts):
    """2 m n k operations at 32 in a cycle and tile."""
    profile = ModelProfile(facts)
    forward = [
        step for step in profile.steps if step.layer == "net/block1/product" and step.phase == "forward" and step.flops
    ]
    (product,) = forward
    expected = 2 * ROWS * WIDTH * WIDTH / (32 * TILES)
    assert profile.cycles[product.number].compute >= expected
    assert profile.cycles[product.number].compute == pytest.approx(expected, rel=0.1)  # and its activation
    assert profile.cycles[product.number].sync == facts["model"]["machine"]["syncCycles"]


def test_cycles_do_not_depend_on_the_threads_of_the_host():
    cycles = {
        made(threads=threads, device=model_of(tilesPerIPU=TILES)).getReport()._facts["model"]["cycles"]
        for threads in (1, 2)
    }
    assert len(cycles) == 1


def test_memory_of_a_tile_is_that_of_the_plan(facts):
    profile, memory = ModelProfile(facts), facts["memory"]
    whole = sum(bytes_ for _, _, bytes_ in profile.memory_parts)
    assert whole == memory["variables"] + memory["constants"] + memory["arena"]
    assert profile.tile_bytes == pytest.approx(whole / TILES)
    always = {value.name for value in profile.stored if value.always}
    assert {f"w{i}" for i in range(3)} <= always
    sizes = [value.bytes for value in profile.stored]
    assert sizes == sorted(sizes, reverse=True)


def test_the_host_moves_what_the_program_reads(facts):
    """The input and the loss cross the link; the rest of the program is on the tiles."""
    profile = ModelProfile(facts)
    host = [number for number, move in profile.moves.items() if move.kind == "host"]
    assert host and all(profile.cycles[number].link > 0 for number in host)
    moved = sum(one.link_bytes * one.calls for one in profile.cycles)
    assert ROWS * WIDTH * 4 + 4 <= moved <= 1.1 * (ROWS * WIDTH * 4 + 4)
    assert profile.parts["link"] == pytest.approx(moved / facts["model"]["machine"]["linkBytesPerCycle"])


def test_replicas_share_the_ipus_of_the_device():
    plain = made(device=model_of(tilesPerIPU=TILES)).getReport()._facts
    session = made(device=model_of(numIPUs=2, tilesPerIPU=TILES), replicas=2)
    facts = session.getReport()._facts
    assert plain["model"]["tiles"] == facts["model"]["tiles"] == TILES
    assert facts["replicas"] == {"all": 2, "first": 0, "here": 2, "recorded": 0}
    collectives = [move for move in ModelProfile(facts).moves.values() if move.kind.startswith("collective")]
    assert sum(move.bytes for move in collectives) >= LAYERS * WIDTH * WIDTH * 4  # all gradients of weights
    assert "replica 0 of 2" in page_of(Profile(facts))
    assert "replica" not in re.search(r"<header>.*?</header>", page_of(Profile(plain)), re.DOTALL).group()


def test_a_program_that_does_not_fit_says_so():
    rows = 64 * 1024
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [rows, 16], "x")
    y = builder.aiOnnx.tanh([x])
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), model_of(tilesPerIPU=1))
    session.prepareDevice()
    profile = Profile(session.getReport()._facts)
    assert ModelProfile(profile.facts).tile_bytes > profile.facts["target"]["bytesPerTile"]
    assert "does not fit" in page_of(profile)


# ---- constants


def test_the_guide_has_the_constants_of_the_library():
    units = {"KiB": 1024, "GHz": 1e9, "cycles": 1}
    table = [
        [cell.strip() for cell in line.strip("|\n ").split("|")]
        for line in GUIDE.read_text().split("## The constants")[1].split("Sources:")[0].splitlines()
        if line.startswith("|")
    ]
    versions = [cell.strip("`") for cell in table[0][1:]]
    keys = [
        "tilesPerIpu", "clockFrequency", "flopsPerCycle", "bytesPerCycle", "bytesPerTile", "syncCycles",
        "linkBytesPerCycle",
    ]  # fmt: skip
    assert len(table) == 2 + len(keys)
    for column, version in enumerate(versions, 1):
        machine = made(training=False, device=model_of(ipuVersion=version)).getReport()._facts["model"]["machine"]
        assert machine["version"] == version
        for row, key in zip(table[2:], keys, strict=True):
            number, _, unit = row[column].replace(",", "").partition(" ")
            assert machine[key] == pytest.approx(float(number) * units.get(unit, 1)), (version, row[0])


# ---- the page


def test_the_page_is_valid_and_loads_nothing(facts, page):
    for text in (page, page_of(Profile(facts), Profile(facts))):
        require_complete(text)
    assert "<i>small</i>" not in page


def test_an_estimate_without_runs_has_a_page():
    session = made(training=False, device=model_of(tilesPerIPU=TILES))
    text = page_of(Profile(session.getReport()._facts))
    require_complete(text)
    assert 'id="tiles"' in text and 'id="model-steps-table"' in text and 'id="steps-table"' not in text


def test_the_tables_of_the_estimate_search_and_sort(tmp_path, facts, page):
    profile = ModelProfile(facts)
    found, cycles, values, constants = in_browser(
        tmp_path,
        page,
        """
        const table = name => document.getElementById(name);
        const rows = name => [...table(name).tBodies[0].rows].filter(row => !row.hidden);
        const look = (name, words) => {
          const search = document.querySelector(`input[data-table="${name}"]`);
          search.value = words; search.dispatchEvent(new Event("input"));
          const shown = rows(name).map(row => row.dataset.text);
          search.value = ""; search.dispatchEvent(new Event("input"));
          return shown;
        };
        const press = (name, title) =>
          [...table(name).tHead.querySelectorAll("button")].find(one => one.textContent === title).click();
        const column = (name, i) => rows(name).map(row => Number(row.cells[i].dataset.value));
        press("model-steps-table", "in a run");
        press("values-table", "all tiles"); press("values-table", "all tiles");
        return [look("model-steps-table", "block1 backward"), column("model-steps-table", 5),
                column("values-table", 2), rows("constants-table").length];
        """,
    )
    expected = [step for step in profile.steps if "block1" in step.title and step.phase == "backward"]
    assert len(found) == len(expected) > 0 and all("block1" in text and "backward" in text for text in found)
    assert cycles == sorted(cycles, reverse=True) and len(cycles) == len(profile.steps)
    assert values == sorted(values) and len(values) == len(profile.stored)
    assert constants == 9


def test_scopes_of_the_estimate_open_and_those_of_the_host_stay(tmp_path, page):
    before, after, host = in_browser(
        tmp_path,
        page,
        """
        const count = name => [...document.getElementById(name).tBodies[0].rows].filter(row => !row.hidden).length;
        const press = depth =>
          document.querySelector(`button[data-for="model-layers-table"][data-depth="${depth}"]`).click();
        press(0);
        const before = count("model-layers-table"), host = count("layers-table");
        press(99);
        return [before, count("model-layers-table"), count("layers-table") === host];
        """,
    )
    assert after > before > 0 and host

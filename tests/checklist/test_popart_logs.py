"""Log lines have the documented form, levels, channels and places, and tell the documented events."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.checklist import popart_logs as sheet

LINE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z popart:(\w+) (\d+)\.(\d+) ([TDIWEC]): (.*)$")
RUN = "import sys; from tests.checklist import popart_logs; popart_logs.program(sys.argv[1])"
INITIALS = {"debug": "D", "info": "I", "warn": "W", "error": "E", "critical": "C"}


def run(tmp_path, code=RUN, **environment):
    """The standard streams of a program of its own: channels read the environment once."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POPART_LOG")}
    env = {**kept, **{name: value for name, value in environment.items() if value is not None}}
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model.onnx")], env=env, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result


def lines(text):
    """(channel, initial, text) of each line, which all have the documented form."""
    found = []
    for line in text.splitlines():
        match = LINE.match(line)
        assert match, line
        found.append((match[1], match[4], match[5]))
    return found


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return lines(run(tmp_path_factory.mktemp("logs"), POPART_LOG_LEVEL="TRACE").stderr)


@pytest.mark.parametrize(("event", "initial", "channel", "pattern", "count"), [row[1:] for row in sheet.EVENTS])
def test_event(trace, event, initial, channel, pattern, count):
    found = [text for c, i, text in trace if (c, i) == (channel, initial) and re.search(pattern, text)]
    assert len(found) == count if count is not None else found, f"{event}: {found}"


def test_channels_and_levels_are_documented(trace):
    assert {channel for channel, *_ in trace} <= set(sheet.CHANNELS)
    assert {initial for _, initial, _ in trace} == set("TDIWE")


def test_process_and_thread(tmp_path):
    code = "import os, popart; print(os.getpid()); popart.getLogger().warn('text')"
    result = run(tmp_path, code)
    match = LINE.match(result.stderr.strip())
    assert match[2] == match[3] == result.stdout.strip()


@pytest.mark.parametrize(
    ("way", "level", "shown"),
    [
        (way, level, shown)
        for way in ("environment", "logger")
        for level, shown in sheet.LEVELS.items()
        if (way, level) != ("environment", "nonsense")  # test_a_bad_setting_of_the_environment_warns_once
    ],
)
def test_level(tmp_path, way, level, shown):
    sets = "" if way == "environment" or level is None else f"popart.getLogger().setLevel({level!r}); "
    writes = "; ".join(f"popart.getLogger().{name}('text')" for name in INITIALS)
    environment = {"POPART_LOG_LEVEL": level} if way == "environment" else {}
    found = lines(run(tmp_path, f"import popart; {sets}{writes}", **environment).stderr)
    assert [initial for _, initial, _ in found] == [i for i in INITIALS.values() if i in shown]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("POPART_LOG_LEVEL", "VERBOSE"),
        ("POPART_LOG_LEVEL", "2"),
        ("POPART_LOG_CONFIG", "missing.json"),
        ("POPART_LOG_CONFIG", "."),
        ("POPART_LOG_CONFIG", "[1]"),
        ("POPART_LOG_CONFIG", "{"),
        ("POPART_LOG_CONFIG", '{"python": "VERBOSE"}'),
        ("POPART_LOG_CONFIG", '{"all": 3}'),
        ("POPART_LOG_DEST", "file/log"),
        ("POPART_LOG_DEST", "."),
    ],
)
def test_a_bad_setting_of_the_environment_warns_once(tmp_path, variable, value):
    (tmp_path / "file").write_text("")
    if variable == "POPART_LOG_CONFIG" and value[0] in "[{":
        (tmp_path / "config.json").write_text(value)
        value = str(tmp_path / "config.json")
    elif variable != "POPART_LOG_LEVEL":
        value = str(tmp_path / value)
    code = "import popart; [getattr(popart.getLogger(), n)('text') for n in ('debug', 'info', 'warn', 'error')]; " + RUN
    result = run(tmp_path, code, **{variable: value})
    found = lines(result.stderr)
    usual = lines(run(tmp_path, code).stderr)
    assert found[0][:2] == ("popart", "W") and variable in found[0][2], found[0]
    assert found[1:] == usual


@pytest.mark.parametrize("channel", sheet.CHANNELS)
def test_a_logger_sets_its_channel_alone(tmp_path, channel):
    code = f"import popart; popart.getLogger().setLevel('CRITICAL'); popart.getLogger({channel!r}).setLevel('TRACE'); "
    found = lines(run(tmp_path, code + RUN).stderr)
    assert {c for c, *_ in found} <= {channel}
    assert bool(found) == (channel not in ("opx", "ces", "op"))


def test_an_unknown_logger_sets_none(tmp_path):
    code = "import popart; popart.getLogger('nowhere').setLevel('TRACE'); popart.getLogger('nowhere').info('text')"
    assert not lines(run(tmp_path, code).stderr)


@pytest.mark.parametrize(("destination", "place"), sheet.DESTINATIONS.items())
def test_destination(tmp_path, destination, place):
    file = tmp_path / "log.txt"
    file.write_text("what was there before\n")
    value = str(file) if destination == "file" else destination
    result = run(tmp_path, POPART_LOG_LEVEL="INFO", POPART_LOG_DEST=value)
    texts = {"stdout": result.stdout, "stderr": result.stderr, "file": file.read_text()}
    assert lines(texts.pop(place))
    assert set(texts.values()) <= {"", "what was there before\n"}


def test_format(tmp_path):
    code = "import popart; popart.getLogger().warn('text')"
    assert run(tmp_path, code, POPART_LOG_FORMAT="%n|%L|%v").stderr == "popart:python|W|text\n"


@pytest.mark.parametrize(("config", "level", "expected"), sheet.CONFIGS)
def test_config(tmp_path, config, level, expected):
    file = tmp_path / "levels.json"
    file.write_text(json.dumps(config))
    found = lines(run(tmp_path, POPART_LOG_CONFIG=str(file), POPART_LOG_LEVEL=level).stderr)
    for channel, initials in expected.items():
        shown = {initial for c, initial, _ in found if c == channel}
        assert shown <= set(initials)
        assert bool(shown) == bool(set(initials) & {"session": set("TDIWE"), "builder": set("T")}[channel])


def test_a_compiled_program_that_is_kept_says_so(tmp_path):
    found = []
    for _ in range(2):
        output = run(tmp_path, POPART_LOG_LEVEL="DEBUG", POPART_CACHE_DIR=str(tmp_path / "cache")).stderr
        debug = [text for channel, initial, text in lines(output) if (channel, initial) == ("session", "D")]
        found.append([any(word in text for text in debug) for word in ("compilation begins", "comes from")])
    assert found == [[True, False], [False, True]]


def test_an_error_names_the_lines_of_the_program(tmp_path):
    code = (
        "import popart\ndef build():\n    popart.DataFlow(0, [])\n"
        "try:\n    build()\nexcept popart.popart_exception:\n    pass"
    )
    ((channel, initial, text),) = lines(run(tmp_path, code).stderr)
    assert (channel, initial) == ("popart", "E") and "DataFlow" in text
    assert re.search(r"\(at <string>:3 in build, <string>:5 in <module>\)$", text)

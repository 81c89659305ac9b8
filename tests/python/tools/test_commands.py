"""What all commands share: one front door, versions, exit codes, errors that are printed once, signals."""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import popart
import pytest
from popart.tools.command import ExitCode
from popart.tools.front import COMMANDS
from popart_commands.modules import MODULES

import onnx
from onnx import TensorProto, helper
from tests.docs.pages import DOCS, ROOT, tool

SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
OURS = {name: target for name, target in SCRIPTS.items() if name != "poprun"}
START = "import importlib, sys; sys.argv[0] = {name!r}; getattr(importlib.import_module({module!r}), {function!r})()"


def python(*arguments: str | Path, expect: int = 0, **options) -> subprocess.CompletedProcess[str]:
    """Call Python."""
    result = subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=120, **options
    )
    assert result.returncode == expect, result.stdout + result.stderr
    return result


def script(name: str, *arguments: str | Path, **options) -> subprocess.CompletedProcess[str]:
    """Call a command as its script in a wheel does."""
    module, function = OURS[name].split(":")
    return python("-c", START.format(name=name, module=module, function=function), *arguments, **options)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A relu of an open batch."""
    path = tmp_path_factory.mktemp("model") / "relu.onnx"
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "small", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


# ---- the front door


def test_every_command_has_its_own_name_and_is_a_subcommand():
    assert {f"popart-{name}" for name in COMMANDS} | {"popart", "gc-info"} == set(OURS)
    for name, target in SCRIPTS.items():
        function = name.replace("-", "_")
        kind = "modules" if function in MODULES else "programs"
        assert target == f"popart_commands.{kind}:{function}"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_front_door_runs_each_command(name):
    direct = script(f"popart-{name}", "--help")
    assert script("popart", name, "--help").stdout == direct.stdout
    assert python("-m", "popart", name, "--help").stdout == direct.stdout
    assert f"popart-{name}" in direct.stdout


def test_the_front_door_lists_its_commands():
    listing = script("popart", "--help").stdout
    assert all(f"  {name} " in listing and meaning in listing for name, meaning in COMMANDS.items())
    wrong = script("popart", "inspekt", expect=ExitCode.REFUSED).stderr
    assert wrong == "popart: there is no command 'inspekt'. Nearest names: inspect. See popart --help\n"
    assert "expected one of run, inspect" in script("popart", expect=ExitCode.REFUSED).stderr


@pytest.mark.parametrize("name", [*OURS, "poprun"])
def test_a_command_starts_without_what_only_some_calls_need(name):
    module = MODULES.get(name.replace("-", "_"), "popart_commands.programs")
    slow = ("rich", "onnx", "torch", "onnxruntime", "pygments", "tqdm", "safetensors", "scipy", "matplotlib", "asyncio")
    program = f"import sys, {module}; print([name for name in {slow} if name in sys.modules])"
    assert python("-c", program).stdout == "[]\n"


def test_a_result_is_the_same_through_the_front_door(model):
    arguments = ("--dim", "batch=2", "--json", "--file-only")
    assert script("popart", "inspect", model, *arguments).stdout == script("popart-inspect", model, *arguments).stdout


# ---- versions


@pytest.mark.parametrize("name", OURS)
def test_every_command_says_its_version(name):
    line = script(name, "--version").stdout
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    found = re.fullmatch(rf"{name} {re.escape(ours)} \(commit (\S+)\), PopART (\S+)\n", line)
    assert found and found[2] == popart.__version__
    commit = found[1].removesuffix("-dirty")  # of the build: at or before that of the sources
    if subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True).returncode == 0:
        subprocess.run(["git", "merge-base", "--is-ancestor", commit, "HEAD"], cwd=ROOT, check=True)


@pytest.mark.parametrize("name", ["popart-opt", "popart-cache"])
def test_a_compiled_command_says_its_version_without_python(name):
    line = subprocess.run([tool(name), "--version"], capture_output=True, text=True, check=True).stdout
    assert line == script("popart-info", "--version").stdout.replace("popart-info", name)


def test_a_wheel_says_the_commit_that_its_build_wrote(tmp_path):
    """Files as a wheel installs them."""
    package = tmp_path / "popart"
    (package / "tools").mkdir(parents=True)
    source = ROOT / "python/popart/tools/versions.py"
    (package / "tools/versions.py").write_text(source.read_text())
    (package / "build.json").write_text('{"commit": "0123456789", "buildType": "Release", "compiler": ""}')
    program = """
import sys
sys.path.insert(0, sys.argv[1])
import versions
print(versions.version_text("p"))
print(versions.build_facts())
"""
    lines = python("-c", program, package / "tools").stdout.splitlines()
    assert lines[0] == f"p {popart.__openpopart_version__} (commit 0123456789), PopART {popart.__version__}"
    assert lines[1] == "{'commit': '0123456789', 'buildType': 'Release'}"


# ---- exit codes and errors


def test_the_guide_has_the_table_of_exit_codes():
    page = (DOCS / "guides/command-line.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (.+?) \|$", page, re.MULTILINE)
    assert rows == [(str(code.value), code.meaning) for code in ExitCode]
    for name in ("popart", "popart-run", "popart-info", "gc-info", "popart-opt", "popart-cache"):
        text = script(name, "--help").stdout
        assert all(f"{code.value:3}  {code.meaning}" in text for code in ExitCode)


CALL = """
import sys, time
from popart.tools.command import UsageError, run_as_process
def command(arguments):
    {body}
    return 0
run_as_process("tool", command)
"""


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        ("raise UsageError('file a: no. Do b')", ExitCode.REFUSED, "tool: file a: no. Do b"),
        ("raise FileNotFoundError(2, 'absent', 'f')", ExitCode.REFUSED, "tool: [Errno 2] absent: 'f'"),
        ("raise MemoryError('4 GiB')", ExitCode.REFUSED, "tool: there is not enough memory: 4 GiB."),
        ("import popart; popart._throw_popart_error('bad option')", ExitCode.REFUSED, "tool: bad option"),
        ("import popart; popart._throw_popart_internal_error('odd')", ExitCode.FAULT, "tool: fault of PopART: "),
        ("raise KeyError('name')", ExitCode.FAULT, "tool: fault of PopART: KeyError: 'name'. Report it"),
        ("return 1", ExitCode.DIFFERENT, ""),
    ],
)
def test_an_error_is_one_line_with_its_exit_code(body, code, text):
    result = python("-c", CALL.format(body=body), expect=code)
    assert result.stderr.startswith(text) and result.stderr.count("\n") == bool(text)
    debugged = python("-c", CALL.format(body=body), "--debug", expect=code).stderr
    assert ("Traceback" in debugged) == bool(text) and text in debugged


@pytest.mark.parametrize("name", ["run", "inspect", "convert"])
def test_an_error_of_the_library_is_printed_once(tmp_path, name):
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(b"\xff\x00 no model")
    more = [tmp_path / "out.onnx"] if name == "convert" else []
    result = script(f"popart-{name}", damaged, *more, expect=ExitCode.REFUSED)
    assert result.stderr.startswith(f"popart-{name}: ") and result.stderr.count("\n") == 1
    assert "damaged.onnx" in result.stderr
    folder = script(f"popart-{name}", tmp_path, *more, expect=ExitCode.REFUSED).stderr
    assert folder == f"popart-{name}: file '{tmp_path}': it is a folder, expected a file with an ONNX model\n"


def test_wrong_names_get_the_nearest_ones(model):
    wrong = script("popart-run", model, "--dim", "bach=3", expect=ExitCode.REFUSED).stderr
    assert wrong == "popart-run: --dim: the model has no 'bach'. Nearest names: batch\n"
    wrong = script("popart-run", model, "--input", "x=nope.npy", expect=ExitCode.REFUSED).stderr
    assert wrong.startswith("popart-run: file 'nope.npy': it does not exist, expected a file with an array")
    wrong = script("popart-run", model, "--anchor", "unlike", expect=ExitCode.REFUSED).stderr
    assert "unlike" in wrong and "Nearest" not in wrong


# ---- signals


@pytest.mark.parametrize("name", OURS)
def test_a_reader_that_is_gone_ends_a_command_in_silence(name, model):
    arguments = {
        "popart": ["inspect", model],
        "popart-cache": ["ls"],
        "popart-convert": [model, model.with_name("converted.onnx")],
        "popart-info": [],
        "popart-opt": ["--list-passes"],
        "popart-profile": [model, "--dim", "batch=2", "--output", model.parent / "profile", "--runs", "1"],
        "gc-info": ["-l"],
    }.get(name, [model, "--dim", "batch=2"])
    read, write = os.pipe()
    os.close(read)
    module, function = OURS[name].split(":")
    command = [sys.executable, "-c", START.format(name=name, module=module, function=function), *map(str, arguments)]
    result = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write)
    assert result.returncode == -signal.SIGPIPE == 128 - ExitCode.PIPE_CLOSED
    assert result.stderr == ""


def started(command: list[object], **streams: object) -> subprocess.Popen:
    """Start a command that SIGINT ends, even where the tests run in the background of a shell, which ignores it."""
    default = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=default, **streams)


def interrupted(body: str, *arguments: str) -> None:
    """Send Ctrl-C to a command that has written a line: it ends by the signal and writes nothing more."""
    command = [sys.executable, "-c", CALL.format(body=f"print('ready', flush=True); {body}"), *arguments]
    process = started(command, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    outputs = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT == 128 - ExitCode.INTERRUPTED and outputs == ("", "")


def test_ctrl_c_ends_a_command_in_silence(model):
    interrupted("time.sleep(60)")
    interrupted("from popart.tools import run; run.command(arguments)", str(model), "--seconds", "60")


IMPORTING = """
import importlib.abc, sys
class Watch(importlib.abc.MetaPathFinder):  # says that the first module of the package is looked for
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in ("popart", "popdist"):
            sys.meta_path.remove(self)
            print("importing", flush=True)
sys.meta_path.insert(0, Watch())
"""


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name.replace("-", "_") in MODULES])
@pytest.mark.parametrize("seconds", [0, 0.03, 0.1])
def test_ctrl_c_ends_a_command_in_silence_while_it_is_imported(name, seconds):
    module, function = SCRIPTS[name].split(":")
    start = IMPORTING + START.format(name=name, module=module, function=function)
    process = started([sys.executable, "-c", start, "--help"], text=True)
    assert process.stdout.readline() == "importing\n"
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert told == "" and process.returncode in ((-signal.SIGINT,) if seconds == 0 else (-signal.SIGINT, 0))


def test_a_command_in_the_background_of_a_shell_ignores_ctrl_c():
    """A shell starts it with SIGINT ignored, and it stays so."""
    module, function = SCRIPTS["popart-info"].split(":")
    start = IMPORTING + START.format(name="popart-info", module=module, function=function)
    ignored = functools.partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    process = subprocess.Popen([sys.executable, "-c", start, "--help"], stdout=subprocess.PIPE, preexec_fn=ignored)
    assert process.stdout.readline() == b"importing\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_ctrl_c_ends_a_compiled_command_in_silence():
    command = [tool("popart-opt"), "-"]  # which waits for text
    process = started(command, stdin=subprocess.PIPE)
    while "libpopart" not in Path(f"/proc/{process.pid}/maps").read_text():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    outputs = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT and outputs == (b"", b"")

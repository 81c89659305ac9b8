"""The programs and commands that the pages at the top and under docs print are run here, or by tests named here."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import onnx.parser
import popart
import popxl
import popxl_addons as addons
import pytest

import onnx
from tests.docs.pages import DIRECTIVES, blocks, check_command, without_fences
from tests.docs.test_guides import GUIDES

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def block(page: str, start: str) -> str:
    """The fenced block of a page that starts with `start`."""
    (text,) = [found.text for found in blocks(ROOT / page) if found.text.startswith(start)]
    return text


# First line of every fenced block, and who runs it: a test below, or another file that runs the same.
RUN_BY = {
    ("README.md", "./dev demo"): "test_commands_exist",
    ("README.md", "import popart\n"): "test_readme_trains_an_onnx_file",
    ("README.md", "import numpy as np\nimport popxl\n"): "test_readme_popxl_program",
    ("docs/add-an-op.md", "OpDef("): "test_add_an_op_shows_the_row_of_the_library",
    ("docs/custom-operators.md", "g++ "): "test_custom_operator_page",
    ("docs/custom-operators.md", "ctypes"): "test_custom_operator_page",
    ("docs/custom-operators.md", "leaky = "): "test_kernel_in_python",
    ("CONTRIBUTING.md", "./dev setup"): "test_commands_exist",
    ("docs/examples.md", "./dev build\n"): "test_commands_exist",
    ("docs/architecture.md", " .onnx / Builder"): "",  # a picture
    ("docs/architecture.md", "main {"): "test_architecture_shows_every_stage",
    ("docs/architecture.md", "$ popart-opt"): "test_architecture_shows_every_stage",
    ("docs/compat/printing-and-naming.md", "Graph : head"): "test_printed_schedule",
    ("docs/compat/printing-and-naming.md", "NamedTensors("): "test_printed_tree",
    ("docs/compat/serialised-ir.md", '{"maingraph"'): "test_serialised_ir",
}


def test_every_block_is_run():
    """A new block needs a test; guides are run as a whole, by test_guides.py."""
    for page in sorted(set(PAGES) - set(GUIDES)):
        name = str(page.relative_to(ROOT))
        for found in blocks(page):
            if found.language in DIRECTIVES:
                continue
            tests = [test for (where, start), test in RUN_BY.items() if where == name and found.text.startswith(start)]
            assert len(tests) == 1, f"{name}: no test runs the block {found.text[:60]!r}"
            assert not tests[0] or tests[0] in globals()


def shown(text: str) -> str:
    """Output of popart-opt as the pages show it: columns per panel and scratch memory depend on the machine."""
    text = re.sub(r"(packed(?:_conv)?(?:_t)?)\d+", r"\1N", text)
    return re.sub(r"(?<=scratch: )\d+|(?<=total: )\d+|\d+(?= bytes scratch)", "…", text)


def test_architecture_shows_every_stage():
    """The program of docs/architecture.md at every stage, as popart-opt prints it."""
    tool = ROOT / "build" / os.environ.get("POPART_PRESET", "dev") / "bin" / "popart-opt"
    program = block("docs/architecture.md", "main {")
    consoles = [found.text for found in blocks(ROOT / "docs/architecture.md") if found.language == "console"]
    assert len(consoles) == 5
    for console in consoles:
        command, _, printed = console.partition("\n")
        words = shlex.split(command.removeprefix("$ popart-opt example.ir"))
        result = subprocess.run([tool, "-", *words], input=program, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        assert shown(result.stdout) == printed


def test_links_lead_somewhere():
    """Links of pages, and pages that sources name."""
    for page in PAGES:
        for target in re.findall(r"\]\(([^)# ]+)\)", without_fences(page.read_text())):
            assert "://" in target or (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"
    for folder in ("include", "src", "python", "tools", "tests", "benchmarks", "examples"):
        for source in (ROOT / folder).rglob("*.*"):
            if source.suffix in (".cpp", ".hpp", ".py", ".md"):
                for name in re.findall(r"docs/[\w/-]+\.md", source.read_text()):
                    assert (ROOT / name).exists(), f"{source.relative_to(ROOT)}: {name}"


def test_printed_schedule():
    """The schedule of a graph of two operations."""

    def head(x: popxl.Tensor, w: popxl.Tensor) -> popxl.Tensor:
        return popxl.ops.relu(x @ w)

    ir = popxl.Ir()
    head.__qualname__ = "head"
    specs = [popxl.TensorSpec(shape, popxl.float32) for shape in ((3, 5), (5, 2))]
    graph = ir.create_graph(head, *specs)
    named = addons.NamedTensors.from_dict({"kernel": graph.inputs[1]})
    printed = addons.GraphWithNamedArgs(graph, named).print_schedule()
    assert printed == block("docs/compat/printing-and-naming.md", "Graph : head").rstrip("\n")


def test_printed_tree():
    """A tree of one tensor."""
    with popxl.Ir().main_graph:
        weight = popxl.variable(np.ones((4, 2), np.float32), name="fc.weight")
        tree = addons.NamedTensors.from_dict({"fc.weight": weight})
        assert f"{tree!r}\n" == block("docs/compat/printing-and-naming.md", "NamedTensors(")
        assert str(tree) == str({"fc.weight": weight})


def test_serialised_ir():
    """The JSON of a program of one operation."""
    builder = popart.Builder()
    y = builder.aiOnnx.softmax([builder.addInputTensor("FLOAT", [2, 3], "x")], debugContext="scores")
    session = popart.InferenceSession(
        builder.getModelProto(), popart.DataFlow(1, [y]), popart.DeviceManager().createCpuDevice()
    )
    shown = json.loads(block("docs/compat/serialised-ir.md", '{"maingraph"'))
    actual = json.loads(session._serializeIr(popart.IrSerializationFormat.JSON))
    for made, printed in zip(actual["maingraph"], shown["maingraph"], strict=True):
        assert printed.pop("attributes").items() <= made.pop("attributes").items()
    assert actual == shown


def test_readme_trains_an_onnx_file(tmp_path, monkeypatch, capsys):
    """The training program, on a classifier file and batches of 16 images; the trained file is the trained network."""
    rng = np.random.default_rng(0)
    weight = onnx.numpy_helper.from_array(rng.normal(0, 0.02, (784, 10)).astype(np.float32), "weight")
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> g (float[8, 784] images) => (float[8, 10] logits) '
        "{ logits = MatMul(images, weight) }"
    )
    model.graph.initializer.append(weight)
    monkeypatch.chdir(tmp_path)
    onnx.save(model, "classifier.onnx")
    patterns = rng.normal(size=(10, 784)).astype(np.float32)

    def batch():
        labels = rng.integers(0, 10, 16)
        return {"images": patterns[labels] + rng.normal(size=(16, 784)).astype(np.float32) / 2, "labels": labels}

    images = patterns[:3]
    names = {"training": [batch() for _ in range(20)], "validation": [batch() for _ in range(4)], "images": images}
    exec(compile(block("README.md", "import popart\n"), "README.md", "exec"), names)
    accuracies, shape = capsys.readouterr().out.splitlines()
    assert len(json.loads(accuracies)) == 3 and json.loads(accuracies)[-1] > 0.9
    assert shape == "(3, 10)"
    trained = onnx.numpy_helper.to_array(onnx.load("trained.onnx").graph.initializer[0])
    assert not np.array_equal(trained, onnx.numpy_helper.to_array(weight))
    np.testing.assert_allclose(names["model"](images), images @ trained, rtol=1e-4, atol=1e-4)


def test_readme_popxl_program():
    """The PopXL program prints gelu of a matrix product."""
    program = block("README.md", "import numpy as np\nimport popxl\n")
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    printed = [float(number) for number in re.findall(r"[0-9.]+", result.stdout)]
    np.testing.assert_allclose(printed, [0.8411920] * 6, rtol=1e-3)  # gelu(1), tanh approximation: rows of an identity


def commands() -> set[str]:
    """Every `./dev …` that the pages name, without comments."""
    found = set()
    for page in PAGES:
        found |= {match.strip() for match in re.findall(r"\./dev( [a-z][a-z-]*|\b --help)", page.read_text())}
    return found


def test_commands_exist():
    """Each command of ./dev that a page names has its help; ./dev test runs the demo's test."""
    names = commands()
    assert {"demo", "test", "build", "bench", "new-op"} <= names
    for name in names - {"--help"}:
        result = subprocess.run([ROOT / "dev", name, "--help"], capture_output=True, text=True)
        assert result.returncode == 0, f"./dev {name} --help: {result.stderr}"
    listing = subprocess.run([ROOT / "dev", "--help"], capture_output=True, text=True, check=True).stdout
    assert all(name in listing for name in names - {"--help"})


@pytest.mark.parametrize("script, options", [("benchmarks/bench.py", ["--names", "--peers", "--quick", "--json"]),
                                             ("examples/demo.py", ["--data", "--json"])])  # fmt: skip
def test_options_exist(script, options):
    """Options that pages name for ./dev bench and ./dev demo are those of the programs."""
    result = subprocess.run([sys.executable, ROOT / script, "--help"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert [option for option in options if option not in result.stdout] == []


def test_every_example_is_on_its_page():
    """The tables of docs/examples.md are complete; test_tests_named_by_the_pages_exist looks for the files."""
    named = set(re.findall(r"^\| (`examples/[^|]*`) \|", (ROOT / "docs/examples.md").read_text(), re.MULTILINE))
    named = {name.strip("`") for cell in named for name in cell.split(", ")}
    patterns = ("*.py", "cpp/*.cpp", "notebooks/*.ipynb")
    programs = [path for pattern in patterns for path in (ROOT / "examples").glob(pattern)]
    folders = {"examples/popxl", "examples/tasks"}
    assert {str(path.relative_to(ROOT)) for path in programs} | folders == named


def test_tests_named_by_the_pages_exist():
    """Paths in code style exist, but for those said to be empty."""
    folders = "tests|src|tools|examples|python|include|benchmarks"
    for page in PAGES:
        text = "\n".join(line for line in page.read_text().splitlines() if "empty" not in line)
        for path in re.findall(rf"`((?:{folders})/[\w/.-]+)`", text):
            assert (ROOT / path).exists(), f"{page.name}: {path}"


def test_front_pages_stay_short():
    """Pages that everybody reads first have a limit; details are in the guides."""
    for name, lines in (("README.md", 90), ("docs/status.md", 120)):
        assert len((ROOT / name).read_text().splitlines()) <= lines, name


def test_version_is_the_same_everywhere():
    """Of the package, of the citation and in the list of changes."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == version
    newest = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert re.fullmatch(rf"Unreleased \({re.escape(version)}\)|{re.escape(version)}, \d{{4}}-\d\d-\d\d", newest)


def test_dockerfile_uses_what_is_there(tmp_path):
    """Its instructions are known, and its command of ./dev has these options; nothing here can build the image."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines() if line]
    instructions = [line.split(maxsplit=1) for line in lines if not line.startswith("#")]
    assert {name for name, _ in instructions} <= {"FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "CMD"}
    commands = [text for name, text in instructions if name == "RUN"]
    for command in commands:
        subprocess.run(["bash", "-n", "-c", command], check=True)
    (own,) = [command for command in commands if command.startswith("./dev ")]
    check_command("Dockerfile", shlex.split(own), tmp_path)


def test_add_an_op_shows_the_row_of_the_library():
    """The row on the page is the library's, up to white space."""

    def plain(text):
        return re.sub(r"\s+", "", text)

    row = block("docs/add-an-op.md", "OpDef(")
    sources = "".join(path.read_text() for path in sorted((ROOT / "src/ops").rglob("*.cpp")))
    assert plain(row) in plain(sources)


def test_kernel_in_python():
    """The operator of the page is one, and it is added to a graph."""
    with popxl.Ir().main_graph:
        names = {"np": np, "popxl": popxl, "x": popxl.variable(np.ones((2, 3), np.float32))}
        exec(block("docs/custom-operators.md", "leaky = "), names)
    assert names["y"].spec == names["x"].spec


def test_custom_operator_page():
    """The page's two commands are those that test_custom_op.py runs, on the file that the page names."""
    build = shlex.split(block("docs/custom-operators.md", "g++ "))
    assert (ROOT / "tests/python/popart/custom_op" / build[build.index("-shared") + 1]).is_file()
    tested = (ROOT / "tests/python/popart/test_custom_op.py").read_text()
    assert all(f'"{flag}"' in tested for flag in ("g++", "-std=c++20", "-fPIC", "-shared"))
    use = block("docs/custom-operators.md", "ctypes")
    assert "ctypes.cdll.LoadLibrary" in tested
    assert 'domain="custom.ops"' in use and 'domain="custom.ops"' in tested

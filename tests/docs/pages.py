"""Blocks of Markdown pages, and a page as a program: its Python blocks in order, in one fresh process."""

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FILE = re.compile(r"# (\w+\.py)\n")
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
TOOLS = ("popart-opt", "popart-cache")
PYTHON_TOOLS = {  # module of each command
    "popart": "popart.tools.front",
    **{f"popart-{name}": f"popart.tools.{name}" for name in ("run", "inspect", "convert", "info")},
    "gc-info": "popart.tools.gc_info",
    "poprun": "popdist.poprun",
}
SYSTEM = ("apt-get", "cd", "cmake", "export", "g++", "pip", ".venv/bin/python")  # commands that are not ours
DIRECTIVES = ("{toctree}", "{eval-rst}")  # what the generator of the site reads
END_OF_BLOCK = "----- end of block -----"
PROGRAM = f"""
import json, sys
names = {{"__name__": "__main__"}}
for line, code in json.load(sys.stdin):
    exec(compile("\\n" * line + code, sys.argv[1], "exec"), names)
    print({END_OF_BLOCK!r}, flush=True)
"""


@dataclass
class Block:
    """A fenced block of a page."""

    language: str  # what stands behind the fence
    text: str
    line: int  # of the fence, from 1


def fences(text: str) -> list[Token]:
    """The fenced blocks of Markdown text."""
    return [token for token in MarkdownIt().parse(text) if token.type == "fence"]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, without their indentation."""
    return [Block(token.info, token.content, token.map[0] + 1) for token in fences(page.read_text())]


def without_fences(text: str) -> str:
    """Markdown text whose fenced blocks are empty lines."""
    lines = text.splitlines()
    for first, end in (fence.map for fence in fences(text)):
        lines[first:end] = [""] * (end - first)
    return "\n".join(lines)


def tool(name: str) -> Path:
    """A command-line program of the build."""
    return ROOT / "build" / os.environ.get("POPART_PRESET", "dev") / "bin" / name


def run_python(page: Path, folder: Path) -> list[str]:
    """What each Python block of a page prints; the page runs in a folder, must not fail and must not warn.

    A block whose first line is `# name.py` is written to that file, for other blocks to import. Errors that a page
    catches are logged, as the reference has it.
    """
    programs = []
    for block in blocks(page):
        if block.language == "python" and (name := FILE.match(block.text)):
            (folder / name[1]).write_text(block.text)
            programs.append((block.line, ""))
        elif block.language == "python":
            programs.append((block.line, block.text))
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(page.relative_to(ROOT))],
        input=json.dumps(programs),
        capture_output=True,
        text=True,
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith(("POPART_", "POPXL_"))},
    )
    assert result.returncode == 0, result.stderr
    catches = any("except " in text for _, text in programs)
    error = re.compile(r"\S+Z popart:\w+ [\d.]+ E: ")
    assert not [line for line in result.stderr.splitlines() if not (catches and error.match(line))], result.stderr
    return result.stdout.split(END_OF_BLOCK + "\n")[:-1]


def same_number(printed: str, shown: str) -> bool:
    """Equal, or, if it has digits behind the point, within two units of the last one that the page shows."""
    if not re.search(r"[.e]", shown):
        return printed == shown
    digits = len(re.sub(r"e.*", "", shown).partition(".")[2])
    exponent = int(shown.partition("e")[2] or 0)
    return abs(float(printed) - float(shown)) <= 2.001 * 10.0 ** (exponent - digits)


def same_line(printed: str, shown: str) -> bool:
    """Equal words and like numbers; `...` stands for any text."""
    spaces = [re.sub(r" +", " ", line).strip() for line in (printed, shown)]
    pattern = "(.*?)".join(re.escape(NUMBER.sub("0", part)) for part in spaces[1].split("..."))
    if "..." in shown:
        return bool(re.fullmatch(pattern, NUMBER.sub("0", spaces[0])))
    if NUMBER.sub("0", spaces[0]) != NUMBER.sub("0", spaces[1]):
        return False
    return all(same_number(*pair) for pair in zip(*(NUMBER.findall(line) for line in spaces), strict=True))


def same_text(printed: list[str], shown: list[str]) -> bool:
    """Same lines; a line `...` stands for any number of them."""
    if not shown:
        return not printed
    if shown[0].strip() == "...":
        return any(same_text(printed[start:], shown[1:]) for start in range(len(printed) + 1))
    return bool(printed) and same_line(printed[0], shown[0]) and same_text(printed[1:], shown[1:])


def check_outputs(page: Path, printed: list[str]) -> None:
    """Compare each block `output` with what the Python block in front of it printed; one that prints must have it."""
    parts = iter(printed)
    found = blocks(page)
    for block, after in zip(found, [*found[1:], Block("", "", 0)], strict=True):
        if block.language == "output":
            continue
        text = next(parts) if block.language == "python" else ""
        shown = after.text if after.language == "output" else ""
        place = f"{page.relative_to(ROOT)}:{block.line}"
        assert same_text(text.splitlines(), shown.splitlines()), f"{place} printed:\n{text}\nand not:\n{shown}"


def command_lines(block: Block) -> list[list[str]]:
    """The commands of a shell block as words."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def options(words: list[str]) -> list[str]:
    """Options among the words of a command."""
    return [word.split("=")[0] for word in words if word.startswith("-")]


def check_command(place: str, words: list[str], folder: Path) -> None:
    """A command exists and has the options named; popart-opt runs if the file that it reads is there."""
    while re.match(r"\w+=", words[0]):
        name = words.pop(0).split("=")[0]
        assert f"`{name}`" in (DOCS / "environment.md").read_text(), f"{place}: no variable {name}"
    if words[0] in SYSTEM:
        return
    assert words[0] == "./dev" or words[0] in {*TOOLS, *PYTHON_TOOLS}, f"{place}: what is {words[0]}?"
    command = [ROOT / "dev", words[1]] if words[0] == "./dev" else [tool(words[0])]
    if words[0] in PYTHON_TOOLS:
        command = [sys.executable, "-m", PYTHON_TOOLS[words[0]]]
    if words[0] == "popart" and words[1:] and not words[1].startswith("-"):
        command.append(words[1])  # a command behind the front door has options of its own
    listing = subprocess.run([*command, "--help"], capture_output=True, text=True)
    assert listing.returncode == 0, f"{place}: {listing.stderr}"
    assert [name for name in options(words) if name not in listing.stdout] == [], place
    if words[0] == "popart-opt" and (folder / words[1]).is_file():
        result = subprocess.run([tool(words[0]), *words[1:]], capture_output=True, text=True, cwd=folder)
        assert result.returncode == 0, f"{place}: {result.stderr}"


def build_cpp(page: Path, folder: Path) -> None:
    """Write the C++ blocks of a page to the files that their first lines name, and run its compiler's commands."""
    sources = [block for block in blocks(page) if block.language == "cpp"]
    for block in sources:
        name = re.match(r"// (\w+\.cpp)\n", block.text)
        assert name, f"{page.relative_to(ROOT)}:{block.line}: the first line does not name a file"
        (folder / name[1]).write_text(block.text)
    if not sources:
        return
    prefix = folder / "prefix"
    prefix.mkdir()
    (prefix / "include").symlink_to(ROOT / "include")
    (prefix / "lib").symlink_to(library_folder())
    for block in blocks(page):
        if block.language == "sh" and block.text.startswith("g++ "):
            words = ["bash", "-e", "-c", block.text]
            subprocess.run(words, cwd=folder, env={**os.environ, "PREFIX": str(prefix)}, check=True)


def library_folder() -> Path:
    """Folder of the libpopart.so that Python uses."""
    import popart_core  # noqa: F401 (it maps the library)

    (path,) = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libpopart.so" in line}
    return Path(path).parent


def check_page(page: Path, folder: Path) -> None:
    """Run a page: C++ is compiled, Python blocks run as one program, commands are looked up; no other blocks."""
    known = ("python", "output", "sh", "cpp", *DIRECTIVES)
    for block in blocks(page):
        assert block.language in known, f"{page.relative_to(ROOT)}:{block.line}: no rule for ```{block.language}"
    build_cpp(page, folder)
    check_outputs(page, run_python(page, folder))
    for block in blocks(page):
        if block.language == "sh":
            for words in command_lines(block):
                check_command(f"{page.relative_to(ROOT)}:{block.line}", words, folder)

"""Options of poprun: from the command line and from files, and what is refused."""

import json
import os

import popart
import pytest
from popart.tools.versions import version_text
from popdist.poprun.main import run
from popdist.poprun.options import OPTIONS, UsageError, parse, write_file

# A value other than the default of each option, how it is written, and a text that it cannot have.
VALUES = {
    "version-format": ("full-json", "full-json", "xml"),
    "import-config": None,  # tested below
    "export-config": ("a.json", "a.json", None),
    "overwrite-config": (True, "yes", "maybe"),
    "host": ("a,b", "a,b", None),
    "hostfile": ("hosts", "hosts", None),
    "num-replicas": (8, "8", "0"),
    "num-instances": (4, "4", "-1"),
    "ipus-per-replica": (2, "2", "two"),
    "num-ilds": (2, "2", "1.0"),
    "executable-cache-path": ("cache", "cache", None),
    "mpi-global-args": (["--mca", "a", "b c"], "--mca a 'b c'", "'"),
    "mpi-local-args": (["-x", "A=1"], "-x A=1", '"'),
    "host-subnet": ("192.0.2.0/24", "192.0.2.0/24", None),
    "allow-run-as-root": (True, "1", "2"),
    "numa-aware": (True, "true", "on"),
    "print-topology": (True, "YES", ""),
    "only-output-from-instance": (0, "0", "+1"),
    "max-restarts": (3, "3", "1_0"),
    "offline-mode": (True, "1", "python"),
    "vipu-server-host": ("server", "server", None),
    "vipu-server-port": (8091, "8091", "http"),
    "vipu-server-timeout": (60, "60", "1s"),
    "vipu-partition": ("p", "p", None),
    "vipu-partition-attempts": (2, "2", "0"),
    "update-partition": (True, "yes", "ye"),
    "reset-partition": (True, "yes", "y"),
    "remove-partition": (False, "no", "n"),
    "vipu-allocation": ("a", "a", None),
    "vipu-cluster": ("c", "c", None),
}


def test_every_option_is_tested():
    assert list(VALUES) == [option.name for option in OPTIONS]


@pytest.mark.parametrize("option", [option for option in OPTIONS if VALUES[option.name]], ids=lambda o: o.name)
def test_an_option_is_read(option):
    value, text, bad = VALUES[option.name]
    assert value != option.default
    for words in ([f"--{option.name}={text}"], [f"--{option.name}", text]):
        line = parse([*words, "program"])
        assert getattr(line.options, option.key) == value
        assert line.given == (option,) and line.program == ("program",)
        assert all(getattr(line.options, other.key) == other.default for other in OPTIONS if other is not option)
    if bad is not None:
        with pytest.raises(UsageError, match=f"--{option.name}: got '"):
            parse([f"--{option.name}={bad}", "program"])


@pytest.mark.parametrize("yes, no", [("yes", "no"), ("1", "0"), ("true", "false"), ("True", "NO")])
def test_switches_have_several_words(yes, no):
    options = parse(["--numa-aware", yes, f"--remove-partition={no}"]).options
    assert options.numa_aware and not options.remove_partition


def test_options_end_at_the_first_word_that_is_none():
    line = parse(
        ["-H", "a,b", "-v", "--num-instances", "2", "python", "train.py", "--num-instances", "3", "--bad", "--"]
    )
    assert (line.options.host, line.options.num_instances, line.verbosity) == ("a,b", 2, 1)
    assert line.program == ("python", "train.py", "--num-instances", "3", "--bad", "--")
    assert parse(["-v", "--", "--odd-name", "x"]).program == ("--odd-name", "x")


def test_values_may_begin_with_dashes():
    line = parse(["--mpi-global-args", "--tag-output", "--mpi-local-args", "-x", "--mpi-local-args=-x A", "p"])
    assert line.options.mpi_global_args == ["--tag-output"]
    assert line.options.mpi_local_args == ["-x", "-x", "A"]


@pytest.mark.parametrize(
    "words, level", [([], 0), (["-v"], 1), (["--verbose"], 1), (["-vv"], 2), (["--vv"], 2), (["-v", "-v"], 2)]
)
def test_verbosity(words, level):
    assert parse([*words, "p"]).verbosity == level


@pytest.mark.parametrize(
    "words, text",
    [
        (["--num-instnces=2", "p"], "there is no option '--num-instnces'. Nearest names: --num-instances"),
        (["--num-inst", "2", "p"], "there is no option '--num-inst'"),
        (["-x", "A", "p"], "there is no option '-x'"),
        (["--num-replicas"], "--num-replicas: the value is missing, expected N"),
        (["--numa-aware", "python", "x.py"], "--numa-aware: got 'python', expected yes or no (or 1, 0, true, false)"),
        ([], "the program is missing, expected poprun [options] program [arguments]"),
        (["--only-output-from-instance=2", "--num-instances=2", "--num-replicas=2", "sh"], "got 2, expected a number"),
        (["no-such-program"], "there is no program 'no-such-program'"),
    ],
)  # fmt: skip
def test_what_cannot_be_started_is_one_line_and_exit_code_2(capfd, words, text):
    assert run(words) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("poprun: ") and text in err and err.count("\n") == 1


def test_help_and_version(capfd, monkeypatch):
    with pytest.raises(SystemExit) as ended:
        run(["--help"])
    assert ended.value.code == 0
    text = capfd.readouterr().out
    assert [option.name for option in OPTIONS if f"--{option.name} " not in text] == []
    assert run(["--version"]) == 0
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("sys.prefix", "/nowhere")
    assert run(["--version-format=full-json", "--version"]) == run(["--version", "--version-format", "full-text"]) == 0
    short, full, *lines = capfd.readouterr().out.splitlines()
    versions = json.loads(full)
    assert short == version_text("poprun") and f" {versions['poprun']} " in short
    assert lines[:3] == [f"poprun {versions['poprun']}", f"PopART {popart.__version__}", "Open MPI not found"]
    assert versions["Open MPI"] is None and lines[3].startswith("Python 3.")


# ---- files of options


def test_options_that_were_written_are_read(tmp_path):
    file = tmp_path / "options.json"
    words = [f"--{name}={row[1]}" for name, row in VALUES.items() if row and "config" not in name]
    first = parse([*words, f"--export-config={file}", "p"])
    write_file(first)
    second = parse([f"--import-config={file}", "p"])
    names = [option.key for option in OPTIONS if "config" not in option.name and option.name != "version-format"]
    assert [name for name in names if getattr(first.options, name) != getattr(second.options, name)] == []


def test_the_command_line_comes_before_the_file(tmp_path):
    file = tmp_path / "options.json"
    file.write_text(json.dumps({"num-replicas": 8, "num-instances": "4", "numa-aware": True, "mpi-local-args": "-x A"}))
    options = parse([f"--import-config={file}", "--num-instances=2", "p"]).options
    assert (options.num_replicas, options.num_instances, options.numa_aware) == (8, 2, True)
    assert options.mpi_local_args == ["-x", "A"]


def test_an_existing_file_is_not_replaced_unless_asked(tmp_path, capfd):
    file = tmp_path / "options.json"
    assert run([f"--export-config={file}", "--num-replicas=2"]) == 0
    assert json.loads(file.read_text()) == {"num-replicas": 2}
    assert run([f"--export-config={file}", "--num-replicas=4"]) == 2
    assert f"--export-config: file '{file}' is there. Add --overwrite-config=yes" in capfd.readouterr().err
    assert json.loads(file.read_text()) == {"num-replicas": 2}
    assert run([f"--export-config={file}", "--overwrite-config=1", "--num-replicas=4"]) == 0
    assert json.loads(file.read_text()) == {"num-replicas": 4}
    assert run([f"--export-config={tmp_path / 'none' / 'x'}"]) == 2
    assert "cannot be written" in capfd.readouterr().err


@pytest.mark.parametrize(
    "content, text",
    [
        (None, "cannot be read"),
        ("{", "cannot be read"),
        ("[1]", "got a list in"),
        ('{"num-replica": 2}', "has no option that is called 'num-replica'. Nearest names: num-replicas"),
        ('{"export-config": "x"}', "has no option that is called 'export-config'"),
        ('{"num-replicas": 1.5}', "num-replicas in '{file}': got 1.5, expected a text, number or boolean"),
        ('{"num-replicas": "many"}', "num-replicas in '{file}': got 'many', expected a whole number of 1 or more"),
        ('{"mpi-local-args": [1]}', "mpi-local-args in '{file}': got [1], expected"),
    ],
)
def test_bad_files_are_refused(tmp_path, content, text):
    file = tmp_path / "options.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UsageError) as refused:
        parse([f"--import-config={file}", "p"])
    assert text.replace("{file}", str(file)) in str(refused.value) and os.linesep not in str(refused.value)

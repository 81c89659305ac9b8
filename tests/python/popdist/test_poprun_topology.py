"""How poprun divides replicas and instances, and the table that shows it."""

import pytest
from popdist.poprun.options import UsageError, parse
from popdist.poprun.topology import divide, expand_hosts, read_hosts, table


def topology(*words):
    return divide(parse(list(words)).options)


@pytest.mark.parametrize(
    "text, names",
    [
        ("a", "a"),
        ("a,b.example.org", "a b.example.org"),
        ("node[0-2,4]", "node0 node1 node2 node4"),
        ("n[08-11],m", "n08 n09 n10 n11 m"),
        ("r[1-2]-n[0,2]", "r1-n0 r1-n2 r2-n0 r2-n2"),
        ("192.0.2.1", "192.0.2.1"),
    ],
)
def test_lists_of_hosts(text, names):
    assert expand_hosts(text) == tuple(names.split())


@pytest.mark.parametrize(
    "text, words",
    [
        ("a,,b", "got '' in 'a,,b'"),
        ("a b", "got 'a b'"),
        ("a:2", "got 'a:2'"),
        ("-x", "got '-x'"),
        ("n[2-1]", "got '[2-1]'"),
        ("n[a]", "got '[a]'"),
        ("n[]", "got '[]'"),
        ("n[0-2", "in 'n[0-2'"),
        ("a,b,a", "got host 'a' twice"),
        ("n[0-1],n1", "got host 'n1' twice"),
        ("n[0-99999999]", "more than 65536 hosts"),
        ("n[0-999][0-999]", "more than 65536 hosts"),
    ],
)
def test_bad_lists_are_refused(text, words):
    with pytest.raises(UsageError) as refused:
        expand_hosts(text)
    assert words in str(refused.value)


def test_files_of_hosts(tmp_path):
    file = tmp_path / "hosts"
    file.write_text("# two machines\nb\n\n  a  # the second\n")
    assert read_hosts(str(file)) == ("b", "a")
    made = topology(f"--hostfile={file}", "--num-instances=2", "--num-replicas=2")
    assert made.hosts == ("b", "a")
    for content, words in {"a slots=2": "got 'a slots=2' on line 1", "#": "got no host", "a\na": "'a' twice"}.items():
        file.write_text(content)
        with pytest.raises(UsageError, match=words):
            read_hosts(str(file))
    with pytest.raises(UsageError, match=r"--hostfile: file '.*' cannot be read"):
        read_hosts(str(tmp_path / "none"))
    with pytest.raises(UsageError, match="--host, --hostfile: got both"):
        topology("--host=a", f"--hostfile={file}")


def test_everything_is_divided_evenly_and_in_order():
    made = topology("--host=a,b", "--num-instances=4", "--num-replicas=12")
    rows = [(i.index, i.host, i.local_index, i.first_replica, i.num_replicas) for i in made.instances]
    assert rows == [(0, "a", 0, 0, 3), (1, "a", 1, 3, 3), (2, "b", 0, 6, 3), (3, "b", 1, 9, 3)]
    assert made.num_replicas == 12
    assert str(made.instances[2]) == "instance 2 (host b, replicas 6 to 8)"
    assert str(topology().instances[0]) == "instance 0 (host localhost, replica 0)"


@pytest.mark.parametrize(
    "words, text",
    [
        (["--num-instances=2"], "--num-replicas: got 1, expected a multiple of --num-instances, which is 2"),
        (["--num-instances=2", "--num-replicas=5"], "--num-replicas: got 5, expected a multiple"),
        (["--host=a,b,c", "--num-instances=2", "--num-replicas=2"], "got 2, expected a multiple of the hosts, which"),
        (["--num-ilds=2"], "--num-ilds: got 2, expected a divisor of --num-instances, which is 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_divided_is_refused(words, text):
    with pytest.raises(UsageError) as refused:
        topology(*words)
    assert text in str(refused.value)


def test_the_table():
    expected = """
 ===========================
|      poprun topology      |
|===========================|
| hosts     |   localhost   |
|-----------|---------------|
| ILDs      |       0       |
|-----------|---------------|
| instances |   0   |   1   |
|-----------|---------------|
| replicas  | 0 | 1 | 2 | 3 |
 ---------------------------"""
    assert table(topology("--num-replicas=4", "--num-instances=2")) == expected.removeprefix("\n")


def test_cells_are_as_wide_as_the_widest_number():
    lines = table(topology("--host=a,b", "--num-instances=4", "--num-replicas=12", "--num-ilds=2")).splitlines()
    assert len({len(line.rstrip()) for line in lines if line.startswith("|")}) == 1
    assert lines[-2] == "| replicas  | 0  | 1  | 2  | 3  | 4  | 5  | 6  | 7  | 8  | 9  | 10 | 11 |"
    for line, names in (lines[3], ["a", "b"]), (lines[5], ["0", "1"]), (lines[7], ["0", "1", "2", "3"]):
        cells = line.strip("|").split("|")[1:]
        assert [cell.strip() for cell in cells] == names
        assert len({len(cell) for cell in cells}) == 1
        assert all(len(cell) - len(cell.lstrip()) - (len(cell) - len(cell.rstrip())) in (-1, 0) for cell in cells)


def test_names_that_do_not_fit_stand_below():
    lines = table(topology("--host=a,much-longer,b", "--num-instances=3", "--num-replicas=3")).splitlines()
    assert lines[3] == "| hosts     | a |[1]| b |"
    assert lines[-2:] == [f" {'-' * 23}", " [1] much-longer"]
    one = table(topology()).splitlines()
    assert one[1] == "|poprun topology|" and one[3] == "| hosts     |[0]|" and one[-1] == " [0] localhost"

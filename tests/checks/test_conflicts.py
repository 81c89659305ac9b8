"""The check of merges names the lines that one has left, in files of any kind."""

import subprocess

from tools.checks.conflicts import marks


def test_marks_are_named_by_file_and_number(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "page.md").write_text(
        "# Page\n" + "<" * 7 + " HEAD\none\n" + "=" * 7 + "\nother\n" + ">" * 7 + " 1234\n"
    )
    (tmp_path / "title.md").write_text("A title\n=======\n\n<<<<<< six\n")
    assert [line.split(": error")[0] for line in marks(tmp_path)] == [
        "page.md:2:" + "<" * 7 + " HEAD",
        "page.md:6:" + ">" * 7 + " 1234",
    ]

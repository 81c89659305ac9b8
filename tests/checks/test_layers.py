"""The include-layer check accepts downward includes and names every other kind."""

import pytest

from tools.checks.layers import check_file, check_public_headers, check_readmes


@pytest.mark.parametrize(
    ("name", "include"),
    [
        ("src/ir/graph.cpp", "base/check.hpp"),
        ("src/pipeline/prepare.cpp", "base/check.hpp"),
        ("src/lower/lower.cpp", "executable/kernel.hpp"),
        ("src/backends/cpu/gemm.cpp", "hwy/highway.h"),
        ("src/api/session.cpp", "runtime/engine.hpp"),
        ("include/popart/op.hpp", "popart/names.hpp"),
        ("src/transforms/add_optimizer.cpp", "popart/updaterule.hpp"),
        ("src/api/session.cpp", "popart/optimizer.hpp"),
    ],
)
def test_downward_include_is_accepted(name, include):
    assert check_file(name, f'#include "{include}"\n') == []


@pytest.mark.parametrize(
    ("name", "include"),
    [
        ("src/base/check.cpp", "ir/graph.hpp"),
        ("src/ir/graph.cpp", "api/session.hpp"),
        ("src/runtime/engine.cpp", "ops/rules.hpp"),
        ("src/transforms/add_optimizer.cpp", "popart/optimizer.hpp"),
        ("src/base/half.cpp", "popart/op.hpp"),
        ("src/backends/cpu/gemm.cpp", "backends/ref/nn.hpp"),
        ("src/ir/graph.cpp", "onnx_proto/onnx.pb.h"),
        ("src/onnx/reader.hpp", "onnx_proto/onnx.pb.h"),
        ("include/popart/op.hpp", "ir/graph.hpp"),
        ("include/popart/op.hpp", "fmt/format.h"),
        ("include/popart/op.hpp", "popart/session.hpp"),
    ],
)
def test_other_include_is_named(name, include):
    problems = check_file(name, f"#  include <{include}>\n")
    assert len(problems) == 1
    assert include in problems[0]


def test_public_header_that_is_gone_is_named(tmp_path):
    assert any(
        problem.startswith("include/popart/graph.hpp: PUBLIC_HEADERS") for problem in check_public_headers(tmp_path)
    )


def test_file_outside_all_rooms_is_named():
    assert "is in no room" in check_file("src/misc/odd.cpp", "")[0]


def test_room_without_a_short_readme_is_named(tmp_path):
    for room, lines in (("ir", 30), ("ops", 31), ("lower", 0)):
        (tmp_path / "src" / room).mkdir(parents=True)
        (tmp_path / "src" / room / "room.cpp").touch()
        if lines:
            (tmp_path / "src" / room / "README.md").write_text("line\n" * lines)
    problems = check_readmes(tmp_path)
    assert [problem.split(":")[0] for problem in problems] == ["src/ops/README.md", "src/lower"]

// Structural equality and hash see what a program computes and where, and not how things are called; drawing and JSON.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "program.hpp"

namespace popart {
namespace {

constexpr const char *kProgram = R"ir(main {
  input %x : float32[2, 2]
  const %c : float32[] = 0.5
  variable %w : float32[2, 2] = [1, 2, 3, 4]
  %y = MatMul(%x, %w) <name = "a">
  %z = Call(%y, %c) {callee = @f}
  return %z
}
graph @f {
  input %a : float32[2, 2]
  input %b : float32[]
  %d = Mul(%a, %b)
  return %d
}
)ir";

std::unique_ptr<Ir> changed(std::string_view from, const std::string &to) {
  std::string text = kProgram;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return parseIr(text.replace(at, from.size(), to));
}

void expectDifferent(std::string_view from, const std::string &to) {
  const auto a = parseIr(kProgram), b = changed(from, to);
  EXPECT_FALSE(structurallyEqual(*a, *b)) << from << " -> " << to;
  EXPECT_FALSE(structurallyEqual(a->getMainGraph(), b->getMainGraph())) << from << " -> " << to;
  EXPECT_NE(hash(*a), hash(*b)) << from << " -> " << to;
}

TEST(StructuralEquality, names_do_not_count) {
  const auto a = parseIr(kProgram);
  const auto b = parseIr(
      "graph @another {\n  input %p : float32[2, 2]\n  input %q : float32[]\n  %r = Mul(%p, %q)\n  return %r\n}\n"
      "main {\n  variable %k : float32[2, 2] = [1, 2, 3, 4]\n  const %l : float32[] = 0.5\n  input %m : float32[2, 2]\n"
      "  %n = MatMul(%m, %k) <name = \"b\", scope = \"s\">\n  %o = Call(%n, %l) {callee = @another}\n  return %o\n}\n");
  EXPECT_TRUE(structurallyEqual(*a, *b));
  EXPECT_TRUE(structurallyEqual(a->getMainGraph(), b->getMainGraph()));
  EXPECT_EQ(hash(*a), hash(*b));
}

TEST(StructuralEquality, everything_else_counts) {
  expectDifferent("MatMul(%x, %w)", "MatMul(%w, %x)");
  expectDifferent("name = \"a\"", "vgraph = 1");
  expectDifferent("Mul(%a, %b)", "Add(%a, %b)");
  expectDifferent("= 0.5", "= 0.25");
  expectDifferent("return %z", "return %y");
  expectDifferent("input %x : float32[2, 2]", "stream %x : float32[2, 2]");
  expectDifferent("%z = Call", "%u = Neg(%y)\n  %z = Call");
  expectDifferent("%w : float32[2, 2]", "%w : float32[2, 2] <optimizer_state = 1>");
}

TEST(StructuralEquality, initial_values_of_variables_count_for_equality_but_not_for_the_hash) {
  const auto a = parseIr(kProgram), b = changed("[1, 2, 3, 4]", "[1, 2, 3, 5]");
  EXPECT_FALSE(structurallyEqual(*a, *b));
  EXPECT_EQ(hash(*a), hash(*b));
}

TEST(StructuralEquality, uncalled_graphs_count) {
  const auto a = parseIr(kProgram), b = parseIr(std::string(kProgram) + "graph @g {\n}\n");
  EXPECT_FALSE(structurallyEqual(*a, *b));
}

TEST(StructuralEquality, a_clone_is_equal) {
  const auto a = parseIr(test::kProgram);
  EXPECT_TRUE(structurallyEqual(*a, *a->clone()));
}

TEST(Dot, draws_every_op_leaf_and_edge) {
  const std::string dot = toDot(parseIr(kProgram)->getMainGraph());
  for (const char *part :
       {"digraph \"main\"", "MatMul.", "\\na\"", "x\\nfloat32[2, 2]", "float32[]", "style=bold", " -> "})
    EXPECT_NE(dot.find(part), std::string::npos) << part << "\n" << dot;
}

TEST(Json, has_a_key_per_graph_and_strings_as_leaves) {
  const auto json = nlohmann::json::parse(serialiseJson(*parseIr(kProgram)));
  ASSERT_TRUE(json.contains("maingraph") && json.contains("f"));
  const auto &matmul = json["maingraph"][0];
  EXPECT_EQ(matmul["type"], "MatMul");
  EXPECT_EQ(matmul["name"], "a");
  EXPECT_EQ(matmul["inputs"][1],
            (nlohmann::json{{"name", "w"}, {"shape", "[2 2]"}, {"type", "FLOAT"}, {"index", "1"}}));
  EXPECT_EQ(matmul["outputs"][0], (nlohmann::json{{"name", "y"}, {"index", "0"}}));
  EXPECT_EQ(json["maingraph"][1]["attributes"]["callee"], "f");
  EXPECT_EQ(json["maingraph"][1]["attributes"]["modified"], "[]");
}

}  // namespace
}  // namespace popart

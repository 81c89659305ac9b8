// The words of the IR text form: names, quoted strings, tensor values, attribute lists; written here, read by
// parse.cpp.
//
//   main {
//     input %x : float32[2, 3]
//     const %c : float32[] = 0.5
//     variable %w : float32[3, 2] <optimizer_state = 1> = [1, 2, 3, 4, 5, 6]
//     %y : float32[2, 2] = MatMul(%x, %w) <name = "fc/MatMul", vgraph = 0>
//     %v : float32[2, 1], %i : int64[2, 1] = TopK(%y) {axis = -1, k = 1, largest = 1, sorted = 1}
//     #1 %z : float32[2, 2] = Call(%y, _, %c) {callee = @"f_subgraph(0)", modified = []}
//     #2 HostStore(%z) {stream = "z"}
//     order #1, #2
//     return %z
//   }
//
// Words: `_` absent operand; % tensor, @ graph, # label of an op (only where `order` needs one); names of other
// characters than letters, digits and _./:- are quoted. Attribute values: 1 Int, 0.5f Float, "s" String, [1, 2] Ints,
// f[0.5] Floats, s["a"] Strings, tensor int64[1] = 5 Tensor, @g Graph. {…} attributes, <…> settings or tensor facts.
// Values: one number (all elements are equal), a list in C order, or hex "…" (bytes of more than 64 elements). NaN is
// written with its bits. Comments run from // to the end of the line. Ops are in program order.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <popart/ir.hpp>

namespace popart {

// Numbers to print instead of hashes of values, by first byte and size; the values are then not read.
using ValueNumbers = std::map<std::pair<const void *, int64_t>, uint64_t>;

// '%' or '@' followed by the name, quoted when it has unusual characters.
std::string nameText(char sigil, std::string_view name);
std::string quotedText(std::string_view text);
// Characters of words and names that need no quotes. "//" is never part of a name: it starts a comment.
constexpr bool isPlainCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}
constexpr bool isWordCharacter(char c) { return isPlainCharacter(c) || c == '+'; }
constexpr bool isNameCharacter(char c) { return isPlainCharacter(c) || c == '/' || c == ':'; }
bool isPlainName(std::string_view name);
bool isPlainWord(std::string_view word);

// "float32[2, 3]", with " of [4, 3]" when the info has a meta shape.
std::string infoText(const TensorInfo &info);
std::string valuesText(const TensorData &data, PrintData print, const ValueNumbers *numbers = nullptr);
// "a = 1, b = f[0.5]"; empty for an empty list.
std::string attributesText(const Attributes &attributes, PrintData print);
std::string attributeText(const AttributeValue &value, PrintData print);
std::string floatText(float value);

// ---- programs whose values are stored separately, by content
// The number after the word `hash` in a summary.
uint64_t contentHash(const TensorData &data);
using ValueTable = std::map<uint64_t, TensorData>;
// print(ir, PrintData::Summary); adds the values that it shows by hash to `table`. `variables` false: variables
// are printed without initial values.
std::string printWithTable(const Ir &ir, ValueTable &table, bool variables = true,
                           const ValueNumbers *numbers = nullptr);
// The bytes of a hash as values of `info`. Throws popart::error when they are not there or do not fit.
using FindValues = std::function<TensorData(uint64_t hash, const TensorInfo &info)>;
// Reads such a text. Throws as parseIr, and what `find` throws, with the line.
std::unique_ptr<Ir> parseWithTable(std::string_view text, const FindValues &find);

}  // namespace popart

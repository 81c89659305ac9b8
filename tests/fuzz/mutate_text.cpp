// See mutate_text.hpp. A mutation picks one of the places where the text has what it changes; without one it does
// nothing.
#include "mutate_text.hpp"

#include <regex>
#include <vector>

#include <popart/opdef.hpp>

namespace popart::fuzz {
namespace {

struct Place {
  size_t at, length;
};

// Where group 1 of `pattern` matches.
std::vector<Place> places(const std::string &text, const char *pattern) {
  const std::regex expression(pattern);
  std::vector<Place> found;
  for (std::sregex_iterator it(text.begin(), text.end(), expression), end; it != end; ++it)
    found.push_back({static_cast<size_t>(it->position(1)), static_cast<size_t>(it->length(1))});
  return found;
}

template <class T>
const T &anyOf(const std::vector<T> &list, Random &random) {
  return list[static_cast<size_t>(below(random, static_cast<int64_t>(list.size())))];
}

constexpr const char *kNumber = "[\\[ ](-?[0-9]+)(?=[,\\]}])";

void changeNumber(std::string &text, Random &random) {
  const auto numbers = places(text, kNumber);
  if (numbers.empty()) return;
  const Place p = anyOf(numbers, random);
  const std::string old = text.substr(p.at, p.length);
  const int64_t value = old.size() < 10 ? std::stoll(old) : 0;
  const std::vector<std::string> others = {std::to_string(value + 1),
                                           std::to_string(value - 1),
                                           std::to_string(2 * value),
                                           std::to_string(below(random, 9) - 2),
                                           "0",
                                           "-1",
                                           "100",
                                           "1099511627776",
                                           "9223372036854775807",
                                           "-9223372036854775808"};
  text.replace(p.at, p.length, anyOf(others, random));
}

void changeList(std::string &text, Random &random) {
  const auto numbers = places(text, kNumber);
  if (numbers.empty()) return;
  const Place p = anyOf(numbers, random);
  if (below(random, 2)) return void(text.insert(p.at, std::to_string(below(random, 5)) + ", "));
  const bool more = text.compare(p.at + p.length, 2, ", ") == 0;
  text.erase(p.at, p.length + (more ? 2 : 0));
}

void changeOperand(std::string &text, Random &random) {
  const auto names = places(text, "(%[^ ,()]+)");
  if (names.empty()) return;
  const Place p = anyOf(names, random), q = anyOf(names, random);
  text.replace(p.at, p.length, text.substr(q.at, q.length));
}

void changeOperator(std::string &text, Random &random) {
  const auto words = places(text, "= ([A-Za-z0-9]+)\\(");
  if (words.empty()) return;
  const Place p = anyOf(words, random);
  // Another of the text, so that attributes fit now and then, or any.
  const Place q = anyOf(words, random);
  const std::string other = below(random, 2) ? text.substr(q.at, q.length) : anyOf(allOpDefs(), random)->type();
  text.replace(p.at, p.length, other);
}

void changeType(std::string &text, Random &random) {
  const auto types = places(text, "(float32|int64|bool|uint32|float64)\\[");
  if (types.empty()) return;
  static const std::vector<std::string> kTypes = {"float32", "float16", "bfloat16", "float64", "int64",
                                                  "int32",   "uint8",   "uint32",   "bool"};
  const Place p = anyOf(types, random);
  text.replace(p.at, p.length, anyOf(kTypes, random));
}

void changeLine(std::string &text, Random &random) {
  const auto lines = places(text, "(  [^\n]*\n)");
  if (lines.empty()) return;
  const Place p = anyOf(lines, random), q = anyOf(lines, random);
  const std::string line = text.substr(p.at, p.length);
  if (below(random, 2)) return void(text.insert(q.at, line));
  text.erase(p.at, p.length);
}

}  // namespace

std::string damagedText(std::string text, Random &random) {
  using Change = void (*)(std::string &, Random &);
  // Numbers and operands most often: the rest is mostly refused by the parser.
  static const std::vector<Change> kChanges = {changeNumber, changeNumber, changeNumber,   changeNumber,
                                               changeList,   changeList,   changeOperand,  changeOperand,
                                               changeType,   changeType,   changeOperator, changeLine};
  for (int64_t n = 1 + below(random, 3); n > 0; --n) anyOf(kChanges, random)(text, random);
  return text;
}

}  // namespace popart::fuzz

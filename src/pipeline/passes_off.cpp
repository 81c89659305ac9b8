// See passes_off.hpp.
#include "pipeline/passes_off.hpp"

#include <algorithm>
#include <sstream>

#include <popart/error.hpp>

#include "base/environment.hpp"
#include "base/nearest.hpp"
#include "pipeline/passes.hpp"

namespace popart::pipeline {
namespace {

std::string trimmed(const std::string &text) {
  constexpr const char *kBlanks = " \t\n";
  const size_t first = text.find_first_not_of(kBlanks);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

void checkPass(const std::string &name, const std::vector<Pass> &passes, const std::string &what) {
  const auto found = std::ranges::find(passes, name, &Pass::name);
  if (found == passes.end()) {
    std::set<std::string> names;
    for (const Pass &pass : passes)
      if (!*pass.needed) names.insert(pass.name);
    throw error("{}: there is no pass '{}'{}. popart-opt --list-passes names all", what, name,
                nearestText(name, {names.begin(), names.end()}));
  }
  check(!*found->needed, "{}: pass '{}' cannot be switched off: {}. Leave it out", what, name, found->needed);
}

}  // namespace

std::set<std::string> passesOff(const std::string &names, const executable::Backend &device, const std::string &what) {
  std::set<std::string> off;
  const std::vector<Pass> passes = passesOf(&device);
  std::istringstream stream(names);
  for (std::string part; std::getline(stream, part, ',');) {
    const std::string name = trimmed(part);
    if (name.empty()) continue;
    checkPass(name, passes, what);
    off.insert(name);
  }
  return off;
}

std::set<std::string> passesOff(const std::map<std::string, std::string> &engineOptions,
                                const executable::Backend &device) {
  if (const auto given = engineOptions.find("disable_passes"); given != engineOptions.end())
    return passesOff(given->second, device, "engineOptions: bad disable_passes");
  const std::optional<std::string> names = environment::disablePasses();
  return names ? passesOff(*names, device, "environment variable POPART_DISABLE_PASSES") : std::set<std::string>();
}

}  // namespace popart::pipeline

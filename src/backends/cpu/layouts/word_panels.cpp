#include "backends/cpu/layouts/word_panels.hpp"

#include "backends/cpu/kernels/pack.hpp"
#include "backends/cpu/layouts/panel_names.hpp"

namespace popart::cpu {
namespace {

const executable::LayoutFamily kWordFamily("words<columns>", [](std::string_view name) {
  return panelsNamed<WordPanels>(name, "words");
});

}  // namespace

const executable::Layout *wordPanels() { return executable::layoutNamed("words" + std::to_string(panelWidth())); }

}  // namespace popart::cpu

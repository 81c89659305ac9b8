#include "backends/cpu/layouts/word_panels.hpp"

#include <charconv>

#include "backends/cpu/kernels/pack.hpp"

namespace popart::cpu {
namespace {

const executable::LayoutFamily kWordFamily("words<columns>",
                                           [](std::string_view text) -> std::unique_ptr<const executable::Layout> {
                                             constexpr std::string_view kWord = "words";
                                             if (!text.starts_with(kWord)) return nullptr;
                                             int32_t panel = 0;
                                             const char *end = text.data() + text.size();
                                             const auto [last, failure] =
                                                 std::from_chars(text.data() + kWord.size(), end, panel);
                                             const bool isNumber = failure == std::errc() && last == end && panel > 0;
                                             return isNumber ? std::make_unique<WordPanels>(panel) : nullptr;
                                           });

}  // namespace

const executable::Layout *wordPanels() { return executable::layoutNamed("words" + std::to_string(panelWidth())); }

}  // namespace popart::cpu

// "Did you mean": the names most similar to a wanted one, for error messages.
#pragma once
#include <string>
#include <vector>

namespace popart {

// The end of a message: ". Nearest names: gelu, elu"; empty if no name is similar to `wanted`. Lists up to `count` of
// the `names`, by edit distance, then alphabetically. Two names are similar if one contains the other, or at most two
// of five letters of the longer one differ (one letter of two). `what`: "names" or what the names denote.
std::string nearestText(const std::string &wanted, std::vector<std::string> names, const std::string &what = "names",
                        size_t count = 3);

}  // namespace popart

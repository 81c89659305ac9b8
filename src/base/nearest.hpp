// "Did you mean": the names most similar to a wanted one, for error messages.
#pragma once
#include <string>
#include <vector>

namespace popart {

// The end of a message: ". Nearest names: gelu, elu"; empty when nothing resembles `wanted`. Up to `count` of the
// `names`, by edit distance, then alphabetically. A name resembles another when one is a part of the other, or at most
// two of five letters of the longer one differ (one letter of two). `what`: "names" or what the names are of.
std::string nearestText(const std::string &wanted, std::vector<std::string> names, const std::string &what = "names",
                        size_t count = 3);

}  // namespace popart

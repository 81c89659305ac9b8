// "Did you mean": the names most similar to a wanted one, for error messages.
#pragma once
#include <string>
#include <vector>

namespace popart {

// Up to `count` of `names`, by edit distance to `wanted`, then alphabetically.
std::vector<std::string> nearest(const std::string &wanted, std::vector<std::string> names, size_t count = 3);

}  // namespace popart

// Small models of the operators of com.microsoft.
#pragma once
#include <vector>

#include "models.hpp"

namespace popart::fuzz {

std::vector<SmallModel> microsoftModels();

}  // namespace popart::fuzz

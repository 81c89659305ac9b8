// The part of smallModels() that is written operator by operator.
#pragma once
#include <vector>

#include "models.hpp"

namespace popart::fuzz {

std::vector<SmallModel> operatorModels();

}  // namespace popart::fuzz

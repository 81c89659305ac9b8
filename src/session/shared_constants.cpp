#include "session/shared_constants.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "base/hash.hpp"

namespace popart::session {
namespace {

// Size and first bytes distinguish most constants; only if they are equal are all bytes compared.
using Front = std::tuple<int64_t, uint64_t>;

Front frontOf(const TensorData &values) {
  constexpr int64_t kFrontBytes = 4096;
  return {values.nbytes(), hashOfBytes(values.data(), static_cast<size_t>(std::min(values.nbytes(), kFrontBytes)))};
}

bool isLarge(const TensorData &values) { return values.nbytes() >= kLargeConstantBytes && !values.isUntouchedZeros(); }

}  // namespace

lower::Program shareConstants(lower::Program program,
                              std::span<const std::shared_ptr<const executable::Executable>> others) {
  if (others.empty()) return program;
  std::multimap<Front, TensorData> known;
  for (const auto &executable : others)
    for (const executable::ConstantSpec &constant : executable->constants)
      if (isLarge(constant.data)) known.emplace(frontOf(constant.data), constant.data);
  std::unique_ptr<Ir> ir = program.ir->clone();
  for (Graph *graph : ir->getAllGraphs())
    for (Tensor *tensor : graph->tensorsOfType(TensorType::Const)) {
      const TensorData own = tensor->tensorData();
      if (!isLarge(own)) continue;
      const auto [first, last] = known.equal_range(frontOf(own));
      for (auto candidate = first; candidate != last; ++candidate) {
        const TensorData &other = candidate->second;
        if (other.info().dataType() != own.info().dataType()) continue;
        if (std::memcmp(other.data(), own.data(), static_cast<size_t>(own.nbytes())) != 0) continue;
        tensor->setTensorData(other.info() == own.info() ? other : other.reshaped(own.info().shape()));
        break;
      }
    }
  program.ir = std::move(ir);
  return program;
}

}  // namespace popart::session

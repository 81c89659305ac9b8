#include "session/first_values.hpp"

#include <sstream>
#include <vector>

#include <popart/error.hpp>
#include <popart/logging.hpp>

#include "base/hash.hpp"

namespace popart::session {
namespace {

// By name: of value, type and shape.
std::map<TensorId, uint64_t> hashesOf(const std::map<TensorId, TensorData> &values) {
  std::map<TensorId, uint64_t> hashes;
  for (const auto &[id, value] : values)
    hashes[id] =
        Hasher().addText(toText(value.info())).addBytes(value.data(), static_cast<size_t>(value.nbytes())).value();
  return hashes;
}

uint64_t hashOf(const std::map<TensorId, uint64_t> &hashes) {
  Hasher all;
  for (const auto &[id, hash] : hashes) all.addText(id).add(hash);
  return all.value();
}

}  // namespace

// Two steps: the hashes of single variables are only told where anything differs.
void compareFirstValues(Job &job, const std::string &session, const std::map<TensorId, TensorData> &values,
                        const std::string &remedy) {
  const std::map<TensorId, uint64_t> hashes = hashesOf(values);
  if (job.findOdd(toText(hashOf(hashes))) < 0) return;
  std::string text;
  for (const auto &[id, hash] : hashes) text += toText(hash) + "\n";
  std::vector<std::istringstream> all;
  for (const std::string &one : job.gather(text)) all.emplace_back(one);
  for (const auto &[id, hash] : hashes) {
    std::vector<std::string> ofVariable(all.size());
    for (size_t p = 0; p < all.size(); ++p) std::getline(all[p], ofVariable[p]);
    if (const int odd = exchange::oddProcess(ofVariable); odd >= 0)
      return logging::session::warn(
          "session '{}': variables begin with other values in {} than in most processes, the first one is '{}'. {}",
          session, job.layout().describe(odd), id, remedy);
  }
}

}  // namespace popart::session

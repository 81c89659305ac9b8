// Transfers of the random seed and the state of stochastic rounding between host and device.
#include <cstring>

#include <popart/error.hpp>
#include <popart/logging.hpp>

#include "api/session_impl.hpp"
#include "lower/stochastic_rounding.hpp"

namespace popart {
namespace {

void requireRngState(const SessionOptions &options, const std::string &session, const char *what) {
  if (!options.enableLoadAndOffloadRNGState)
    throw runtime_error(
        "Session '{}': {}: SessionOptions::enableLoadAndOffloadRNGState is off. Turn it on before the "
        "session is made, or use setRandomSeed and getRandomSeed",
        session, what);
}

}  // namespace

bool Session::Impl::roundsStochastically() const {
  return options.enableStochasticRounding || lower::hasRoundingHints(ir());
}

void Session::Impl::writeRngState() {
  if (const int variable = program.findVariable(lower::kRngState); variable >= 0)
    program.writeVariable(variable, rngState.data());
}

void Session::setRandomSeed(uint64_t seed) {
  Impl &s = *impl_;
  if (!s.prepared.randomSeed && !s.roundsStochastically()) {
    logging::session::warn("session '{}': setRandomSeed has no effect: the program has no random operation", s.name);
    return;
  }
  s.program.requireLoaded("setRandomSeed");
  s.seed = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  s.rngState = s.seed;
  s.writeRngState();
  if (!s.prepared.randomSeed) return;
  const TensorId &id = *s.prepared.randomSeed;
  std::memcpy(s.hostWeights.at(id).mutableData(), s.seed.data(), sizeof(s.seed));
  if (const int variable = s.program.findVariable(id); variable >= 0) s.program.writeVariable(variable, s.seed.data());
}

uint64_t Session::getRandomSeed() {
  Impl &s = *impl_;
  if (!s.prepared.randomSeed && !s.roundsStochastically()) return 0;
  s.program.requireLoaded("getRandomSeed");
  std::array<uint32_t, 2> words = s.seed;
  if (s.prepared.randomSeed)
    if (const int variable = s.program.findVariable(*s.prepared.randomSeed); variable >= 0)
      s.program.readVariable(variable, words.data());
  return words[0] | static_cast<uint64_t>(words[1]) << 32;
}

std::vector<uint32_t> Session::getRNGState() {
  Impl &s = *impl_;
  requireRngState(s.options, s.name, "getRNGState");
  s.program.requireLoaded("getRNGState");
  if (const int variable = s.program.findVariable(lower::kRngState); variable >= 0)
    s.program.readVariable(variable, s.rngState.data());
  return {s.rngState.begin(), s.rngState.end()};
}

void Session::setRNGState(const std::vector<uint32_t> state) {
  Impl &s = *impl_;
  requireRngState(s.options, s.name, "setRNGState");
  s.program.requireLoaded("setRNGState");
  if (state.size() != s.rngState.size())
    throw runtime_error(
        "Session '{}': setRNGState: the state has the wrong length: got {} numbers, expected {}. Pass "
        "what getRNGState returned",
        s.name, state.size(), s.rngState.size());
  std::copy(state.begin(), state.end(), s.rngState.begin());
  s.writeRngState();
}

}  // namespace popart

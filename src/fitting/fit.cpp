// See fit.hpp. Choices are ranked by cost per byte, so a prefix of the ranking is the cheapest way to save its sum of
// bytes. The length of the prefix is searched with real memory plans: first the length for the required sum, then
// longer ones by the missing bytes, then between the shortest that fits and the longest that does not.
#include "fitting/fit.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <popart/logging.hpp>

#include "executable/cost.hpp"
#include "fitting/choices.hpp"
#include "fitting/remedies.hpp"
#include "pipeline/passes.hpp"

namespace popart::fitting {
namespace {

constexpr double kCloseEnough = 0.02;  // fraction of the bytes to save within which no shorter prefix is searched

struct Candidate {
  size_t count = 0;  // number of choices
  pipeline::Prepared prepared;
  lower::Program program;
  executable::MemoryReport memory;
  double milliseconds = 0;
};

class Search {
 public:
  Search(const FitRequest &request, const lower::Program &plain) : request_(request) {
    request_.lowering.maxMemoryBytes = 0;
    plain_ = lower::compileInSteps(plain, request_.lowering, *request_.backends);
    plainMilliseconds_ = predict(*plain_.executable);
    pipeline::PrepareRequest listing = request_.prepare({});
    if (!runsAsOne(listing.options)) return;
    // With stochastic rounding a copy would differ from its original.
    rules_.recomputes = listing.options.recompute == transforms::RecomputeRule::Marked && listing.updates.has_value() &&
                        !request_.lowering.roundStochastically;
    rules_.movesOffChip = request_.movesOffChip;
    rules_.threads = request_.lowering.threads;
    rules_.microBatches = listing.options.factors.accumulationFactor;
    listing.options.listsSpareMemory = true;
    listing.options.movableConstants = request_.constants;
    spare_ = pipeline::prepare(std::move(listing)).spareMemory;
  }

  Fitted run() {
    logging::session::info("memory limit: {} bytes needed, {} allowed: searching for tensors to recompute{}",
                           plain_.executable->memory.total(), request_.mostBytes,
                           rules_.movesOffChip ? " or to keep off chip" : "");
    searchWays();
    if (!best_) refuse();
    Fitted result{std::move(best_->prepared), std::move(best_->program), report()};
    logging::session::info("memory limit: the program was changed\n{}", toText(result.report));
    return result;
  }

 private:
  // Not with stages, phases, sharded variables, batches in parts or merged updates, which place tensors themselves.
  static bool runsAsOne(const pipeline::PipelineOptions &options) {
    return !options.pipelines && options.executionPhases <= 1 && !options.sharding.any() && !options.serialiseForward &&
           !options.serialiseWhole && !options.mergeUpdates;
  }

  double predict(const executable::Executable &executable) const {
    return executable::predictedRunNanoseconds(executable, request_.lowering.threads) * 1e-6;
  }

  void searchWays() {
    searchWith(Preference::Cheaper);
    if (!best_ && rules_.recomputes && rules_.movesOffChip) searchWith(Preference::OffChip);
  }

  // ---- one way to rank

  void searchWith(Preference preference) {
    rules_.preference = preference;
    choices_ = rankChoices(spare_, rules_);
    saved_.assign(1, 0);
    for (const Choice &c : choices_) saved_.push_back(saved_.back() + c.memory->bytes);
    const int64_t needed = plain_.executable->memory.total() - request_.mostBytes;
    size_t none = 0;  // length of the longest prefix that does not fit
    size_t next = prefixFor(needed);
    while (none < choices_.size()) {
      const int64_t over = attempt(next);
      if (over <= 0) break;
      none = next;
      if (none == choices_.size()) return;
      // The prefix saved less than its sum: continue with twice the missing bytes, at the end with all choices.
      const bool isLast = tried_ + 1 >= kMostCompilations / 2;
      next = isLast ? choices_.size() : std::max(none + 1, prefixFor(saved_[none] + 2 * over));
    }
    if (!best_) return;
    for (size_t fits = next;
         tried_ < kMostCompilations && fits > none + 1 &&
         static_cast<double>(saved_[fits] - saved_[none]) > kCloseEnough * static_cast<double>(needed);) {
      const size_t middle = std::clamp(prefixFor((saved_[fits] + saved_[none]) / 2), none + 1, fits - 1);
      (attempt(middle) <= 0 ? fits : none) = middle;
    }
  }

  // The length of the shortest prefix with this sum of bytes, or of all.
  size_t prefixFor(int64_t bytes) const {
    const auto found = std::ranges::lower_bound(saved_, bytes);
    return found == saved_.end() ? choices_.size() : static_cast<size_t>(found - saved_.begin());
  }

  // Compiles with `count` choices. Returns the bytes above the limit. If it fits and is the fastest so far, keeps it.
  int64_t attempt(size_t count) {
    ++tried_;
    pipeline::PrepareRequest prepare = request_.prepare(constantsOf(choices_, count));
    apply(choices_, count, prepare.options);
    Candidate found{count, pipeline::prepare(std::move(prepare)), {}, {}, 0};
    found.program = pipeline::lowerProgram(*found.prepared.ir, request_.lowering, *request_.backends);
    const auto executable = lower::compile(found.program, request_.lowering, *request_.backends);
    found.memory = executable->memory;
    found.milliseconds = predict(*executable);
    const int64_t over = found.memory.total() - request_.mostBytes;
    logging::session::info("memory limit: {} of {} choices: {} bytes, {} times the time", count, choices_.size(),
                           found.memory.total(), fmt::format("{:.2f}", found.milliseconds / plainMilliseconds_));
    if (!smallest_ || found.memory.total() < smallest_->memory.total())
      smallest_ = Attempt{found.memory, found.milliseconds / plainMilliseconds_};
    if (over <= 0 && (!best_ || found.milliseconds < best_->milliseconds)) {
      best_ = std::move(found);
      bestChoices_.assign(choices_.begin(), choices_.begin() + static_cast<std::ptrdiff_t>(count));
    }
    return over;
  }

  // ---- results

  MemoryFit report() const {
    MemoryFit fit;
    fit.limitBytes = request_.mostBytes;
    fit.plainBytes = plain_.executable->memory.total();
    fit.bytes = best_->memory.total();
    fit.remoteBytes = best_->memory.remoteBytes;
    fit.plainMilliseconds = plainMilliseconds_;
    fit.milliseconds = best_->milliseconds;
    fit.compilations = tried_;
    for (const Choice &c : bestChoices_) {
      auto row = std::ranges::find(fit.choices, nameOf(c), &MemoryFit::Choice::what);
      if (row == fit.choices.end()) row = fit.choices.insert(row, MemoryFit::Choice{nameOf(c), 0, 0, 0});
      const auto &ids = c.action == Choice::Action::Recompute ? c.memory->repeated : c.memory->moved;
      row->tensors += static_cast<int64_t>(ids.size());
      row->bytes += c.memory->bytes;
      row->milliseconds += c.nanoseconds * 1e-6;
    }
    return fit;
  }

  [[noreturn]] void refuse() {
    std::optional<Attempt> inFiles;
    if (!request_.movesOffChip && !spare_.empty()) {
      const std::optional<Attempt> inMemory = smallest_;
      rules_.movesOffChip = true;
      tried_ = kMostCompilations / 2;
      searchWays();
      if (best_) inFiles = Attempt{best_->memory, best_->milliseconds / plainMilliseconds_};
      smallest_ = inMemory;
    }
    const pipeline::PrepareRequest asked = request_.prepare({});
    throwDoesNotFit(
        {plain_, plainMilliseconds_, request_.mostBytes, request_.replicas, askedOf(asked), smallest_, inFiles});
  }

  FitRequest request_;
  lower::Compiled plain_;
  double plainMilliseconds_ = 0;
  ChoiceRules rules_;
  std::vector<transforms::SpareMemory> spare_;
  std::vector<Choice> choices_;  // ranked
  std::vector<int64_t> saved_;   // bytes of each prefix of them
  int tried_ = 0;
  std::optional<Candidate> best_;
  std::vector<Choice> bestChoices_;
  std::optional<Attempt> smallest_;
};

}  // namespace

Fitted fitIntoMemory(const FitRequest &request, const lower::Program &plain) { return Search(request, plain).run(); }

std::string toText(const MemoryFit &fit) {
  std::string text = fmt::format("  limit: {} bytes\n  as it is: {} bytes, {:.3g} ms predicted\n", fit.limitBytes,
                                 fit.plainBytes, fit.plainMilliseconds);
  for (const MemoryFit::Choice &c : fit.choices)
    text += fmt::format("  {}: {} tensors, {} bytes, {:.3g} ms\n", c.what, c.tensors, c.bytes, c.milliseconds);
  return text + fmt::format("  as it runs: {} bytes, {:.3g} ms predicted ({:.2f} times the time)\n", fit.bytes,
                            fit.milliseconds, fit.milliseconds / fit.plainMilliseconds);
}

}  // namespace popart::fitting

// Rounds of tasks (executable::Kernel::roundEnds), for kernels that pass over their data several times.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace popart::cpu {

class Rounds {
 public:
  struct Place {
    size_t round;
    int64_t task;  // within the round
  };

  // Appends a round; `weight` is its share of the kernel's cost, in any unit.
  void add(int64_t tasks, double weight) {
    ends_.push_back(this->tasks() + static_cast<int>(tasks));
    weights_.push_back(weight);
    whole_ += weight;
  }
  int tasks() const { return ends_.empty() ? 0 : ends_.back(); }
  // Empty for a single round, as Kernel::roundEnds requires.
  std::span<const int> ends() const { return ends_.size() > 1 ? std::span<const int>(ends_) : std::span<const int>(); }
  Place place(int task) const {
    const auto round = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), task) - ends_.begin());
    return {round, task - begin(round)};
  }
  int64_t size(size_t round) const { return ends_[round] - begin(round); }
  // For Kernel::share; the tasks of a round have equal cost.
  double share(int task) const {
    const size_t round = place(task).round;
    const double weight = whole_ > 0 ? weights_[round] / whole_ : 1.0 / static_cast<double>(weights_.size());
    return weight / static_cast<double>(size(round));
  }

 private:
  int begin(size_t round) const { return round == 0 ? 0 : ends_[round - 1]; }

  std::vector<int> ends_;
  std::vector<double> weights_;
  double whole_ = 0;
};

}  // namespace popart::cpu

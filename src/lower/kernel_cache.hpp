// KernelCache: a backend that caches the answers of another backend. Equal requests share one kernel object: a subgraph
// that is called many times makes its kernels once, and the question "is there a kernel" in a pass costs nothing later.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "executable/kernel.hpp"

namespace popart::lower {

// Exists while one program is lowered. User operators are not cached: their kernels may depend on more than the
// request.
class KernelCache final : public executable::Backend {
 public:
  // All requests are for `threads` threads.
  KernelCache(const executable::Backend &backend, int threads) : backend_(backend), threads_(threads) {}

  std::string name() const override { return backend_.name(); }
  std::string variant() const override { return backend_.variant(); }
  const executable::Layout *wantedLayout(const Op &op, Side side, int index) const override {
    return backend_.wantedLayout(op, side, index);
  }
  std::span<const executable::BackendPass> passes() const override { return backend_.passes(); }
  std::shared_ptr<const executable::Kernel> createKernel(const executable::KernelRequest &request,
                                                         std::string &reason) const override;
  bool supports(const Op &op, std::string &reason) const override;

  // Numbers of misses and hits, for tests and logs.
  int64_t made() const { return made_; }
  int64_t shared() const { return shared_; }

 private:
  struct Answer {
    std::shared_ptr<const executable::Kernel> kernel;  // null: refused
    std::string reason;
    std::vector<TensorData> constants;  // kept, so that addresses in the key are not reused
  };

  // Asks the backend; throws internal_error if its kernel has no cost.
  std::shared_ptr<const executable::Kernel> make(const executable::KernelRequest &request, std::string &reason) const;

  const executable::Backend &backend_;
  const int threads_;
  mutable std::unordered_map<std::string, Answer> answers_;
  mutable int64_t made_ = 0, shared_ = 0;
};

// Backends in order of preference, each with a cache while one program is lowered and compiled.
using Backends = std::vector<std::unique_ptr<KernelCache>>;

}  // namespace popart::lower

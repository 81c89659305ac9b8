// Hash of a program's canonical stream. Structurally equal programs have equal hashes. Initial values of variables are
// left out, so that the compiled program is still found after training.
#include "base/hash.hpp"

#include "ir/canonical.hpp"

namespace popart {
namespace {

class HashSink : public CanonicalSink {
 public:
  void number(int64_t v) override { hasher_.add(static_cast<uint64_t>(v)); }
  void text(std::string_view v) override { hasher_.addText(v); }
  void values(const TensorData &v) override { hasher_.addBytes(v.data(), static_cast<size_t>(v.nbytes())); }
  void variableValues(const TensorData &) override {}
  uint64_t value() const { return hasher_.value(); }

 private:
  Hasher hasher_;
};

}  // namespace

uint64_t hash(const Ir &ir) {
  HashSink sink;
  writeCanonical(ir, sink);
  return sink.value();
}

}  // namespace popart

// Structural equality: two programs are equal if their canonical streams are equal (canonical.hpp). Values are compared
// byte by byte and never copied.
#include "ir/canonical.hpp"

namespace popart {
namespace {

// The stream as a list of items; values by reference to the tensor's shared bytes.
class Recorder : public CanonicalSink {
 public:
  void number(int64_t v) override { items_ += 'n', items_.append(reinterpret_cast<const char *>(&v), sizeof v); }
  void text(std::string_view v) override { number(static_cast<int64_t>(v.size())), items_ += v; }
  void values(const TensorData &v) override { items_ += 'v', values_.push_back(v); }
  void variableValues(const TensorData &v) override { values(v); }
  bool operator==(const Recorder &o) const { return items_ == o.items_ && values_ == o.values_; }

 private:
  std::string items_;
  std::vector<TensorData> values_;
};

template <class Root>
bool equal(const Root &a, const Root &b) {
  Recorder recordOfA, recordOfB;
  writeCanonical(a, recordOfA);
  writeCanonical(b, recordOfB);
  return recordOfA == recordOfB;
}

}  // namespace

bool structurallyEqual(const Graph &a, const Graph &b) { return equal(a, b); }
bool structurallyEqual(const Ir &a, const Ir &b) { return equal(a, b); }

}  // namespace popart

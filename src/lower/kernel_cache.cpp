// The key of a request: operator, attributes (graphs by content, not by id), and all facts about every operand. The key
// contains values of small constants; large ones are compared by address.
#include "lower/kernel_cache.hpp"

#include <algorithm>

#include <popart/ir.hpp>

#include "ir/canonical.hpp"
#include "ir/text.hpp"

namespace popart::lower {
namespace {

using executable::KernelRequest;
using executable::OperandDesc;

constexpr int64_t kSmallBytes = 64;

void addNumber(std::string &key, int64_t v) { key.append(reinterpret_cast<const char *>(&v), sizeof(v)); }
void addText(std::string &key, std::string_view text) {
  addNumber(key, static_cast<int64_t>(text.size()));
  key += text;
}
void addValues(std::string &key, const TensorData &data) {
  if (data.nbytes() <= kSmallBytes)
    key.append(static_cast<const char *>(data.data()), static_cast<size_t>(data.nbytes()));
  else
    addNumber(key, static_cast<int64_t>(reinterpret_cast<intptr_t>(data.data())));
}

class KeySink final : public CanonicalSink {
 public:
  explicit KeySink(std::string &key) : key_(key) {}
  void number(int64_t v) override { addNumber(key_, v); }
  void text(std::string_view v) override { addText(key_, v); }
  void values(const TensorData &v) override {
    key_.append(static_cast<const char *>(v.data()), static_cast<size_t>(v.nbytes()));
  }
  void variableValues(const TensorData &) override {}

 private:
  std::string &key_;
};

void addAttributes(std::string &key, const Op &op) {
  for (const auto &[name, value] : op.attributes().entries()) {
    addText(key, name);
    if (const auto *graph = std::get_if<GraphRef>(&value); graph && op.getIr().hasGraph(graph->id)) {
      KeySink sink(key);
      writeCanonical(op.getIr().getGraph(graph->id), sink);
    } else {
      addText(key, attributeText(value, PrintData::Full));
    }
  }
}

void addOperand(std::string &key, const OperandDesc &o) {
  addNumber(key, o.connected);
  if (!o.connected) return;
  addNumber(key, static_cast<int64_t>(o.info.dataType()));
  addNumber(key, static_cast<int64_t>(o.info.shape().size()));
  for (int64_t d : o.info.shape()) addNumber(key, d);
  addNumber(key, static_cast<int64_t>(reinterpret_cast<intptr_t>(o.layout)));
  addNumber(key, o.constant != nullptr);
  if (o.constant) addValues(key, *o.constant);
}

std::string keyOf(const KernelRequest &request) {
  std::string key;
  addText(key, request.op->def().base().type());
  addAttributes(key, *request.op);
  for (const auto *list : {&request.inputs, &request.outputs}) {
    addNumber(key, static_cast<int64_t>(list->size()));
    for (const OperandDesc &o : *list) addOperand(key, o);
  }
  // x + x and x + y are different kernels: equal operands are read once.
  const std::vector<TensorIndex> &inputs = request.op->inputs();
  for (const TensorIndex t : inputs) addNumber(key, std::find(inputs.begin(), inputs.end(), t) - inputs.begin());
  return key;
}

}  // namespace

std::shared_ptr<const executable::Kernel> KernelCache::make(const KernelRequest &request, std::string &reason) const {
  auto kernel = backend_.createKernel(request, reason);
  if (kernel && !kernel->hasCost())
    throw internal_error("backend {}: kernel '{}' has no cost. Return it through executable::withCost", name(),
                         kernel->name());
  return kernel;
}

std::shared_ptr<const executable::Kernel> KernelCache::createKernel(const KernelRequest &asked,
                                                                    std::string &reason) const {
  KernelRequest request = asked;
  request.threads = threads_;
  if (request.op->isUserOp()) return make(request, reason);
  const auto [entry, fresh] = answers_.try_emplace(keyOf(request));
  Answer &answer = entry->second;
  ++(fresh ? made_ : shared_);
  if (fresh) {
    answer.kernel = make(request, answer.reason);
    for (const OperandDesc &o : request.inputs)
      if (o.constant && o.constant->nbytes() > kSmallBytes) answer.constants.push_back(*o.constant);
  }
  reason = answer.reason;
  return answer.kernel;
}

bool KernelCache::supports(const Op &op, std::string &reason) const {
  return createKernel(executable::requestOf(op), reason) != nullptr;
}

}  // namespace popart::lower

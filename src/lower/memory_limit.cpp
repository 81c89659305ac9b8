#include "lower/memory_limit.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include <popart/error.hpp>

namespace popart::lower {
namespace {

constexpr size_t kNamed = 8;

// The value that a storage was made for; null if the program no longer has it.
const Tensor *tensorOf(const memory::MemoryPlan &plan, int storage) {
  const std::string &name = plan.storages[static_cast<size_t>(storage)].name;
  for (const auto &[graph, storages] : plan.storageOf)
    if (const TensorIndex t = graph->find(name); t.valid() && plan.of(*graph, t) == storage) return &graph->tensor(t);
  return nullptr;
}

// ", made by MatMul 'dense'", ", a variable"; "" if it is not known.
std::string originOf(const memory::MemoryPlan &plan, int storage) {
  const memory::Place place = plan.storages[static_cast<size_t>(storage)].place;
  if (place == memory::Place::Variable) return ", a variable";
  if (place == memory::Place::Constant) return ", a constant";
  const Tensor *tensor = tensorOf(plan, storage);
  if (!tensor) return "";
  if (tensor->tensorType() == TensorType::Stream) return ", an input";
  const Op *producer = tensor->getProducerUnsafe();
  return producer ? ", made by " + producer->debugName() : "";
}

// Whether a storage is separate memory on the device.
bool takesMemory(const memory::MemoryPlan &plan, const memory::Storage &storage) {
  switch (storage.place) {
    case memory::Place::Arena:
      return storage.first >= 0 && storage.whole < 0;
    case memory::Place::Variable:
      return !plan.variables[static_cast<size_t>(storage.offset)]->isRemote;
    case memory::Place::Constant:
      return true;
    case memory::Place::Row:
      return false;
  }
  return false;
}

}  // namespace

std::string largestTensors(const memory::MemoryPlan &plan) {
  std::vector<int> storages;
  std::set<std::tuple<memory::Place, int64_t, int, int>> seen;  // joined storages repeat their target
  const auto at = [&](int s) -> const memory::Storage & { return plan.storages[static_cast<size_t>(s)]; };
  for (int s = 0; s < static_cast<int>(plan.storages.size()); ++s)
    if (takesMemory(plan, at(s)) && seen.emplace(at(s).place, at(s).offset, at(s).first, at(s).last).second)
      storages.push_back(s);
  std::ranges::stable_sort(storages, std::greater(), [&](int s) { return at(s).bytes; });
  if (storages.size() > kNamed) storages.resize(kNamed);
  std::string text;
  for (const int s : storages) text += "\n  " + at(s).name + ": " + toText(at(s).bytes) + " bytes" + originOf(plan, s);
  return text;
}

std::string doesNotFitText(const executable::MemoryReport &memory, int64_t mostBytes) {
  const std::string exchange =
      memory.exchangeBytes > 0 ? ", " + toText(memory.ownExchangeBytes()) + " exchange between processes" : "";
  return formatText(
      "the program does not fit the memory limit: got {} bytes ({} activations, {} variables, {} constants, {} "
      "scratch{}), expected at most {}",
      {toText(memory.total()), toText(memory.arenaBytes), toText(memory.ownVariableBytes()),
       toText(memory.ownConstantBytes()), toText(memory.scratchBytes), exchange, toText(mostBytes)});
}

void checkMemoryLimit(const executable::MemoryReport &memory, const memory::MemoryPlan &plan, int64_t mostBytes) {
  if (mostBytes <= 0 || memory.total() <= mostBytes) return;
  const std::string text = doesNotFitText(memory, mostBytes);
  throw memory_allocation_err(
      text + ". Use smaller batches, or keep less from the forward for the backward pass. Largest tensors:" +
          largestTensors(plan),
      text);
}

}  // namespace popart::lower

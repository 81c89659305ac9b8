#include "lower/memory_limit.hpp"

#include <algorithm>

#include <popart/error.hpp>

namespace popart::lower {
namespace {

constexpr size_t kNamed = 8;

}  // namespace

std::string largestTensors(const memory::MemoryPlan &plan) {
  std::vector<const memory::Storage *> storages;
  for (const memory::Storage &s : plan.storages)
    if (s.place == memory::Place::Arena && s.first >= 0) storages.push_back(&s);
  std::stable_sort(storages.begin(), storages.end(), [](auto *a, auto *b) { return a->bytes > b->bytes; });
  if (storages.size() > kNamed) storages.resize(kNamed);
  std::string text;
  for (const memory::Storage *s : storages) text += "\n  " + s->name + ": " + toText(s->bytes) + " bytes";
  return text;
}

std::string doesNotFitText(const executable::MemoryReport &memory, int64_t mostBytes) {
  return formatText(
      "the program does not fit the memory limit: got {} bytes ({} activations, {} variables, {} constants, {} "
      "scratch), expected at most {}",
      {toText(memory.total()), toText(memory.arenaBytes), toText(memory.ownVariableBytes()),
       toText(memory.ownConstantBytes()), toText(memory.scratchBytes), toText(mostBytes)});
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

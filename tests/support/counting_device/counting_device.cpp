// Launches wait in a list until a copy or the end of a run needs what they compute.
#include "support/counting_device/counting_device.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include <popart/error.hpp>

#include "executable/host_kernel.hpp"
#include "support/counting_device/reversed.hpp"

namespace popart::test {
namespace {

using Counts = CountingDevice::Counts;
using executable::HostKernel;
using executable::RunContext;
using executable::Step;

class Memory {
 public:
  explicit Memory(int64_t bytes)
      : bytes_(bytes),
        data_(static_cast<char *>(::operator new (static_cast<size_t>(bytes) + 1, std::align_val_t{64}))) {
    std::memset(data_, 0, static_cast<size_t>(bytes));
  }
  ~Memory() { ::operator delete (data_, std::align_val_t{64}); }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;
  char *data() const { return data_; }
  void fill() { std::memset(data_, 0xff, static_cast<size_t>(bytes_)); }
  // The byte behind the last one belongs to values without elements.
  bool holds(const void *p) const { return p >= data_ && p <= data_ + bytes_; }

 private:
  int64_t bytes_;
  char *data_;
};

class CountingQueue final : public runtime::Queue {
 public:
  CountingQueue(const executable::Executable &e, int replica, std::shared_ptr<Counts> counts)
      : counts_(std::move(counts)), scratch_(e.scratchBytesPerThread), context_(failed_, replica) {}

  char *allocate(int64_t bytes, std::span<const int64_t>) override {
    ++counts_->allocations;
    return memory_.emplace_back(std::make_unique<Memory>(bytes))->data();
  }
  bool isHostMemory() const override { return false; }
  void copyIn(void *device, const void *host, int64_t bytes) override {
    ++counts_->copiesIn, counts_->bytesIn += bytes;
    move(require(device), requireHost(host), bytes);
  }
  void copyOut(void *host, const void *device, int64_t bytes) override {
    ++counts_->copiesOut, counts_->bytesOut += bytes;
    move(requireHost(host), require(device), bytes);
  }
  void copyWithin(void *to, const void *from, int64_t bytes) override {
    ++counts_->copiesWithin;
    move(require(to), require(from), bytes);
  }

  std::unique_ptr<runtime::Launch> bind(const Step &step, const void *const *in, void *const *out,
                                        const runtime::KernelMemory &memory) override {
    const auto *kernel = dynamic_cast<const HostKernel *>(step.kernel.get());
    check(kernel != nullptr, "{}: the counting device runs kernels of the host only: got '{}'", step.name,
          step.kernel->name());
    for (size_t i = 0; i < step.in.size(); ++i)
      if (in[i]) require(in[i]);
    for (size_t i = 0; i < step.out.size(); ++i)
      if (out[i]) require(out[i]);
    for (const void *given : {memory.shared, memory.scratch})
      if (given) require(given);
    return std::make_unique<Deferred>(*this, step, *kernel, in, out, memory);
  }

  // Throws what the first failing launch reported; those behind it never run.
  void wait() override {
    std::vector<Waiting> launches;
    std::swap(launches, waiting_);
    for (const Waiting &w : launches) {
      w.launch->compute(w.in.data(), w.out.data());
      if (!failed_.load(std::memory_order_relaxed)) continue;
      const std::string message = context_.message(w.launch->op());
      context_.clear();
      failed_.store(false, std::memory_order_relaxed);
      throw runtime_error("{}", message);
    }
  }

 private:
  class Deferred final : public runtime::Launch {
   public:
    Deferred(CountingQueue &queue, const Step &step, const HostKernel &kernel, const void *const *in, void *const *out,
             const runtime::KernelMemory &memory)
        : queue_(queue),
          step_(step),
          kernel_(kernel),
          handle_(kernel.takeHandle(queue.context_)),
          in_(in),
          out_(out),
          memory_(memory) {}
    void run() override {
      ++queue_.counts_->launches;
      queue_.waiting_.push_back({this, std::vector<const void *>(in_, in_ + step_.in.size() + 1),
                                 std::vector<void *>(out_, out_ + step_.out.size() + 1)});
    }
    void compute(const void *const *in, void *const *out) const {
      const auto given = kernel_.roundEnds();
      std::vector<int> ends(given.begin(), given.end());
      if (ends.empty()) ends.push_back(kernel_.tasks());
      if (memory_.shared) std::memset(memory_.shared, 0xff, static_cast<size_t>(kernel_.sharedBytes()));
      int first = 0;
      for (const int end : ends) {
        for (int task = end; task-- > first;) {
          void *scratch = memory_.scratch;
          if (scratch)
            std::memset(scratch, 0xff, static_cast<size_t>(kernel_.scratchBytes()));
          else
            queue_.scratch_.fill(), scratch = queue_.scratch_.data();
          kernel_.run({in, out, scratch, queue_.context_, memory_.shared, handle_}, task);
        }
        first = end;
      }
    }
    const std::string &op() const { return step_.op.empty() ? step_.name : step_.op; }

   private:
    CountingQueue &queue_;
    const Step &step_;
    const HostKernel &kernel_;
    executable::CollectiveHandle *handle_;
    const void *const *in_;
    void *const *out_;
    const runtime::KernelMemory memory_;
  };

  struct Waiting {  // with the addresses that its operands had
    const Deferred *launch;
    std::vector<const void *> in;
    std::vector<void *> out;
  };

  bool holds(const void *p) const {
    return std::any_of(memory_.begin(), memory_.end(), [p](const auto &m) { return m->holds(p); });
  }
  template <class T>
  T *require(T *device) const {
    if (!holds(device)) throw internal_error("counting device: an address is none of its memory");
    return device;
  }
  template <class T>
  T *requireHost(T *host) const {
    if (holds(host)) throw internal_error("counting device: an address of the host is of the device's memory");
    return host;
  }
  void move(void *to, const void *from, int64_t bytes) {
    wait();
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  }

  std::shared_ptr<Counts> counts_;
  std::vector<std::unique_ptr<Memory>> memory_;
  Memory scratch_;
  std::atomic<bool> failed_{false};
  RunContext context_;
  std::vector<Waiting> waiting_;
};

}  // namespace

CountingDevice::CountingDevice(const executable::Backend &kernels, const executable::Backend &fallback)
    : backend_(reversingBackend(kernels)), backends_{backend_.get(), &fallback}, counts_(std::make_shared<Counts>()) {}

CountingDevice::~CountingDevice() = default;

std::unique_ptr<runtime::Queue> CountingDevice::open(const executable::Executable &executable,
                                                     const runtime::RunSettings &settings) const {
  return std::make_unique<CountingQueue>(executable, settings.replica, counts_);
}

}  // namespace popart::test

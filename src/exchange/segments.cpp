// See segments.hpp. A segment is a file without a name (memfd_create), which others open as /proc/PID/fd/NUMBER while
// its owner waits for them. All pages are allocated at once: without memory for a later page, a signal would end the
// process.
#include "exchange/segments.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <sstream>
#include <utility>

#include <popart/error.hpp>
#include <popart/logging.hpp>

namespace popart::exchange {
namespace {

constexpr const char *kNone = "none";  // a process without a segment

std::string problemOf(const char *call) { return formatText("{}: {}", {call, std::strerror(errno)}); }

uint64_t drawNumber() {
  std::random_device random;
  return static_cast<uint64_t>(random()) << 32 | random();
}

}  // namespace

// Header of a segment.
struct alignas(64) Segments::Start {
  uint64_t number;  // random, to recognise the right file
  std::atomic<bool> hasFailed;
  std::array<char, 4000> text;
};

Segments::File::~File() {
  if (number >= 0) ::close(number);
}

Segments::Mapping::Mapping(Mapping &&other) noexcept
    : process(other.process), data(std::exchange(other.data, nullptr)), bytes(std::exchange(other.bytes, 0)) {}
Segments::Mapping &Segments::Mapping::operator=(Mapping &&other) noexcept {
  std::swap(process, other.process);
  std::swap(data, other.data);
  std::swap(bytes, other.bytes);
  return *this;
}
Segments::Mapping::~Mapping() {
  if (data) ::munmap(data, static_cast<size_t>(bytes));
}

Segments::Segments(Transport &transport, const ReplicaLayout &layout, int64_t bytes, std::string_view off,
                   std::chrono::milliseconds timeout) {
  if (layout.hosts() == layout.processes()) return;
  const int process = transport.process(), host = layout.hostOf(process);
  const auto forHost = [&](const std::vector<std::string> &texts, const auto &f) {
    for (int p = 0; p < layout.processes(); ++p)
      if (layout.hostOf(p) == host) f(p, texts[static_cast<size_t>(p)]);
  };
  File file;  // open until the others have mapped it
  std::string reason(off);
  if (off.empty() && bytes > 0) reason = take(file, bytes, process);
  std::string address = kNone;
  if (own_.data && reason.empty()) {
    std::ostringstream out;
    out << ::getpid() << ' ' << file.number << ' ' << own_.bytes << ' ' << own_.start().number;
    address = out.str();
  }
  const std::vector<std::string> addresses = transport.gather(address, timeout);
  forHost(addresses, [&](int p, const std::string &its) {
    if (bytes > 0 && reason.empty() && p != process && its != kNone) reason = map(p, its);
  });
  const std::vector<std::string> answers = transport.gather(reason, timeout);
  int odd = -1;
  forHost(answers, [&](int p, const std::string &its) {
    if (odd < 0 && !its.empty()) odd = p;
  });
  areShared_ = own_.data && odd < 0;
  if (areShared_) return;
  if (odd >= 0)
    logging::info(
        "exchange of replicas: processes of host '{}' exchange by messages, and not in memory that they share: {}: {}",
        layout.hostName(process), layout.describe(odd), answers[static_cast<size_t>(odd)]);
  others_.clear();
  own_ = {};
}

Segments::~Segments() = default;

// Makes this process's segment. Returns the reason of a failure; empty on success.
std::string Segments::take(File &file, int64_t bytes, int process) {
  file.number = ::memfd_create("popart replicas", MFD_CLOEXEC);
  if (file.number < 0) return problemOf("memfd_create");
  const auto all = static_cast<int64_t>(sizeof(Start)) + bytes;
  const auto size = static_cast<size_t>(all);
  if (::ftruncate(file.number, all) != 0) return problemOf("ftruncate");
  void *const data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.number, 0);
  if (data == MAP_FAILED) return problemOf("mmap");
  own_.process = process;
  own_.data = static_cast<std::byte *>(data);
  own_.bytes = all;
#ifdef MADV_HUGEPAGE
  ::madvise(data, size, MADV_HUGEPAGE);
#endif
#ifdef MADV_POPULATE_WRITE
  ::madvise(data, size, MADV_POPULATE_WRITE);  // huge pages if the system has them; the call below allocates the rest
#endif
  if (::fallocate(file.number, 0, 0, all) != 0) return problemOf("fallocate");
  own_.start().number = drawNumber();
  return {};
}

// Maps the segment of another process for reading. Returns the reason of a failure; empty on success.
std::string Segments::map(int process, std::string_view address) {
  std::istringstream in{std::string(address)};
  int64_t pid = 0, number = 0, bytes = 0;
  uint64_t drawn = 0;
  in >> pid >> number >> bytes >> drawn;
  const std::string path = formatText("/proc/{}/fd/{}", {toText(pid), toText(number)});
  File file;
  file.number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.number < 0) return problemOf(path.c_str());
  struct stat found {};
  const bool fits =
      in && ::fstat(file.number, &found) == 0 && found.st_size == bytes && bytes > static_cast<int64_t>(sizeof(Start));
  if (!fits) return path + " is not the memory of that process";
  void *const data = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ, MAP_SHARED, file.number, 0);
  if (data == MAP_FAILED) return problemOf("mmap");
  Mapping &mapped = others_.emplace_back();
  mapped.process = process;
  mapped.data = static_cast<std::byte *>(data);
  mapped.bytes = bytes;
  if (mapped.start().number != drawn) return path + " is not the memory of that process";
#ifdef MADV_POPULATE_READ
  ::madvise(data, static_cast<size_t>(bytes), MADV_POPULATE_READ);  // or at the first read
#endif
  return {};
}

std::byte *Segments::own() const { return own_.data + sizeof(Start); }

const std::byte *Segments::of(int process) const {
  if (process == own_.process) return own();
  const auto found = std::ranges::find(others_, process, &Mapping::process);
  return found == others_.end() ? nullptr : found->data + sizeof(Start);
}

void Segments::fail(std::string_view text) noexcept {
  if (!areShared_ || hasFailed_.exchange(true)) return;
  Start &start = own_.start();
  const size_t length = std::min(text.size(), start.text.size() - 1);
  std::memcpy(start.text.data(), text.data(), length);
  start.text[length] = '\0';
  start.hasFailed.store(true, std::memory_order_release);
}

const char *Segments::failure() const noexcept {
  for (const Mapping &other : others_)
    if (other.start().hasFailed.load(std::memory_order_acquire)) return other.start().text.data();
  return nullptr;
}

}  // namespace popart::exchange

// Memory that the processes of a host share. Each process has a segment, which the others of its host map and read.
// Segments have no names in the file system, so nothing remains of them when processes end, in whatever way.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exchange/layout.hpp"
#include "exchange/transport.hpp"

namespace popart::exchange {

class Segments {
 public:
  // Shares a segment of `bytes` bytes of this process, all zero; 0: none. All processes must call it. `off`: the reason
  // why this process must share nothing; empty: it shares. One line of the log gives the reason if a host shares
  // nothing. Throws as Transport::gather.
  Segments(Transport &transport, const ReplicaLayout &layout, int64_t bytes, std::string_view off,
           std::chrono::milliseconds timeout);
  ~Segments();

  // Whether the processes of this host have each other's segments: all, or none.
  bool areShared() const { return areShared_; }
  std::byte *own() const;
  // The segment of a process of this host, which only that process writes; null if it has none.
  const std::byte *of(int process) const;

  // ---- failures of processes of this host
  // Makes the text visible to the other processes. The first text counts.
  void fail(std::string_view text) noexcept;
  // The text of the first process that has called fail(); null: none has. Valid as long as this object.
  const char *failure() const noexcept;

 private:
  struct Start;
  struct File {
    File() = default;
    File(const File &) = delete;
    ~File();
    int number = -1;
  };
  struct Mapping {
    Mapping() = default;
    Mapping(Mapping &&other) noexcept;
    Mapping &operator=(Mapping &&other) noexcept;
    ~Mapping();
    Start &start() const { return *reinterpret_cast<Start *>(data); }
    int process = -1;
    std::byte *data = nullptr;
    int64_t bytes = 0;
  };

  std::string take(File &file, int64_t bytes, int process);
  std::string map(int process, std::string_view address);

  bool areShared_ = false;
  Mapping own_;
  std::vector<Mapping> others_;
  std::atomic<bool> hasFailed_{false};
};

}  // namespace popart::exchange

// Communication of the hosts of a job: what is registered, whether it has begun, and which instances a collective is
// for. One per process.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "popdist/group.hpp"

namespace popdist {

// What the language of the program does. Python sets it (python/bindings/popdist.cpp); unset, C++ holds.
struct Language {
  void (*warn)(const std::string &text) = nullptr;  // else a line of the log
  void (*begun)() = nullptr;                        // communication has begun: end it before the language ends
  bool (*othersCallMpi)() = nullptr;                // whether libraries of the program call MPI
};
Language &language();

class Hosts {
 public:
  // Those of the process; on a thread of a test those that it set.
  static Hosts &current();
  // For tests: what current() gives on this thread from now on. Null: those of the process.
  static void setCurrent(Hosts *hosts);

  // As the functions of popdist/backend.hpp.
  void registerDefault();
  bool isRegistered() const;
  void begin();
  bool hasBegun() const;
  void end();

  // All instances; begins communication if nothing has.
  std::shared_ptr<Group> world();
  // What a communicator has for this thread. Throws std::invalid_argument: it is unknown, without this instance, or not
  // inside the instances of the scope.
  std::shared_ptr<Group> group(int64_t communicator);
  void name(int64_t communicator, std::shared_ptr<Group> group);

  // For tests: as if communication had begun on these instances; and as at the start of the process.
  void begin(std::shared_ptr<Group> world);
  void forget();

 private:
  mutable std::mutex lock_;
  std::function<std::shared_ptr<Group>()> join_;     // of the registered backend
  std::shared_ptr<Group> world_;                     // from initializeBackend to its end
  std::map<int64_t, std::shared_ptr<Group>> named_;  // null: this instance is no member
};

// As registerCommunicator, with numbers as a program gave them.
void registerParticipants(const std::vector<int64_t> &participants, int64_t communicatorId);

// The instances of the innermost InstanceScope of this thread, and where to put them; null: no scope.
std::shared_ptr<Group> &scopeOfThread();

}  // namespace popdist

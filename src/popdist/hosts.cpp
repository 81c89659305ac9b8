#include "popdist/hosts.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include <popart/error.hpp>
#include <popdist/backend.hpp>
#include <popdist/context.hpp>

#include "exchange/load_mpi.hpp"
#include "popdist/job.hpp"
#include "runtime/interrupt.hpp"

namespace popdist {
namespace {

using popart::formatText;
using popart::toText;
namespace exchange = popart::exchange;

thread_local Hosts *ofTest = nullptr;

// All instances of a job of several, which join it.
std::shared_ptr<Group> joinJob() {
  const Job found = job();
  exchange::HostGroupSettings settings{.timeout = timeout(), .look = popart::runtime::askInterruptCheck};
  settings.warnAfter = std::min(settings.warnAfter, settings.timeout / 2);
  const bool othersCallMpi = language().othersCallMpi && language().othersCallMpi();
  return std::make_shared<Group>(exchange::joinHostGroup(
      {.processes = knownInstances(found), .othersCallMpi = othersCallMpi, .timeout = settings.timeout},
      {found.total, found.local, found.offset}, settings));
}

}  // namespace

Language &language() {
  static Language all;
  return all;
}

Hosts &Hosts::current() {
  static auto *ofProcess = new Hosts;  // never destroyed: other threads may still communicate at the end
  return ofTest ? *ofTest : *ofProcess;
}

void Hosts::setCurrent(Hosts *hosts) { ofTest = hosts; }

void Hosts::registerDefault() {
  const Job found = job();
  const bool isAlone = found.total == found.local;
  if (!isAlone) exchange::loadMpi();
  const std::lock_guard guard(lock_);
  if (isAlone)
    join_ = [] { return std::make_shared<Group>(); };
  else
    join_ = joinJob;
}

bool Hosts::isRegistered() const {
  const std::lock_guard guard(lock_);
  return join_ != nullptr;
}

void Hosts::begin() {
  const std::unique_lock guard(lock_);
  if (world_) return;
  if (!join_)
    throw std::runtime_error("No backend is registered. Call popdist.init(), or registerDefaultBackend() before.");
  world_ = join_();
  if (language().begun) {
    language().begun();
  } else {
    // Behind the registration of what leaves MPI, so that it runs before.
    static const int isRegistered = std::atexit(finalizeBackend);
    static_cast<void>(isRegistered);
  }
}

void Hosts::begin(std::shared_ptr<Group> world) {
  const std::lock_guard guard(lock_);
  world_ = std::move(world);
}

bool Hosts::hasBegun() const {
  const std::lock_guard guard(lock_);
  return world_ != nullptr;
}

void Hosts::end() {
  const std::lock_guard guard(lock_);
  named_.clear();
  world_.reset();
}

void Hosts::forget() {
  end();
  const std::lock_guard guard(lock_);
  join_ = nullptr;
}

std::shared_ptr<Group> Hosts::world() {
  {
    const std::lock_guard guard(lock_);
    if (world_) return world_;
  }
  init();
  const std::lock_guard guard(lock_);
  if (!world_) throw std::runtime_error("popdist: communication was ended by finalizeBackend(). Call init() again.");
  return world_;
}

std::shared_ptr<Group> Hosts::group(int64_t communicator) {
  const std::shared_ptr<Group> scope = scopeOfThread();
  const std::shared_ptr<Group> around = scope ? scope : world();
  const std::lock_guard guard(lock_);
  const auto found = named_.find(communicator);
  if (communicator == defaultCommunicatorId() && (scope || found == named_.end())) return around;
  if (found == named_.end()) {
    std::string known = toText(defaultCommunicatorId());
    for (const auto &[number, group] : named_)
      if (number != defaultCommunicatorId()) known += ", " + toText(number);
    throw std::invalid_argument(
        formatText("communicator: got {}, expected one that is registered: {}.", {toText(communicator), known}));
  }
  if (!found->second)
    throw std::invalid_argument(
        formatText("communicator: got {}, which this instance is not a member of.", {toText(communicator)}));
  if (!std::ranges::includes(around->instances(), found->second->instances()))
    throw std::invalid_argument(
        formatText("communicator: got {} of instances {}, expected some of the instances {} of execute_on_instances.",
                   {toText(communicator), toText(found->second->instances()), toText(around->instances())}));
  return found->second;
}

void Hosts::name(int64_t communicator, std::shared_ptr<Group> group) {
  const std::lock_guard guard(lock_);
  named_[communicator] = std::move(group);
}

std::shared_ptr<Group> &scopeOfThread() {
  thread_local std::shared_ptr<Group> scope;
  return scope;
}

}  // namespace popdist

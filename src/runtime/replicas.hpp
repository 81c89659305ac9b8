// Replicas: the engines of one program that run at the same time, each with its own variables, threads and host data,
// and meet in collectives. With one replica this is the engine alone.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "runtime/engine.hpp"

namespace popart::runtime {

class Replicas {
 public:
  // Makes settings.replicas engines; the settings are those of each, its number and collectives aside. Throws as
  // Engine.
  Replicas(std::shared_ptr<const executable::Executable> executable, const Device &device, const RunSettings &settings);
  ~Replicas();
  Replicas(const Replicas &) = delete;
  Replicas &operator=(const Replicas &) = delete;

  int count() const { return static_cast<int>(engines_.size()); }
  Engine &engine(int replica) { return *engines_[static_cast<size_t>(replica)]; }
  const Engine &engine(int replica) const { return *engines_[static_cast<size_t>(replica)]; }

  // Runs main once on every replica, the first one on the calling thread. `streams`: one per replica; they are called
  // from the replicas' threads at the same time. When a replica throws, all others end at their next collective, and
  // the exception that came first is thrown; see Engine::run for what variables then hold.
  void run(std::span<StreamSource *const> streams);

 private:
  struct Crew;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::unique_ptr<Crew> crew_;  // null: one replica
};

}  // namespace popart::runtime

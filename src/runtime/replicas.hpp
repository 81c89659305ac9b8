// Replicas: the engines of one program that run at the same time in this process, each with its own variables, threads
// and host data, and exchange values in collectives. With one replica in all this is the engine alone.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "runtime/engine.hpp"

namespace popart::runtime {

class ThreadCollectives;

class Replicas {
 public:
  // Makes settings.locals engines, for replicas settings.replica and those after it; the settings are those of each,
  // its numbers aside. settings.collectives: of all replicas, to be there as long as this is used; null: these are
  // all replicas of the program, and they are threads. Throws as Engine and as Collectives::connect.
  Replicas(std::shared_ptr<const executable::Executable> executable, const Device &device, const RunSettings &settings);
  ~Replicas();
  Replicas(const Replicas &) = delete;
  Replicas &operator=(const Replicas &) = delete;

  int count() const { return static_cast<int>(engines_.size()); }  // in this process
  Engine &engine(int local) { return *engines_[static_cast<size_t>(local)]; }
  const Engine &engine(int local) const { return *engines_[static_cast<size_t>(local)]; }

  // Runs main once on every replica here, the first one on the calling thread. `streams`: one for each; they are called
  // from the replicas' threads at the same time. When a replica throws, all others end at their next collective, and
  // the exception that came first is thrown; see Engine::run for what variables then hold.
  void run(std::span<StreamSource *const> streams);

 private:
  struct Crew;
  std::unique_ptr<ThreadCollectives> threads_;  // null: those of the settings are used, or there is one replica
  std::vector<std::unique_ptr<Engine>> engines_;
  std::unique_ptr<Crew> crew_;  // null: one replica in all
};

}  // namespace popart::runtime

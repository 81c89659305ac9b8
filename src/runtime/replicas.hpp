// Replicas: the engines of one program that run at the same time in this process. Each has separate variables, threads
// and host data; they exchange values in collectives. With one replica in total this is a single engine.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "runtime/engine.hpp"

namespace popart::runtime {

class ThreadCollectives;

class Replicas {
 public:
  // Makes settings.locals engines, for replica settings.replica and those after it. Each gets these settings, with its
  // own replica numbers. settings.collectives: for all replicas, must outlive this object; null: all replicas of the
  // program are threads of this process. Throws like Engine and Collectives::connect.
  Replicas(std::shared_ptr<const executable::Executable> executable, const Device &device, const RunSettings &settings);
  ~Replicas();
  Replicas(const Replicas &) = delete;
  Replicas &operator=(const Replicas &) = delete;

  int count() const { return static_cast<int>(engines_.size()); }  // in this process
  Engine &engine(int local) { return *engines_[static_cast<size_t>(local)]; }
  const Engine &engine(int local) const { return *engines_[static_cast<size_t>(local)]; }

  // Runs main once on every replica here, the first one on the calling thread. `streams`: one for each replica; they
  // are called from the replicas' threads at the same time. When a replica throws, all others end at their next
  // collective, and the first exception is thrown. Engine::run says what variables then hold.
  void run(std::span<StreamSource *const> streams);

 private:
  struct Crew;
  std::unique_ptr<ThreadCollectives> threads_;  // null: those of the settings are used, or there is one replica
  std::vector<std::unique_ptr<Engine>> engines_;
  std::unique_ptr<Crew> crew_;  // null: one replica in total
};

}  // namespace popart::runtime

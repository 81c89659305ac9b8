// Processes of a job that are threads of one process: a transport for tests of exchanges. Each process calls its own
// transport from its own threads.
//
// Messages are delivered when the receiving channel has been asked a number of times that is drawn from a seed, so that
// those of different channels come in any order; those of one channel come in theirs. Half of them are read from the
// sender's memory when it starts, the others when they are delivered, and only then complete for the sender, as short
// and long messages are on a network. No thread sleeps for a delay. Messages of all processes fail when one receives
// into memory of a message that is not complete.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <vector>

#include "exchange/transport.hpp"

namespace popart::test {

class FakeRanks {
 public:
  // `mostDelay`: of asking.
  FakeRanks(int processes, unsigned seed, int mostDelay = 5);
  ~FakeRanks();

  exchange::Transport &transport(int process);

  // ---- faults
  // Message `number`, of all from one process to the other in the order of their starts, never comes. For its sender it
  // is complete.
  void lose(int from, int to, int number);
  // The process ends: messages of all others fail.
  void kill(int process);

  // What went over the network so far.
  int64_t sentBytes(int process) const;

 private:
  struct Shared;
  class Rank;
  class End;
  class Sender;
  class Receiver;
  std::shared_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace popart::test

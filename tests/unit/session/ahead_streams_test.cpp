// Host data ahead of a program: what the source is asked and when, failures of either side, interrupts. No test waits
// for time to pass.
#include "session/ahead_streams.hpp"

#include <cstring>
#include <future>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <popart/interrupt.hpp>

#include "../support/hand_made.hpp"
#include "runtime/interrupt.hpp"
#include "session/replica_streams.hpp"

namespace popart::session {
namespace {

using namespace test;
using runtime::StreamSource;
using testing::StartsWith;
using Exchange = AheadRule::Exchange;

constexpr std::chrono::minutes kPatience{2};  // only a test that fails waits for so long

// Counts up in each stream and writes down what happens: "a0" first value of stream 0, "a0?" the same ahead of need,
// "b2" third value of stream 1, "A0" first result of stream 0.
struct Source final : StreamSource {
  const void *input(int stream, int64_t) override { return give(stream, ""); }
  const void *inputAhead(int stream, int64_t) override {
    const std::string name = nameOf('a', stream, asked[stream]) + "?";
    if (missing.erase(name)) {
      log += name + "- ";
      return nullptr;
    }
    return give(stream, "?");
  }
  void inputDone(int stream) override {
    EXPECT_EQ(std::this_thread::get_id(), thread);
    value = -1;  // the memory may be used again
    ++done[stream];
  }
  void *output(int stream, int64_t bytes) override {
    EXPECT_EQ(bytes, 4);
    EXPECT_EQ(std::this_thread::get_id(), thread);
    const std::string name = nameOf('A', stream, static_cast<int>(results[stream].size()));
    log += name + " ";
    happen(name);
    results[stream].push_back(0);
    return &results[stream].back();
  }
  bool callsHost() const override { return true; }

  const void *give(int stream, const char *mark) {
    EXPECT_EQ(std::this_thread::get_id(), thread);
    const std::string name = nameOf('a', stream, asked[stream]);
    EXPECT_EQ(asked[stream], done[stream]) << name;
    log += name + mark + " ";
    happen(name);
    value = 100 * stream + asked[stream]++;
    return &value;
  }
  static std::string nameOf(char first, int stream, int number) {
    return static_cast<char>(first + stream) + std::to_string(number);
  }
  void happen(const std::string &name) {
    if (const auto found = at.find(name); found != at.end()) found->second();
  }

  std::string log;
  std::map<std::string, std::function<void()>> at;  // what happens at a value or result
  std::set<std::string> missing;                    // what is not there yet when asked for ahead
  std::map<int, int> asked, done;
  std::map<int, std::vector<int>> results;
  int value = 0;
  const std::thread::id thread = std::this_thread::get_id();
};

int take(StreamSource &streams, int stream) {
  int value = 0;
  std::memcpy(&value, streams.input(stream, 4), 4);
  streams.inputDone(stream);
  return value;
}
void put(StreamSource &streams, int stream, int value) {
  std::memcpy(streams.output(stream, 4), &value, 4);
  streams.outputDone(stream);
}

AheadRules rules(int inputs, int outputs, int depth) {
  AheadRules r;
  for (int i = 0; i < inputs; ++i) r.inputs["in" + std::to_string(i)].depth = depth;
  for (int i = 0; i < outputs; ++i) r.outputs["out" + std::to_string(i)].depth = depth;
  return r;
}

// A loop over `inputs` loads and one store, and its engine.
struct Loop {
  Loop(int batches, int inputCount, const AheadRules &r) : trips(batches), inputs(inputCount) {
    Steps body;
    for (int i = 0; i < inputs; ++i) body.push_back(load(i));
    body.push_back(store(0));
    streams = AheadStreams::make(executableOf({loop(trips, body)}, inputs, 1), r, 1, {});
  }
  // The result of a batch is the sum of its inputs.
  void run(Source &source) {
    streams->run(source, [this](StreamSource &engine) {
      for (int i = 0; i < trips; ++i) {
        int sum = 0;
        for (int s = 0; s < inputs; ++s) sum += take(engine, s);
        compute(i);
        put(engine, 0, sum);
      }
    });
  }
  const int trips, inputs;
  std::unique_ptr<AheadStreams> streams;
  std::function<void(int)> compute = [](int) {};
};

std::string logOf(Loop loop) {
  Source source;
  for (int run = 0; run < 20; ++run) {
    Source again;
    loop.run(again);
    if (run > 0) {
      EXPECT_EQ(again.log, source.log);
    }
    source.log = again.log;
    source.results = again.results;
  }
  for (int i = 0; i < loop.trips; ++i)
    EXPECT_EQ(source.results[0].at(static_cast<size_t>(i)) % 100, loop.inputs * i % 100);
  return source.log;
}

TEST(AheadStreams, OrderOfCallsByDepth) {
  EXPECT_EQ(logOf({4, 1, rules(1, 1, 1)}), "a0 a1? A0 a2? A1 a3? A2 A3 ");
  EXPECT_EQ(logOf({5, 1, rules(1, 1, 2)}), "a0 a1? a2? A0 a3? A1 a4? A2 A3 A4 ");
  EXPECT_EQ(logOf({5, 1, rules(1, 1, 3)}), "a0 a1? a2? a3? A0 a4? A1 A2 A3 A4 ");
  EXPECT_EQ(logOf({2, 1, rules(1, 1, 50)}), "a0 a1? A0 A1 ");
}

TEST(AheadStreams, InputsKeepTheOrderOfTheProgram) {
  EXPECT_EQ(logOf({3, 2, rules(2, 1, 1)}), "a0 b0? a1? b1? A0 a2? b2? A1 A2 ");
  EXPECT_EQ(logOf({3, 2, rules(2, 1, 2)}), "a0 b0? a1? b1? a2? b2? A0 A1 A2 ");
  AheadRules other = rules(2, 1, 1);  // a stream is no further ahead than those in front of it
  other.inputs["in0"].depth = 3;
  EXPECT_EQ(logOf({3, 2, other}), "a0 b0? a1? b1? a2? A0 b2? A1 A2 ");
  other.inputs.erase("in1");
  EXPECT_EQ(logOf({3, 2, other}), "a0 b0 a1? A0 b1 a2? A1 b2 A2 ");
}

TEST(AheadStreams, ExchangesOfTheProgramItself) {
  const auto nested = [](Exchange exchange, int depth) {
    AheadRules r = rules(1, 1, depth);
    r.prefetches = depth > 0;
    r.inputs["in0"].exchange = exchange;
    const auto streams = AheadStreams::make(executableOf({loop(2, {loop(2, {load(0), store(0)})})}, 1, 1), r, 1, {});
    if (!streams) return std::string("none");
    Source source;
    streams->run(source, [](StreamSource &engine) {
      for (int i = 0; i < 4; ++i) put(engine, 0, take(engine, 0));
    });
    return source.log;
  };
  EXPECT_EQ(nested(Exchange::JustInTime, 0), "none");
  EXPECT_EQ(nested(Exchange::InnerLoop, 0), "a0 a1 A0 A1 a2 a3 A2 A3 ");
  EXPECT_EQ(nested(Exchange::Loops, 0), "a0 a1 A0 a2 A1 a3 A2 A3 ");
  EXPECT_EQ(nested(Exchange::InnerLoop, 1), "a0 a1? A0 a2? a3? A1 A2 A3 ");
  EXPECT_EQ(nested(Exchange::Loops, 1), "a0 a1? a2? A0 a3? A1 A2 A3 ");
}

TEST(AheadStreams, AValueThatIsNotThereYetIsAskedForAgainWhenItIsNeeded) {
  Loop loop(4, 2, rules(2, 1, 1));
  Source source;
  source.missing = {"a1?", "b2?", "a3?"};
  loop.run(source);
  EXPECT_EQ(source.log, "a0 b0? a1?- A0 a1 b1? a2? b2?- A1 b2 a3?- A2 a3 b3? A3 ");
  EXPECT_EQ(source.results[0], (std::vector<int>{100, 102, 104, 106}));
}

TEST(AheadStreams, TheSourceIsAskedWhileTheProgramComputes) {
  Loop loop(3, 1, rules(1, 1, 1));
  std::vector<std::promise<void>> entered(3);
  Source source;
  for (int i = 0; i < 3; ++i)
    source.at["a" + std::to_string(i)] = [&, i] { entered[static_cast<size_t>(i)].set_value(); };
  loop.compute = [&](int i) {  // a batch does not end before the next one is asked for
    if (i == 2) return;
    EXPECT_EQ(entered[static_cast<size_t>(i) + 1].get_future().wait_for(kPatience), std::future_status::ready);
  };
  loop.run(source);
}

TEST(AheadStreams, ResultsAreHandedOverWhileTheProgramComputes) {
  Loop loop(3, 0, rules(0, 1, 1));
  std::promise<void> handed;
  Source source;
  source.at["A0"] = [&] { handed.set_value(); };
  loop.compute = [&](int i) {
    if (i != 1) return;
    EXPECT_EQ(handed.get_future().wait_for(kPatience), std::future_status::ready);
  };
  loop.run(source);
  EXPECT_EQ(source.log, "A0 A1 A2 ");
}

TEST(AheadStreams, ProgramsThatNothingIsAheadOf) {
  const auto e = executableOf({loop(2, {load(0), store(0)})}, 1, 1);
  EXPECT_EQ(AheadStreams::make(e, {}, 1, {}), nullptr);
  EXPECT_EQ(AheadStreams::make(e, rules(1, 1, 0), 1, {}), nullptr);
  EXPECT_EQ(AheadStreams::make(executableOf({load(0), store(0)}, 1, 1), rules(1, 1, 3), 1, {}), nullptr);
  EXPECT_NE(AheadStreams::make(e, rules(1, 0, 1), 1, {}), nullptr);
}

TEST(AheadStreams, BytesOfAllSlots) {
  const auto e = executableOf({loop(2, {load(0), store(0)})}, 1, 1);
  const int64_t value = e.inputs[0].info.nbytes(), result = e.outputs[0].info.nbytes();
  EXPECT_EQ(AheadStreams::make(e, rules(1, 0, 4), 1, {})->bytes(), 4 * value + result);
  EXPECT_EQ(AheadStreams::make(e, rules(1, 0, 4), 2, {})->bytes(), 2 * (4 * value + result));
}

TEST(AheadStreams, LoadsThatAreNotCertainAreAskedForWhenTheyAreNeeded) {
  const auto streams =
      AheadStreams::make(executableOf({loop(3, {load(0), branch({load(1)}), store(0)})}, 2, 1), rules(2, 1, 2), 1, {});
  Source source;
  streams->run(source, [](StreamSource &engine) {
    for (int i = 0; i < 3; ++i) {
      const int value = take(engine, 0);
      put(engine, 0, i == 1 ? take(engine, 1) : value);
    }
  });
  EXPECT_EQ(source.log, "a0 A0 a1 b0 A1 a2 A2 ");
  EXPECT_EQ(source.results[0], (std::vector<int>{0, 100, 2}));
}

// ---- failures: what comes first in the program ends the run

struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};
std::function<void()> breaks(const std::string &what) {
  return [what] { throw Broken(what); };
}
std::string brokenBy(const std::function<void()> &run) {
  try {
    run();
  } catch (const Broken &e) {
    return e.what();
  }
  return "nothing";
}
struct Stopped final : RunInterrupt {};

TEST(AheadStreams, AFailedInputEndsTheRunWhereItIsNeeded) {
  Loop loop(5, 1, rules(1, 1, 2));
  for (int run = 0; run < 20; ++run) {
    Source source;
    source.at["a2"] = breaks("no a2");
    EXPECT_EQ(brokenBy([&] { loop.run(source); }), "no a2");
    EXPECT_EQ(source.log, "a0 a1? a2? A0 A1 ");
  }
  EXPECT_EQ(logOf(std::move(loop)), "a0 a1? a2? A0 a3? A1 a4? A2 A3 A4 ");
}

TEST(AheadStreams, AFailedResultComesBeforeInputsOfLaterBatches) {
  Loop loop(5, 1, rules(1, 1, 2));
  for (int run = 0; run < 20; ++run) {
    Source source;
    source.at["a2"] = breaks("no a2");
    source.at["A1"] = breaks("no A1");
    EXPECT_EQ(brokenBy([&] { loop.run(source); }), "no A1");
    EXPECT_EQ(source.log, "a0 a1? a2? A0 A1 ");
  }
}

TEST(AheadStreams, AFailedResultComesBeforeLaterFailuresOfTheProgram) {
  Loop loop(3, 1, rules(1, 1, 1));
  loop.compute = [](int i) {
    if (i == 1) throw std::logic_error("the program");
  };
  for (int run = 0; run < 20; ++run) {
    Source source;
    EXPECT_THROW(loop.run(source), std::logic_error);
    EXPECT_EQ(source.log, "a0 a1? A0 a2? ");
    EXPECT_EQ(source.results[0], std::vector<int>{0});
    Source other;
    other.at["A0"] = breaks("no A0");
    EXPECT_EQ(brokenBy([&] { loop.run(other); }), "no A0");
  }
}

TEST(AheadStreams, InterruptsEndTheRunAtOnce) {
  Loop loop(3, 1, rules(1, 1, 1));
  loop.compute = [](int) {
    for (runtime::InterruptPace pace;;) pace.iteration();  // for ever
  };
  Source source;
  source.at["a1"] = [] { throw Stopped(); };
  EXPECT_THROW(loop.run(source), Stopped);
  setInterruptCheck([] { throw Stopped(); });
  Source other;
  EXPECT_THROW(loop.run(other), Stopped);
  setInterruptCheck(nullptr);
  loop.compute = [](int) {};
  EXPECT_EQ(logOf(std::move(loop)), "a0 a1? A0 a2? A1 A2 ");
}

// ---- replicas

TEST(AheadStreams, ReplicasAreServedInOrder) {
  const auto e = executableOf({loop(3, {load(0), load(1), store(0)})}, 2, 1);
  const std::vector<bool> broadcast{false, true};
  const auto streams = AheadStreams::make(e, rules(2, 1, 1), 2, broadcast);
  ReplicaStreams lanes(2, broadcast, 1);
  for (int run = 0; run < 20; ++run) {
    Source source;
    streams->run(source, [&](StreamSource &engine) {
      const auto of = lanes.lanes(engine);
      const auto work = [](StreamSource &lane) {
        for (int i = 0; i < 3; ++i) {
          const int own = take(lane, 0);
          put(lane, 0, own + take(lane, 1));
        }
      };
      std::thread second([&] { work(*of[1]); });
      work(*of[0]);
      second.join();
    });
    EXPECT_THAT(source.log, StartsWith("a0 a1? b0? "));
    EXPECT_EQ(source.results[0], (std::vector<int>{100, 101, 103, 104, 106, 107}));
    EXPECT_EQ(source.asked[0], 6);
    EXPECT_EQ(source.asked[1], 3);
  }
}

}  // namespace
}  // namespace popart::session

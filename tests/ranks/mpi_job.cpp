// One process of a job on MPI. Usage: popart_mpi_job WHAT [ARGUMENT]; test_mpi.py says what is expected of each. Ends
// with code 0 when all is right; what is wrong is said on standard error.
#include <signal.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <thread>

#include <popart/error.hpp>

#include "exchange/exchange.hpp"
#include "exchange/load_mpi.hpp"
#include "unit/exchange/job.hpp"

namespace popart::exchange {
namespace {

using std::chrono::milliseconds;

// A line of its own, whatever others write.
void say(const std::string &text) { std::cout << (text + "\n") << std::flush; }

void waitFor(Channel &channel, const Transport &transport) {
  for (;;) switch (channel.test()) {
      case Channel::State::Complete:
        return;
      case Channel::State::Failed:
        throw runtime_error("a message failed: {}", transport.failure() ? transport.failure()->text : "no reason");
      case Channel::State::Pending:
        std::this_thread::yield();
    }
}

// Bytes of one message in pieces, with bytes between them that stay as they are.
class Memory {
 public:
  Memory(int64_t bytes, int pieces) : all_(static_cast<size_t>(bytes + kGap * (pieces + 1)), kMark) {
    int64_t at = kGap;
    for (int p = 0; p < pieces; ++p) {
      const int64_t size = bytes * (p + 1) / pieces - bytes * p / pieces;
      pieces_.push_back({all_.data() + at, size});
      at += size + kGap;
    }
  }
  std::span<const Piece> pieces() const { return pieces_; }
  // Other bytes for each seed. Of a receiver: whether they have come, and no others.
  void fill(unsigned seed) {
    uint32_t value = seed * 40'503u;
    for (const Piece &p : pieces_)
      for (int64_t i = 0; i < p.bytes; ++i)
        static_cast<unsigned char *>(p.data)[i] = static_cast<unsigned char>((value += 2'654'435'761u) >> 24);
  }
  bool operator==(const Memory &other) const { return all_ == other.all_; }

 private:
  static constexpr int64_t kGap = 24;
  static constexpr unsigned char kMark = 0xa5;
  std::vector<unsigned char> all_;
  std::vector<Piece> pieces_;
};

// Channels of many sizes in both directions with all others, all under way at the same time, three times.
void channels(MpiJob &job) {
  const std::unique_ptr<Transport> transport = job.transport();
  struct Side {
    int from, to;
    unsigned seed;  // the same on both ends
    Memory memory, expected;
    std::unique_ptr<Channel> channel = nullptr;
  };
  std::vector<std::unique_ptr<Side>> sides;
  const int own = transport->process();
  for (int peer = 0; peer < transport->processes(); ++peer)
    for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{100}, int64_t{4096}, int64_t{70'001}, int64_t{8} << 20})
      for (const int pieces : {1, 3, 40})
        for (const bool sends : {true, false}) {
          if (peer == own || (bytes > 100'000 && pieces != 3)) continue;
          auto side = std::make_unique<Side>(Side{sends ? own : peer, sends ? peer : own,
                                                  static_cast<unsigned>(bytes * 64 + pieces), Memory(bytes, pieces),
                                                  Memory(bytes, pieces)});
          const auto tag = static_cast<uint64_t>(sides.size());
          side->channel = sends ? transport->sendChannel(peer, tag, side->memory.pieces())
                                : transport->receiveChannel(peer, tag, side->memory.pieces());
          sides.push_back(std::move(side));
        }
  for (unsigned turn = 0; turn < 3; ++turn) {
    for (const auto &side : sides) {
      const unsigned seed = side->seed + turn * 100 + static_cast<unsigned>(side->from * 10 + side->to);
      side->expected.fill(seed);
      if (side->from == own) side->memory.fill(seed);
    }
    for (const auto &side : sides) side->channel->start();
    for (const auto &side : sides) waitFor(*side->channel, *transport);
    for (const auto &side : sides)
      check(side->memory == side->expected, "turn {}: a message from {} to {} has other bytes", turn, side->from,
            side->to);
  }
  transport->barrier(milliseconds(20'000));
}

ReplicaLayout layoutOf(const Transport &transport, int each) {
  return exchange::layoutOf(std::vector<int>(static_cast<size_t>(transport.processes()), each));
}

// FLOAT operations of all kinds against the tree over single members, with both algorithms.
void operations(MpiJob &job) {
  const std::unique_ptr<Transport> transport = job.transport();
  for (const int each : {1, 2, 3})
    for (const LinkCost &cost : {kForDirect, kForHalving}) {
      const ReplicaLayout layout = layoutOf(*transport, each);
      const int own = transport->process();
      struct Part {
        std::vector<Values> inputs, results, expected;
      };
      std::vector<std::unique_ptr<Part>> parts;
      Exchange exchange(*transport, layout, {.cost = cost, .spin = false});
      for (const ExchangeSpec &spec : specsOf(layout.replicas())) {
        if (spec.type != DataType::FLOAT) continue;
        const GroupValues values(spec, 5);
        const int first = layout.first(own), count = layout.count(own);
        auto part = std::make_unique<Part>(Part{values.inputs(first, count), {}, values.results(first, count)});
        for (size_t r = 0; r < part->expected.size(); ++r)
          part->results.push_back(valuesOf(spec.resultElements, kUnwritten));
        ExchangeMemory memory;
        const auto addresses = [](std::vector<Values> &from, std::vector<std::vector<void *>> &to) {
          for (Values &values : from) {
            to.emplace_back();
            for (std::vector<float> &operand : values) to.back().push_back(operand.data());
          }
        };
        addresses(part->inputs, memory.inputs);
        addresses(part->results, memory.results);
        exchange.add(spec, memory, static_cast<int>(parts.size()), "operation " + std::to_string(parts.size()));
        parts.push_back(std::move(part));
      }
      exchange.connect();
      for (size_t i = 0; i < parts.size(); ++i) exchange.start(static_cast<int>(i));
      for (size_t i = 0; i < parts.size(); ++i) exchange.wait(static_cast<int>(i));
      for (size_t i = 0; i < parts.size(); ++i)
        for (size_t r = 0; r < parts[i]->results.size(); ++r)
          for (size_t o = 0; o < parts[i]->results[r].size(); ++o) {
            const std::vector<float> &got = parts[i]->results[r][o], &expected = parts[i]->expected[r][o];
            check(got.empty() || std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0,
                  "{} replicas each, operation {}: result {} has other bits", each, i, r);
          }
      transport->barrier(milliseconds(20'000));
    }
}

// A sum of all processes that takes some time on the way.
struct Sum {
  explicit Sum(Transport &transport)
      : layout(layoutOf(transport, 1)), value(1 << 20, 1), exchange(transport, layout, {.spin = false}) {
    const auto n = static_cast<int64_t>(value.size());
    exchange.add({Operation::AllReduce, executable::Join::Add, DataType::FLOAT, layout.replicas(), 1, 0, 0, {n}, {n}},
                 {{{value.data()}}, {{value.data()}}}, 0, "sum");
    exchange.connect();
  }
  ReplicaLayout layout;
  std::vector<float> value;
  Exchange exchange;
};

// Process 1 fails while the others wait for it; then all go on with another transport.
void abort(MpiJob &job) {
  const std::unique_ptr<Transport> transport = job.transport();
  {
    Sum sum(*transport);
    sum.exchange.run(0);
    try {
      if (job.process() == 1) sum.exchange.fail("index 9 is out of range");
      sum.exchange.run(0);
      say("no failure");
    } catch (const runtime_error &e) {
      say(e.what());
    }
  }
  try {
    transport->barrier(milliseconds(20'000));
    say("no failure");
  } catch (const runtime_error &e) {
    say(e.what());
  }
  const std::unique_ptr<Transport> next = job.transport();
  Sum sum(*next);
  sum.exchange.run(0);
  check(sum.value.front() == static_cast<float>(job.processes()), "the sum after the failure is {}", sum.value.front());
}

void gather(MpiJob &job) {
  const std::unique_ptr<Transport> transport = job.transport();
  const auto textOf = [](int process, int turn) {
    return std::string(static_cast<size_t>(process * 100'000 + turn), static_cast<char>('a' + process));
  };
  for (int turn = 0; turn < 20; ++turn) {
    const std::vector<std::string> all = transport->gather(textOf(job.process(), turn), milliseconds(20'000));
    check(all.size() == static_cast<size_t>(job.processes()), "got {} texts", all.size());
    for (int p = 0; p < job.processes(); ++p)
      check(all[static_cast<size_t>(p)] == textOf(p, turn), "turn {}: the text of process {} is another", turn, p);
  }
}

// The process with the last number, or 0, does not come.
void absent(MpiJob &job, const std::string &who) {
  const int missing = who == "first" ? 0 : job.processes() - 1;
  const std::unique_ptr<Transport> transport = job.transport();
  if (job.process() == missing) {
    std::this_thread::sleep_for(milliseconds(4'000));
    return;
  }
  try {
    transport->barrier(milliseconds(300));
    say("no failure");
  } catch (const runtime_error &e) {
    say(e.what());
  }
}

// Process 1 ends, by a signal or by leaving MPI, while the others wait for it.
void lose(MpiJob &job, const std::string &how) {
  const std::unique_ptr<Transport> transport = job.transport();
  Sum sum(*transport);
  sum.exchange.run(0);
  if (job.process() == 1) {
    if (how == "kill") ::raise(SIGKILL);
    leaveMpi(3, milliseconds(500));
  }
  sum.exchange.run(0);
}

int run(const std::string &what, const std::string &argument) {
  MpiSettings settings{.timeout = milliseconds(20'000)};
  if (what == "channels" && !argument.empty()) settings.messageBytes = std::stoll(argument);
  if (what == "join") settings.processes = std::stoi(argument);
  MpiJob &job = joinMpi(settings);
  const std::map<std::string, std::function<void()>> all{
      {"channels", [&] { channels(job); }},
      {"operations", [&] { operations(job); }},
      {"abort", [&] { abort(job); }},
      {"gather", [&] { gather(job); }},
      {"absent", [&] { absent(job, argument); }},
      {"lose", [&] { lose(job, argument); }},
      {"join", [&] { say("joined"); }},
  };
  all.at(what)();
  return 0;
}

}  // namespace
}  // namespace popart::exchange

int main(int count, char **words) {
  int code = 1;
  try {
    code = popart::exchange::run(count > 1 ? words[1] : "", count > 2 ? words[2] : "");
  } catch (const std::exception &e) {
    std::cerr << std::string("failed: ") + e.what() + "\n";
  }
  return code;  // and leaves the job
}

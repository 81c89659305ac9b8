// See choose_lanes.hpp. A section takes as long as its slowest lane. A value that a loop carries from one lane to
// another is copied after each iteration, because no lane may write memory that another one reads.
#include "lower/choose_lanes.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <unordered_map>

#include <popart/logging.hpp>

#include "executable/cost.hpp"
#include "executable/layout.hpp"
#include "lower/program_tensors.hpp"
#include "schedule/lanes.hpp"

namespace popart::lower {
namespace {

using schedule::LaneGroup;
using schedule::Schedule;
using schedule::Section;

// Least gains, as fractions of the time in order. Lanes of stages need memory, and predictions are not exact to a
// percent; recurrent loops have little state.
constexpr double kLeastGain = 0.05, kLeastGainOfLoops = 0.03;

class Costs {
 public:
  explicit Costs(const Kernels &kernels) : kernels_(kernels) {}

  double of(const Op &op, int threads) const { return of(op, threads, false).nanoseconds; }

 private:
  struct Time {
    double nanoseconds = 0;
    bool isShared = false;  // used by several threads
  };

  Time of(const Op &op, int threads, bool staysInCache) const {
    if (const executable::Kernel *kernel = kernels_.find(op)) {
      const double time = executable::elapsedNanoseconds(*kernel, threads, staysInCache);
      return {time, time < executable::elapsedNanoseconds(*kernel, 1, staysInCache)};
    }
    if (!op.has(Trait::Call)) return {};
    Time longest;
    for (const Graph *called : op.getCalledGraphs()) {
      const bool isCached = staysInCache || (op.is(Role::Loop) && executable::staysInCache(bytesOf(*called)));
      Time sum;
      for (const Op *inner : called->ops()) {
        const Time time = of(*inner, threads, isCached);
        sum.nanoseconds += time.nanoseconds;
        sum.isShared |= time.isShared;
      }
      if (longest.nanoseconds <= sum.nanoseconds) longest = sum;
    }
    if (!op.is(Role::Loop)) return longest;
    if (longest.isShared) longest.nanoseconds += executable::exchangeNanoseconds(stateBytes(op));
    longest.nanoseconds *= static_cast<double>(op.hasAttr("trip_count") ? op.attrInt("trip_count") : 1);
    return longest;
  }

  // Bytes that each iteration passes to the next one, without sums of which it changes only a row.
  static int64_t stateBytes(const Op &loop) {
    int64_t sum = 0;
    for (const Passed &c : passedBy(loop)) {
      const Op *maker = c.graph->tensor(c.next).getProducerUnsafe();
      if (c.next != c.inner && maker && !maker->is(Role::DynamicAdd)) sum += c.graph->info(c.next).nbytes();
    }
    return sum;
  }

  // Bytes of all tensors of the graph.
  int64_t bytesOf(const Graph &graph) const {
    const auto [known, fresh] = bytes_.try_emplace(&graph, 0);
    if (!fresh) return known->second;
    int64_t sum = 0;
    for (const Tensor *t : graph.tensors()) sum += executable::storageBytes(t->info, executable::layoutOf(*t));
    for (const Op *op : graph.ops())
      if (op->has(Trait::Call) && !op->has(Trait::Internal))
        for (const Graph *called : op->getCalledGraphs()) sum += bytesOf(*called);
    return bytes_[&graph] = sum;
  }

  const Kernels &kernels_;
  mutable std::unordered_map<const Graph *, int64_t> bytes_;
};

class SectionCosts {
 public:
  SectionCosts(const Graph &graph, const std::vector<OpIndex> &order, const Section &section, const Costs &costs)
      : graph_(graph), order_(order), section_(section), costs_(costs) {}

  // Time of all ops in order, each on all threads.
  double inOrder(int threads) const {
    double sum = 0;
    for (size_t lane = 0; lane < section_.lanes.size(); ++lane) sum += of(lane, threads);
    return sum;
  }

  // The fastest groups of lanes, with the predicted time of the slowest one.
  std::pair<std::vector<LaneGroup>, double> best(int threads) const {
    std::pair<std::vector<LaneGroup>, double> result{{}, 0};
    const auto most = std::min(section_.lanes.size(), static_cast<size_t>(threads));
    for (size_t count = 2; count <= most; ++count) {
      std::vector<LaneGroup> groups = balanced(count);
      const double time = shareThreads(groups, threads);
      if (result.first.empty() || time < result.second) result = {std::move(groups), time};
    }
    result.second += executable::wakeUpNanoseconds(threads);
    return result;
  }

 private:
  double of(size_t lane, int threads) const {
    double sum = 0;
    for (int i = lane == 0 ? section_.begin : section_.lanes[lane - 1].end; i < section_.lanes[lane].end; ++i)
      sum += costs_.of(graph_.op(order_[static_cast<size_t>(i)]), threads);
    return sum;
  }
  double of(const LaneGroup &group, int threads) const {
    double sum = 0;
    for (const size_t lane : group.lanes) sum += of(lane, threads);
    return sum;
  }

  // Assigns the longest lanes first, each to the group with the least time.
  std::vector<LaneGroup> balanced(size_t count) const {
    std::vector<double> times(section_.lanes.size()), sums(count);
    for (size_t lane = 0; lane < times.size(); ++lane) times[lane] = of(lane, 1);
    std::vector<size_t> order(times.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return times[a] > times[b]; });
    std::vector<LaneGroup> groups(count);
    for (const size_t lane : order) {
      const auto least = static_cast<size_t>(std::ranges::min_element(sums) - sums.begin());
      groups[least].lanes.push_back(lane);
      sums[least] += times[lane];
    }
    for (LaneGroup &group : groups) std::ranges::sort(group.lanes);
    std::erase_if(groups, [](const LaneGroup &group) { return group.lanes.empty(); });
    return groups;
  }

  // Gives each thread to the slowest group; returns the final time of the slowest group.
  double shareThreads(std::vector<LaneGroup> &groups, int threads) const {
    std::vector<double> times;
    for (const LaneGroup &group : groups) times.push_back(of(group, 1));
    for (int left = threads - static_cast<int>(groups.size()); left > 0; --left) {
      const auto slowest = static_cast<size_t>(std::ranges::max_element(times) - times.begin());
      times[slowest] = of(groups[slowest], ++groups[slowest].threads);
    }
    return std::ranges::max(times);
  }

  const Graph &graph_;
  const std::vector<OpIndex> &order_;
  const Section &section_;
  const Costs &costs_;
};

// Nanoseconds of the copies after each iteration that lanes require: for values that one lane makes for the next
// iteration while another one reads those of this iteration.
double copiesOf(const Graph &graph, const Op *loop, const std::vector<OpIndex> &order, const Section &section) {
  if (!loop) return 0;
  std::vector<int> laneOf(graph.opSlots(), -1);
  int position = section.begin;
  for (size_t lane = 0; lane < section.lanes.size(); ++lane)
    for (; position < section.lanes[lane].end; ++position)
      laneOf[order[static_cast<size_t>(position)].value] = static_cast<int>(lane);
  double sum = 0;
  for (const Passed &c : passedBy(*loop)) {
    if (c.inner == c.next || !graph.tensor(c.next).hasProducer()) continue;
    const int maker = laneOf[graph.tensor(c.next).producerIndex().value];
    const auto &uses = graph.tensor(c.inner).uses();
    if (maker >= 0 && std::ranges::any_of(uses, [&](const Use &use) {
          const int reader = laneOf[use.op.value];
          return reader >= 0 && reader != maker;
        }))
      sum += executable::copyNanoseconds(graph.info(c.inner).nbytes());
  }
  return sum;
}

using Loops = std::map<const Graph *, const Op *>;

Loops loopsByBody(const Ir &program) {
  Loops loops;
  for (const Graph *graph : schedule::programGraphs(program))
    for (const Op *op : graph->ops())
      if (op->is(Role::Loop)) loops.emplace(op->getCalledGraphs().front(), op);
  return loops;
}

// How often a graph runs in a run of the program; loops of unknown length count once.
double runsOf(const Graph &graph, const Loops &loops) {
  const auto loop = loops.find(&graph);
  if (loop == loops.end()) return 1;
  const Op &op = *loop->second;
  return static_cast<double>(op.hasAttr("trip_count") ? op.attrInt("trip_count") : 1) * runsOf(op.getGraph(), loops);
}

// Decides each section separately.
Schedule chooseLoops(const Ir &program, const Schedule &plain, const Costs &costs, int threads, LaneRule rule) {
  const auto choose = [&](const Graph &graph, std::vector<OpIndex> &order, Section &section) {
    const SectionCosts sectionCosts(graph, order, section, costs);
    const auto [groups, together] = sectionCosts.best(threads);
    const double inOrder = sectionCosts.inOrder(threads);
    const bool pays = rule == LaneRule::Always || together < (1 - kLeastGainOfLoops) * inOrder;
    logging::devicex::info("{} loops of {} run {}: predicted {} us at the same time, {} us in order, on {} threads",
                           section.lanes.size(), graph.getGraphString(), pays ? "at the same time" : "in order",
                           std::llround(together / 1e3), std::llround(inOrder / 1e3), threads);
    if (pays) section = schedule::joinLanes(order, section, groups);
    return pays;
  };
  return schedule::findLoopLanes(
      program, plain, [&](const Op &op) { return costs.of(op, 1); }, choose);
}

}  // namespace

Schedule chooseLanes(const Ir &program, const Schedule &plain, const Kernels &kernels, int threads, LaneRule rule) {
  if (threads < 2 || rule == LaneRule::Never) return plain;
  const Costs costs(kernels);
  Schedule result = schedule::findLanes(program, plain, [&](const Op &op) { return costs.of(op, 1); });
  if (result.sections.empty()) return chooseLoops(program, plain, costs, threads, rule);
  const Loops loops = loopsByBody(program);
  double inOrder = 0, together = 0;
  for (auto &[id, sections] : result.sections) {
    const Graph &graph = program.getGraph(id);
    const double runs = runsOf(graph, loops);
    const auto loop = loops.find(&graph);
    std::vector<OpIndex> &order = result.orders.at(id);
    for (Section &section : sections) {
      const SectionCosts sectionCosts(graph, order, section, costs);
      const auto [groups, time] = sectionCosts.best(threads);
      inOrder += runs * sectionCosts.inOrder(threads);
      together +=
          runs * (time + copiesOf(graph, loop == loops.end() ? nullptr : loop->second, order, section) / threads);
      section = schedule::joinLanes(order, section, groups);
    }
  }
  const bool pays = rule == LaneRule::Always || together < (1 - kLeastGain) * inOrder;
  logging::devicex::info("stages of a pipeline run {}: predicted {} us at the same time, {} us in order, on {} threads",
                         pays ? "at the same time" : "in order", std::llround(together / 1e3),
                         std::llround(inOrder / 1e3), threads);
  return pays ? result : plain;
}

}  // namespace popart::lower

// See profile.hpp.
#include "api/profile.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backends/ipu_model/estimate.hpp"
#include "base/environment.hpp"
#include "exchange/schedule.hpp"
#include "executable/collectives.hpp"
#include "executable/cost.hpp"
#include "ir/layer_names.hpp"
#include "lower/fused_ops.hpp"
#include "session/compiled_program.hpp"

namespace popart {
namespace {

using executable::Executable;
using Json = nlohmann::ordered_json;
using Kind = executable::Step::Kind;

constexpr double kHostHertz = 1e9;  // a tick of the host is a nanosecond

bool isModel(const DeviceInfo &device) { return device.getType() == DeviceType::IpuModel; }

// Null for the CPU.
const ipu_model::Machine *machineOf(const DeviceInfo &device) { return ipu_model::findMachine(device.getIpuVersion()); }

double hertzOf(const DeviceInfo &device) {
  const ipu_model::Machine *machine = machineOf(device);
  return isModel(device) && machine ? machine->hertz : kHostHertz;
}

// The tiles of the IPUs of one replica.
int64_t tilesOfReplica(const Executable &executable, const DeviceInfo &device) {
  return std::max<int64_t>(device.getNumIpus() / executable.memory.replicas, 1) * device.getTilesPerIPU();
}

// Empty for devices that are not IPU models.
std::optional<ipu_model::Estimate> estimateOf(const Executable &executable, const DeviceInfo &device) {
  const ipu_model::Machine *machine = machineOf(device);
  if (!isModel(device) || !machine) return std::nullopt;
  return ipu_model::estimate(executable, *machine, tilesOfReplica(executable, device));
}

// ---- memory over the program ----------------------------------------------------------------------

struct Life {
  int first = -1, last = -1;
  void touch(int time) {
    if (first < 0) first = time;
    first = std::min(first, time);
    last = std::max(last, time);
  }
};

// When each buffer is used, as numbers of steps. The steps of a loop count once, and buffers that a loop shares with
// its surroundings live as long as the loop.
class Lives {
 public:
  explicit Lives(const Executable &executable) : executable_(executable), lives_(executable.buffers.size()) {
    walk(executable.main);
  }
  const std::vector<std::string> &steps() const { return steps_; }
  const Life &of(size_t buffer) const { return lives_[buffer]; }

  // The bytes of the arena that hold a value during a step.
  int64_t liveBytes(int time) const {
    std::vector<std::pair<int64_t, int64_t>> spans;
    for (size_t i = 0; i < lives_.size(); ++i) {
      const executable::Buffer &buffer = executable_.buffers[i];
      if (buffer.place == executable::Buffer::Place::Arena && lives_[i].first >= 0 && lives_[i].first <= time &&
          time <= lives_[i].last)
        spans.emplace_back(buffer.offset, buffer.offset + buffer.bytes);
    }
    std::ranges::sort(spans);
    int64_t bytes = 0, end = 0;
    for (const auto &[from, to] : spans) {
      bytes += std::max<int64_t>(0, to - std::max(from, end));
      end = std::max(end, to);
    }
    return bytes;
  }

 private:
  void walk(const executable::Program &program) {
    for (const executable::Step &step : program.steps) {
      const std::vector<Life> before = step.programs.empty() ? std::vector<Life>{} : lives_;
      const int start = static_cast<int>(steps_.size());
      steps_.push_back(step.name);
      for (const auto &inner : step.programs) walk(*inner);
      const int end = static_cast<int>(steps_.size()) - 1;
      for (size_t i = 0; i < before.size(); ++i)
        if (before[i].first >= 0 && lives_[i].last > before[i].last) lives_[i].touch(end);
      const auto touch = [&](executable::BufferIndex buffer) {
        if (buffer < 0) return;
        lives_[static_cast<size_t>(buffer)].touch(start);
        lives_[static_cast<size_t>(buffer)].touch(end);
      };
      std::ranges::for_each(step.in, touch);
      std::ranges::for_each(step.out, touch);
      for (const auto &scan : step.scans) touch(scan.to);
      for (const auto *moves : {&step.initial, &step.carried, &step.results})
        for (const auto &move : *moves) touch(move.from), touch(move.to);
    }
  }

  const Executable &executable_;
  std::vector<Life> lives_;
  std::vector<std::string> steps_;
};

const char *placeName(executable::Buffer::Place place) {
  constexpr const char *kNames[] = {"arena", "variable", "constant", "row"};
  return kNames[static_cast<size_t>(place)];
}

// Enough information to plan the exchange between processes. `channel`: the number shared by the step that publishes
// and the step that waits; -1: one step does both. The step that publishes has no results.
Json collectiveJson(const executable::CollectiveSpec &spec) {
  return {{"operation", exchange::nameOf(exchange::exchangeSpec(spec).operation)},
          {"type", getDataTypeInfo(spec.type).name},
          {"groupSize", spec.groupSize},
          {"stride", spec.stride},
          {"elements", spec.elements},
          {"bytes",
           std::accumulate(spec.elements.begin(), spec.elements.end(), int64_t{0}) * getDataTypeInfo(spec.type).nbytes},
          {"resultElements", exchange::exchangeSpec(spec).resultElements},
          {"isPublished", spec.resultElements.empty()},
          {"keeps", spec.join == executable::Join::Keep},
          {"channel", spec.channel}};
}

// The steps of the program as a tree. Step numbers are those of StepTimes.
class ProgramTree {
 public:
  // `lowered`: the program that the steps were made from. A step has the name of its op.
  explicit ProgramTree(const Ir &lowered) {
    for (const Graph *graph : lowered.getAllGraphs())
      for (const Op *op : graph->ops())
        if (std::vector<std::string> fused = lower::fusedOps(*op); !fused.empty()) fused_[op->str()] = std::move(fused);
  }
  Json of(const executable::Program &program) {
    Json steps = Json::array();
    for (const executable::Step &step : program.steps) steps.push_back(of(step));
    return steps;
  }

 private:
  Json of(const executable::Step &step) {
    constexpr const char *kTypes[] = {"OnTileExecute", "StreamCopy", "StreamCopy", "StreamCopy", "StreamCopy",
                                      "DoExchange",    "Repeat",     "If",         "Sequence"};
    const LayerOf layer = layerOf(step.layer);
    if (!step.layer.empty()) phase_ = layer.phase;  // a step without a name belongs to the scope around it
    const bool isHost = step.kind == Kind::HostLoad || step.kind == Kind::HostStore;
    Json entry = {{"type", kTypes[static_cast<size_t>(step.kind)]},
                  {"number", number_++},
                  {"name", step.name},
                  {"title", stepTitle(step.name, step.layer)},
                  {"layer", layer.layer},
                  {"phase", isHost ? "host" : phaseName(phase_)},
                  {"kernel", runtime::kernelName(step)}};
    if (const auto fused = fused_.find(step.name); fused != fused_.end()) entry["fused"] = fused->second;
    if (step.kind == Kind::Kernel) {
      entry["flops"] = step.kernel->flops();
      entry["bytes"] = step.kernel->bytes();
      entry["tasks"] = step.kernel->tasks();
      entry["predictedNanoseconds"] = executable::predictedNanoseconds(step);
    } else if (step.bytes > 0) {
      entry["bytes"] = isHost ? step.bytes : 2 * step.bytes;  // read and written
    }
    if (isHost && step.canShareHostMemory) entry["canShareHostMemory"] = true;
    if (const executable::CollectiveSpec *spec = step.kernel ? step.kernel->collectiveSpec() : nullptr)
      entry["collective"] = collectiveJson(*spec);
    if (step.kind == Kind::Loop) entry["tripCount"] = step.tripCount;
    Json children = Json::array();
    for (const auto &inner : step.programs)
      children.push_back({{"type", "Sequence"}, {"name", ""}, {"children", of(*inner)}});
    entry["children"] = std::move(children);
    return entry;
  }

  std::map<std::string, std::vector<std::string>> fused_;  // by step
  int number_ = 0;
  TrainingPhase phase_ = TrainingPhase::Forward;
};

Json fallbacksJson(const Executable &executable) {
  Json fallbacks = Json::array();
  for (const executable::Fallback &fallback : executable.fallbacks)
    fallbacks.push_back(
        {{"op", fallback.op}, {"layer", fallback.layer}, {"backend", fallback.backend}, {"reason", fallback.reason}});
  return fallbacks;
}

Json memoryJson(const Executable &executable) {
  const executable::MemoryReport &memory = executable.memory;
  return {{"arena", memory.arenaBytes},        {"largestLiveSet", memory.largestLiveSetBytes},
          {"variables", memory.variableBytes}, {"constants", memory.constantBytes},
          {"scratch", memory.scratchBytes},    {"exchange", memory.exchangeBytes},
          {"remote", memory.remoteBytes},      {"total", memory.total()}};
}

Json graphJson(const Executable &executable) {
  const Lives lives(executable);
  Json variables = Json::array(), liveness = Json::array();
  for (size_t i = 0; i < executable.buffers.size(); ++i) {
    const executable::Buffer &buffer = executable.buffers[i];
    variables.push_back({{"name", buffer.name},
                         {"bytes", buffer.bytes},
                         {"place", placeName(buffer.place)},
                         {"offset", buffer.offset},
                         {"first", lives.of(i).first},
                         {"last", lives.of(i).last}});
  }
  for (size_t i = 0; i < lives.steps().size(); ++i)
    liveness.push_back({{"step", lives.steps()[i]}, {"bytes", lives.liveBytes(static_cast<int>(i))}});
  return {{"variables", std::move(variables)}, {"liveness", std::move(liveness)}};
}

}  // namespace

// ---- runs -----------------------------------------------------------------------------------------

Profile::Profile(const std::map<std::string, std::string> &engineOptions) {
  const auto given = [&](const char *key) {
    const auto found = engineOptions.find(key);
    return found == engineOptions.end() ? std::string() : found->second;
  };
  for (const char *key : {"autoReport.all", "autoReport.outputExecutionProfile", "debug.instrument"})
    on_ = on_ || given(key) == "true";
  for (const auto &entry : engineOptions)
    timesRuns_ = timesRuns_ || entry.first.starts_with("debug.") || entry.first.starts_with("autoReport.");
  if (const std::string folder = given("profile"); !folder.empty() && folder != "none") ask(kProfiled, kWarmUp);
  const std::string count = "autoReport.executionProfileProgramRunCount";
  if (const std::string runs = given(count.c_str()); engineOptions.contains(count))
    mostRuns_ = static_cast<size_t>(environment::parsePositive(runs, "engineOptions: " + count));
}

void Profile::ask(size_t runs, size_t before) {
  on_ = keepsEvents_ = runs > 0;
  timesRuns_ = timesRuns_ || on_;
  if (!on_) return;  // recorded runs are kept
  mostRuns_ = runs;
  skipped_ = before;
  runs_.clear();
  runs_.reserve(std::min(runs, kMostReserved));
  names_.clear();
}

void Profile::record(session::CompiledProgram &program, const std::string &name) {
  runtime::StepTimes *times = program.stepTimes();
  if (!times || runs_.size() >= mostRuns_) return;
  if (skipped_ > 0) {
    --skipped_;
    return resetTimes(program);
  }
  const runtime::RankCollectives::Times exchange = program.exchangeTimes();
  Run run;
  run.exchangeNanoseconds = exchange.exchanging.count() - exchanged_;
  run.exchangeWaitNanoseconds = exchange.waiting.count() - waited_;
  exchanged_ = exchange.exchanging.count(), waited_ = exchange.waiting.count();
  run.name = name;
  run.begin = std::chrono::nanoseconds(program.lastStart().time_since_epoch()).count();
  run.nanoseconds = program.lastRun().count();
  for (size_t i = names_.size(); i < times->entries().size(); ++i) {
    const executable::Step &step = *times->entries()[i].step;
    names_.push_back({step.name, stepTitle(step.name, step.layer), runtime::kernelName(step)});
  }
  run.first = workOf(*times);
  for (int local = 1; local < program.localReplicas().count; ++local)
    run.others.push_back(workOf(*program.stepTimes(local)));
  runs_.push_back(std::move(run));
  resetTimes(program);
}

Profile::Work Profile::workOf(const runtime::StepTimes &times) {
  Work work;
  work.steps.reserve(times.entries().size());
  for (size_t i = 0; i < times.entries().size(); ++i)
    if (const runtime::StepTimes::Entry &entry = times.entries()[i]; entry.calls > 0)
      work.steps.push_back({static_cast<int>(i), entry.calls, entry.nanoseconds});
  work.events.assign(times.events().begin(), times.events().end());
  work.lostEvents = times.addedEvents() - work.events.size();
  return work;
}

void Profile::resetTimes(session::CompiledProgram &program) {
  for (int local = 0; local < program.localReplicas().count; ++local)
    if (runtime::StepTimes *times = program.stepTimes(local)) times->reset();
}

void Profile::reset(session::CompiledProgram &program) {
  runs_.clear();
  names_.clear();
  const runtime::RankCollectives::Times exchange = program.exchangeTimes();
  exchanged_ = exchange.exchanging.count(), waited_ = exchange.waiting.count();
  resetTimes(program);
}

std::string Profile::summary() const {
  if (!on_ && runs_.empty())
    return "Execution profiling not enabled. To time the steps of runs, call session.profile, or set the environment "
           "variable POPART_PROFILE to a folder, or engineOptions[\"autoReport.all\"] to \"true\" before the session "
           "is made\n";
  if (runs_.empty()) return "Execution profiling not enabled for a run yet: call run\n";
  std::string text = "Execution\n";
  for (size_t i = 0; i < runs_.size(); ++i) {
    const Run &run = runs_[i];
    text += fmt::format("  run {}{}: {:.3f} us\n", i, run.name.empty() ? "" : " '" + run.name + "'",
                        static_cast<double>(run.nanoseconds) / 1e3);
    if (run.exchangeNanoseconds > 0)
      text += fmt::format("    exchange between processes: {:.3f} us, of which replicas waited {:.3f} us\n",
                          static_cast<double>(run.exchangeNanoseconds) / 1e3,
                          static_cast<double>(run.exchangeWaitNanoseconds) / 1e3);
    for (const Step &step : run.first.steps)
      text += fmt::format("    {}, {}: {:.3f} us in {} calls\n", names_[static_cast<size_t>(step.number)].title,
                          kernelOf(step), static_cast<double>(step.nanoseconds) / 1e3, step.calls);
  }
  return text;
}

std::optional<double> modelCycles(const Executable &executable, const DeviceInfo &device) {
  const std::optional<ipu_model::Estimate> estimate = estimateOf(executable, device);
  return estimate ? std::optional(estimate->cycles) : std::nullopt;
}

double totalCycles(const Executable &executable, const DeviceInfo &device, const RunStatistics &statistics,
                   int threads) {
  const auto runs = static_cast<double>(statistics.runs);
  double cycles = 0;
  if (const std::optional<double> ofModel = modelCycles(executable, device))
    cycles = *ofModel * runs;
  else if (statistics.seconds)
    cycles = *statistics.seconds * kHostHertz;
  else
    cycles = executable::predictedRunNanoseconds(executable, threads) * runs;
  return std::max(cycles, runs);  // at least one cycle for each run
}

namespace {

Json eventsJson(const Profile::Work &work, int64_t begin) {
  Json events = Json::array();
  for (const runtime::StepTimes::Event &e : work.events)
    events.push_back(Json::array({e.step, e.thread, e.begin - begin, e.end - begin, e.busy}));
  return events;
}

// What the other replicas here did.
Json othersJson(const Profile::Run &run, int64_t first) {
  Json others = Json::array();
  for (size_t i = 0; i < run.others.size(); ++i) {
    Json steps = Json::array();
    for (const Profile::Step &step : run.others[i].steps)
      steps.push_back({{"number", step.number}, {"calls", step.calls}, {"nanoseconds", step.nanoseconds}});
    others.push_back({{"replica", first + 1 + static_cast<int64_t>(i)},
                      {"steps", std::move(steps)},
                      {"events", eventsJson(run.others[i], run.begin)},
                      {"lostEvents", run.others[i].lostEvents}});
  }
  return others;
}

Json runsJson(const Profile &profile, double hertz, int64_t firstReplica) {
  Json runs = Json::array();
  for (const Profile::Run &run : profile.runs()) {
    Json steps = Json::array();
    for (const Profile::Step &step : run.first.steps)
      steps.push_back({{"number", step.number},
                       {"name", profile.nameOf(step)},
                       {"kernel", profile.kernelOf(step)},
                       {"calls", step.calls},
                       {"nanoseconds", step.nanoseconds},
                       {"cycles", static_cast<double>(step.nanoseconds) * hertz / kHostHertz}});
    runs.push_back({{"name", run.name},
                    {"begin", run.begin},
                    {"nanoseconds", run.nanoseconds},
                    {"exchangeNanoseconds", run.exchangeNanoseconds},
                    {"exchangeWaitNanoseconds", run.exchangeWaitNanoseconds},
                    {"steps", std::move(steps)},
                    {"otherReplicas", othersJson(run, firstReplica)},
                    {"events", eventsJson(run.first, run.begin)},
                    {"lostEvents", run.first.lostEvents}});
  }
  return runs;
}

Json modelJson(const Executable &executable, const DeviceInfo &device) {
  const std::optional<ipu_model::Estimate> estimate = estimateOf(executable, device);
  if (!estimate) return nullptr;
  const ipu_model::Machine &machine = *machineOf(device);
  Json steps = Json::array();
  for (size_t i = 0; i < estimate->steps.size(); ++i) {
    const ipu_model::StepCycles &step = estimate->steps[i];
    steps.push_back({{"number", i},
                     {"calls", step.calls},
                     {"cycles", step.total()},
                     {"syncCycles", step.sync},
                     {"computeCycles", step.compute},
                     {"memoryCycles", step.memory},
                     {"linkCycles", step.link},
                     {"linkBytes", step.linkBytes}});
  }
  return {{"machine",
           {{"version", machine.version},
            {"tilesPerIpu", machine.tiles},
            {"clockFrequency", machine.hertz},
            {"flopsPerCycle", machine.flopsPerCycle},
            {"bytesPerCycle", machine.bytesPerCycle},
            {"bytesPerTile", machine.bytesPerTile},
            {"syncCycles", ipu_model::kSyncCycles},
            {"linkBytesPerCycle", ipu_model::kLinkBytesPerCycle},
            {"source", machine.source}}},
          {"tiles", tilesOfReplica(executable, device)},
          {"cycles", estimate->cycles},
          {"openLoops", estimate->openLoops},
          {"steps", std::move(steps)}};
}

Json passesJson(const CompileTimes &times) {
  const auto nanoseconds = [](const auto &duration) { return std::chrono::nanoseconds(duration).count(); };
  Json passes = Json::array();
  for (const CompileTimes::Span &span : times.spans)
    passes.push_back({{"group", span.group},
                      {"name", span.name},
                      {"begin", nanoseconds(span.begin.time_since_epoch())},
                      {"nanoseconds", nanoseconds(span.end - span.begin)}});
  return passes;
}

}  // namespace

std::string profileJson(const ProfileFacts &facts) {
  const DeviceInfo &device = facts.device;
  const ipu_model::Machine *machine = machineOf(device);
  Json report = {{"format", "popart-profile"},
                 {"version", 1},
                 {"session", facts.session},
                 {"target",
                  {{"type", toText(device.getType())},
                   {"numIPUs", device.getNumIpus()},
                   {"tilesPerIpu", device.getTilesPerIPU()},
                   {"clockFrequency", hertzOf(device)},
                   {"bytesPerTile", machine ? Json(machine->bytesPerTile) : Json(nullptr)}}},
                 {"threads", facts.threads},
                 {"replicas",
                  {{"all", facts.replicas},
                   {"first", facts.locals.first},
                   {"here", facts.locals.count},
                   {"recorded", facts.locals.first}}},
                 {"memory", memoryJson(facts.executable)},
                 {"graph", graphJson(facts.executable)},
                 {"programs", ProgramTree(facts.lowered).of(facts.executable.main)},
                 {"fallbacks", fallbacksJson(facts.executable)},
                 {"passes", passesJson(facts.compileTimes)},
                 {"runs", runsJson(facts.profile, hertzOf(device), facts.locals.first)},
                 {"totalCycles", facts.totalCycles}};
  if (Json model = modelJson(facts.executable, device); !model.is_null()) report["model"] = std::move(model);
  return report.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace popart

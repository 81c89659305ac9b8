// Prints executables, and counts their memory.
#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <popart/error.hpp>

#include "base/hash.hpp"
#include "executable/collectives.hpp"
#include "executable/executable.hpp"

namespace popart::executable {
namespace {

class Printer {
 public:
  explicit Printer(const Executable &executable) : e_(executable) {}

  std::string run() {
    const MemoryReport &m = e_.memory;
    text_ = fmt::format(
        "memory: {} bytes arena, {} bytes largest live set, {} bytes variables, {} bytes constants, {} bytes scratch\n",
        m.arenaBytes, m.largestLiveSetBytes, m.variableBytes, m.constantBytes, m.scratchBytes);
    for (size_t i = 0; i < e_.variables.size(); ++i)
      text_ +=
          fmt::format("v{} = variable {} {} {}{}{}{}\n", i, e_.variables[i].id, toText(e_.variables[i].info),
                      layoutName(e_.variables[i].layout), e_.variables[i].isOptimizerState ? " optimizer state" : "",
                      e_.variables[i].isRemote ? " remote" : "", toText(e_.variables[i].sharers));
    for (size_t i = 0; i < e_.constants.size(); ++i) {
      const TensorData &data = e_.constants[i].data;
      const uint64_t hash = Hasher().addBytes(data.data(), static_cast<size_t>(data.nbytes())).value();
      text_ += fmt::format("c{} = constant {} {} {:016x}\n", i, toText(data.info()), layoutName(e_.constants[i].layout),
                           hash);
    }
    for (const InputStream &s : e_.inputs) text_ += fmt::format("input {} {}\n", s.id, toText(s.info));
    for (const OutputStream &s : e_.outputs) text_ += fmt::format("output {} {}\n", s.id, toText(s.info));
    text_ += "main:\n";
    printProgram(e_.main, 1);
    return std::move(text_);
  }

 private:
  std::string buffer(BufferIndex b) const {
    if (b < 0) return "_";
    const Buffer &buffer = e_.buffers[static_cast<size_t>(b)];
    switch (buffer.place) {
      case Buffer::Place::Arena:
        return fmt::format("a{}+{}", buffer.offset, buffer.bytes);
      case Buffer::Place::Variable:
        return fmt::format("v{}", buffer.offset);
      case Buffer::Place::Constant:
        return fmt::format("c{}", buffer.offset);
      case Buffer::Place::Row:
        if (buffer.initial >= 0)
          return fmt::format("{}[{} or {:+}i]+{}", this->buffer(buffer.stack), this->buffer(buffer.initial),
                             buffer.stride, buffer.bytes);
        return fmt::format("{}[{}{:+}i]+{}", this->buffer(buffer.stack), buffer.offset, buffer.stride, buffer.bytes);
    }
    return "?";
  }
  std::string list(const std::vector<BufferIndex> &buffers) const {
    std::string text;
    for (BufferIndex b : buffers) text += (text.empty() ? "" : ", ") + buffer(b);
    return text;
  }
  std::string moves(const std::vector<Step::Move> &moves) const {
    std::string text;
    for (const Step::Move &m : moves)
      text += fmt::format("{}{} -> {} ({} bytes)", text.empty() ? "" : ", ", buffer(m.from), buffer(m.to), m.bytes);
    return text;
  }

  void line(int depth, const std::string &text) {
    text_ += std::string(static_cast<size_t>(2 * depth), ' ') + text + "\n";
  }

  void printProgram(const Program &program, int depth) {
    for (const Step &s : program.steps) printStep(s, depth);
  }

  void printStep(const Step &s, int depth) {
    switch (s.kind) {
      case Step::Kind::Kernel:
        return line(depth, fmt::format("{}: {} [{} tasks] ({}) -> ({})", s.name, s.kernel->name(), s.kernel->tasks(),
                                       list(s.in), list(s.out)));
      case Step::Kind::HostLoad:
        return line(depth,
                    fmt::format("{}: load {} -> {}", s.name, e_.inputs[static_cast<size_t>(s.stream)].id, list(s.out)));
      case Step::Kind::HostStore:
        return line(
            depth, fmt::format("{}: store {} <- {}", s.name, e_.outputs[static_cast<size_t>(s.stream)].id, list(s.in)));
      case Step::Kind::RemoteLoad:
        return line(depth, fmt::format("{}: load {}[{}] -> {} ({} bytes)", s.name, buffer(s.in[0]), buffer(s.in[1]),
                                       list(s.out), s.bytes));
      case Step::Kind::RemoteStore:
        return line(depth, fmt::format("{}: store {}[{}] <- {} ({} bytes)", s.name, list(s.out), buffer(s.in[1]),
                                       buffer(s.in[0]), s.bytes));
      case Step::Kind::Copy:
        return line(depth, fmt::format("{}: copy {} -> {} ({} bytes)", s.name, list(s.in), list(s.out), s.bytes));
      case Step::Kind::Loop:
        line(depth, fmt::format("{}: loop, at most {} times, given ({}), iteration {}, condition {}", s.name,
                                s.tripCount, list(s.in), buffer(s.iteration), buffer(s.condition)));
        if (!s.initial.empty()) line(depth + 1, "first: " + moves(s.initial));
        printProgram(*s.programs[0], depth + 1);
        for (const Step::ScanOutput &scan : s.scans)
          line(depth + 1,
               fmt::format("append {} -> {} ({} bytes)", buffer(scan.from), buffer(scan.to), scan.bytesPerIteration));
        if (!s.carried.empty()) line(depth + 1, "then: " + moves(s.carried));
        if (!s.results.empty()) line(depth + 1, "last: " + moves(s.results));
        return;
      case Step::Kind::If:
        line(depth, fmt::format("{}: if {}", s.name, list(s.in)));
        printProgram(*s.programs[0], depth + 1);
        line(depth, "else");
        printProgram(*s.programs[1], depth + 1);
        return;
      case Step::Kind::Lanes:
        line(depth, fmt::format("{}: at the same time", s.name));
        for (size_t i = 0; i < s.programs.size(); ++i) {
          line(depth,
               fmt::format("{}on {} thread{}:", i == 0 ? "" : "and ", s.threads[i], s.threads[i] == 1 ? "" : "s"));
          printProgram(*s.programs[i], depth + 1);
        }
        return;
    }
  }

  const Executable &e_;
  std::string text_;
};

}  // namespace

int mostLanes(const Program &program) {
  size_t most = 1;
  for (const Step &step : program.steps) {
    if (step.kind == Step::Kind::Lanes) most = std::max(most, step.programs.size());
    for (const auto &inner : step.programs) most = std::max(most, static_cast<size_t>(mostLanes(*inner)));
  }
  return static_cast<int>(most);
}

std::string toText(const Sharers &sharers) {
  if (sharers.size == 1) return "";
  const std::string stride = sharers.stride == 1 ? "" : fmt::format(", stride {}", sharers.stride);
  return fmt::format(" shared by {} replicas{}", sharers.size, stride);
}

int64_t Sharers::shareOf(int64_t bytes, int64_t replicas, int64_t locals) const {
  if (locals == replicas) return bytes / size;  // the process contains each group completely
  int64_t most = 0;
  for (int64_t first = 0; first < replicas; first += locals) {
    int64_t owners = 0;
    for (int64_t r = first; r < first + locals; ++r) owners += owner(r, first) == r;
    most = std::max(most, owners);
  }
  return most * bytes / locals;
}

int64_t ownVariableBytes(const Executable &executable, int64_t replica, int64_t first) {
  int64_t bytes = 0;
  for (const VariableSpec &v : executable.variables)
    if (!v.isRemote && v.sharers.owner(replica, first) == replica) bytes += storageBytes(v.info, v.layout);
  return bytes;
}

int64_t totalBytes(const Executable &executable, const LocalReplicas &replicas) {
  const MemoryReport &memory = executable.memory;
  int64_t bytes = memory.constantBytes + replicas.count * (memory.arenaBytes + memory.scratchBytes);
  for (int64_t r = 0; r < replicas.count; ++r)
    bytes += ownVariableBytes(executable, replicas.first + r, replicas.first);
  return bytes;
}

std::vector<const CollectiveSpec *> collectivesOf(const Executable &executable) {
  std::vector<const CollectiveSpec *> found;
  const std::function<void(const Program &)> walk = [&](const Program &program) {
    for (const Step &step : program.steps) {
      const CollectiveSpec *spec = step.kernel ? step.kernel->collectiveSpec() : nullptr;
      if (spec && !spec->resultElements.empty() && std::ranges::find(found, spec) == found.end()) found.push_back(spec);
      for (const auto &inner : step.programs) walk(*inner);
    }
  };
  walk(executable.main);
  return found;
}

std::string print(const Executable &executable) { return Printer(executable).run(); }

}  // namespace popart::executable

// The steps that load, as loops in loops, and a cursor over them.
#include "executable/load_order.hpp"

#include <algorithm>

namespace popart::executable {

namespace {

bool loads(const Program &program) {
  return std::ranges::any_of(program.steps, [](const Step &s) {
    return s.kind == Step::Kind::HostLoad ||
           std::ranges::any_of(s.programs, [](const auto &inner) { return loads(*inner); });
  });
}

}  // namespace

class LoadOrder::Reader {
 public:
  explicit Reader(const Executable &executable) : executable_(executable) {}

  // Appends to `nodes`; returns false if the loads that follow are not certain.
  bool read(const Program &program, std::vector<Node> &nodes) const {
    for (const Step &s : program.steps) {
      if (s.kind == Step::Kind::HostLoad) {
        nodes.push_back({s.stream, 1, {}});
      } else if (std::ranges::any_of(s.programs, [](const auto &inner) { return loads(*inner); })) {
        if (!readLoop(s, nodes)) return false;
      }
    }
    return true;
  }

 private:
  template <class T>
  std::optional<T> constant(BufferIndex b) const {
    const Buffer &buffer = executable_.buffers[static_cast<size_t>(b)];
    if (buffer.place != Buffer::Place::Constant) return std::nullopt;
    return *static_cast<const T *>(executable_.constants[static_cast<size_t>(buffer.offset)].data.data());
  }
  bool always(BufferIndex condition) const { return condition < 0 || constant<bool>(condition) == true; }

  bool readLoop(const Step &s, std::vector<Node> &nodes) const {
    if (s.kind != Step::Kind::Loop || !always(s.in[1])) return false;
    const std::optional<int64_t> trips = s.in[0] >= 0       ? constant<int64_t>(s.in[0])
                                         : s.tripCount >= 0 ? std::optional(s.tripCount)
                                                            : std::nullopt;
    if (!trips) return false;
    if (*trips < 1) return true;
    Node loop{-1, *trips, {}};
    const bool goesOn = read(*s.programs.front(), loop.body) && always(s.condition);
    if (!goesOn) loop.trips = 1;
    if (!loop.body.empty()) nodes.push_back(std::move(loop));
    return goesOn;
  }

  const Executable &executable_;
};

LoadOrder::LoadOrder(const Executable &executable) { Reader(executable).read(executable.main, main_.body); }

void LoadOrder::restart() {
  frames_.assign(1, {&main_, 0, 0});
  settle();
}

std::optional<LoadOrder::Load> LoadOrder::next() const {
  if (frames_.empty()) return std::nullopt;
  const Frame &f = frames_.back();
  return Load{f.loop->body[f.at].stream, f.iteration == 0};
}

void LoadOrder::advance() {
  ++frames_.back().at;
  settle();
}

// Moves to the next load at or after the cursor.
void LoadOrder::settle() {
  while (!frames_.empty()) {
    Frame &f = frames_.back();
    if (f.at < f.loop->body.size()) {
      const Node &node = f.loop->body[f.at];
      if (node.stream >= 0) return;
      frames_.push_back({&node, 0, 0});
    } else if (++f.iteration < f.loop->trips) {
      f.at = 0;
    } else {
      frames_.pop_back();
      if (!frames_.empty()) ++frames_.back().at;
    }
  }
}

namespace {

struct Moves {
  std::vector<int> inputs, outputs;

  bool count(const Program &program, int times) {
    for (const Step &s : program.steps) {
      const bool isLoad = s.kind == Step::Kind::HostLoad;
      if (isLoad || s.kind == Step::Kind::HostStore) {
        int &moved = (isLoad ? inputs : outputs)[static_cast<size_t>(s.stream)];
        if ((moved += times) > 1) return true;
      }
      const bool repeats = s.kind == Step::Kind::Loop && s.tripCount != 1;
      for (const auto &inner : s.programs)
        if (count(*inner, repeats ? 2 : times)) return true;
    }
    return false;
  }
};

}  // namespace

bool movesSeveralValues(const Executable &executable) {
  return Moves{std::vector<int>(executable.inputs.size()), std::vector<int>(executable.outputs.size())}.count(
      executable.main, 1);
}

}  // namespace popart::executable

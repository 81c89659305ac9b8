// Lanes: the stages of a pipeline's cycle as sequences that can run at the same time. In a graph's order
//
//   … before │ stage 2 ═ │ behind …      the ops of one cycle (kCycle) that belong to several stages (kLane)
//            │ stage 1 ═ │               stand together, one stage after the other;
//            │ stage 0 ═ │               no stage reads what another one of the section makes
//
// What several stages read is made before the section, what reads several of them runs behind it, and so do ops whose
// order among each other means something: host streams, remote memory, collectives, assignments. An op of no stage
// (the row of a ring, read or written) goes where its operands and readers are.
//
// In programs without stages, loops that do not depend on one another are lanes: both directions of a recurrent layer,
// or layers of which one is in a later chunk of its steps than the next. All other ops stay outside.
#pragma once
#include <functional>

#include "schedule/schedule.hpp"

namespace popart::schedule {

// How long an op takes, in any unit; 0: it only has to be somewhere.
using WorkOf = std::function<double(const Op &)>;

// Whether the op's order among others of its kind means something, so that it runs in no lane.
bool belongsOutside(const Op &op);

// The same program with the sections that can be had, in an order that is valid as before; graphs without a section
// keep theirs. Work decides which ops leave their lane where lanes depend on one another. Every lane has one thread.
Schedule findLanes(const Ir &ir, const Schedule &schedule, const WorkOf &work);

// The same with sections of loops. `choose` sees each section with the order that it would need, may join its lanes,
// and says whether it stays; otherwise the order stays as it was. No section runs inside of a lane.
using Choose = std::function<bool(const Graph &, std::vector<OpIndex> &order, Section &)>;
Schedule findLoopLanes(const Ir &ir, const Schedule &schedule, const WorkOf &work, const Choose &choose);

// The section with the lanes of each group, in the group's order, as one lane on as many threads as it says; ops of the
// order change their places within the section.
struct LaneGroup {
  std::vector<size_t> lanes;
  int threads = 1;
};
Section joinLanes(std::vector<OpIndex> &order, const Section &section, const std::vector<LaneGroup> &groups);

// Throws internal_error unless sections are ascending and inside of the order, each with two lanes or more, no lane
// reads what another one of its section makes, and no op in one belongs outside.
void verifyLanes(const Graph &graph, const std::vector<OpIndex> &order, std::span<const Section> sections);

}  // namespace popart::schedule

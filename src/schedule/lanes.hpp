// Lanes: the stages of a pipeline's cycle as sequences that can run at the same time. In a graph's order
//
//   … before │ stage 2 ═ │ after …       the ops of one cycle (kCycle) that belong to several stages (kLane)
//            │ stage 1 ═ │               are consecutive, one stage after the other;
//            │ stage 0 ═ │               no stage reads a result of another stage of the section
// Values that several stages read are computed before the section. Ops that read several stages run after it, and so do
// ops whose relative order matters: host streams, remote memory, collectives, assignments. An op without a stage
// (reading or writing the row of a ring buffer) is placed with its operands and readers.
//
// In programs without stages, independent loops are lanes: both directions of a recurrent layer, or layers that work on
// different chunks of their steps. All other ops stay outside.
#pragma once
#include <functional>

#include "schedule/schedule.hpp"

namespace popart::schedule {

// How long an op takes, in any unit; 0: its position does not matter.
using WorkOf = std::function<double(const Op &)>;

// Whether the order of the op among others of its kind matters, so that it cannot run in a lane.
bool belongsOutside(const Op &op);

// The same program with all possible sections, in an order that is as valid as before. Graphs without a section keep
// their order. If lanes depend on one another, `work` decides which ops leave their lane. Every lane has one thread.
Schedule findLanes(const Ir &ir, const Schedule &schedule, const WorkOf &work);

// The same with sections of loops. `choose` gets each section with the order that it needs. It may join lanes, and
// returns whether to keep the section; if not, the order stays as it was. No section is inside a lane.
using Choose = std::function<bool(const Graph &, std::vector<OpIndex> &order, Section &)>;
Schedule findLoopLanes(const Ir &ir, const Schedule &schedule, const WorkOf &work, const Choose &choose);

// Joins the lanes of each group, in the order of the group, to one lane with the group's number of threads. Changes the
// order of the ops within the section.
struct LaneGroup {
  std::vector<size_t> lanes;
  int threads = 1;
};
Section joinLanes(std::vector<OpIndex> &order, const Section &section, const std::vector<LaneGroup> &groups);

// Throws internal_error unless sections are ascending and inside the order, each has two lanes or more, no lane reads
// results of another lane of its section, and no op of a lane belongs outside.
void verifyLanes(const Graph &graph, const std::vector<OpIndex> &order, std::span<const Section> sections);

}  // namespace popart::schedule

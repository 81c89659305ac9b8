// How far the host data of a session go ahead of its program: session options, settings of inputs and anchors → rules
// of session/ahead_streams.hpp.
#pragma once
#include <map>

#include <popart/dataflow.hpp>
#include <popart/inputsettings.hpp>
#include <popart/sessionoptions.hpp>

#include "session/ahead_streams.hpp"
#include "session/host_streams.hpp"

namespace popart {

// What a session's streams are asked to do. `options`: keys of bufferingDepthMap are stream ids.
struct StreamRequests {
  const SessionOptions &options;
  const DataFlow &dataFlow;                                // of the anchors, by stream id
  const std::map<TensorId, InputSettings> &inputSettings;  // those that are not the default
};

// Rules for the streams of a program. Throws popart::error naming stream, option and what to do: a depth that is not
// possible, OverlapStep, overlapped exchanges and EveryN where the options do not allow them.
session::AheadRules aheadRules(const StreamRequests &requests, const session::HostStreams &streams);

}  // namespace popart

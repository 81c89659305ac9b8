// How far the host data of a session may be ahead of its program: converts session options and the settings of inputs
// and anchors to the rules of session/ahead_streams.hpp.
#pragma once
#include <map>

#include <popart/dataflow.hpp>
#include <popart/inputsettings.hpp>
#include <popart/sessionoptions.hpp>

#include "session/ahead_streams.hpp"
#include "session/host_streams.hpp"

namespace popart {

// The settings for the streams of a session. `options`: the keys of bufferingDepthMap are stream ids.
struct StreamRequests {
  const SessionOptions &options;
  const DataFlow &dataFlow;                                // of the anchors, by stream id
  const std::map<TensorId, InputSettings> &inputSettings;  // those that are not the default
};

// The rules for the streams of a program. Throws popart::error with the stream, the option and a remedy for an
// impossible depth, and for OverlapStep, overlapped exchanges and EveryN where the options do not allow them.
session::AheadRules aheadRules(const StreamRequests &requests, const session::HostStreams &streams);

}  // namespace popart

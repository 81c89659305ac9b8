// Hints of Op::Settings that passes leave for later rooms. Hints change no result.
#pragma once

namespace popart {

// The op runs where the program puts it, by itself. Additions of gradients carry it, because a fused chain of them
// would wait for the last term with all others in memory.
constexpr const char *kKeepApart = "keep_apart";

// The cycle of a pipeline that a call belongs to, and then all that it runs. Ops of different cycles do not become one:
// gradients would wait for those of the next micro-batch, all of them in memory.
constexpr const char *kCycle = "cycle";

// The stage of a pipeline's cycle that a call runs, and then all that it runs: ops of the same cycle and of different
// stages can run at the same time (schedule/lanes.hpp), and do not become one.
constexpr const char *kLane = "lane";

// The op writes or reads a row of a ring: never one that is read or written in the same cycle. It belongs to no stage.
constexpr const char *kRing = "ring";
constexpr const char *kWritesRow = "writes";
constexpr const char *kReadsRow = "reads";

// The op belongs to a product that was cut into parts which run one after the other: it cuts operands, computes a part,
// joins the results, is the gradient of such an op, or updates a part of a weight. The value says in what type parts
// are added: kInFloat, or theirs.
constexpr const char *kSerialised = "serialised";
constexpr const char *kInFloat = "in_float";

// The gradient of a transposed convolution with respect to its weights, which other convolutions share the operator of.
constexpr const char *kOfTransposed = "of_transposed";

// An import rule wrote the op as a part of an operator that it composes: the file does not have it as an operator.
constexpr const char *kComposed = "composed";

// The op computes, cuts or joins one part of a batch whose samples run in parts.
constexpr const char *kBatchPart = "batch_part";

}  // namespace popart

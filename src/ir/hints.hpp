// Hints of Op::Settings that passes set for later passes. Except `ring` and `lane`, they change no result.
#pragma once

namespace popart {

// The op is not fused and keeps its position. Additions of gradients have this hint: a fused chain of them would keep
// all terms in memory until the last one.
constexpr const char *kKeepApart = "keep_apart";

// The cycle of a pipeline that a call belongs to; inlining copies it to all ops of the callee. Ops of different cycles
// are not merged: all gradients would stay in memory until those of the next micro-batch.
constexpr const char *kCycle = "cycle";

// The stage of a pipeline's cycle that a call runs; inlining copies it to all ops of the callee. Ops of different
// stages of a cycle can run at the same time (schedule/lanes.hpp), and are not merged.
constexpr const char *kLane = "lane";

// The op reads or writes a row of a ring buffer, never a row that is both read and written in one cycle. It has no
// stage.
constexpr const char *kRing = "ring";
constexpr const char *kWritesRow = "writes";
constexpr const char *kReadsRow = "reads";

// The op belongs to a product that was split into parts which run one after the other: it slices operands, computes a
// part, joins results, is the gradient of such an op, or updates a part of a weight. The value is the type in which
// parts are added: kInFloat, or their own.
constexpr const char *kSerialised = "serialised";
constexpr const char *kInFloat = "in_float";

// The gradient of a transposed convolution for its weights; other convolutions use the same operator for theirs.
constexpr const char *kOfTransposed = "of_transposed";

// An import rule added the op as a part of a composition; it is not an operator of the file.
constexpr const char *kComposed = "composed";

// The op computes, slices or joins one part of a batch that runs in parts.
constexpr const char *kBatchPart = "batch_part";

}  // namespace popart

// ReplicatedStreamMode: whether each replica gets its own part of an input or all share one buffer.
#pragma once

namespace popart {

// Numbers as in PopART; with one replica they mean the same.
enum class ReplicatedStreamMode { Broadcast = 0, Replicate };

}  // namespace popart

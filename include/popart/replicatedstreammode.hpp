// ReplicatedStreamMode: whether each replica gets a separate part of an input or all share one buffer.
#pragma once

namespace popart {

// Numbers as in PopART; equivalent with one replica.
enum class ReplicatedStreamMode { Broadcast = 0, Replicate };

}  // namespace popart

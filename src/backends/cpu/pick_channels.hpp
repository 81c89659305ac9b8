// Any selection of the channels of several tensors.
#pragma once
#include "backends/cpu/cpu.hpp"

namespace popart::cpu {

// PickChannels of elements of up to 8 bytes; all tensors are channels last, or all are plain.
std::unique_ptr<executable::Kernel> createPickChannels(const executable::KernelRequest &request, std::string &reason);

}  // namespace popart::cpu

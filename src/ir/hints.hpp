// Hints of Op::Settings that passes leave for later rooms. Hints change no result.
#pragma once

namespace popart {

// The op runs where the program puts it, by itself. Additions of gradients carry it, because a fused chain of them would
// wait for the last term with all others in memory.
constexpr const char *kKeepApart = "keep_apart";

}  // namespace popart

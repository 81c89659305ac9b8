// A library for one instruction set says so on a processor without it, before any of its kernels runs.
#include "backends/cpu/kernels/instruction_sets.hpp"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "../support/message_of.hpp"

namespace popart::cpu {
namespace {

// Sets that kernels are compiled for, and sets that are not enough for the best of them, with their names.
#if HWY_ARCH_X86
constexpr int64_t kBest = HWY_AVX3, kCompiled = HWY_AVX3 | HWY_AVX2 | HWY_SSE4, kLesser = HWY_AVX2 | HWY_SSE4;
constexpr const char *kNames = "got a processor with AVX2, SSE4, expected one with AVX3.";
#else
constexpr int64_t kBest = HWY_NEON, kCompiled = HWY_NEON, kLesser = HWY_SVE2 | HWY_SVE;
constexpr const char *kNames = "got a processor with SVE2, SVE, expected one with NEON.";
#endif

TEST(InstructionSets, a_processor_that_has_one_of_them_will_do) {
  const int64_t one = kCompiled & -kCompiled;
  EXPECT_NO_THROW(requireInstructionSet(one, kCompiled | kLesser));
  EXPECT_NO_THROW(requireInstructionSet(kCompiled | kLesser, kLesser));
  EXPECT_NO_THROW(requireInstructionSet());
}

TEST(InstructionSets, a_lesser_processor_is_an_error_that_names_both_and_the_way_out) {
  const std::string message = test::messageOf([] { requireInstructionSet(kBest, kLesser); });
  EXPECT_NE(message.find(kNames), std::string::npos) << message;
  EXPECT_NE(message.find("-DPOPART_CPU_TARGETS=all"), std::string::npos) << message;
}

// What dispatch would choose is what is compiled, in builds for one set as well.
TEST(InstructionSets, this_library_has_the_best_set_of_this_processor) {
  const int64_t wanted = hwy::SupportedTargets() & kCompiled;
  EXPECT_EQ(wanted & -wanted, HWY_TARGETS & wanted & -(HWY_TARGETS & wanted));
}

}  // namespace
}  // namespace popart::cpu

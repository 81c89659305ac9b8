// Module popart_core._random: first values of weights, drawn from the generator of NumPy's functions.
#include <popart/error.hpp>

#include "api/virtual_ipus.hpp"
#include "backends/cpu/normal_numbers.hpp"
#include "host_array.hpp"

using namespace nb::literals;

namespace popart::python {
namespace {

// Checks that an array has a type and a size, and may be written to where that is asked.
void checkArray(const HostArray &array, DataType type, int64_t count, const char *what, bool isWritten) {
  array.requireContiguous("normal numbers:", what);
  check(array.info().dataType() == type && array.info().nelms() == count && !(isWritten && array.isReadOnly()),
        "normal numbers: {}: got {}{}, expected {} elements of {}{}", what, array.isReadOnly() ? "read-only " : "",
        array.info(), count, type, isWritten ? " to write to" : "");
}

// Calls write(numbers) for the elements of `result`, an array of float or double.
void writeTo(nb::handle result, int64_t count, const auto &write) {
  const HostArray array(result, HostArray::Types::All);
  const bool isDouble = array.info().dataType() == DataType::DOUBLE;
  checkArray(array, isDouble ? DataType::DOUBLE : DataType::FLOAT, count, "result", true);
  ReleaseGil release;
  isDouble ? write(static_cast<double *>(array.data())) : write(static_cast<float *>(array.data()));
}

std::pair<cpu::NormalNumbers, int> drawNormalNumbers(nb::handle key, int position, int64_t skipped, int64_t count) {
  const HostArray words(key, HostArray::Types::All);
  checkArray(words, DataType::UINT32, cpu::Twister::kWords, "key", true);
  cpu::Twister generator;
  std::copy_n(static_cast<const uint32_t *>(words.data()), cpu::Twister::kWords, generator.key.begin());
  generator.position = position;
  cpu::NormalNumbers drawn(generator, skipped, count);
  std::ranges::copy(generator.key, static_cast<uint32_t *>(words.data()));
  return {std::move(drawn), generator.position};
}

}  // namespace

void bindNormalNumbers(nb::module_ &parent) {
  nb::module_ m = parent.def_submodule("_random", "Normal numbers for first values of weights.");
  nb::class_<cpu::NormalNumbers>(m, "NormalNumbers", "Normal numbers that were drawn and are not made yet.")
      .def(
          "make",
          [](const cpu::NormalNumbers &drawn, double deviation, nb::handle result) {
            const int threads = drawn.hasShares() ? computeThreadCount() : 1;
            writeTo(result, drawn.count(), [&](auto *numbers) { drawn.make(deviation, numbers, threads); });
          },
          "deviation"_a, "result"_a, "Fills a C-contiguous array of float32 or float64 with all of them.");
  m.def("drawNormal", &drawNormalNumbers, "key"_a, "position"_a, "skipped"_a, "count"_a,
        "Draws numbers after skipped ones from an MT19937: `key`, its 624 words as an array of uint32, is moved on.\n"
        "\n"
        "Returns:\n"
        "    The numbers, and the new position.");
  m.def(
      "normalOfUniform",
      [](nb::handle uniform, double deviation, nb::handle result) {
        const HostArray shares(uniform, HostArray::Types::All);
        const int64_t count = shares.info().nelms();
        checkArray(shares, DataType::DOUBLE, count, "uniform", false);
        writeTo(result, count, [&](auto *numbers) {
          cpu::cutNormal(static_cast<const double *>(shares.data()), deviation, numbers, count);
        });
      },
      "uniform"_a, "deviation"_a, "result"_a,
      "Fills `result`, float32 or float64, with the normal numbers, cut at two deviations on both sides, below which\n"
      "shares `uniform` of them lie.");
}

}  // namespace popart::python

// PyStepIO, PyStepIOCallback and PyWeightsIO: host IO over NumPy arrays without copying.
#include <popart/interrupt.hpp>
#include <popart/stepio.hpp>

#include "host_array.hpp"

namespace popart::python {
namespace {

// Holds the arrays' buffers, so their memory stays where it is while this object lives.
class PyStepIO final : public StepIOGeneric {
 public:
  PyStepIO(const PyStepIO &) = delete;
  PyStepIO(nb::dict inputs, nb::dict outputs) {
    for (auto [key, value] : inputs) {
      const auto id = fromPython<TensorId>(key, "PyStepIO: the name of an input");
      arrays_.emplace_back(value, HostArray::Types::All);
      arrays_.back().requireContiguous("PyStepIO input", id);
      addInput(id, arrays_.back().data(), arrays_.back().info());
    }
    for (auto [key, value] : outputs) {
      const auto id = fromPython<TensorId>(key, "PyStepIO: the name of an output");
      arrays_.emplace_back(value, HostArray::Types::All);
      arrays_.back().requireContiguous("PyStepIO output", id);
      check(!arrays_.back().isReadOnly(), "PyStepIO output '{}': the array is read-only. Pass a writable one", id);
      addOutput(id, arrays_.back().data(), arrays_.back().info());
    }
  }

 private:
  std::vector<HostArray> arrays_;
};

// What is no Exception, as KeyboardInterrupt, ends the run at once.
class PythonInterrupt final : public nb::python_error, public RunInterrupt {};

class PyStepIOCallback final : public IStepIO {
 public:
  PyStepIOCallback(const PyStepIOCallback &) = delete;
  PyStepIOCallback(nb::object input, nb::object inputComplete, nb::object output, nb::object outputComplete)
      : input_(std::move(input)),
        inputComplete_(std::move(inputComplete)),
        output_(std::move(output)),
        outputComplete_(std::move(outputComplete)) {}

  ConstVoidData in(TensorId id, int64_t, bool prefetch, const bool) override {
    HoldGil gil;
    nb::object result = call(input_, nb::make_tuple(id, prefetch));
    if (result.is_none()) return ConstVoidData(nullptr, TensorInfo());
    held_.insert_or_assign(id, HostArray(result, HostArray::Types::All));
    const HostArray &array = held_.at(id);
    array.requireContiguous("PyStepIOCallback input", id);
    return ConstVoidData(array.data(), array.info());
  }
  void inComplete(TensorId id, int64_t, const bool) override {
    HoldGil gil;
    call(inputComplete_, nb::make_tuple(id));
    held_.erase(id);
  }
  MutableVoidData out(TensorId id, int64_t) override {
    HoldGil gil;
    held_.insert_or_assign(id, HostArray(call(output_, nb::make_tuple(id)), HostArray::Types::All));
    const HostArray &array = held_.at(id);
    array.requireContiguous("PyStepIOCallback output", id);
    check(!array.isReadOnly(), "PyStepIOCallback output '{}': the array is read-only. Pass a writable one", id);
    return MutableVoidData(array.data(), array.info());
  }
  void outComplete(TensorId id) override {
    HoldGil gil;
    call(outputComplete_, nb::make_tuple(id));
    held_.erase(id);
  }

 private:
  static nb::object call(const nb::object &function, const nb::tuple &args) {
    nb::object result = nb::steal(callPython(function.ptr(), args.ptr()));
    if (result.is_valid()) return result;
    if (!PyErr_ExceptionMatches(PyExc_Exception)) throw PythonInterrupt();
    throw nb::python_error();
  }
  nb::object input_, inputComplete_, output_, outputComplete_;
  std::map<TensorId, HostArray> held_;
};

class PyWeightsIO final : public IWeightsIO {
 public:
  PyWeightsIO(const PyWeightsIO &) = delete;
  explicit PyWeightsIO(nb::dict weights) {
    for (auto [key, value] : weights) {
      const auto id = fromPython<TensorId>(key, "PyWeightsIO: the name of a weight");
      HostArray array(value, HostArray::Types::All);
      array.requireContiguous("PyWeightsIO weight", id);
      arrays_.emplace(id, std::move(array));
    }
  }
  bool contains(TensorId id) const override { return arrays_.count(id) != 0; }
  MutableVoidData weight(TensorId id) const override {
    auto it = arrays_.find(id);
    if (it == arrays_.end()) throw runtime_error("PyWeightsIO: No tensor '{}' provided", id);
    return {it->second.data(), it->second.info()};
  }
  bool isReadOnly(TensorId id) const override { return arrays_.at(id).isReadOnly(); }
  std::vector<TensorId> ids() const override {
    std::vector<TensorId> names;
    for (const auto &entry : arrays_) names.push_back(entry.first);
    return names;
  }

 private:
  std::map<TensorId, HostArray> arrays_;
};

}  // namespace

void bindStepIo(nb::module_ &m) {
  nb::class_<IStepIO>(m, "IStepIO", "Where a step reads inputs and writes results.")
      .def("enableRuntimeAsserts", &IStepIO::enableRuntimeAsserts, nb::arg("enable"),
           "Check the shapes of arrays, and that their names are known; on by default.\n"
           "\n"
           "Args:\n"
           "    enable: On or off.");
  nb::class_<StepIOGeneric, IStepIO>(m, "_StepIOGeneric");
  nb::class_<PyStepIO, StepIOGeneric>(
      m, "PyStepIO", "NumPy arrays for one step, which are not copied. The object can be used for several steps.")
      .def(nb::init<nb::dict, nb::dict>(), nb::arg("inputs"), nb::arg("outputs"),
           "Name the arrays.\n"
           "\n"
           "Args:\n"
           "    inputs: Dictionary from tensor id to a C-contiguous array of all batches of the step:\n"
           "        (batchesPerStep, accumulationFactor, replicas, *shape).\n"
           "    outputs: Dictionary from anchor to a writable array; session.initAnchorArrays() makes them.\n"
           "\n"
           "Raises:\n"
           "    popart_exception: An array is not contiguous or read-only.");
  nb::class_<PyStepIOCallback, IStepIO>(m, "PyStepIOCallback",
                                        "Functions that are called for each micro-batch of a step.")
      .def(nb::init<nb::object, nb::object, nb::object, nb::object>(), nb::arg("input_callback"),
           nb::arg("input_complete_callback"), nb::arg("output_callback"), nb::arg("output_complete_callback"),
           "Name the functions.\n"
           "\n"
           "Args:\n"
           "    input_callback: (id, is_prefetch) -> array of the next micro-batch. With is_prefetch it is asked\n"
           "        for before the program needs it, and None says that there is none yet; the call then comes again,\n"
           "        without.\n"
           "    input_complete_callback: (id) -> None, when the values have been read.\n"
           "    output_callback: (id) -> array to write the next value to.\n"
           "    output_complete_callback: (id) -> None, when it is written.");
  nb::class_<IWeightsIO>(m, "IWeightsIO", "Host arrays of weights by name.");
  nb::class_<PyWeightsIO, IWeightsIO>(m, "PyWeightsIO", "NumPy arrays for readWeights and writeWeights, used in place.")
      .def(nb::init<nb::dict>(), nb::arg("weights"),
           "Name the arrays.\n"
           "\n"
           "Args:\n"
           "    weights: Dictionary from weight id to a C-contiguous array of the weight's shape.");
}

}  // namespace popart::python

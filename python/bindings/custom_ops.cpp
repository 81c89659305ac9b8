// Operators whose shapes, kernel and gradient are functions of Python (python/popxl/custom.py says what they get).
#include <cstring>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <popart/graph.hpp>
#include <popart/opmanager.hpp>
#include <popart/userkernel.hpp>

#include "bindings.hpp"
#include "host_array.hpp"

namespace popart::python {
namespace {

constexpr const char *kArguments = "arguments";  // attribute: what the Python functions get by name, as text

// function(*args). What it raises becomes a popart::error, so that nothing of Python outlives the lock.
nb::object callUser(const std::string &what, nb::handle function, const nb::list &args) {
  if (!function.is_valid()) throw error("{}: its Python function is gone: the interpreter is ending", what);
  nb::object result = nb::steal(callPython(function.ptr(), nb::tuple(args).ptr()));
  if (result.is_valid()) return result;
  std::string text;
  {
    const nb::python_error raised;
    text = raised.what();
  }
  throw error("{}: {}", what, text);
}

// The functions of one operator: held until the interpreter ends, then null. The struct itself stays, for kernels that
// other threads still run.
struct PythonFunctions {
  OperatorIdentifier opid, gradient;
  nb::handle shapes, kernel, gradientKernel, differentiable;
};

std::vector<PythonFunctions *> &allFunctions() {
  static auto *all = new std::vector<PythonFunctions *>;
  return *all;
}

// What the functions get by name, as JSON text: PopXL's calls give it as one attribute; nodes of a model have one
// attribute for each.
std::string argumentsOf(const Op &op) {
  const Attributes &given = op.attributes();
  nlohmann::json arguments = nlohmann::json::parse(given.getAttribute<std::string>(kArguments, "{}"));
  for (const auto &[name, value] : given.entries()) {
    if (name == kArguments || name.starts_with("__")) continue;
    std::visit(
        [&, &key = name](const auto &v) {
          if constexpr (std::is_constructible_v<nlohmann::json, decltype(v)>)
            arguments[key] = v;
          else
            throw error("{}: attribute '{}': expected numbers, texts or lists of them", op.debugName(), key);
        },
        value);
  }
  return arguments.dump();
}

void runKernel(const nb::handle &function, const KernelCall &call) {
  HoldGil gil;
  nb::list inputs, outputs, args;
  for (int i = 0; i < call.inputCount(); ++i) inputs.append(makeNumpyArray(call.inInfo(i), call.inputData(i)));
  for (int i = 0; i < call.outputCount(); ++i)
    outputs.append(nb::make_tuple(numpyName(call.outInfo(i).dataType()), call.outInfo(i).shape()));
  args.append(argumentsOf(call.op())), args.append(inputs), args.append(outputs);
  const nb::object results = callUser(call.op().debugName(), function, args);
  int i = 0;
  for (nb::handle result : results) {
    const HostArray array(result, HostArray::Types::All);
    check(i < call.outputCount() && array.isContiguous() && array.info().nbytes() == call.outInfo(i).nbytes(),
          "{}: result {} does not fit: got {}", call.op().debugName(), i, array.info());
    std::memcpy(call.outputData(i), array.data(), static_cast<size_t>(array.info().nbytes()));
    ++i;
  }
}

// Inputs: those of the forward op, then the gradients of its results. Results: the gradients of its inputs.
class PythonGradOp : public Op {
 public:
  PythonGradOp(const Op &forward, const PythonFunctions &functions)
      : Op(functions.gradient, forward.getSettings()), count_(forward.inputCount()) {
    mutableAttributes() = forward.attributes();
    for (int i = 0; i < count_; ++i) inputs_.push_back({i, i, GradOpInType::In}), outputs_[i] = i;
    for (int i = 0; i < forward.outputCount(); ++i) inputs_.push_back({count_ + i, i, GradOpInType::GradOut});
  }
  std::unique_ptr<Op> clone() const final { return std::make_unique<PythonGradOp>(*this); }
  void setup() final {
    for (int i = 0; i < count_; ++i)
      if (hasOutput(i)) outInfo(i) = inInfo(i);
  }
  const std::vector<GradInOutMapper> &gradInputInfo() const override { return inputs_; }
  const std::map<int, int> &gradOutToNonGradIn() const override { return outputs_; }

 private:
  int count_;
  std::vector<GradInOutMapper> inputs_;
  std::map<int, int> outputs_;
};

class PythonOp : public Op {
 public:
  PythonOp(const PythonFunctions &functions, const Op::Settings &opSettings)
      : Op(functions.opid, opSettings), functions_(functions) {}
  std::unique_ptr<Op> clone() const final { return std::make_unique<PythonOp>(*this); }
  void setup() final {
    HoldGil gil;
    nb::list inputs, args;
    for (int i = 0; i < inputCount(); ++i)
      inputs.append(nb::make_tuple(numpyName(inInfo(i).dataType()), inInfo(i).shape()));
    args.append(argumentsOf(*this)), args.append(inputs);
    const nb::object infos = callUser(debugName(), functions_.shapes, args);
    int i = 0;
    for (nb::handle info : infos) {
      const auto [type, shape] = nb::cast<std::pair<std::string, std::vector<int64_t>>>(info);
      if (hasOutput(i)) outInfo(i) = TensorInfo(dataTypeFromName(type), shape);
      ++i;
    }
    check(i == outputCount(), "{}: wrong number of outputs: got {}, expected {} as its function of the shapes gives",
          debugName(), outputCount(), i);
  }
  std::vector<std::unique_ptr<Op>> getGradOps() override {
    std::vector<std::unique_ptr<Op>> ops;
    HoldGil gil;
    if (nb::cast<bool>(callUser(debugName(), functions_.differentiable, nb::list())))
      ops.push_back(std::make_unique<PythonGradOp>(*this, functions_));
    return ops;
  }

 private:
  static DataType dataTypeFromName(const std::string &name) {
    for (int i = 0; i < kDataTypeCount; ++i)
      if (const auto type = static_cast<DataType>(i); isNumpyType(type) && numpyName(type) == name) return type;
    throw error("unknown element type: got '{}', expected a name of NumPy", name);
  }
  static bool isNumpyType(DataType type) {
    try {
      return !numpyName(type).empty();
    } catch (const error &) {
      return false;
    }
  }
  const PythonFunctions &functions_;
};

void registerPythonOp(const std::string &domain, const std::string &type, int version, nb::object shapes,
                      nb::object kernel, nb::object gradient, nb::object differentiable) {
  auto *functions = new PythonFunctions{{domain, type, static_cast<OpVersion>(version)},
                                        {domain, type + "Grad", static_cast<OpVersion>(version)},
                                        shapes.release(),
                                        kernel.release(),
                                        gradient.release(),
                                        differentiable.release()};
  allFunctions().push_back(functions);
  OpManager::registerOp(functions->opid, OpDefinition(), true, [functions](const OpCreatorInfo &info) {
    return std::make_unique<PythonOp>(*functions, info.settings);
  });
  registerKernel(functions->opid, [functions](const KernelCall &call) { runKernel(functions->kernel, call); });
  registerKernel(functions->gradient,
                 [functions](const KernelCall &call) { runKernel(functions->gradientKernel, call); });
}

void forgetPythonOps() {
  for (PythonFunctions *functions : allFunctions())
    for (nb::handle *handle :
         {&functions->shapes, &functions->kernel, &functions->gradientKernel, &functions->differentiable})
      nb::steal(std::exchange(*handle, nb::handle()));
}

}  // namespace

void bindCustomOps(nb::module_ &m) {
  m.def("_registerPythonOp", &registerPythonOp, nb::arg("domain"), nb::arg("type"), nb::arg("version"),
        nb::arg("shapes"), nb::arg("kernel"), nb::arg("gradient"), nb::arg("differentiable"),
        "Registers an operator of Python functions; see popxl.custom_op.");
  m.def("_forgetPythonOps", &forgetPythonOps, "Drops the functions of all operators of Python.");
}

}  // namespace popart::python

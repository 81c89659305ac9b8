// GraphTransformer, NumericsReport, the tensors of a model's outputs and expressions over text.
#include <mutex>

#include <popart/graphtransformer.hpp>
#include <popart/inferenceform.hpp>
#include <popart/numerics.hpp>
#include <popart/trainabletensor.hpp>

#include "api/model_outputs.hpp"
#include "api/text.hpp"
#include "bindings.hpp"
#include "onnx/input_sizes.hpp"

namespace popart::python {
namespace {

std::string modelText(nb::handle model) {
  if (PyBytes_Check(model.ptr())) {
    const auto bytes = nb::cast<nb::bytes>(model);
    return std::string(bytes.c_str(), bytes.size());
  }
  return nb::hasattr(model, "__fspath__") ? pyText(model.attr("__fspath__")())
                                          : fromPython<std::string>(model, "model: the name of a file, or bytes");
}

// While a GraphTransformer works other Python threads run; they wait here when they use one as well.
class OneTransformer {
 public:
  OneTransformer() : lock_(mutex()) {}

 private:
  static std::mutex &mutex() {
    static std::mutex instance;
    return instance;
  }
  ReleaseGil release_;  // before the lock is waited for
  std::lock_guard<std::mutex> lock_;
};
using WithoutGil = nb::call_guard<OneTransformer>;

}  // namespace

void bindModelTools(nb::module_ &m) {
  using Texts = std::vector<std::string>;
  m.def("_whole_numbers", &onnx::wholeNumbers, nb::arg("text"), nb::arg("option"));
  m.def(
      "_given_sizes",
      [](const std::string &inputs, const Texts &shapes, const Texts &dims) {
        const onnx::GivenSizes given = onnx::givenSizes(inputs, shapes, dims);
        return std::make_pair(given.dims, given.shapes);
      },
      nb::arg("inputs"), nb::arg("shapes"), nb::arg("dims"));
  m.def(
      "_input_sizes",
      [](const std::string &inputs, const Texts &shapes, const Texts &dims) {
        const onnx::InputSizes sizes = onnx::inputSizes(inputs, shapes, dims);
        nb::dict found;
        for (const auto &input : sizes.inputs) found[input.id.c_str()] = std::make_pair(input.type, input.shape);
        return std::make_pair(found, sizes.notes);
      },
      nb::arg("inputs"), nb::arg("shapes"), nb::arg("dims"));
  m.def(
      "_describeModel",
      [](nb::handle model, const InputShapeInfo &shapes) {
        const std::string text = modelText(model);
        ReleaseGil release;
        return describeModel(text, shapes);
      },
      nb::arg("model"), nb::arg("shapes"), "What a model holds and which of its nodes are refused, as JSON.");
  m.def(
      "trainable_tensors",
      [](nb::handle model, const std::vector<std::string> &trainable, const std::vector<std::string> &frozen) {
        const std::string text = modelText(model);
        ReleaseGil release;
        return trainableTensors(text, trainable, frozen);
      },
      nb::arg("model"), nb::arg("trainable") = std::vector<std::string>(),
      nb::arg("frozen") = std::vector<std::string>(),
      "What would train in a model, and why; needs no loss.\n"
      "\n"
      "Args:\n"
      "    model: File name or bytes of an ONNX model.\n"
      "    trainable: Names or patterns of the tensors that train, as in `TrainingSession`; empty: as classified.\n"
      "    frozen: Names or patterns of tensors that do not.\n"
      "\n"
      "Returns:\n"
      "    One `TrainableTensor` for each floating-point initializer, in the order of the file.\n"
      "\n"
      "Raises:\n"
      "    popart_exception: The model cannot be read, or a name or pattern matches no tensor.");
  m.def(
      "_output_tensors",
      [](nb::handle model, const InputShapeInfo &shapes, bool constantWeights, const std::set<TensorId> &returned) {
        using Lengths = std::vector<std::pair<TensorId, int64_t>>;
        const auto weights = constantWeights ? onnx::WeightRole::Constant : onnx::WeightRole::Variable;
        std::map<std::string, std::vector<std::pair<TensorId, Lengths>>> result;
        const std::string text = modelText(model);
        ReleaseGil release;
        for (auto &[name, of] : outputTensors(text, shapes, weights, returned)) {
          auto &parts = result[name];
          for (size_t i = 0; i < of.ids.size(); ++i) {
            parts.emplace_back(of.ids[i], Lengths());
            for (const auto &[id, axis] : of.lengths[i]) parts.back().second.emplace_back(id, axis);
          }
        }
        return result;
      },
      nb::arg("model"), nb::arg("inputShapeInfo"), nb::arg("constantWeights"),
      nb::arg("returned") = std::set<TensorId>(),
      "The tensors to anchor for each graph output, and for each tensor of the model in `returned` (several for a\n"
      "sequence, none for what is absent): the name, and for each size that depends on data the name of the tensor\n"
      "that holds it and its dimension.\n"
      "\n"
      "Raises:\n"
      "    popart_exception: The model is refused.");
  m.def(
      "_full_matches",
      [](const std::string &pattern, const std::vector<nb::bytes> &texts) {
        std::vector<std::string> all;
        for (const nb::bytes &text : texts) all.emplace_back(text.c_str(), text.size());
        ReleaseGil release;
        return fullMatches(pattern, all);
      },
      nb::arg("pattern"), nb::arg("texts"),
      "Which texts (UTF-8) an RE2 expression matches as a whole.\n"
      "\n"
      "Raises:\n"
      "    popart_exception: A pattern that is no RE2 expression.");
  m.def(
      "_inference_form",
      [](nb::handle model, const std::vector<std::string> &outputs, bool foldBatchNorm) {
        const std::string text = modelText(model);
        const std::string proto = [&] {
          ReleaseGil release;
          return inferenceForm(text, {outputs, {}, foldBatchNorm});
        }();
        return nb::bytes(proto.data(), proto.size());
      },
      nb::arg("model"), nb::arg("outputs"), nb::arg("foldBatchNorm"), "The bytes of a model in inference form.");
  m.def(
      "_write_inference_form",
      [](nb::handle model, const std::string &file, const std::vector<std::string> &outputs, bool foldBatchNorm) {
        const std::string text = modelText(model);
        ReleaseGil release;
        writeInferenceForm(text, file, {outputs, {}, foldBatchNorm});
      },
      nb::arg("model"), nb::arg("file"), nb::arg("outputs"), nb::arg("foldBatchNorm"),
      "Write a model in inference form to a file.");
  nb::class_<GraphTransformer>(
      m, "GraphTransformer",
      "Changes an ONNX model as a whole. Models with subgraphs are refused by the conversions of types.")
      .def(
          "__init__",
          [](GraphTransformer *self, nb::handle model) {
            const std::string text = modelText(model);
            ReleaseGil release;
            new (self) GraphTransformer(text);
          },
          nb::arg("modelProtoOrFilename"),
          "Load a model; it is checked.\n"
          "\n"
          "Args:\n"
          "    modelProtoOrFilename: The name of a file or the bytes of a model.")
      .def(
          "getModelProto",
          [](const GraphTransformer &t) {
            const std::string proto = [&] {
              const OneTransformer withoutGil;
              return t.getModelProto();
            }();
            return nb::bytes(proto.data(), proto.size());
          },
          "The changed model, as bytes.")
      .def("convertFloatsToHalfs", &GraphTransformer::convertFloatsToHalfs, WithoutGil(),
           "Make FLOAT values and types FLOAT16: initializers, constants, inputs, outputs.")
      .def("convertUINT8ToINT32", &GraphTransformer::convertUINT8ToINT32, WithoutGil(),
           "Make UINT8 values and types INT32: initializers, constants, inputs, outputs.")
      .def("convertUINT16ToINT32", &GraphTransformer::convertUINT16ToINT32, WithoutGil(),
           "Make UINT16 values and types INT32: initializers, constants, inputs, outputs.")
      .def("convertINT8ToINT32", &GraphTransformer::convertINT8ToINT32, WithoutGil(),
           "Make INT8 values and types INT32: initializers, constants, inputs, outputs.")
      .def("convertINT16ToINT32", &GraphTransformer::convertINT16ToINT32, WithoutGil(),
           "Make INT16 values and types INT32: initializers, constants, inputs, outputs.")
      .def("convertINT64ToINT32", &GraphTransformer::convertINT64ToINT32, WithoutGil(), nb::arg("clip") = false,
           "Make INT64 values and types INT32.\n"
           "\n"
           "Args:\n"
           "    clip: Values out of range become the nearest INT32 instead of an error.")
      .def("convertDoublesToFloats", &GraphTransformer::convertDoublesToFloats, WithoutGil(),
           "Make DOUBLE values and types FLOAT: initializers, constants, inputs, outputs.")
      .def("convertDoublesToHalfs", &GraphTransformer::convertDoublesToHalfs, WithoutGil(),
           "Make DOUBLE values and types FLOAT16: initializers, constants, inputs, outputs.")
      .def("convertBFloats16ToFloat32", &GraphTransformer::convertBFloats16ToFloat32, WithoutGil(),
           "Make BFLOAT16 values and types FLOAT: initializers, constants, inputs, outputs.")
      .def("removeUnusedInputs", &GraphTransformer::removeUnusedInputs, WithoutGil(),
           "Drop graph inputs that no node of the main graph reads, and their initializers.")
      .def("prepareNodesForTraining", &GraphTransformer::prepareNodesForTraining, WithoutGil(),
           "Put BatchNormalization and Dropout nodes into training form, in bodies and functions too: five outputs up\n"
           "to operator set 13; from 14 on (Dropout: 12) a true training_mode, and three outputs.")
      .def("prepareNodesForInference", &GraphTransformer::prepareNodesForInference, WithoutGil(),
           "Put BatchNormalization nodes into inference form and remove Dropout, where constants decide about them.")
      .def("convertInitializersToConstants", &GraphTransformer::convertInitializersToConstants, WithoutGil(),
           nb::arg("ids"),
           "Make initializers Constant nodes at the front of the graph.\n"
           "\n"
           "Args:\n"
           "    ids: Names of the initializers.\n"
           "\n"
           "Raises:\n"
           "    popart_exception: A name that is not an initializer.")
      .def("convertAllFixedPointInitializersToConstants",
           &GraphTransformer::convertAllFixedPointInitializersToConstants, WithoutGil(),
           "Make all initializers of integer types Constant nodes.")
      .def("declareInputs", &GraphTransformer::declareInputs, WithoutGil(), nb::arg("shapes"),
           "Set the shapes of graph inputs. First dimensions of outputs follow those of inputs, shapes of\n"
           "intermediate tensors are dropped.\n"
           "\n"
           "Args:\n"
           "    shapes: By input, each dimension as text: a number, or a name for one that is open.\n"
           "\n"
           "Raises:\n"
           "    popart_exception: A name that is not an input.")
      .def("saveInitializersExternally", &GraphTransformer::saveInitializersExternally, WithoutGil(), nb::arg("ids"),
           nb::arg("filename"),
           "Move the values of initializers to a raw file.\n"
           "\n"
           "Args:\n"
           "    ids: Names of the initializers.\n"
           "    filename: New file in a folder that exists.");
  nb::class_<NumericsReport>(m, "NumericsReport", "How far the weights of two training runs drifted apart.")
      .def(
          "__init__",
          [](NumericsReport *self, nb::handle a0, nb::handle a1, nb::handle b0, nb::handle b1) {
            const std::string texts[] = {modelText(a0), modelText(a1), modelText(b0), modelText(b1)};
            ReleaseGil release;
            new (self) NumericsReport(texts[0], texts[1], texts[2], texts[3]);
          },
          nb::arg("A0"), nb::arg("A1"), nb::arg("B0"), nb::arg("B1"),
          "Compare two runs.\n"
          "\n"
          "Args:\n"
          "    A0: Model at the start of run A, file name or bytes.\n"
          "    A1: Model at its end.\n"
          "    B0: Model at the start of run B.\n"
          "    B1: Model at its end.")
      .def("report", &NumericsReport::report, nb::arg("id"),
           "The figures of one weight as text.\n"
           "\n"
           "Args:\n"
           "    id: Name of the weight.")
      .def("fullReport", &NumericsReport::fullReport, "The figures of all weights as text.")
      .def("getRelativeErrors", &NumericsReport::getRelativeErrors,
           "|dA - dB|^2 / (|dA| |dB| + 1e-8) per weight, d being end minus start.");
}

}  // namespace popart::python

// Reading ONNX models: bytes or file -> Model -> graph of the Ir. Opsets 6 to newest, functions, subgraphs, external
// data. A model is untrusted input: every refusal is a popart::error with the node, tensor or file, the value found,
// the expected value and a remedy. Nothing outside the model's folder is read, and sizes are checked before memory is
// allocated.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include <popart/inputsettings.hpp>
#include <popart/ir.hpp>

#include "ops/constant_evaluation.hpp"

namespace popart::onnx {

struct ModelContent;      // model_content.hpp: the parsed messages and mapped files
struct TrainableTensors;  // training/trainable_tensors.hpp

// A parsed and checked model. Cheap to copy (shared, immutable).
class Model {
 public:
  // Reads a file; external data must be below the file's folder. Throws popart::error.
  static Model load(const std::string &path);
  // Parses a serialised ModelProto; external data must be below `folder` (default: the current folder).
  static Model parse(std::string_view bytes, const std::string &folder = ".");
  // PopART's "modelProtoOrFilename": the name of an existing file, otherwise the bytes of a model.
  static Model fromProtoOrFile(std::string_view modelProtoOrFilename);

  explicit Model(std::shared_ptr<const ModelContent> content) : content_(std::move(content)) {}
  const ModelContent &content() const { return *content_; }
  const std::shared_ptr<const ModelContent> &shared() const { return content_; }
  // Throws popart::error for a file with tensor data that was written to after the model was read.
  void requireUnchangedFiles() const;

  // The opset version of each imported domain ("ai.onnx" for the default one).
  std::map<std::string, int64_t> opsets() const;
  const std::string &graphName() const;
  std::vector<TensorId> inputIds() const;  // graph inputs that are not initializers
  std::vector<TensorId> outputIds() const;
  std::vector<TensorId> initializerIds() const;
  // The settings of graph inputs that are not the default. Throws popart::error for damaged metadata.
  std::map<TensorId, InputSettings> inputSettings() const;

  // Graph inputs as declared, except inputs that are no tensors.
  struct Input {
    TensorId id;
    DataType type = DataType::UNDEFINED;  // UNDEFINED: not declared
    bool hasShape = false;
    std::vector<std::pair<int64_t, std::string>> shape;  // size, or -1 and the symbol of an open dimension (or "")
    bool isOpen() const;                                 // no shape, or an open dimension
  };
  std::vector<Input> inputs() const;            // without initializers
  std::vector<Input> inputsWithValues() const;  // that are also initializers, which give their default values
  // Tensors of the main graph whose samples are not along axis 0, according to the first node that reads elements: data
  // and initial states of recurrent layers.
  std::map<TensorId, int> batchAxes() const;

  // Memory of the parsed message in bytes (as serialised), and where in it the values of initializers are.
  struct Memory {
    int64_t bytes = 0;
    std::map<const void *, int64_t> values;  // start, bytes
  };
  Memory memory() const;
  // Values of initializers that were hashed when the model was read, as bytes (UINT8), with their XXH3 hashes.
  std::vector<std::pair<TensorData, uint64_t>> contentHashes() const;

 private:
  std::shared_ptr<const ModelContent> content_;
};

enum class Purpose { Inference, Training };
// Variable: floating-point initializers that train or that a program may replace are variables (see TrainableTensors).
// Constant: they are folded like literals.
enum class WeightRole { Variable, Constant };
// Strict: this library must know the opset. Lenient: a newer opset is read as the newest known one.
enum class OpVersionRule { Strict, Lenient };

// Refuse: an attribute that the operator does not have is an error. Drop: it is ignored.
enum class UnknownAttributes { Refuse, Drop };

// FromPurpose: for inference, Dropout and BatchNormalization have inference form, regardless of constants in the file.
// FromFile: they have the form that the file states. Training always follows the file.
enum class TrainingForm { FromPurpose, FromFile };

struct BuildOptions {
  Purpose purpose = Purpose::Inference;
  TrainingForm trainingForm = TrainingForm::FromPurpose;
  WeightRole weights = WeightRole::Variable;
  // Initializers that are Variables regardless of `weights`; in training this is only needed for integers, as
  // floating-point ones already are.
  std::set<std::string> updatable;
  // Initializers that are also graph inputs and whose values come with the runs: they are inputs of the program.
  std::set<std::string> fed;
  // Which floating-point initializers are variables, if weights are Variables; null: buildGraph and outputTensors read
  // this from the file, and builders use all.
  std::shared_ptr<const TrainableTensors> trainable;
  int64_t replicas = 1;  // for weights with VariableSettings and for collectives; 0: not known yet (builders)
  OpVersionRule versions = OpVersionRule::Strict;
  UnknownAttributes unknownAttributes = UnknownAttributes::Refuse;
  // Shapes and types of graph inputs whose dimensions the model leaves open (PopART InputShapeInfo). A symbolic
  // dimension that one entry fixes is fixed for all inputs that use its name. A sequence has as many tensors as there
  // are entries for its elements (`elementId`); an optional value is present if it has an entry.
  std::map<TensorId, TensorInfo> inputShapeInfo;
  // Inner tensors that runs return. If their sizes depend on data, they are returned like outputs of the model, with
  // zeros after their values and tensors with their lengths. Names that the model does not have are ignored.
  std::set<TensorId> returned;
  // Tensors whose gradients are wanted: ops that read them are not folded, even if they are constants.
  std::set<TensorId> differentiated;
  // False: nodes that read a constant which another node reads too stay ops, except for Constant, ConstantOfShape and
  // Shape. Values that determine a shape are still known.
  bool foldsShared = true;
  // GroupNormalization: groups consist of channels that are num_groups apart. Set here because derivatives of
  // derivatives are written while the graph is built.
  bool stridesGroups = false;
  // Limit of iterations for a loop that stacks values without a limit in the model; 0: chosen by their size.
  int64_t mostStacked = 0;
  // Memory limit of the program, in bytes; 0: no limit. Constants made here may use a part of it.
  int64_t limitBytes = 0;
  // Computes constant subexpressions; if empty, only Shape and Size are folded.
  EvaluateOp evaluate;
};

// Adds the model to the main graph of an empty Ir. Graph inputs become Stream tensors, floating-point initializers
// become Variables or Const (see WeightRole), and integer initializers become Const unless a node updates them. Tensors
// keep their ONNX names, and graph outputs are marked in order. All values that state shapes are resolved, so all infos
// are known. Throws popart::error.
void buildGraph(const Model &model, const BuildOptions &options, Ir &ir);

// The tensors for a graph output in the program.
struct OutputLength {
  TensorId id;       // of the tensor that holds a size that depends on data of the run
  int64_t axis = 0;  // the dimension of that size
};
struct OutputTensors {
  std::vector<TensorId> ids;  // one for a tensor, one for each element of a sequence, none for an absent value
  std::vector<std::vector<OutputLength>> lengths;  // of each of them
};
// For each graph output and each of options.returned in the model. Builds the graph. Throws popart::error.
std::map<std::string, OutputTensors> outputTensors(const Model &model, const BuildOptions &options);
// The tensor that holds a size of a graph output that depends on data of the run: "name/length", and "name/length/1", …
// for further such dimensions.
TensorId lengthId(const std::string &name, size_t i = 0);

// The tensor of element `i` of a graph input or output that is a sequence: "name/0", "name/1", ….
TensorId elementId(const std::string &name, size_t i);

// One serialised TensorProto (the .pb files of ONNX test data). Throws popart::error.
TensorData parseTensor(std::string_view bytes, const std::string &name);

// Checks the structural rules of the ONNX specification that do not depend on operators: names are unique and defined
// before use, no cycles, valid versions, tensor payloads that match their dimensions. Model's constructors call it.
void checkModel(const ModelContent &content);

constexpr int64_t kOldestOnnxOpset = 6;

}  // namespace popart::onnx

// Reading ONNX models: bytes or file -> Model -> graph of the Ir. Opsets 6 to newest, functions, subgraphs, external
// data. A model is untrusted input: every refusal is a popart::error that names the node, tensor or file, what was
// found, what is expected and what to do; nothing outside the model's folder is read and sizes are checked before
// memory is taken.
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
  // Reads a file; external data is looked for below the file's folder. Throws popart::error.
  static Model load(const std::string &path);
  // Parses a serialised ModelProto; external data is looked for below `folder` (default: the current folder).
  static Model parse(std::string_view bytes, const std::string &folder = ".");
  // PopART's "modelProtoOrFilename": the name of an existing file, otherwise the bytes of a model.
  static Model fromProtoOrFile(std::string_view modelProtoOrFilename);

  explicit Model(std::shared_ptr<const ModelContent> content) : content_(std::move(content)) {}
  const ModelContent &content() const { return *content_; }
  const std::shared_ptr<const ModelContent> &shared() const { return content_; }

  // Opset version of each imported domain ("ai.onnx" for the default one).
  std::map<std::string, int64_t> opsets() const;
  const std::string &graphName() const;
  std::vector<TensorId> inputIds() const;  // graph inputs that are not initializers
  std::vector<TensorId> outputIds() const;
  std::vector<TensorId> initializerIds() const;
  // Of graph inputs, those that are not the default. Throws popart::error for damaged metadata.
  std::map<TensorId, InputSettings> inputSettings() const;

  // Graph inputs as they are declared, those that are no tensors left out.
  struct Input {
    TensorId id;
    DataType type = DataType::UNDEFINED;  // UNDEFINED: not declared
    bool hasShape = false;
    std::vector<std::pair<int64_t, std::string>> shape;  // size, or -1 and the symbol of an open dimension (or "")
    bool isOpen() const;                                 // no shape, or an open dimension
  };
  std::vector<Input> inputs() const;            // without initializers
  std::vector<Input> inputsWithValues() const;  // that are initializers too: their value where nothing is fed
  // Tensors of the main graph whose samples are not along axis 0, as the node says that reads them first: data and
  // initial states of recurrent layers.
  std::map<TensorId, int> batchAxes() const;

  // Memory of the parsed message in bytes (as serialised), and where in it the values of initializers lie.
  struct Memory {
    int64_t bytes = 0;
    std::map<const void *, int64_t> values;  // start, bytes
  };
  Memory memory() const;
  // Values of initializers that were hashed when the model was read, as bytes (UINT8), and XXH3 of them.
  std::vector<std::pair<TensorData, uint64_t>> contentHashes() const;

 private:
  std::shared_ptr<const ModelContent> content_;
};

enum class Purpose { Inference, Training };
// Variable: floating-point initializers that train or that a program may replace are variables, as TrainableTensors
// says. Constant: they are folded like literals.
enum class WeightRole { Variable, Constant };
// Strict: the opset must be one this library knows. Lenient: a newer opset is read as the newest known one.
enum class OpVersionRule { Strict, Lenient };

// Refuse: an attribute that the operator does not have is an error. Drop: it is left out.
enum class UnknownAttributes { Refuse, Drop };

// FromPurpose: for inference, Dropout and BatchNormalization have inference form whatever constants of the file say.
// FromFile: they have the form that the file states. Training always follows the file.
enum class TrainingForm { FromPurpose, FromFile };

struct BuildOptions {
  Purpose purpose = Purpose::Inference;
  TrainingForm trainingForm = TrainingForm::FromPurpose;
  WeightRole weights = WeightRole::Variable;
  // Initializers that are Variables whatever `weights` says; in training only integers need it, as floating-point ones
  // are.
  std::set<std::string> updatable;
  // Initializers that are graph inputs too, and of which runs bring the values: the program has them as inputs.
  std::set<std::string> fed;
  // Which floating-point initializers are variables, where weights are Variables; null: buildGraph and outputTensors
  // ask the file, builders take all.
  std::shared_ptr<const TrainableTensors> trainable;
  int64_t replicas = 1;  // that weights with VariableSettings and collectives are for; 0: not known yet (builders)
  OpVersionRule versions = OpVersionRule::Strict;
  UnknownAttributes unknownAttributes = UnknownAttributes::Refuse;
  // Shapes and types of graph inputs whose dimensions the model leaves open (PopART InputShapeInfo). A symbolic
  // dimension that one entry fixes is fixed for all inputs that use its name. A sequence has as many tensors as there
  // are entries for its elements (`elementId`), an optional value is there when it has an entry.
  std::map<TensorId, TensorInfo> inputShapeInfo;
  // Inner tensors that runs return: where their sizes depend on data they are as the model's outputs are, with
  // zeros behind their values and tensors of their lengths. Names that the model does not have are left out.
  std::set<TensorId> returned;
  // Tensors whose gradients are asked for: what reads one stays an op, constants among them too.
  std::set<TensorId> differentiated;
  // False: nodes that read a constant which another node reads too stay ops, but for Constant, ConstantOfShape and
  // Shape; what steers a shape is known all the same.
  bool foldsShared = true;
  // GroupNormalization: groups are of channels that are num_groups apart. Known here, as derivatives of derivatives are
  // written while the graph is built.
  bool stridesGroups = false;
  // Most iterations of a loop that stacks values without a bound in the model; 0: chosen by their size.
  int64_t mostStacked = 0;
  // Memory that the program may take, in bytes; 0: no limit. Constants that are made here take a part of it.
  int64_t limitBytes = 0;
  // Computes constant subexpressions; without it only Shape and Size are folded.
  EvaluateOp evaluate;
};

// Adds the model to the main graph of an empty Ir: graph inputs become Stream tensors, floating-point initializers
// Variables or Const (see WeightRole), integer initializers Const unless a node updates them; tensors keep their ONNX
// names; graph outputs are marked in order. Everything shape-like is resolved, so all infos are known. Throws
// popart::error.
void buildGraph(const Model &model, const BuildOptions &options, Ir &ir);

// The tensors that a graph output has in the program.
struct OutputLength {
  TensorId id;       // of the tensor that holds a size that depends on data of the run
  int64_t axis = 0;  // the dimension of that size
};
struct OutputTensors {
  std::vector<TensorId> ids;  // its own for a tensor, one for each element of a sequence, none for what is absent
  std::vector<std::vector<OutputLength>> lengths;  // of each of them
};
// Of each graph output, and of those of options.returned that the model has. Builds the graph. Throws popart::error.
std::map<std::string, OutputTensors> outputTensors(const Model &model, const BuildOptions &options);
// The tensor that holds the size of a graph output that depends on data of the run: "name/length", of further such
// dimensions "name/length/1", ….
TensorId lengthId(const std::string &name, size_t i = 0);

// The tensor of element `i` of a graph input or output that is a sequence: "name/0", "name/1", ….
TensorId elementId(const std::string &name, size_t i);

// One serialised TensorProto (the .pb files of ONNX test data). Throws popart::error.
TensorData parseTensor(std::string_view bytes, const std::string &name);

// Structural rules of the ONNX specification that need no operator knowledge: names unique and defined before use, no
// cycles, legal versions, tensor payloads that match their dimensions. Model's constructors have called it.
void checkModel(const ModelContent &content);

constexpr int64_t kOldestOnnxOpset = 6;

}  // namespace popart::onnx

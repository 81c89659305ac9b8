// Registration of user operators (docs/custom-operators.md). A library defines a class derived from Op and a
// static OpCreator; once the library is loaded, models, builders and PopXL graphs may use the operator:
//
//   const popart::OperatorIdentifier Cube{"my.domain", "Cube", 1};
//   static popart::OpDefinition::DataTypes T{popart::DataType::FLOAT};
//   static popart::OpDefinition cubeDef({popart::OpDefinition::Inputs({{"x", T}}),
//                                        popart::OpDefinition::Outputs({{"y", T}}),
//                                        popart::OpDefinition::Attributes()});
//   static popart::OpCreator<CubeOp> cubeCreator(popart::OpDefinitions({{Cube, cubeDef}}));
//
// Kernels are registered with popart/userkernel.hpp. In-place variants need not be written: memory is shared by the
// planner.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <popart/attributes.hpp>
#include <popart/half.hpp>
#include <popart/op.hpp>
#include <popart/operatoridentifier.hpp>

namespace popart {

// Facts about a node when its op is created.
class OpCreatorInfo {
 public:
  // inputs: null for an absent optional input.
  OpCreatorInfo(const Op::Settings &opSettings, Attributes given, std::vector<const Tensor *> inputs,
                std::vector<TensorId> outputIds)
      : settings(opSettings),
        attributes(std::move(given)),
        inputs_(std::move(inputs)),
        outputIds_(std::move(outputIds)) {}

  OperatorIdentifier opid;  // of the registered operator
  Op::Settings settings;    // for the new op
  Attributes attributes;    // as given by the program

  bool hasInputIds() const { return !inputs_.empty(); }
  std::vector<TensorId> getInputIds() const;  // "" for an absent input
  const std::vector<TensorId> &getOutputIds() const { return outputIds_; }
  bool hasInputTensor(int i) const;  // also false if i is out of range
  // These throw popart::error if input i is absent.
  const Tensor &getInputTensor(int i) const;
  const TensorInfo &getInputTensorInfo(int i) const;
  // Value of a constant input, which may be an initializer. Throws popart::error if it is not known.
  const TensorData &getInputTensorData(int i) const;
  // Elements of a constant input of rank 0 or 1. T must be the element type, which must be one of `types` unless empty.
  template <class T>
  std::vector<T> getInputData(int i, const std::vector<DataType> &types = {}) const {
    const TensorData &data = checkedData(i, getDataType<T>(), types);
    const T *values = static_cast<const T *>(data.data());
    return std::vector<T>(values, values + data.info().nelms());
  }
  // The one element of a constant input.
  template <class T>
  T getInputScalarValue(int i) const {
    const std::vector<T> values = getInputData<T>(i);
    check(values.size() == 1, "{}: input {} must have one element: got {}", opid, i, values.size());
    return values.front();
  }
  template <class T>
  T getInputScalarValue(int i, T whenAbsent) const {
    return hasInputTensor(i) ? getInputScalarValue<T>(i) : whenAbsent;
  }

 private:
  const TensorData &checkedData(int i, DataType type, const std::vector<DataType> &types) const;
  std::vector<const Tensor *> inputs_;
  std::vector<TensorId> outputIds_;
};

// Documentation of an operator's operands: names, element types, attribute names with their possible values.
class OpDefinition {
 public:
  using DataTypes = std::vector<DataType>;  // supported element types of an operand
  // constant: the value must be known when the graph is built.
  struct Input {
    Input(std::string inputName, DataTypes types, bool isConstant = false)
        : name(std::move(inputName)), supportedTensors(std::move(types)), constant(isConstant) {}
    std::string name;            // for documentation
    DataTypes supportedTensors;  // not checked
    bool constant;               // not checked; OpCreatorInfo::getInputData checks it
  };
  // As Input.
  struct Output {
    Output(std::string outputName, DataTypes types) : name(std::move(outputName)), supportedTensors(std::move(types)) {}
    std::string name;            // for documentation
    DataTypes supportedTensors;  // not checked
  };
  // Possible values as a regular expression, for documentation only.
  struct Attribute {
    Attribute(std::string regex) : supportedValuesRegex(std::move(regex)) {}
    std::string supportedValuesRegex;  // ".*" for any value
  };
  // Operands in order, attributes by name.
  using Inputs = std::vector<Input>;
  using Outputs = std::vector<Output>;
  using Attributes = std::map<std::string, Attribute>;

  OpDefinition() = default;
  OpDefinition(Inputs in, Outputs out, Attributes attributeMap)
      : inputs(std::move(in)), outputs(std::move(out)), attributes(std::move(attributeMap)) {}

  Inputs inputs;          // reported by getSupportedOperationsDefinition
  Outputs outputs;        // as inputs
  Attributes attributes;  // as inputs
};

// Definitions by operator: the argument of OpCreator.
class OpDefinitions : public std::map<OperatorIdentifier, OpDefinition> {
 public:
  using std::map<OperatorIdentifier, OpDefinition>::map;
  OpDefinitions(std::initializer_list<value_type> entries) : std::map<OperatorIdentifier, OpDefinition>(entries) {}
};

// The registry of user operators. Thread-safe; nothing is ever removed.
class OpManager {
 public:
  using OpFactoryFunc = std::function<std::unique_ptr<Op>(const OpCreatorInfo &)>;  // must not return null
  // isPublic false: excluded from getSupportedOperations(false). Throws popart::error if the operator is already
  // registered, or is one of the library's.
  static void registerOp(const OperatorIdentifier &opid, const OpDefinition &definition, const bool isPublic,
                         OpFactoryFunc factory);
  // The definition given at registration; null for an operator that no user registered, or with isPublic false.
  static const OpDefinition *findUserDefinition(const OperatorIdentifier &opid);
};

// Registers class OP for each identifier at static initialisation.
template <class OP>
class OpCreator {
 public:
  // OP has a constructor (const OperatorIdentifier &, const Op::Settings &).
  explicit OpCreator(const OpDefinitions &definitions, const bool isPublic = true)
      : OpCreator(
            definitions,
            [](const OpCreatorInfo &info) -> std::unique_ptr<Op> {
              return std::make_unique<OP>(info.opid, info.settings);
            },
            isPublic) {}
  OpCreator(const OpDefinitions &definitions, OpManager::OpFactoryFunc factory, const bool isPublic = true) {
    for (const auto &[opid, definition] : definitions) OpManager::registerOp(opid, definition, isPublic, factory);
  }
};

// The row that nodes of a user operator share, created at the first call. Rows of users are named
// "<domain>.<type>:<version>", so that a user operator may have the type name of one of the library's in another
// domain.
const OpDef &userOpDef(const OperatorIdentifier &opid);

}  // namespace popart

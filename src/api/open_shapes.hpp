// OpenShapes: the programs of a session whose model leaves dimensions of its inputs open, or has inputs with default
// values (initializers) that a step may still feed. There is one program for each set of shapes and fed weights in use,
// made when it is first needed. Invariant: the session's weights, optimizer state and random numbers are those of the
// program in use. The other programs get them when they are used again, and keep no device memory for weights until
// then.
#pragma once
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "api/session_impl.hpp"

namespace popart {

// From engineOptions["max_shape_programs"]: how many programs a session keeps; 0: shapes are fixed. Throws
// popart::error for a value that is not a number of 1 or more.
int maxShapePrograms(const SessionOptions &options);

// The part of a session that chooses among its programs.
struct Session::OpenShapes {
  // For each open input and fed weight: the type and shape of one micro-batch of one replica.
  using Key = std::map<TensorId, TensorInfo>;
  // Makes the program for these shapes, with these weights as inputs.
  using Make = std::function<std::unique_ptr<Impl>(const InputShapeInfo &, const std::set<TensorId> &fed,
                                                   std::shared_ptr<DeviceInfo>)>;

  // Given shapes are fixed. Throws popart::error for an invalid option.
  OpenShapes(std::string session, const SessionOptions &options, const onnx::Model &model, const DataFlow &dataFlow,
             const InputShapeInfo &given);

  // Whether the option is set and the shape of an input is open.
  bool anyOpen() const;
  // From now on steps may also feed graph inputs of the model that have initializers.
  void takeWeights(const onnx::Model &model);
  bool takesWeights() const { return !weights_.empty(); }
  // Whether the arrays of a step may need another program than `current`. With fixed shapes their number decides this.
  bool mayDiffer(const IStepIO &stepIO, const Program &current) const;
  void settle(const IStepIO &stepIO) { settled_ = stepIO.serial(); }  // records that the program in use matches them
  // Records that programs are compiled and, with loadEngine, loaded when they are first used; forgets compiled ones.
  // Returns true if no program is in use yet, so that there is nothing else to do.
  bool prepare(bool loadEngine, const Program &current);
  void setDevice(std::shared_ptr<DeviceInfo> deviceInfo);  // for all programs; forgets those that are not in use

  // The shapes of the open inputs; shapes that are not given follow from names of dimensions. Throws popart::error.
  Key resolve(const InputShapeInfo &shapes) const;
  // The same from the arrays of a step; an input without an array keeps its shape.
  Key resolve(IStepIO &stepIO) const;
  // Makes `current` the program for these shapes. If it cannot be made, nothing changes.
  void use(const Key &shapes, Program &current, Session &session);

  Make make;
  std::shared_ptr<const onnx::TrainableTensors> trainable;  // of every program
  bool prepared = false;                                    // prepareDevice was called
  bool sendsWeights = false;                                // weightsFromHost was called before the first program

 private:
  struct Kept {
    Key shapes;
    std::unique_ptr<Impl> program;
  };
  using Symbols = std::map<std::string, int64_t>;
  Symbols symbolsOf(const Key &shapes) const;
  TensorInfo infoOf(const onnx::Model::Input &input, const SequentialBuffer &array) const;
  Shape shapeOf(const onnx::Model::Input &input, const Shape &array) const;
  std::unique_ptr<Impl> makeFor(const Key &shapes, const Impl *current) const;
  std::unique_ptr<Impl> take(const Key &shapes);  // removes it from `others_`; null: not there

  std::string name_;
  int most_;
  InputShapeInfo given_;
  std::vector<onnx::Model::Input> inputs_;   // the open inputs
  std::vector<onnx::Model::Input> weights_;  // graph inputs that have initializers
  uint64_t settled_ = 0;                     // serial number of the StepIO that the program in use was chosen for
  std::set<TensorId> broadcast_;             // inputs of which all replicas get the same values
  int64_t batches_ = 1, replicas_ = 1;       // in an array of an input: micro-batches of a step, and replicas
  bool loads_ = false;
  std::shared_ptr<DeviceInfo> device_;  // null: as at creation
  Key current_;
  std::list<Kept> others_;  // most recently used first
};

}  // namespace popart

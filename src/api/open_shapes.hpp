// Programs of a session whose model leaves dimensions of its inputs open, or has inputs with values of their own
// (initializers) that a step may feed all the same: one for each set of shapes and fed weights in use, made when it is
// first asked for. Invariant: weights, optimizer state and random numbers of the session are those of the program
// in use; the others get them when they come into use again, and keep no device memory for weights meanwhile.
#pragma once
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "api/session_impl.hpp"

namespace popart {

// From engineOptions["max_shape_programs"]: how many programs a session keeps; 0: shapes are fixed. Throws
// popart::error for another value than a number of 1 or more.
int maxShapePrograms(const SessionOptions &options);

// The part of a session that chooses among its programs.
struct Session::OpenShapes {
  // Of every open input and fed weight, one micro-batch of one replica.
  using Key = std::map<TensorId, TensorInfo>;
  // For these shapes, with these weights as inputs.
  using Make = std::function<std::unique_ptr<Impl>(const InputShapeInfo &, const std::set<TensorId> &fed,
                                                   std::shared_ptr<DeviceInfo>)>;

  // Given shapes count as fixed. Throws popart::error for a bad option.
  OpenShapes(std::string session, const SessionOptions &options, const onnx::Model &model, const DataFlow &dataFlow,
             const InputShapeInfo &given);

  // Whether the option asks for it and the shape of an input is open.
  bool anyOpen() const;
  // From now on steps may feed graph inputs of the model that are initializers too.
  void takeWeights(const onnx::Model &model);
  bool takesWeights() const { return !weights_.empty(); }
  // Whether the arrays of a step may ask for another program than `current`. With fixed shapes that is seen from their
  // number.
  bool mayDiffer(const IStepIO &stepIO, const Program &current) const;
  void settle(const IStepIO &stepIO) { settled_ = stepIO.serial(); }  // the program in use is the one for its arrays
  // Notes that programs are compiled, and loaded, when they come into use; forgets compiled ones. True: no program is
  // in use yet, and nothing else is to be done.
  bool prepare(bool loadEngine, const Program &current);
  void setDevice(std::shared_ptr<DeviceInfo> deviceInfo);  // of all programs; forgets those that are not in use

  // Shapes of the open inputs; those without an entry follow from names of dimensions. Throws popart::error.
  Key resolve(const InputShapeInfo &shapes) const;
  // The same from the arrays of a step; an input that has none keeps its shape.
  Key resolve(IStepIO &stepIO) const;
  // `current` becomes the program for these shapes. When it cannot be made, everything stays as it is.
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
  std::unique_ptr<Impl> take(const Key &shapes);  // out of `others_`; null: not there

  std::string name_;
  int most_;
  InputShapeInfo given_;
  std::vector<onnx::Model::Input> inputs_;   // that are open
  std::vector<onnx::Model::Input> weights_;  // graph inputs that are initializers too
  uint64_t settled_ = 0;                     // serial number of the StepIO that the program in use was chosen for
  std::set<TensorId> broadcast_;             // inputs of which all replicas get the same values
  int64_t batches_ = 1, replicas_ = 1;       // in an array of an input: micro-batches of a step, and of how many
  bool loads_ = false;
  std::shared_ptr<DeviceInfo> device_;  // null: as at creation
  Key current_;
  std::list<Kept> others_;  // those used last first
};

}  // namespace popart

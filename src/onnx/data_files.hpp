// Data files of models: tensors whose values lie in a file beside the model, and how they are read from, written to and
// moved between such files. A location is relative to the model's folder, or the name that saveInitializersExternally
// got.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "onnx/model_content.hpp"

namespace popart::onnx {

// Where the values of a tensor lie.
struct DataPlace {
  std::string location;  // as the model names the file
  std::string path;      // of the file, links resolved
  int64_t offset = 0;
};

// The place of an external tensor. Throws missing_data_error when the file is not there, and popart::error when the
// location leads outside of the model's folder.
DataPlace placeOf(const onnx_proto::TensorProto &tensor, const ExternalFiles &files);
void setPlace(onnx_proto::TensorProto &tensor, const std::string &location, int64_t offset, int64_t length);

// The tensors whose values lie in files: initializers, attributes, and those of bodies and functions.
std::vector<const onnx_proto::TensorProto *> externalTensors(const onnx_proto::ModelProto &model);
std::vector<onnx_proto::TensorProto *> externalTensors(onnx_proto::ModelProto &model);
std::vector<onnx_proto::TensorProto *> externalTensors(onnx_proto::GraphProto &graph);

// New values for tensors in data files. Files are written by commit, each whole or not at all.
class DataFileUpdate {
 public:
  // `target`: the model file that will name the data files. Throws popart::error when it is one of them itself, and
  // missing_data_error for a file that is not there.
  DataFileUpdate(const ModelContent &model, const std::string &target);
  // Whether the initializer lies in a file that `target` can name: below its folder, or one that this process wrote.
  // Others are taken into the model, and their files left alone.
  bool takes(const TensorId &id) const { return places_.count(id) != 0; }
  // The same for state of such a weight (Accl___w), which then lies in the weight's file.
  bool takesStateOf(const TensorId &state) const { return !weightOf(state).empty(); }
  // Values of an initializer, which stay at their place; `header` (name, type, dimensions) is made to point at it.
  // Where another tensor of the model has a part of the place, they go behind all others of the file, as state does.
  void put(const TensorId &id, const TensorData &value, std::map<TensorId, DataPlace> &known,
           onnx_proto::TensorProto &header);
  // The same without new values.
  void keep(const TensorId &id, onnx_proto::TensorProto &header) const;
  // Values of state: at the place of `known`, else behind all others of the file, which `known` then remembers.
  void putState(const TensorId &state, const TensorData &value, std::map<TensorId, DataPlace> &known,
                onnx_proto::TensorProto &header);
  void commit() const;

 private:
  TensorId weightOf(const TensorId &state) const;
  void noteShared(const ModelContent &model);
  void putBehind(const DataPlace &beside, const TensorId &id, const TensorData &value,
                 std::map<TensorId, DataPlace> &known, onnx_proto::TensorProto &header);
  // Adds to the file, where the place is taken by another tensor or there is none yet.
  void place(DataPlace &where, const TensorData &value, const TensorId &id, onnx_proto::TensorProto &header);

  struct Content {
    std::shared_ptr<const MappedFile> old;
    std::map<int64_t, TensorData> values;  // offset -> new values, as in the file
    int64_t end = 0;
  };
  Content &contentOf(const DataPlace &where);
  std::map<TensorId, DataPlace> places_;
  std::set<TensorId> shared_;                // initializers whose place has values of others too
  std::map<std::string, Content> contents_;  // path -> what is written there
};

// Moves the values of initializers of `graph` to a raw file and notes their places: behind what is there where tensors
// of the graph lie in that file already, else in its place. Throws popart::error: no initializer of that name, external
// already, folder missing.
void saveExternally(onnx_proto::GraphProto &graph, const ExternalFiles &files, const std::vector<TensorId> &ids,
                    const std::string &path);

// Takes the values of a tensor in a data file into the message.
void embedValues(onnx_proto::TensorProto &tensor, const ExternalFiles &files);

// Makes locations that are relative to the folder of `files` legal in a message without folder, which is read from the
// current one.
void detachFromFolder(onnx_proto::ModelProto &model, const ExternalFiles &files);
// Makes them relative to the folder of the model file `path`; tensors in files that are not below it are taken into the
// message. Initializers of the main graph can be left to the caller.
enum class MainInitializers { Attached, LeftAlone };
void attachToFolder(onnx_proto::ModelProto &model, const ExternalFiles &files, const std::string &path,
                    MainInitializers initializers);

}  // namespace popart::onnx

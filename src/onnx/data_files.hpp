// Data files of models: tensors whose values are stored in a file next to the model, and how they are read from,
// written to and moved between such files. A location is relative to the model's folder, or the name that was given to
// saveInitializersExternally.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "onnx/model_content.hpp"

namespace popart::onnx {

// Where the values of a tensor are stored.
struct DataPlace {
  std::string location;  // as the model names the file
  std::string path;      // of the file, links resolved
  int64_t offset = 0;
};

// The place of an external tensor. Throws missing_data_error when the file does not exist, and popart::error when the
// location is outside the model's folder.
DataPlace placeOf(const onnx_proto::TensorProto &tensor, const ExternalFiles &files);
void setPlace(onnx_proto::TensorProto &tensor, const std::string &location, int64_t offset, int64_t length);

// The tensors whose values are stored in files: initializers, attributes, and those in bodies and functions.
std::vector<const onnx_proto::TensorProto *> externalTensors(const onnx_proto::ModelProto &model);
std::vector<onnx_proto::TensorProto *> externalTensors(onnx_proto::ModelProto &model);
std::vector<onnx_proto::TensorProto *> externalTensors(onnx_proto::GraphProto &graph);

// New values for tensors in data files. commit writes the files, each completely or not at all.
class DataFileUpdate {
 public:
  // `target`: the model file that will name the data files. Throws popart::error when it is one of the data files, and
  // missing_data_error for a file that does not exist.
  DataFileUpdate(const ModelContent &model, const std::string &target);
  // Whether the initializer is stored in a file that `target` can name: below its folder, or written by this process.
  // Other initializers are moved into the model, and their files do not change.
  bool takes(const TensorId &id) const { return places_.count(id) != 0; }
  // The same for the state of such a weight (Accl___w), which is then stored in the weight's file.
  bool takesStateOf(const TensorId &state) const { return !weightOf(state).empty(); }
  // Values of an initializer, which keep their place; `header` (name, type, dimensions) then refers to it. If another
  // tensor of the model overlaps the place, they are moved to the end of the file, like state.
  void put(const TensorId &id, const TensorData &value, std::map<TensorId, DataPlace> &known,
           onnx_proto::TensorProto &header);
  // The same without new values.
  void keep(const TensorId &id, onnx_proto::TensorProto &header) const;
  // Values of state: at the place in `known`, otherwise at the end of the file; `known` then has this place.
  void putState(const TensorId &state, const TensorData &value, std::map<TensorId, DataPlace> &known,
                onnx_proto::TensorProto &header);
  void commit() const;

 private:
  TensorId weightOf(const TensorId &state) const;
  void noteShared(const ModelContent &model);
  void putInFileOf(const DataPlace &weight, const TensorId &id, const TensorData &value,
                   std::map<TensorId, DataPlace> &known, onnx_proto::TensorProto &header);
  // Adds the value to the file, if another tensor has the place or there is no place yet.
  void place(DataPlace &where, const TensorData &value, const TensorId &id, onnx_proto::TensorProto &header);

  struct Content {
    std::shared_ptr<const MappedFile> old;
    std::map<int64_t, TensorData> values;  // offset -> new values, as in the file
    int64_t end = 0;
  };
  Content &contentOf(const DataPlace &where);
  std::map<TensorId, DataPlace> places_;
  std::set<TensorId> shared_;                // initializers whose place overlaps that of other tensors
  std::map<std::string, Content> contents_;  // path -> what is written there
};

// Moves the values of initializers of `graph` to a raw file and records their places. If tensors of the graph are in
// that file already, the values are added at its end; otherwise the file is replaced. Throws popart::error: no
// initializer of that name, already external, folder missing.
void saveExternally(onnx_proto::GraphProto &graph, const ExternalFiles &files, const std::vector<TensorId> &ids,
                    const std::string &path);

// Copies the values of a tensor in a data file into the message.
void embedValues(onnx_proto::TensorProto &tensor, const ExternalFiles &files);

// Converts locations that are relative to the folder of `files` for a message without a folder, which is read from the
// current one.
void detachFromFolder(onnx_proto::ModelProto &model, const ExternalFiles &files);
// Makes them relative to the folder of the model file `path`; tensors in files outside this folder are moved into the
// message. The initializers of the main graph can be left to the caller.
enum class MainInitializers { Attached, LeftAlone };
void attachToFolder(onnx_proto::ModelProto &model, const ExternalFiles &files, const std::string &path,
                    MainInitializers initializers);

}  // namespace popart::onnx

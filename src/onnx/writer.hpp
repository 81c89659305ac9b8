// Writing models and files: new weights into an existing model; files appear whole or not at all.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "onnx/data_files.hpp"
#include "onnx/reader.hpp"

namespace popart::onnx {

// Writes to a temporary name in the same folder, syncs and renames. Throws popart::error naming the file and the
// reason; the old file, if any, is then unchanged.
void writeFileAtomically(const std::string &path, std::string_view bytes);

// Writes the model with new values of initializers: all else stays as it is. Ids that the model does not have are
// added as initializers that are no graph inputs (optimizer state). Tensors in data files stay there, with their new
// values, where the file can be named from the folder of `path` (below it, or written by saveInitializersExternally of
// this process); state of such a weight goes to the end of its file, in the order of ids, where `places` has it find
// its place again, and so do weights whose place holds values of others. Other data files are left alone, and their
// tensors taken into the model. Models that exceed 2 GiB keep all other initializers of 1 KiB and more in
// "<file name>.data" beside it. Throws popart::error: a value has another type or shape than the initializer, a data
// missing, is `path` itself or cannot be written. `trainable`: where the program has variables that the file has in
// another form (tied copies, outputs of Identity, initializers of bodies); null: nowhere.
void writeModel(const std::string &path, const Model &original, const std::map<TensorId, TensorData> &values,
                std::map<TensorId, DataPlace> &places, const TrainableTensors *trainable = nullptr);

// The bytes of a message. Throws popart::error when there are 2 GiB of them or more.
std::string serialised(const onnx_proto::ModelProto &proto);

// The message of a model that has no data files. Throws popart::error when it exceeds 2 GiB.
std::string bytesOf(const Model &model);

// The model with new values of initializers inside of it, copies of parameters among them; ids that it does not have
// are left out. `trainable`: as in writeModel. Throws popart::error: a value has another type or shape than the
// initializer.
Model withValues(const Model &original, const std::map<TensorId, TensorData> &values,
                 const TrainableTensors *trainable = nullptr);

// The model with the data of file `from` copied to the new file `to` and read from there. Throws popart::error: `to`
// exists, `from` does not, it holds no initializer. Entries of `places` in `from` are
// changed to `to`.
Model moveExternalData(const Model &model, const std::string &from, const std::string &to,
                       std::map<TensorId, DataPlace> &places);

// The initializers of a model by name; floating-point ones of bodies by the names of their variables.
class Initializers {
 public:
  explicit Initializers(const Model &model);
  std::vector<TensorId> ids() const;
  // Throws popart::error with the nearest names when there is none.
  TensorData value(const TensorId &id) const;

 private:
  Model model_;
  std::map<TensorId, const onnx_proto::TensorProto *> tensors_;
};

}  // namespace popart::onnx

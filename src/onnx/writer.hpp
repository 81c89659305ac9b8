// Writing models and files: writes new weights to an existing model; files are written completely or not at all.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "onnx/data_files.hpp"
#include "onnx/reader.hpp"

namespace popart::onnx {

// Writes to a temporary name in the same folder, syncs and renames. Throws popart::error with the file and the reason;
// an old file is then unchanged.
void writeFileAtomically(const std::string &path, std::string_view bytes);

// Writes the model with new values of initializers; everything else stays the same. Ids that the model does not have
// are added as initializers that are no graph inputs (optimizer state). Tensors in data files stay there, with their
// new values, if the file can be named from the folder of `path` (it is below the folder, or this process wrote it with
// saveInitializersExternally). State of such a weight is added at the end of its file, in the order of ids, and
// `places` records where; so are weights whose place is shared with other values. Other data files are not changed, and
// their tensors are moved into the model. Models that exceed 2 GiB store all other initializers of 1 KiB and more in
// "<file name>.data" next to the model. `trainable`: if not null, it states which variables of the program have another
// form in the file (tied copies, outputs of Identity, initializers of bodies). Throws popart::error if a value has
// another type or shape than the initializer, or if a data file is missing, is `path` itself or cannot be written.
void writeModel(const std::string &path, const Model &original, const std::map<TensorId, TensorData> &values,
                std::map<TensorId, DataPlace> &places, const TrainableTensors *trainable = nullptr);

// The bytes of a message. Throws popart::error for 2 GiB or more.
std::string serialised(const onnx_proto::ModelProto &proto);

// The message of a model that has no data files. Throws popart::error when it exceeds 2 GiB.
std::string bytesOf(const Model &model);

// The model with new values of initializers stored inside it, including copies of parameters; ids that it does not have
// are ignored. `trainable`: as in writeModel. Throws popart::error if a value has another type or shape than the
// initializer.
Model withValues(const Model &original, const std::map<TensorId, TensorData> &values,
                 const TrainableTensors *trainable = nullptr);

// The model with the data of file `from` copied to the new file `to` and read from there. Throws popart::error if `to`
// exists, or if `from` does not exist or has no initializer. Entries of `places` in `from` are changed to `to`.
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

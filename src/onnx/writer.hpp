// Writing models and files: new weights into an existing model; files appear whole or not at all.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "onnx/reader.hpp"

namespace popart::onnx {

// Writes to a temporary name in the same folder, syncs and renames. Throws popart::error naming the file and the
// reason; the old file, if any, is then unchanged.
void writeFileAtomically(const std::string &path, std::string_view bytes);

// The model with its initializers replaced by `values`: nodes, inputs, outputs and metadata stay. Ids that the model
// does not have are added as initializers that are no graph inputs (optimizer state). `metadata` entries are set.
// External data is taken into the message. Throws popart::error when a value has another type or shape than the
// initializer, or when the result exceeds 2 GiB: use writeModel.
std::string serialiseModel(const Model &original, const std::map<TensorId, TensorData> &values,
                           const std::map<std::string, std::string> &metadata = {});

// The same to a file. Tensors in data files that saveInitializersExternally of this process wrote stay there, with
// their new values. Models that exceed 2 GiB keep all initializers of 1 KiB and more in "<file name>.data" beside it.
void writeModel(const std::string &path, const Model &original, const std::map<TensorId, TensorData> &values,
                const std::map<std::string, std::string> &metadata = {});

// The model with the data of file `from` copied to the new file `to` and read from there. Throws popart::error: `to`
// exists, `from` does not, no initializer lies in it.
Model moveExternalData(const Model &model, const std::string &from, const std::string &to);

// The value of an initializer. Throws popart::error with the nearest names when there is none.
TensorData initializerData(const Model &model, const TensorId &id);

}  // namespace popart::onnx

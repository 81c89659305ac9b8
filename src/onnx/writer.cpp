// Writing models: weights replaced in a copy of the message; atomic files.
#include "onnx/writer.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>

#include <popart/error.hpp>

#include "base/files/mapped_file.hpp"
#include "base/files/pending_file.hpp"
#include "base/nearest.hpp"
#include "onnx/exported_program.hpp"
#include "onnx/file_bytes.hpp"
#include "onnx/model_content.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kExternalThresholdBytes = 1024;
constexpr int64_t kExternalAlignmentBytes = 4096;

void setTensor(onnx_proto::TensorProto &tensor, const std::string &name, const TensorData &value) {
  tensor.Clear();
  tensor.set_name(name);
  setPayload(tensor, value);
}

void setExternalPlace(onnx_proto::TensorProto &tensor, const std::string &location, int64_t offset, int64_t length) {
  tensor.set_data_location(onnx_proto::TensorProto::EXTERNAL);
  auto add = [&](const char *key, const std::string &text) {
    auto *entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(text);
  };
  add("location", location);
  add("offset", std::to_string(offset));
  add("length", std::to_string(length));
}

// Initializer values by id, with the model's external data read.
std::map<TensorId, TensorData> allValues(const Model &model, const std::map<TensorId, TensorData> &values) {
  std::map<TensorId, TensorData> all;
  const auto &content = model.content();
  for (const auto &tensor : content.proto->graph().initializer()) {
    auto found = values.find(tensor.name());
    const TensorInfo info = tensorInfo(tensor, tensor.name());
    if (found != values.end())
      check(found->second.info().dataType() == info.dataType() && found->second.info().shape() == info.shape(),
            "Initializer '{}': new value differs from the model: got {}, expected {}", tensor.name(),
            found->second.info(), info);
    all[tensor.name()] = found != values.end() ? found->second : tensorData(tensor, tensor.name(), content);
  }
  for (const auto &[id, value] : values) all.emplace(id, value);
  for (const auto &[copy, parameter] : transposedCopies(content))
    if (!values.count(copy)) all[copy] = transposedMatrix(all.at(parameter));
  return all;
}

// The message without its initializers' payloads.
onnx_proto::ModelProto skeleton(const Model &model, const std::map<std::string, std::string> &metadata) {
  const auto &source = *model.content().proto;
  onnx_proto::ModelProto proto;
  proto.set_ir_version(source.ir_version());
  *proto.mutable_opset_import() = source.opset_import();
  proto.set_producer_name(source.producer_name());
  proto.set_producer_version(source.producer_version());
  proto.set_domain(source.domain());
  proto.set_model_version(source.model_version());
  proto.set_doc_string(source.doc_string());
  *proto.mutable_metadata_props() = source.metadata_props();
  *proto.mutable_training_info() = source.training_info();
  *proto.mutable_functions() = source.functions();
  auto &graph = *proto.mutable_graph();
  const auto &from = source.graph();
  graph.set_name(from.name());
  graph.set_doc_string(from.doc_string());
  *graph.mutable_node() = from.node();
  *graph.mutable_sparse_initializer() = from.sparse_initializer();
  *graph.mutable_input() = from.input();
  *graph.mutable_output() = from.output();
  *graph.mutable_value_info() = from.value_info();
  *graph.mutable_quantization_annotation() = from.quantization_annotation();
  *graph.mutable_metadata_props() = from.metadata_props();
  for (const auto &[key, value] : metadata) {
    onnx_proto::StringStringEntryProto *entry = nullptr;
    for (auto &existing : *proto.mutable_metadata_props())
      if (existing.key() == key) entry = &existing;
    if (!entry) entry = proto.add_metadata_props();
    entry->set_key(key);
    entry->set_value(value);
  }
  return proto;
}

// Initializers that are no graph inputs need IR version 4.
void raiseIrVersion(onnx_proto::ModelProto &proto) {
  constexpr int kInitializersApartFromInputs = 4;
  if (proto.ir_version() < kInitializersApartFromInputs) proto.set_ir_version(kInitializersApartFromInputs);
}

std::vector<TensorId> orderedIds(const Model &model, const std::map<TensorId, TensorData> &all,
                                 onnx_proto::ModelProto &proto) {
  std::vector<TensorId> ids;
  std::map<TensorId, bool> listed;
  for (const auto &tensor : model.content().proto->graph().initializer()) {
    ids.push_back(tensor.name());
    listed[tensor.name()] = true;
  }
  for (const auto &entry : all)
    if (!listed.count(entry.first)) {
      ids.push_back(entry.first);
      raiseIrVersion(proto);
    }
  return ids;
}

int64_t totalBytes(const std::map<TensorId, TensorData> &all) {
  int64_t bytes = 0;
  for (const auto &entry : all) bytes += entry.second.nbytes();
  return bytes;
}

std::string serialised(const onnx_proto::ModelProto &proto) {
  check(proto.ByteSizeLong() < static_cast<size_t>(std::numeric_limits<int>::max()),
        "Model: exceeds 2 GiB: got {} bytes. Save it to a file, then large tensors go to a data file",
        static_cast<long>(proto.ByteSizeLong()));
  return proto.SerializeAsString();
}

// The data files that this process wrote for the model (absolute locations): their tensors stay there and get their new
// values in place. Files that came with a model are left alone.
class OwnDataFiles {
 public:
  explicit OwnDataFiles(const Model &model) : files_(model.content().files) {
    for (const auto &tensor : model.content().proto->graph().initializer())
      if (const std::string location = entry(tensor, "location"); fs::path(location).is_absolute())
        tensors_[tensor.name()] = &tensor;
  }
  bool takes(const TensorId &id) const { return tensors_.count(id) != 0; }
  // Notes the value for its place and makes `message` point at it.
  void put(const TensorId &id, const TensorData &value, onnx_proto::TensorProto &message) {
    message = *tensors_.at(id);
    const std::string location = entry(message, "location"), offset = entry(message, "offset");
    auto [found, isNew] = contents_.try_emplace(location);
    if (isNew) {
      const auto file = files_.file(location, id);
      found->second.assign(file->data(), file->size());
    }
    const size_t begin = offset.empty() ? 0 : std::stoull(offset);
    std::string storage;
    const std::string_view bytes = bytesToWrite(value, storage);
    check(begin + bytes.size() <= found->second.size(), "Initializer '{}': its data file '{}' has become too short", id,
          location);
    std::copy(bytes.begin(), bytes.end(), found->second.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  void commit() const {
    for (const auto &[location, bytes] : contents_) writeFileAtomically(location, bytes);
  }

 private:
  static std::string entry(const onnx_proto::TensorProto &tensor, const char *key) {
    for (const auto &e : tensor.external_data())
      if (tensor.data_location() == onnx_proto::TensorProto::EXTERNAL && e.key() == key) return e.value();
    return {};
  }
  const ExternalFiles &files_;
  std::map<TensorId, const onnx_proto::TensorProto *> tensors_;
  std::map<std::string, std::string> contents_;
};

}  // namespace

void setPayload(onnx_proto::TensorProto &tensor, const TensorData &value) {
  const int type = toOnnxDataType(value.info().dataType());
  check(type != 0, "Tensor '{}': ONNX has no element type for {}", tensor.name(), value.info());
  tensor.set_data_type(type);
  for (int64_t d : value.info().shape()) tensor.add_dims(d);
  std::string storage;
  const std::string_view bytes = bytesToWrite(value, storage);
  tensor.set_raw_data(bytes.data(), bytes.size());
}

void saveExternally(onnx_proto::GraphProto &graph, const ExternalFiles &files, const std::vector<TensorId> &ids,
                    const std::string &path) {
  const fs::path folder = fs::path(path).parent_path();
  check(folder.empty() || fs::is_directory(folder),
        "saveInitializersExternally: folder '{}' does not exist. Create it before saving weights there",
        folder.string());
  std::map<TensorId, onnx_proto::TensorProto *> tensors;
  for (auto &tensor : *graph.mutable_initializer()) tensors[tensor.name()] = &tensor;
  std::string bytes;
  std::vector<std::pair<onnx_proto::TensorProto *, std::pair<int64_t, int64_t>>> places;
  for (const auto &id : ids) {
    auto found = tensors.find(id);
    check(found != tensors.end(), "saveInitializersExternally: '{}' is no initializer of this graph", id);
    check(found->second->data_location() != onnx_proto::TensorProto::EXTERNAL,
          "saveInitializersExternally: initializer '{}' is saved externally already", id);
    const TensorData value = tensorData(*found->second, id, files, nullptr);
    std::string storage;
    const std::string_view added = bytesToWrite(value, storage);
    places.push_back({found->second, {static_cast<int64_t>(bytes.size()), static_cast<int64_t>(added.size())}});
    bytes.append(added);
  }
  writeFileAtomically(path, bytes);
  allowExternalFile(path);
  for (auto &[tensor, place] : places) {
    onnx_proto::TensorProto header;
    header.set_name(tensor->name());
    header.set_data_type(tensor->data_type());
    *header.mutable_dims() = tensor->dims();
    setExternalPlace(header, path, place.first, place.second);
    tensor->Swap(&header);
  }
}

void writeFileAtomically(const std::string &path, std::string_view bytes) {
  PendingFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

std::string serialiseModel(const Model &original, const std::map<TensorId, TensorData> &values,
                           const std::map<std::string, std::string> &metadata) {
  const auto all = allValues(original, values);
  onnx_proto::ModelProto proto = skeleton(original, metadata);
  check(totalBytes(all) < static_cast<int64_t>(std::numeric_limits<int>::max()),
        "Model: weights exceed 2 GiB: got {} bytes. Save it to a file instead", totalBytes(all));
  for (const auto &id : orderedIds(original, all, proto))
    setTensor(*proto.mutable_graph()->add_initializer(), id, all.at(id));
  return serialised(proto);
}

void writeModel(const std::string &path, const Model &original, const std::map<TensorId, TensorData> &values,
                const std::map<std::string, std::string> &metadata) {
  auto all = allValues(original, values);
  onnx_proto::ModelProto proto = skeleton(original, metadata);
  const std::vector<TensorId> ids = orderedIds(original, all, proto);
  OwnDataFiles own(original);
  for (const auto &id : ids)
    if (own.takes(id)) {
      own.put(id, all.at(id), *proto.mutable_graph()->add_initializer());
      all.erase(id);
    }
  constexpr int64_t kRoomForNodes = int64_t{64} << 20;
  const bool fits = totalBytes(all) < static_cast<int64_t>(std::numeric_limits<int>::max()) - kRoomForNodes;
  std::unique_ptr<PendingFile> data;
  if (!fits) data = std::make_unique<PendingFile>(path + ".data");
  int64_t offset = 0;
  const std::string padding(kExternalAlignmentBytes, '\0');
  for (const auto &id : ids) {
    if (own.takes(id)) continue;
    const TensorData &value = all.at(id);
    auto &tensor = *proto.mutable_graph()->add_initializer();
    if (fits || value.nbytes() < kExternalThresholdBytes) {
      setTensor(tensor, id, value);
      continue;
    }
    tensor.set_name(id);
    tensor.set_data_type(toOnnxDataType(value.info().dataType()));
    for (int64_t d : value.info().shape()) tensor.add_dims(d);
    const int64_t gap = (kExternalAlignmentBytes - offset % kExternalAlignmentBytes) % kExternalAlignmentBytes;
    data->write(padding.data(), static_cast<size_t>(gap));
    offset += gap;
    std::string storage;
    const std::string_view bytes = bytesToWrite(value, storage);
    setExternalPlace(tensor, fs::path(path + ".data").filename().string(), offset, static_cast<int64_t>(bytes.size()));
    data->write(bytes.data(), bytes.size());
    offset += static_cast<int64_t>(bytes.size());
  }
  own.commit();
  if (data) data->commit();
  writeFileAtomically(path, serialised(proto));
}

Model moveExternalData(const Model &model, const std::string &from, const std::string &to) {
  check(!fs::exists(to), "updateExternallySavedTensorLocations: '{}' exists already. Name a new file", to);
  check(fs::is_regular_file(from), "updateExternallySavedTensorLocations: there is no file '{}'", from);
  auto content = std::make_shared<ModelContent>();
  *content->proto = wholeMessage(model.content());
  content->name = model.content().name;
  content->files = model.content().files;
  bool any = false;
  for (auto &tensor : *content->proto->mutable_graph()->mutable_initializer())
    for (auto &entry : *tensor.mutable_external_data())
      if (entry.key() == "location" && entry.value() == from) {
        entry.set_value(to);
        any = true;
      }
  check(any, "updateExternallySavedTensorLocations: no initializer of the model is stored in '{}'", from);
  const auto old = MappedFile::open(from, from);
  writeFileAtomically(to, {old->data(), old->size()});
  allowExternalFile(to);
  return Model(std::move(content));
}

TensorData initializerData(const Model &model, const TensorId &id) {
  const auto &content = model.content();
  for (const auto &tensor : content.proto->graph().initializer())
    if (tensor.name() == id) return tensorData(tensor, id, content);
  throw error("Model '{}': has no initializer '{}'. Nearest names: {}", content.name, id,
              nearest(id, model.initializerIds()));
}

}  // namespace popart::onnx

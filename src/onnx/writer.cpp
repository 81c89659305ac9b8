// Writing models: replaces weights in a copy of the message; writes files atomically.
#include "onnx/writer.hpp"

#include <filesystem>
#include <limits>
#include <set>

#include <popart/error.hpp>

#include "base/files/mapped_file.hpp"
#include "base/files/pending_file.hpp"
#include "base/nearest.hpp"
#include "onnx/file_bytes.hpp"
#include "onnx/model_check.hpp"
#include "onnx/model_content.hpp"
#include "onnx/training/trainable_tensors.hpp"
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

// The new values of initializers and additional tensors: `values`, their copies, and tensors that do not change
// although the tensor from which they were read does.
std::map<TensorId, TensorData> newValues(const ModelContent &content, const std::map<TensorId, TensorData> &values,
                                         const TrainableTensors *trainable) {
  std::map<TensorId, TensorData> all = values;
  for (const auto &tensor : content.proto->graph().initializer()) {
    const auto found = values.find(tensor.name());
    if (found == values.end()) continue;
    const TensorInfo info = tensorInfo(tensor, tensor.name());
    check(found->second.info().dataType() == info.dataType() && found->second.info().shape() == info.shape(),
          "Initializer '{}': new value differs from the model: got {}, expected {}", tensor.name(),
          found->second.info(), info);
  }
  if (!trainable) return all;
  for (const auto &tensor : content.proto->graph().initializer()) {
    const std::string &name = tensor.name();
    if (const auto copy = trainable->copies.find(name); copy != trainable->copies.end())
      if (const auto found = values.find(copy->second.original); found != values.end())
        all[name] = copyOf(copy->second, found->second, tensorInfo(tensor, name).shape());
    for (const auto &[result, source] : trainable->separate)
      if (source == name && !all.contains(result)) all[result] = tensorData(tensor, name, content);
  }
  return all;
}

// Initializers that are not graph inputs need IR version 4.
void raiseIrVersion(onnx_proto::ModelProto &proto) {
  constexpr int kInitializersApartFromInputs = 4;
  if (proto.ir_version() < kInitializersApartFromInputs) proto.set_ir_version(kInitializersApartFromInputs);
}

// The tensor's message without values and place.
onnx_proto::TensorProto headerOf(const TensorId &id, const TensorInfo &info) {
  onnx_proto::TensorProto header;
  header.set_name(id);
  header.set_data_type(toOnnxDataType(info.dataType()));
  for (int64_t d : info.shape()) header.add_dims(d);
  return header;
}

using BodyTensors = std::map<const onnx_proto::TensorProto *, onnx_proto::TensorProto *>;

// Initializers of bodies: those in `from` -> those in its copy `to`.
void findBodyTensors(const onnx_proto::GraphProto &from, onnx_proto::GraphProto &to, BodyTensors &found) {
  for (int n = 0; n < from.node_size(); ++n)
    for (int a = 0; a < from.node(n).attribute_size(); ++a) {
      if (!from.node(n).attribute(a).has_g()) continue;
      const onnx_proto::GraphProto &body = from.node(n).attribute(a).g();
      onnx_proto::GraphProto &copy = *to.mutable_node(n)->mutable_attribute(a)->mutable_g();
      for (int i = 0; i < body.initializer_size(); ++i) found[&body.initializer(i)] = copy.mutable_initializer(i);
      findBodyTensors(body, copy, found);
    }
}

// Moves the values of initializers of bodies from `fresh` into the message, and removes Identity nodes whose results
// have separate values from it.
void writeOtherForms(const ModelContent &content, const TrainableTensors &trainable,
                     std::map<TensorId, TensorData> &fresh, onnx_proto::ModelProto &proto) {
  if (!trainable.inBodies.empty()) {
    BodyTensors tensors;
    findBodyTensors(content.proto->graph(), *proto.mutable_graph(), tensors);
    for (const auto &[id, tensor] : initializersOfBodies(content))
      if (const auto value = fresh.find(id); value != fresh.end() && tensors.contains(tensor)) {
        setTensor(*tensors.at(tensor), tensor->name(), value->second);
        fresh.erase(value);
      }
  }
  auto &nodes = *proto.mutable_graph()->mutable_node();
  for (int n = nodes.size() - 1; n >= 0; --n)
    if (nodes[n].op_type() == "Identity" && nodes[n].output_size() == 1 && fresh.contains(nodes[n].output(0)) &&
        trainable.separate.contains(nodes[n].output(0)))
      nodes.DeleteSubrange(n, 1);
}

// Stores tensors in the message, or in "<file name>.data" if the message would become too large.
class Payloads {
 public:
  explicit Payloads(std::string path) : path_(std::move(path)) {}
  // Opens the data file; must be called before the first tensor.
  void useDataFile() { data_ = std::make_unique<PendingFile>(path_); }
  void put(onnx_proto::TensorProto &tensor, const TensorId &id, const TensorData &value) {
    if (!data_ || value.nbytes() < kExternalThresholdBytes) return setTensor(tensor, id, value);
    tensor = headerOf(id, value.info());
    const int64_t gap = (kExternalAlignmentBytes - offset_ % kExternalAlignmentBytes) % kExternalAlignmentBytes;
    data_->write(std::string(static_cast<size_t>(gap), '\0').data(), static_cast<size_t>(gap));
    offset_ += gap;
    const TensorData bytes = asInFile(value);
    setPlace(tensor, fs::path(path_).filename().string(), offset_, bytes.nbytes());
    data_->write(bytes.data(), static_cast<size_t>(bytes.nbytes()));
    offset_ += bytes.nbytes();
  }
  void commit() {
    if (data_) data_->commit();
  }

 private:
  std::string path_;
  std::unique_ptr<PendingFile> data_;
  int64_t offset_ = 0;
};

}  // namespace

void setPayload(onnx_proto::TensorProto &tensor, const TensorData &value) {
  const int type = toOnnxDataType(value.info().dataType());
  check(type != 0, "Tensor '{}': ONNX has no element type for {}", tensor.name(), value.info());
  tensor.set_data_type(type);
  for (int64_t d : value.info().shape()) tensor.add_dims(d);
  const TensorData bytes = asInFile(value);
  tensor.set_raw_data(bytes.data(), static_cast<size_t>(bytes.nbytes()));
}

void writeFileAtomically(const std::string &path, std::string_view bytes) {
  PendingFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

namespace {

// Bytes of the values that the message will contain.
int64_t bytesWithin(const ModelContent &content, const std::map<TensorId, TensorData> &values,
                    const DataFileUpdate &files) {
  int64_t bytes = 0;
  std::set<TensorId> own;
  for (const auto &tensor : content.proto->graph().initializer()) {
    own.insert(tensor.name());
    if (!holdsText(tensor) && !files.takes(tensor.name())) bytes += tensorInfo(tensor, tensor.name()).nbytes();
  }
  for (const auto &[id, value] : values)
    if (!own.count(id) && !files.takesStateOf(id)) bytes += value.nbytes();
  return bytes;
}

}  // namespace

void writeModel(const std::string &path, const Model &original, const std::map<TensorId, TensorData> &values,
                std::map<TensorId, DataPlace> &places, const TrainableTensors *trainable) {
  const ModelContent &content = original.content();
  std::map<TensorId, TensorData> fresh = newValues(content, values, trainable);
  DataFileUpdate files(content, path);
  onnx_proto::ModelProto proto = *content.proto;  // large payloads are not in it
  attachToFolder(proto, content.files, path, MainInitializers::LeftAlone);
  if (trainable) writeOtherForms(content, *trainable, fresh, proto);
  auto &initializers = *proto.mutable_graph()->mutable_initializer();
  constexpr int64_t kRoomForNodes = int64_t{64} << 20;
  Payloads payloads(path + ".data");
  const bool fits =
      bytesWithin(content, fresh, files) < static_cast<int64_t>(std::numeric_limits<int>::max()) - kRoomForNodes;
  if (!fits) payloads.useDataFile();
  for (int i = 0; i < initializers.size(); ++i) {
    const onnx_proto::TensorProto &source = content.proto->graph().initializer(i);
    const TensorId &id = source.name();
    const auto value = fresh.find(id);
    if (files.takes(id)) {
      onnx_proto::TensorProto header = headerOf(id, tensorInfo(source, id));
      if (value == fresh.end())
        files.keep(id, header);
      else
        files.put(id, value->second, places, header);
      initializers[i] = std::move(header);
    } else if (value != fresh.end()) {
      payloads.put(initializers[i], id, value->second);
    } else if (!fits || isExternal(source)) {
      payloads.put(initializers[i], id, tensorData(source, id, content));
    } else if (const auto kept = content.payloads.find(&source); kept != content.payloads.end()) {
      const TensorData &bytes = kept->second.bytes;
      initializers[i].set_raw_data(bytes.data(), static_cast<size_t>(bytes.nbytes()));
    }
    if (value != fresh.end()) fresh.erase(value);
  }
  for (const auto &[id, value] : fresh) {
    raiseIrVersion(proto);
    onnx_proto::TensorProto &tensor = *initializers.Add();
    if (files.takesStateOf(id)) {
      tensor = headerOf(id, value.info());
      files.putState(id, value, places, tensor);
    } else {
      payloads.put(tensor, id, value);
    }
  }
  const std::string message = serialised(proto);
  files.commit();
  payloads.commit();
  writeFileAtomically(path, message);
}

std::string serialised(const onnx_proto::ModelProto &proto) {
  check(proto.ByteSizeLong() < static_cast<size_t>(std::numeric_limits<int>::max()),
        "Model: exceeds 2 GiB: got {} bytes. Store weights in a data file (saveInitializersExternally)",
        static_cast<long>(proto.ByteSizeLong()));
  return proto.SerializeAsString();
}

std::string bytesOf(const Model &model) { return serialised(wholeMessage(model.content())); }

Model withValues(const Model &original, const std::map<TensorId, TensorData> &values,
                 const TrainableTensors *trainable) {
  std::map<TensorId, TensorData> fresh = newValues(original.content(), values, trainable);
  auto content = std::make_shared<ModelContent>();
  *content->proto = wholeMessage(original.content());
  content->name = original.content().name;
  content->files = original.content().files;
  if (trainable) writeOtherForms(original.content(), *trainable, fresh, *content->proto);
  auto &initializers = *content->proto->mutable_graph()->mutable_initializer();
  for (auto &tensor : initializers) {
    const TensorId id = tensor.name();
    if (const auto value = fresh.find(id); value != fresh.end()) setTensor(tensor, id, value->second);
  }
  if (trainable)
    for (const auto &[id, source] : trainable->separate)
      if (const auto value = fresh.find(id); value != fresh.end()) setTensor(*initializers.Add(), id, value->second);
  return Model(std::move(content));
}

Model moveExternalData(const Model &model, const std::string &from, const std::string &to,
                       std::map<TensorId, DataPlace> &places) {
  check(!fs::exists(to), "updateExternallySavedTensorLocations: '{}' exists already. Name a new file", to);
  auto content = std::make_shared<ModelContent>();
  *content->proto = wholeMessage(model.content());
  content->name = model.content().name;
  content->files = model.content().files;
  std::error_code ec;
  const std::string real = fs::canonical(from, ec).string();
  std::vector<std::pair<onnx_proto::TensorProto *, DataPlace>> moved;
  for (auto *tensor : externalTensors(*content->proto)) {
    DataPlace place = placeOf(*tensor, content->files);
    if (place.location == from || (!ec && place.path == real)) moved.emplace_back(tensor, std::move(place));
  }
  check(!moved.empty() || !ec, "updateExternallySavedTensorLocations: there is no file '{}'", from);
  check(!moved.empty(), "updateExternallySavedTensorLocations: no initializer of the model is stored in '{}'", from);
  const auto old = MappedFile::open(moved.front().second.path, from);
  writeFileAtomically(to, {old->data(), old->size()});
  allowExternalFile(to);
  const bool isHere = fs::equivalent(content->files.folder(), ".", ec);
  const std::string location = isHere ? to : fs::absolute(to).string();
  for (auto &[id, place] : places)
    if (place.path == moved.front().second.path) place.location = location, place.path = fs::canonical(to).string();
  for (auto &[tensor, place] : moved) {
    const int64_t length = fileBytes(tensorInfo(*tensor, tensor->name()));
    tensor->clear_external_data();
    setPlace(*tensor, location, place.offset, length);
  }
  return Model(std::move(content));
}

Initializers::Initializers(const Model &model) : model_(model) {
  for (const auto &tensor : model.content().proto->graph().initializer()) tensors_.emplace(tensor.name(), &tensor);
  for (const auto &[id, tensor] : initializersOfBodies(model.content())) tensors_.emplace(id, tensor);
}

std::vector<TensorId> Initializers::ids() const {
  std::vector<TensorId> ids;
  for (const auto &entry : tensors_) ids.push_back(entry.first);
  return ids;
}

TensorData Initializers::value(const TensorId &id) const {
  const auto found = tensors_.find(id);
  if (found == tensors_.end())
    throw error("Model '{}': has no initializer '{}'{}", model_.content().name, id,
                nearestText(id, model_.initializerIds()));
  return tensorData(*found->second, id, model_.content());
}

}  // namespace popart::onnx

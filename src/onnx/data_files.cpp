// See data_files.hpp. Files are replaced, never changed in place: mappings of the old file keep its bytes.
#include "onnx/data_files.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include <popart/error.hpp>
#include <popart/tensornames.hpp>

#include "base/files/pending_file.hpp"
#include "base/nearest.hpp"
#include "onnx/file_bytes.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace fs = std::filesystem;
namespace {

fs::path folderOf(const std::string &file) {
  const fs::path folder = fs::path(file).parent_path();
  std::error_code ec;
  return fs::weakly_canonical(folder.empty() ? "." : folder, ec);
}

// The name of a file relative to a folder; empty unless the file is below it.
std::string nameBelow(const std::string &path, const fs::path &folder) {
  const fs::path relative = fs::path(path).lexically_relative(folder);
  return relative.empty() || *relative.begin() == ".." ? std::string() : relative.string();
}

bool isSameFile(const std::string &path, const std::string &other) {
  std::error_code ec;
  return fs::weakly_canonical(path, ec).string() == other;
}

bool isCurrentFolder(const std::string &folder) {
  std::error_code ec;
  return fs::equivalent(folder, ".", ec);
}

void refuseOwnData(const onnx_proto::TensorProto &tensor, const DataPlace &place, const std::string &target) {
  check(!isSameFile(target, place.path),
        "Model '{}': the file holds values of the model's tensors, '{}' among them. Choose another name for the model",
        target, tensor.name());
}

void setLocation(onnx_proto::TensorProto &tensor, const std::string &location) {
  for (auto &entry : *tensor.mutable_external_data())
    if (entry.key() == "location") entry.set_value(location);
}

}  // namespace

namespace {

using Tensors = std::vector<const onnx_proto::TensorProto *>;

void addIfExternal(const onnx_proto::TensorProto &tensor, Tensors &found) {
  if (isExternal(tensor)) found.push_back(&tensor);
}
void addSparse(const onnx_proto::SparseTensorProto &tensor, Tensors &found) {
  addIfExternal(tensor.values(), found);
  addIfExternal(tensor.indices(), found);
}

template <class Nodes>
void addOfNodes(const Nodes &nodes, Tensors &found);

void addOfGraph(const onnx_proto::GraphProto &graph, Tensors &found) {
  for (const auto &tensor : graph.initializer()) addIfExternal(tensor, found);
  for (const auto &tensor : graph.sparse_initializer()) addSparse(tensor, found);
  addOfNodes(graph.node(), found);
}

template <class Nodes>
void addOfNodes(const Nodes &nodes, Tensors &found) {
  for (const auto &node : nodes)
    for (const auto &a : node.attribute()) {
      if (a.has_t()) addIfExternal(a.t(), found);
      for (const auto &tensor : a.tensors()) addIfExternal(tensor, found);
      if (a.has_sparse_tensor()) addSparse(a.sparse_tensor(), found);
      for (const auto &tensor : a.sparse_tensors()) addSparse(tensor, found);
      if (a.has_g()) addOfGraph(a.g(), found);
      for (const auto &graph : a.graphs()) addOfGraph(graph, found);
    }
}

// The tensors of a message as mutable ones.
std::vector<onnx_proto::TensorProto *> changeable(const Tensors &tensors) {
  std::vector<onnx_proto::TensorProto *> result;
  for (const auto *tensor : tensors) result.push_back(const_cast<onnx_proto::TensorProto *>(tensor));
  return result;
}

}  // namespace

Tensors externalTensors(const onnx_proto::ModelProto &model) {
  Tensors found;
  addOfGraph(model.graph(), found);
  for (const auto &function : model.functions()) addOfNodes(function.node(), found);
  return found;
}

std::vector<onnx_proto::TensorProto *> externalTensors(onnx_proto::ModelProto &model) {
  return changeable(externalTensors(std::as_const(model)));
}

std::vector<onnx_proto::TensorProto *> externalTensors(onnx_proto::GraphProto &graph) {
  Tensors found;
  addOfGraph(graph, found);
  return changeable(found);
}

DataPlace placeOf(const onnx_proto::TensorProto &tensor, const ExternalFiles &files) {
  const ExternalEntry entry = externalEntry(tensor, tensor.name());
  return {entry.location, files.pathOf(entry.location, tensor.name()), entry.offset};
}

void setPlace(onnx_proto::TensorProto &tensor, const std::string &location, int64_t offset, int64_t length) {
  tensor.set_data_location(onnx_proto::TensorProto::EXTERNAL);
  const auto add = [&](const char *key, const std::string &text) {
    auto *entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(text);
  };
  add("location", location);
  add("offset", std::to_string(offset));
  add("length", std::to_string(length));
}

DataFileUpdate::DataFileUpdate(const ModelContent &model, const std::string &target) {
  const fs::path folder = folderOf(target);
  for (const auto &tensor : model.proto->graph().initializer()) {
    if (!isExternal(tensor)) continue;
    DataPlace place = placeOf(tensor, model.files);
    refuseOwnData(tensor, place, target);
    if (!fs::path(place.location).is_absolute()) {
      place.location = nameBelow(place.path, folder);
      if (place.location.empty()) continue;
    }
    places_[tensor.name()] = std::move(place);
  }
  if (!places_.empty()) noteShared(model);
}

void DataFileUpdate::noteShared(const ModelContent &model) {
  struct Extent {
    int64_t begin, end;
    TensorId id;
  };
  std::map<std::string, std::vector<Extent>> files;
  for (const auto *tensor : externalTensors(std::as_const(*model.proto))) {
    const DataPlace place = placeOf(*tensor, model.files);
    const int64_t bytes = fileBytes(tensorInfo(*tensor, tensor->name()));
    if (bytes > 0) files[place.path].push_back({place.offset, place.offset + bytes, tensor->name()});
  }
  for (auto &[path, extents] : files) {
    std::ranges::sort(extents, {}, &Extent::begin);
    int64_t end = 0;
    for (size_t i = 0; i < extents.size(); ++i) {
      const Extent &e = extents[i];
      if (e.begin < end || (i + 1 < extents.size() && extents[i + 1].begin < e.end)) shared_.insert(e.id);
      end = std::max(end, e.end);
    }
  }
}

TensorId DataFileUpdate::weightOf(const TensorId &state) const {
  if (places_.empty()) return {};
  for (const std::string &prefix : allReservedPrefixes())
    if (state.starts_with(prefix))
      if (const auto found = places_.find(state.substr(prefix.size())); found != places_.end()) return found->first;
  return {};
}

DataFileUpdate::Content &DataFileUpdate::contentOf(const DataPlace &where) {
  const auto [found, isNew] = contents_.try_emplace(where.path);
  if (isNew) {
    found->second.old = MappedFile::open(where.path, where.location, MappedFile::Links::One);
    found->second.end = static_cast<int64_t>(found->second.old->size());
  }
  return found->second;
}

void DataFileUpdate::place(DataPlace &where, const TensorData &value, const TensorId &id,
                           onnx_proto::TensorProto &header) {
  Content &content = contentOf(where);
  const TensorData bytes = asInFile(value);
  const auto next = content.values.upper_bound(where.offset);
  const bool meetsNext = next != content.values.end() && where.offset + bytes.nbytes() > next->first;
  const bool meetsLast =
      next != content.values.begin() && std::prev(next)->first + std::prev(next)->second.nbytes() > where.offset;
  if (where.offset < 0 || meetsNext || meetsLast) where.offset = content.end;
  const bool isAtEnd = where.offset == content.end;
  check(isAtEnd || where.offset + bytes.nbytes() <= content.end,
        "Initializer '{}': its data file '{}' has become too short", id, where.path);
  if (isAtEnd) content.end += bytes.nbytes();
  content.values[where.offset] = bytes;
  setPlace(header, where.location, where.offset, bytes.nbytes());
}

void DataFileUpdate::put(const TensorId &id, const TensorData &value, std::map<TensorId, DataPlace> &known,
                         onnx_proto::TensorProto &header) {
  DataPlace &own = places_.at(id);
  if (shared_.contains(id)) return putInFileOf(own, id, value, known, header);
  place(own, value, id, header);
}

void DataFileUpdate::keep(const TensorId &id, onnx_proto::TensorProto &header) const {
  const DataPlace &where = places_.at(id);
  setPlace(header, where.location, where.offset, fileBytes(tensorInfo(header, id)));
}

void DataFileUpdate::putState(const TensorId &state, const TensorData &value, std::map<TensorId, DataPlace> &known,
                              onnx_proto::TensorProto &header) {
  putInFileOf(places_.at(weightOf(state)), state, value, known, header);
}

void DataFileUpdate::putInFileOf(const DataPlace &weight, const TensorId &id, const TensorData &value,
                                 std::map<TensorId, DataPlace> &known, onnx_proto::TensorProto &header) {
  const auto [found, isNew] = known.try_emplace(id, weight);
  if (isNew || found->second.path != weight.path) found->second.offset = -1;  // at the end of the file
  found->second.location = weight.location;
  found->second.path = weight.path;
  place(found->second, value, id, header);
}

void DataFileUpdate::commit() const {
  for (const auto &[path, content] : contents_) {
    PendingFile file(path);
    int64_t at = 0;
    const auto oldUpTo = [&](int64_t end) {
      end = std::min(end, static_cast<int64_t>(content.old->size()));
      if (end > at) file.write(content.old->data() + at, static_cast<size_t>(end - at));
    };
    for (const auto &[offset, value] : content.values) {
      oldUpTo(offset);
      file.write(value.data(), static_cast<size_t>(value.nbytes()));
      at = offset + value.nbytes();
    }
    oldUpTo(content.end);
    file.commit();
  }
}

namespace {

// Whether tensors of the graph are stored in the file.
bool holdsTensorsOf(onnx_proto::GraphProto &graph, const ExternalFiles &files, const std::string &path) {
  std::error_code ec;
  const std::string real = fs::canonical(path, ec).string();
  if (ec) return false;
  return std::ranges::any_of(externalTensors(graph),
                             [&](const auto *tensor) { return placeOf(*tensor, files).path == real; });
}

}  // namespace

void saveExternally(onnx_proto::GraphProto &graph, const ExternalFiles &files, const std::vector<TensorId> &ids,
                    const std::string &path) {
  const fs::path folder = fs::path(path).parent_path();
  check(folder.empty() || fs::is_directory(folder),
        "saveInitializersExternally: folder '{}' does not exist. Create it before saving weights there",
        folder.string());
  std::map<TensorId, onnx_proto::TensorProto *> tensors;
  std::vector<std::string> names;
  for (auto &tensor : *graph.mutable_initializer()) {
    tensors[tensor.name()] = &tensor;
    names.push_back(tensor.name());
  }
  std::set<TensorId> seen;
  for (const auto &id : ids) {
    const auto found = tensors.find(id);
    check(found != tensors.end(), "saveInitializersExternally: '{}' is not an initializer of this graph{}", id,
          nearestText(id, names));
    check(!isExternal(*found->second) && seen.insert(id).second,
          "saveInitializersExternally: initializer '{}' is saved externally already", id);
  }
  std::shared_ptr<const MappedFile> old;
  if (holdsTensorsOf(graph, files, path)) old = MappedFile::open(path, path);
  PendingFile file(path);
  if (old) file.write(old->data(), old->size());
  auto offset = static_cast<int64_t>(old ? old->size() : 0);
  const std::string location =
      fs::path(path).is_absolute() || isCurrentFolder(files.folder()) ? path : fs::absolute(path).string();
  std::vector<onnx_proto::TensorProto> headers;
  for (const auto &id : ids) {
    const onnx_proto::TensorProto &tensor = *tensors.at(id);
    const TensorData value = asInFile(tensorData(tensor, id, files, nullptr));
    file.write(value.data(), static_cast<size_t>(value.nbytes()));
    onnx_proto::TensorProto &header = headers.emplace_back();
    header.set_name(id);
    header.set_data_type(tensor.data_type());
    *header.mutable_dims() = tensor.dims();
    setPlace(header, location, offset, value.nbytes());
    offset += value.nbytes();
  }
  file.commit();
  allowExternalFile(path);
  files.forget(location);
  for (auto &header : headers) tensors.at(header.name())->Swap(&header);
}

void detachFromFolder(onnx_proto::ModelProto &model, const ExternalFiles &files) {
  if (isCurrentFolder(files.folder())) return;
  for (auto *tensor : externalTensors(model)) {
    if (fs::path(externalEntry(*tensor, tensor->name()).location).is_absolute()) continue;
    const std::string path = placeOf(*tensor, files).path;
    allowExternalFile(path);
    setLocation(*tensor, path);
  }
}

void embedValues(onnx_proto::TensorProto &tensor, const ExternalFiles &files) {
  onnx_proto::TensorProto whole;
  whole.set_name(tensor.name());
  setPayload(whole, tensorData(tensor, tensor.name(), files, nullptr));
  tensor.Swap(&whole);
}

void attachToFolder(onnx_proto::ModelProto &model, const ExternalFiles &files, const std::string &path,
                    MainInitializers initializers) {
  const fs::path folder = folderOf(path);
  std::set<const onnx_proto::TensorProto *> left;
  if (initializers == MainInitializers::LeftAlone)
    for (const auto &tensor : model.graph().initializer()) left.insert(&tensor);
  for (auto *tensor : externalTensors(model)) {
    if (left.contains(tensor)) continue;
    const DataPlace place = placeOf(*tensor, files);
    refuseOwnData(*tensor, place, path);
    if (fs::path(place.location).is_absolute()) continue;
    if (const std::string name = nameBelow(place.path, folder); !name.empty()) {
      setLocation(*tensor, name);
      continue;
    }
    embedValues(*tensor, files);
  }
}

}  // namespace popart::onnx

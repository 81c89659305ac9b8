// Loading and parsing of models. Parsing has limits: protobuf's nesting limit, and one message of at most 2 GiB - 1
// bytes (larger models keep their tensors in external files).
#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>

#include <popart/error.hpp>
#include <popart/inputsettings.hpp>

#include "onnx/input_metadata.hpp"
#include "onnx/model_check.hpp"
#include "onnx/model_content.hpp"
#include "onnx/reader.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

constexpr int kMaxMessageNesting = 100;

std::shared_ptr<ModelContent> parseContent(std::string_view bytes, const std::string &name, const std::string &folder) {
  check(bytes.size() <= static_cast<size_t>(std::numeric_limits<int>::max()),
        "Model '{}': is too large for one message: got {} bytes, expected less than 2 GiB. Save it with external data",
        name, static_cast<long>(bytes.size()));
  check(!bytes.empty(), "Model '{}': is empty. Give a serialised ONNX ModelProto", name);
  auto content = std::make_shared<ModelContent>();
  content->name = name;
  content->files = ExternalFiles(folder.empty() ? "." : folder);
  const StrippedModel stripped = stripPayloads(bytes);
  const std::string_view message = stripped.raw.empty() ? bytes : stripped.message;
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t *>(message.data()),
                                                static_cast<int>(message.size()));
  stream.SetRecursionLimit(kMaxMessageNesting);
  const bool ok = content->proto->ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage();
  check(ok,
        "Model '{}': is not an ONNX model, is incomplete or damaged: got {} bytes that do not parse as a ModelProto",
        name, static_cast<long>(bytes.size()));
  std::vector<Payload> payloads = copyPayloads(stripped.raw);
  for (size_t i = 0; i < payloads.size(); ++i)
    content->payloads[&content->proto->graph().initializer(stripped.raw[i].first)] = std::move(payloads[i]);
  checkModel(*content);
  return content;
}

}  // namespace

ModelContent::ModelContent() : proto(std::make_shared<onnx_proto::ModelProto>()) {}
ModelContent::~ModelContent() = default;

Model Model::load(const std::string &path) {
  const auto file = MappedFile::open(path, path);
  return Model(parseContent({file->data(), file->size()}, path, std::filesystem::path(path).parent_path().string()));
}

Model Model::parse(std::string_view bytes, const std::string &folder) {
  return Model(parseContent(bytes, "<" + std::to_string(bytes.size()) + " bytes>", folder));
}

Model Model::fromProtoOrFile(std::string_view modelProtoOrFilename) {
  constexpr size_t kLongestPath = 4096;
  if (modelProtoOrFilename.size() < kLongestPath && modelProtoOrFilename.find('\0') == std::string_view::npos) {
    std::error_code ec;
    if (std::filesystem::is_regular_file(modelProtoOrFilename, ec)) return load(std::string(modelProtoOrFilename));
    const bool printable = std::all_of(modelProtoOrFilename.begin(), modelProtoOrFilename.end(),
                                       [](char c) { return static_cast<unsigned char>(c) >= 0x20; });
    check(!printable || modelProtoOrFilename.empty(),
          "Model: there is no file '{}', and the text is not a serialised model", modelProtoOrFilename);
  }
  return parse(modelProtoOrFilename);
}

void Model::requireUnchangedFiles() const { content_->files.requireUnchanged(); }

std::map<std::string, int64_t> Model::opsets() const { return opsetsOf(*content_->proto); }

const std::string &Model::graphName() const { return content_->proto->graph().name(); }

std::vector<TensorId> Model::inputIds() const {
  const auto &graph = content_->proto->graph();
  const std::set<std::string> initializers = initializerNames(graph);
  std::vector<TensorId> ids;
  for (const auto &input : graph.input())
    if (!initializers.count(input.name())) ids.push_back(input.name());
  return ids;
}

bool Model::Input::isOpen() const {
  return !hasShape || std::ranges::any_of(shape, [](const auto &dimension) { return dimension.first < 0; });
}

Model::Input declaredValue(const onnx_proto::ValueInfoProto &value) {
  const auto &type = value.type().tensor_type();
  Model::Input declared{value.name(), DataType::UNDEFINED, value.type().has_tensor_type() && type.has_shape(), {}};
  if (type.elem_type() != 0) declared.type = fromOnnxDataType(type.elem_type());
  for (const auto &dim : type.shape().dim())
    declared.shape.emplace_back(dim.has_dim_value() && dim.dim_value() >= 0 ? dim.dim_value() : -1, dim.dim_param());
  return declared;
}

// Graph inputs that are tensors: those that are also initializers, or the others.
static std::vector<Model::Input> declaredInputs(const onnx_proto::GraphProto &graph, bool areInitializers) {
  const std::set<std::string> initializers = initializerNames(graph);
  std::vector<Model::Input> all;
  for (const auto &input : graph.input())
    if (initializers.contains(input.name()) == areInitializers && input.type().has_tensor_type())
      all.push_back(declaredValue(input));
  return all;
}

std::vector<Model::Input> Model::inputs() const { return declaredInputs(content_->proto->graph(), false); }
std::vector<Model::Input> Model::inputsWithValues() const { return declaredInputs(content_->proto->graph(), true); }

std::map<TensorId, int> Model::batchAxes() const {
  std::map<TensorId, int> axes;
  for (const auto &node : content_->proto->graph().node()) {
    if (node.op_type() == "Shape" || node.op_type() == "Size") continue;  // they read no elements
    const bool isRecurrent = node.op_type() == "LSTM" || node.op_type() == "RNN" || node.op_type() == "GRU";
    const auto isBatchFirst = [](const auto &attribute) { return attribute.name() == "layout" && attribute.i() == 1; };
    const int axis = isRecurrent && std::ranges::none_of(node.attribute(), isBatchFirst) ? 1 : 0;
    const std::set<int> batched = node.domain() == "ai.graphcore" ? std::set<int>{0, 3} : std::set<int>{0, 5, 6};
    for (int i = 0; i < node.input_size(); ++i) axes.emplace(node.input(i), batched.contains(i) ? axis : 0);
  }
  std::erase_if(axes, [](const auto &entry) { return entry.second == 0; });
  return axes;
}

std::vector<TensorId> Model::outputIds() const {
  std::vector<TensorId> ids;
  for (const auto &output : content_->proto->graph().output()) ids.push_back(output.name());
  return ids;
}

std::map<TensorId, InputSettings> Model::inputSettings() const {
  std::map<TensorId, InputSettings> all;
  for (const auto &input : content_->proto->graph().input()) {
    const std::optional<std::vector<int64_t>> numbers = metadataNumbers(input, kInputSettingsKey);
    if (!numbers) continue;
    const int64_t ends[] = {static_cast<int64_t>(TileSet::N), static_cast<int64_t>(ExchangeStrategy::N),
                            static_cast<int64_t>(ReplicatedStreamMode::Replicate) + 1};
    const auto isOne = [](int64_t number, int64_t end) { return number >= 0 && number < end; };
    check(numbers->size() == 3 && std::ranges::equal(*numbers, ends, isOne),
          "Input '{}': bad metadata '{}': got {}, expected a tile set, an exchange strategy and a stream mode",
          input.name(), kInputSettingsKey, *numbers);
    InputSettings settings(static_cast<TileSet>(numbers->at(0)), static_cast<ExchangeStrategy>(numbers->at(1)));
    settings.setReplicatedStreamMode(static_cast<ReplicatedStreamMode>(numbers->at(2)));
    all.emplace(input.name(), settings);
  }
  return all;
}

Model::Memory Model::memory() const {
  Memory memory{static_cast<int64_t>(content_->proto->ByteSizeLong()), {}};
  for (const auto &t : content_->proto->graph().initializer())
    if (!t.raw_data().empty()) memory.values[t.raw_data().data()] = static_cast<int64_t>(t.raw_data().size());
  for (const auto &entry : content_->payloads) {
    const TensorData &bytes = entry.second.bytes;
    memory.bytes += bytes.nbytes();
    memory.values[bytes.data()] = bytes.nbytes();
  }
  return memory;
}

std::vector<std::pair<TensorData, uint64_t>> Model::contentHashes() const {
  std::vector<std::pair<TensorData, uint64_t>> hashes;
  for (const auto &entry : content_->payloads) hashes.emplace_back(entry.second.bytes, entry.second.hash);
  return hashes;
}

onnx_proto::ModelProto wholeMessage(const ModelContent &model) {
  onnx_proto::ModelProto message = *model.proto;
  auto &initializers = *message.mutable_graph()->mutable_initializer();
  for (int i = 0; i < initializers.size(); ++i) {
    const auto found = model.payloads.find(&model.proto->graph().initializer(i));
    if (found == model.payloads.end()) continue;
    const TensorData &bytes = found->second.bytes;
    initializers[i].set_raw_data(bytes.data(), static_cast<size_t>(bytes.nbytes()));
  }
  return message;
}

std::vector<TensorId> Model::initializerIds() const {
  std::vector<TensorId> ids;
  for (const auto &t : content_->proto->graph().initializer()) ids.push_back(t.name());
  for (const auto &t : content_->proto->graph().sparse_initializer()) ids.push_back(t.values().name());
  return ids;
}

}  // namespace popart::onnx

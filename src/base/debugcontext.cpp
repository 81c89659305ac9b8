// Debug contexts and infos, and the file that collects them: a JSON or CBOR array with one object per DebugInfo,
// written when the streamer closes.
#include <popart/debugcontext.hpp>

#include <atomic>
#include <fstream>
#include <mutex>
#include <optional>

#include <nlohmann/json.hpp>
#include <popart/error.hpp>

namespace popart {
namespace {

struct Streamer {
  std::ofstream file;
  DebugInfo::SerializationFormat format;
  nlohmann::json contexts = nlohmann::json::array();
};

std::mutex streamerMutex;
std::optional<Streamer> &streamer() {
  static std::optional<Streamer> instance;
  return instance;
}
std::atomic<uint64_t> nextDebugId{1};

}  // namespace

DebugContext::DebugContext(const DebugInfo &info, std::string name, SourceLocation loc)
    : name_(std::move(name)), parentPath_(info.getPathName()), parentId_(info.getId()), location_(std::move(loc)) {}

std::string DebugContext::getPathName() const {
  if (parentPath_.empty()) return name_;
  return name_.empty() ? parentPath_ : parentPath_ + "/" + name_;
}

DebugInfo::DebugInfo(const DebugContext &context, std::string layer)
    : id_(nextDebugId++),
      parentId_(context.parentId()),
      layer_(std::move(layer)),
      path_(context.getPathName()),
      location_(context.location()) {}

DebugInfo::~DebugInfo() {
  std::lock_guard lock(streamerMutex);
  if (!streamer()) return;
  nlohmann::json entry = {{"id", id_}, {"parentId", parentId_}, {"layer", layer_}, {"name", path_}};
  entry["location"] = {{"functionName", location_.getFunctionName()},
                       {"fileName", location_.getFileName()},
                       {"lineNumber", location_.getLineNumber()}};
  for (const auto &[name, value] : values_) entry["values"][name] = value;
  streamer()->contexts.push_back(std::move(entry));
}

bool DebugInfo::setValue(const std::string &name, std::string value) {
  values_[name] = std::move(value);
  return true;
}

void DebugInfo::initializeStreamer(const std::string &fileName, SerializationFormat format) {
  closeStreamer();
  std::lock_guard lock(streamerMutex);
  Streamer fresh{std::ofstream(fileName, std::ios::binary), format, nlohmann::json::array()};
  check(fresh.file.is_open(),
        "debug information '{}': the file cannot be opened for writing. Name a file in a writable folder", fileName);
  streamer().emplace(std::move(fresh));
}

void DebugInfo::closeStreamer() {
  std::lock_guard lock(streamerMutex);
  if (!streamer()) return;
  const nlohmann::json document = {{"contexts", streamer()->contexts}};
  if (streamer()->format == SerializationFormat::JSON) {
    streamer()->file << document.dump(1);
  } else {
    const std::vector<uint8_t> bytes = nlohmann::json::to_cbor(document);
    streamer()->file.write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  streamer().reset();
}

}  // namespace popart

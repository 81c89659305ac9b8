// External tensor data: files below the model's folder, mapped read-only. The checks resolve links first and compare
// real paths, so a link or ".." cannot refer to a file outside.
#include <filesystem>
#include <mutex>
#include <set>

#include <popart/error.hpp>

#include "onnx/missing_data.hpp"
#include "onnx/model_content.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace fs = std::filesystem;
namespace {

struct AllowedFiles {
  std::mutex mutex;
  std::set<std::string> paths;
};

AllowedFiles &allowedFiles() {
  static AllowedFiles files;
  return files;
}

bool isAllowed(const fs::path &path) {
  std::lock_guard lock(allowedFiles().mutex);
  return allowedFiles().paths.count(path.string()) != 0;
}

bool isBelow(const fs::path &path, const fs::path &folder) {
  auto p = path.begin();
  for (auto f = folder.begin(); f != folder.end(); ++f, ++p)
    if (p == path.end() || *p != *f) return false;
  return true;
}

int64_t offsetOrLength(const std::string &text, const std::string &key, const std::string &name) {
  check(!text.empty() && text.size() <= 18 && text.find_first_not_of("0123456789") == std::string::npos,
        "Tensor '{}': external data {} must be a non-negative number: got '{}'", name, key, text.substr(0, 40));
  return std::stoll(text);
}

}  // namespace

bool isExternal(const onnx_proto::TensorProto &tensor) {
  return tensor.data_location() == onnx_proto::TensorProto::EXTERNAL;
}

ExternalEntry externalEntry(const onnx_proto::TensorProto &tensor, const std::string &name) {
  ExternalEntry found;
  std::set<std::string> keys;
  for (const auto &entry : tensor.external_data()) {
    check(keys.insert(entry.key()).second, "Tensor '{}': external data has '{}' twice. Save the model again", name,
          entry.key().substr(0, 40));
    if (entry.key() == "location") found.location = entry.value();
    if (entry.key() == "offset") found.offset = offsetOrLength(entry.value(), "offset", name);
    if (entry.key() == "length") found.length = offsetOrLength(entry.value(), "length", name);
  }
  return found;
}

void allowExternalFile(const std::string &path) {
  std::error_code ec;
  const fs::path real = fs::canonical(path, ec);
  if (ec) return;
  std::lock_guard lock(allowedFiles().mutex);
  allowedFiles().paths.insert(real.string());
}

std::shared_ptr<const MappedFile> ExternalFiles::file(const std::string &location,
                                                      const std::string &tensorName) const {
  auto found = open_.find(location);
  if (found != open_.end()) return found->second;
  auto mapped = MappedFile::open(pathOf(location, tensorName), location, MappedFile::Links::One);
  open_.emplace(location, mapped);
  return mapped;
}

void ExternalFiles::requireUnchanged() const {
  for (const auto &[location, file] : open_)
    check(file->isUnchanged(),
          "External data file '{}' in folder '{}': has changed since the model was read. Read the model again",
          location, folder_);
}

std::string ExternalFiles::pathOf(const std::string &location, const std::string &tensorName) const {
  check(!location.empty(), "Tensor '{}': external data has no location. Save the model again with its data files",
        tensorName);
  check(location.find('\0') == std::string::npos, "Tensor '{}': external data location holds a zero byte", tensorName);
  const fs::path relative(location);
  std::error_code ec;
  const fs::path real = fs::canonical(relative.is_absolute() ? relative : fs::path(folder_) / relative, ec);
  const bool allowed = !ec && isAllowed(real);
  if (!allowed) {
    for (const auto &part : relative)
      check(part != "..", "Tensor '{}': external data location must stay in the model's folder: got '{}'", tensorName,
            location);
    if (ec)
      throw missing_data_error(
          "Tensor '{}': external data file is missing: got '{}' in folder '{}'. Put it into that folder", tensorName,
          location, folder_);
    const fs::path root = fs::canonical(folder_, ec);
    check(!ec && isBelow(real, root),
          "Tensor '{}': external data location leads outside the model's folder: got '{}'. Copy the file "
          "into the folder",
          tensorName, location);
  }
  return real.string();
}

}  // namespace popart::onnx

// Files of compiled programs. A file holds the identity of a program (hash of its Ir) and, when asked, the values of its
// variables; kernels are chosen for the machine at hand by prepareDevice. Loading accepts a file of the same program
// only. Layout, little endian:
//   "POPARTEX"  u32 version  u64 hash  u32 count  { u32 length, id, u32 type, u32 rank, i64 dims…, values }…
// Invariant: nothing of the session changes unless the whole file was read and fits.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <istream>
#include <ostream>
#include <sstream>

#include <popart/error.hpp>
#include <popart/ir.hpp>

#include "api/session_impl.hpp"
#include "onnx/writer.hpp"

namespace popart {
namespace {

constexpr char kMagic[] = "POPARTEX";
constexpr size_t kMagicSize = 8;
constexpr uint32_t kVersion = 2;
constexpr uint32_t kMaxRank = 64;

class Writer {
 public:
  template <class T>
  void number(T value) {
    text_.append(reinterpret_cast<const char *>(&value), sizeof(T));
  }
  void bytes(const void *data, size_t size) { text_.append(static_cast<const char *>(data), size); }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

class Reader {
 public:
  Reader(std::string_view text, std::string what) : text_(text), what_(std::move(what)) {}
  std::string_view bytes(size_t size) {
    if (size > text_.size()) throw error("{}: the file is damaged: it ends too early. Export it again", what_);
    const std::string_view result = text_.substr(0, size);
    text_.remove_prefix(size);
    return result;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, bytes(sizeof(T)).data(), sizeof(T));
    return value;
  }
  TensorInfo info() {
    const auto type = number<uint32_t>();
    const auto rank = number<uint32_t>();
    bool good = type < static_cast<uint32_t>(kDataTypeCount) && rank <= kMaxRank;
    Shape shape;
    int64_t elements = 1;
    for (uint32_t i = 0; good && i < rank; ++i) {
      const auto dim = number<int64_t>();
      good = dim >= 0 && (dim == 0 || elements <= static_cast<int64_t>(text_.size()) / dim);
      elements *= good ? dim : 0;
      shape.push_back(dim);
    }
    if (!good) throw error("{}: the file is damaged: bad type or shape of a variable. Export it again", what_);
    return TensorInfo(static_cast<DataType>(type), std::move(shape));
  }
  bool atEnd() const { return text_.empty(); }

 private:
  std::string_view text_;
  std::string what_;
};

std::string fileIn(const std::string &path, const char *name) {
  namespace fs = std::filesystem;
  fs::path target(path);
  if (fs::is_directory(target)) target /= name;
  if (target.has_parent_path()) {
    std::error_code failure;
    fs::create_directories(target.parent_path(), failure);
    check(!failure, "saveExecutable: cannot make the folder '{}': {}", target.parent_path().string(),
          failure.message());
  }
  return target.string();
}

}  // namespace

std::string Session::serialiseExecutable(const bool withVariables) const {
  impl_->program.requireCompiled("saveExecutable");
  Writer out;
  out.bytes(kMagic, kMagicSize);
  out.number(kVersion);
  out.number(hash(impl_->ir()));
  const std::vector<TensorId> ids = withVariables ? variableIds() : std::vector<TensorId>();
  out.number(static_cast<uint32_t>(ids.size()));
  for (const TensorId &id : ids) {
    const auto read = impl_->streamBuffers.find(id);
    const TensorData &value = read == impl_->streamBuffers.end() ? impl_->hostWeights.at(id) : read->second;
    out.number(static_cast<uint32_t>(id.size()));
    out.bytes(id.data(), id.size());
    out.number(static_cast<uint32_t>(value.info().dataType()));
    out.number(static_cast<uint32_t>(value.info().rank()));
    for (int64_t dim : value.info().shape()) out.number(dim);
    out.bytes(value.data(), static_cast<size_t>(value.nbytes()));
  }
  return out.take();
}

void Session::saveExecutable(const std::string &path, const bool, const bool saveVariables) {
  if (impl_->program.isLoaded() && saveVariables) weightsToHost();
  onnx::writeFileAtomically(fileIn(path, "executable.popef"), serialiseExecutable(saveVariables));
}

void Session::saveVariables(const std::string &path) {
  if (impl_->program.isLoaded()) weightsToHost();
  onnx::writeFileAtomically(fileIn(path, "variables.popef"), serialiseExecutable(true));
}

void Session::saveExecutableToFile(const std::string &filename) { saveExecutable(filename); }

void Session::saveExecutableToStream(std::ostream &out) {
  const std::string text = serialiseExecutable(true);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  check(static_cast<bool>(out), "Session '{}': saveExecutable: the stream cannot be written", impl_->name);
}

void Session::compileAndExport(const std::string &filename) {
  prepareDevice(false);
  saveExecutable(filename);
}

void Session::loadExecutableFromFile(const std::string &filename) {
  std::ifstream file(filename, std::ios::binary);
  check(static_cast<bool>(file) && !std::filesystem::is_directory(filename),
        "loadExecutable: the file '{}' cannot be read", filename);
  std::ostringstream text;
  text << file.rdbuf();
  readExecutable(text.str(), "loadExecutable '" + filename + "'");
}

void Session::loadExecutableFromStream(std::shared_ptr<std::istream> in) {
  check(in && *in, "loadExecutable: the stream cannot be read");
  std::ostringstream text;
  text << in->rdbuf();
  readExecutable(text.str(), "loadExecutable");
}

void Session::readExecutable(const std::string &text, const std::string &what) {
  Reader in(text, what);
  check(in.bytes(kMagicSize) == std::string_view(kMagic, kMagicSize), "{}: this is no file of a compiled program",
        what);
  const auto version = in.number<uint32_t>();
  check(version == kVersion, "{}: another version of the file format: got {}, expected {}. Export it again", what,
        version, kVersion);
  const auto program = in.number<uint64_t>();
  check(program == hash(impl_->ir()),
        "{}: the file holds another program than this session. Make the session with the model, options and data flow "
        "of the export",
        what);
  std::map<TensorId, TensorData> values;
  for (auto count = in.number<uint32_t>(); count > 0; --count) {
    const auto length = in.number<uint32_t>();
    const TensorId id(in.bytes(length));
    const TensorInfo info = in.info();
    const auto host = impl_->hostWeights.find(id);
    // The name is shown only when the session has it: that of a damaged file may be any bytes.
    check(host != impl_->hostWeights.end() && impl_->isModelVariable(id),
          "{}: the file holds a variable that the session does not have", what);
    check(host->second.info() == info, "{}: variable '{}' does not fit the session: got {}, expected {}", what, id,
          info, host->second.info());
    values[id] = TensorData(info, in.bytes(static_cast<size_t>(info.nbytes())).data());
  }
  check(in.atEnd(), "{}: the file is damaged: something follows its end. Export it again", what);
  for (auto &[id, value] : values) impl_->hostWeights[id] = std::move(value);
  impl_->streamBuffers.clear();
  impl_->weightsLoaded = false;
}

}  // namespace popart

// DebugContext: where in the user's program a tensor or op was created: a name and a source location. Strings convert
// to it, so every `debugContext` argument takes a plain name. DebugInfo adds values that a layer records about it;
// names of nested infos are joined with "/".
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <source_location>
#include <string>

namespace popart {

class DebugInfo;

// A place in a file; without a file it is not valid.
class SourceLocation {
 public:
  SourceLocation() = default;
  SourceLocation(std::string functionName, std::string fileName, unsigned lineNumber)
      : function_(std::move(functionName)), file_(std::move(fileName)), line_(lineNumber) {}
  // the place of the call
  static SourceLocation Current(const std::source_location &here = std::source_location::current()) {
    return {here.function_name(), here.file_name(), here.line()};
  }
  const std::string &getFunctionName() const { return function_; }
  const std::string &getFileName() const { return file_; }
  unsigned getLineNumber() const { return line_; }
  bool isValid() const { return !file_.empty(); }
  bool operator==(const SourceLocation &) const = default;

 private:
  std::string function_, file_;
  unsigned line_ = 0;
};

// A name, the place of the call, and the parent DebugInfo.
class DebugContext {
 public:
  DebugContext(SourceLocation loc = SourceLocation::Current()) : location_(std::move(loc)) {}
  DebugContext(const char *name, SourceLocation loc = SourceLocation::Current())
      : name_(name), location_(std::move(loc)) {}
  DebugContext(std::string name, SourceLocation loc = SourceLocation::Current())
      : name_(std::move(name)), location_(std::move(loc)) {}
  // A context below `info`, which may be destroyed before it.
  DebugContext(const DebugInfo &info, std::string name = "", SourceLocation loc = SourceLocation::Current());

  // "<name of the parent info>/<name>"; only the name if there is no parent.
  std::string getPathName() const;
  const std::string &name() const { return name_; }
  const SourceLocation &location() const { return location_; }
  // Id of the DebugInfo from which this context was made, 0 for none.
  uint64_t parentId() const { return parentId_; }

 private:
  std::string name_;
  std::string parentPath_;
  uint64_t parentId_ = 0;
  SourceLocation location_;
};

// A record about one context; it is written to the streamer, if one is open, when it is destroyed. Thread-safe except
// for setValue.
class DebugInfo {
 public:
  // `layer`: the layer that records, for example "popart". Ids are unique in the process.
  DebugInfo(const DebugContext &context, std::string layer);
  virtual ~DebugInfo();
  DebugInfo(const DebugInfo &) = delete;
  DebugInfo &operator=(const DebugInfo &) = delete;

  // Sets the value of `name` (replacing an older one). Returns true.
  bool setValue(const std::string &name, std::string value);
  uint64_t getId() const { return id_; }
  const std::string &getPathName() const { return path_; }
  const std::string &layer() const { return layer_; }
  const std::map<std::string, std::string> &values() const { return values_; }

  // Format of the streamer's file.
  enum class SerializationFormat { JSON = 0, CBOR };
  // Every DebugInfo destroyed until closeStreamer is written to `fileName`. Throws popart::error if the file cannot be
  // opened.
  static void initializeStreamer(const std::string &fileName, SerializationFormat format = SerializationFormat::JSON);
  static void closeStreamer();  // writes the file; no effect if none is open

 private:
  uint64_t id_;
  uint64_t parentId_;
  std::string layer_, path_;
  SourceLocation location_;
  std::map<std::string, std::string> values_;
};

}  // namespace popart

// Files of compiled programs: the lowered program as text, the values of its variables as text, and every larger value
// by content, so that it can be mapped and used in place. Schedule, kernels and memory plan are made again
// from the text. Format: program_file.cpp. A reader trusts no byte: everything has a checksum.
#pragma once
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <popart/tensordata.hpp>

#include "ir/text.hpp"
#include "lower/program.hpp"

namespace popart::session {

// The description of a file.
struct ProgramDescription {
  std::string key;     // of the prepared program and the compile options; equal keys have the same lowered program
  std::string target;  // device, kernel providers and their variants: "cpu (cpu AVX3, ref)"
  int threads = 1;     // number that it was planned for; any number can run it
};

using VariableValues = std::map<TensorId, TensorData>;  // plain C order

// Passes the bytes of a file, in order, to `write`. `program` null: variables only. Throws popart::error for a variable
// without values.
void writeProgramFile(const ProgramDescription &description, const lower::Program *program,
                      const VariableValues &variables, const std::function<void(const void *, size_t)> &write);
// Writes them to a file that replaces `path` when it is complete. Throws popart::error naming the path.
void saveProgramFile(const std::string &path, const ProgramDescription &description, const lower::Program *program,
                     const VariableValues &variables);

class ProgramFile {
 public:
  // Maps the file, or reads it completely with POPART_PRELOAD_POPEF=full-preload. `what`: start of the messages. Throw
  // popart::error if it is not a readable file, not a compiled program, of another version, or damaged (header and
  // texts; values are checked when they are used).
  static ProgramFile open(const std::string &path, const std::string &what);
  static ProgramFile parse(std::string bytes, const std::string &what);

  const ProgramDescription &description() const { return description_; }
  bool hasProgram() const { return !program_.empty(); }
  // Checks all values, on this number of threads, and copies those of 16 MiB and more into memory of the process,
  // unless `held` contains the same bytes. Throws popart::error if one is damaged.
  void checkValues(int threads, const ValueTable &held = {});
  // Values below 16 MiB share memory with the file. Throw popart::error if values are damaged or missing; program()
  // also if there is no program or the text is not one.
  lower::Program program(const lower::FirstValues &first = {}) const;
  // checkValues and program at the same time: one thread reads the text while the others read values.
  lower::Program checkedProgram(int threads, const ValueTable &held = {}, const lower::FirstValues &first = {});
  VariableValues variables() const;

 private:
  struct Value {
    const char *data;
    uint64_t bytes;
    TensorData memory{};   // memory with the bytes of a large value: used instead of the file
    void *copy = nullptr;  // destination of the copy during the check: `memory`, unless the session already has it
    bool isChecked = false;
  };
  // Whether the value has its hash; then it is ready for use.
  static bool isIntact(uint64_t hash, Value &value);
  // Gives a large value memory of the process: that of the session's value, or new memory to copy it to.
  static void takeMemory(Value &value, const TensorData *held);
  ProgramFile(std::shared_ptr<const void> owner, std::string_view bytes, std::string what);
  // checkValues with `other` as one more task, which may read values that are not checked yet.
  void checkValuesDuring(const std::function<void()> &other, int threads, const ValueTable &held);
  TensorData value(uint64_t hash, const TensorInfo &info) const;
  [[noreturn]] void damaged(const std::string &how) const;

  std::shared_ptr<const void> owner_;  // owner of the bytes
  std::string_view bytes_, program_, variables_;
  std::string what_;
  ProgramDescription description_;
  mutable std::map<uint64_t, Value> values_;
  bool areValuesBeingChecked_ = false;
};

}  // namespace popart::session

// Files of compiled programs: the lowered program as text, the values of its variables as text, and every larger value
// by content, where it can be mapped and used as it lies. What runs is made from the text again: schedule, kernels and
// memory plan. Format: program_file.cpp. A reader trusts no byte: everything has a checksum.
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

// What a file is about.
struct ProgramDescription {
  std::string key;     // of the prepared program and how it was compiled; equal keys: the same lowered program
  std::string target;  // device, kernel providers and their variants: "cpu (cpu AVX3, ref)"
  int threads = 1;     // that it was planned for; any number runs it
};

using VariableValues = std::map<TensorId, TensorData>;  // plain C order

// Hands the bytes of a file, in order, to `write`. `program` null: variables only. Throws popart::error for a variable
// without values.
void writeProgramFile(const ProgramDescription &description, const lower::Program *program,
                      const VariableValues &variables, const std::function<void(const void *, size_t)> &write);
// The same to a file that takes the place of `path` when it is complete. Throws popart::error naming the path.
void saveProgramFile(const std::string &path, const ProgramDescription &description, const lower::Program *program,
                     const VariableValues &variables);

class ProgramFile {
 public:
  // Maps the file, or reads it wholly with POPART_PRELOAD_POPEF=full-preload. `what` leads the messages. Throw
  // popart::error: no readable file, no file of a compiled program, another version, damaged (header and texts; values
  // are looked at when they are used).
  static ProgramFile open(const std::string &path, const std::string &what);
  static ProgramFile parse(std::string bytes, const std::string &what);

  const ProgramDescription &description() const { return description_; }
  bool hasProgram() const { return !program_.empty(); }
  // Checks all values, on so many threads, and brings those of 16 MiB and more into memory of the process, unless
  // `held` has the same bytes there. Throws popart::error when one is damaged.
  void checkValues(int threads, const ValueTable &held = {});
  // Values below 16 MiB share memory with the file. Throw popart::error when values are damaged or missing; program()
  // also when there is none or the text is not one of a program.
  lower::Program program(const lower::FirstValues &first = {}) const;
  // checkValues and program at the same time: the text is read on one thread while the others read values.
  lower::Program checkedProgram(int threads, const ValueTable &held = {}, const lower::FirstValues &first = {});
  VariableValues variables() const;

 private:
  struct Value {
    const char *data;
    uint64_t bytes;
    TensorData memory{};   // that has the bytes of a large value: used in place of the file
    void *copy = nullptr;  // where it is copied to while it is checked: `memory`, unless the session holds that
    bool isChecked = false;
  };
  // Whether the value is what its hash says; then it is ready for use.
  static bool isIntact(uint64_t hash, Value &value);
  // Gives a large value memory of the process: what the session holds, or some that it is copied to.
  static void takeMemory(Value &value, const TensorData *held);
  ProgramFile(std::shared_ptr<const void> owner, std::string_view bytes, std::string what);
  // checkValues with `other` as one more task, which sees values that are not checked yet.
  void checkValuesBeside(const std::function<void()> &other, int threads, const ValueTable &held);
  TensorData value(uint64_t hash, const TensorInfo &info) const;
  [[noreturn]] void damaged(const std::string &how) const;

  std::shared_ptr<const void> owner_;  // of the bytes
  std::string_view bytes_, program_, variables_;
  std::string what_;
  ProgramDescription description_;
  mutable std::map<uint64_t, Value> values_;
  bool areValuesBeingChecked_ = false;
};

}  // namespace popart::session

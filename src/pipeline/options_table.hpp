// What each session option does here: the one truth behind refusals, warnings, docs/options.md and its tests.
//
// Invariant: every member of SessionOptions has a row, and so has every member of its structs, under its own dotted
// name ("batchSerializationSettings.factor") or under that of the struct. A value that promises memory, time or files
// which nothing here gives is refused or named in a warning; a row NoEffect is a claim that results, planned memory and
// the serialised IR are the same with any value, and tests hold it to that.
#pragma once
#include <span>

#include <popart/op.hpp>
#include <popart/sessionoptions.hpp>

namespace popart::pipeline {

enum class RunMode { Inference, Training };

// Built: as documented. Refused: popart::error when the session is made. Warned: one log line per process, and the
// option does nothing. NoEffect: nothing that a user gets depends on it.
enum class OptionKind { Built, Refused, Warned, NoEffect };

const char *kindName(OptionKind kind);  // "built", "refused", "warned", "no effect"

using OptionApplies = bool (*)(const SessionOptions &, RunMode);

// An option, or some of its values. An option with two rows is built for the values that the other row does not name.
struct OptionRow {
  const char *name;
  OptionKind kind;
  OptionApplies applies;  // Refused and Warned: which values; null otherwise
  const char *values;     // the same in words, empty otherwise
  const char *remark;     // what happens, or what does not; what to do instead
};

// A key of one of the maps of option texts (engineOptions and its kin), or all keys that begin with `name` when it ends
// in "*". Unknown keys are named in a warning.
struct OptionKey {
  const char *map;
  const char *name;
  OptionKind kind;     // Built, Warned or NoEffect
  const char *remark;  // as in OptionRow
};

// Rewrites of popart::Patterns by their names, several with ", " between them.
struct PatternNote {
  const char *names;
  const char *state;  // "rewrite": the documented one; otherwise where its work is done
  const char *remark;
};

// What a builder method asks of single nodes and nothing here gives.
struct MarkRow {
  const char *method;
  bool (*applies)(const Op &);
  const char *remark;  // as in OptionRow
};

std::span<const OptionRow> optionRows();
std::span<const MarkRow> markRows();
std::span<const OptionKey> optionKeys();
std::span<const PatternNote> patternNotes();

}  // namespace popart::pipeline

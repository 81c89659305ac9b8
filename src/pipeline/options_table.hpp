// What each session option does here. Refusals, warnings, docs/options.md and its tests are made from this table.
//
// Invariant: every member of SessionOptions has a row, and so has every member of its structs, under its own dotted
// name ("batchSerializationSettings.factor") or under that of the struct. A value that should save memory or time, or
// write files, but does not, is refused or causes a warning. A row NoEffect claims that results, planned memory and the
// serialised IR are the same with any value; tests check the claim.
#pragma once
#include <span>

#include <popart/op.hpp>
#include <popart/sessionoptions.hpp>

namespace popart::pipeline {

enum class RunMode { Inference, Training };

// Built: as documented. Refused: popart::error when the session is made. Warned: one log line per process, and the
// option has no effect. NoEffect: nothing that a user gets depends on it.
enum class OptionKind { Built, Refused, Warned, NoEffect };

const char *kindName(OptionKind kind);  // "built", "refused", "warned", "no effect"

using OptionApplies = bool (*)(const SessionOptions &, RunMode);

// An option, or some of its values. An option with two rows is built for the values that the other row does not
// mention.
struct OptionRow {
  const char *name;
  OptionKind kind;
  OptionApplies applies;  // Refused and Warned: which values; null otherwise
  const char *values;     // the same in words, empty otherwise
  const char *remark;     // what happens, or what does not; what to do instead
};

// A key of one of the maps of option texts (engineOptions and others), or all keys that start with `name` if it ends in
// "*". Unknown keys cause a warning.
struct OptionKey {
  const char *map;
  const char *name;
  OptionKind kind;     // Built, Warned or NoEffect
  const char *remark;  // as in OptionRow
};

// Rewrites of popart::Patterns by their names, several with ", " between them.
struct PatternNote {
  const char *names;
  const char *state;  // "rewrite": the documented one; otherwise what does its work
  const char *remark;
};

// A mark of single nodes, set by a builder method, that has no effect here.
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

// The order of the rules: the caller, the file, models of popart.Builder, slots.
#include "onnx/training/trainable_tensors.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <cstring>

#include <popart/error.hpp>

#include "base/nearest.hpp"
#include "onnx/input_metadata.hpp"
#include "onnx/reader.hpp"
#include "onnx/training/exporter_lists.hpp"
#include "onnx/training/flat_model.hpp"
#include "onnx/training/operand_slots.hpp"
#include "onnx/training/slot_rule.hpp"
#include "onnx/training/tensor_values.hpp"
#include "onnx_proto/onnx.pb.h"

namespace popart::onnx {
namespace {

using Kind = Verdict::Kind;

constexpr const char *kOwnProducer = "popart";  // of models that were started with popart.Builder

struct Entry {
  std::string id;  // of the initializer, or of the output of an Identity of it
  const FlatInitializer *initializer = nullptr;
  TensorInfo info;
  Verdict verdict;
  bool isFixed = false;       // no use of it can train: small types, initializers in functions
  bool isNumber = false;      // of an exported program
  bool isFrozen = false;      // by the caller's choice
  std::string sourceOfOwn{};  // the initializer of the Identity whose output this is
  std::string copied{};       // the original, if it is a tied copy
  bool isTransposed = false;
};

// Whether matrix `b` is `a` with rows and columns exchanged, or (`isTransposed` false) has the same bytes.
bool holdsSame(const TensorData &a, const TensorData &b, bool isTransposed) {
  if (a.info().dataType() != b.info().dataType() || a.info().nelms() != b.info().nelms() || a.nbytes() == 0)
    return false;
  const auto *from = static_cast<const char *>(a.data()), *to = static_cast<const char *>(b.data());
  if (!isTransposed) return std::memcmp(from, to, static_cast<size_t>(a.nbytes())) == 0;
  const Shape &s = a.info().shape(), &t = b.info().shape();
  if (s.size() != 2 || t.size() != 2 || s[0] != t[1] || s[1] != t[0]) return false;
  const auto rows = static_cast<size_t>(s[0]), columns = static_cast<size_t>(s[1]);
  const size_t size = static_cast<size_t>(a.nbytes()) / (rows * columns);
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c)
      if (std::memcmp(to + (c * rows + r) * size, from + (r * columns + c) * size, size) != 0) return false;
  return true;
}

bool matches(const std::string &pattern, const std::string &name) {
  return pattern == name || fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
}

class Classifier {
 public:
  Classifier(const ModelContent &model, const TrainingWishes &wishes)
      : model_(model),
        wishes_(wishes),
        graph_(model.proto->graph()),
        flat_(flatModel(model)),
        rule_(flat_, [this](const FlatInitializer &i) { return valueOf(i); }) {}

  TrainableTensors run() {
    for (const FlatInitializer &i : flat_.initializers) addEntries(i);
    for (size_t i = 0; i < entries_.size(); ++i) number_[entries_[i].id] = i;
    if (lists_.any())
      for (Entry &e : entries_) askLists(e);
    else if (!isOwn_)
      findTiedTables();
    trainGuessesIfNothingElse();
    nameWhatIsLost();
    checkPatterns();
    askCaller();
    return result();
  }

 private:
  TensorData valueOf(const FlatInitializer &i) const { return tensorData(*i.tensor, i.tensor->name(), model_); }
  TensorData valueOf(const Entry &e) const { return valueOf(*e.initializer); }

  // Adds the initializer, and outputs of Identity nodes that are separate tensors: exporters that find equal
  // initializers keep one of them, and replace the others by Identity nodes on it.
  void addEntries(const FlatInitializer &i) {
    std::vector<int> separate;
    if (!i.isInBody && !isOwn_ && !lists_.any()) separate = separateOutputs(i);
    add(i, i.id, rule_.of(i, separate));
    for (int value : separate) {
      add(i, flat_.nameOf[value], rule_.ofOutput(i, value));
      entries_.back().sourceOfOwn = i.id;
    }
  }

  void add(const FlatInitializer &i, const std::string &name, Verdict verdict) {
    Entry entry;
    entry.initializer = &i;
    entry.info = tensorInfo(*i.tensor, i.tensor->name());
    entry.id = name;
    if ((typeBit(entry.info.dataType()) & kFloats) == 0) {
      verdict = {Kind::Stays, "numbers of eight bits or fewer do not train"};
      entry.isFixed = true;
    } else if (i.isInFunction) {
      verdict = {Kind::Stays, "it is in a body within a function, which a program cannot change", verdict.trains()};
      entry.isFixed = true;
    } else if (verdict.kind != Kind::Statistic && !(verdict.kind == Kind::Unread && flat_.uses[i.value].empty())) {
      if (!updates_.empty())
        verdict = updates_.contains(name) ? Verdict{Kind::Parameter, "training_info of the file updates it"}
                                          : Verdict{Kind::Stays, "training_info of the file does not update it"};
      else if (isOwn_ && !isReadWithoutGradient(i))
        verdict = {Kind::Parameter, "model of popart.Builder: all floating-point initializers train"};
    }
    entry.verdict = std::move(verdict);
    entries_.push_back(std::move(entry));
  }

  // Whether its readers have no gradient for it, as for class weights of a loss.
  bool isReadWithoutGradient(const FlatInitializer &i) const {
    const std::vector<FlatUse> &uses = flat_.uses[static_cast<size_t>(i.value)];
    return !uses.empty() && std::ranges::all_of(uses, [&](const FlatUse &use) {
      return hasNoGradient(flat_.nodes[static_cast<size_t>(use.node)], use.input);
    });
  }

  std::vector<int> separateOutputs(const FlatInitializer &i) const {
    std::vector<int> outputs, separate;
    for (const FlatUse &use : flat_.uses[i.value]) {
      const FlatNode &node = flat_.nodes[use.node];
      if (node.type == "Identity" && node.isOfMainGraph && !node.outputs.empty()) outputs.push_back(node.outputs[0]);
    }
    std::erase(outputs, -1);
    if (outputs.empty()) return {};
    const bool isUniformTensor = elementCount(tensorInfo(*i.tensor, i.id).shape()) > 1 && isUniform(valueOf(i));
    const Verdict direct = rule_.of(i, outputs);
    bool trains = direct.trains();
    std::vector<Verdict> verdicts;
    for (int output : outputs) {
      verdicts.push_back(rule_.ofOutput(i, output));
      trains |= verdicts.back().trains();
    }
    for (size_t k = 0; k < outputs.size(); ++k) {
      const Verdict &v = verdicts[k];
      const bool differs = trains && v.kind != Kind::Unread && !v.trains();
      const bool isOwnParameter = v.trains() && (isUniformTensor || direct.kind == Kind::Statistic);
      if (differs || isOwnParameter) separate.push_back(outputs[k]);
    }
    return separate;
  }

  bool isParameterMissing() const {
    return std::ranges::any_of(lists_.parameters, [&](const auto &p) { return !number_.contains(p); });
  }

  bool isStored(const std::string &parameter) const {
    const auto found = storedAs_.find(parameter);
    return found != storedAs_.end() && !found->second.empty();
  }

  std::set<std::string> rootsOf(const std::string &id) const {
    std::set<std::string> roots;
    if (const auto found = lists_.foldedFrom.find(id); found != lists_.foldedFrom.end())
      std::ranges::set_intersection(found->second, lists_.parameters, std::inserter(roots, roots.begin()));
    return roots;
  }

  void askLists(Entry &e) {
    const std::string &id = e.id;
    const bool isSettled = e.isFixed || e.verdict.kind == Kind::Statistic || e.verdict.kind == Kind::Unread;
    if (isSettled || !updates_.empty()) return;
    if (lists_.parameters.contains(id)) {
      e.verdict = {Kind::Parameter, "parameter in the exporter's list"};
    } else if (lists_.buffers.contains(id)) {
      e.verdict = {Kind::Stays, "buffer in the exporter's list"};
    } else if (e.initializer->isInBody || !lists_.ofProgram.contains(id)) {
      return;  // a node that was added later reads it
    } else if (const std::set<std::string> roots = rootsOf(id); roots.size() == 1) {
      askOriginal(e, *roots.begin());
    } else if (roots.size() > 1) {
      askOriginals(e, roots);
    } else if (lists_.foldedFrom.contains(id) || !isParameterMissing() || e.verdict.kind != Kind::Parameter) {
      e.verdict = {Kind::Stays, "number of the exported program"};
      e.isNumber = true;
    } else {
      e.verdict.doubtful = true;
    }
  }

  // For an initializer that was computed from one parameter when the file was written.
  void askOriginal(Entry &e, const std::string &parameter) {
    const auto original = number_.find(parameter);
    const std::vector<size_t> stored = storedAs_[parameter];
    if (original != number_.end()) {
      if (tie(e, entries_[original->second])) return;
    } else if (std::ranges::any_of(stored, [&](size_t other) { return tie(e, entries_[other]); })) {
      return;
    } else if (const std::string form = storedForm(e); !form.empty() && isApartFrom(e, stored)) {
      e.verdict = {Kind::Parameter, form + " parameter '" + parameter + "' of the exporter's list"};
      storedAs_[parameter].push_back(static_cast<size_t>(&e - entries_.data()));
      return;
    }
    e.verdict = {Kind::Stays, "another function of parameter '" + parameter + "'", true};
    e.isNumber = true;
  }

  // The part of a parameter that the initializer holds, in any order of elements. Empty: it is another function of the
  // parameter, or repeats elements, whose copies would differ after training.
  std::string storedForm(const Entry &e) const {
    if (e.verdict.kind == Kind::Setting) return "";
    const bool isWhole = e.id.starts_with("expand") && !e.info.shape().empty() && e.info.dim(0) == 1;
    const bool isPicked =
        isNameOfPickedElements(e.id) && std::ranges::none_of(lists_.foldedFrom.at(e.id), isNameOfFloatFunction);
    const bool isMoved = isNameOfMovedElements(e.id);
    if (!isTimesOne(e) && !isPicked && !((isWhole || isMoved) && isMovedOnly(e))) return "";
    if (isComputedWithBuffer(e)) return "";
    const TensorData values = valueOf(e);
    const bool isMovedAlone = lists_.foldedFrom.at(e.id).size() == 1;  // no indices were used
    if ((!isMovedAlone && holdsCopies(values)) || (isPicked && isUniform(values))) return "";
    return isPicked ? "rows of" : "stored form of";
  }

  // Whether the elements were only moved: a function such as `exp` before the last move (`permute`) computes new ones.
  bool isMovedOnly(const Entry &e) const {
    return std::ranges::all_of(lists_.foldedFrom.at(e.id), [&](const auto &name) {
      return lists_.parameters.contains(name) || lists_.buffers.contains(name) || isNameOfMoveOrItsOperand(name);
    });
  }

  // A factor of addcmul: the parameter times the number "value", which is 1.
  bool isTimesOne(const Entry &e) const {
    return lists_.timesOne.contains(e.id) && std::ranges::all_of(lists_.foldedFrom.at(e.id), [&](const auto &name) {
             return lists_.parameters.contains(name) || name.starts_with("value");
           });
  }

  // For example a product with a table, of which a call of a layer is one part ("val_3").
  bool isComputedWithBuffer(const Entry &e) const {
    return e.id.starts_with("val") &&
           std::ranges::any_of(lists_.foldedFrom.at(e.id), [&](const auto &n) { return lists_.buffers.contains(n); });
  }

  // If several initializers come from one parameter, each may be a different part of it.
  bool isApartFrom(const Entry &e, const std::vector<size_t> &others) const {
    return std::ranges::none_of(others, [&](size_t o) { return sharesElements(valueOf(e), valueOf(entries_[o])); });
  }

  // The same for several parameters: joined weights of a recurrent layer.
  void askOriginals(Entry &e, const std::set<std::string> &parameters) {
    const auto isElsewhere = [&](const std::string &p) { return number_.contains(p) || isStored(p); };
    const bool isJoined = isNameOfMovedElements(e.id) || isNameOfJoinedElements(e.id);
    const std::string names = "'" + *parameters.begin() + "' and others";
    if (isJoined && isMovedOnly(e) && e.verdict.kind == Kind::Parameter &&
        std::ranges::none_of(parameters, isElsewhere)) {
      e.verdict = {Kind::Parameter, "parameters " + names + " of the exporter's list, joined as they are stored"};
      for (const std::string &p : parameters) storedAs_[p].push_back(static_cast<size_t>(&e - entries_.data()));
      return;
    }
    e.verdict = {Kind::Stays, "a function of parameters " + names, true};
    e.isNumber = true;
  }

  // Makes `e` a copy of `original`, if it is one.
  bool tie(Entry &e, const Entry &original) {
    const TensorData a = valueOf(original), b = valueOf(e);
    const bool isSame = holdsSame(a, b, false), isTransposed = !isSame && holdsSame(a, b, true);
    if (!isSame && !isTransposed) return false;
    e.copied = original.id;
    e.isTransposed = isTransposed;
    copies_.push_back(static_cast<size_t>(&e - entries_.data()));
    e.verdict = {Kind::Parameter, "tied to '" + e.copied + (isTransposed ? "', transposed" : "'")};
    return true;
  }

  // Embeddings that are also the weight of a product, which exporters store transposed.
  void findTiedTables() {
    for (size_t t = 0; t < entries_.size(); ++t) {
      const Entry &table = entries_[t];
      if (!table.verdict.isTable || !table.verdict.trains() || table.info.rank() != 2) continue;
      for (Entry &e : entries_) {
        const bool fits =
            e.info.rank() == 2 && e.info.dim(0) == table.info.dim(1) && e.info.dim(1) == table.info.dim(0);
        if (&e == &table || !fits || e.verdict.isTable || e.verdict.kind != Kind::Parameter || !e.copied.empty())
          continue;
        if (!isUniform(valueOf(table)) && holdsSame(valueOf(table), valueOf(e), true)) tie(e, table);
      }
    }
  }

  // A model that is trained has parameters. If none was found, a guess against a tensor was wrong; if nothing was
  // guessed, single numbers, subtrahends or divisors are parameters here.
  void trainGuessesIfNothingElse() {
    const auto anyTrains = [&] {
      return std::ranges::any_of(entries_, [](const Entry &e) { return e.verdict.trains(); });
    };
    if (lists_.any() || !updates_.empty()) return;
    for (const bool isUsual : {false, true}) {
      if (anyTrains()) return;
      for (Entry &e : entries_)
        if (!e.isFixed && e.verdict.kind == Kind::Stays && (isUsual ? e.verdict.isUsual : e.verdict.doubtful))
          e.verdict = {Kind::Trains, e.verdict.reason + ", but nothing else would train", true};
    }
  }

  void nameWhatIsLost() {
    for (const std::string &parameter : lists_.parameters) {
      if (number_.contains(parameter) || isStored(parameter)) continue;
      std::vector<std::string> forms;
      for (const Entry &e : entries_)
        if (rootsOf(e.id).contains(parameter)) forms.push_back(e.id);
      if (!forms.empty())
        result_.warnings.push_back("parameter '" + parameter + "' cannot train: the file holds only " +
                                   (forms.size() == 1 ? "a function of it, '" + forms.front() + "'"
                                                      : "functions of it, '" + forms.front() + "' and others") +
                                   ". Export the model without constant folding");
    }
  }

  // ---- the caller

  bool matchesEntry(const std::string &pattern, const Entry &e) const {
    return matches(pattern, e.id) || (!e.copied.empty() && matches(pattern, e.copied)) ||
           std::ranges::any_of(copies_, [&](size_t copy) {
             return entries_[copy].copied == e.id && matches(pattern, entries_[copy].id);
           });
  }

  void checkPatterns() const {
    for (const auto *patterns : {&wishes_.trainable, &wishes_.frozen})
      for (const std::string &pattern : *patterns) {
        if (std::ranges::any_of(entries_, [&](const Entry &e) { return matchesEntry(pattern, e); })) continue;
        std::vector<std::string> names;
        for (const Entry &e : entries_) names.push_back(e.id);
        throw error("{} '{}': matches no floating-point initializer of the model{}",
                    patterns == &wishes_.trainable ? "trainable" : "frozen", pattern, nearestText(pattern, names));
      }
    for (const std::string &name : wishes_.trainable) {
      const auto found = number_.find(name);
      if (found == number_.end()) continue;
      const Entry &e = entries_[found->second];
      check(e.verdict.kind != Kind::Statistic && !e.isFixed, "trainable '{}': cannot train: {}. Leave it out", name,
            e.verdict.reason);
      check(!isReadWithoutGradient(*e.initializer),
            "trainable '{}': cannot train: no gradient reaches it ({}). Leave it out", name, e.verdict.reason);
    }
  }

  // A pattern selects the parameters among its matches; if there are none, all matches that can train. A name selects
  // itself.
  std::set<size_t> meantBy(const std::string &pattern) const {
    std::set<size_t> all, parameters;
    for (size_t i = 0; i < entries_.size(); ++i) {
      const Entry &e = entries_[i];
      if (e.isFixed || e.verdict.kind == Kind::Statistic || !matchesEntry(pattern, e)) continue;
      all.insert(i);
      if (e.verdict.trains()) parameters.insert(i);
    }
    return number_.contains(pattern) || parameters.empty() ? all : parameters;
  }

  void askCaller() {
    if (!wishes_.trainable.empty()) {
      std::set<size_t> chosen;
      for (const std::string &pattern : wishes_.trainable) chosen.merge(meantBy(pattern));
      for (size_t i = 0; i < entries_.size(); ++i) {
        Verdict &v = entries_[i].verdict;
        if (chosen.contains(i))
          v = {Kind::Parameter, "named in trainable: " + v.reason, false, v.isTable};
        else if (v.trains())
          freeze(entries_[i], "not named in trainable");
      }
    }
    for (Entry &e : entries_) {
      if (!e.verdict.trains()) continue;
      const auto names = [&](const std::string &pattern) { return matchesEntry(pattern, e); };
      if (std::ranges::any_of(wishes_.frozen, names))
        freeze(e, "named in frozen");
      else if (wishes_.isFrozenByOptimizer && wishes_.isFrozenByOptimizer(e.copied.empty() ? e.id : e.copied))
        freeze(e, "its learning rate is a constant 0");
    }
  }

  static void freeze(Entry &e, const std::string &reason) {
    e.verdict = {Kind::Stays, "frozen: " + reason};
    e.isFrozen = true;
  }

  // ---- the result

  TrainableTensors result() {
    for (const auto &input : graph_.input())
      if (metadataNumbers(input, kReplicasKey)) perReplicaGroup_.insert(input.name());
    for (const Entry &e : entries_) {
      const std::string &id = e.id;
      const Verdict &v = e.verdict;
      const std::string &source = e.sourceOfOwn.empty() ? id : e.sourceOfOwn;
      result_.tensors.push_back({id, e.info, v.trains(), v.reason, v.doubtful, source});
      const bool isCopy = !e.copied.empty() && v.trains();
      if (isCopy) result_.copies[id] = {e.copied, e.isTransposed};
      if (v.trains()) result_.trained.insert(id);
      const bool isKept = isOwn_ || v.kind == Kind::Statistic || v.kind == Kind::Unread;
      const bool stays = e.isFrozen ? perReplicaGroup_.contains(id) : isKept;
      if (!isCopy && !e.isFixed && (v.trains() || stays)) result_.variables.insert(id);
      if (!e.isFixed && !e.isNumber && (isOwn_ || v.kind != Kind::Setting) && !e.initializer->isInBody)
        result_.replaceable.insert(id);
      if (!e.sourceOfOwn.empty()) result_.separate[id] = e.sourceOfOwn;
      if (e.initializer->isInBody && result_.variables.contains(id)) result_.inBodies[e.initializer->tensor] = id;
    }
    return std::move(result_);
  }

  const ModelContent &model_;
  const TrainingWishes &wishes_;
  const onnx_proto::GraphProto &graph_;
  const bool isOwn_ = model_.proto->producer_name() == kOwnProducer;
  const ExporterLists lists_ = exporterLists(graph_);
  const std::set<std::string> updates_ = updatedByTrainingInfo(*model_.proto);
  const FlatModel flat_;
  const SlotRule rule_;
  std::vector<Entry> entries_;
  std::map<std::string, size_t> number_;                 // name -> entry
  std::map<std::string, std::vector<size_t>> storedAs_;  // parameter that is no initializer -> entries that hold it
  std::vector<size_t> copies_;                           // entries
  std::set<std::string> perReplicaGroup_;                // initializers with a value for each group of replicas
  TrainableTensors result_;
};

}  // namespace

TrainableTensors trainableTensors(const Model &model, const TrainingWishes &wishes) {
  return Classifier(model.content(), wishes).run();
}

TensorData copyOf(const TiedCopy &copy, const TensorData &original, const Shape &shape) {
  if (!copy.isTransposed) return original.reshaped(shape);
  const auto rows = static_cast<size_t>(original.info().dim(0)), columns = static_cast<size_t>(original.info().dim(1));
  TensorData result(TensorInfo(original.info().dataType(), shape));
  if (result.nbytes() == 0) return result;
  const size_t size = static_cast<size_t>(original.nbytes()) / (rows * columns);
  const auto *from = static_cast<const char *>(original.data());
  auto *to = static_cast<char *>(result.mutableData());
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c) std::memcpy(to + (c * rows + r) * size, from + (r * columns + c) * size, size);
  return result;
}

std::map<TensorId, const onnx_proto::TensorProto *> initializersOfBodies(const ModelContent &model) {
  std::map<TensorId, const onnx_proto::TensorProto *> tensors;
  for (const FlatInitializer &i : flatModel(model).initializers)
    if (i.isInBody && !i.isInFunction) tensors[i.id] = i.tensor;
  return tensors;
}

}  // namespace popart::onnx

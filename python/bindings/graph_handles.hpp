// Graphs, ops and tensors as Python holds them: by place, not by address. One that was erased raises popart_exception
// whatever it is asked; one that is alive keeps its Ir alive, and is the same Python object as long as any is held.
// Files that bind functions over Graph, Op or Tensor include this.
#pragma once
#include <popart/ir.hpp>
#include <popart/op.hpp>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bindings.hpp"

namespace popart::python {

// Of a graph: it is alive as long as its Ir lists it.
class GraphHandle {
 public:
  explicit GraphHandle(Graph &graph) : ir_(nb::find(graph.getIr())), owner_(&graph.getIr()), graph_(&graph) {
    check(ir_.is_valid(), "{}: its Ir is not one that Python holds", graph.getGraphString());
    id_ = graph.id;
  }
  bool alive() const { return owner_->hasGraph(id_) && &owner_->getGraph(id_) == graph_; }
  bool isOf(const Graph &graph) const { return graph_ == &graph && alive(); }
  Graph &get() const {
    check(alive(), "graph '{}' was removed from its Ir: it cannot be used any more", id_);
    return *graph_;
  }
  // What Python holds of its ops and tensors, by slot; null where it holds none.
  std::vector<PyObject *> &objects(OpIndex) const { return ops_; }
  std::vector<PyObject *> &objects(TensorIndex) const { return tensors_; }

 private:
  nb::object ir_;
  const Ir *owner_;
  Graph *graph_;
  GraphId id_;
  mutable std::vector<PyObject *> ops_, tensors_;
};

inline OpIndex indexOf(const Op &op) { return op.index(); }
inline TensorIndex indexOf(const Tensor &tensor) { return tensor.index(); }
inline Op &atIndex(const Graph &graph, OpIndex o) { return graph.op(o); }
inline Tensor &atIndex(const Graph &graph, TensorIndex t) { return graph.tensor(t); }

// How an op or tensor is called after its end.
template <class T>
struct Label;
template <>
struct Label<Op> {
  explicit Label(const Op &op) : type(op.opid.type), id(op.id) {}
  std::string str() const { return "op " + type + "." + std::to_string(id); }
  OpType type;
  OpId id;
};
template <>
struct Label<Tensor> {
  explicit Label(const Tensor &tensor) : id(tensor.id) {}
  explicit Label(TensorId tensor) : id(std::move(tensor)) {}
  std::string str() const { return "tensor '" + id + "'"; }
  TensorId id;
};

// A slot of `graph`, if what it was made for is still there. Throws popart::error that calls it by its label.
template <class Index, class T>
auto &atAliveIndex(const Graph &graph, Index index, const Label<T> &label) {
  if (!graph.alive(index))
    throw error("{} was erased from {}: it cannot be used any more", label.str(), graph.getGraphString());
  return atIndex(graph, index);
}

// Of an op or a tensor: a slot of a graph, which is never used again.
template <class T>
class NodeHandle {
 public:
  // graph: the Python object of the node's graph.
  NodeHandle(T &node, nb::object graph);
  // What Python holds of this node.
  PyObject *&object() const { return graph_->objects(index_)[index_.value]; }
  T &get() const { return atAliveIndex(graph_->get(), index_, label_); }

 private:
  nb::object graphObject_;
  const GraphHandle *graph_;
  decltype(indexOf(std::declval<const T &>())) index_;
  Label<T> label_;
};

// What a Python object of class Op or Tensor contains.
template <class T>
struct Handle {
  Handle(T &value, nb::object graph) : place(value, std::move(graph)) {}
  Handle(Handle &&) = default;
  ~Handle() {
    if (self && place.object() == self) place.object() = nullptr;
  }
  NodeHandle<T> place;
  PyObject *self = nullptr;
};

// The same of class Graph.
template <>
struct Handle<Graph> {
  explicit Handle(Graph &value) : place(value) {}
  Handle(Handle &&) = default;
  ~Handle() {
    const auto it = objects().find(address);
    if (it != objects().end() && it->second == self) objects().erase(it);
  }
  // Addresses of what Python holds, with the objects; an address may have become another's.
  static std::unordered_map<const Graph *, PyObject *> &objects() {
    static auto *all = new std::unordered_map<const Graph *, PyObject *>;
    return *all;
  }
  GraphHandle place;
  const Graph *address = nullptr;
  PyObject *self = nullptr;
};

// A new reference to the Python object of `graph`.
inline nb::object objectOf(Graph &graph) {
  auto &objects = Handle<Graph>::objects();
  if (const auto it = objects.find(&graph); it != objects.end())
    if (nb::inst_ptr<Handle<Graph>>(it->second)->place.isOf(graph)) return nb::borrow(it->second);
  nb::object made = nb::cast(Handle<Graph>(graph), nb::rv_policy::move);
  auto *handle = nb::inst_ptr<Handle<Graph>>(made);
  handle->address = &graph;
  handle->self = objects[&graph] = made.ptr();
  return made;
}
inline const GraphHandle &handleOf(nb::handle graph) { return nb::inst_ptr<Handle<Graph>>(graph)->place; }

// A new reference to the Python object of `node`, an op or tensor; graph: the Python object of its graph.
template <class T>
nb::object objectOf(T &node, const nb::object &graph) {
  auto &objects = handleOf(graph).objects(indexOf(node));
  const size_t slot = indexOf(node).value;
  if (slot >= objects.size()) objects.resize(std::max(slot + 1, 2 * objects.size()));
  if (objects[slot]) return nb::borrow(objects[slot]);
  nb::object made = nb::cast(Handle<T>(node, graph), nb::rv_policy::move);
  nb::inst_ptr<Handle<T>>(made)->self = objects[slot] = made.ptr();
  return made;
}
inline nb::object objectOf(Op &op) { return objectOf(op, objectOf(op.getGraph())); }
inline nb::object objectOf(Tensor &tensor) { return objectOf(tensor, objectOf(tensor.getGraph())); }

// The C++ object of a Python object of class T. Throws popart::error if it was erased.
template <class T>
T &valueOf(nb::handle object) {
  return nb::cast<Handle<T> &>(object).place.get();
}

template <class T>
NodeHandle<T>::NodeHandle(T &node, nb::object graph)
    : graphObject_(std::move(graph)), graph_(&handleOf(graphObject_)), index_(indexOf(node)), label_(node) {}

// nb::class_ for these: members are functions and methods of T.
template <class T>
class HandleClass : public nb::class_<Handle<T>> {
 public:
  using nb::class_<Handle<T>>::class_;
  template <class Function, class... Extra>
  HandleClass &def(const char *name, Function &&function, const Extra &...extra) {
    nb::cpp_function_def(std::forward<Function>(function), nb::scope(*this), nb::name(name), nb::is_method(), extra...);
    return *this;
  }
  template <class Getter, class... Extra>
  HandleClass &property(const char *name, Getter &&getter, const Extra &...extra) {
    this->def_prop_ro(name, std::forward<Getter>(getter), extra...);
    return *this;
  }
  template <class Getter, class Setter>
  HandleClass &property_rw(const char *name, Getter &&getter, Setter &&setter) {
    this->def_prop_rw(name, std::forward<Getter>(getter), std::forward<Setter>(setter));
    return *this;
  }
};

// ---- graph_ops.cpp
Op *createOp(Graph &graph, const std::string &type, const std::vector<std::optional<TensorId>> &inputs,
             const std::vector<TensorId> &outputs, const nb::dict &attributes, const nb::dict &settings);
// How programs know a tensor that was made for them: its index, by which they give it to ops, and its id.
using MadeTensor = std::pair<uint32_t, TensorId>;
inline MadeTensor madeTensor(const Tensor &tensor) { return {tensor.index().value, tensor.id}; }
using EmittedOp = std::pair<OpId, std::vector<MadeTensor>>;
// Adds an op to the tensors of these indices (none: absent) and returns its number and its first `wanted` results.
// `names`: of the results; `scope`: name scopes of op and results; executionContext: number of the enumeration;
// earlier: ops that it follows. None, and no op, when an input was erased or when, with `movedInto`, the inputs are not
// together (ir/placement.hpp).
std::optional<EmittedOp> emitOp(Graph &graph, const std::string &type,
                                const std::vector<std::optional<uint32_t>> &inputs,
                                const std::vector<std::string> &names, const nb::dict &attributes,
                                const std::string &label, const std::string &scope, std::optional<VGraphId> ipu,
                                bool ioTiles, int executionContext, std::optional<PipelineStage> stage, size_t wanted,
                                const std::vector<OpId> &earlier, const std::optional<std::set<GraphId>> &movedInto);
// The id of a new tensor; scope: name scopes, which come before the name.
TensorId newId(Graph &graph, const std::string &name, const std::string &scope);
// Ids for the new tensors of one op, which has none of them yet.
std::vector<TensorId> uniqueIds(Graph &graph, const std::vector<std::string> &names, const std::string &scope);
Op *findOp(const Graph &graph, OpId id);  // null when there is none
// States that an op runs after others of its graph; those that are gone are skipped.
void runAfter(const Op &later, const std::vector<OpId> &earlier);
void bindOp(nb::module_ &m);

}  // namespace popart::python

namespace nanobind::detail {

template <class T>
struct handle_caster {
  using Object = popart::python::Handle<T>;
  static constexpr auto Name = const_name<Object>();
  template <class U>
  using Cast = precise_cast_t<U>;

  bool from_python(handle source, uint32_t flags, cleanup_list *cleanup) noexcept {
    make_caster<Object> caster;
    if (!caster.from_python(source, flags | cast_flags::none_disallowed, cleanup)) return false;
    object_ = caster.operator Object *();
    return object_ != nullptr;
  }
  template <class U>
  static handle from_cpp(U &&value, rv_policy, cleanup_list *) noexcept {
    T *pointer = nullptr;
    if constexpr (std::is_pointer_v<std::remove_reference_t<U>>)
      pointer = const_cast<T *>(value);
    else
      pointer = const_cast<T *>(&value);
    if (!pointer) return none().release();
    try {
      return popart::python::objectOf(*pointer).release();
    } catch (python_error &e) {
      e.restore();
    } catch (const std::exception &e) {
      PyErr_SetString(PyExc_RuntimeError, e.what());
    }
    return {};
  }
  template <class U>
  bool can_cast() const noexcept {
    return object_ != nullptr;
  }
  operator T *() { return &object_->place.get(); }  // throws popart::error for what was erased
  operator T &() { return object_->place.get(); }

 private:
  Object *object_ = nullptr;
};

template <>
struct type_caster<popart::Graph> : handle_caster<popart::Graph> {};
template <>
struct type_caster<popart::Op> : handle_caster<popart::Op> {};
template <>
struct type_caster<popart::Tensor> : handle_caster<popart::Tensor> {};

}  // namespace nanobind::detail

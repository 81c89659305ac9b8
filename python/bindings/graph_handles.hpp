// Graphs, ops and tensors as Python holds them: by place, not by address. One that was erased raises popart_exception
// whatever it is asked; one that is alive keeps its Ir alive, and is the same Python object as long as any is held.
// Files that bind functions over Graph, Op or Tensor include this.
#pragma once
#include <popart/ir.hpp>
#include <popart/op.hpp>

#include <unordered_map>
#include <utility>

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

 private:
  nb::object ir_;
  const Ir *owner_;
  Graph *graph_;
  GraphId id_;
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
  std::string str() const { return "tensor '" + id + "'"; }
  TensorId id;
};

// Of an op or a tensor: a slot of a graph, which is never used again.
template <class T>
class NodeHandle {
 public:
  explicit NodeHandle(T &node);
  bool isOf(const T &node) const { return graph_->isOf(node.getGraph()) && indexOf(node) == index_; }
  T &get() const {
    Graph &graph = graph_->get();
    if (!graph.alive(index_))
      throw error("{} was erased from {}: it cannot be used any more", label_.str(), graph.getGraphString());
    return atIndex(graph, index_);
  }

 private:
  nb::object graphObject_;
  const GraphHandle *graph_;
  decltype(indexOf(std::declval<const T &>())) index_;
  Label<T> label_;
};

// What a Python object of class Graph, Op or Tensor contains.
template <class T>
struct Handle {
  using Place = std::conditional_t<std::is_same_v<T, Graph>, GraphHandle, NodeHandle<T>>;
  explicit Handle(T &value) : place(value) {}
  Handle(Handle &&) = default;
  ~Handle() {
    const auto it = objects().find(address);
    if (it != objects().end() && it->second == self) objects().erase(it);
  }
  // Addresses of what Python holds, with the objects; an address may have become another's.
  static std::unordered_map<const T *, PyObject *> &objects() {
    static auto *all = new std::unordered_map<const T *, PyObject *>;
    return *all;
  }
  Place place;
  const T *address = nullptr;
  PyObject *self = nullptr;
};

// A new reference to the Python object of `value`.
template <class T>
nb::object objectOf(T &value) {
  auto &objects = Handle<T>::objects();
  if (const auto it = objects.find(&value); it != objects.end())
    if (nb::inst_ptr<Handle<T>>(it->second)->place.isOf(value)) return nb::borrow(it->second);
  nb::object made = nb::cast(Handle<T>(value), nb::rv_policy::move);
  auto *handle = nb::inst_ptr<Handle<T>>(made);
  handle->address = &value;
  handle->self = objects[&value] = made.ptr();
  return made;
}

// What a Python object of class T stands for. Throws popart::error for what was erased.
template <class T>
T &valueOf(nb::handle object) {
  return nb::cast<Handle<T> &>(object).place.get();
}

template <class T>
NodeHandle<T>::NodeHandle(T &node)
    : graphObject_(objectOf(node.getGraph())),
      graph_(&nb::inst_ptr<Handle<Graph>>(graphObject_)->place),
      index_(indexOf(node)),
      label_(node) {}

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

// ---- ops.cpp, for graphs
Op *createOp(Graph &graph, const std::string &type, const std::vector<std::optional<TensorId>> &inputs,
             const std::vector<TensorId> &outputs, const nb::dict &attributes, const nb::dict &settings);
// Adds an op to tensors of the graph (None: absent) and returns its number and its results. `names`: of the results;
// `scope`: name scopes of op and results; executionContext: number of the enumeration.
nb::tuple emitOp(Graph &graph, const std::string &type, const nb::list &inputs, const std::vector<std::string> &names,
                 const nb::dict &attributes, const std::string &label, const std::string &scope,
                 std::optional<VGraphId> ipu, bool ioTiles, int executionContext, std::optional<PipelineStage> stage);
// Ids for the new tensors of one op, which has none of them yet.
std::vector<TensorId> uniqueIds(Graph &graph, const std::vector<std::string> &names, const std::string &scope);
Op *findOp(const Graph &graph, OpId id);  // null when there is none
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

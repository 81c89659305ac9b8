// Operators that create tensors or exchange them with the outside: Init, host streams, remote buffers, printing,
// aborting. HostLoad returns the next micro-batch of stream `stream` (a Stream tensor of the main graph); its optional
// input is the Init tensor that popxl prints. HostStore passes its input to the anchor of the same name. Only
// RemoteLoad and RemoteStore access remote variables. Host and remote stores, prints and aborts are side effects: they
// are never pruned, and keep their order.
#include <popart/graph.hpp>
#include <popart/ir.hpp>

#include "ops/catalog.hpp"
#include "ops/rules.hpp"

namespace popart::ops {
namespace {

void inferInit(InferContext &c) {
  for (int64_t d : c.attrInts("shape"))
    c.require(d >= 0, "dimensions must not be negative: got shape {}", c.attrInts("shape"));
  const int64_t type = c.attrInt("init_type");
  c.require(type == 0 || type == 1, "init_type must be 0 (undefined content) or 1 (zero): got {}", type);
  const Shape whole = c.hasAttr("meta_shape") ? c.attrInts("meta_shape") : Shape{};
  c.out(0, TensorInfo(typeOfAttribute(c, "dtype"), c.attrInts("shape"), whole));
}

const TensorInfo &streamInfo(const InferContext &c) {
  const Graph &main = c.op().getIr().getMainGraph();
  const TensorIndex stream = main.find(c.attrString("stream"));
  c.require(stream.valid(), "there is no host stream '{}'. Add the stream tensor to the main graph first",
            c.attrString("stream"));
  return main.info(stream);
}

void inferHostLoad(InferContext &c) {
  const TensorInfo &info = streamInfo(c);
  if (c.hasIn(0))
    c.require(c.in(0) == info, "the tensor to fill differs from the stream: got {}, expected {}", c.in(0), info);
  c.out(0, info);
}

void addHostStreams(OpDefs &rows) {
  rows.push_back(OpDef("ai.graphcore", "HostLoad", {1})
                     .input("init", kStoredTypes, "", Arity::Optional)
                     .output("loaded")
                     .attrRequired("stream", AttributeType::String)
                     .infer(inferHostLoad)
                     .traits(Trait::HostIo | Trait::SideEffect)
                     .role(Role::HostLoad)
                     .stopsGrad()
                     .notOnnx()
                     .doc("The next micro-batch of a host stream."));
  rows.push_back(OpDef("ai.graphcore", "HostStore", {1})
                     .input("tensor", kStoredTypes)
                     .attrRequired("stream", AttributeType::String)
                     .traits(Trait::HostIo | Trait::SideEffect)
                     .role(Role::HostStore)
                     .stopsGrad()
                     .notOnnx()
                     .doc("Sends the tensor to the host."));
}

// The part of a remote variable that one access uses: all of it or, with an offset, one row.
TensorInfo remoteInfo(const InferContext &c) {
  const std::string &id = c.attrString("remote_buffer");
  const Graph &main = c.op().getIr().getMainGraph();
  const TensorIndex t = main.find(id);
  c.require(t.valid() && main.tensor(t).isRemote, "there is no remote variable '{}' in the main graph", id);
  const TensorInfo &info = main.info(t);
  if (!c.hasIn(1)) return info;
  c.require(c.in(1).nelms() == 1, "the offset must have one element: got shape {}", c.shape(1));
  c.require(info.rank() > 0, "the remote variable '{}' is a scalar, so that it takes no offset", id);
  return TensorInfo(info.dataType(), Shape(info.shape().begin() + 1, info.shape().end()), info.metaShape());
}

void requireSameInfo(const InferContext &c, const TensorInfo &remote) {
  c.require(c.type(0) == remote.dataType() && c.shape(0) == remote.shape(),
            "the tensor differs from the remote one: got {}, expected {}", c.in(0), remote);
}

void addRemote(OpDefs &rows) {
  constexpr TypeSet kOffsets = typeBit(DataType::UINT32) | typeBit(DataType::INT32);
  rows.push_back(OpDef("ai.graphcore", "RemoteLoad", {1})
                     .input("init", kStoredTypes, "", Arity::Optional)
                     .input("offset", kOffsets, "", Arity::Optional)
                     .output("loaded")
                     .attrRequired("remote_buffer", AttributeType::String)
                     .infer([](InferContext &c) {
                       const TensorInfo info = remoteInfo(c);
                       if (c.hasIn(0)) requireSameInfo(c, info);
                       c.out(0, info);
                     })
                     .layouts([](const Op &op, OperandLayouts &layouts) {
                       if (!op.hasInput(1))
                         layouts.out[0] = OperandLayout::Uniform;  // the layout of the remote variable
                     })
                     .traits(Trait::SideEffect)
                     .role(Role::RemoteLoad)
                     .inplace("RemoteLoadInplace", 10)
                     .stopsGrad()
                     .notOnnx()
                     .cost(movesData())
                     .doc("Loads the remote variable `remote_buffer` or, with an offset, that row of it."));
  rows.push_back(
      OpDef("ai.graphcore", "RemoteStore", {1})
          .input("tensor", kStoredTypes)
          .input("offset", kOffsets, "", Arity::Optional)
          .attrRequired("remote_buffer", AttributeType::String)
          .infer([](InferContext &c) { requireSameInfo(c, remoteInfo(c)); })
          .layouts([](const Op &op, OperandLayouts &layouts) {
            if (!op.hasInput(1)) layouts.in[0] = OperandLayout::Uniform;
          })
          .traits(Trait::SideEffect)
          .role(Role::RemoteStore)
          .stopsGrad()
          .notOnnx()
          .cost(movesData())
          .doc("Writes the tensor to the remote variable `remote_buffer` or, with an offset, to that row of it."));
}

// Code is always available to calls here, so lowering removes the op.
OpDef remoteCodeLoadRow() {
  return OpDef("ai.graphcore", "RemoteCodeLoad", {1})
      .attrRequired("graph", AttributeType::String)
      .attrRequired("destination", AttributeType::String)
      .infer([](InferContext &) {})
      .stopsGrad()
      .notOnnx()
      .decompose([](DecomposeBuilder &) {})
      .doc("Loads the code of a graph before it is called.");
}

void addPrintAndAbort(OpDefs &rows) {
  rows.push_back(OpDef("ai.graphcore", "PrintTensor", {1})
                     .input("x", kAllTypes | kSmallTypes)
                     .output("y")
                     .attr("print_gradient", int64_t{1})
                     .attr("print_self", int64_t{1})
                     .attr("title", std::string())
                     .attrOptional("gradient_title", AttributeType::String)  // absent: the title and "_gradient"
                     .attr("summariseThreshold", int64_t{1000})
                     .attr("edgeItems", int64_t{3})
                     .attr("maxLineWidth", int64_t{75})
                     .attr("digits", int64_t{8})
                     .attr("floatFormat", int64_t{0})
                     .attr("separator", std::string(" "))
                     .attr("openBracket", std::string("["))
                     .attr("closeBracket", std::string("]"))
                     .traits(Trait::SideEffect)
                     .vjp([](VjpBuilder &b) {
                       if (b.op().attrInt("print_gradient") == 0) {
                         b.grad(0, b.emit("Identity", {b.gradOut(0)}));
                         return;
                       }
                       Attributes attributes = b.attrs();
                       const std::string title = b.op().attrString("title");
                       attributes.set("title",
                                      attributes.getAttribute<std::string>("gradient_title", title + "_gradient"));
                       attributes.erase("gradient_title");
                       attributes.set("print_self", int64_t{1});
                       b.grad(0, b.emit("PrintTensor", {b.gradOut(0)}, attributes));
                     })
                     .doc("Identity that prints its input on standard error when it runs."));
  rows.push_back(OpDef("ai.graphcore", "Abort", {1})
                     .input("condition", kAllTypes, "", Arity::Optional)
                     .attrOptional("reason", AttributeType::String)  // text of the error
                     .infer([](InferContext &c) {
                       if (c.hasIn(0))
                         c.require(c.in(0).rank() == 0 || c.shape(0) == Shape{1},
                                   "the condition must be a scalar: got {}, expected shape [] or [1]", c.in(0));
                     })
                     .traits(Trait::SideEffect)
                     .stopsGrad()
                     .doc("Ends the run with application_error: always, or if the condition is not zero. With a "
                          "reason: with runtime_error and that text."));
  rows.push_back(OpDef("ai.graphcore", "CheckRange", {1})
                     .input("x", kInts)
                     .output("y")
                     .attrRequired("what", AttributeType::String)
                     .attrRequired("low", AttributeType::Int)
                     .attrRequired("high", AttributeType::Int)
                     .infer([](InferContext &c) { c.out(0, c.in(0)); })
                     .traits(Trait::Internal)
                     .stopsGrad()
                     .notOnnx()
                     .doc("Returns the integers `what`; a value outside [low, high] ends the run."));
}

}  // namespace

OpDefs ioOps() {
  OpDefs rows;
  rows.push_back(OpDef("ai.graphcore", "Init", {1})
                     .output("tensor")
                     .attrRequired("shape", AttributeType::Ints)
                     .attrRequired("dtype", AttributeType::Int)
                     .attr("init_type", int64_t{1})
                     .attr("batch_axis", int64_t{-1})
                     .attrOptional("meta_shape", AttributeType::Ints)
                     .infer(inferInit)
                     .traits(Trait::Init | Trait::NeverFolded)
                     .stopsGrad()
                     .cost(movesData())
                     .doc("A new tensor of ONNX type number dtype: zeros (init_type 1) or undefined content (0)."));
  addHostStreams(rows);
  addRemote(rows);
  addPrintAndAbort(rows);
  rows.push_back(remoteCodeLoadRow());
  return rows;
}

}  // namespace popart::ops

// Tensors from nowhere and from outside: Init, host streams, remote buffers, printing, aborting.
// HostLoad gives the next micro-batch of stream `stream` (a Stream tensor of the main graph); its optional input is the
// Init tensor that popxl prints. HostStore hands its input to the anchor of the same name. Host and remote stores,
// prints and aborts are side effects: never pruned, kept in order.
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
  c.out(0, typeOfAttribute(c, "dtype"), c.attrInts("shape"));
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
                     .input("init", kAllTypes, "", Arity::Optional)
                     .output("loaded")
                     .attrRequired("stream", AttributeType::String)
                     .infer(inferHostLoad)
                     .traits(Trait::HostIo | Trait::SideEffect)
                     .role(Role::HostLoad)
                     .stopsGrad()
                     .notOnnx()
                     .doc("The next micro-batch of a host stream."));
  rows.push_back(OpDef("ai.graphcore", "HostStore", {1})
                     .input("tensor", kAllTypes)
                     .attrRequired("stream", AttributeType::String)
                     .traits(Trait::HostIo | Trait::SideEffect)
                     .role(Role::HostStore)
                     .stopsGrad()
                     .notOnnx()
                     .doc("Gives the tensor to the host."));
}

void addRemote(OpDefs &rows) {
  constexpr TypeSet kOffsets = typeBit(DataType::UINT32) | typeBit(DataType::INT32);
  auto requireOffset = [](InferContext &c, int i) {
    if (c.hasIn(i)) c.require(c.in(i).nelms() == 1, "the offset must have one element: got shape {}", c.shape(i));
  };
  rows.push_back(OpDef("ai.graphcore", "RemoteLoad", {1})
                     .input("init", kAllTypes)
                     .input("offset", kOffsets, "", Arity::Optional)
                     .output("loaded")
                     .attrRequired("remote_buffer", AttributeType::Int)
                     .infer([requireOffset](InferContext &c) {
                       requireOffset(c, 1);
                       c.out(0, c.in(0));
                     })
                     .traits(Trait::SideEffect)
                     .inplace("RemoteLoadInplace", 10)
                     .stopsGrad()
                     .notOnnx()
                     .doc("Row `offset` of a remote buffer."));
  rows.push_back(OpDef("ai.graphcore", "RemoteStore", {1})
                     .input("tensor", kAllTypes)
                     .input("offset", kOffsets, "", Arity::Optional)
                     .attrRequired("remote_buffer", AttributeType::Int)
                     .infer([requireOffset](InferContext &c) { requireOffset(c, 1); })
                     .traits(Trait::SideEffect)
                     .stopsGrad()
                     .notOnnx()
                     .doc("Writes the tensor to row `offset` of a remote buffer."));
}

void addPrintAndAbort(OpDefs &rows) {
  rows.push_back(OpDef("ai.graphcore", "PrintTensor", {1})
                     .input("x", kAllTypes)
                     .output("y")
                     .attr("print_gradient", int64_t{1})
                     .attr("print_self", int64_t{1})
                     .attr("title", std::string())
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
                       attributes.set("title", (title.empty() ? b.op().name() : title) + "_gradient");
                       attributes.set("print_self", int64_t{1});
                       b.grad(0, b.emit("PrintTensor", {b.gradOut(0)}, attributes));
                     })
                     .doc("Identity that prints its input on standard error when it runs."));
  rows.push_back(OpDef("ai.graphcore", "Abort", {1})
                     .input("condition", kAllTypes, "", Arity::Optional)
                     .infer([](InferContext &c) {
                       if (c.hasIn(0))
                         c.require(c.in(0).nelms() == 1, "the condition must be a scalar: got shape {}", c.shape(0));
                     })
                     .traits(Trait::SideEffect)
                     .stopsGrad()
                     .doc("Stops the program, always or when the condition is not zero."));
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
                     .infer(inferInit)
                     .traits(Trait::Init | Trait::NeverFolded)
                     .stopsGrad()
                     .cost(movesData())
                     .doc("A new tensor of ONNX type number dtype: zeros (init_type 1) or undefined content (0)."));
  addHostStreams(rows);
  addRemote(rows);
  addPrintAndAbort(rows);
  return rows;
}

}  // namespace popart::ops

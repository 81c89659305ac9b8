// Random tensors and seeds. Every random op takes its seed, UINT32[2], as last input and draws from Philox4x32-10
// (base/philox.hpp): the same seed and shape give the same numbers on every backend and with any number of threads.
// ONNX nodes usually have no seed input: the importer connects one.
#include <popart/op.hpp>

#include "ops/catalog.hpp"
#include "ops/random/seed.hpp"
#include "ops/rules.hpp"

namespace popart::ops {

int seedInput(const Op &op) {
  if (!op.requiresRandomSeed()) return -1;
  if (op.hasAttr("training_mode") && op.attrInt("training_mode") == 0) return -1;
  const auto &inputs = op.def().inputs();
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].name == "seed") return static_cast<int>(i);
  return op.getSeedInIndex();
}

void requireSeed(const InferContext &c, int input) {
  c.require(c.in(input) == TensorInfo(DataType::UINT32, {2}), "the seed must be {}: got {}",
            TensorInfo(DataType::UINT32, {2}), c.in(input));
}

namespace {

DataType randomType(const InferContext &c, DataType fallback) {
  if (!c.hasAttr("dtype")) return fallback;
  const DataType type = typeOfAttribute(c, "dtype");
  c.require(isFloatingPoint(type), "dtype must be a floating type: got {}", type);
  return type;
}

OpDef shapedRow(const char *type, const char *first, float firstValue, const char *second, float secondValue) {
  return OpDef("ai.onnx", type, {1, 22})
      .input("seed", kSeedType)
      .output("output")
      .attrRequired("shape", AttributeType::Ints)
      .attr("dtype", int64_t{1})
      .attr(first, firstValue)
      .attr(second, secondValue)
      .infer([](InferContext &c) {
        requireSeed(c, 0);
        c.out(0, randomType(c, DataType::FLOAT), c.attrInts("shape"));
      })
      .traits(Trait::Random | Trait::Init)
      .noGrad("random numbers have no gradient");
}

OpDef likeRow(const char *type, const char *first, float firstValue, const char *second, float secondValue) {
  return OpDef("ai.onnx", type, {1, 22})
      .input("input", kAllTypes)
      .input("seed", kSeedType)
      .output("output")
      .attrOptional("dtype", AttributeType::Int)
      .attr(first, firstValue)
      .attr(second, secondValue)
      .infer([](InferContext &c) {
        requireSeed(c, 1);
        const DataType type = randomType(c, c.type(0));
        c.require(isFloatingPoint(type), "the result must have a floating type: got {}. Give dtype", type);
        c.out(0, type, c.shape(0));
      })
      .traits(Trait::Random)
      .noGrad("random numbers have no gradient");
}

DecomposeFn likeToShaped(const char *type, std::initializer_list<const char *> names) {
  return [type, names = std::vector<std::string>(names.begin(), names.end())](DecomposeBuilder &b) {
    Attributes attributes{{"shape", b.inInfo(0).shape()}, {"dtype", int64_t{toOnnxDataType(b.outInfo(0).dataType())}}};
    for (const std::string &name : names) attributes.set(name, b.op().attrFloat(name));
    b.result(0, b.emit(type, {b.in(1)}, attributes));
  };
}

void addBernoulli(OpDefs &rows) {
  rows.push_back(OpDef("ai.onnx", "Bernoulli", {15, 22})
                     .input("input", kFloats)
                     .input("seed", kSeedType)
                     .output("output")
                     .attrOptional("dtype", AttributeType::Int)
                     .infer([](InferContext &c) {
                       requireSeed(c, 1);
                       const DataType type = c.hasAttr("dtype") ? typeOfAttribute(c, "dtype") : c.type(0);
                       c.require((typeBit(type) & kAllTypes) != 0, "the result cannot have type {}", type);
                       c.out(0, type, c.shape(0));
                     })
                     .traits(Trait::Random)
                     .noGrad("random draws have no gradient")
                     .doc("1 with the probability given by each element, else 0."));
}

void addSeeds(OpDefs &rows) {
  rows.push_back(OpDef("ai.graphcore", "GetRandomSeed", {1})
                     .input("seed", kSeedType)
                     .output("updated")
                     .infer([](InferContext &c) {
                       requireSeed(c, 0);
                       c.out(0, c.in(0));
                     })
                     .role(Role::GetRandomSeed)
                     .traits(Trait::VarUpdate)
                     .modifies(0)
                     .stopsGrad()
                     .notOnnx()
                     .doc("Advances the seed variable; the new value is the seed of this micro-batch."));
  rows.push_back(
      OpDef("popart", "ReplicaRandomSeed", {1})
          .input("seed", kSeedType)
          .output("own")
          .attrOptional("group_size", AttributeType::Int)
          .attrOptional("stride", AttributeType::Int)
          .infer([](InferContext &c) {
            requireSeed(c, 0);
            c.out(0, c.in(0));
          })
          .stopsGrad()
          .notOnnx()
          .doc("A seed for this replica, derived from one that all replicas share; with a group, a seed for its "
               "position in the group."));
  rows.push_back(OpDef("ai.graphcore", "ModifyRandomSeed", {1})
                     .role(Role::ModifyRandomSeed)
                     .input("seed", kSeedType)
                     .input("modifier", kSeedType)
                     .output("modified")
                     .infer([](InferContext &c) {
                       requireSeed(c, 0);
                       c.require(c.in(1).nelms() == 1, "the modifier must be a scalar: got shape {}", c.shape(1));
                       c.out(0, c.in(0));
                     })
                     .stopsGrad()
                     .notOnnx()
                     .doc("Word 0 of the seed, and a random number with the key (word 0, word 1 + modifier)."));
}

constexpr TypeSet kRoundedTypes = typeBit(DataType::FLOAT16) | typeBit(DataType::BFLOAT16);

void addRounding(OpDefs &rows) {
  rows.push_back(OpDef("ai.graphcore", "RoundStochastically", {1})
                     .input("x", typeBit(DataType::FLOAT))
                     .input("seed", kSeedType)
                     .output("y")
                     .attrRequired("to", AttributeType::Int)
                     .attr("stream", int64_t{0})
                     .infer([](InferContext &c) {
                       requireSeed(c, 1);
                       const DataType to = typeOfAttribute(c, "to");
                       c.require((typeBit(to) & kRoundedTypes) != 0, "it rounds to FLOAT16 or BFLOAT16: got {}", to);
                       const int64_t stream = c.attrInt("stream");
                       c.require(stream >= 0 && stream < int64_t{1} << 32, "stream must be in [0, 2^32): got {}",
                                 stream);
                       c.out(0, to, c.shape(0));
                     })
                     .traits(Trait::Random | Trait::Internal)
                     .notOnnx()
                     .noGrad("it is made after differentiation")
                     .doc("Stochastic rounding to the type with ONNX number `to`: unbiased, a function of seed, "
                          "stream and position."));
}

}  // namespace

OpDefs randomOps() {
  OpDefs rows;
  rows.push_back(
      shapedRow("RandomNormal", "mean", 0.0f, "scale", 1.0f).doc("Normally distributed numbers (Box-Muller)."));
  rows.push_back(shapedRow("RandomUniform", "low", 0.0f, "high", 1.0f).doc("Numbers uniform in [low, high)."));
  rows.push_back(likeRow("RandomNormalLike", "mean", 0.0f, "scale", 1.0f)
                     .decompose(likeToShaped("RandomNormal", {"mean", "scale"}))
                     .doc("RandomNormal of the input's shape."));
  rows.push_back(likeRow("RandomUniformLike", "low", 0.0f, "high", 1.0f)
                     .decompose(likeToShaped("RandomUniform", {"low", "high"}))
                     .doc("RandomUniform of the input's shape."));
  addBernoulli(rows);
  addSeeds(rows);
  addRounding(rows);
  return rows;
}

}  // namespace popart::ops

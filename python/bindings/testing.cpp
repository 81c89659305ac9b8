// The Python module popart_testing: single ops on NumPy arrays, for the operator cases under tests/cases, and schedules
// of exchanges between processes, for tools/scale_model.py; instances of popdist that are threads.
#include <popart/opdef.hpp>

#include "exchange/schedule.hpp"
#include "host_array.hpp"
#include "popdist/hosts.hpp"
#include "popdist/job.hpp"
#include "support/borrowed_transport.hpp"
#include "support/fake_ranks.hpp"
#include "support/run_op.hpp"

namespace popart::python {
namespace {

template <class T>
std::vector<T> toVector(nb::handle list) {
  std::vector<T> values;
  for (nb::handle item : list) values.push_back(nb::cast<T>(item));
  return values;
}

// Attribute values by the type the row declares; a Python number alone does not tell int from float.
AttributeValue toAttribute(AttributeType type, nb::handle value) {
  switch (type) {
    case AttributeType::Int:
      return PyBool_Check(value.ptr()) ? static_cast<int64_t>(nb::cast<bool>(value)) : nb::cast<int64_t>(value);
    case AttributeType::Float:
      return nb::cast<float>(value);
    case AttributeType::String:
      return nb::cast<std::string>(value);
    case AttributeType::Ints:
      return toVector<int64_t>(value);
    case AttributeType::Floats:
      return toVector<float>(value);
    case AttributeType::Strings:
      return toVector<std::string>(value);
    case AttributeType::Tensor: {
      const HostArray array(value, HostArray::Types::All);
      array.requireContiguous("attribute", "");
      return TensorData(array.info(), array.data());
    }
    case AttributeType::Graph:
      break;
  }
  throw error("attribute: subgraphs cannot be given to single ops");
}

std::vector<TensorData> toTensors(nb::handle arrays) {
  std::vector<TensorData> tensors;
  for (nb::handle item : arrays) {
    if (item.is_none()) {
      tensors.emplace_back();
      continue;
    }
    const HostArray array(item, HostArray::Types::All);
    array.requireContiguous("input", std::to_string(tensors.size()));
    tensors.emplace_back(array.info(), array.data());
  }
  return tensors;
}

SingleOp toOp(const std::string &type, const nb::dict &attributes, nb::handle inputs, int outputs) {
  SingleOp op{type, {}, toTensors(inputs), outputs};
  const OpDef *def = findOpDef(type);
  if (!def) throw error("operator '{}': there is no such row in the catalog", type);
  for (auto [key, value] : attributes) {
    const auto name = nb::cast<std::string>(key);
    const AttributeDef *attribute = def->findAttribute(name);
    if (!attribute) throw error("operator '{}': unknown attribute '{}'", type, name);
    if (!value.is_none()) op.attributes.set(name, toAttribute(attribute->type, value));
  }
  return op;
}

OpBackend toBackend(const std::string &name) {
  if (name == "ref") return OpBackend::Reference;
  if (name == "cpu") return OpBackend::Best;
  if (name == "counting") return OpBackend::Counting;
  throw error("backend: got '{}', expected 'ref', 'cpu' or 'counting'", name);
}

nb::list toArrays(const std::vector<TensorData> &tensors) {
  nb::list arrays;
  for (const TensorData &tensor : tensors) {
    if (tensor.empty())
      arrays.append(nb::none());
    else
      arrays.append(makeNumpyArray(tensor.info(), tensor.data()));
  }
  return arrays;
}

std::vector<std::pair<std::string, std::string>> toPairs(const std::vector<executable::Fallback> &fallbacks) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto &f : fallbacks) pairs.emplace_back(f.op, f.reason);
  return pairs;
}

// ---- exchanges

using exchange::ExchangeSpec;
using exchange::Operation;

Operation toOperation(const std::string &name) {
  for (const Operation o : {Operation::AllReduce, Operation::ReduceScatter, Operation::AllGather, Operation::Broadcast,
                            Operation::AllToAll})
    if (exchange::nameOf(o) == name) return o;
  throw error("operation: got '{}', expected the name of an operation, as 'all-reduce'", name);
}

// Messages and joins of one process in a round: (peer, bytes) of what it sends and receives, bytes that it joins, each
// join counted with the bytes of its result.
struct RoundSummary {
  std::vector<std::pair<int, int64_t>> sends, receives;
  int64_t joinedBytes = 0;
};

std::vector<RoundSummary> summarize(const exchange::Schedule &schedule) {
  std::vector<RoundSummary> rounds;
  for (const exchange::Round &round : schedule.rounds) {
    RoundSummary &summary = rounds.emplace_back();
    for (const exchange::Message &m : round.sends) summary.sends.emplace_back(m.peer, m.bytes);
    for (const exchange::Message &m : round.receives) summary.receives.emplace_back(m.peer, m.bytes);
    int64_t elements = 0;
    for (const exchange::Range &range : round.joined) elements += range.end - range.begin;
    summary.joinedBytes = elements * schedule.sumBytes * static_cast<int64_t>(round.joins.size());
  }
  return rounds;
}

// Instances of a job that are threads of this process, over a network that reorders messages.
class JobOfThreads {
 public:
  explicit JobOfThreads(int instances) : ranks_(instances, 3), hosts_(static_cast<size_t>(instances)) {}
  JobOfThreads(const JobOfThreads &) = delete;
  JobOfThreads &operator=(const JobOfThreads &) = delete;
  // The calling thread is this instance until it leaves. All instances enter before one communicates.
  void enter(int instance) {
    const nb::gil_scoped_release released;
    const exchange::OwnReplicas own{static_cast<int>(hosts_.size()), 1, instance};
    popdist::Hosts &hosts = hosts_.at(static_cast<size_t>(instance));
    hosts.begin(std::make_shared<popdist::Group>(
        std::make_shared<exchange::HostGroup>(std::make_unique<test::Borrowed>(ranks_.transport(instance)), own,
                                              exchange::HostGroupSettings{.timeout = std::chrono::seconds(20)})));
    popdist::Hosts::setCurrent(&hosts);
  }
  void leave() {
    const nb::gil_scoped_release released;
    popdist::Hosts::current().end();
    popdist::Hosts::setCurrent(nullptr);
  }

 private:
  test::FakeRanks ranks_;
  std::vector<popdist::Hosts> hosts_;
};

}  // namespace
}  // namespace popart::python

NB_MODULE(popart_testing, testing) {
  using namespace popart;
  using namespace popart::python;
  testing.doc() = "Single operators on NumPy arrays; schedules of exchanges between processes; instances of popdist.";
  nb::module_::import_("popart_core");  // types and exceptions
  nb::class_<JobOfThreads>(testing, "JobOfThreads", "Instances of popdist that are threads.")
      .def(nb::init<int>(), nb::arg("instances"))
      .def("enter", &JobOfThreads::enter, nb::arg("instance"), "The calling thread is this instance until it leaves.")
      .def("leave", &JobOfThreads::leave, "The calling thread belongs to the process again.");
  testing.def(
      "forget_job",
      [] {
        popdist::Hosts::current().forget();
        popdist::forgetWarnings();
      },
      "popdist is as in a process that has not used it.");
  testing.def(
      "run_op",
      [](const std::string &type, const nb::dict &attributes, nb::list inputs, const std::string &backend, int outputs,
         int threads, int repetitions, bool transposed) {
        const OpRun run{toBackend(backend), transposed ? OpOperands::Transposed : OpOperands::Plain, threads,
                        repetitions};
        return toArrays(runOp(toOp(type, attributes, inputs, outputs), run));
      },
      nb::arg("type"), nb::arg("attributes"), nb::arg("inputs"), nb::arg("backend") = "ref", nb::arg("outputs") = -1,
      nb::arg("threads") = 0, nb::arg("repetitions") = 1, nb::arg("transposed") = false,
      "Runs one op of the catalog; None among the inputs is an absent optional input. `transposed` brings the inputs "
      "in "
      "with reversed dimensions and a Transpose before the op.");
  testing.def(
      "op_text",
      [](const std::string &type, const nb::dict &attributes, nb::list inputs, int outputs) {
        return textOfOp(toOp(type, attributes, inputs, outputs));
      },
      nb::arg("type"), nb::arg("attributes"), nb::arg("inputs"), nb::arg("outputs") = -1,
      "Text of a program of the op, after it was read again and found equal.");
  testing.def(
      "run_op_as_onnx",
      [](const std::string &type, const nb::dict &attributes, nb::list inputs, int outputs) -> nb::object {
        const auto results = runOpAsOnnx(toOp(type, attributes, inputs, outputs));
        return results ? nb::object(toArrays(*results)) : nb::none();
      },
      nb::arg("type"), nb::arg("attributes"), nb::arg("inputs"), nb::arg("outputs") = -1,
      "Results of the op after it was written as an ONNX model and read again; None: it has no ONNX form.");
  testing.def(
      "infer_op",
      [](const std::string &type, const nb::dict &attributes, nb::list inputs, int outputs) {
        return inferOp(toOp(type, attributes, inputs, outputs));
      },
      nb::arg("type"), nb::arg("attributes"), nb::arg("inputs"), nb::arg("outputs") = -1, "Infos of the outputs.");
  testing.def(
      "op_cost",
      [](const std::string &type, const nb::dict &attributes, nb::list inputs, int outputs) {
        const Cost cost = costOfOp(toOp(type, attributes, inputs, outputs));
        return std::make_tuple(cost.flops, cost.bytesRead, cost.bytesWritten);
      },
      nb::arg("type"), nb::arg("attributes"), nb::arg("inputs"), nb::arg("outputs") = -1,
      "Arithmetic operations, bytes read and bytes written, as the op's row states them.");
  testing.def(
      "grad_op",
      [](const std::string &type, const nb::dict &attributes, nb::list inputs, nb::list gradOutputs,
         const std::vector<int> &wanted, const std::string &backend, int outputs) {
        return toArrays(
            gradOp(toOp(type, attributes, inputs, outputs), toTensors(gradOutputs), wanted, toBackend(backend)));
      },
      nb::arg("type"), nb::arg("attributes"), nb::arg("inputs"), nb::arg("grad_outputs"), nb::arg("wanted"),
      nb::arg("backend") = "ref", nb::arg("outputs") = -1, "Gradients of the inputs listed in `wanted`.");
  testing.def(
      "fallbacks",
      [](const std::string &type, const nb::dict &attributes, nb::list inputs, int outputs) {
        return toPairs(opFallbacks(toOp(type, attributes, inputs, outputs)));
      },
      nb::arg("type"), nb::arg("attributes"), nb::arg("inputs"), nb::arg("outputs") = -1,
      "(op, reason) of each op of the program of run_op that the CPU backend leaves to the reference.");
  testing.def(
      "grad_fallbacks",
      [](const std::string &type, const nb::dict &attributes, nb::list inputs, nb::list gradOutputs,
         const std::vector<int> &wanted, int outputs) {
        return toPairs(gradFallbacks(toOp(type, attributes, inputs, outputs), toTensors(gradOutputs), wanted));
      },
      nb::arg("type"), nb::arg("attributes"), nb::arg("inputs"), nb::arg("grad_outputs"), nb::arg("wanted"),
      nb::arg("outputs") = -1, "The same for the program of grad_op.");
  testing.def(
      "passes_of_op",
      [](const std::string &type, const nb::dict &attributes, nb::list inputs, int outputs) {
        const std::set<std::string> names = passesOfOp(toOp(type, attributes, inputs, outputs));
        return std::vector<std::string>(names.begin(), names.end());
      },
      nb::arg("type"), nb::arg("attributes"), nb::arg("inputs"), nb::arg("outputs") = -1,
      "Names of the passes of lowering that change the program of run_op on the CPU and may be switched off.");
  testing.def(
      "passes_of_gradient",
      [](const std::string &type, const nb::dict &attributes, nb::list inputs, nb::list gradOutputs,
         const std::vector<int> &wanted, int outputs) {
        const std::set<std::string> names =
            passesOfGradient(toOp(type, attributes, inputs, outputs), toTensors(gradOutputs), wanted);
        return std::vector<std::string>(names.begin(), names.end());
      },
      nb::arg("type"), nb::arg("attributes"), nb::arg("inputs"), nb::arg("grad_outputs"), nb::arg("wanted"),
      nb::arg("outputs") = -1, "The same for the program of grad_op.");
  nb::class_<RoundSummary>(testing, "ExchangeRound")
      .def_ro("sends", &RoundSummary::sends, "(peer, bytes) of each message.")
      .def_ro("receives", &RoundSummary::receives, "(peer, bytes) of each message.")
      .def_ro("joined_bytes", &RoundSummary::joinedBytes, "Bytes of the results of all joins.");
  nb::class_<exchange::ReplicaLayout>(testing, "ReplicaLayout")
      .def(
          "__init__",
          [](exchange::ReplicaLayout *self, int processes, int replicasOfEach, int processesOfHost) {
            check(processes > 0 && replicasOfEach > 0 && processesOfHost > 0,
                  "layout: got {} processes of {} replicas, {} on a host, expected positive numbers", processes,
                  replicasOfEach, processesOfHost);
            std::vector<std::string> hosts;
            for (int p = 0; p < processes; ++p) hosts.push_back(std::to_string(p / processesOfHost));
            const std::vector<int> counts(static_cast<size_t>(processes), replicasOfEach);
            new (self) exchange::ReplicaLayout(counts, hosts);
          },
          nb::arg("processes"), nb::arg("replicas_of_each"), nb::arg("processes_of_host"))
      .def("host_of", &exchange::ReplicaLayout::hostOf, nb::arg("process"));
  testing.def(
      "plan_exchange",
      [](const exchange::ReplicaLayout &layout, int process, const std::string &operation, DataType type, int groupSize,
         int stride, const std::vector<int64_t> &elements, const std::vector<int64_t> &resultElements, bool keeps,
         double latency, double perMessage, double perByte) {
        ExchangeSpec spec;
        spec.operation = toOperation(operation);
        spec.join = keeps ? executable::Join::Keep : executable::Join::Add;
        spec.type = type;
        spec.groupSize = groupSize;
        spec.stride = stride;
        spec.elements = elements;
        spec.resultElements = resultElements;
        spec.group = static_cast<int>(
            exchange::groupingOf(spec, layout).getGroupAt(static_cast<unsigned>(layout.first(process))));
        const exchange::Schedule schedule =
            exchange::planExchange(spec, layout, process, {latency, perMessage, perByte});
        return std::make_pair(std::string(schedule.algorithm == exchange::Algorithm::Halving ? "halving" : "direct"),
                              summarize(schedule));
      },
      nb::arg("layout"), nb::arg("process"), nb::arg("operation"), nb::arg("type"), nb::arg("group_size"),
      nb::arg("stride"), nb::arg("elements"), nb::arg("result_elements"), nb::arg("keeps"), nb::arg("latency_ns"),
      nb::arg("message_ns"), nb::arg("byte_ns"),
      "The algorithm and the rounds of one process, of the group of its first replica.");
  testing.def(
      "op_types",
      [] {
        std::vector<std::string> types;
        for (const OpDef *def : allOpDefs()) types.push_back(def->type());
        return types;
      },
      "Types of all rows of the catalog.");
}

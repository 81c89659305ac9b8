// CommGroup, ReplicaGrouping, VariableSettings and TensorLocation.
#include <popart/tensorlocation.hpp>
#include <popart/variablesettings.hpp>

#include "bindings.hpp"

namespace popart::python {
namespace {

void bindGroups(nb::module_ &m) {
  nb::class_<ReplicaGrouping>(m, "ReplicaGrouping", "Groups of replicas whose numbers are a stride apart.")
      .def(nb::init<unsigned>(), nb::arg("numReplicas"),
           "Make groups.\n"
           "\n"
           "Args:\n"
           "    numReplicas: Replicas in all.\n"
           "    stride: Distance of the members of a group; default 1.\n"
           "    groupSize: Members of a group; default all replicas. stride * groupSize divides numReplicas.\n"
           "\n"
           "Raises:\n"
           "    popart_exception: It does not.")
      .def(nb::init<unsigned, unsigned, unsigned>(), nb::arg("numReplicas"), nb::arg("stride"), nb::arg("groupSize"))
      .def("getNumReplicas", &ReplicaGrouping::getNumReplicas, "Replicas in all.")
      .def("getStride", &ReplicaGrouping::getStride, "Distance of the members of a group.")
      .def("getGroupSize", &ReplicaGrouping::getGroupSize, "Members of a group.")
      .def("getNumGroups", &ReplicaGrouping::getNumGroups, "Number of groups.")
      .def("getGroupAt", &ReplicaGrouping::getGroupAt, nb::arg("replica"),
           "Group of a replica.\n"
           "\n"
           "Args:\n"
           "    replica: Its number.")
      .def("getIndexInGroupAt", &ReplicaGrouping::getIndexInGroupAt, nb::arg("replica"),
           "Place of a replica in its group.\n"
           "\n"
           "Args:\n"
           "    replica: Its number.")
      .def("getReplicaAt", &ReplicaGrouping::getReplicaAt, nb::arg("group"), nb::arg("index") = 0,
           "A member of a group.\n"
           "\n"
           "Args:\n"
           "    group: Number of the group.\n"
           "    index: Place in the group.")
      .def("getReplicasAt", &ReplicaGrouping::getReplicasAt, nb::arg("group"),
           "The members of a group.\n"
           "\n"
           "Args:\n"
           "    group: Number of the group.")
      .def("getTranspose", &ReplicaGrouping::getTranspose,
           "Groups of the replicas that have the same place in these groups.")
      .def(
          "__eq__", [](const ReplicaGrouping &a, const ReplicaGrouping &b) { return a == b; }, nb::is_operator())
      .def("__hash__", [](const ReplicaGrouping &g) { return std::hash<std::string>()(g.str()); })
      .def("__str__", &ReplicaGrouping::str);
  nb::class_<CommGroup>(m, "CommGroup", "The older form of a grouping: a type and a size.")
      .def(nb::init<>(),
           "Make groups; without arguments one group of all.\n"
           "\n"
           "Args:\n"
           "    type: CommGroupType.\n"
           "    replicaGroupSize: Members of a group, of Consecutive and Orthogonal.\n"
           "    grouping: Instead of both: a ReplicaGrouping.")
      .def(nb::init<CommGroupType, unsigned>(), nb::arg("type"), nb::arg("replicaGroupSize"))
      .def(nb::init<const ReplicaGrouping &>(), nb::arg("grouping"))
      .def_rw("type", &CommGroup::type)
      .def_rw("replicaGroupSize", &CommGroup::replicaGroupSize)
      .def("toReplicaGrouping", &CommGroup::toReplicaGrouping, nb::arg("numReplicas"),
           "The same groups as ReplicaGrouping.\n"
           "\n"
           "Args:\n"
           "    numReplicas: Replicas in all.")
      .def(
          "__eq__", [](const CommGroup &a, const CommGroup &b) { return a == b; }, nb::is_operator());
}

void bindLocation(nb::module_ &m) {
  nb::class_<TensorLocation>(
      m, "TensorLocation",
      "Where a tensor is kept: on the device or off chip, whole or divided among replicas (docs/options.md).")
      .def(nb::init<>(),
           "Make a location; without arguments on chip, unsharded.\n"
           "\n"
           "Args:\n"
           "    storage: On chip or off chip.\n"
           "    loadTileSet: Tiles that load it.\n"
           "    storageTileSet: Tiles that keep it.\n"
           "    replicatedTensorSharding: Whether replicas share it out.\n"
           "    shardingDomain: CommGroup that shares it.")
      .def(nb::init<TensorStorage>(), nb::arg("storage"))
      .def(nb::init<TensorStorage, ReplicatedTensorSharding>(), nb::arg("storage"), nb::arg("replicatedTensorSharding"))
      .def(nb::init<TensorStorage, ReplicatedTensorSharding, CommGroup>(), nb::arg("storage"),
           nb::arg("replicatedTensorSharding"), nb::arg("shardingDomain"))
      .def(nb::init<TensorStorage, TileSet, TileSet, ReplicatedTensorSharding>(), nb::arg("storage"),
           nb::arg("loadTileSet"), nb::arg("storageTileSet"), nb::arg("replicatedTensorSharding"))
      .def(nb::init<TensorStorage, TileSet, TileSet, ReplicatedTensorSharding, CommGroup>(), nb::arg("storage"),
           nb::arg("loadTileSet"), nb::arg("storageTileSet"), nb::arg("replicatedTensorSharding"),
           nb::arg("shardingDomain"))
      .def_rw("storage", &TensorLocation::storage)
      .def_rw("loadTileSet", &TensorLocation::loadTileSet)
      .def_rw("storageTileSet", &TensorLocation::storageTileSet)
      .def_rw("replicatedTensorSharding", &TensorLocation::replicatedTensorSharding)
      .def_rw("shardingDomain", &TensorLocation::shardingDomain)
      .def("serialize", &TensorLocation::serialize, "The six fields as numbers.")
      .def("isRemote", &TensorLocation::isRemote, "Whether it is off chip or sharded.")
      .def(
          "isSharded",
          [](const TensorLocation &l) { return l.replicatedTensorSharding == ReplicatedTensorSharding::On; },
          "Whether each replica holds a part.")
      .def(
          "__eq__", [](const TensorLocation &a, const TensorLocation &b) { return a == b; }, nb::is_operator());
}

}  // namespace

void bindVariableSettings(nb::module_ &m) {
  bindGroups(m);
  bindLocation(m);
  nb::class_<VariableSettings>(
      m, "VariableSettings",
      "Which replicas share a variable, and whose value the host gets. Kept in the model; no effect with "
      "one replica.")
      .def(nb::init<>(),
           "Make settings; without arguments all replicas share one value.\n"
           "\n"
           "Args:\n"
           "    sharedVariableDomain_: CommGroup of replicas that share a value.\n"
           "    retrievalMode_: Whose value the host gets.\n"
           "    stride: Instead of the CommGroup: distance of the members of a group.\n"
           "    groupSize: Members of a group.\n"
           "    mode: Whose value the host gets.")
      .def(nb::init<CommGroup>(), nb::arg("sharedVariableDomain_"))
      .def(nb::init<VariableRetrievalMode>(), nb::arg("retrievalMode_"))
      .def(nb::init<CommGroup, VariableRetrievalMode>(), nb::arg("sharedVariableDomain_"), nb::arg("retrievalMode_"))
      .def(nb::init<unsigned, unsigned, VariableRetrievalMode>(), nb::arg("stride"), nb::arg("groupSize"),
           nb::arg("mode"))
      .def("numReplicasReturningVariable", &VariableSettings::numReplicasReturningVariable, nb::arg("replicaCount"),
           "How many values the host gets.\n"
           "\n"
           "Args:\n"
           "    replicaCount: Replicas in all.")
      .def("getGroupCount", &VariableSettings::getGroupCount, nb::arg("replicaCount"),
           "Number of groups.\n"
           "\n"
           "Args:\n"
           "    replicaCount: Replicas in all.")
      .def("getRealGroupSize", &VariableSettings::getRealGroupSize, nb::arg("replicaCount"),
           "Members of a group.\n"
           "\n"
           "Args:\n"
           "    replicaCount: Replicas in all.")
      .def("getGroupRepresentative", &VariableSettings::getGroupRepresentative, nb::arg("group"),
           nb::arg("replicaCount") = 0,
           "Lowest replica of a group.\n"
           "\n"
           "Args:\n"
           "    group: Number of the group.\n"
           "    replicaCount: Replicas in all.")
      .def("getSharedVariableDomain", &VariableSettings::getSharedVariableDomain, "The CommGroup.")
      .def("getReplicaGrouping", &VariableSettings::getReplicaGrouping, nb::arg("numReplicas"),
           "The groups.\n"
           "\n"
           "Args:\n"
           "    numReplicas: Replicas in all.")
      .def("isUsingCommGroup", &VariableSettings::isUsingCommGroup, "Whether it was made from a CommGroup.")
      .def("getCommGroupType", &VariableSettings::getCommGroupType, "Type of the CommGroup.")
      .def("getStride", &VariableSettings::getStride, "Distance of the members of a group.")
      .def("getGroupSize", &VariableSettings::getGroupSize, "Members of a group.")
      .def("getRetrievalMode", &VariableSettings::getRetrievalMode, "Whose value the host gets.")
      .def("shapeOnReplica", &VariableSettings::shapeOnReplica, nb::arg("full_shape"), nb::arg("replicaCount"),
           nb::arg("name"),
           "Shape of the part of one replica.\n"
           "\n"
           "Args:\n"
           "    full_shape: Shape on the host, the number of groups first when there are several.\n"
           "    replicaCount: Replicas in all.\n"
           "    name: Variable, for messages.")
      .def("shapeOnHost", &VariableSettings::shapeOnHost, nb::arg("replica_shape"), nb::arg("replicaCount"),
           "Shape of all parts.\n"
           "\n"
           "Args:\n"
           "    replica_shape: Shape on one replica.\n"
           "    replicaCount: Replicas in all.")
      .def("groups", &VariableSettings::groups, nb::arg("replicaCount"),
           "Members of each group.\n"
           "\n"
           "Args:\n"
           "    replicaCount: Replicas in all.")
      .def("verify", &VariableSettings::verify, "Raise popart_internal_exception for impossible settings.")
      .def(
          "__eq__", [](const VariableSettings &a, const VariableSettings &b) { return a == b; }, nb::is_operator());
}

}  // namespace popart::python

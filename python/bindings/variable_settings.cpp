// CommGroup, ReplicaGrouping, VariableSettings and TensorLocation.
#include <popart/tensorlocation.hpp>
#include <popart/variablesettings.hpp>

#include "bindings.hpp"

namespace popart::python {
namespace {

void bindGroups(nb::module_ &m) {
  nb::class_<ReplicaGrouping>(m, "ReplicaGrouping")
      .def(nb::init<unsigned>(), nb::arg("numReplicas"))
      .def(nb::init<unsigned, unsigned, unsigned>(), nb::arg("numReplicas"), nb::arg("stride"), nb::arg("groupSize"))
      .def("getNumReplicas", &ReplicaGrouping::getNumReplicas)
      .def("getStride", &ReplicaGrouping::getStride)
      .def("getGroupSize", &ReplicaGrouping::getGroupSize)
      .def("getNumGroups", &ReplicaGrouping::getNumGroups)
      .def("getGroupAt", &ReplicaGrouping::getGroupAt, nb::arg("replica"))
      .def("getIndexInGroupAt", &ReplicaGrouping::getIndexInGroupAt, nb::arg("replica"))
      .def("getReplicaAt", &ReplicaGrouping::getReplicaAt, nb::arg("group"), nb::arg("index") = 0)
      .def("getReplicasAt", &ReplicaGrouping::getReplicasAt, nb::arg("group"))
      .def("getTranspose", &ReplicaGrouping::getTranspose)
      .def(
          "__eq__", [](const ReplicaGrouping &a, const ReplicaGrouping &b) { return a == b; }, nb::is_operator())
      .def("__hash__", [](const ReplicaGrouping &g) { return std::hash<std::string>()(g.str()); })
      .def("__str__", &ReplicaGrouping::str);
  nb::class_<CommGroup>(m, "CommGroup")
      .def(nb::init<>())
      .def(nb::init<CommGroupType, unsigned>(), nb::arg("type"), nb::arg("replicaGroupSize"))
      .def(nb::init<const ReplicaGrouping &>(), nb::arg("grouping"))
      .def_rw("type", &CommGroup::type)
      .def_rw("replicaGroupSize", &CommGroup::replicaGroupSize)
      .def("toReplicaGrouping", &CommGroup::toReplicaGrouping, nb::arg("numReplicas"))
      .def(
          "__eq__", [](const CommGroup &a, const CommGroup &b) { return a == b; }, nb::is_operator());
}

void bindLocation(nb::module_ &m) {
  nb::class_<TensorLocation>(m, "TensorLocation")
      .def(nb::init<>())
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
      .def("serialize", &TensorLocation::serialize)
      .def("isRemote", &TensorLocation::isRemote)
      .def(
          "__eq__", [](const TensorLocation &a, const TensorLocation &b) { return a == b; }, nb::is_operator());
}

}  // namespace

void bindVariableSettings(nb::module_ &m) {
  bindGroups(m);
  bindLocation(m);
  nb::class_<VariableSettings>(m, "VariableSettings")
      .def(nb::init<>())
      .def(nb::init<CommGroup>(), nb::arg("sharedVariableDomain_"))
      .def(nb::init<VariableRetrievalMode>(), nb::arg("retrievalMode_"))
      .def(nb::init<CommGroup, VariableRetrievalMode>(), nb::arg("sharedVariableDomain_"), nb::arg("retrievalMode_"))
      .def(nb::init<unsigned, unsigned, VariableRetrievalMode>(), nb::arg("stride"), nb::arg("groupSize"),
           nb::arg("mode"))
      .def("numReplicasReturningVariable", &VariableSettings::numReplicasReturningVariable, nb::arg("replicaCount"))
      .def("getGroupCount", &VariableSettings::getGroupCount, nb::arg("replicaCount"))
      .def("getRealGroupSize", &VariableSettings::getRealGroupSize, nb::arg("replicaCount"))
      .def("getGroupRepresentative", &VariableSettings::getGroupRepresentative, nb::arg("group"),
           nb::arg("replicaCount") = 0)
      .def("getSharedVariableDomain", &VariableSettings::getSharedVariableDomain)
      .def("getReplicaGrouping", &VariableSettings::getReplicaGrouping, nb::arg("numReplicas"))
      .def("isUsingCommGroup", &VariableSettings::isUsingCommGroup)
      .def("getCommGroupType", &VariableSettings::getCommGroupType)
      .def("getStride", &VariableSettings::getStride)
      .def("getGroupSize", &VariableSettings::getGroupSize)
      .def("getRetrievalMode", &VariableSettings::getRetrievalMode)
      .def("shapeOnReplica", &VariableSettings::shapeOnReplica, nb::arg("full_shape"), nb::arg("replicaCount"),
           nb::arg("name"))
      .def("shapeOnHost", &VariableSettings::shapeOnHost, nb::arg("replica_shape"), nb::arg("replicaCount"))
      .def("groups", &VariableSettings::groups, nb::arg("replicaCount"))
      .def("verify", &VariableSettings::verify)
      .def(
          "__eq__", [](const VariableSettings &a, const VariableSettings &b) { return a == b; }, nb::is_operator());
}

}  // namespace popart::python

// TensorInfo, InputShapeInfo and the reading of NumPy arrays.
#include <popart/inputshapeinfo.hpp>
#include <popart/tensorinfo.hpp>

#include "bindings.hpp"
#include "host_array.hpp"

namespace popart::python {

void bindTensorInfo(nb::module_ &m) {
  nb::class_<TensorInfo>(m, "_TensorInfoCore")
      .def(
          "__init__", [](TensorInfo *self, DataType type, const Shape &shape) { new (self) TensorInfo(type, shape); },
          nb::arg("dataType"), nb::arg("shape"))
      .def(
          "__init__",
          [](TensorInfo *self, const std::string &type, const Shape &shape) { new (self) TensorInfo(type, shape); },
          nb::arg("dataType"), nb::arg("shape"))
      .def(
          "__init__",
          [](TensorInfo *self, DataType type, const Shape &shape, const Shape &metaShape) {
            new (self) TensorInfo(type, shape, metaShape);
          },
          nb::arg("dataType"), nb::arg("shape"), nb::arg("metaShape"))
      .def("set", nb::overload_cast<DataType>(&TensorInfo::set), nb::arg("dataType"))
      .def("set", nb::overload_cast<DataType, Shape>(&TensorInfo::set), nb::arg("dataType"), nb::arg("shape"))
      .def("set", nb::overload_cast<DataType, Shape, Shape>(&TensorInfo::set), nb::arg("dataType"), nb::arg("shape"),
           nb::arg("metaShape"))
      .def("shape", &TensorInfo::shape)
      .def("metaShape", &TensorInfo::metaShape)
      .def("rank", &TensorInfo::rank)
      .def("nelms", &TensorInfo::nelms)
      .def("nbytes", &TensorInfo::nbytes)
      .def("dim", &TensorInfo::dim, nb::arg("index"))
      .def("strides", [](const TensorInfo &info) { return info.strides(); })
      .def(
          "strides", [](const TensorInfo &info, const Shape &shape) { return info.strides(shape); }, nb::arg("shape"))
      .def("dataType", &TensorInfo::dataType)
      .def("data_type", &TensorInfo::data_type)
      .def("data_type_lcase", &TensorInfo::data_type_lcase)
      .def(
          "__eq__", [](const TensorInfo &a, const TensorInfo &b) { return a == b; }, nb::is_operator())
      .def(
          "__ne__", [](const TensorInfo &a, const TensorInfo &b) { return a != b; }, nb::is_operator())
      .def("__hash__", [](const TensorInfo &info) { return std::hash<std::string>()(info.str()); })
      .def("__repr__", [](const TensorInfo &info) { return "TensorInfo(" + info.str() + ")"; });

  nb::class_<InputShapeInfo>(m, "InputShapeInfo", "Types and shapes of inputs that a model leaves open.")
      .def(nb::init<>(), "An empty list.")
      .def("add", &InputShapeInfo::add, nb::arg("id"), nb::arg("info"),
           "Say what an input is.\n"
           "\n"
           "Args:\n"
           "    id: The input.\n"
           "    info: TensorInfo.")
      .def("get", &InputShapeInfo::get, nb::arg("id"),
           "What was said.\n"
           "\n"
           "Args:\n"
           "    id: The input.")
      .def("has", &InputShapeInfo::has, nb::arg("id"),
           "Whether something was said.\n"
           "\n"
           "Args:\n"
           "    id: The input.");

  m.def(
      "getTensorInfo",
      [](nb::handle array) {
        const HostArray view(array, HostArray::Types::Documented);
        return view.info();
      },
      nb::arg("array"),
      "Type and shape of a NumPy array.\n"
      "\n"
      "Args:\n"
      "    array: The array.\n"
      "\n"
      "Raises:\n"
      "    popart_exception: An element type without counterpart, such as float64.");
}

}  // namespace popart::python

// See spatial.hpp.
#include "backends/cpu/spatial.hpp"

namespace popart::cpu {

using executable::Layout;
using executable::OperandDesc;

ChannelRows channelRows(const Shape &shape) {
  ChannelRows r;
  if (!shape.empty()) r.n = shape[0];
  if (shape.size() > 1) r.channels = shape[1];
  for (size_t i = 2; i < shape.size(); ++i) r.places *= shape[i];
  return r;
}

bool isChannelsLast(const OperandDesc &o) {
  if (o.layout.kind == Layout::Kind::ChannelsLast) return true;
  if (o.layout.kind != Layout::Kind::Plain) return false;
  const ChannelRows r = channelRows(o.info.shape());
  return r.channels == 1 || r.places == 1 || o.info.nelms() == 0;
}

bool requireChannelsLast(const OperandDesc &o, std::string &reason) {
  if (o.info.dataType() != DataType::FLOAT)
    return reason = "it takes FLOAT only: got " + toText(o.info.dataType()), false;
  if (isChannelsLast(o)) return true;
  reason = "it takes channels last only: got " + o.layout.str();
  return false;
}

bool requirePlainFloats(const OperandDesc &o, std::string &reason) {
  if (!o.connected) return true;
  if (o.info.dataType() == DataType::FLOAT && o.layout.kind == Layout::Kind::Plain) return true;
  reason = "it takes plain FLOAT parameters only: got " + toText(o.info.dataType()) + " " + o.layout.str();
  return false;
}

Spatial spatialOf(const Shape &shape) {
  Spatial s = {1, 1, 1};
  for (size_t i = 2; i < shape.size(); ++i) s[3 - (shape.size() - i)] = shape[i];
  return s;
}

}  // namespace popart::cpu

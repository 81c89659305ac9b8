// See spatial.hpp.
#include "backends/cpu/spatial.hpp"

#include "executable/channel_slice.hpp"

namespace popart::cpu {

using executable::OperandDesc;

ChannelRows channelRows(const Shape &shape) {
  ChannelRows r;
  if (!shape.empty()) r.n = shape[0];
  if (shape.size() > 1) r.channels = shape[1];
  for (size_t i = 2; i < shape.size(); ++i) r.places *= shape[i];
  return r;
}

bool isChannelsLast(const OperandDesc &o) {
  if (o.layout == executable::channelsLast()) return true;
  if (o.layout != nullptr) return false;
  return executable::channelsLast()->isPlain(o.info);
}

bool requireChannelsLast(const OperandDesc &o, std::string &reason, DataType type) {
  if (o.info.dataType() != type)
    return reason = "it takes " + toText(type) + " only: got " + toText(o.info.dataType()), false;
  if (isChannelsLast(o)) return true;
  reason = "it takes channels last only: got " + executable::layoutName(o.layout);
  return false;
}

int64_t strideOfSlice(const OperandDesc &o) { return executable::channelsOfWhole(o.layout); }

int64_t pixelStride(const OperandDesc &o) {
  return isChannelsLast(o) ? channelRows(o.info.shape()).channels : strideOfSlice(o);
}

bool requirePixels(const OperandDesc &o, std::string &reason, DataType type) {
  return (o.info.dataType() == type && strideOfSlice(o) > 0) || requireChannelsLast(o, reason, type);
}

bool requirePlain(const OperandDesc &o, DataType type, std::string &reason) {
  if (!o.connected) return true;
  if (o.info.dataType() == type && o.layout == nullptr) return true;
  reason = "it takes plain " + toText(type) + " parameters only: got " + toText(o.info.dataType()) + " " +
           executable::layoutName(o.layout);
  return false;
}

bool requirePlainFloats(const OperandDesc &o, std::string &reason) { return requirePlain(o, DataType::FLOAT, reason); }

Spatial spatialOf(const Shape &shape) {
  Spatial s = {1, 1, 1};
  for (size_t i = 2; i < shape.size(); ++i) s[3 - (shape.size() - i)] = shape[i];
  return s;
}

}  // namespace popart::cpu

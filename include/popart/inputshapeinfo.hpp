// InputShapeInfo: types and shapes of graph inputs that a model leaves open.
#pragma once
#include <functional>
#include <map>
#include <vector>

#include <popart/error.hpp>
#include <popart/tensorinfo.hpp>

namespace popart {

class InputShapeInfo {
 public:
  InputShapeInfo() = default;
  // Replaces an entry of the same id.
  void add(const TensorId &id, const TensorInfo &info) { infos_[id] = info; }
  // Throws popart::error if there is no entry for `id`.
  const TensorInfo &get(const TensorId &id) const {
    auto it = infos_.find(id);
    if (it == infos_.end())
      throw error("InputShapeInfo: no entry for tensor '{}'. Add one with add(id, TensorInfo)", id);
    return it->second;
  }
  bool has(const TensorId &id) const { return infos_.count(id) != 0; }
  std::vector<TensorId> getAllTensorIds() const {
    std::vector<TensorId> ids;
    for (const auto &entry : infos_) ids.push_back(entry.first);
    return ids;
  }
  const std::map<TensorId, TensorInfo> &getInfos() const { return infos_; }
  bool operator==(const InputShapeInfo &) const = default;

 private:
  std::map<TensorId, TensorInfo> infos_;
};

}  // namespace popart

template <>
struct std::hash<popart::InputShapeInfo> {
  std::size_t operator()(const popart::InputShapeInfo &shapes) const;
};

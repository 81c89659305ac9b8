// RareMap: a std::map with names as keys, for objects of which many exist while few have entries. An empty one has the
// size of a pointer.
#pragma once
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace popart {

// The functions are those of std::map, and at() throws std::out_of_range as there. Entries change only by operator[],
// insert, emplace and erase.
template <class T>
class RareMap {
 public:
  using Map = std::map<std::string, T>;  // to which it converts

  RareMap() = default;
  RareMap(Map map) : map_(map.empty() ? nullptr : std::make_unique<Map>(std::move(map))) {}
  RareMap(std::initializer_list<typename Map::value_type> entries) : RareMap(Map(entries)) {}
  RareMap(const RareMap &other) : map_(other.empty() ? nullptr : std::make_unique<Map>(*other.map_)) {}
  RareMap(RareMap &&) noexcept = default;
  // The entries of another map, which may be this one.
  RareMap &operator=(RareMap other) noexcept {
    map_ = std::move(other.map_);
    return *this;
  }
  ~RareMap() = default;

  operator const Map &() const { return get(); }
  bool empty() const { return !map_ || map_->empty(); }
  size_t size() const { return get().size(); }
  typename Map::const_iterator begin() const { return get().begin(); }
  typename Map::const_iterator end() const { return get().end(); }
  typename Map::const_iterator find(const std::string &name) const { return get().find(name); }
  bool contains(const std::string &name) const { return get().contains(name); }
  size_t count(const std::string &name) const { return get().count(name); }
  const T &at(const std::string &name) const { return get().at(name); }
  bool operator==(const RareMap &other) const { return get() == other.get(); }

  T &operator[](const std::string &name) { return made()[name]; }
  void insert(typename Map::value_type entry) { made().insert(std::move(entry)); }
  void emplace(std::string name, T value) { made().emplace(std::move(name), std::move(value)); }
  size_t erase(const std::string &name) { return map_ ? map_->erase(name) : 0; }

 private:
  const Map &get() const {
    static const Map kEmpty;
    return map_ ? *map_ : kEmpty;
  }
  Map &made() {
    if (!map_) map_ = std::make_unique<Map>();
    return *map_;
  }
  std::unique_ptr<Map> map_;
};

}  // namespace popart

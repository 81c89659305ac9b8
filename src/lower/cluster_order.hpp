// ClusterOrder: a topological order of clusters of ops that is maintained while clusters merge. To merge a cluster with
// one of its readers, everything that the reader depends on is moved before both. Every path between two clusters goes
// through clusters that are between them in the order:
//   a p b q, with p → b      becomes      p (a b) q
#pragma once
#include <cstdint>
#include <map>
#include <vector>

namespace popart::lower {

class ClusterOrder {
 public:
  explicit ClusterOrder(int count);  // clusters 0 … count - 1, in order
  bool isBefore(int a, int b) const { return labels_[a] < labels_[b]; }
  // Moves `clusters` directly before `other`, in their current order.
  void moveBefore(std::vector<int> clusters, int other);
  void remove(int cluster) { byLabel_.erase(labels_[cluster]); }

 private:
  void spread();  // equal distances between all labels
  std::vector<int64_t> labels_;
  std::map<int64_t, int> byLabel_;
};

}  // namespace popart::lower

// A C++ program whose processes find their place in a job and exchange arrays of their hosts:
//   poprun --num-replicas 2 --num-instances 2 build/examples/processes     (or mpirun -n 2)
// Without a launcher it is a job of one instance, which needs no MPI.
#include <iostream>
#include <numeric>
#include <vector>

#include <popdist/backend.hpp>
#include <popdist/collectives.hpp>
#include <popdist/context.hpp>

int main() {
  popdist::init();
  const int instance = popdist::getInstanceIndex(), instances = popdist::getNumInstances();

  // Each instance has a part of the numbers 1 to 12, and the loss of its part.
  std::vector<int> part(static_cast<size_t>(12 / instances));
  std::iota(part.begin(), part.end(), 1 + instance * 12 / instances);
  const std::vector<double> loss{static_cast<double>(std::accumulate(part.begin(), part.end(), 0))};

  const std::vector<int> all = popdist::allGather(part);
  const double mean = popdist::allReduce(loss, popdist::Reduction::Mean, "loss").front();
  const std::vector<float> weights = popdist::broadcast(std::vector<float>(3, 1.5f + static_cast<float>(instance)));

  popdist::execute_on_instances({0}, [&] {
    std::cout << all.size() << " numbers from " << all.front() << " to " << all.back() << ", mean loss " << mean
              << ", weights " << weights.front() << '\n';
  });
  popdist::synchronize();
}

// Random small graphs as plans: which ops in which order on which values. A plan is made once and instantiated for
// several element types; its own shape inference is that of the operator rows.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <popart/ir.hpp>

#include "mutate.hpp"

namespace popart::fuzz {

struct Plan {
  struct Step {
    std::string type;
    Attributes attributes;
    std::vector<int> inputs;  // values
    int outputs = 1;
  };
  struct Value {
    Shape shape;
    int step = -1;       // -1: an input of the graph, or a constant
    TensorData indices;  // not empty: a constant of integers
  };
  std::vector<Value> values;
  std::vector<Step> steps;   // step s makes the next `outputs` values
  std::string text() const;  // types of the steps
};

// The rows that plans are made of, for the table of what was covered.
std::vector<std::string> plannedTypes();

// A graph of about `size` ops. `differentiable`: every op has a gradient.
Plan randomPlan(Random &random, int size, bool differentiable);

struct Instance {
  std::unique_ptr<Ir> ir;
  std::vector<TensorIndex> values;   // by value number
  std::vector<TensorIndex> inputs;   // streams
  std::vector<TensorIndex> results;  // floating values that no op reads
};

// The graph with `type` as element type of every floating value; results are marked as graph outputs. Throws
// popart::error when a row refuses what the plan holds, which is a fault of one of the two.
Instance instantiate(const Plan &plan, DataType type);

}  // namespace popart::fuzz

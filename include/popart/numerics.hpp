// NumericsReport: how much the weights of two training runs differ. A and B are two runs, 0 their models before
// training and 1 their models after it.
#pragma once
#include <map>
#include <string>

#include <popart/names.hpp>
#include <popart/tensordata.hpp>

namespace popart {
namespace numerics {

// Reads the four models once; values are compared in double precision.
class NumericsReport {
 public:
  // Names of model files or bytes of models, all with the same initializers. Throws popart::error otherwise.
  NumericsReport(const std::string &A0, const std::string &A1, const std::string &B0, const std::string &B1);

  // |dA - dB|² / (|dA| |dB| + 1e-8) for each floating-point initializer, where d is end minus start.
  std::map<TensorId, float> getRelativeErrors() const;
  // One line: |dA|, |dB|, |dA - dB| and the relative error. Throws popart::error for an unknown id.
  std::string report(const TensorId &id) const;
  std::string fullReport() const;  // every line, the largest relative error first

 private:
  struct Norms {
    double a = 0, b = 0, difference = 0;  // squared lengths of dA, dB and dA - dB
    double relativeError() const;
  };
  std::map<TensorId, Norms> norms_;
};

}  // namespace numerics
using numerics::NumericsReport;
}  // namespace popart

// The values that variables begin with, compared over the processes of a job. Nothing broadcasts them by itself, so
// that different ones are most often a mistake: a seed that was left out, another file.
#pragma once
#include <map>
#include <string>

#include <popart/tensordata.hpp>

#include "session/job.hpp"

namespace popart::session {

// Warns of the first variable with other values, type or shape than in most processes, by name, and names one of these
// processes (all processes call it). `remedy`: the sentence that ends the warning. Throws as Transport::gather.
void compareFirstValues(Job &job, const std::string &session, const std::map<TensorId, TensorData> &values,
                        const std::string &remedy);

}  // namespace popart::session

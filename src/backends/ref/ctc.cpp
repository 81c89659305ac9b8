// Reference kernels of connectionist temporal classification: sums over all alignments, of logarithms, in double.
// Lengths and labels out of range are reported; a sample with one counts as a sample without steps.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "backends/ref/element.hpp"
#include "backends/ref/families.hpp"
#include "ops/loss/reduction.hpp"

namespace popart::ref {
namespace {

using ops::LossReduction;
constexpr double kNever = -std::numeric_limits<double>::infinity();

double logSum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  const double most = std::max(a, b);
  return most == kNever ? kNever : most + std::log1p(std::exp(std::min(a, b) - most));
}

// The value at `i` of input `operand` if it is in [0, most]. Otherwise reports it and returns -1.
int64_t numberAt(const Context &c, int operand, int64_t i, int64_t most) {
  const int64_t value = loadInt(c.in[operand], i);
  if (value >= 0 && value <= most) return value;
  const bool isLabel = operand == 1;
  if (!isLabel || !c.op.hasAttr(ops::kIgnoreOutOfRange))
    c.report(executable::FailureKind::Label, operand, i, value, 0, most);
  return -1;
}

// The states of one sample: its targets with blanks around them; alpha and beta by step and state.
struct Lattice {
  const View &probs;
  int64_t sample, batch, classes, steps = 0;
  std::vector<int64_t> labels;  // by state
  int64_t targets = 0;
  std::vector<double> alpha, beta;  // beta counts only the steps after its own

  Lattice(const Context &c, int64_t n) : probs(c.in[0]), sample(n), batch(probs.shape()[1]), classes(probs.shape()[2]) {
    const int64_t blank = c.op.attrInt("blank"), width = c.in[1].shape()[1];
    const int64_t given = numberAt(c, 2, n, probs.shape()[0]), count = numberAt(c, 3, n, width);
    if (given < 0 || count < 0) return;
    labels.push_back(blank);
    for (int64_t s = 0; s < count; ++s) {
      const int64_t label = numberAt(c, 1, n * width + s, classes - 1);
      if (label < 0) return;
      labels.insert(labels.end(), {label, blank});
    }
    steps = given;
    targets = count;
    fill();
  }

  int64_t states() const { return static_cast<int64_t>(labels.size()); }
  double prob(int64_t t, int64_t s) const { return load(probs, (t * batch + sample) * classes + labels[s]); }
  // Whether a path may go from state s - 2 to state s, without the blank between them.
  bool skips(int64_t s) const { return s >= 2 && labels[s] != labels[s - 2] && s % 2 == 1; }

  void fill() {
    alpha.assign(static_cast<size_t>(steps * states()), kNever);
    beta = alpha;
    for (int64_t t = 0; t < steps; ++t)
      for (int64_t s = 0; s < states(); ++s) {
        double sum = t == 0 ? (s < 2 ? 0.0 : kNever) : alpha[(t - 1) * states() + s];
        if (t > 0 && s > 0) sum = logSum(sum, alpha[(t - 1) * states() + s - 1]);
        if (t > 0 && skips(s)) sum = logSum(sum, alpha[(t - 1) * states() + s - 2]);
        alpha[t * states() + s] = sum + prob(t, s);
      }
    for (int64_t t = steps; t-- > 0;)
      for (int64_t s = 0; s < states(); ++s) {
        const bool last = t == steps - 1;
        const auto after = [&](int64_t to) { return beta[(t + 1) * states() + to] + prob(t + 1, to); };
        double sum = last ? (s + 2 >= states() ? 0.0 : kNever) : after(s);
        if (!last && s + 1 < states()) sum = logSum(sum, after(s + 1));
        if (!last && s + 2 < states() && skips(s + 2)) sum = logSum(sum, after(s + 2));
        beta[t * states() + s] = sum;
      }
  }

  // The logarithm of the probability of the targets.
  double likelihood() const {
    if (steps == 0) return targets == 0 ? 0 : kNever;
    const double *last = &alpha[(steps - 1) * states()];
    return states() > 1 ? logSum(last[states() - 1], last[states() - 2]) : last[0];
  }
};

// Factor of the loss of a sample.
double factorOf(const Context &c, const Lattice &lattice) {
  if (ops::lossReduction(c.op.attrString("reduction")) != LossReduction::Mean) return 1;
  return 1.0 / static_cast<double>(std::max<int64_t>(lattice.targets, 1) * lattice.batch);
}

void ctc(const Context &c) {
  const bool zeroes = c.op.attrInt("zeroInfinity") != 0;
  const bool each = ops::lossReduction(c.op.attrString("reduction")) == LossReduction::None;
  double total = 0;
  for (int64_t n = 0; n < c.in[0].shape()[1]; ++n) {
    const Lattice lattice(c, n);
    double loss = -lattice.likelihood();
    if (zeroes && std::isinf(loss)) loss = 0;
    loss *= factorOf(c, lattice);
    total += loss;
    if (each) store(c.out[0], n, loss);
  }
  if (!each) store(c.out[0], 0, total);
}

void ctcGradient(const Context &c) {
  const Shape &shape = c.in[0].shape();
  const bool zeroes = c.op.attrInt("zeroInfinity") != 0, each = c.in[4].size() != 1 || c.in[4].info.rank() == 1;
  for (int64_t i = 0; i < c.out[0].size(); ++i) store(c.out[0], i, 0);
  for (int64_t n = 0; n < shape[1]; ++n) {
    const Lattice lattice(c, n);
    const double likelihood = lattice.likelihood(), factor = factorOf(c, lattice) * load(c.in[4], each ? n : 0);
    if (std::isinf(likelihood) && zeroes) continue;
    for (int64_t t = 0; t < lattice.steps; ++t) {
      std::vector<double> expected(static_cast<size_t>(shape[2]), 0.0);
      for (int64_t s = 0; s < lattice.states(); ++s) {
        const int64_t at = t * lattice.states() + s;
        expected[lattice.labels[s]] += std::exp(lattice.alpha[at] + lattice.beta[at] - likelihood);
      }
      for (int64_t k = 0; k < shape[2]; ++k) store(c.out[0], (t * shape[1] + n) * shape[2] + k, -factor * expected[k]);
    }
  }
}

// ---- search

using Labels = std::vector<uint32_t>;
// Logarithms of a prefix's probability: over the alignments that end in a blank, and over those that end in its last
// label.
struct Ends {
  double blank = kNever, label = kNever;
  double both() const { return logSum(blank, label); }
};
using Beam = std::vector<std::pair<Labels, Ends>>;

// The `width` most probable prefixes in decreasing order; equally probable ones in the order of their labels.
Beam bestOf(const std::map<Labels, Ends> &prefixes, int64_t width) {
  Beam beam(prefixes.begin(), prefixes.end());
  std::ranges::stable_sort(beam, [](const auto &a, const auto &b) { return a.second.both() > b.second.both(); });
  if (static_cast<int64_t>(beam.size()) > width) beam.resize(static_cast<size_t>(width));
  return beam;
}

Beam search(const Context &c, int64_t sample, int64_t steps) {
  const Shape &shape = c.in[0].shape();
  const int64_t blank = c.op.attrInt("blank");
  Beam beam = {{Labels(), Ends{0, kNever}}};
  for (int64_t t = 0; t < steps; ++t) {
    std::map<Labels, Ends> next;
    for (const auto &[labels, ends] : beam)
      for (int64_t k = 0; k < shape[2]; ++k) {
        const double p = load(c.in[0], (t * shape[1] + sample) * shape[2] + k);
        if (k == blank) {
          Ends &same = next[labels];
          same.blank = logSum(same.blank, ends.both() + p);
          continue;
        }
        const bool repeats = !labels.empty() && labels.back() == static_cast<uint32_t>(k);
        if (repeats) {
          Ends &same = next[labels];
          same.label = logSum(same.label, ends.label + p);
        }
        Labels longer = labels;
        longer.push_back(static_cast<uint32_t>(k));
        Ends &after = next[longer];
        after.label = logSum(after.label, (repeats ? ends.blank : ends.both()) + p);
      }
    beam = bestOf(next, c.op.attrInt("beam_width"));
  }
  return beam;
}

// Positions after the end of a sequence hold blanks. If fewer paths exist than requested, the others hold only blanks
// and have probability 0.
void beamSearch(const Context &c) {
  const Shape &shape = c.in[0].shape();
  const int64_t paths = c.op.attrInt("top_paths");
  for (int64_t n = 0; n < shape[1]; ++n) {
    const Beam beam = search(c, n, std::max<int64_t>(numberAt(c, 1, n, shape[0]), 0));
    for (int64_t p = 0; p < paths; ++p) {
      const bool found = p < static_cast<int64_t>(beam.size()) && beam[p].second.both() != kNever;
      const Labels labels = found ? beam[p].first : Labels();
      const int64_t row = n * paths + p;
      store(c.out[0], row, found ? beam[p].second.both() : kNever);
      c.out[1].as<uint32_t>()[row] = static_cast<uint32_t>(labels.size());
      for (int64_t t = 0; t < shape[0]; ++t)
        c.out[2].as<uint32_t>()[row * shape[0] + t] =
            t < static_cast<int64_t>(labels.size()) ? labels[t] : static_cast<uint32_t>(c.op.attrInt("blank"));
    }
  }
}

constexpr Entry kCtcKernels[] = {{"Ctc", ctc}, {"CtcGrad", ctcGradient}, {"CtcBeamSearchDecoder", beamSearch}};

}  // namespace

std::span<const Entry> ctcKernels() { return kCtcKernels; }

}  // namespace popart::ref

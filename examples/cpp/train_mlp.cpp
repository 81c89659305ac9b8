// Trains a classifier from an ONNX file and saves it: train_mlp MODEL.onnx TRAINED.onnx [STEPS]
//
// The model reads "images", float (N, F), and gives "probabilities", (N, C). The program adds the loss, feeds points
// around C random centres with StepIO and prints the loss and the share of right answers.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <vector>

#include <popart/dataflow.hpp>
#include <popart/devicemanager.hpp>
#include <popart/inputshapeinfo.hpp>
#include <popart/ndarraywrapper.hpp>
#include <popart/session.hpp>
#include <popart/sgd.hpp>
#include <popart/stepio.hpp>

namespace {

constexpr int64_t kBatch = 16;
constexpr int64_t kFeatures = 20;
constexpr int64_t kClasses = 4;
constexpr int kBatchesPerStep = 10;

// Points around random centres, and which centre each belongs to.
class Points {
 public:
  Points() : random_(7), centres_(kClasses * kFeatures) {
    for (float &value : centres_) value = normal_(random_);
  }
  void fill(std::vector<float> &images, std::vector<int32_t> &labels) {
    for (size_t i = 0; i < labels.size(); ++i) {
      labels[i] = static_cast<int32_t>(random_() % kClasses);
      for (int64_t f = 0; f < kFeatures; ++f)
        images[i * kFeatures + f] = centres_[labels[i] * kFeatures + f] + normal_(random_);
    }
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<float> normal_;
  std::vector<float> centres_;
};

// Share of rows whose largest probability is that of the label.
double accuracy(const std::vector<float> &probabilities, const std::vector<int32_t> &labels) {
  size_t hits = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const float *row = probabilities.data() + i * kClasses;
    hits += std::max_element(row, row + kClasses) - row == labels[i];
  }
  return static_cast<double>(hits) / static_cast<double>(labels.size());
}

void train(const char *modelFile, const char *trainedFile, int steps) {
  popart::InputShapeInfo shapes;
  shapes.add("labels", popart::TensorInfo(popart::DataType::INT32, {kBatch}));
  const popart::LossObject loss{"Nll", {"probabilities", "labels"}, "loss", 1.0f, popart::ReductionType::Mean};
  const popart::SGD optimizer({{"defaultLearningRate", {0.1f, true}}, {"defaultMomentum", {0.9f, true}}});
  auto session = popart::TrainingSession::createFromOnnxModel(
      modelFile,
      popart::DataFlow(kBatchesPerStep,
                       {{"loss", popart::AnchorReturnType("All")}, {"probabilities", popart::AnchorReturnType("All")}}),
      std::vector<popart::LossObject>{loss}, optimizer, popart::DeviceManager::createDeviceManager().createCpuDevice(),
      shapes);
  session->prepareDevice();
  session->weightsFromHost();

  std::vector<float> images(kBatchesPerStep * kBatch * kFeatures);
  std::vector<int32_t> labels(kBatchesPerStep * kBatch);
  std::vector<float> losses(kBatchesPerStep);
  std::vector<float> probabilities(kBatchesPerStep * kBatch * kClasses);
  popart::NDArrayWrapper<float> imageArray(images.data(), {kBatchesPerStep, kBatch, kFeatures});
  popart::NDArrayWrapper<int32_t> labelArray(labels.data(), {kBatchesPerStep, kBatch});
  popart::NDArrayWrapper<float> lossArray(losses.data(), {kBatchesPerStep});
  popart::NDArrayWrapper<float> probabilityArray(probabilities.data(), {kBatchesPerStep, kBatch, kClasses});
  Points points;
  for (int step = 0; step < steps; ++step) {
    points.fill(images, labels);
    popart::StepIO stepIO({{"images", imageArray}, {"labels", labelArray}},
                          {{"loss", lossArray}, {"probabilities", probabilityArray}});
    session->run(stepIO);
    std::printf("step %d: loss %.4f, accuracy %.3f\n", step, losses.back(), accuracy(probabilities, labels));
  }
  session->modelToHost(trainedFile);
}

}  // namespace

int main(int argc, char **argv) try {
  if (argc < 3) {
    std::fprintf(stderr, "usage: train_mlp MODEL.onnx TRAINED.onnx [STEPS]\n");
    return EXIT_FAILURE;
  }
  train(argv[1], argv[2], argc > 3 ? std::atoi(argv[3]) : 10);
  return EXIT_SUCCESS;
} catch (const std::exception &e) {
  std::fprintf(stderr, "train_mlp: %s\n", e.what());
  return EXIT_FAILURE;
}

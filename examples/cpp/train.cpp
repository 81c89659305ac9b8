// Trains an ONNX classifier on raw files and asks it again: train MODEL.onnx IMAGES.f32 LABELS.i32 TRAINED.onnx
//
// The model reads "images", float (16, F), and gives "probabilities", (16, C). The files hold 10 batches.
#include <cstdio>
#include <fstream>
#include <iterator>

#include <popart/popart.hpp>

template <class T>
std::vector<T> readFile(const char *name) {
  std::ifstream file(name, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const T *values = reinterpret_cast<const T *>(bytes.data());
  return {values, values + bytes.size() / sizeof(T)};
}

int main(int argc, char **argv) try {
  if (argc != 5) throw popart::error("usage: train MODEL.onnx IMAGES.f32 LABELS.i32 TRAINED.onnx");
  const auto images = readFile<float>(argv[2]);
  const auto labels = readFile<int32_t>(argv[3]);
  const popart::SGD optimizer({{"defaultLearningRate", {0.1f, true}}, {"defaultMomentum", {0.9f, true}}});
  popart::Trainer trainer(argv[1], {.loss = popart::nllLoss("probabilities", "labels"), .batchesPerStep = 10},
                          optimizer);
  for (int step = 0; step < 8; ++step)
    std::printf("loss %.4f\n", trainer.step({{"images", images}, {"labels", labels}}));
  trainer.save(argv[4]);

  popart::Predictor predictor(argv[4], {"probabilities"});
  std::vector<float> probabilities(labels.size() / 10 * 4);
  predictor.run({{"images", std::span(images).first(images.size() / 10)}}, {{"probabilities", probabilities}});
  std::printf("first row %.4f %.4f %.4f %.4f\n", probabilities[0], probabilities[1], probabilities[2],
              probabilities[3]);
  return 0;
} catch (const std::exception &e) {
  std::fprintf(stderr, "train: %s\n", e.what());
  return 1;
}

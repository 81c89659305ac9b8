// Operators over boxes of maps: what RoiAlign and MaxRoiPool share. Forward tasks are pairs of a box and a channel, box
// by box; gradient tasks are planes (channels of an image), so that no two add to one element, in the order of the
// boxes. What depends on a box alone is found once for all channels of a task.
//
// A way of pooling is a class W with
//   BoxForm form;
//   int64_t scratchBytes() const;
//   int64_t image(const KernelArgs &, int64_t box, bool reports) const;      the map of a box, -1 when out of range
//   void enter(const KernelArgs &, int64_t box) const;                       puts what its planes share into scratch
//   void show(const KernelArgs &, int64_t plane, float *y) const;            the bins of a plane
//   void spread(const KernelArgs &, int64_t plane, const float *g, float *dx) const;   their gradient, added to dx
// where scratch is args.scratch.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "backends/cpu/cpu.hpp"
#include "backends/cpu/kernels/halves.hpp"
#include "backends/cpu/task_count.hpp"

namespace popart::cpu {

// Maps (images, channels, height, width) and `boxes` boxes of rows x columns bins. Input numbers; -1: absent.
struct BoxForm {
  int64_t images, channels, height, width, boxes, rows, columns;
  DataType type, boxType;  // FLOAT, FLOAT16 or BFLOAT16; boxes may also be DOUBLE
  int maps, at;            // inputs: the maps, the boxes

  int64_t plane() const { return height * width; }
  int64_t bins() const { return rows * columns; }
  // Number i of the boxes.
  double number(const executable::KernelArgs &args, int64_t i) const noexcept {
    const void *boxes = args.in[at];
    return boxType == DataType::DOUBLE ? static_cast<const double *>(boxes)[i]
                                       : static_cast<double>(numberAt(boxes, i, boxType));
  }
};

// Arrays that follow each other in memory, each aligned to a cache line. Without memory, only computes the bytes that
// they need.
class Arrays {
 public:
  explicit Arrays(void *memory = nullptr) : memory_(static_cast<char *>(memory)) {}
  template <class T>
  T *next(int64_t count) {
    char *array = memory_ ? memory_ + bytes_ : nullptr;
    bytes_ += (count * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
    return reinterpret_cast<T *>(array);
  }
  int64_t bytes() const { return bytes_; }

 private:
  char *memory_;
  int64_t bytes_ = 0;
};

// At most four tasks for each thread, because each task repeats the work that its boxes share.
inline int64_t boxTasks(int64_t work, int64_t pieces, int threads) {
  constexpr int64_t kLeast = 1 << 12;
  return taskCount(work, kLeast, std::min<int64_t>(pieces, std::max(16, 4 * threads)));
}

template <class W>
class BoxKernel final : public executable::HostKernel {
 public:
  BoxKernel(W way, int threads) : way_(std::move(way)), each_(std::max<int64_t>(1, way_.form.channels)) {
    const BoxForm &f = way_.form;
    pieces_ = f.boxes * each_;
    tasks_ = boxTasks(f.boxes * f.channels * f.bins(), pieces_, threads);
  }
  std::string name() const override { return W::kName; }
  int tasks() const override { return static_cast<int>(tasks_); }
  int64_t scratchBytes() const override { return way_.scratchBytes() + spareBytes(); }

  void run(const executable::KernelArgs &args, int task) const noexcept override {
    const BoxForm &f = way_.form;
    auto *spare = reinterpret_cast<float *>(static_cast<char *>(args.scratch) + way_.scratchBytes());
    for (int64_t piece = pieces_ * task / tasks_, end = pieces_ * (task + 1) / tasks_; piece < end;) {
      const int64_t box = piece / each_, first = piece % each_, count = std::min(each_ - first, end - piece);
      const int64_t image = way_.image(args, box, true);
      if (image >= 0) way_.enter(args, box);
      for (int64_t c = first; c < std::min(first + count, f.channels); ++c) {
        const int64_t at = (box * f.channels + c) * f.bins();
        float *y = placeAt(args.out[0], at, f.type, spare);
        if (image >= 0)
          way_.show(args, image * f.channels + c, y);
        else
          std::fill_n(y, f.bins(), 0.0f);
        keepFloats(y, args.out[0], at, f.bins(), f.type);
      }
      piece += count;
    }
  }

 private:
  int64_t spareBytes() const { return isHalf(way_.form.type) ? way_.form.bins() * 4 : 0; }

  W way_;
  int64_t each_, pieces_ = 0, tasks_ = 1;
};

// Input 0 is the gradient of the bins.
template <class W>
class BoxGradientKernel final : public executable::HostKernel {
 public:
  BoxGradientKernel(W way, int threads) : way_(std::move(way)) {
    const BoxForm &f = way_.form;
    constexpr int64_t kCached = 1 << 17;  // elements
    planes_ = f.images * f.channels;
    atOnce_ = std::clamp<int64_t>(kCached / std::max<int64_t>(1, f.plane()), 1, std::max<int64_t>(1, f.channels));
    tasks_ = boxTasks(planes_ * f.plane() + f.boxes * f.channels * f.bins(), planes_, threads);
  }
  std::string name() const override { return std::string(W::kName) + " gradient"; }
  int tasks() const override { return static_cast<int>(tasks_); }
  int64_t scratchBytes() const override {
    const BoxForm &f = way_.form;
    return way_.scratchBytes() + (isHalf(f.type) ? (f.bins() + atOnce_ * f.plane()) * 4 : 0);
  }

  void run(const executable::KernelArgs &args, int task) const noexcept override {
    const BoxForm &f = way_.form;
    for (int64_t box = 0; task == 0 && box < f.boxes; ++box) way_.image(args, box, true);
    for (int64_t plane = planes_ * task / tasks_, end = planes_ * (task + 1) / tasks_; plane < end;) {
      const int64_t count = std::min({atOnce_, f.channels - plane % f.channels, end - plane});
      addPlanes(args, plane, count);
      plane += count;
    }
  }

 private:
  // Adds the gradients of `count` planes of one image.
  void addPlanes(const executable::KernelArgs &args, int64_t plane, int64_t count) const noexcept {
    const BoxForm &f = way_.form;
    auto *spare = reinterpret_cast<float *>(static_cast<char *>(args.scratch) + way_.scratchBytes());
    const int64_t image = plane / f.channels, at = plane * f.plane(), elements = count * f.plane();
    float *dx = placeAt(args.out[0], at, f.type, spare + f.bins());
    std::fill_n(dx, elements, 0.0f);
    for (int64_t box = 0; box < f.boxes; ++box) {
      if (way_.image(args, box, false) != image) continue;
      way_.enter(args, box);
      for (int64_t c = 0; c < count; ++c) {
        const int64_t bins = (box * f.channels + plane % f.channels + c) * f.bins();
        way_.spread(args, plane + c, floatsAt(args.in[0], bins, f.bins(), f.type, spare), dx + c * f.plane());
      }
    }
    keepFloats(dx, args.out[0], at, elements, f.type);
  }

  W way_;
  int64_t planes_ = 0, atOnce_ = 1, tasks_ = 1;
};

// Whether the kernels support the operands: plain, maps of FLOAT or 16-bit types; otherwise sets the reason.
inline bool takesBoxes(const executable::KernelRequest &request, const BoxForm &f, std::string &reason) {
  if (!allPlain(request, reason)) return false;
  if (f.type == DataType::DOUBLE) return reason = "float64 is computed by the reference", false;
  if (std::max(f.height, f.width) > std::numeric_limits<int32_t>::max() / 4)
    return reason = "a map is longer than 32-bit positions reach", false;
  return true;
}

}  // namespace popart::cpu

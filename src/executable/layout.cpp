// The families of layouts, and the one object per name.
#include "executable/layout.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include <popart/error.hpp>

namespace popart::executable {
namespace {

// Families register while the process starts, so the list is made by whoever comes first.
std::vector<const LayoutFamily *> &families() {
  static std::vector<const LayoutFamily *> list;
  return list;
}

std::string knownForms() {
  std::vector<std::string> forms;
  for (const LayoutFamily *family : families()) forms.push_back(family->form());
  std::sort(forms.begin(), forms.end());
  std::string text = "plain";
  for (const std::string &form : forms) text += ", " + form;
  return text;
}

}  // namespace

LayoutFamily::LayoutFamily(std::string form, Parse parse) : form_(std::move(form)), parse_(parse) {
  families().push_back(this);
}

const Layout *layoutNamed(std::string_view name) {
  if (name.empty() || name == "plain") return nullptr;
  static std::mutex mutex;
  // Never destroyed: executables that end with the process still point to them.
  static auto &known = *new std::map<std::string, std::unique_ptr<const Layout>, std::less<>>;
  const std::lock_guard lock(mutex);
  if (const auto it = known.find(name); it != known.end()) return it->second.get();
  for (const LayoutFamily *family : families())
    if (auto layout = family->parse()(name)) {
      const std::string canonical = layout->name();
      return known.try_emplace(canonical, std::move(layout)).first->second.get();
    }
  throw error("layout: unknown name: got '{}', expected one of {}", name, knownForms());
}

std::string layoutName(const Layout *layout) { return layout ? layout->name() : "plain"; }

int64_t storageBytes(const TensorInfo &info, const Layout *layout) {
  return layout ? layout->bytes(info) : info.nbytes();
}

void pack(const TensorInfo &info, const Layout *layout, const void *plain, void *stored) {
  if (layout) return layout->pack(info, plain, stored);
  if (info.nbytes() > 0) std::memcpy(stored, plain, static_cast<size_t>(info.nbytes()));
}

void unpack(const TensorInfo &info, const Layout *layout, const void *stored, void *plain) {
  if (layout) return layout->unpack(info, stored, plain);
  if (info.nbytes() > 0) std::memcpy(plain, stored, static_cast<size_t>(info.nbytes()));
}

}  // namespace popart::executable

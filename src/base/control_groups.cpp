#include "base/control_groups.hpp"

#include <algorithm>
#include <fstream>

namespace popart {

std::vector<std::string> controlGroups(const std::string &controller, const std::string &root) {
  std::vector<std::string> folders;
  std::ifstream file(root + "/proc/self/cgroup");
  // "0::/group" (version 2) or "4:cpu,cpuacct:/group"
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (!controllers.empty() && (',' + controllers + ',').find(',' + controller + ',') == std::string::npos) continue;
    for (const std::string &mount : controllers.empty() ? std::vector<std::string>{"", "/unified"}
                                                        : std::vector<std::string>{'/' + controller, '/' + controllers})
      for (std::string inner = group == "/" ? "" : group;; inner.resize(std::min(inner.rfind('/'), inner.size()))) {
        folders.push_back(root + "/sys/fs/cgroup" + mount + inner);
        if (inner.find('/') == std::string::npos) break;
      }
  }
  return folders;
}

}  // namespace popart

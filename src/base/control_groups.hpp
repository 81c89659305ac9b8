// The control groups (versions 1 and 2) of this process: the folders whose files limit it.
#pragma once
#include <string>
#include <vector>

namespace popart {

// Folders of the groups of this process for `controller` ("cpu", "memory"): its own first, then those around it. A
// process is limited by all of them. `root`: where the file system is. Folders need not exist: in a container the path
// in /proc/self/cgroup may be that of the host, and the last folder is then the container's own group.
std::vector<std::string> controlGroups(const std::string &controller, const std::string &root = "");

}  // namespace popart

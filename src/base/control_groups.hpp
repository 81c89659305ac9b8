// The control groups (versions 1 and 2) of this process: the folders whose files limit it.
#pragma once
#include <string>
#include <vector>

namespace popart {

// Folders of the control groups of this process for `controller` ("cpu", "memory"): its own group first, then the
// enclosing ones. All of them limit a process. `root`: root of the file system. Folders need not exist: in a container,
// the path in /proc/self/cgroup may be that of the host; then the last folder is the container's own group.
std::vector<std::string> controlGroups(const std::string &controller, const std::string &root = "");

}  // namespace popart

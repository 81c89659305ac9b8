#include <popdist/backend.hpp>

#include <filesystem>

#include <popart/error.hpp>

#include "popdist/errors.hpp"
#include "popdist/hosts.hpp"

namespace popdist {

void init() {
  Hosts &hosts = Hosts::current();
  if (!hosts.isRegistered()) hosts.registerDefault();
  hosts.begin();
}

void registerDefaultBackend() { Hosts::current().registerDefault(); }

void registerBackend(const std::string &file) {
  std::error_code failure;
  if (!std::filesystem::is_regular_file(file, failure))
    throw missing_file_error(
        popart::formatText("registerBackend: there is no file '{}'. Give the path of a shared object.", {file}));
  throw unsupported_error(popart::formatText(
      "registerBackend: got '{}', but backends in files cannot be loaded: which functions they have is not public. "
      "Call registerDefaultBackend() or init(), which use Open MPI.",
      {file}));
}

void initializeBackend() { Hosts::current().begin(); }
bool isBackendInitialized() { return Hosts::current().hasBegun(); }
void finalizeBackend() { Hosts::current().end(); }

}  // namespace popdist

// Compiled programs of a session in files (session/program_file.hpp).
// Invariant: the session does not change unless the whole file was read and matches.
#include <filesystem>
#include <istream>
#include <iterator>
#include <ostream>

#include <popart/error.hpp>
#include <popart/ir.hpp>

#include "api/session_impl.hpp"
#include "api/virtual_ipus.hpp"

namespace popart {
namespace {

std::string fileIn(const std::string &path, const char *name) {
  namespace fs = std::filesystem;
  fs::path target(path);
  if (fs::is_directory(target)) target /= name;
  if (target.has_parent_path()) {
    std::error_code failure;
    fs::create_directories(target.parent_path(), failure);
    check(!failure, "saveExecutable: cannot make the folder '{}': {}", target.parent_path().string(),
          failure.message());
  }
  return target.string();
}

}  // namespace

session::VariableValues Session::Impl::savedVariables() const {
  session::VariableValues values;
  for (const auto &[id, host] : hostWeights) {
    if (!isModelVariable(id)) continue;
    const auto read = streamBuffers.find(id);
    values[id] = read == streamBuffers.end() ? host : read->second;
  }
  return values;
}

void Session::saveExecutable(const std::string &path, const bool, const bool saveVariables) {
  impl_->program.requireCompiled("saveExecutable");
  if (impl_->program.isLoaded() && saveVariables) weightsToHost();
  session::saveProgramFile(fileIn(path, "executable.popef"),
                           session::describeProgram(impl_->ir(), impl_->compileOptions()), &impl_->program.lowered(),
                           saveVariables ? impl_->savedVariables() : session::VariableValues());
}

void Session::saveVariables(const std::string &path) {
  impl_->program.requireCompiled("saveVariables");
  if (impl_->program.isLoaded()) weightsToHost();
  session::saveProgramFile(fileIn(path, "variables.popef"),
                           session::describeProgram(impl_->ir(), impl_->compileOptions()), nullptr,
                           impl_->savedVariables());
}

void Session::saveExecutableToFile(const std::string &filename) { saveExecutable(filename); }

void Session::saveExecutableToStream(std::ostream &out) {
  impl_->program.requireCompiled("saveExecutable");
  if (impl_->program.isLoaded()) weightsToHost();
  session::writeProgramFile(session::describeProgram(impl_->ir(), impl_->compileOptions()), &impl_->program.lowered(),
                            impl_->savedVariables(), [&](const void *data, size_t bytes) {
                              out.write(static_cast<const char *>(data), static_cast<std::streamsize>(bytes));
                              check(static_cast<bool>(out),
                                    "Session '{}': saveExecutable: the stream cannot be written", impl_->name);
                            });
}

std::string Session::getLoweredModel(PrintData values) const { return impl_->program.loweredModel(values); }

void Session::compileAndExport(const std::string &filename) {
  prepareDevice(false);
  saveExecutable(filename);
}

void Session::compileAndExport(std::ostream &out) {
  prepareDevice(false);
  saveExecutableToStream(out);
}

void Session::loadExecutableFromFile(const std::string &filename) {
  impl_->use(session::ProgramFile::open(filename, "loadExecutable '" + filename + "'"), "loadExecutable");
}

void Session::loadExecutableFromStream(std::shared_ptr<std::istream> in) {
  check(in && *in, "loadExecutable: the stream cannot be read");
  impl_->use(session::ProgramFile::parse(std::string(std::istreambuf_iterator<char>(*in), {}), "loadExecutable"),
             "loadExecutable");
}

void Session::Impl::use(session::ProgramFile file, const std::string &what) {
  joinToRun();
  session::CompileOptions compiling = compileOptions();
  const session::ProgramDescription found = file.description();
  const std::string target = session::targetOf(compiling);
  check(found.target == target,
        "{}: the file is for other hardware: got {}, expected {}. Export it again on a machine of this kind", what,
        found.target, target);
  compiling.threads = found.threads;  // the number of threads is in its key, and is no other reason to refuse it
  ValueTable held;
  check(found.key == session::describeProgram(ir(), compiling, &held).key,
        "{}: the file holds another program than this session. Make the session with the model, options and data flow "
        "of the export",
        what);
  const int most = threads();
  std::shared_ptr<const lower::Program> stored;
  if (file.hasProgram())
    stored = std::make_shared<const lower::Program>(file.checkedProgram(most, held));
  else
    file.checkValues(most, held);
  session::VariableValues values = file.variables();
  for (const auto &[id, value] : values) {
    const auto host = hostWeights.find(id);
    // The name is shown only if the session has it: in a damaged file it may be any bytes.
    check(host != hostWeights.end() && isModelVariable(id),
          "{}: the file holds a variable that the session does not have", what);
    check(host->second.info() == value.info(), "{}: variable '{}' does not fit the session: got {}, expected {}", what,
          id, value.info(), host->second.info());
  }
  for (auto &[id, value] : values) hostWeights[id] = std::move(value);
  if (stored) loadedProgram = std::move(stored);
  streamBuffers.clear();
  hasReadDevice = false;
  weightsLoaded = false;
}

}  // namespace popart

#include "shared/command.hpp"

#include <csignal>
#include <iostream>

#include <fmt/format.h>
#include <popart/error.hpp>
#include <popart/version.hpp>

namespace popart::tools {
namespace {

constexpr const char *kExitCodes = R"(exit codes:
    0  done
    1  done, and the answer is no: results differ, or a part of the model is refused
    2  wrong command line, or a file, model or setting that cannot be used
    3  a fault of PopART
  130  interrupted (Ctrl-C)
  141  the reader of the output is gone, as with head)";

int ended(const CLI::App &app, ExitCode code, const std::string &text) {
  std::cout.flush();
  fmt::print(stderr, "{}: {}\n", app.get_name(), text);
  return static_cast<int>(code);
}

}  // namespace

int runCommand(CLI::App &app, int argc, char **argv, const std::function<void()> &command) {
  std::signal(SIGPIPE, SIG_DFL);  // some programs that start others have it ignored
  app.set_version_flag("--version",
                       fmt::format("{} {} (commit {}), PopART {}", app.get_name(), POPART_OWN_VERSION,
                                   *kCommit ? kCommit : "unknown", core::versionString()),
                       "print the versions and stop");
  const std::string footer = app.get_footer();
  app.footer(footer.empty() ? kExitCodes : footer + "\n" + kExitCodes);
  app.failure_message([&app](const CLI::App *, const CLI::Error &wrong) {
    return fmt::format("{}: {}. See {} --help\n", app.get_name(), wrong.what(), app.get_name());
  });
  try {
    app.parse(argc, argv);
    command();
    std::cout.flush();
    if (!std::cout.good()) throw UsageError("standard output cannot be written. Check the free space");
    return static_cast<int>(ExitCode::Done);
  } catch (const CLI::ParseError &e) {
    return static_cast<int>(app.exit(e) == 0 ? ExitCode::Done : ExitCode::Refused);
  } catch (const UsageError &e) {
    return ended(app, ExitCode::Refused, e.what());
  } catch (const internal_error &e) {
    return ended(app, ExitCode::Fault, fmt::format("fault of PopART: {}", e.what()));
  } catch (const error &e) {
    return ended(app, ExitCode::Refused, e.what());
  } catch (const std::bad_alloc &) {
    return ended(app, ExitCode::Refused, "there is not enough memory. Use a smaller --dim, --shape or model");
  } catch (const std::exception &e) {
    return ended(app, ExitCode::Fault, fmt::format("fault of PopART: {}", e.what()));
  }
}

}  // namespace popart::tools

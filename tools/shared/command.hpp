// What the compiled commands share: exit codes, choices, and how errors end a command. popart/tools/command.py is the
// same for the commands in Python; tests/python/tools/test_commands.py compares both.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace popart::tools {

// Of the sources, with -dirty for a checkout with changes; empty when there is no checkout (cmake/BuildFacts.cmake).
extern const char *const kCommit;

enum class ExitCode { Done = 0, Different = 1, Refused = 2, Fault = 3 };

// A file, a name or a setting that the user can mend; the command ends with ExitCode::Refused.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An option with one of the named values; the help and the error list the names in this order.
template <class Value>
CLI::Option *addChoice(CLI::App &app, const std::string &name, Value &target,
                       const std::vector<std::pair<std::string, Value>> &choices, const std::string &help) {
  std::vector<std::string> names;
  for (const auto &choice : choices) names.push_back(choice.first);
  const auto set = [&target, choices](const std::string &given) {
    for (const auto &[choice, value] : choices)
      if (choice == given) target = value;
  };
  return app.add_option_function<std::string>(name, set, help)->check(CLI::IsMember(names));
}

// Parses the command line and calls `command`. Returns the exit code; an error is one line on stderr, with the name of
// the app in front. Adds --version and the exit codes to the help. The process ends when the reader of the output
// is gone.
int runCommand(CLI::App &app, int argc, char **argv, const std::function<void()> &command);

}  // namespace popart::tools

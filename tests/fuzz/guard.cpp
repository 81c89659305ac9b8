// Handlers use nothing but write() and open(): they run in a process that is already lost.
#include "guard.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define POPART_FUZZ_SANITIZED 1
extern "C" void __sanitizer_set_death_callback(void (*callback)());
#endif
#if defined(__SANITIZE_ADDRESS__)
extern "C" const char *__asan_default_options() {
  return "max_allocation_size_mb=2048:hard_rss_limit_mb=6144:detect_stack_use_after_return=0";
}
extern "C" const char *__ubsan_default_options() { return "print_stacktrace=1"; }
#endif

namespace popart::fuzz {
namespace {

std::string currentWhat, keepPath;
const std::string *currentBytes = nullptr;

void say(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void report() {
  if (!currentBytes) return;
  say(STDERR_FILENO, "\nThe process ended in ");
  say(STDERR_FILENO, currentWhat);
  if (!keepPath.empty()) {
    const int file = open(keepPath.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file >= 0) say(file, *currentBytes);
    say(STDERR_FILENO, "; its bytes are in ");
    say(STDERR_FILENO, keepPath);
  }
  say(STDERR_FILENO, "\n");
  currentBytes = nullptr;
}

void onSignal(int signal) {
  say(STDERR_FILENO, signal == SIGALRM ? "Time limit passed" : "Fatal signal");
  report();
  _exit(1);
}

}  // namespace

void installGuard(long memoryBytes) {
  if (const char *folder = std::getenv("POPART_FUZZ_KEEP")) keepPath = std::string(folder) + "/fuzz-input";
  signal(SIGALRM, onSignal);
#if defined(POPART_FUZZ_SANITIZED)
  (void)memoryBytes;
  __sanitizer_set_death_callback(report);
#else
  for (int fatal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) signal(fatal, onSignal);
  const rlimit limit{static_cast<rlim_t>(memoryBytes), static_cast<rlim_t>(memoryBytes)};
  setrlimit(RLIMIT_AS, &limit);
#endif
}

Guarded::Guarded(const std::string &what, const std::string &bytes, unsigned seconds) {
  currentWhat = what;
  currentBytes = &bytes;
  alarm(seconds);
}

Guarded::~Guarded() {
  alarm(0);
  currentBytes = nullptr;
}

void keepInput(const std::string &bytes) {
  if (keepPath.empty()) return;
  const int file = open(keepPath.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0) return;
  say(file, bytes);
  close(file);
}

}  // namespace popart::fuzz

// Interrupts a run from outside. Python programs do not need this: there, Ctrl-C ends session.run with
// KeyboardInterrupt, and if a signal handler of the program raises an exception, the exception ends the run.
#pragma once

namespace popart {

// Every run that loops (Loop, batches per step, accumulation) calls it about twenty times a second, between two
// iterations, on the thread that called Session::run. An exception from it ends the run and leaves Session::run; the
// session can run again, with its variables as after any error at run time.
using InterruptCheck = void (*)();

// For all sessions of the process; nullptr, the initial value: runs are never interrupted. May be called at any time.
void setInterruptCheck(InterruptCheck check) noexcept;

// A base of exceptions that end a run at once. If an IStepIO that is asked ahead of need throws another exception, the
// run ends when the program needs the value.
struct RunInterrupt {
  virtual ~RunInterrupt() = default;
};

}  // namespace popart

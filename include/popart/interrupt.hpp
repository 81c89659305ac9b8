// Ending a run from outside while it goes on. Python programs need nothing of this: there, Ctrl-C ends session.run with
// KeyboardInterrupt, and any signal handler of the program that raises ends it with what it raised.
#pragma once

namespace popart {

// Asked about twenty times a second by every run that loops (Loop, batches per step, accumulation), between two
// iterations, on the thread that called Session::run. Whatever it throws ends the run and comes out of Session::run;
// the session can run again, with its variables as after any error at run time.
using InterruptCheck = void (*)();

// For all sessions of the process; nullptr, as at the start: runs go on to their end. May be called at any time.
void setInterruptCheck(InterruptCheck check) noexcept;

// A base of exceptions that end a run at once. Others, thrown by an IStepIO that is asked ahead of need, end it where
// the program needs the value.
struct RunInterrupt {
  virtual ~RunInterrupt() = default;
};

}  // namespace popart

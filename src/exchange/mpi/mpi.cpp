// libpopart_mpi.so: the transport on MPI. It uses only messages of bytes between two processes, by functions with the
// same meaning in Open MPI 4 and 5. Symbols of MPI are found in the library that load_mpi.cpp has loaded.
//
// A transport has a communicator. Its lowest tags are for texts (aborts, and the two halves of a gather), which are
// received with MPI_Improbe and may have any length. Channels have the other tags, numbered by pair of processes. A
// communicator is never freed, because its number could be given to another one while a late message is in progress.
//
// A channel is a persistent request, or several for messages that are too long for one. Memory that MPI may still use
// when its owner ends is never freed (Text), or the owner waits for it (endRequests).
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>
#include <thread>
#include <unordered_map>

#include <popart/error.hpp>
#include <popart/logging.hpp>

#include "exchange/load_mpi.hpp"
#include "exchange/mpi/init_limit.hpp"

#ifndef OPEN_MPI
#error "mpi.h is not Open MPI's"
#endif

namespace popart::exchange {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

enum Tag : int { kAbort, kToRoot, kFromRoot, kChannels };

constexpr int kRoot = 0;
constexpr int kTestsPerLook = 32;  // tests of a message between two checks for an abort
constexpr milliseconds kAbortTime{1'000};

std::string textOf(int problem) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(problem, text, &length) != MPI_SUCCESS) return "error " + toText(problem);
  return {text, static_cast<size_t>(length)};
}

void checkMpi(int problem, const char *what) {
  if (problem != MPI_SUCCESS) throw runtime_error("MPI: {}: {}", what, textOf(problem));
}

// MPI in this process, shared by the job and its transports.
struct State {
  bool isSerial = false;             // only one thread at a time may call MPI
  std::atomic<bool> isEnded{false};  // MPI is finalised, or must not be called any more
  std::atomic<bool> isStuck{false};  // MPI may still write to memory that now has another use
  std::mutex lock;

  // Held during calls of MPI.
  std::unique_lock<std::mutex> turn() { return isSerial ? std::unique_lock(lock) : std::unique_lock<std::mutex>(); }

  // Waits until `isDone` or the time is over. Yields to others, longer with time.
  template <class F>
  static bool waitUntil(Clock::time_point end, const F &isDone) {
    for (std::chrono::microseconds pause{0}; !isDone();) {
      if (Clock::now() >= end) return false;
      std::this_thread::sleep_for(pause);
      pause = std::min(pause + std::chrono::microseconds(5), std::chrono::microseconds(500));
    }
    return true;
  }
};

// A text in progress. MPI may use its memory until it is complete.
struct Text {
  int peer;
  std::string bytes;
  MPI_Request request = MPI_REQUEST_NULL;
};

class MpiTransport;

class MpiChannel : public Channel {
 public:
  MpiChannel(MpiTransport &transport, int peer, bool sends, std::vector<MPI_Request> requests)
      : transport_(transport), peer_(peer), sends_(sends), requests_(std::move(requests)) {}
  ~MpiChannel() override;
  void start() noexcept override;
  State test() noexcept override;

 private:
  State failBy(int problem) noexcept;

  MpiTransport &transport_;
  const int peer_;
  const bool sends_;
  bool isUnderWay_ = false;  // in MPI's view
  State state_ = State::Complete;
  std::vector<MPI_Request> requests_;
};

class MpiTransport : public Transport {
 public:
  // `communicator` belongs to this transport alone.
  MpiTransport(std::shared_ptr<State> state, MPI_Comm communicator, int64_t messageBytes)
      : state_(std::move(state)), communicator_(communicator), messageBytes_(messageBytes) {
    checkMpi(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    checkMpi(MPI_Comm_rank(communicator_, &process_), "MPI_Comm_rank");
    checkMpi(MPI_Comm_size(communicator_, &processes_), "MPI_Comm_size");
    int *most = nullptr, isThere = 0;
    checkMpi(MPI_Comm_get_attr(communicator_, MPI_TAG_UB, &most, &isThere), "MPI_Comm_get_attr");
    if (isThere) mostTag_ = *most;
  }
  ~MpiTransport() override {
    if (!state_->isEnded) State::waitUntil(Clock::now() + kAbortTime, [&] { return sentAll(); });
    keepTexts();
  }

  int process() const noexcept override { return process_; }
  int processes() const noexcept override { return processes_; }

  std::unique_ptr<Channel> sendChannel(int peer, uint64_t, std::span<const Piece> memory) override {
    return channel(peer, memory, true);
  }
  std::unique_ptr<Channel> receiveChannel(int peer, uint64_t, std::span<const Piece> memory) override {
    return channel(peer, memory, false);
  }

  void abort(std::string_view text) noexcept override {
    look();
    if (failure_) return;
    failure_ = Failure{process_, std::string(text)};
    if (state_->isEnded) return;
    for (int p = 0; p < processes_; ++p)
      if (p != process_) send(p, kAbort, failure_->text);
    // Messages leave this process only while it calls MPI.
    State::waitUntil(Clock::now() + kAbortTime, [&] { return sentAll(); });
  }

  std::optional<Failure> failure() const override { return failure_; }
  bool hasFailed() const noexcept { return failure_.has_value(); }

  // Receives an abort of another process, if there is one.
  void look() noexcept {
    if (failure_ || state_->isEnded) return;
    if (std::optional<Text> text = receive(kAbort, MPI_ANY_SOURCE)) failure_ = Failure{text->peer, text->bytes};
  }
  void countTest() noexcept {
    if (++tests_ % kTestsPerLook == 0) look();
  }

  std::vector<std::string> gather(std::string_view own, milliseconds timeout) override;

  // ---- used by channels
  State &state() noexcept { return *state_; }

  // Ends requests in progress and frees them. A receive without a message is cancelled. A message that has begun to
  // arrive continues while both processes call MPI, so this takes little time unless the sender has stopped. A send
  // without a receive is not read: the receiver will not begin any more.
  void endRequests(std::vector<MPI_Request> &requests, bool isUnderWay, bool sends, int peer) noexcept {
    if (state_->isEnded) return;
    if (isUnderWay) {
      if (!sends) {
        const auto turn = state_->turn();
        for (MPI_Request &r : requests) MPI_Cancel(&r);
      }
      if (endTime_ == Clock::time_point{}) endTime_ = Clock::now() + kMessageEndTime;
      const bool isComplete = State::waitUntil(endTime_, [&] {
        const auto turn = state_->turn();
        int done = 0;
        return MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE) !=
                   MPI_SUCCESS ||
               done;
      });
      if (!isComplete && !sends) {
        state_->isStuck = true;
        logging::warn(
            "MPI: a message from process {} stopped in the middle: this process neither sends nor receives any "
            "more",
            peer);
      }
    }
    const auto turn = state_->turn();
    for (MPI_Request &r : requests)
      if (r != MPI_REQUEST_NULL) MPI_Request_free(&r);
  }

 private:
  void checkPeer(int peer) const {
    if (peer < 0 || peer >= processes_ || peer == process_)
      throw internal_error("MPI: a channel of process {} with process {}, of {} processes", process_, peer, processes_);
  }

  // Requests for the bytes of all pieces, each for at most messageBytes_.
  std::unique_ptr<Channel> channel(int peer, std::span<const Piece> memory, bool sends) {
    checkPeer(peer);
    int &made = (sends ? sendsMade_ : receivesMade_)[peer];
    std::vector<MPI_Request> requests;
    std::vector<int> lengths;
    std::vector<MPI_Aint> addresses;
    const auto make = [&] {
      const int tag = kChannels + made;
      check(tag < mostTag_, "MPI: {} messages between two processes are more than this network can tell apart", made);
      ++made;
      requests.push_back(request(peer, tag, lengths, addresses, sends));
      lengths.clear();
      addresses.clear();
    };
    const auto turn = state_->turn();
    int64_t room = messageBytes_;
    for (const Piece &piece : memory)
      for (int64_t at = 0; at < piece.bytes;) {
        const int64_t bytes = std::min(piece.bytes - at, room);
        lengths.push_back(static_cast<int>(bytes));
        addresses.push_back(reinterpret_cast<MPI_Aint>(static_cast<std::byte *>(piece.data) + at));
        at += bytes;
        room -= bytes;
        if (room == 0) make(), room = messageBytes_;
      }
    if (!lengths.empty() || requests.empty()) make();
    return std::make_unique<MpiChannel>(*this, peer, sends, std::move(requests));
  }

  MPI_Request request(int peer, int tag, const std::vector<int> &lengths, const std::vector<MPI_Aint> &addresses,
                      bool sends) {
    void *data = lengths.size() == 1 ? reinterpret_cast<void *>(addresses[0]) : MPI_BOTTOM;
    int count = lengths.size() == 1 ? lengths[0] : 1;
    MPI_Datatype type = MPI_BYTE;
    if (lengths.empty()) {
      count = 0;
    } else if (lengths.size() > 1) {
      check(lengths.size() <= INT_MAX, "MPI: a message has {} pieces of memory, which are too many", lengths.size());
      checkMpi(
          MPI_Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(), addresses.data(), MPI_BYTE, &type),
          "MPI_Type_create_hindexed");
      checkMpi(MPI_Type_commit(&type), "MPI_Type_commit");
    }
    MPI_Request made = MPI_REQUEST_NULL;
    const int problem = sends ? MPI_Send_init(data, count, type, peer, tag, communicator_, &made)
                              : MPI_Recv_init(data, count, type, peer, tag, communicator_, &made);
    if (type != MPI_BYTE) MPI_Type_free(&type);  // freed when the request is
    checkMpi(problem, sends ? "MPI_Send_init" : "MPI_Recv_init");
    return made;
  }

  // ---- texts
  void send(int peer, Tag tag, std::string bytes) noexcept {
    Text &text = sent_.emplace_back(Text{peer, std::move(bytes)});
    const auto turn = state_->turn();
    const int problem = MPI_Isend(text.bytes.data(), static_cast<int>(text.bytes.size()), MPI_BYTE, peer, tag,
                                  communicator_, &text.request);
    if (problem != MPI_SUCCESS) {
      logging::warn("MPI: a text to process {} cannot be sent: {}", peer, textOf(problem));
      sent_.pop_back();
    }
  }

  static bool isComplete(Text &text) {
    int done = 0;
    return MPI_Test(&text.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done;
  }

  // Whether all texts have been sent, as far as this process knows.
  bool sentAll() noexcept {
    const auto turn = state_->turn();
    std::erase_if(sent_, isComplete);
    return sent_.empty();
  }

  void keepTexts() {
    for (std::list<Text> *texts : {&sent_, &coming_[kAbort], &coming_[kToRoot], &coming_[kFromRoot]})
      if (!texts->empty()) new std::list<Text>(std::move(*texts));  // owned by MPI now
  }

  // The next text, if there is one.
  std::optional<Text> receive(Tag tag, int peer) noexcept {
    const auto turn = state_->turn();
    std::list<Text> &coming = coming_[tag];
    int isThere = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    if (MPI_Improbe(peer, tag, communicator_, &isThere, &message, &status) == MPI_SUCCESS && isThere) {
      int bytes = 0;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      Text &text = coming.emplace_back(Text{status.MPI_SOURCE, std::string(static_cast<size_t>(bytes), ' ')});
      MPI_Imrecv(text.bytes.data(), bytes, MPI_BYTE, &message, &text.request);
    }
    const auto complete = std::ranges::find_if(coming, isComplete);
    if (complete == coming.end()) return std::nullopt;
    Text text = std::move(*complete);
    coming.erase(complete);
    return text;
  }

  [[noreturn]] void throwFailure() const {
    throw runtime_error("MPI: process {}: {}", failure_->process, failure_->text);
  }
  void checkUsable() {
    check(!state_->isEnded, "MPI: the job has ended");
    if (state_->isStuck) throw runtime_error("MPI: a message is still under way after a failure. Start the job again");
    look();
    if (failure_) throwFailure();
  }

  const std::shared_ptr<State> state_;
  const MPI_Comm communicator_;
  const int64_t messageBytes_;
  int process_ = 0, processes_ = 1, mostTag_ = SHRT_MAX;
  std::unordered_map<int, int> sendsMade_, receivesMade_;  // by peer
  std::optional<Failure> failure_;
  Clock::time_point endTime_{};  // for requests in progress when channels end
  std::list<Text> sent_, coming_[kChannels];
  int64_t gathered_ = 0;  // number of the current gather
  unsigned tests_ = 0;
};

// ---- channels ---------------------------------------------------------------------------------

MpiChannel::~MpiChannel() { transport_.endRequests(requests_, isUnderWay_, sends_, peer_); }

Channel::State MpiChannel::failBy(int problem) noexcept {
  transport_.abort(formatText("a message {} process {}: {}", {sends_ ? "to" : "from", toText(peer_), textOf(problem)}));
  return state_ = State::Failed;
}

void MpiChannel::start() noexcept {
  state_ = State::Failed;
  if (transport_.hasFailed() || transport_.state().isStuck || transport_.state().isEnded) return;
  int problem = MPI_SUCCESS;
  {
    const auto turn = transport_.state().turn();
    problem = requests_.size() == 1 ? MPI_Start(requests_.data())
                                    : MPI_Startall(static_cast<int>(requests_.size()), requests_.data());
  }
  isUnderWay_ = true;
  state_ = State::Pending;
  if (problem != MPI_SUCCESS) failBy(problem);
}

Channel::State MpiChannel::test() noexcept {
  if (state_ != State::Pending) return state_;
  if (transport_.hasFailed()) return state_ = State::Failed;
  int done = 0, problem = MPI_SUCCESS;
  {
    const auto turn = transport_.state().turn();
    problem = requests_.size() == 1
                  ? MPI_Test(requests_.data(), &done, MPI_STATUS_IGNORE)
                  : MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE);
  }
  if (problem != MPI_SUCCESS) return failBy(problem);
  if (done) {
    isUnderWay_ = false;
    return state_ = State::Complete;
  }
  transport_.countTest();
  return State::Pending;
}

// ---- gather -----------------------------------------------------------------------------------

// Texts are sent to the root, which sends all of them back. The first process whose time is over asks the root for the
// missing processes, and then all get their names. Before the text of a gather, its number is sent, so that late texts
// are recognised.
std::vector<std::string> MpiTransport::gather(std::string_view own, milliseconds timeout) {
  checkUsable();
  const Clock::time_point end = Clock::now() + timeout;
  const int64_t number = ++gathered_;
  enum Kind : char { kText, kLate, kAll, kMissing };
  const auto message = [&](Kind kind, std::string_view text) {
    std::string bytes(sizeof(number) + 1, '\0');
    std::memcpy(bytes.data(), &number, sizeof(number));
    bytes.back() = kind;
    return bytes.append(text);
  };
  const auto next = [&](Tag tag, int peer) -> std::optional<Text> {
    while (std::optional<Text> text = receive(tag, peer)) {
      int64_t of = 0;
      std::memcpy(&of, text->bytes.data(), sizeof(of));
      if (of == number) return text;
    }
    return std::nullopt;
  };
  const auto kindOf = [&](const Text &text) { return static_cast<Kind>(text.bytes[sizeof(number)]); };
  const auto bodyOf = [&](const Text &text) { return std::string_view(text.bytes).substr(sizeof(number) + 1); };
  const auto throwMissing = [&](std::string_view missing) {
    throw runtime_error(
        "MPI: {} did not reach a point that all processes must reach together within {} s. Look for a process that "
        "stopped, is slow or took another branch",
        missing, std::chrono::duration<double>(timeout).count());
  };

  if (process_ != kRoot) {
    send(kRoot, kToRoot, message(kText, own));
    std::optional<Text> answer;
    const auto isOver = [&] {
      sentAll();
      look();
      return failure_ || (answer = next(kFromRoot, kRoot));
    };
    if (!State::waitUntil(end, isOver)) {
      send(kRoot, kToRoot, message(kLate, {}));
      State::waitUntil(Clock::now() + kMessageEndTime, isOver);
    }
    if (failure_) throwFailure();
    if (!answer) throwMissing("process 0");
    if (kindOf(*answer) == kMissing) throwMissing(bodyOf(*answer));
    std::vector<std::string> all;
    for (std::string_view rest = bodyOf(*answer); !rest.empty();) {
      int64_t bytes = 0;
      std::memcpy(&bytes, rest.data(), sizeof(bytes));
      all.emplace_back(rest.substr(sizeof(bytes), static_cast<size_t>(bytes)));
      rest.remove_prefix(sizeof(bytes) + static_cast<size_t>(bytes));
    }
    return all;
  }

  std::vector<std::optional<std::string>> texts(static_cast<size_t>(processes_));
  texts[kRoot] = own;
  int left = processes_ - 1;
  bool isLate = false;
  isLate |= !State::waitUntil(end, [&] {
    look();
    while (std::optional<Text> text = next(kToRoot, MPI_ANY_SOURCE)) {
      if (kindOf(*text) == kLate) {
        isLate = true;
      } else {
        texts[static_cast<size_t>(text->peer)] = bodyOf(*text);
        --left;
      }
    }
    return failure_ || left == 0 || isLate;
  });
  if (failure_) throwFailure();
  std::string answer;
  if (left > 0) {
    constexpr int kMost = 8;
    int named = 0;
    for (size_t p = 0; p < texts.size(); ++p)
      if (!texts[p] && named++ < kMost) answer += (named == 1 ? "process " : ", ") + toText(p);
    if (named > kMost) answer += formatText(" and {} more", {toText(named - kMost)});
  } else {
    for (const std::optional<std::string> &text : texts) {
      const auto bytes = static_cast<int64_t>(text->size());
      answer.append(reinterpret_cast<const char *>(&bytes), sizeof(bytes)).append(*text);
    }
  }
  for (int p = 0; p < processes_; ++p)
    if (p != kRoot) send(p, kFromRoot, message(left > 0 ? kMissing : kAll, answer));
  State::waitUntil(Clock::now() + kMessageEndTime, [&] { return sentAll(); });
  if (left > 0) throwMissing(answer);
  std::vector<std::string> all;
  for (std::optional<std::string> &text : texts) all.push_back(std::move(*text));
  return all;
}

// ---- the job ----------------------------------------------------------------------------------

const char *nameOf(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE:
      return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED:
      return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED:
      return "MPI_THREAD_SERIALIZED";
    default:
      return "MPI_THREAD_MULTIPLE";
  }
}

class Job : public MpiJob {
 public:
  explicit Job(const MpiSettings &settings) : settings_(settings) {
    if (settings.messageBytes < 1 || settings.messageBytes > INT_MAX)
      throw internal_error("MPI: messages of {} bytes", settings.messageBytes);
    int isDone = 0;
    checkMpi(MPI_Finalized(&isDone), "MPI_Finalized");
    check(!isDone, "MPI: it was finalised in this process, which cannot be undone. Join the job before that");
    checkMpi(MPI_Initialized(&isDone), "MPI_Initialized");
    int level = MPI_THREAD_SINGLE;
    if (isDone) {
      checkMpi(MPI_Query_thread(&level), "MPI_Query_thread");
    } else {
      const InitLimit limit(settings.timeout);
      // Over TCP, Open MPI's "put" sends long messages in one direction at a time. Settings of the environment take
      // precedence.
      ::setenv("OMPI_MCA_btl_tcp_flags", "send,inplace", 0);
      checkMpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
      isOurs_ = true;
    }
    const int needed = settings.othersCallMpi || isDone ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED;
    check(level >= needed, "MPI: got thread level {}, expected {}. {}", nameOf(level), nameOf(needed),
          isDone ? "The code that initialises MPI before PopART must request MPI_THREAD_MULTIPLE; for mpi4py, set "
                   "mpi4py.rc.thread_level = 'multiple' before mpi4py.MPI is imported"
                 : "Install an Open MPI that is built for threads");
    state_->isSerial = level == MPI_THREAD_SERIALIZED;

    int processes = 0;
    checkMpi(MPI_Comm_size(MPI_COMM_WORLD, &processes), "MPI_Comm_size");
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    checkMpi(MPI_Get_library_version(version, &length), "MPI_Get_library_version");
    const std::string_view name = std::string_view(version, static_cast<size_t>(length)).substr(0, 40);
    check(settings.processes == 0 || settings.processes == processes,
          "MPI: the launcher started {} processes, MPI knows of {}. Its library ({}) has to be of the Open MPI that "
          "mpirun is of: set POPART_MPI_LIBRARY",
          settings.processes, processes, name.substr(0, name.find(',')));
    own_ = duplicate();
    // MPI_Finalize begins with the attributes of MPI_COMM_SELF, and later waits for all processes without a limit.
    if (!isOurs_ && settings.beforeFinalize) {
      int key = MPI_KEYVAL_INVALID;
      const auto leave = [](MPI_Comm, int, void *beforeFinalize, void *) {
        reinterpret_cast<void (*)()>(beforeFinalize)();
        return MPI_SUCCESS;
      };
      checkMpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, leave, &key, nullptr), "MPI_Comm_create_keyval");
      checkMpi(MPI_Comm_set_attr(MPI_COMM_SELF, key, reinterpret_cast<void *>(settings.beforeFinalize)),
               "MPI_Comm_set_attr");
    }
  }

  int process() const noexcept override { return own_->process(); }
  int processes() const noexcept override { return own_->processes(); }
  bool finalizes() const noexcept override { return isOurs_; }

  std::unique_ptr<Transport> transport() override {
    own_->barrier(settings_.timeout);  // its error names the processes that do not call it
    return duplicate();
  }

  std::optional<std::string> end(milliseconds timeout) noexcept override {
    if (state_->isEnded) return std::nullopt;
    int isDone = 0;
    if (MPI_Finalized(&isDone) == MPI_SUCCESS && isDone) {  // the library that initialised it has finalised it
      state_->isEnded = true;
      own_.reset();
      return std::nullopt;
    }
    std::optional<std::string> problem;
    try {
      own_->barrier(timeout);
    } catch (const std::exception &e) {
      problem = e.what();
    }
    own_.reset();
    state_->isEnded = true;
    if (!problem && isOurs_) MPI_Finalize();
    return problem;
  }

 private:
  // MPI_Comm_dup could wait for ever.
  std::unique_ptr<MpiTransport> duplicate() {
    struct Made {
      MPI_Comm communicator = MPI_COMM_NULL;
      MPI_Request request = MPI_REQUEST_NULL;
    };
    auto made = std::make_unique<Made>();
    {
      const auto turn = state_->turn();
      checkMpi(MPI_Comm_idup(MPI_COMM_WORLD, &made->communicator, &made->request), "MPI_Comm_idup");
    }
    const bool isMade = State::waitUntil(Clock::now() + settings_.timeout, [&] {
      const auto turn = state_->turn();
      int done = 0;
      checkMpi(MPI_Test(&made->request, &done, MPI_STATUS_IGNORE), "MPI_Comm_idup");
      return done != 0;
    });
    if (!isMade) {
      static_cast<void>(made.release());  // MPI writes to it when the others call it
      throw runtime_error("MPI: not all processes of the job came to its start within {} s. All of them have to",
                          std::chrono::duration<double>(settings_.timeout).count());
    }
    return std::make_unique<MpiTransport>(state_, made->communicator, settings_.messageBytes);
  }

  const MpiSettings settings_;
  bool isOurs_ = false;  // whether this library finalises MPI
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  std::unique_ptr<MpiTransport> own_;  // for operations of all processes
};

}  // namespace
}  // namespace popart::exchange

extern "C" popart::exchange::MpiJob *popartJoinMpi(const popart::exchange::MpiSettings &settings) {
  return new popart::exchange::Job(settings);
}

// A transport of another owner, for what owns its transport.
#pragma once
#include "exchange/transport.hpp"

namespace popart::test {

class Borrowed final : public exchange::Transport {
 public:
  explicit Borrowed(exchange::Transport &transport) : transport_(transport) {}
  int process() const noexcept override { return transport_.process(); }
  int processes() const noexcept override { return transport_.processes(); }
  std::unique_ptr<exchange::Channel> sendChannel(int peer, uint64_t tag,
                                                 std::span<const exchange::Piece> memory) override {
    return transport_.sendChannel(peer, tag, memory);
  }
  std::unique_ptr<exchange::Channel> receiveChannel(int peer, uint64_t tag,
                                                    std::span<const exchange::Piece> memory) override {
    return transport_.receiveChannel(peer, tag, memory);
  }
  void abort(std::string_view text) noexcept override { transport_.abort(text); }
  std::optional<exchange::Failure> failure() const override { return transport_.failure(); }
  std::vector<std::string> gather(std::string_view own, std::chrono::milliseconds timeout) override {
    return transport_.gather(own, timeout);
  }

 private:
  exchange::Transport &transport_;
};

}  // namespace popart::test

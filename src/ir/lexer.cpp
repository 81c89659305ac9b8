// Splits IR text into tokens. Invariant: every token is a view into the text; nothing is read past its end.
#include "ir/lexer.hpp"

#include <popart/error.hpp>

#include "ir/text.hpp"

namespace popart {
namespace {

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> run() {
    while (skipBlanks()) {
      const char c = text_[at_];
      if (c == '%' || c == '@') {
        readName(c == '%' ? Token::Kind::TensorName : Token::Kind::GraphName);
      } else if (c == '"') {
        readString(Token::Kind::String);
      } else if (isWordCharacter(c)) {
        readWhile(Token::Kind::Word, [](char w) { return isWordCharacter(w); });
      } else if (std::string_view("{}()[]<>=:,#").find(c) != std::string_view::npos) {
        tokens_.push_back({Token::Kind::Punctuation, line_, text_.substr(at_++, 1)});
      } else {
        fail("unexpected character " + quotedText(text_.substr(at_, 1)));
      }
    }
    tokens_.push_back({Token::Kind::End, line_, {}});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string &what) const { throw error("IR text line {}: {}", line_, what); }

  bool startsComment(size_t at) const { return text_[at] == '/' && text_.substr(at, 2) == "//"; }

  // False at the end of the text.
  bool skipBlanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_, ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (startsComment(at_)) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        return true;
      }
    }
    return false;
  }

  template <class Belongs>
  void readWhile(Token::Kind kind, Belongs belongs) {
    size_t end = at_;
    while (end < text_.size() && belongs(text_[end]) && !startsComment(end)) ++end;
    if (end == at_) fail("a name is missing");
    tokens_.push_back({kind, line_, text_.substr(at_, end - at_)});
    at_ = end;
  }

  void readName(Token::Kind kind) {
    ++at_;
    if (at_ < text_.size() && text_[at_] == '"') return readString(kind);
    readWhile(kind, [](char w) { return isNameCharacter(w); });
  }

  void readString(Token::Kind kind) {
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size() || text_[end] != '"') fail("the string that starts here does not end on this line");
    tokens_.push_back({kind, line_, text_.substr(at_ + 1, end - at_ - 1), true});
    at_ = end + 1;
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view text) { return Lexer(text).run(); }

int hexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::string unescape(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      result += text[i];
      continue;
    }
    const char c = ++i < text.size() ? text[i] : ' ';
    const bool twoMore = i + 2 < text.size();
    const int high = twoMore ? hexDigit(text[i + 1]) : -1, low = twoMore ? hexDigit(text[i + 2]) : -1;
    if (c == 'n') {
      result += '\n';
    } else if (c == '"' || c == '\\') {
      result += c;
    } else if (c == 'x' && high >= 0 && low >= 0) {
      result += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      throw error("unknown escape in a string: expected \\n, \\\\, \\\" or \\xHH");
    }
  }
  return result;
}

}  // namespace popart

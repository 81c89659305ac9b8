// Tokens of the IR text form. Views into the text, which must outlive them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace popart {

struct Token {
  enum class Kind { Word, String, TensorName, GraphName, Punctuation, End };
  Kind kind = Kind::End;
  int line = 0;
  std::string_view text;  // strings and quoted names: between the quotes, still escaped
  bool quoted = false;
};

// Ends with one End token. Throws popart::error naming the line of an unknown character or an unfinished string.
std::vector<Token> tokenize(std::string_view text);

// Replaces the escapes \n \\ \" \xHH. Throws popart::error for others.
std::string unescape(std::string_view text);
// The name or string that a token denotes.
inline std::string tokenText(const Token &t) { return t.quoted ? unescape(t.text) : std::string(t.text); }

int hexDigit(char c);  // -1: none

}  // namespace popart

// Reads the IR text form (grammar: text.hpp) in two rounds. The first reads all graphs with their tensors and ops, and
// connects operands at the end of each graph, so that names may be used before they are defined. The second runs the
// shape rule of every op, callees first; the result must agree with the text (outputs may omit their infos). The text
// is untrusted: every fault is a popart::error with a line number, and its length plus kFillBudget bounds memory.
#include <charconv>
#include <set>
#include <unordered_map>

#include "base/nearest.hpp"
#include "ir/facts.hpp"
#include "ir/lexer.hpp"
#include "ir/program_order.hpp"
#include "ir/text.hpp"
#include "ir/values.hpp"

namespace popart {
namespace {

constexpr int64_t kFillBudget = int64_t{1} << 30;  // bytes of equal values, over the whole text

// For a user op whose class infers its outputs in C++, only the text gives the types.
bool infersItself(const OpDef &def) {
  return !def.inferRule() && !def.outputs().empty() && def.outputs().front().arity == Arity::Variadic;
}

class Parser {
 public:
  // `find`: returns values that the text shows by hash; empty: the text must contain all values.
  explicit Parser(std::string_view text, FindValues find = {})
      : tokens_(tokenize(text)), find_(std::move(find)), ir_(std::make_unique<Ir>()) {}

  std::unique_ptr<Ir> run() {
    located([&] {
      while (peek().kind != Token::Kind::End) parseGraph();
    });
    inferAll();
    try {
      verify(*ir_);
    } catch (const internal_error &e) {
      throw error("IR text: {}", e.what());
    }
    return std::move(ir_);
  }

 private:
  // ---- tokens and errors ------------------------------------------------------------------------
  const Token &peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token &next() {
    const Token &t = peek();
    line_ = t.line;
    if (t.kind != Token::Kind::End) ++at_;
    return t;
  }
  bool isPunctuation(char c, size_t ahead = 0) const {
    return peek(ahead).kind == Token::Kind::Punctuation && peek(ahead).text[0] == c;
  }
  bool isWord(std::string_view word) const { return peek().kind == Token::Kind::Word && peek().text == word; }
  bool accept(char c) { return isPunctuation(c) && (next(), true); }
  bool acceptWord(std::string_view word) { return isWord(word) && (next(), true); }
  void expect(char c) {
    if (!accept(c)) unexpected("'" + std::string(1, c) + "'");
  }
  const Token &expect(Token::Kind kind, std::string_view what) {
    if (peek().kind != kind) unexpected(std::string(what));
    return next();
  }
  [[noreturn]] void unexpected(const std::string &expected) {
    const Token &t = next();
    throw error("got {}, expected {}",
                t.kind == Token::Kind::End ? "the end of the text" : "'" + std::string(t.text) + "'", expected);
  }
  // Runs `work`, and adds the line of the last token to its errors.
  template <class Work>
  void located(Work work) {
    try {
      work();
    } catch (const error &e) {
      throw error("IR text line {}: {}", line_, e.what());
    }
  }
  template <class Item>
  void parseList(char open, char close, Item item) {
    expect(open);
    if (accept(close)) return;
    do item();
    while (accept(','));
    expect(close);
  }

  // ---- values -----------------------------------------------------------------------------------
  std::vector<std::string_view> parseWords() {
    std::vector<std::string_view> words;
    parseList('[', ']', [&] { words.push_back(expect(Token::Kind::Word, "a number").text); });
    return words;
  }
  std::vector<int64_t> parseInts() {
    std::vector<int64_t> values;
    for (std::string_view word : parseWords()) values.push_back(intFromText(word));
    return values;
  }

  TensorInfo parseInfo() {
    const DataType type = dataTypeFromString(expect(Token::Kind::Word, "an element type").text);
    Shape shape = parseInts();
    if (!acceptWord("of")) return TensorInfo(type, shape);
    return TensorInfo(type, shape, parseInts());
  }

  TensorData parseValues(const TensorInfo &info) {
    if (acceptWord("hash")) return parseByHash(info);
    if (acceptWord("hex"))
      return valuesFromHex(info, expect(Token::Kind::String, "a string of hexadecimal digits").text);
    if (isPunctuation('[')) return valuesFromWords(info, parseWords());
    const TensorData data =
        valuesFilled(info, expect(Token::Kind::Word, "a number, a list or hex \"…\"").text, fillBudget_);
    fillBudget_ -= info.nelms() > 1 ? info.nbytes() : 0;
    return data;
  }

  TensorData parseByHash(const TensorInfo &info) {
    check(find_ != nullptr,
          "values were left out: this is a summary, which cannot be read. Print the program with PrintData::Full");
    const std::string_view digits = expect(Token::Kind::Word, "16 hexadecimal digits").text;
    uint64_t hash = 0;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), hash, 16);
    check(failure == std::errc() && end == digits.data() + digits.size(), "got '{}', expected 16 hexadecimal digits",
          digits);
    return find_(hash, info);
  }

  AttributeValue parseWordValue() {
    const std::string_view word = next().text;
    if (word == "tensor") {
      if (acceptWord("none")) return TensorData();
      const TensorInfo info = parseInfo();
      expect('=');
      return parseValues(info);
    }
    if (word == "f" && isPunctuation('[')) {
      std::vector<float> values;
      for (std::string_view w : parseWords()) values.push_back(floatFromText(w));
      return values;
    }
    if (word == "s" && isPunctuation('[')) {
      std::vector<std::string> values;
      parseList('[', ']', [&] { values.push_back(tokenText(expect(Token::Kind::String, "a string"))); });
      return values;
    }
    if (word.size() > 1 && word.back() == 'f') return floatFromText(word.substr(0, word.size() - 1));
    return intFromText(word);
  }

  AttributeValue parseAttributeValue() {
    switch (peek().kind) {
      case Token::Kind::String:
        return tokenText(next());
      case Token::Kind::GraphName:
        return GraphRef{tokenText(next())};
      case Token::Kind::Word:
        return parseWordValue();
      default:
        return parseInts();
    }
  }

  Attributes parseAttributes(char open, char close) {
    Attributes attributes;
    if (!isPunctuation(open)) return attributes;
    parseList(open, close, [&] {
      if (peek().kind != Token::Kind::String) {
        if (peek().kind != Token::Kind::Word) unexpected("a name");
      }
      const std::string name = tokenText(next());
      expect('=');
      check(!attributes.hasAttribute(name), "'{}' is given twice", name);
      check(attributes.entries().size() < 1000, "more than 1000 attributes");
      attributes.set(name, parseAttributeValue());
    });
    return attributes;
  }

  // ---- statements -------------------------------------------------------------------------------
  struct PendingOp {
    Op *op;
    int line;
    std::vector<std::optional<TensorId>> inputs;
  };

  void parseGraph() {
    if (acceptWord("main")) {
      check(!sawMain_, "the main graph is given twice");
      sawMain_ = true;
      graph_ = &ir_->getMainGraph();
    } else if (acceptWord("graph")) {
      graph_ = &ir_->createGraph(tokenText(expect(Token::Kind::GraphName, "a graph name like @name")));
    } else {
      unexpected("'main' or 'graph'");
    }
    pending_.clear();
    labels_.clear();
    orders_.clear();
    returned_.clear();
    expect('{');
    while (!accept('}')) parseStatement();
    connect();
  }

  void parseStatement() {
    TensorType type;
    if (peek().kind == Token::Kind::Word && !isPunctuation('(', 1)) {
      if (acceptWord("input")) return parseLeaf(true);
      if (acceptWord("order")) return parseOrder();
      if (acceptWord("return")) return parseReturn();
      if (tensorTypeFromText(peek().text, type)) return parseLeaf(false);
    }
    parseOp();
  }

  void parseLeaf(bool isInput) {
    TensorType type = TensorType::ActGrad;
    if (peek().kind == Token::Kind::Word) check(tensorTypeFromText(next().text, type), "unknown kind of tensor");
    const TensorId id = tokenText(expect(Token::Kind::TensorName, "a tensor name like %name"));
    expect(':');
    const TensorInfo info = parseInfo();
    const TensorIndex t = graph_->addTensor(id, info, type);
    applyTensorFacts(parseAttributes('<', '>'), graph_->tensor(t));
    if (isInput) graph_->markInput(t);
    if (!accept('=')) return;
    const TensorInfo dataInfo = acceptWord("as") ? parseInfo() : info;
    graph_->tensor(t).setTensorData(parseValues(dataInfo));
  }

  void parseOrder() {
    const std::string_view before = parseLabel();
    expect(',');
    orders_.push_back({line_, before, parseLabel()});
  }
  std::string_view parseLabel() {
    expect('#');
    return expect(Token::Kind::Word, "the label of an operator").text;
  }

  void parseReturn() {
    do returned_.emplace_back(line_, tokenText(expect(Token::Kind::TensorName, "a tensor name like %name")));
    while (accept(','));
  }

  struct Output {
    std::optional<TensorId> id;
    TensorInfo info;
    Attributes facts;
  };

  std::vector<Output> parseOutputs() {
    std::vector<Output> outputs;
    if (peek().kind != Token::Kind::TensorName && !isWord("_")) return outputs;
    do {
      Output &o = outputs.emplace_back();
      if (acceptWord("_")) continue;
      o.id = tokenText(expect(Token::Kind::TensorName, "a tensor name like %name"));
      if (accept(':')) o.info = parseInfo();
      o.facts = parseAttributes('<', '>');
    } while (accept(','));
    expect('=');
    return outputs;
  }

  const OpDef &parseType() {
    if (peek().kind != Token::Kind::Word && peek().kind != Token::Kind::String)
      unexpected("an operator or a declaration");
    const std::string type = tokenText(next());
    if (const OpDef *def = findOpDef(type)) return *def;
    std::vector<std::string> known;
    for (const OpDef *def : allOpDefs()) known.push_back(def->type());
    throw error("unknown operator '{}'{}", type, nearestText(type, known, "known operators"));
  }

  void parseOp() {
    const std::string_view label = isPunctuation('#') ? parseLabel() : std::string_view();
    const std::vector<Output> outputs = parseOutputs();
    const OpDef &def = parseType();
    PendingOp pending{nullptr, line_, {}};
    parseList('(', ')', [&] {
      if (acceptWord("_")) return pending.inputs.emplace_back(), void();
      pending.inputs.emplace_back(tokenText(expect(Token::Kind::TensorName, "a tensor name like %name, or _")));
    });
    Attributes attributes = parseAttributes('{', '}');
    Op::Settings settings(*graph_);
    applySettingsFacts(parseAttributes('<', '>'), settings);
    pending.op = graph_->addOp(def, std::move(attributes), settings);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].id) continue;
      const TensorIndex t = graph_->createOutput(pending.op->index(), static_cast<OutIndex>(i), *outputs[i].id);
      graph_->tensor(t).info = outputs[i].info;
      applyTensorFacts(outputs[i].facts, graph_->tensor(t));
    }
    if (!label.empty()) check(labels_.emplace(label, pending.op->index()).second, "label '#{}' is given twice", label);
    pending_.push_back(std::move(pending));
  }

  // ---- end of a graph ---------------------------------------------------------------------------
  OpIndex labelled(std::string_view label) const {
    const auto it = labels_.find(label);
    check(it != labels_.end(), "no operator has the label '#{}'", label);
    return it->second;
  }

  void connect() {
    for (const PendingOp &p : pending_) {
      line_ = p.line;
      lines_[p.op] = p.line;
      for (size_t i = 0; i < p.inputs.size(); ++i)
        if (p.inputs[i])
          graph_->connectInput(p.op->index(), static_cast<InIndex>(i), graph_->getTensor(*p.inputs[i])->index());
    }
    for (const auto &[line, before, after] : orders_) {
      line_ = line;
      const OpIndex first = labelled(before);
      graph_->addConstraint(first, labelled(after));
    }
    for (const auto &[line, id] : returned_) {
      line_ = line;
      graph_->markOutput(graph_->getTensor(id)->index());
    }
  }

  void inferAll() {
    for (auto &[op, line] : lines_)
      for (const auto &[name, value] : op->attributes().entries())
        if (const auto *ref = std::get_if<GraphRef>(&value); ref && !ir_->hasGraph(ref->id))
          throw error("IR text line {}: {}: there is no graph '{}'", line, op->debugName(), ref->id);
    const std::vector<Graph *> graphs = calleesFirst(*ir_);
    check(graphs.size() == ir_->getAllGraphs().size(), "IR text: a graph calls itself, directly or through others");
    for (Graph *g : graphs) {
      const std::vector<Op *> ops = dataOrder(*g);
      check(ops.size() == g->opCount(), "IR text: {} has a cycle", g->getGraphString());
      for (Op *op : ops) {
        line_ = lines_.at(op);
        located([&] { infer(*op); });
      }
    }
  }

  void infer(Op &op) {
    std::vector<TensorInfo> stated;
    for (int i = 0; i < op.outputCount(); ++i) stated.push_back(op.hasOutput(i) ? op.outInfo(i) : TensorInfo());
    if (!infersItself(op.def())) op.setup();
    for (int i = 0; i < op.outputCount(); ++i) {
      if (!op.hasOutput(i)) continue;
      const TensorInfo &found = op.outInfo(i);
      check(found.isSet(), "{}: type and shape of output '{}' cannot be inferred. State them", op.debugName(),
            op.outId(i));
      if (!stated[i].isSet()) continue;
      check(found.dataType() == stated[i].dataType() && found.shape() == stated[i].shape(),
            "{}: output '{}' has another type or shape than stated: got {}, expected {}", op.debugName(), op.outId(i),
            stated[i], found);
      op.outInfo(i) = stated[i];
    }
  }

  struct Order {
    int line;
    std::string_view before, after;
  };

  const std::vector<Token> tokens_;
  const FindValues find_;
  size_t at_ = 0;
  int line_ = 1;
  int64_t fillBudget_ = kFillBudget;
  std::unique_ptr<Ir> ir_;
  bool sawMain_ = false;
  std::unordered_map<const Op *, int> lines_;
  Graph *graph_ = nullptr;
  std::vector<PendingOp> pending_;
  std::unordered_map<std::string_view, OpIndex> labels_;
  std::vector<Order> orders_;
  std::vector<std::pair<int, TensorId>> returned_;
};

}  // namespace

std::unique_ptr<Ir> parseIr(std::string_view text) { return Parser(text).run(); }

std::unique_ptr<Ir> parseWithTable(std::string_view text, const FindValues &find) { return Parser(text, find).run(); }

}  // namespace popart

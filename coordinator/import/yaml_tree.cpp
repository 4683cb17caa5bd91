#include "coordinator/import/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <istream>
#include <streambuf>
#include <utility>

namespace heddle {
namespace {

// Reads the text where it lies; std::istringstream would copy it.
class ViewBuffer : public std::streambuf {
 public:
  explicit ViewBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());  // get area only: never written through
    setg(begin, begin, begin + text.size());
  }
};

// Builds the tree from the parser's events. Stops the parser, where it must, by the parser's own
// exception.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const YamlLimits& limits) : limits_(limits) {}

  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(mark, anchor, YamlNode::Kind::null);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw YAML::ParserException(mark, "aliases are not allowed here");
  }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                const std::string& value) override {
    add(mark, anchor, YamlNode::Kind::scalar).text = value;
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, add(mark, anchor, YamlNode::Kind::sequence));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, add(mark, anchor, YamlNode::Kind::map));
  }
  void OnMapEnd() override { close(); }

 private:
  YamlNode& add(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode::Kind kind) {
    if (anchor != 0)
      throw YAML::ParserException(mark, "anchors are not allowed here");
    if (++nodes_ > limits_.nodes)
      throw YAML::ParserException(mark, "too many values");
    YamlNode node{.kind = kind, .line = mark.line + 1, .text = {}, .items = {}};
    if (open_.empty()) {
      root_ = std::move(node);
      return root_;
    }
    YamlNode& parent = *open_.back();
    // The parser notices an absent value only at what follows it, perhaps lines later: its key
    // knows better.
    if (kind == YamlNode::Kind::null && parent.kind == YamlNode::Kind::map &&
        parent.items.size() % 2 == 1)
      node.line = parent.items.back().line;
    return parent.items.emplace_back(std::move(node));
  }
  // The pointers stay valid: only the innermost open node's items grow, and none of them is open.
  void open(const YAML::Mark& mark, YamlNode& node) {
    if (open_.size() >= limits_.depth)
      throw YAML::ParserException(mark, "nested too deeply");
    open_.push_back(&node);
  }
  void close() { open_.pop_back(); }

  const YamlLimits limits_;
  std::size_t nodes_{};
  YamlNode root_;
  std::vector<YamlNode*> open_;
};

}  // namespace

tl::expected<YamlNode, Mistake> parse_yaml(std::string_view text, YamlLimits limits) {
  if (text.size() > limits.bytes)
    return tl::unexpected(Mistake{
        0, fmt::format("{} bytes are more than the {} that are read", text.size(), limits.bytes)});
  try {
    ViewBuffer buffer(text);
    std::istream stream(&buffer);
    YAML::Parser parser(stream);
    TreeBuilder tree(limits);
    if (!parser.HandleNextDocument(tree))
      return tl::unexpected(Mistake{0, "the file is empty"});
    YamlNode root = tree.take();
    TreeBuilder second(limits);
    if (parser.HandleNextDocument(second))
      return tl::unexpected(
          Mistake{second.take().line, "a second document; one file is one document"});
    return root;
  } catch (const YAML::Exception& error) {
    const int line = error.mark.is_null() ? 0 : error.mark.line + 1;
    return tl::unexpected(Mistake{line, fmt::format("not valid YAML: {}", error.msg)});
  } catch (const std::exception& error) {
    // yaml-cpp lets a few of the standard library's own through, std::bad_alloc among them.
    return tl::unexpected(Mistake{0, fmt::format("cannot be read as YAML: {}", error.what())});
  }
}

}  // namespace heddle

// The keys of one YAML map, read with every mistake noted and never more than once: a wrong kind of
// value, an unknown key, a key given twice, a required key that is missing, a name that could not
// be told from others where it is printed. Refers to the tree and to the list of mistakes; lives
// within one parse.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/units.h"
#include "coordinator/import/yaml_tree.h"

namespace heddle {

class Fields {
 public:
  // `what` names the map in messages: "a leaf". A null or another kind of node is a mistake and has
  // no keys.
  Fields(const YamlNode& node, std::string_view what, std::vector<std::string_view> known,
         std::vector<Mistake>& mistakes);

  int line() const { return node_.line; }
  bool is_map() const { return node_.kind == YamlNode::Kind::map; }

  // Nothing if the value is absent or wrong; a mistake is noted then, save that an absent
  // optional one is none and is empty.
  std::optional<std::string> text(std::string_view key) const;
  std::optional<std::string> name(std::string_view key) const;  // node, rack and job names
  std::optional<std::string> optional_name(std::string_view key) const;
  std::optional<std::string> port(std::string_view key) const;           // an interface's name
  std::optional<std::string> optional_port(std::string_view key) const;  // likewise
  std::optional<Rate> capacity(std::string_view key) const;
  // Calls `each` for the items of a list. False, with a mistake, if the key is absent or no list.
  bool list(std::string_view key, const std::function<void(const YamlNode&)>& each) const;

 private:
  const YamlNode* find(std::string_view key) const;
  const YamlNode* require(std::string_view key) const;
  void note(int line, std::string message) const;

  const YamlNode& node_;
  std::string_view what_;
  std::vector<Mistake>& mistakes_;
};

// Why a text is no name, or empty: 1 to 64 of letters, digits, '.', '_' and '-', because "/", ">",
// "#" and blanks separate names where links and flows are printed.
std::string name_fault(std::string_view text);

}  // namespace heddle

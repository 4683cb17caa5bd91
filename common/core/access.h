// What a key that may connect may do. A value; any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace heddle {

enum class KeyRole : std::uint8_t {
  unstated,      // by the layout of earlier versions: a node's key is its agent's, any other an
                 // operator's
  agent_key,     // speaks for the node of its name, and gives no command
  viewer_key,    // may ask everything and change nothing
  operator_key,  // may ask and change everything
};

constexpr std::string_view to_string(KeyRole role) {
  switch (role) {
    case KeyRole::agent_key:
      return "agent";
    case KeyRole::viewer_key:
      return "viewer";
    case KeyRole::operator_key:
      return "operator";
    case KeyRole::unstated:
      break;
  }
  return "unstated";
}

}  // namespace heddle

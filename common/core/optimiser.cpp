#include "common/core/optimiser.h"

#include <array>

#include "common/core/optimiser_schemes.h"

namespace heddle {
namespace {

struct Scheme {
  std::string_view name;
  std::unique_ptr<Optimiser> (*make)();
};

constexpr std::array kSchemes{
    Scheme{"ecmp", make_ecmp},
    Scheme{"greedy", make_greedy},
    Scheme{"edge-colouring", make_edge_colouring},
    Scheme{"annealing", make_annealing},
    Scheme{"heddle", make_heddle},
};

}  // namespace

std::unique_ptr<Optimiser> make_optimiser(std::string_view name) {
  for (const Scheme& scheme : kSchemes)
    if (scheme.name == name)
      return scheme.make();
  return nullptr;
}

std::vector<std::string_view> optimiser_names() {
  std::vector<std::string_view> names;
  for (const Scheme& scheme : kSchemes)
    names.push_back(scheme.name);
  return names;
}

}  // namespace heddle

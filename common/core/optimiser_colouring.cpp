#include "common/core/optimiser_colouring.h"

#include <algorithm>
#include <numeric>

#include "common/core/colouring.h"
#include "common/core/optimiser_counts.h"
#include "common/core/optimiser_schemes.h"

namespace heddle {
namespace {

// A colour: one spine and, where leaves have parallel cables to it, which of them.
struct Lane {
  SpineId spine;
  std::uint32_t cable{};
};

// The lanes that some leaf can send by and some leaf be reached by.
std::vector<Lane> live_lanes(const Model& model) {
  const std::size_t spines = model.topology().spines().size();
  std::vector<std::uint32_t> cables(spines, 0);
  std::vector<bool> reaches(spines, false);
  std::vector<std::uint32_t> own(spines);
  for (std::uint32_t l = 0; l < model.topology().leaves().size(); ++l) {
    std::ranges::fill(own, 0);
    for (const Model::Uplink& up : model.uplinks({l}))
      ++own[up.spine.value];
    for (std::uint32_t s = 0; s < spines; ++s) {
      cables[s] = std::max(cables[s], own[s]);
      reaches[s] = reaches[s] || model.resources()[model.downlinks({s}, {l}).value].lanes > 0;
    }
  }
  std::vector<Lane> lanes;
  for (std::uint32_t s = 0; s < spines; ++s)
    for (std::uint32_t c = 0; reaches[s] && c < cables[s]; ++c)
      lanes.push_back({.spine = {s}, .cable = c});
  return lanes;
}

// The lane's cable at that leaf; invalid if the leaf has fewer cables to the spine.
CableId cable_of(const Model& model, LeafId leaf, const Lane& lane) {
  const auto ups = model.uplinks(leaf);
  const auto first = std::ranges::lower_bound(ups, lane.spine, {}, &Model::Uplink::spine);
  const auto place = static_cast<std::size_t>(first - ups.begin()) + lane.cable;
  return place < ups.size() && ups[place].spine == lane.spine ? ups[place].cable : CableId{};
}

// Units of NICs with several attachments take turns.
std::uint32_t way_of(const Model::Unit& unit, std::uint32_t u) {
  return unit.first_way + u % (unit.end_way - unit.first_way);
}

// Koenig's bound holds for units of one size with nothing but themselves on the links.
bool is_exact(const Model& model) {
  const auto units = model.units();
  const auto same = [&](const Model::Unit& unit) {
    return unit.size() == units.front().size() && unit.end_way - unit.first_way == 1;
  };
  return std::ranges::all_of(units, same) &&
         std::ranges::all_of(model.resources(), [](const auto& r) { return r.fixed == 0; });
}

}  // namespace

bool colour_some(const Model& model, std::span<const std::uint32_t> chosen,
                 std::vector<Model::Choice>& choices) {
  if (chosen.empty())
    return true;
  const std::vector<Lane> lanes = live_lanes(model);
  const auto units = model.units();
  std::vector<ColourEdge> edges;
  edges.reserve(chosen.size());
  for (const std::uint32_t u : chosen) {
    const Model::Way& way = model.ways()[way_of(units[u], u)];
    edges.push_back({.left = way.from_leaf.value, .right = way.to_leaf.value});
  }
  // A unit has a live path, so there is a lane.
  const auto leaves = static_cast<std::uint32_t>(model.topology().leaves().size());
  const std::vector<std::uint32_t> colours =
      colour_edges(edges, leaves, leaves, static_cast<std::uint32_t>(lanes.size()));

  std::vector<CableId> cables(leaves * lanes.size());
  for (std::uint32_t l = 0; l < leaves; ++l)
    for (std::size_t c = 0; c < lanes.size(); ++c)
      cables[l * lanes.size() + c] = cable_of(model, {l}, lanes[c]);
  std::vector<std::uint32_t> left_over;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const std::uint32_t u = chosen[i];
    const Model::Choice choice{.way = way_of(units[u], u),
                               .up = cables[edges[i].left * lanes.size() + colours[i]]};
    if (!choice.placed() || !model.allows(units[u], choice)) {
      choices[u] = {};
      left_over.push_back(u);
      continue;
    }
    choices[u] = choice;
  }
  if (left_over.empty())
    return true;
  LinkCounts counts(model);
  for (const std::uint32_t u : chosen)
    if (choices[u].placed())
      counts.add(choices[u], units[u].size());
  for (const std::uint32_t u : left_over) {
    choices[u] = counts.least_busy(units[u]);
    counts.add(choices[u], units[u].size());
  }
  return false;
}

ColouredUnits colour_units(const Model& model) {
  ColouredUnits result;
  result.choices.resize(model.units().size());
  std::vector<std::uint32_t> all(model.units().size());
  std::iota(all.begin(), all.end(), 0U);
  result.exact = colour_some(model, all, result.choices) && is_exact(model);
  return result;
}

namespace {

class EdgeColouring final : public Optimiser {
 public:
  std::string_view name() const override { return "edge-colouring"; }

  Placement place(const Problem& problem, std::uint64_t) const override {
    const Model model(problem);
    const ColouredUnits coloured = colour_units(model);
    Placement placement = model.place(coloured.choices);
    placement.proven = coloured.exact;
    return placement;
  }
};

}  // namespace

std::unique_ptr<Optimiser> make_edge_colouring() {
  return std::make_unique<EdgeColouring>();
}

}  // namespace heddle

// A problem made ready for placing: which units are ours, which ways each has, what is loaded
// already. Every scheme starts from this, so that all judge dead links, forbidden paths, units and
// fixed flows alike. Pure values; the problem must outlive its model.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/core/optimiser.h"

namespace heddle {

// What a choice loads: an uplink (one cable), and a bundle of parallel downlinks, over which the
// spine hashes.
using ResourceId = Index<struct ResourceTag>;

class Model {
 public:
  struct Uplink {
    CableId cable;
    SpineId spine;
  };
  // A pair of attachments by which a unit can enter and leave the core. Those of its first subflow;
  // the others use their own NIC's on the same leaves.
  struct Way {
    AttachmentId from;
    AttachmentId to;
    LeafId from_leaf;
    LeafId to_leaf;
    std::uint32_t uplinks{FlowWay::kEveryUplink};  // the set that it may take, as in the problem
  };
  // Subflows that one pin moves together. members(): their numbers, ascending.
  struct Unit {
    std::uint32_t first_member{};
    std::uint32_t end_member{};
    std::uint32_t first_way{};
    std::uint32_t end_way{};
    std::uint32_t size() const { return end_member - first_member; }
  };
  struct Choice {
    std::uint32_t way{};  // index into ways(); meaningless without a cable
    CableId up;           // invalid: not placed
    bool placed() const { return up.valid(); }
    bool operator==(const Choice&) const = default;
  };
  struct Resource {
    double
        capacity{};  // bits per second after residual load; of a bundle, what hashing lets it carry
    std::uint32_t lanes{};  // live cables; 0: never to be used
    std::uint32_t fixed{};  // subflows on it that are not ours to place
  };

  explicit Model(const Problem& problem);

  const Problem& problem() const { return problem_; }
  const Topology& topology() const { return *problem_.topology; }
  std::span<const Unit> units() const { return units_; }
  std::span<const std::uint32_t> members(const Unit& unit) const {
    return std::span(members_).subspan(unit.first_member, unit.size());
  }
  std::span<const Way> ways() const { return ways_; }
  // The flow that a subflow belongs to, and which of its queue pairs it is.
  std::uint32_t flow_of(std::uint32_t subflow) const { return flow_of_[subflow]; }
  std::uint32_t queue_pair_of(std::uint32_t subflow) const {
    return subflow - first_subflow_[flow_of_[subflow]];
  }
  const FlowDemand& demand_of(std::uint32_t subflow) const {
    return problem_.demand.flows[flow_of_[subflow]];
  }
  bool is_fixed(std::uint32_t subflow) const {
    return !problem_.fixed.empty() && problem_.fixed[subflow];
  }

  // Live uplinks of a leaf, by spine, then in the order of the description.
  std::span<const Uplink> uplinks(LeafId leaf) const { return uplinks_[leaf.value]; }
  std::span<const Uplink> uplinks(LeafId leaf, SpineId spine) const {
    const std::size_t first = leaf.value * (topology().spines().size() + 1) + spine.value;
    return uplinks(leaf).subspan(first_uplink_[first],
                                 first_uplink_[first + 1] - first_uplink_[first]);
  }
  std::span<const Resource> resources() const { return resources_; }
  ResourceId uplink(CableId cable) const { return {cable.value}; }
  ResourceId downlinks(SpineId spine, LeafId leaf) const {
    return {static_cast<std::uint32_t>(spine_of_.size() + leaf.value * topology().spines().size() +
                                       spine.value)};
  }
  ResourceId downlinks(const Choice& choice) const {
    return downlinks(spine_of(choice.up), ways_[choice.way].to_leaf);
  }
  SpineId spine_of(CableId cable) const { return spine_of_[cable.value]; }
  // Whether an uplink leads to that leaf: alive on both sides and not forbidden.
  bool leads(LeafId from, const Uplink& uplink, LeafId to) const {
    return resources_[downlinks(uplink.spine, to).value].lanes > 0 &&
           (problem_.forbidden.empty() || !forbidden(from, uplink.cable, to));
  }
  // Whether what steers a unit can lead it to that uplink.
  bool reaches(const Way& way, CableId up) const {
    return way.uplinks == FlowWay::kEveryUplink ||
           problem_.uplink_sets[way.uplinks].cables[up.value];
  }

  // Calls visit(Choice, up, down) for each choice that a unit has, with what it loads; at least
  // once.
  template <class Visit>
  void for_each_choice(const Unit& unit, Visit visit) const {
    for (std::uint32_t w = unit.first_way; w < unit.end_way; ++w) {
      const ResourceId first = downlinks(SpineId{0}, ways_[w].to_leaf);
      for (const Uplink& up : uplinks(ways_[w].from_leaf)) {
        const ResourceId down{first.value + up.spine.value};
        if (resources_[down.value].lanes > 0 && reaches(ways_[w], up.cable) &&
            (problem_.forbidden.empty() ||
             !forbidden(ways_[w].from_leaf, up.cable, ways_[w].to_leaf)))
          visit(Choice{.way = w, .up = up.cable}, uplink(up.cable), down);
      }
    }
  }
  // The same, for the choices over one spine only.
  template <class Visit>
  void for_each_choice_over(SpineId spine, const Unit& unit, Visit visit) const {
    for (std::uint32_t w = unit.first_way; w < unit.end_way; ++w)
      for (const Uplink& up : uplinks(ways_[w].from_leaf, spine))
        if (leads(ways_[w].from_leaf, up, ways_[w].to_leaf) && reaches(ways_[w], up.cable))
          visit(Choice{.way = w, .up = up.cable});
  }
  bool allows(const Unit& unit, const Choice& choice) const;
  // Where the unit runs now, if that is one of its choices.
  Choice current(const Unit& unit) const;

  Path path(const Unit& unit, std::uint32_t subflow, const Choice& choice) const;
  std::uint32_t subflows() const { return static_cast<std::uint32_t>(flow_of_.size()); }
  // What is placed already: fixed subflows where they run, then those that need no core.
  struct Placed {
    std::uint32_t subflow{};
    Path path;
  };
  std::span<const Placed> placed() const { return placed_; }
  Routing base() const;
  // The whole routing for one choice per unit.
  Routing routing(std::span<const Choice> choices) const;
  // The placement: routing, moves with their reasons, notes.
  Placement place(std::span<const Choice> choices) const;
  Placement place(Routing routing) const;

 private:
  void number_subflows();
  void find_resources();
  void load_fixed();
  void find_units();
  void find_ways(std::uint32_t subflow, std::vector<Way>& ways) const;
  std::string why_unplaced(std::uint32_t subflow) const;
  void make_unit(std::span<const std::uint32_t> members);
  bool forbidden(LeafId from, CableId up, LeafId to) const;
  AttachmentId live_attachment(NicId nic, LeafId leaf, bool sending) const;
  // The flow's own way, if it has no choice of attachments.
  const FlowWay* way_of(std::uint32_t subflow) const {
    return problem_.ways.empty() ? nullptr : &problem_.ways[flow_of_[subflow]];
  }
  std::string nic_name(NicId nic) const;
  void note(const std::string& text, std::size_t subflows) { notes_[text] += subflows; }

  const Problem& problem_;
  std::vector<std::uint32_t> flow_of_;
  std::vector<std::uint32_t> first_subflow_;  // by flow
  std::vector<SpineId> spine_of_;             // by cable
  std::vector<std::vector<Uplink>> uplinks_;
  std::vector<std::uint32_t>
      first_uplink_;  // by leaf and spine, and each leaf's end: place in uplinks_
  std::vector<Resource> resources_;
  std::vector<Unit> units_;
  std::vector<std::uint32_t> members_;
  std::vector<Way> ways_;
  // While units are made: the flow that was looked at last, its ways, and the unit before if it has
  // just these.
  std::uint32_t flow_in_hand_{~0U};
  std::vector<Way> ways_in_hand_;
  Unit unit_in_hand_;
  std::vector<Placed> placed_;
  std::map<std::string, std::size_t>
      notes_;  // what could not be placed, and how many subflows that holds for
};

// The moves from one routing to another, unit by unit, each with its reason; see optimiser.h.
std::vector<Move> list_moves(const Model& model, const Routing& from, const Routing& to);

}  // namespace heddle

// SPDX-License-Identifier: Apache-2.0
#include "align/vote.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "tolerance/tolerances.h"

namespace firstlight::align {
namespace {

// How much further from the group one layer may take an error without adding to it. Growth over whole models is below
// 1.5 per layer (Comparison::growth_per_layer); first layers, whose stream is small, were seen to reach 3.
constexpr double kGrowth = 4;

using TokenLists = std::set<std::vector<int32_t>>;

std::string origin_of(const Pack& pack, const char* key) {
  const auto found = pack.origin.find(key);
  return found == pack.origin.end() ? "" : found->second;
}

std::string describe(const Pack& pack) {
  std::string out = origin_of(pack, "kind");
  for (const char* key : {"transformers", "class", "engine", "backend", "compute", "dtype"}) {
    const std::string word = origin_of(pack, key);
    if (!word.empty() && word != "auto") out += (out.empty() ? "" : ", ") + word;
  }
  if (pack.taps.size() == 1) out += ", " + pack.taps[0].name + " alone";
  return out;
}

// What two recordings share when a fault of one is a fault of the other.
std::string code_of(const Pack& pack) {
  if (!pack.spec_hash.empty()) return "graph " + pack.spec_hash;
  const std::string name = origin_of(pack, "class");
  return name.empty() ? "" : origin_of(pack, "kind") + " " + name;
}

Status check_voters(const std::vector<Voter>& voters) {
  if (voters.size() < 2 || voters.size() > kMostVoters) {
    return invalid_argument(std::to_string(voters.size()) + " recordings, 2 to " + std::to_string(kMostVoters) +
                            " wanted");
  }
  std::set<std::string> names;
  for (const Voter& voter : voters) {
    FL_TRY(check_is_whole(voter.pack).with_context(voter.name));
    if (!names.insert(voter.name).second) return invalid_argument("two voters are called " + voter.name);
  }
  return ok_status();
}

// Prompts that all have; what is left out is noted.
Result<TokenLists> common_prompts(const std::vector<Voter>& voters, std::vector<std::string>& notes) {
  TokenLists common;
  for (const PromptRecord& prompt : voters[0].pack.prompts) common.insert(prompt.tokens);
  for (const Voter& voter : voters) {
    TokenLists own, both;
    for (const PromptRecord& prompt : voter.pack.prompts) own.insert(prompt.tokens);
    std::set_intersection(common.begin(), common.end(), own.begin(), own.end(), std::inserter(both, both.end()));
    if (both.empty()) return invalid_argument(voter.name + " has none of the prompts of " + voters[0].name);
    common = std::move(both);
  }
  for (const Voter& voter : voters) {
    const size_t extra = voter.pack.prompts.size() - std::min(common.size(), voter.pack.prompts.size());
    if (extra > 0) notes.push_back(voter.name + ": " + std::to_string(extra) + " prompts that not all have left out");
  }
  return common;
}

// All names, in an order that each recording's own order agrees with: the longest first, the others' names behind the
// one that goes before them there.
std::vector<std::string> merged_names(const std::vector<Voter>& voters) {
  std::vector<const Pack*> packs;
  for (const Voter& voter : voters) packs.push_back(&voter.pack);
  std::stable_sort(packs.begin(), packs.end(),
                   [](const Pack* a, const Pack* b) { return a->taps.size() > b->taps.size(); });
  std::vector<std::string> names;
  for (const Pack* pack : packs) {
    auto place = names.begin();
    for (const TapInfo& tap : pack->taps) {
      const auto found = std::find(names.begin(), names.end(), tap.name);
      place = found != names.end() ? found + 1 : names.insert(place, tap.name) + 1;
    }
  }
  return names;
}

double distance_to(const VoteValue& value, size_t a, size_t b) {
  const VotePair* pair = a == b ? nullptr : value.pair(a, b);
  return pair == nullptr ? 0 : pair->size(value.info.is_integer);
}

class Voting {
 public:
  Voting(const std::vector<Voter>& voters, const TokenLists& prompts) : voters_(voters) {
    for (size_t a = 0; a < voters.size(); ++a) {
      for (size_t b = a + 1; b < voters.size(); ++b)
        pairs_.push_back({a, b, {voters[a].pack, voters[b].pack, &prompts}});
      rounding_.push_back(rounding_of(voters[a].pack));
    }
  }

  Result<VoteResult> run(VoteResult out) {
    std::set<std::string> layers;
    for (const Voter& voter : voters_)
      num_layers_ = std::max(num_layers_, static_cast<int64_t>(std::atoll(origin_of(voter.pack, "layers").c_str())));
    for (const std::string& name : merged_names(voters_)) {
      const auto value = vote_on(name, layers, out);
      if (value) out.values.push_back(*value);
    }
    for (size_t v = 0; v < voters_.size(); ++v) {
      const auto has = [&](const VoteValue& value) {
        return std::count(value.voters.begin(), value.voters.end(), v) > 0;
      };
      if (std::none_of(out.values.begin(), out.values.end(), has)) {
        return invalid_argument(voters_[v].name + " has no value in common with the others");
      }
    }
    for (size_t i = 0; i < out.values.size(); ++i) {
      if (out.values[i].verdict == Verdict::kNoMajority && !out.first_open) out.first_open = i;
    }
    find_outliers(out);
    for (const Side& side : pairs_) {
      const auto a = find_tap(voters_[side.a].pack, "logits"), b = find_tap(voters_[side.b].pack, "logits");
      if (a && b && side.pair.counterpart(*a)) out.logits.push_back({side.a, side.b, side.pair.logits(a, b)});
    }
    for (const auto& [v, found] : other_shapes_) {
      out.notes.push_back(voters_[v].name + ": " + std::to_string(found.first) +
                          " values of another shape not voted on (" + found.second + ")");
    }
    out.prompts = static_cast<int64_t>(pairs_[0].pair.prompts().size());
    out.rounding = rounding_;
    return out;
  }

 private:
  struct Side {
    size_t a = 0, b = 0;
    PackPair pair;
  };

  // Those whose shape of it most have.
  std::vector<size_t> voters_on(const std::string& name) {
    std::map<std::pair<int64_t, int64_t>, std::vector<size_t>> by_shape;
    for (size_t v = 0; v < voters_.size(); ++v) {
      const auto tap = find_tap(voters_[v].pack, name);
      if (!tap) continue;
      const TapInfo& info = voters_[v].pack.taps[*tap];
      by_shape[{info.width, info.rate}].push_back(v);
    }
    const auto most = std::max_element(by_shape.begin(), by_shape.end(),
                                       [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    for (const auto& [shape, who] : by_shape) {
      if (shape == most->first) continue;
      for (const size_t v : who) {
        auto& [count, example] = other_shapes_[v];
        ++count;
        if (!example.empty()) continue;
        example = name + ", " + std::to_string(shape.first) + " numbers per row, others have " +
                  std::to_string(most->first.first);
      }
    }
    return most->second;
  }

  std::optional<VoteValue> vote_on(const std::string& name, std::set<std::string>& layers, VoteResult& out) {
    VoteValue value;
    value.voters = voters_on(name);
    const Pack& first = voters_[value.voters[0]].pack;
    value.info = first.taps[*find_tap(first, name)];
    for (const size_t v : value.voters) {  // who knows more of it than a list of logits does
      const TapInfo& info = voters_[v].pack.taps[*find_tap(voters_[v].pack, name)];
      if (value.info.op.empty()) value.info = info;
      value.info.is_layer_output = value.info.is_layer_output || info.is_layer_output;
    }
    layers.insert(value.info.layer);
    if (value.voters.size() < 2) {
      ++out.not_voted;
      return std::nullopt;
    }
    const auto depth = name == "logits" ? std::max<int64_t>(static_cast<int64_t>(layers.size()), num_layers_)
                                        : static_cast<int64_t>(layers.size());
    for (Side& side : pairs_) {
      const auto a = find_tap(voters_[side.a].pack, name);
      const auto b = a ? side.pair.counterpart(*a) : std::nullopt;
      if (!b) continue;
      VotePair pair{.a = side.a, .b = side.b, .found = side.pair.distance(*a, *b)};
      const double noise = std::max(voters_[side.a].pack.taps[*a].noise, voters_[side.b].pack.taps[*b].noise);
      judge(value.info.is_integer, depth, noise, pair);
      if (value.info.is_integer && !pair.agree) side.pair.forget_turned();
      if (pair.found.rows > 0 || !pair.found.finite) value.pairs.push_back(std::move(pair));
    }
    std::erase_if(value.voters, [&](size_t v) {  // sketches of another seed, and no whole row in common
      return std::none_of(value.pairs.begin(), value.pairs.end(),
                          [&](const VotePair& p) { return p.a == v || p.b == v; });
    });
    if (value.voters.size() < 2) {
      ++out.not_voted;
      return std::nullopt;
    }
    find_group(value);
    return value;
  }

  void judge(bool integer, int64_t depth, double noise, VotePair& pair) const {
    const PackRounding &a = rounding_[pair.a], &b = rounding_[pair.b];
    if (integer) {
      pair.allowed = a.is_float32() && b.is_float32() ? 0 : tolerance::kTurnedRows;
    } else {
      pair.allowed = allowed_distance(a, b, depth, noise);
    }
    pair.agree = pair.found.finite && pair.size(integer) <= pair.allowed;  // false for NaN
  }

  // The largest set of voters of which every two agree, by trying all: there are few.
  void find_group(VoteValue& value) const {
    const size_t n = value.voters.size();
    std::vector<uint32_t> agrees(n, 0);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        const VotePair* pair = value.pair(value.voters[i], value.voters[j]);
        if (i == j || (pair != nullptr && pair->agree)) agrees[i] |= 1u << j;
      }
    }
    uint32_t best = 1;
    int largest = 1, ways = 0;
    for (uint32_t set = 1; set < 1u << n; ++set) {
      const int size = std::popcount(set);
      bool agreed = size >= largest;
      for (size_t i = 0; agreed && i < n; ++i) agreed = (set >> i & 1) == 0 || (set & ~agrees[i]) == 0;
      if (!agreed) continue;
      ways = size > largest ? 1 : ways + 1;
      largest = size;
      best = set;
    }
    const bool majority = ways == 1 && 2 * static_cast<size_t>(largest) > n;
    value.verdict = !majority                           ? Verdict::kNoMajority
                    : static_cast<size_t>(largest) == n ? Verdict::kAgreed
                                                        : Verdict::kMajority;
    for (size_t i = 0; majority && i < n; ++i) {
      ((best >> i & 1) != 0 ? value.group : value.outliers).push_back(value.voters[i]);
    }
    const auto& among = majority ? value.group : value.voters;
    const auto spread = [&](size_t v) {
      double sum = 0;
      for (const size_t other : among) sum += distance_to(value, v, other);
      return sum;
    };
    value.centre =
        *std::min_element(among.begin(), among.end(), [&](size_t a, size_t b) { return spread(a) < spread(b); });
  }

  void find_outliers(VoteResult& out) const {
    std::set<size_t> known;
    std::map<size_t, size_t> last_agreed;
    for (size_t i = 0; i < out.values.size(); ++i) {
      const VoteValue& value = out.values[i];
      for (const size_t v : value.outliers) {
        if (!known.insert(v).second) continue;
        Outlier outlier{.voter = v, .first = i, .distance = distance_to(value, v, value.centre)};
        if (const auto last = last_agreed.find(v); last != last_agreed.end()) outlier.last_agreed = last->second;
        if (const VotePair* pair = value.pair(v, value.centre)) outlier.allowed = pair->allowed;
        for (const size_t other : value.outliers) {
          const VotePair* pair = other == v ? nullptr : value.pair(v, other);
          if (pair != nullptr && pair->agree) outlier.together.push_back(other);
        }
        add_later(out, outlier);
        out.outliers.push_back(std::move(outlier));
      }
      for (const size_t v : value.group) last_agreed[v] = i;
    }
  }

  static void add_later(const VoteResult& out, Outlier& outlier) {
    double before = outlier.distance;
    for (size_t i = outlier.first + 1; i < out.values.size(); ++i) {
      const VoteValue& value = out.values[i];
      const bool station = value.info.is_layer_output || value.info.name == "logits";
      const auto& who = value.voters;
      if (!station || value.group.empty() || std::count(who.begin(), who.end(), outlier.voter) == 0) continue;
      LaterValue later{.value = i, .distance = distance_to(value, outlier.voter, value.centre)};
      later.outside = std::count(value.outliers.begin(), value.outliers.end(), outlier.voter) > 0;
      later.inherits = later.outside && later.distance <= kGrowth * before;
      before = later.distance;
      outlier.later.push_back(later);
    }
  }

  const std::vector<Voter>& voters_;
  std::vector<Side> pairs_;
  std::vector<PackRounding> rounding_;
  std::map<size_t, std::pair<int64_t, std::string>> other_shapes_;  // per voter: how many, the first of them
  int64_t num_layers_ = 0;                                          // that a recording of logits alone names
};

void note_shared(const std::vector<Voter>& voters, std::vector<std::string>& notes) {
  std::map<std::string, std::vector<std::string>> by_code;
  std::set<std::string> weights;
  for (const Voter& voter : voters) {
    const std::string code = code_of(voter.pack);
    if (!code.empty()) by_code[code].push_back(voter.name);
    if (!voter.pack.weights_hash.empty()) weights.insert(voter.pack.weights_hash);
  }
  for (const auto& [code, names] : by_code) {
    if (names.size() < 2) continue;
    std::string line = "same code (" + code + "), so a fault of it is theirs together:";
    for (const std::string& name : names) line += " " + name;
    notes.push_back(std::move(line));
  }
  if (weights.size() > 1) notes.push_back("the weights are not the same for all: their rounding may differ too");
}

}  // namespace

const VotePair* VoteValue::pair(size_t a, size_t b) const {
  if (a > b) std::swap(a, b);
  const auto found = std::find_if(pairs.begin(), pairs.end(), [&](const VotePair& p) { return p.a == a && p.b == b; });
  return found == pairs.end() ? nullptr : &*found;
}

bool Outlier::only_inherits() const {
  return std::all_of(later.begin(), later.end(), [](const LaterValue& v) { return !v.outside || v.inherits; });
}

Result<VoteResult> vote(const std::vector<Voter>& voters) {
  FL_TRY(check_voters(voters));
  VoteResult out;
  for (const Voter& voter : voters) {
    out.names.push_back(voter.name);
    out.descriptions.push_back(describe(voter.pack));
  }
  const TokenLists prompts = FL_TRY(common_prompts(voters, out.notes));
  note_shared(voters, out.notes);
  return Voting(voters, prompts).run(std::move(out));
}

}  // namespace firstlight::align

// SPDX-License-Identifier: Apache-2.0
// Every row a sequence computes is written into its pages as a number made of its tokens so far. Whatever is shared,
// copied, put out and taken back, each sequence must find its own numbers in every row that its next token sees.
#include "kv/prefix_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>

namespace firstlight::kv {
namespace {

constexpr int64_t kPageRows = 4;

ops::StateDecl state(const std::string& name, ops::StateKind kind, int64_t window = 0, int64_t rate = 1) {
  ops::StateDecl decl;
  decl.name = name;
  decl.kind = kind;
  decl.window = window;
  decl.rate = rate;
  decl.components = {{"x", 1, 16, tensor::DType::kF32}};  // a row is 64 bytes: pages have no padding
  return decl;
}
const ops::StateDecl kLog = state("log", ops::StateKind::kAppendLog);
const ops::StateDecl kWindow = state("window", ops::StateKind::kWindowLog, 6);
const ops::StateDecl kEnds = [] {  // the first rows and the last
  ops::StateDecl decl = state("ends", ops::StateKind::kWindowLog, 6);
  decl.keep = 5;
  return decl;
}();
const ops::StateDecl kRate = state("rate", ops::StateKind::kRateLog, 0, 2);
const ops::StateDecl kFixed = state("fixed", ops::StateKind::kFixed);

// What row `p` of a log holds, or a fixed state after p + 1 tokens: it depends on all tokens before.
float number(std::span<const int32_t> tokens, int64_t p) {
  uint32_t h = 17;
  for (int64_t i = 0; i <= p; ++i) h = h * 31 + static_cast<uint32_t>(tokens[static_cast<size_t>(i)]);
  return static_cast<float>(h % 100003);
}

// A sequence as an engine keeps it.
struct Sequence {
  std::vector<int32_t> tokens;
  SequenceId id = -1;
  int64_t computed = 0;
  SavedState saved;
};

class Caches {
 public:
  explicit Caches(std::vector<ops::StateDecl> states, int64_t capacity = 0, int64_t snapshot_bytes = 1 << 20)
      : states_(std::move(states)),
        cache(StateCache::create(states_, {.page_rows = kPageRows, .capacity_bytes = capacity}).value()),
        prefixes(cache, snapshot_bytes) {}

  float& row(const Sequence& s, size_t k, int64_t r) {
    const std::array ids = {s.id};
    const auto view = cache.views(ids)[k];
    auto* page = reinterpret_cast<float*>(view.pages[0][static_cast<size_t>(r / view.page_rows)]);
    return page[(r % view.page_rows) * 16];
  }

  int64_t start(Sequence& s, std::string_view salt = "") {
    s.id = cache.add_sequence();
    s.computed = prefixes.adopt(s.id, salt, s.tokens);
    return s.computed;
  }

  bool compute(Sequence& s, int64_t count, std::string_view salt = "") {
    if (!cache.extend(s.id, s.computed + count).ok()) return false;
    for (size_t k = 0; k < states_.size(); ++k) {
      const int64_t rate = states_[k].kind == ops::StateKind::kRateLog ? states_[k].rate : 1;
      if (states_[k].kind == ops::StateKind::kFixed) {
        row(s, k, 0) = number(s.tokens, s.computed + count - 1);
        continue;
      }
      for (int64_t r = s.computed / rate; r < (s.computed + count) / rate; ++r) {
        row(s, k, r) = number(s.tokens, r * rate + rate - 1);
      }
    }
    s.computed += count;
    prefixes.publish(s.id, salt, std::span(s.tokens).first(static_cast<size_t>(s.computed)));
    return true;
  }

  void check(const Sequence& s) {
    for (size_t k = 0; s.computed > 0 && k < states_.size(); ++k) {
      const int64_t rate = states_[k].kind == ops::StateKind::kRateLog ? states_[k].rate : 1;
      if (states_[k].kind == ops::StateKind::kFixed) {
        ASSERT_EQ(row(s, k, 0), number(s.tokens, s.computed - 1));
        continue;
      }
      const int64_t first =
          states_[k].kind == ops::StateKind::kWindowLog ? std::max<int64_t>(0, s.computed - states_[k].window + 1) : 0;
      for (int64_t r = 0; r < s.computed / rate; ++r) {
        if (r < first && r >= states_[k].keep) continue;
        ASSERT_EQ(row(s, k, r), number(s.tokens, r * rate + rate - 1)) << states_[k].name << " row " << r;
      }
    }
  }

  void end(Sequence& s) {
    prefixes.forget(s.id);
    cache.remove_sequence(s.id);
    s.id = -1;
  }

 private:
  std::vector<ops::StateDecl> states_;

 public:
  StateCache cache;
  PrefixCache prefixes;
};

std::vector<int32_t> counting(int32_t from, int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (auto& token : tokens) token = from++;
  return tokens;
}

TEST(PrefixCache, TheSecondSequenceTakesWholeBlocksAndSharesTheirPages) {
  Caches c({kLog});
  Sequence a{.tokens = counting(0, 11), .saved = {}}, b = a, exact{.tokens = counting(0, 8), .saved = {}};
  EXPECT_EQ(c.start(a), 0);
  ASSERT_TRUE(c.compute(a, 11));
  EXPECT_EQ(c.cache.used_bytes(), 3 * 256);
  EXPECT_EQ(c.start(b), 8);
  EXPECT_EQ(c.start(exact), 4) << "a token is left to compute";
  EXPECT_EQ(c.cache.used_bytes(), 3 * 256) << "nothing is copied";
  ASSERT_TRUE(c.compute(b, 3));
  EXPECT_EQ(c.cache.used_bytes(), 4 * 256);
  c.end(a);
  c.check(b);
  c.end(b);
  c.end(exact);
  EXPECT_EQ(c.cache.used_bytes(), 2 * 256) << "the blocks stay";
  EXPECT_EQ(c.cache.unused_bytes(), 2 * 256);
}

TEST(PrefixCache, OtherTokensAndOtherSaltsShareNothing) {
  Caches c({kLog});
  Sequence a{.tokens = counting(0, 9), .saved = {}}, b = a, other = a;
  other.tokens[1] = 99;
  c.start(a, "one");
  ASSERT_TRUE(c.compute(a, 9, "one"));
  EXPECT_EQ(c.start(b, "two"), 0);
  EXPECT_EQ(c.start(other, "one"), 0);
  c.end(other);
  other.tokens = counting(0, 9);
  other.tokens[5] = 99;
  EXPECT_EQ(c.start(other, "one"), 4);
}

TEST(PrefixCache, SaltsThatHoldNothingAreForgotten) {
  Caches c({kLog});
  Sequence kept{.tokens = counting(0, 9), .saved = {}}, brief{.tokens = counting(0, 2), .saved = {}};
  c.start(kept, "kept");
  ASSERT_TRUE(c.compute(kept, 9, "kept"));
  c.end(kept);
  for (int i = 0; i < 1000; ++i) {
    c.start(brief, "salt " + std::to_string(i));
    c.end(brief);
  }
  EXPECT_LE(c.prefixes.num_salts(), 64u);
  EXPECT_EQ(c.start(kept, "kept"), 8);
}

TEST(PrefixCache, WhatWasUsedLongestAgoGoesFirst) {
  Caches c({kLog}, 6 * 256);
  Sequence a{.tokens = counting(0, 9), .saved = {}}, b{.tokens = counting(100, 9), .saved = {}};
  for (Sequence* s : {&a, &b}) {
    c.start(*s);
    ASSERT_TRUE(c.compute(*s, 8));
    c.end(*s);
  }
  EXPECT_EQ(c.start(a), 8);  // a is used again: b is the older one
  c.end(a);
  Sequence large{.tokens = counting(200, 16), .saved = {}};
  c.start(large);
  ASSERT_TRUE(c.compute(large, 16)) << "two free pages, two of b";
  c.end(large);
  EXPECT_EQ(c.start(b), 0);
  c.end(b);
  EXPECT_EQ(c.start(a), 8);
  c.end(a);
}

TEST(PrefixCache, MoreThanThereIsIsNotTakenFromAnybody) {
  Caches c({kLog}, 4 * 256);
  Sequence a{.tokens = counting(0, 9), .saved = {}}, large{.tokens = counting(200, 20), .saved = {}};
  c.start(a);
  ASSERT_TRUE(c.compute(a, 8));
  c.end(a);
  c.start(large);
  EXPECT_FALSE(c.compute(large, 20));
  EXPECT_EQ(c.prefixes.num_blocks(), 2);
}

TEST(PrefixCache, FixedStatesAreGoneOnFromWhereASnapshotIs) {
  Caches c({kLog, kFixed});
  Sequence a{.tokens = counting(0, 13), .saved = {}}, b = a;
  c.start(a);
  ASSERT_TRUE(c.compute(a, 4));  // the end of a block: a snapshot
  ASSERT_TRUE(c.compute(a, 5));  // the end of the second block is passed on the way
  EXPECT_EQ(c.start(b), 4);
  c.check(b);
  ASSERT_TRUE(c.compute(b, 4));  // there is one now
  c.end(b);
  EXPECT_EQ(c.start(b), 8);
  c.check(b);
  c.end(a);
  c.end(b);
}

TEST(PrefixCache, SnapshotsStayWithinTheirBytes) {
  Caches c({kFixed}, 0, 3 * 64);  // without logs: a block is a token
  Sequence a{.tokens = counting(0, 9), .saved = {}};
  c.start(a);
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(c.compute(a, 1));
  c.end(a);
  EXPECT_EQ(c.cache.used_bytes(), 3 * 64);
  EXPECT_EQ(c.start(a), 8);
  c.end(a);
  Caches none({kFixed}, 0, 63);
  none.start(a);
  ASSERT_TRUE(none.compute(a, 1));
  none.end(a);
  EXPECT_EQ(none.prefixes.num_blocks(), 0) << "blocks that nothing can go on from are not kept";
}

TEST(PrefixCache, RoomIsMadeOfWhatWindowsHavePassed) {
  Caches c({kWindow}, 5 * 256);
  Sequence a{.tokens = counting(0, 40), .saved = {}};
  c.start(a);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(c.compute(a, 4)) << "block " << i << ": its sequence still runs";
  c.check(a);
  Sequence b = a;
  c.end(a);
  EXPECT_EQ(c.start(b), 36) << "what the window sees there has stayed";
  c.check(b);
  c.end(b);
}

// Of blocks that a window has passed a kept prefix gives those pages back first: whole prompts stay longer, each to be
// gone on from at its end and where another one parted from it.
TEST(PrefixCache, PagesThatAWindowHasPassedGoBeforeWholePrompts) {
  Caches c({kLog, kWindow}, 30 * 256);
  Sequence a{.tokens = counting(0, 41), .saved = {}};
  c.start(a);
  ASSERT_TRUE(c.compute(a, 40));  // at once: no page has been given back
  c.end(a);
  EXPECT_EQ(c.cache.used_bytes(), 20 * 256);
  Sequence parted{.tokens = counting(0, 17), .saved = {}};
  parted.tokens[16] = 99;
  EXPECT_EQ(c.start(parted), 16) << "while there is room every place can be gone on from";
  c.end(parted);
  Sequence b{.tokens = counting(1000, 33), .saved = {}};
  EXPECT_EQ(c.start(b), 0);
  ASSERT_TRUE(c.compute(b, 32));  // 16 pages: 6 are missing, and 8 were passed
  c.check(b);
  EXPECT_EQ(c.prefixes.num_blocks(), 18) << "no block of the first prompt has gone";
  c.end(b);
  Sequence again{.tokens = a.tokens, .saved = {}};
  EXPECT_EQ(c.start(again), 40) << "what the window sees at its end is there";
  c.check(again);
  c.end(again);
  EXPECT_LT(c.start(parted), 16) << "in between there is no whole window";
  c.check(parted);
  c.end(parted);
}

// Where two prompts part, both windows stay; who computes a lost page again gives it back to the tree.
TEST(PrefixCache, WhereBranchesPartTheWindowStays) {
  Caches c({kLog, kWindow}, 40 * 256);
  Sequence a{.tokens = counting(0, 41), .saved = {}}, b = a;
  for (size_t i = 20; i < b.tokens.size(); ++i) b.tokens[i] += 500;
  c.start(a);
  ASSERT_TRUE(c.compute(a, 40));
  c.end(a);
  EXPECT_EQ(c.start(b), 20);
  ASSERT_TRUE(c.compute(b, 20));
  c.end(b);
  c.prefixes.reclaim(8 * 256);
  Sequence third{.tokens = counting(0, 25), .saved = {}};
  third.tokens[21] = 7;
  EXPECT_EQ(c.start(third), 20);
  c.check(third);
  c.end(third);
}

// Sequences that begin alike, come and go, are put out and taken back, within a capacity that is too small for all.
TEST(PrefixCache, WhateverHappensEverySequenceFindsItsOwnRows) {
  const std::vector<std::vector<ops::StateDecl>> models = {
      {kLog},   {kLog, kWindow}, {kLog, kRate},    {kLog, kFixed}, {kWindow, kFixed}, {kLog, kWindow, kRate, kFixed},
      {kFixed}, {kEnds},         {kEnds, kWindow}, {kEnds, kFixed}};
  std::mt19937 random(7);
  const auto draw = [&](int64_t below) { return static_cast<int64_t>(random() % static_cast<uint64_t>(below)); };
  for (const auto& model : models) {
    Caches c(model, 60 * 256, 8 * 64);
    const auto space = SwapSpace::create({.host_bytes = 4 * 256, .disk_bytes = 20 * 256}).value();
    std::vector<Sequence> running, out;
    int64_t adopted = 0, refused = 0, swapped = 0;
    for (int step = 0; step < 4000; ++step) {
      const int64_t kind = draw(10);
      if (kind == 0 && running.size() < 8) {
        Sequence s;
        s.tokens = counting(static_cast<int32_t>(draw(3)) * 1000, 1 + draw(60));
        for (int i = 0; i < 2; ++i) s.tokens[static_cast<size_t>(draw(static_cast<int64_t>(s.tokens.size())))] += 7;
        adopted += c.start(s);
        c.check(s);
        running.push_back(s);
      } else if (kind == 1 && !running.empty()) {
        const auto i = static_cast<size_t>(draw(static_cast<int64_t>(running.size())));
        c.end(running[i]);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      } else if (kind == 2 && !running.empty()) {
        const auto i = static_cast<size_t>(draw(static_cast<int64_t>(running.size())));
        auto saved = c.cache.save(running[i].id, *space);
        if (!saved.ok()) continue;
        c.end(running[i]);
        running[i].saved = std::move(*saved);
        out.push_back(std::move(running[i]));
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      } else if (kind == 3 && !out.empty()) {
        Sequence& back = out.back();
        back.id = c.cache.add_sequence();
        if (!c.cache.load(back.id, back.saved, *space).ok()) {
          c.cache.remove_sequence(back.id);
          continue;
        }
        ++swapped;
        c.check(back);
        running.push_back(std::move(back));
        out.pop_back();
      } else if (!running.empty()) {
        Sequence& s = running[static_cast<size_t>(draw(static_cast<int64_t>(running.size())))];
        const int64_t left = static_cast<int64_t>(s.tokens.size()) - s.computed;
        if (left == 0) continue;
        const int64_t to_block = c.cache.block_tokens() - s.computed % c.cache.block_tokens();
        refused += !c.compute(s, std::min(left, draw(2) == 0 ? to_block : 1 + draw(9)));
        c.check(s);
      }
      ASSERT_LE(c.cache.used_bytes(), 60 * 256);
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(adopted, 100) << model.size();
    EXPECT_GT(swapped, 10) << model.size();
    for (Sequence& s : running) c.end(s);
    for (Sequence& s : out) StateCache::drop_saved(s.saved, *space);
    EXPECT_EQ(space->available_bytes(), 24 * 256);
    EXPECT_EQ(c.prefixes.reclaimable_bytes(), c.cache.used_bytes()) << "what is left is all the cache's";
    c.prefixes.reclaim(c.cache.used_bytes());
    EXPECT_EQ(c.cache.used_bytes(), 0);
  }
}

// Going back into a page that others read, and on from there in another way, leaves theirs alone.
TEST(PrefixCache, GoingBackIntoASharedPageCopiesIt) {
  Caches c({kLog});
  Sequence a{.tokens = counting(0, 9), .saved = {}}, b = a;
  c.start(a);
  ASSERT_TRUE(c.compute(a, 9));
  c.start(b);
  ASSERT_TRUE(c.cache.truncate(b.id, 6).ok());
  b.computed = 6;
  b.tokens[6] = b.tokens[7] = 50;
  ASSERT_TRUE(c.compute(b, 3));
  c.check(b);
  c.check(a);
}

}  // namespace
}  // namespace firstlight::kv

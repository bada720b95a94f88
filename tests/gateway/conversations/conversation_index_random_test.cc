// Random calls, beside a model of plain maps that makes the same decisions slowly.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gateway/conversations/conversation_index.h"
#include "gateway/conversations/conversation_key.h"
#include "tests/gateway/conversations/keys_of.h"

namespace longstream::gateway {
namespace {

using Random = std::mt19937;
using Found = ConversationIndex::Found;
using Limits = ConversationIndex::Limits;

size_t Below(Random& random, size_t bound) {
  return std::uniform_int_distribution<size_t>(0, bound - 1)(random);
}

// Few owners, who have several sessions each.
std::string OwnerOf(const std::string& id) {
  constexpr int kOwners = 3;
  return "owner " + std::to_string(std::stoi(id) % kOwners);
}

std::set<std::string> Owners() { return {OwnerOf("0"), OwnerOf("1"), OwnerOf("2")}; }

class Model {
 public:
  explicit Model(const Limits& limits) : limits_(limits) {}

  std::optional<Found> Find(const std::string& text) {
    for (size_t length = text.size(); length > 0; --length) {
      const auto place = places_.find(text.substr(0, length));
      if (place == places_.end()) continue;
      const auto& [id, turn] = place->second;
      Session& session = sessions_.at(id);
      const bool taken = !session.used && session.head == place->first;
      session.used = session.used || taken;
      session.last_use = ++now_;
      return Found{id, turn, length, taken};
    }
    return std::nullopt;
  }
  void Add(const std::string& id) {
    Remove(id);
    sessions_[id].last_use = ++now_;
  }
  void Commit(const std::string& id, const std::string& turn, const std::string& text) {
    if (!Has(id) || text.empty()) return;
    sessions_[id] = {text, false, ++now_};
    for (size_t length = 1; length < text.size(); ++length) {
      places_.emplace(text.substr(0, length), std::pair(id, turn));
    }
    places_[text] = {id, turn};
  }
  void Release(const std::string& id) {
    if (Has(id)) sessions_[id].used = false;
  }
  void Remove(const std::string& id) {
    sessions_.erase(id);
    std::erase_if(places_, [&](const auto& place) { return place.second.first == id; });
  }
  // The unused session, of one of these owners, that was not used for the longest time. "": there
  // is none.
  std::string OldestOf(const std::set<std::string>& owners) const {
    std::string oldest;
    for (const auto& [id, session] : sessions_) {
      if (session.used || !owners.contains(OwnerOf(id))) continue;
      if (oldest.empty() || session.last_use < sessions_.at(oldest).last_use) oldest = id;
    }
    return oldest;
  }
  // The session that has to end beyond the limits. "": none has.
  std::string BeyondLimits() const {
    std::map<std::string, size_t> amounts;
    if (places_.size() > limits_.keys) {
      for (const auto& [text, place] : places_) ++amounts[OwnerOf(place.first)];
    } else {
      size_t unused = 0;
      for (const auto& [id, session] : sessions_) {
        if (session.used) continue;
        ++unused;
        ++amounts[OwnerOf(id)];
      }
      if (unused <= limits_.sessions) return "";
    }
    size_t most = 0;
    for (const auto& [owner, amount] : amounts) most = std::max(most, amount);
    std::set<std::string> owners;
    for (const auto& [owner, amount] : amounts) {
      if (amount == most) owners.insert(owner);
    }
    const std::string oldest = OldestOf(owners);
    return oldest.empty() ? OldestOf(Owners()) : oldest;
  }
  bool Has(const std::string& id) const { return sessions_.contains(id); }
  size_t num_sessions() const { return sessions_.size(); }

 private:
  struct Session {
    std::string head;
    bool used = true;
    int last_use = 0;
  };

  const Limits limits_;
  int now_ = 0;
  std::map<std::string, Session> sessions_;
  std::map<std::string, std::pair<std::string, std::string>> places_;  // session and turn
};

// Makes the same calls to the index and the model.
class Simulation {
 public:
  explicit Simulation(unsigned seed)
      : random_(seed),
        limits_{1 + Below(random_, 12), 1 + Below(random_, 60)},
        index_(limits_),
        model_(limits_) {}

  void Step() {
    const std::string id = std::to_string(Below(random_, 12));
    switch (Below(random_, 8)) {
      case 0:
        index_.Add({id, OwnerOf(id)});
        model_.Add(id);
        break;
      case 1:
      case 2:
        Commit(id, RandomText());
        break;
      case 3:
        index_.Release(id);
        model_.Release(id);
        break;
      case 4:
        if (Below(random_, 4) == 0) Remove(id);
        break;
      case 5:
        Below(random_, 4) != 0 ? TakeBeyondLimits() : TakeOldest(id);
        break;
      default:
        MakeRequest();
    }
    EXPECT_EQ(index_.num_sessions(), model_.num_sessions());
  }

  // Ends all sessions, and expects that no beginning is known then.
  void End() {
    for (int id = 0; id < 100; ++id) {
      index_.Release(std::to_string(id));
      model_.Release(std::to_string(id));
    }
    while (TakeOldest("")) {
    }
    EXPECT_EQ(index_.num_sessions(), 0u);
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(index_.Find(KeysOf(RandomText())).has_value());
  }

 private:
  // Few texts, so that they often begin alike.
  std::string RandomText() {
    std::string text;
    for (size_t i = Below(random_, 8); i > 0; --i) {
      text += static_cast<char>('a' + Below(random_, 2));
    }
    return text;
  }
  void Commit(const std::string& id, const std::string& text) {
    const std::string turn = "turn " + std::to_string(++turns_);
    index_.Commit(id, turn, KeysOf(text));
    model_.Commit(id, turn, text);
  }
  void Remove(const std::string& id) {
    index_.Remove(id);
    model_.Remove(id);
  }
  // Of the sessions of the owner of `id`; "": of all.
  bool TakeOldest(const std::string& id) {
    const auto owners = id.empty() ? Owners() : std::set<std::string>{OwnerOf(id)};
    return Expect(id.empty() ? index_.TakeOldest() : index_.TakeOldestOf(OwnerOf(id)),
                  model_.OldestOf(owners));
  }
  bool TakeBeyondLimits() { return Expect(index_.TakeBeyondLimits(), model_.BeyondLimits()); }
  bool Expect(const std::optional<ConversationIndex::Session>& taken, const std::string& expected) {
    EXPECT_EQ(taken.has_value() ? taken->id : "", expected);
    if (!taken.has_value()) return false;
    EXPECT_EQ(taken->owner, OwnerOf(taken->id));
    model_.Remove(taken->id);
    return true;
  }
  // As the gateway does it: goes on with a session, or forks it, or opens one.
  void MakeRequest() {
    const std::string text = RandomText();
    const std::optional<Found> found = index_.Find(KeysOf(text));
    const std::optional<Found> expected = model_.Find(text);
    ASSERT_EQ(found.has_value(), expected.has_value()) << text;
    std::string id = std::to_string(12 + Below(random_, 88));
    if (found.has_value()) {
      EXPECT_EQ(found->session_id, expected->session_id);
      EXPECT_EQ(found->turn_id, expected->turn_id);
      EXPECT_EQ(found->length, expected->length);
      EXPECT_EQ(found->taken, expected->taken);
    }
    if (found.has_value() && found->taken) {
      id = found->session_id;
    } else {
      index_.Add({id, OwnerOf(id)});
      model_.Add(id);
    }
    if (Below(random_, 3) != 0) Commit(id, text + RandomText());
  }

  Random random_;
  const Limits limits_;
  ConversationIndex index_;
  Model model_;
  int turns_ = 0;
};

TEST(ConversationIndexRandomTest, DecidesAsTheModel) {
  for (unsigned seed = 0; seed < 200 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Simulation simulation(seed);
    for (int step = 0; step < 500 && !testing::Test::HasFailure(); ++step) simulation.Step();
    simulation.End();
  }
}

}  // namespace
}  // namespace longstream::gateway

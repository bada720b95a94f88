#include "tests/fleet/test_replica.h"

#include <utility>
#include <variant>

namespace longstream::fleet {

Effects TestReplica::Handle(const Event& event, ModelStore* store) {
  Effects effects;
  if (const auto* ran = std::get_if<TurnRan>(&event);
      ran != nullptr && ran->end != TurnEnd::kCommits) {
    // The engine has put the copy back to the head.
    const auto copy = copies_.find(ran->session);
    if (copy != copies_.end()) copy->second.ran.reset();
  }
  for (Action& action : machine_.Handle(event)) {
    Content content = 0;
    if (const auto* drop = std::get_if<DropCopy>(&action)) {
      copies_.erase(drop->session);
      awaited_.erase(drop->session);
      continue;
    }
    if (const auto* advance = std::get_if<AdvanceCopy>(&action)) {
      Advance(advance->session);
      continue;
    }
    if (const auto* stop = std::get_if<StopTurn>(&action)) {
      const auto copy = copies_.find(stop->session);
      if (copy != copies_.end()) copy->second.ran.reset();
    } else if (const auto* receive = std::get_if<ReceiveCaches>(&action)) {
      awaited_[receive->session] = {receive->operation, receive->from, receive->request};
    } else if (const auto* run = std::get_if<RunTurn>(&action)) {
      Run(*run, store);
    } else if (const auto* transact = std::get_if<Transact>(&action)) {
      content = ContentOf(transact->transaction);
    } else if (const auto* send = std::get_if<SendCaches>(&action)) {
      const auto copy = copies_.find(send->session);
      if (copy == copies_.end()) {
        store->Fail("a replica sends a copy that it does not have");
      } else {
        content = copy->second.content;
      }
    }
    effects.push_back({std::move(action), content});
  }
  return effects;
}

Effects TestReplica::HandleCaches(const ReplicaName& from, const SendCaches& sent, Content content,
                                  ModelStore* store) {
  const auto awaited = awaited_.find(sent.session);
  if (awaited == awaited_.end() || awaited->second.from != from ||
      awaited->second.request != sent.request) {
    return {};
  }
  const CachesArrived arrived{.session = sent.session, .operation = awaited->second.operation};
  copies_[sent.session] = {content};
  awaited_.erase(awaited);
  return Handle(arrived, store);
}

Effects TestReplica::HandleOpened(const SessionKey& key, ModelStore* store) {
  copies_[key] = {store->ContentOf(key)};
  return Handle(SessionOpened{key}, store);
}

Content TestReplica::ContentOf(const Transaction& transaction) {
  const SessionKey& key = transaction.fence.key;
  const auto copy = copies_.find(key);
  if (transaction.kind == TransactionKind::kChange) {
    const CallId change = machine_.sessions().at(key).now().call.value_or(0);
    if (copy != copies_.end()) copy->second.ran = AfterChange(copy->second.content, change);
    return change;
  }
  return copy == copies_.end() ? 0 : copy->second.ran.value_or(0);
}

void TestReplica::Run(const RunTurn& run, ModelStore* store) {
  if (run.restore) copies_[run.session] = {store->ContentOf(run.session)};
  const auto copy = copies_.find(run.session);
  if (copy == copies_.end()) {
    store->Fail("a turn runs on a copy that is not there");
    return;
  }
  copy->second.ran = After(copy->second.content, run.turn);
}

void TestReplica::Advance(const SessionKey& key) {
  const auto copy = copies_.find(key);
  if (copy == copies_.end() || !copy->second.ran.has_value()) return;
  copy->second.content = *copy->second.ran;
  copy->second.ran.reset();
}

std::vector<SessionKey> TestReplica::Copies() const {
  std::vector<SessionKey> keys;
  for (const auto& [key, copy] : copies_) keys.push_back(key);
  return keys;
}

void TestReplica::AppendBytes(std::string* bytes) const {
  machine_.AppendBytes(bytes);
  const auto append = [&](uint64_t value) {
    bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  for (const auto& [key, copy] : copies_) {
    append(key.id.low);
    append(copy.content);
    append(copy.ran.value_or(0));
  }
  for (const auto& [key, awaited] : awaited_) {
    append(awaited.operation);
    append(awaited.request);
    bytes->append(awaited.from);
  }
}

}  // namespace longstream::fleet

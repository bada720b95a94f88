// The clients of the simulated fleet: they send their turns one after the other, each with one turn
// id until it is acknowledged.
#include <algorithm>

#include "tests/fleet/simulated_world.h"

namespace longstream::fleet {

void SimulatedWorld::MakeClients() {
  const int64_t num_sessions = random_.Between(1, 3);
  const int64_t num_clients = std::max(num_sessions, random_.Between(1, 4));
  uint64_t last_turn = 0;
  for (int64_t i = 0; i < num_clients; ++i) {
    Client client{.session = {"", SessionId{0, static_cast<uint64_t>(i % num_sessions + 1)}}};
    client.node = static_cast<int>(random_.Next() % nodes_.size());
    client.sticky = random_.Chance(0.5);
    client.stubborn = random_.Chance(0.3);
    client.patience =
        random_.Chance(0.7) ? 1500 * kMillisecond : random_.Between(50, 300) * kMillisecond;
    const int64_t num_turns = random_.Between(2, 6);
    for (int64_t turn = 0; turn < num_turns; ++turn) {
      if (random_.Chance(plan_.changes)) client.steps.push_back({Kind::kChange, {}});
      client.steps.push_back({Kind::kTurn, TurnId{0, ++last_turn}});
    }
    if (random_.Chance(0.2)) client.steps.push_back({Kind::kClose, {}});
    clients_.push_back(client);
  }
  for (int64_t i = 0; i < num_sessions; ++i) {
    const SessionKey& key = clients_[static_cast<size_t>(i)].session;
    Node& node = AnyNode();
    store_.Open(key, node.replica->machine().self());
    Do(node, node.replica->HandleOpened(key, &store_));
  }
  for (size_t i = 0; i < clients_.size(); ++i) SendSoon(i, kSecond);
}

void SimulatedWorld::SendSoon(size_t client, Micros most) {
  After(random_.Between(0, most), [this, client] { Send(client); });
}

void SimulatedWorld::Send(size_t index) {
  Client& client = clients_[index];
  if (client.next >= client.steps.size()) return;
  if (!client.stubborn && (!client.sticky || random_.Chance(0.2))) {
    client.node = static_cast<int>(random_.Next() % nodes_.size());
  }
  const Step& step = client.steps[client.next];
  const CallId id = ++last_call_;
  client.call = id;
  calls_[id] = {.client = index, .kind = step.kind, .turn = step.turn};
  Node& node = nodes_[static_cast<size_t>(client.node)];
  const bool is_lost = Faulty() && random_.Chance(plan_.lose);
  if (node.replica.has_value() && !is_lost) {
    AfterAt(node, NetworkDelay(), [this, &node, id] { Arrive(node, id); });
  } else if (!client.stubborn) {
    client.node = static_cast<int>(random_.Next() % nodes_.size());
  }
  After(client.patience, [this, index, id] {
    if (clients_[index].call == id) Send(index);  // there was no answer
  });
}

void SimulatedWorld::Arrive(Node& node, CallId id) {
  Call& call = calls_.at(id);
  call.node = node.id;
  const SessionKey& session = clients_[call.client].session;
  switch (call.kind) {
    case Kind::kTurn:
      Handle(node, TurnArrives{id, session, call.turn});
      return;
    case Kind::kChange:
      Handle(node, ChangeArrives{id, session});
      return;
    case Kind::kClose:
      Handle(node, CloseArrives{id, session});
  }
}

void SimulatedWorld::Answered(CallId id, Answer answer, const ReplicaName& owner) {
  const size_t index = calls_.at(id).client;
  Client& client = clients_[index];
  if (client.call != id) return;  // it has asked again since
  client.call = 0;
  const Kind kind = client.steps[client.next].kind;
  switch (answer) {
    case Answer::kCommitted:
    case Answer::kReplay:
    case Answer::kClosed:
      ++client.next;
      SendSoon(index, 400 * kMillisecond);
      return;
    case Answer::kNotFound:
      if (store_.IsOpen(client.session)) store_.Fail("an open session was not found");
      client.next = client.steps.size();
      return;
    case Answer::kAbandoned:  // another turn was committed after the start of this one
      ++client.next;
      break;
    case Answer::kCancelled:
      if (kind != Kind::kTurn) store_.Fail("a call that is no turn was cancelled");
      break;
    case Answer::kElsewhere:
      client.node = ReplicaOf(owner);
      break;
    case Answer::kMoved:
    case Answer::kBusy:
    case Answer::kAttached:
    case Answer::kNotNow:
    case Answer::kCommitWaits:
    case Answer::kFull:
    case Answer::kRefused:
    case Answer::kFailed:
      break;
  }
  SendSoon(index, 300 * kMillisecond);
}

bool SimulatedWorld::AllDone() const {
  return std::all_of(clients_.begin(), clients_.end(),
                     [](const Client& client) { return client.next >= client.steps.size(); });
}

}  // namespace longstream::fleet

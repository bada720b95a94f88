// Copies plain values to the fields of messages.
#include "service/server/to_proto.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "service/chat/thoughts.h"
#include "service/server/routing/route_messages.h"
#include "service/server/routing/wire_times.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

// Returns the text of a plugin, a file or a path, with invalid UTF-8 replaced. If one string of a
// message is not UTF-8, clients cannot read the whole message, such as a list of models.
std::string Text(absl::string_view bytes) { return RepairUtf8({bytes.data(), bytes.size()}); }

void SetToken(const ls_top_token& token, const Tokenizer& tokenizer, v1::TopToken* message) {
  message->set_token_id(token.token);
  message->set_token(std::string(tokenizer.TokenBytes(token.token)));
  message->set_log_prob(token.log_prob);
}

void SetDelta(const DeltaEvent& delta, const Tokenizer& tokenizer, v1::Delta* message) {
  message->set_text(delta.text);
  message->mutable_token_ids()->Add(delta.tokens.begin(), delta.tokens.end());
  message->set_position(delta.position);
  for (const TokenLogProb& token : delta.log_probs) {
    v1::TokenLogProb* entry = message->add_log_probs();
    entry->set_token_id(token.token);
    entry->set_token(std::string(tokenizer.TokenBytes(token.token)));
    entry->set_log_prob(token.log_prob);
    for (const ls_top_token& top : token.top) SetToken(top, tokenizer, entry->add_top());
  }
}

v1::FinishReason ToProto(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return v1::FINISH_REASON_UNSPECIFIED;
    case FinishReason::kStopToken:
      return v1::FINISH_REASON_STOP_TOKEN;
    case FinishReason::kStopString:
      return v1::FINISH_REASON_STOP_STRING;
    case FinishReason::kMaxTokens:
      return v1::FINISH_REASON_MAX_TOKENS;
    case FinishReason::kContext:
      return v1::FINISH_REASON_CONTEXT;
    case FinishReason::kAborted:
      return v1::FINISH_REASON_ABORTED;
    case FinishReason::kFormat:
      return v1::FINISH_REASON_FORMAT;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

v1::TurnState ToProto(TurnState state) {
  switch (state) {
    case TurnState::kStarted:
      return v1::TURN_STATE_STARTED;
    case TurnState::kCommitting:
      return v1::TURN_STATE_COMMITTING;
    case TurnState::kCommitted:
      return v1::TURN_STATE_COMMITTED;
    case TurnState::kAbandoned:
      return v1::TURN_STATE_ABANDONED;
  }
  return v1::TURN_STATE_UNSPECIFIED;
}

const char* LayerKind(int32_t kind) {
  switch (kind) {
    case LS_LAYER_FULL:
      return "full";
    case LS_LAYER_WINDOW:
      return "window";
    case LS_LAYER_RECURRENT:
      return "recurrent";
    default:
      return "unknown";
  }
}

void SetMemory(const ls_memory& memory, v1::ModelMemory* message) {
  message->set_weights(memory.weights);
  message->set_pages(memory.pages);
  message->set_rings(memory.rings);
  message->set_states(memory.states);
  message->set_checkpoints(memory.checkpoints);
  message->set_workspace(memory.workspace);
  message->set_budget(memory.budget);
  message->set_reserved(memory.reserved);
}

void SetDefaults(const GenerationDefaults& defaults, v1::SamplingDefaults* message) {
  if (defaults.temperature) message->set_temperature(*defaults.temperature);
  if (defaults.top_k) message->set_top_k(*defaults.top_k);
  if (defaults.top_p) message->set_top_p(*defaults.top_p);
  if (defaults.min_p) message->set_min_p(*defaults.min_p);
  if (defaults.repetition_penalty) message->set_repetition_penalty(*defaults.repetition_penalty);
}

void SetReady(const ServedModel& model, v1::Model* message) {
  const BackendModel& backend = model.backend();
  const ls_model_info& info = backend.info();
  message->set_backend(Text(backend.plugin().name()));
  message->set_device(Text(backend.plugin().device()));
  message->set_backend_version(Text(backend.plugin().table().version));
  message->set_architecture(Text(info.architecture));
  message->set_kernels(Text(info.kernels));
  message->set_page_tokens(info.page_tokens);
  message->set_vocabulary_size(info.vocabulary_size);
  message->set_parameters(info.num_parameters);
  message->set_context_limit(info.context_limit);
  message->set_tokenizer(std::string(model.tokenizer().kind()));
  message->set_fingerprint(absl::StrFormat("%016x", info.fingerprint));
  message->set_kv_bytes_per_token(info.kv_bytes_per_token);
  message->set_window_bytes_per_session(info.window_bytes_per_sequence);
  message->set_state_bytes_per_session(info.state_bytes_per_sequence);
  message->set_prefill_grid(info.prefill_grid);
  for (uint32_t i = 0; i < info.num_layers; ++i) {
    v1::Layer* layer = message->add_layers();
    layer->set_kind(LayerKind(info.layers[i].kind));
    layer->set_position(Text(info.layers[i].position));
    layer->set_window(info.layers[i].window);
    layer->set_bytes_per_token(info.layers[i].bytes_per_token);
    layer->set_bytes_fixed(info.layers[i].bytes_fixed);
  }
  const std::pair<uint64_t, const char*> capabilities[] = {
      {LS_CAP_SNAPSHOT, "snapshot"},
      {LS_CAP_FORK, "fork"},
      {LS_CAP_SCORE, "score"},
      {LS_CAP_QUANTISED_WEIGHTS, "quantised_weights"},
      {LS_CAP_IN_FLIGHT_TOKENS, "in_flight_tokens"},
      {LS_CAP_LOOK_AHEAD, "look_ahead"},
      {LS_CAP_ALLOWED_TOKENS, "allowed_tokens"},
  };
  for (const auto& [bit, name] : capabilities) {
    if (backend.plugin().Can(bit)) message->add_capabilities(name);
  }
  for (const int32_t id : model.defaults().end_token_ids) message->add_end_token_ids(id);
  message->set_chat(model.chat().ok() && model.chat()->Choose(/*has_tools=*/false).ok());
  if (!model.chat().ok()) message->set_chat_error(Text(model.chat().status().message()));
  SetDefaults(model.defaults(), message->mutable_sampling_defaults());
  SetMemory(backend.memory(), message->mutable_memory());
}

// REQUIRES: tokens were restored.
v1::RestoreSource SourceOf(const TurnUsage& usage) {
  const bool is_peer = usage.restore_source == RestoreSource::kPeer;
  return is_peer ? v1::RESTORE_SOURCE_PEER : v1::RESTORE_SOURCE_STORE;
}

}  // namespace

void ToProto(const SessionBytes& bytes, v1::SessionBytes* message) {
  message->set_kv(bytes.kv);
  message->set_window(bytes.window);
  message->set_state(bytes.state);
  message->set_host(bytes.host);
}

void ToProto(const SessionView& view, v1::Session* message) {
  message->set_session_id(view.id.ToString());
  message->set_model(Text(view.model));
  message->set_alias(view.alias);
  message->set_position(view.position);
  message->set_context_limit(view.context_limit);
  message->set_turn_running(view.turn_running);
  ToProto(view.bytes, message->mutable_bytes());
  SetTime(view.create_time, message->mutable_create_time());
  SetTime(view.last_use_time, message->mutable_last_use_time());
  SetDuration(view.idle_timeout, message->mutable_idle_timeout());
  message->set_durability(view.durable ? v1::DURABILITY_TURN : v1::DURABILITY_MEMORY);
  if (view.ttl.has_value()) SetDuration(*view.ttl, message->mutable_ttl());
  message->set_version(view.version);
  message->set_recompute_tokens(view.recompute_tokens);
  message->set_stored_bytes(view.stored_bytes);
  if (view.head_turn.has_value()) message->set_head_turn_id(view.head_turn->ToString());
  if (view.routing != nullptr) ToProto(*view.routing, message->mutable_routing());
  if (view.forked_from.has_value()) message->set_forked_from(view.forked_from->ToString());
  message->set_owner(Text(view.owner));
  message->set_owner_ended(view.owner_ended);
}

void ToProto(const TurnView& view, v1::Turn* message) {
  message->set_turn_id(view.id.ToString());
  message->set_state(ToProto(view.state));
  message->set_running(view.running);
  message->set_start_position(view.start_position);
  message->set_position(view.position);
  message->set_finish_reason(ToProto(view.reason));
  message->set_prompt_tokens(view.prompt_tokens);
  message->set_generated_tokens(view.generated_tokens);
  SetTime(view.start_time, message->mutable_start_time());
  if (view.end_time != absl::InfiniteFuture()) SetTime(view.end_time, message->mutable_end_time());
}

void ToProto(const ModelStatus& status, v1::Model* message) {
  message->set_name(Text(status.name));
  switch (status.state) {
    case ModelState::kLoading:
    case ModelState::kWarming:
      message->set_state(v1::MODEL_STATE_LOADING);
      break;
    case ModelState::kReady:
      message->set_state(v1::MODEL_STATE_READY);
      SetReady(status.engine->model(), message);
      break;
    case ModelState::kDraining:
      message->set_state(v1::MODEL_STATE_DRAINING);
      SetReady(status.engine->model(), message);
      break;
    case ModelState::kGone:
      break;
    case ModelState::kFailed:
      message->set_state(v1::MODEL_STATE_FAILED);
      message->set_error(Text(status.error.message()));
      break;
  }
}

void ToProto(const AliasConfig& alias, v1::Alias* message) {
  message->set_name(alias.name);
  for (const AliasArm& arm : alias.arms) {
    v1::AliasArm* const added = message->add_arms();
    added->set_model(Text(arm.model));
    added->set_weight(static_cast<uint32_t>(arm.weight));
  }
  if (alias.route.has_value()) SetRoute(*alias.route, message->mutable_route());
}

void ToProto(const TurnUsage& usage, v1::TurnUsage* message) {
  message->set_prompt_tokens(usage.prompt_tokens);
  message->set_generated_tokens(usage.generated_tokens);
  message->set_reused_tokens(usage.reused_tokens);
  message->set_recomputed_tokens(usage.recomputed_tokens);
  message->set_recompute_reason(Text(usage.recompute_reason));
  SetDuration(usage.queue_time, message->mutable_queue_time());
  SetDuration(usage.prefill_time, message->mutable_prefill_time());
  SetDuration(usage.decode_time, message->mutable_decode_time());
  SetDuration(usage.time_to_first_token, message->mutable_time_to_first_token());
  ToProto(usage.bytes, message->mutable_bytes());
  message->set_forced_tokens(usage.forced_tokens);
  message->set_restored_tokens(usage.restored_tokens);
  if (usage.restored_tokens > 0) message->set_restore_source(SourceOf(usage));
}

void ToProto(const TurnEvent& event, const Tokenizer& tokenizer, v1::GenerateResponse* message) {
  if (const auto* started = std::get_if<StartedEvent>(&event)) {
    message->mutable_started()->set_position(started->position);
    message->mutable_started()->set_prompt_tokens(started->prompt_tokens);
    message->mutable_started()->set_seed(started->seed);
  } else if (const auto* prefill = std::get_if<PrefillEvent>(&event)) {
    message->mutable_prefill()->set_done_tokens(prefill->done_tokens);
    message->mutable_prefill()->set_total_tokens(prefill->total_tokens);
  } else if (const auto* delta = std::get_if<DeltaEvent>(&event)) {
    SetDelta(*delta, tokenizer, message->mutable_delta());
  }
}

void Describe(const ServedModel& model, bool in_thoughts, v1::TurnStarted* message) {
  message->set_model(Text(model.name()));
  if (!model.chat().ok() || !chat::MarksThoughts(*model.chat())) return;
  message->mutable_thoughts()->set_begin(std::string(chat::kThoughtsBegin));
  message->mutable_thoughts()->set_end(std::string(chat::kThoughtsEnd));
  message->mutable_thoughts()->set_begun(in_thoughts);
}

void ToProto(const TurnEnd& end, v1::Finish* message) {
  message->set_reason(ToProto(end.reason));
  message->set_position(end.position);
  message->set_stop_string(end.stop_string);
  if (end.stop_token >= 0) message->set_stop_token(end.stop_token);
  message->set_kept_text_bytes(end.kept_text_bytes);
  message->set_incomplete_character(end.incomplete_character);
  ToProto(end.usage, message->mutable_usage());
}

void ToProto(const ScoreEvent& event, const Tokenizer& tokenizer, uint32_t num_top,
             v1::ScoreResponse* message) {
  message->set_first_index(event.first_index);
  for (const TokenLogProb& token : event.tokens) {
    v1::TokenScore* score = message->add_tokens();
    score->set_token_id(token.token);
    if (std::isnan(token.log_prob)) continue;
    score->set_log_prob(token.log_prob);
    score->set_top1(!token.top.empty() && token.top.front().token == token.token);
    for (size_t i = 0; i < num_top && i < token.top.size(); ++i) {
      SetToken(token.top[i], tokenizer, score->add_top());
    }
  }
}

}  // namespace longstream

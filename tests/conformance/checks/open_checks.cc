// Checks of probe, model_open and model_info.
#include <algorithm>
#include <cstring>
#include <set>

#include "tests/conformance/checks.h"
#include "tests/conformance/process_usage.h"
#include "tests/temporary_directory.h"

namespace longstream::conformance {
namespace {

ls_code TryProbe(const ls_backend& backend, const std::string& directory, int32_t* fit,
                 std::string* text) {
  ErrorText error;
  const ls_code code = backend.probe(directory.c_str(), fit, error.get());
  *text = error.str();
  return code;
}

void Probe(const Kit& kit, Check& check) {
  std::string text;
  int32_t fit = -1;
  ls_code code = TryProbe(kit.backend(), kit.target().model, &fit, &text);
  check.Expect(code == LS_OK && fit >= 1 && fit <= 100,
               "the model's directory: " + NameOf(code) + ", fit " + std::to_string(fit));

  const TemporaryDirectory directory;
  code = TryProbe(kit.backend(), directory.path(), &fit, &text);
  check.Expect(code == LS_NOT_FOUND && !text.empty(),
               "no config.json: expected LS_NOT_FOUND and a sentence, found " + NameOf(code));

  directory.Write("config.json", "{\"model_type\": \"unheard-of\"}");
  code = TryProbe(kit.backend(), directory.path(), &fit, &text);
  check.Expect(code == LS_OK && fit == 0 && !text.empty(),
               "an unknown model_type: expected fit 0 and a sentence, found " + NameOf(code) +
                   ", fit " + std::to_string(fit) + ", '" + text + "'");

  directory.Write("config.json", "{\"model_type\": ");
  code = TryProbe(kit.backend(), directory.path(), &fit, &text);
  check.Expect(code != LS_OK && !text.empty(), "a config.json cut short: expected a failure");
}

void Info(const Kit& kit, Check& check) {
  const Model model = kit.Open();
  const ls_model_info& info = model.info();
  const auto is_text = [](const char* text) { return text != nullptr && text[0] != '\0'; };
  check.Expect(is_text(info.architecture), "architecture is missing");
  check.Expect(info.vocabulary_size >= 1 && info.vocabulary_size <= INT32_MAX, "vocabulary_size");
  check.Expect(info.num_layers >= 1, "num_layers is 0");
  check.Expect(info.prefill_grid >= 1, "prefill_grid is 0");
  check.Expect(info.context_limit >= 1, "context_limit is 0");
  check.Expect((info.page_tokens > 0) == (info.kv_bytes_per_token > 0),
               "page_tokens is set where no layer is paged, or the other way round");
  uint64_t per_token = 0;
  uint64_t fixed = 0;
  static const std::set<std::string> positions = {"rope",         "rerope", "leaky_rerope", "nope",
                                                  "chunked_rope", "alibi",  "none"};
  for (uint32_t i = 0; i < info.num_layers; ++i) {
    const ls_layer_info& layer = info.layers[i];
    const std::string where = "layer " + std::to_string(i) + ": ";
    const bool is_full = layer.kind == LS_LAYER_FULL;
    check.Expect(layer.kind >= LS_LAYER_FULL && layer.kind <= LS_LAYER_RECURRENT, where + "kind");
    check.Expect(layer.position != nullptr && positions.count(layer.position) == 1,
                 where + "position");
    check.Expect((layer.bytes_per_token > 0) == is_full, where + "bytes_per_token");
    check.Expect(is_full || layer.bytes_fixed > 0, where + "bytes_fixed is 0");
    check.Expect(layer.kind != LS_LAYER_WINDOW || layer.window > 0, where + "window is 0");
    per_token += layer.bytes_per_token;
    fixed += layer.bytes_fixed;
  }
  check.Expect(per_token == info.kv_bytes_per_token,
               "kv_bytes_per_token is not the sum over the layers");
  check.Expect(fixed == info.window_bytes_per_sequence + info.state_bytes_per_sequence,
               "window and state bytes per sequence are not the sum of the layers' bytes_fixed");
  const Model again = kit.Open();
  check.Expect(again.info().fingerprint == info.fingerprint,
               "the fingerprint differs between two models of one directory");
}

// A host of an older minor version passes a shorter structure; the plugin must not write past its
// end.
void ShortStructures(const Kit& kit, Check& check) {
  const Model model = kit.Open();
  ls_model_info info;
  std::memset(&info, 0x5a, sizeof(info));
  info.struct_size = offsetof(ls_model_info, num_parameters);
  check.Expect(kit.backend().model_info(model.handle(), &info) == LS_OK, "model_info failed");
  check.Expect(info.vocabulary_size == model.info().vocabulary_size,
               "model_info left out a field that struct_size covers");
  check.Expect(info.struct_size == offsetof(ls_model_info, num_parameters),
               "model_info changed struct_size");
  const auto* bytes = reinterpret_cast<const unsigned char*>(&info);
  check.Expect(std::all_of(bytes + info.struct_size, bytes + sizeof(info),
                           [](unsigned char byte) { return byte == 0x5a; }),
               "model_info wrote past struct_size");
}

struct BadOpen {
  const char* what;
  std::string directory;
  OpenOptions options;
  std::set<ls_code> expected;
  const char* named;  // the error's sentence must contain this text
};

std::vector<BadOpen> BadOpens(const Kit& kit, const std::string& not_json,
                              const std::string& no_keys) {
  const std::string& model = kit.target().model;
  const OpenOptions good = kit.Defaults();
  std::vector<BadOpen> opens = {
      {"a missing directory", model + "/no-such-directory", good, {LS_NOT_FOUND}, ""},
      {"a config.json cut short", not_json, good, {LS_DATA_LOSS, LS_INVALID_ARGUMENT}, ""},
      {"an empty config", no_keys, good, {LS_INVALID_ARGUMENT, LS_UNIMPLEMENTED}, ""},
  };
  const auto add = [&](const char* what, const char* named, auto&& change) {
    opens.push_back({what, model, good, {LS_INVALID_ARGUMENT}, named});
    change(opens.back().options);
  };
  add("options cut short", "", [](OpenOptions& o) { o.options = "{\"a\": "; });
  add("options that are an array", "", [](OpenOptions& o) { o.options = "[1]"; });
  add("an unknown option", "no_such_option",
      [](OpenOptions& o) { o.options = "{\"no_such_option\": 1}"; });
  add("a budget of one byte", "budget", [](OpenOptions& o) { o.cache_bytes_budget = 1; });
  add("batches without tokens", "max_batch_tokens", [](OpenOptions& o) { o.max_batch_tokens = 0; });
  add("batches without sequences", "max_batch_sequences",
      [](OpenOptions& o) { o.max_batch_sequences = 0; });
  add("batches of 2^32 tokens", "max_batch_tokens",
      [](OpenOptions& o) { o.max_batch_tokens = UINT32_MAX; });
  add("batches of 2^32 sequences", "max_batch_sequences",
      [](OpenOptions& o) { o.max_batch_sequences = UINT32_MAX; });
  return opens;
}

void OpenErrors(const Kit& kit, Check& check) {
  const TemporaryDirectory not_json;
  not_json.Write("config.json", "{\"model_type\": ");
  const TemporaryDirectory no_keys;
  no_keys.Write("config.json", "{}");
  const std::vector<BadOpen> opens = BadOpens(kit, not_json.path(), no_keys.path());

  const auto open_all = [&](Check* verdict) {
    for (const BadOpen& bad : opens) {
      char somewhere = 0;
      auto* const untouched = reinterpret_cast<ls_model*>(&somewhere);
      ls_model* model = untouched;
      std::string error;
      const ls_code code =
          TryOpen(kit.backend(), bad.directory, bad.options, kit.host(), &model, &error);
      if (code == LS_OK) kit.backend().model_close(model);
      if (verdict == nullptr) continue;
      verdict->Expect(bad.expected.count(code) == 1,
                      std::string(bad.what) + ": " + NameOf(code) + " " + error);
      verdict->Expect(error.find(bad.named) != std::string::npos,
                      std::string(bad.what) + ": '" + error + "' does not name " + bad.named);
      verdict->Expect(code == LS_OK || model == untouched,
                      std::string(bad.what) + ": *model was written");
    }
  };
  open_all(&check);
  if (!kit.target().is_alone) return;
  constexpr int kRounds = 20;
  const ProcessUsage growth = MeasureGrowth(kRounds, [&] { open_all(nullptr); });
  check.Expect(growth.file_descriptors == 0, "failed opens leave files open");
  check.Expect(growth.threads == 0, "failed opens leave threads running");
  // The limit is half of malloc's smallest block per round, so a leak of one block per round
  // exceeds it.
  check.Expect(!CanMeasureHeap() || growth.heap_bytes < kRounds * 16,
               "failed opens left " + std::to_string(growth.heap_bytes) + " bytes on the heap");
}

void UnknownDevice(const Kit& kit, Check& check) {
  const char* device = "no-such-device:0";
  const ls_model_options options = {sizeof(ls_model_options),
                                    kit.target().model.c_str(),
                                    kit.target().options.c_str(),
                                    &device,
                                    1,
                                    0,
                                    64,
                                    4,
                                    kit.host().table()};
  ls_model* model = nullptr;
  ErrorText error;
  const ls_code code = kit.backend().model_open(&options, &model, error.get());
  if (code == LS_OK) kit.backend().model_close(model);
  ExpectCode(check, "a device that there is not", LS_NOT_FOUND, code);
}

// A host may pass no buffer for the error's sentence, an empty one or a short one.
void ErrorBuffers(const Kit& kit, Check& check) {
  char text[8];
  std::memset(text, 0x5a, sizeof(text));
  int32_t fit = 0;
  const std::string missing = kit.target().model + "/no-such-directory";
  for (const ls_error error :
       {ls_error{nullptr, 0}, ls_error{text, 0}, ls_error{text, 1}, ls_error{text, 5}}) {
    check.Expect(kit.backend().probe(missing.c_str(), &fit, error) == LS_NOT_FOUND,
                 "probe of a missing directory: expected LS_NOT_FOUND");
    if (error.capacity > 0) {
      check.Expect(std::memchr(text, '\0', error.capacity) != nullptr,
                   "a sentence cut short is not terminated");
    }
    check.Expect(std::all_of(text + error.capacity * (error.text != nullptr), text + sizeof(text),
                             [](char c) { return c == 0x5a; }),
                 "a sentence was written past its buffer's capacity");
    std::memset(text, 0x5a, sizeof(text));
  }
}

// Two models of one plugin must not affect each other.
void TwoModels(const Kit& kit, Check& check) {
  Model first = kit.Open();
  Sequence alone = first.Create(kit.prompt());
  const std::vector<int32_t> tokens = kit.Tokens(1, kit.prompt());
  const Output expected = first.Step(Prefill(alone, tokens));
  Model second = kit.Open();
  Sequence a = first.Create(kit.prompt());
  Sequence b = second.Create(kit.prompt());
  const std::vector<Entry> entries_a = {Prefill(a, tokens)};
  const std::vector<Entry> entries_b = {Prefill(b, tokens)};
  const uint64_t ticket_a = first.Submit(entries_a);
  const uint64_t ticket_b = second.Submit(entries_b);
  check.Expect(second.Wait(ticket_b, entries_b).front().logits == expected.logits &&
                   first.Wait(ticket_a, entries_a).front().logits == expected.logits,
               "two models of one directory give different logits when both are busy");
}

}  // namespace

Checks OpenChecks() {
  return {
      {"model.probe", &Probe},
      {"model.info", &Info},
      {"model.short_structures", &ShortStructures},
      {"model.open_errors", &OpenErrors},
      {"model.unknown_device", &UnknownDevice},
      {"model.error_buffers", &ErrorBuffers},
      {"model.two_at_once", &TwoModels},
  };
}

}  // namespace longstream::conformance

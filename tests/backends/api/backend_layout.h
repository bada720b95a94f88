/* The layout of every structure of the backend ABI on an LP64 machine: a change here is a change of
 * the ABI. Within a major version lines are only appended to a structure. */
#ifndef LONGSTREAM_TESTS_BACKENDS_API_BACKEND_LAYOUT_H_
#define LONGSTREAM_TESTS_BACKENDS_API_BACKEND_LAYOUT_H_

#include "backends/api/backend.h"

/* FIELD(structure, field, offset in bytes), SIZE(structure, bytes). */
/* clang-format off */
#define LS_BACKEND_LAYOUT(FIELD, SIZE) \
  FIELD(ls_error, text, 0) \
  FIELD(ls_error, capacity, 8) \
  SIZE(ls_error, 16) \
  FIELD(ls_host, struct_size, 0) \
  FIELD(ls_host, context, 8) \
  FIELD(ls_host, num_threads, 16) \
  FIELD(ls_host, parallel_run, 24) \
  FIELD(ls_host, log, 32) \
  SIZE(ls_host, 40) \
  FIELD(ls_model_options, struct_size, 0) \
  FIELD(ls_model_options, directory, 8) \
  FIELD(ls_model_options, options, 16) \
  FIELD(ls_model_options, devices, 24) \
  FIELD(ls_model_options, num_devices, 32) \
  FIELD(ls_model_options, cache_bytes_budget, 40) \
  FIELD(ls_model_options, max_batch_tokens, 48) \
  FIELD(ls_model_options, max_batch_sequences, 52) \
  FIELD(ls_model_options, host, 56) \
  SIZE(ls_model_options, 64) \
  FIELD(ls_layer_info, kind, 0) \
  FIELD(ls_layer_info, position, 8) \
  FIELD(ls_layer_info, window, 16) \
  FIELD(ls_layer_info, bytes_per_token, 24) \
  FIELD(ls_layer_info, bytes_fixed, 32) \
  SIZE(ls_layer_info, 40) \
  FIELD(ls_model_info, struct_size, 0) \
  FIELD(ls_model_info, architecture, 8) \
  FIELD(ls_model_info, vocabulary_size, 16) \
  FIELD(ls_model_info, num_layers, 20) \
  FIELD(ls_model_info, layers, 24) \
  FIELD(ls_model_info, num_parameters, 32) \
  FIELD(ls_model_info, context_limit, 40) \
  FIELD(ls_model_info, prefill_grid, 48) \
  FIELD(ls_model_info, page_tokens, 52) \
  FIELD(ls_model_info, kv_bytes_per_token, 56) \
  FIELD(ls_model_info, window_bytes_per_sequence, 64) \
  FIELD(ls_model_info, state_bytes_per_sequence, 72) \
  FIELD(ls_model_info, checkpoint_bytes_per_sequence, 80) \
  FIELD(ls_model_info, fingerprint, 88) \
  FIELD(ls_model_info, kernels, 96) \
  SIZE(ls_model_info, 104) \
  FIELD(ls_memory, struct_size, 0) \
  FIELD(ls_memory, weights, 8) \
  FIELD(ls_memory, pages, 16) \
  FIELD(ls_memory, rings, 24) \
  FIELD(ls_memory, states, 32) \
  FIELD(ls_memory, checkpoints, 40) \
  FIELD(ls_memory, workspace, 48) \
  FIELD(ls_memory, budget, 56) \
  FIELD(ls_memory, reserved, 64) \
  SIZE(ls_memory, 72) \
  FIELD(ls_sequence_bytes, struct_size, 0) \
  FIELD(ls_sequence_bytes, kv, 8) \
  FIELD(ls_sequence_bytes, window, 16) \
  FIELD(ls_sequence_bytes, state, 24) \
  FIELD(ls_sequence_bytes, checkpoint, 32) \
  FIELD(ls_sequence_bytes, shared, 40) \
  SIZE(ls_sequence_bytes, 48) \
  FIELD(ls_token_count, token, 0) \
  FIELD(ls_token_count, total, 4) \
  FIELD(ls_token_count, generated, 8) \
  SIZE(ls_token_count, 12) \
  FIELD(ls_logit_bias, token, 0) \
  FIELD(ls_logit_bias, bias, 4) \
  SIZE(ls_logit_bias, 8) \
  FIELD(ls_sampling, struct_size, 0) \
  FIELD(ls_sampling, seed, 8) \
  FIELD(ls_sampling, temperature, 16) \
  FIELD(ls_sampling, top_k, 20) \
  FIELD(ls_sampling, top_p, 24) \
  FIELD(ls_sampling, min_p, 28) \
  FIELD(ls_sampling, repetition_penalty, 32) \
  FIELD(ls_sampling, presence_penalty, 36) \
  FIELD(ls_sampling, frequency_penalty, 40) \
  FIELD(ls_sampling, history, 48) \
  FIELD(ls_sampling, num_history, 56) \
  FIELD(ls_sampling, bias, 64) \
  FIELD(ls_sampling, num_bias, 72) \
  FIELD(ls_sampling, allowed, 80) \
  SIZE(ls_sampling, 88) \
  FIELD(ls_batch_entry, sequence, 0) \
  FIELD(ls_batch_entry, tokens, 8) \
  FIELD(ls_batch_entry, num_tokens, 16) \
  FIELD(ls_batch_entry, is_decode, 20) \
  FIELD(ls_batch_entry, sampling, 24) \
  FIELD(ls_batch_entry, log_prob_rows, 32) \
  FIELD(ls_batch_entry, targets, 40) \
  FIELD(ls_batch_entry, num_top, 48) \
  FIELD(ls_batch_entry, logit_rows, 52) \
  SIZE(ls_batch_entry, 56) \
  FIELD(ls_batch, struct_size, 0) \
  FIELD(ls_batch, entries, 8) \
  FIELD(ls_batch, num_entries, 16) \
  SIZE(ls_batch, 24) \
  FIELD(ls_top_token, token, 0) \
  FIELD(ls_top_token, log_prob, 4) \
  SIZE(ls_top_token, 8) \
  FIELD(ls_result, code, 0) \
  FIELD(ls_result, message, 8) \
  FIELD(ls_result, sampled, 16) \
  FIELD(ls_result, num_log_prob_rows, 20) \
  FIELD(ls_result, log_probs, 24) \
  FIELD(ls_result, top, 32) \
  FIELD(ls_result, num_logit_rows, 40) \
  FIELD(ls_result, logits, 48) \
  SIZE(ls_result, 56) \
  FIELD(ls_results, results, 0) \
  FIELD(ls_results, num_results, 8) \
  SIZE(ls_results, 16) \
  FIELD(ls_writer, context, 0) \
  FIELD(ls_writer, write, 8) \
  SIZE(ls_writer, 16) \
  FIELD(ls_reader, context, 0) \
  FIELD(ls_reader, read, 8) \
  SIZE(ls_reader, 16) \
  FIELD(ls_snapshot_info, struct_size, 0) \
  FIELD(ls_snapshot_info, span_begin, 8) \
  FIELD(ls_snapshot_info, span_end, 16) \
  FIELD(ls_snapshot_info, span_bytes, 24) \
  FIELD(ls_snapshot_info, fixed_bytes, 32) \
  FIELD(ls_snapshot_info, position, 40) \
  SIZE(ls_snapshot_info, 48) \
  FIELD(ls_backend, abi_major, 0) \
  FIELD(ls_backend, abi_minor, 4) \
  FIELD(ls_backend, struct_size, 8) \
  FIELD(ls_backend, name, 16) \
  FIELD(ls_backend, device, 24) \
  FIELD(ls_backend, version, 32) \
  FIELD(ls_backend, capabilities, 40) \
  FIELD(ls_backend, probe, 48) \
  FIELD(ls_backend, model_open, 56) \
  FIELD(ls_backend, model_close, 64) \
  FIELD(ls_backend, model_info, 72) \
  FIELD(ls_backend, model_memory, 80) \
  FIELD(ls_backend, sequence_create, 88) \
  FIELD(ls_backend, sequence_fork, 96) \
  FIELD(ls_backend, sequence_free, 104) \
  FIELD(ls_backend, sequence_reserve, 112) \
  FIELD(ls_backend, sequence_checkpoint, 120) \
  FIELD(ls_backend, sequence_truncate, 128) \
  FIELD(ls_backend, sequence_position, 136) \
  FIELD(ls_backend, sequence_bytes, 144) \
  FIELD(ls_backend, sequence_export, 152) \
  FIELD(ls_backend, sequence_import, 160) \
  FIELD(ls_backend, submit, 168) \
  FIELD(ls_backend, wait, 176) \
  FIELD(ls_backend, model_set_budget, 184) \
  FIELD(ls_backend, snapshot_begin, 192) \
  FIELD(ls_backend, snapshot_read, 200) \
  FIELD(ls_backend, snapshot_free, 208) \
  FIELD(ls_backend, import_begin, 216) \
  FIELD(ls_backend, import_write, 224) \
  FIELD(ls_backend, import_attach, 232) \
  FIELD(ls_backend, import_free, 240) \
  SIZE(ls_backend, 248)
/* clang-format on */

#endif /* LONGSTREAM_TESTS_BACKENDS_API_BACKEND_LAYOUT_H_ */

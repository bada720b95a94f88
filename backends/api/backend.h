/* The Longstream backend ABI: the contract between a model backend (a shared library) and its host.
 *
 * A backend exports one symbol, LS_BACKEND_SYMBOL: a function that returns a pointer to a constant
 * ls_backend. The host checks abi_major and struct_size, then calls through that table. This header
 * is plain C11 and includes only <stddef.h> and <stdint.h>: no C++ type, no exception and no
 * allocator crosses the border.
 *
 * Conventions, valid for every function that does not state otherwise
 *   Return value  An ls_code; LS_OK is 0. On any other code the function has written no output and
 *                 no ownership has moved.
 *   Errors        `error` is a buffer that the caller owns; its text may be NULL. On a failure the
 *                 backend writes one sentence there: what failed, where, what was expected and what
 *                 was found. The backend cuts a sentence that does not fit.
 *   Ownership     The backend borrows `const` inputs for the duration of the call. It creates and
 *                 frees the handles (ls_model, ls_sequence). The host frees every sequence of a
 *                 model before it closes the model.
 *   Concurrency   The host calls a model and its sequences from one thread at a time; the thread
 *                 may change between calls. The exception is model_memory: any thread may call it
 *                 at any time. Different models are independent. probe and model_open may run
 *                 at the same time as any other call.
 *   Forward compatibility  A structure that one side fills and the other reads begins with
 *                 struct_size. The filling side sets it to its own sizeof of the structure. (The
 *                 exceptions are the structures that model_info, model_memory, sequence_bytes and
 *                 snapshot_begin fill: there the caller sets struct_size to the caller's sizeof.) A
 *                 minor version
 *                 only appends fields, after any padding. A reader requires the fields of version
 *                 1.0 (LS_..._SIZE_1_0) and uses only fields that struct_size covers. Structures
 *                 without struct_size do not change within a major version: ls_error, ls_results,
 *                 ls_writer, ls_reader, and the elements of arrays (ls_layer_info, ls_token_count,
 *                 ls_logit_bias, ls_batch_entry, ls_top_token, ls_result).
 *   Absent features  A table entry whose capability bit is not set may be NULL.
 *
 * Rollback point: the position that sequence_truncate can always go back to. The names in this
 * header call it the sequence's checkpoint; it has nothing to do with a model's checkpoint files.
 *
 * Determinism (the conformance kit checks it). Results are equal to the bit for
 *   - the same model,
 *   - the same tokens, fed to the sequence in the same turns: the same ones as decode entries, and
 *     the same begin and end of every prefill,
 *   - the same sampling parameters.
 * Results do not depend on the rest of the batch, on the number of the host's threads, or on where
 * the host cuts a prefill, if it cuts at absolute multiples of prefill_grid. With any other cut
 * they agree to rounding. All this holds across machines on which ls_model_info.kernels is the
 * same: other instruction sets and devices round differently.
 */
#ifndef LONGSTREAM_BACKENDS_API_BACKEND_H_
#define LONGSTREAM_BACKENDS_API_BACKEND_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LS_ABI_MAJOR 1u
#define LS_ABI_MINOR 4u

/* The one exported symbol: `const ls_backend* longstream_backend(void)`. */
#define LS_BACKEND_SYMBOL "longstream_backend"

/* Result of a call. The numbers are gRPC's status codes, so that a code travels unchanged. */
typedef int32_t ls_code;
enum {
  LS_OK = 0,
  LS_INVALID_ARGUMENT = 3,    /* a value that the function does not accept */
  LS_NOT_FOUND = 5,           /* a file or device that does not exist */
  LS_RESOURCE_EXHAUSTED = 8,  /* the byte budget has no room; try again after sequences are freed */
  LS_FAILED_PRECONDITION = 9, /* a snapshot of another model; a sequence that must be truncated */
  LS_UNIMPLEMENTED = 12,      /* well-formed, but this backend does not serve it */
  LS_INTERNAL = 13,           /* a defect: NaN logits, a device error, an exception caught */
  LS_UNAVAILABLE = 14,        /* the device is missing or lost; the host's writer reports failure */
  LS_DATA_LOSS = 15           /* a damaged checkpoint file or snapshot */
};

/* A buffer for the sentence that explains a failure. The backend always ends it with a NUL. */
typedef struct ls_error {
  char* text;      /* [capacity] bytes, owned by the caller */
  size_t capacity; /* in bytes, including the NUL; 0 is allowed */
} ls_error;

/* The bits of ls_backend.capabilities. */
enum {
  LS_CAP_SNAPSHOT = 1u << 0, /* sequence_export, sequence_import */
  LS_CAP_FORK = 1u << 1,     /* sequence_fork */
  LS_CAP_SCORE = 1u << 2,    /* log-probabilities and logits of every row, not just the last */
  LS_CAP_QUANTISED_WEIGHTS = 1u << 3, /* option "weights" accepts int8 and int4 */
  LS_CAP_IN_FLIGHT_TOKENS = 1u << 4,  /* LS_TOKEN_FROM_PREVIOUS is accepted */
  /* Since 1.1; requires LS_CAP_IN_FLIGHT_TOKENS. The host may submit a step before it waits for the
   * previous one, and so prepares the next step while the device computes. The backend promises:
   *   - submit returns while its step still runs, and an early submit costs nothing;
   *   - the host may find that a sequence should not have been in that step. sequence_truncate by
   *     the sequence's one decode entry then restores exactly the position asked for. Only if the
   *     sequence has recurrent states and the entry has reached a multiple of prefill_grid may
   *     sequence_truncate go back further;
   *   - the host may call sequence_bytes for a sequence in flight. */
  LS_CAP_LOOK_AHEAD = 1u << 5,
  LS_CAP_SET_BUDGET = 1u << 6, /* since 1.2: model_set_budget */
  LS_CAP_SEGMENTS = 1u << 7,   /* since 1.3: snapshot_begin ... import_free */
  /* Since 1.4: ls_sampling.allowed. The host gives no mask to a backend without this bit, because
   * a backend of an earlier minor version would ignore the mask. */
  LS_CAP_ALLOWED_TOKENS = 1u << 8
};

/* ---------------------------------------------------------------- host services */

/* Services that the host lends to a model. The table must outlive the model. */
typedef struct ls_host {
  uint32_t struct_size;
  void* context;        /* passed back as the first argument of each function */
  uint32_t num_threads; /* threads that parallel_run uses, including the caller; >= 1 */

  /* Calls task(argument, i) once for each i in [0, num_tasks), in any order, on up to num_threads
   * threads including the caller. Returns when all tasks are done. Thread-safe: several models may
   * call it at the same time. Not re-entrant: a task must not call parallel_run. */
  void (*parallel_run)(void* context, uint32_t num_tasks, void (*task)(void* argument, uint32_t i),
                       void* argument);

  /* Logs one line. severity: 0 debug, 1 info, 2 warning, 3 error. Thread-safe. */
  void (*log)(void* context, int32_t severity, const char* text);
} ls_host;

/* ---------------------------------------------------------------- models */

typedef struct ls_model ls_model;       /* an opened model: weights, pools, workspace */
typedef struct ls_sequence ls_sequence; /* the caches of one session on one model */
typedef struct ls_snapshot ls_snapshot; /* since 1.3: the caches of a sequence at one moment */
typedef struct ls_import ls_import;     /* since 1.3: a sequence that is read from segments */

#define LS_MAX_BATCH_TOKENS 1048576u
#define LS_MAX_BATCH_SEQUENCES 65536u

typedef struct ls_model_options {
  uint32_t struct_size;
  const char* directory;        /* path of a Hugging Face model directory, in UTF-8; or of what else
                                   the backend reads, such as a GGUF file */
  const char* options;          /* a JSON object of load-time options; NULL means {} */
  const char* const* devices;   /* [num_devices] "cpu", "cuda:0", ...; "cuda": the backend chooses
                                   one */
  uint32_t num_devices;         /* must be 1 today; a list leaves room for tensor parallelism */
  uint64_t cache_bytes_budget;  /* upper limit in bytes for the pages, rings, states and rollback
                                   copies of all sequences of the model together; 0: the device's
                                   memory. A backend may enforce less: ls_memory.budget */
  uint32_t max_batch_tokens;    /* rows (tokens) of all entries of one submit together; 1 ...
                                   LS_MAX_BATCH_TOKENS. model_open allocates buffers for them */
  uint32_t max_batch_sequences; /* entries of one submit; 1 ... LS_MAX_BATCH_SEQUENCES */
  const ls_host* host;          /* borrowed until model_close */
} ls_model_options;

/* The memory that one layer keeps for a sequence. */
enum {
  LS_LAYER_FULL = 0,     /* keys and values in pages; grow with the position */
  LS_LAYER_WINDOW = 1,   /* a ring of keys and values; constant size */
  LS_LAYER_RECURRENT = 2 /* a state matrix; constant size */
};

typedef struct ls_layer_info {
  int32_t kind; /* LS_LAYER_* */
  /* how the layer sees positions: "rope", "rerope", "leaky_rerope", "nope", "chunked_rope",
   * "alibi", "none" */
  const char* position;
  uint64_t window;          /* keys that the window or near ring covers; 0: there is neither */
  uint64_t bytes_per_token; /* bytes of pages per token in this layer */
  uint64_t bytes_fixed;     /* bytes of the ring or state per sequence in this layer */
} ls_layer_info;

/* A description of a model (model_info). Pointers stay valid until model_close. */
typedef struct ls_model_info {
  uint32_t struct_size;
  const char* architecture; /* the config's model_type */
  uint32_t vocabulary_size; /* token ids are 0 ... vocabulary_size - 1 */
  uint32_t num_layers;
  const ls_layer_info* layers; /* [num_layers] */
  uint64_t num_parameters;
  uint64_t context_limit;                 /* positions are 0 ... context_limit - 1 */
  uint32_t prefill_grid;                  /* in tokens, at least 1; see Determinism */
  uint32_t page_tokens;                   /* tokens per page; 0: no layer has pages */
  uint64_t kv_bytes_per_token;            /* sum of bytes_per_token over the layers */
  uint64_t window_bytes_per_sequence;     /* all rings of a sequence */
  uint64_t state_bytes_per_sequence;      /* all states of a sequence */
  uint64_t checkpoint_bytes_per_sequence; /* rollback copies; held while it has a reservation */
  uint64_t fingerprint; /* of weights, types and cache layout; a snapshot needs the same */
  const char* kernels;  /* the implementation in use: "avx2", ...; see Determinism */
} ls_model_info;

/* Bytes that a model holds right now, by kind. While it has no sequence, snapshot and import, all
 * fields but weights, workspace and budget are 0. */
typedef struct ls_memory {
  uint32_t struct_size;
  uint64_t weights;     /* packed weights and tables */
  uint64_t pages;       /* pages that sequences, snapshots and imports use; a shared page counts
                           once */
  uint64_t rings;       /* rings in use */
  uint64_t states;      /* recurrent states in use */
  uint64_t checkpoints; /* copies of rings and states at rollback points */
  uint64_t workspace;   /* activations and scratch */
  uint64_t budget;      /* the limit in force for pages + rings + states + checkpoints: at most
                           cache_bytes_budget unless that is 0, and at most the memory that exists,
                           if the backend knows it. UINT64_MAX: no limit is known */
  uint64_t reserved;    /* the part of the budget that sequences hold or that reserve promised them;
                           create, fork, import and reserve can take budget - reserved. A device with
                           fixed pools may keep part of that for pages, or for rings and states */
} ls_memory;

/* Bytes that one sequence holds, by kind. A page that forks share counts in each of them. */
typedef struct ls_sequence_bytes {
  uint32_t struct_size;
  uint64_t kv;         /* pages: ceil(position / page_tokens) * page_tokens * kv_bytes_per_token */
  uint64_t window;     /* rings */
  uint64_t state;      /* recurrent states */
  uint64_t checkpoint; /* rollback copies; held while a reservation stands */
  uint64_t shared;     /* since 1.3: the part of kv in pages that other sequences hold too. To free
                          the sequence does not free these pages */
} ls_sequence_bytes;

/* ---------------------------------------------------------------- batches */

/* Stands in place of a token id, as the only token of a decode entry. It means the token that the
 * latest ticket samples for the same sequence. That ticket must still be in flight (not waited
 * for). If the ticket's entry for the sequence failed, this entry fails with
 * LS_FAILED_PRECONDITION. Needs LS_CAP_IN_FLIGHT_TOKENS. */
#define LS_TOKEN_FROM_PREVIOUS (-1)

typedef struct ls_token_count {
  int32_t token;
  int32_t total;     /* occurrences in the whole history, including the prompt */
  int32_t generated; /* occurrences among the generated tokens that penalties count */
} ls_token_count;

typedef struct ls_logit_bias {
  int32_t token;
  float bias; /* a finite number, added to the logit; or -INFINITY, which bans the token */
} ls_logit_bias;

/* How a token is drawn from the logits z of the entry's last row. Steps, in this order:
 *   1 repetition_penalty r over tokens with total > 0:  z > 0 ? z / r : z * r
 *   2 z -= presence_penalty * (generated > 0) + frequency_penalty * generated
 *   3 z += bias
 *   4 allowed: z = -infinity for the tokens that are not allowed
 *   5 temperature 0: the argmax, ties to the lowest id. Otherwise z /= temperature. If the largest
 *     quotient is infinite in f32: the argmax of the z before the division. Otherwise
 *   6 top_k: keep the k largest; among equal ones at the border keep the lowest ids
 *   7 top_p: of these, keep the most probable ones, as few as have a total probability >= top_p
 *   8 min_p: of these, keep the tokens with a probability >= min_p * the largest one
 *   9 the token is the argmax over these of z_i - log(-log(u_i)); ties to the lowest id. u_i comes
 *     from Philox4x32-10 with the key `seed` and the counter (position of the new token, id i).
 * A token thus depends on its own row, the seed and the position, never on the batch. A mask that
 * allows every token draws the same token as no mask. */
typedef struct ls_sampling {
  uint32_t struct_size;
  uint64_t seed;
  float temperature;             /* >= 0 */
  int32_t top_k;                 /* 0: off */
  float top_p;                   /* in (0, 1]; 1: off */
  float min_p;                   /* in [0, 1]; 0: off */
  float repetition_penalty;      /* > 0; 1: off */
  float presence_penalty;        /* 0: off */
  float frequency_penalty;       /* 0: off */
  const ls_token_count* history; /* [num_history], each token once; read only if a penalty is on */
  uint32_t num_history;
  const ls_logit_bias* bias; /* [num_bias], each token once */
  uint32_t num_bias;
  const uint32_t* allowed; /* since 1.4: [ceil(vocabulary_size / 32)]. Bit t % 32 of word t / 32:
                              token t may be drawn. Bits beyond the vocabulary are ignored. NULL:
                              every token may be drawn. Needs LS_CAP_ALLOWED_TOKENS */
} ls_sampling;

/* The rows of a batch entry for which the host wants an output. */
enum {
  LS_ROWS_NONE = 0,
  LS_ROWS_LAST = 1,
  LS_ROWS_ALL = 2 /* needs LS_CAP_SCORE */
};

/* One sequence's part of a step: its next tokens and the outputs that the host wants. */
typedef struct ls_batch_entry {
  ls_sequence* sequence;       /* at most one entry of a batch */
  const int32_t* tokens;       /* [num_tokens] token ids, from the sequence's position on */
  uint32_t num_tokens;         /* >= 1, and within the reservation */
  uint32_t is_decode;          /* 1: a decode entry, of one token; 0: a piece of a prefill */
  const ls_sampling* sampling; /* how to sample from the last row; NULL: nothing is sampled */
  int32_t log_prob_rows;  /* LS_ROWS_*: rows with log-probabilities of targets and top tokens */
  const int32_t* targets; /* [log-probability rows: num_tokens for LS_ROWS_ALL, 1 for LS_ROWS_LAST]
                             the token id whose log-probability each row reports; -1: none. NULL:
                             the sampled token in the last row, none in the others */
  uint32_t num_top;       /* most probable tokens to report per such row; <= LS_MAX_TOP */
  int32_t logit_rows;     /* LS_ROWS_*: rows with their raw logits */
} ls_batch_entry;

#define LS_MAX_TOP 32u

typedef struct ls_batch {
  uint32_t struct_size;
  const ls_batch_entry* entries; /* [num_entries] */
  uint32_t num_entries;          /* 1 ... max_batch_sequences */
} ls_batch;

typedef struct ls_top_token {
  int32_t token;
  float log_prob;
} ls_top_token;

/* One entry's outcome. Unless code is LS_OK, nothing was sampled and there are no rows.
 * Log-probabilities are natural logarithms of the softmax of the raw logits, before penalties,
 * bias, temperature and truncation. Pointers stay valid until the second submit after the one that
 * returned the ticket, or until model_close if that comes first. */
typedef struct ls_result {
  ls_code code;        /* LS_OK, or the reason why this sequence failed, and only this one */
  const char* message; /* the sentence that goes with code; "" for LS_OK */
  int32_t sampled;     /* the sampled token, or -1 */
  uint32_t num_log_prob_rows;
  const float* log_probs;  /* [num_log_prob_rows] of the targets; NaN: the row has none */
  const ls_top_token* top; /* [num_log_prob_rows, num_top], most probable first, then lowest id */
  uint32_t num_logit_rows;
  const float* logits; /* [num_logit_rows, vocabulary_size] */
} ls_result;

typedef struct ls_results {
  const ls_result* results; /* [num_results], in the order of the batch's entries */
  uint32_t num_results;
} ls_results;

/* The host's functions for an export and an import. write takes and read gives exactly `size`
 * bytes. Both return 0; any other result ends the export or import. */
typedef struct ls_writer {
  void* context;
  int32_t (*write)(void* context, const void* data, size_t size);
} ls_writer;

typedef struct ls_reader {
  void* context;
  int32_t (*read)(void* context, void* data, size_t size);
} ls_reader;

/* ---------------------------------------------------------------- segments (since 1.3) */

/* A snapshot is stored as segments, of two kinds.
 *   Span         The pages of tokens [begin, end) in all layers. begin and end are multiples of
 *                page_tokens. Pages of these tokens never change, so sequences with the same
 *                beginning have equal spans, and a session stores each of its spans once. A model
 *                without pages (page_tokens == 0) has no spans.
 *   Fixed block  Everything else that a sequence at a position remembers: rings, states, the rows
 *                that its states do not contain yet, and the page that is only partly full.
 * A sequence at position p is made from spans that cover [0, p / page_tokens * page_tokens) and the
 * fixed block of p. So a turn stores the span of its own tokens and one fixed block.
 *
 * The backend chooses the format, which must contain the model's fingerprint, the range of tokens
 * and checksums. A segment does not depend on ls_model_info.kernels: it can be read on other
 * instruction sets and devices, if the fingerprint is the same. */
enum { LS_SEGMENT_SPAN = 1, LS_SEGMENT_FIXED = 2 };

typedef struct ls_snapshot_info {
  uint32_t struct_size;
  uint64_t span_begin;  /* the span has the tokens [span_begin, span_end) */
  uint64_t span_end;    /* == span_begin: there is no span, and it has no bytes */
  uint64_t span_bytes;  /* of the segment, checksums included */
  uint64_t fixed_bytes; /* of the segment, checksums included. Until it is freed, the snapshot takes
                           about as much host memory, in addition to the budget */
  uint64_t position;    /* of the sequence, and of the fixed block */
} ls_snapshot_info;

/* ---------------------------------------------------------------- the table */

typedef struct ls_backend {
  uint32_t abi_major; /* LS_ABI_MAJOR of the backend's build; must equal the host's */
  uint32_t abi_minor;
  uint32_t struct_size;  /* sizeof(ls_backend) as the backend knows it */
  const char* name;      /* the backend's name in configurations: "dense" */
  const char* device;    /* "cpu" or "cuda" */
  const char* version;   /* the backend's own version, for people */
  uint64_t capabilities; /* LS_CAP_* */

  /* Tells how well this backend serves the checkpoint in `directory`. *fit is 0 (it cannot; `error`
   * says why), 1 ... 99 (it can) or 100 (the config names this backend's own kind). Reads
   * config.json only. Fails only if config.json cannot be read or parsed. */
  ls_code (*probe)(const char* directory, int32_t* fit, ls_error error);

  /* Reads the checkpoint, packs the weights and allocates the pools. The caller owns *model until
   * it calls model_close.
   * LS_NOT_FOUND: a file or a device that does not exist.
   * LS_UNAVAILABLE: the device exists but cannot be used: its architecture is not supported, or a
   *   library is missing.
   * LS_RESOURCE_EXHAUSTED: the device has no memory for weights or pools.
   * LS_DATA_LOSS: a damaged checkpoint file.
   * LS_INVALID_ARGUMENT: options that are not a JSON object; an unknown option or a value outside
   *   its range (the message names it); a config that lacks a key; a budget too small for one
   *   sequence of one token.
   * LS_UNIMPLEMENTED: a config key asks for mathematics that this backend does not serve (the
   *   message names the key). */
  ls_code (*model_open)(const ls_model_options* options, ls_model** model, ls_error error);
  /* Frees the model. REQUIRES: its sequences are freed. */
  void (*model_close)(ls_model* model);
  /* Describes the model. The caller sets info->struct_size; the backend fills what it covers. */
  ls_code (*model_info)(const ls_model* model, ls_model_info* info);
  /* Counts the bytes that the model holds. The caller sets memory->struct_size. Thread-safe. */
  ls_code (*model_memory)(const ls_model* model, ls_memory* memory);

  /* Makes an empty sequence at position 0. Takes its rings and states from the budget.
   * LS_RESOURCE_EXHAUSTED: they do not fit. */
  ls_code (*sequence_create)(ls_model* model, ls_sequence** sequence, ls_error error);
  /* Makes a second sequence with the same history. The two share pages copy-on-write; rings and
   * states are copied. The copy has no rollback point and no reservation.
   * LS_FAILED_PRECONDITION: the source is failed. LS_RESOURCE_EXHAUSTED: no room. */
  ls_code (*sequence_fork)(ls_model* model, ls_sequence* source, ls_sequence** sequence,
                           ls_error error);
  /* Frees a sequence and returns its bytes to the budget. */
  void (*sequence_free)(ls_model* model, ls_sequence* sequence);

  /* Promises room for `tokens` more tokens after the current position, and for the copies of a
   * rollback point. A step never runs out of promised memory. The promise ends at an absolute
   * position, which truncate does not change. It replaces the previous promise; 0 returns all
   * unused room and ends the rollback point.
   * LS_RESOURCE_EXHAUSTED: no room; the previous promise stands. Of the other calls on sequences,
   *   only create, fork, import, snapshot_begin and import_begin may return this code.
   * LS_INVALID_ARGUMENT: position + tokens is past context_limit. */
  ls_code (*sequence_reserve)(ls_model* model, ls_sequence* sequence, uint64_t tokens,
                              ls_error error);
  /* Makes the current position the rollback point, in place of the previous one.
   * LS_FAILED_PRECONDITION: no reservation stands, or the sequence is failed. */
  ls_code (*sequence_checkpoint)(ls_model* model, ls_sequence* sequence, ls_error error);
  /* Goes back to `position`: at most the current position and at least the rollback point, or any
   * earlier position if the sequence holds only pages. May go back further than asked, but not
   * behind the rollback point: *restored is the position reached, rollback point <= *restored <=
   * position. The host then feeds the tokens in between again, each as before (decode or prefill).
   * Reservation and rollback point stand. A failed sequence becomes usable again. A failed sequence
   * without a rollback point may be restored to 0, even if the host asks for its current position.
   * LS_INVALID_ARGUMENT: a position that cannot be reached.
   * LS_INTERNAL: the device failed; the sequence is failed until a truncate succeeds. */
  ls_code (*sequence_truncate)(ls_model* model, ls_sequence* sequence, uint64_t position,
                               uint64_t* restored, ls_error error);
  /* Returns the number of tokens in the caches, including those of tickets in flight. A failed
   * sequence is where it was before the step that failed. */
  uint64_t (*sequence_position)(const ls_sequence* sequence);
  /* Counts the bytes that the sequence holds. The caller sets bytes->struct_size. */
  ls_code (*sequence_bytes)(const ls_model* model, const ls_sequence* sequence,
                            ls_sequence_bytes* bytes);
  /* Writes all that the sequence remembers, except its rollback point and its reservation. The
   * backend chooses the format, which must contain the model's fingerprint and a checksum.
   * LS_FAILED_PRECONDITION: the sequence is failed. LS_UNAVAILABLE: the writer has failed. */
  ls_code (*sequence_export)(ls_model* model, ls_sequence* sequence, const ls_writer* writer,
                             ls_error error);
  /* Makes a sequence from exported bytes. Reads exactly one export. The sequence has no rollback
   * point and no reservation.
   * LS_FAILED_PRECONDITION: the snapshot of another model.
   * LS_DATA_LOSS: a damaged snapshot (any bit of it), or the reader has failed.
   * LS_RESOURCE_EXHAUSTED: no room. */
  ls_code (*sequence_import)(ls_model* model, const ls_reader* reader, ls_sequence** sequence,
                             ls_error error);

  /* Starts one step, which feeds the tokens of every entry to the model, and returns its ticket.
   * submit has read the batch when it returns. A ticket is in flight from submit to wait. At most
   * two tickets are in flight; the host waits for them in the order of their submits. Meanwhile the
   * host passes their sequences only to submit and sequence_position, and to sequence_bytes if
   * LS_CAP_LOOK_AHEAD is set. It may pass other sequences to any function.
   *
   * submit itself fails only for a malformed batch, and then has changed nothing:
   * LS_INVALID_ARGUMENT: an empty or too large batch or entry; a sequence twice; an id of a token,
   *   target, history or bias outside the vocabulary; a token twice in one history or bias;
   *   LS_TOKEN_FROM_PREVIOUS while no token is being sampled for the sequence; a decode entry of
   *   several tokens; tokens past the reservation or the context limit; a sampling value that is
   *   NaN or outside its range.
   * LS_UNIMPLEMENTED: the batch needs a capability whose bit is not set.
   * LS_FAILED_PRECONDITION: two tickets are already in flight.
   *
   * Any other failure concerns one sequence and is the code of its result. The sequence is then
   * failed: it takes no tokens (their result is LS_FAILED_PRECONDITION) until it is truncated.
   * LS_INTERNAL: NaN logits, or the device reported a failure.
   * LS_RESOURCE_EXHAUSTED: something outside the budget has left no memory for the lists of
   *   penalties and bias, for the masks of allowed tokens, or for the host's part of a step.
   * LS_UNAVAILABLE: the device is lost. Every later step fails in the same way; the host can only
   *   close the model.
   * LS_INVALID_ARGUMENT: no token is allowed, bias bans every allowed token, or penalties and bias
   *   turn the logit of an allowed token into NaN, or all of these logits into -infinity. */
  ls_code (*submit)(ls_model* model, const ls_batch* batch, uint64_t* ticket, ls_error error);
  /* Waits until the step is done and returns its results (ls_result says how long they stay valid).
   * LS_INVALID_ARGUMENT: not the oldest ticket in flight. */
  ls_code (*wait)(ls_model* model, uint64_t ticket, ls_results* results, ls_error error);

  /* Since 1.2. Changes the limit for the caches of all sequences: to cache_bytes_budget, but at
   * most to the limit in force after model_open. ls_memory.budget is the new limit. Sequences keep
   * what they hold and what reserve has promised them, even if that is more. Then create, fork,
   * import, and reserve for more than the present promise fail with LS_RESOURCE_EXHAUSTED, until
   * enough is freed. LS_INVALID_ARGUMENT: less than one sequence of one token needs; the limit
   * stays. The host calls it now and then with the limit in force, so that the model gives memory
   * that it has not used for some time back to the system. */
  ls_code (*model_set_budget)(ls_model* model, uint64_t cache_bytes_budget, ls_error error);

  /* The following functions exist since 1.3; they need LS_CAP_SEGMENTS. */

  /* Begins a snapshot of the sequence: a span of the tokens from `from` on, and the fixed block of
   * the current position. Takes references to the full pages, as a fork does, and copies the rest,
   * so it is fast and the sequence may go on at once: whatever happens to the sequence afterwards
   * (steps, truncate, fork, free), the snapshot keeps the bytes of this moment. The pages count in
   * the budget until the snapshot is freed. The caller sets info->struct_size.
   * LS_INVALID_ARGUMENT: `from` is past the position, or not a multiple of page_tokens (unless
   *   page_tokens is 0).
   * LS_FAILED_PRECONDITION: the sequence is failed.
   * LS_RESOURCE_EXHAUSTED: the host's memory has no room for the copy; or a reservation stands, and
   *   the budget has no room for pages in place of those that a rollback could write and that the
   *   snapshot now shares. Neither happens because the budget is full if no reservation stands. */
  ls_code (*snapshot_begin)(ls_model* model, ls_sequence* sequence, uint64_t from,
                            ls_snapshot** snapshot, ls_snapshot_info* info, ls_error error);
  /* Reads the next bytes of a segment (LS_SEGMENT_*): *size is `capacity`, or less if the segment
   * ends, and 0 behind its end. Each segment is read once, from its beginning. Sequences with equal
   * caches and tokens give equal bytes. May run beside any other call on the model.
   * LS_INVALID_ARGUMENT: no such kind of segment.
   * LS_RESOURCE_EXHAUSTED: the host's memory has no room for the backend's lists.
   * LS_INTERNAL, LS_UNAVAILABLE: the device failed. Then the snapshot can only be freed. */
  ls_code (*snapshot_read)(ls_snapshot* snapshot, int32_t segment, void* data, size_t capacity,
                           size_t* size, ls_error error);
  /* Frees a snapshot, read or not, and its references to pages. */
  void (*snapshot_free)(ls_model* model, ls_snapshot* snapshot);

  /* Begins to make a sequence at `position` from segments: takes its rings, states and pages from
   * the budget.
   * LS_INVALID_ARGUMENT: position is past context_limit. LS_RESOURCE_EXHAUSTED: no room. */
  ls_code (*import_begin)(ls_model* model, uint64_t position, ls_import** import, ls_error error);
  /* Reads the next bytes of the import: the spans one after the other, then the fixed block. They
   * may be cut into pieces anywhere. A span must not begin behind the end of the spans before it;
   * where it covers tokens of an earlier one, it replaces them. Tokens of a span that the position
   * does not need are checked and dropped. After a failure every further write and the attach fail
   * in the same way. May run beside any other call on the model.
   * LS_DATA_LOSS: damaged bytes (any bit), or bytes behind the fixed block.
   * LS_FAILED_PRECONDITION: a segment of another model, of other cache types, of another version of
   *   the format, of another byte order, or of tokens past context_limit.
   * LS_INVALID_ARGUMENT: a span that leaves a gap, or the fixed block of another position.
   * LS_RESOURCE_EXHAUSTED: the host's memory has no room for the backend's lists.
   * LS_INTERNAL, LS_UNAVAILABLE: the device failed. */
  ls_code (*import_write)(ls_import* import, const void* data, size_t size, ls_error error);
  /* Turns the import into a sequence, which has no rollback point and no reservation. The import is
   * then freed; if attach fails, the host frees it.
   * LS_DATA_LOSS: bytes are missing. LS_INTERNAL, LS_UNAVAILABLE: the device failed. */
  ls_code (*import_attach)(ls_model* model, ls_import* import, ls_sequence** sequence,
                           ls_error error);
  /* Frees an import that was not attached, and returns its bytes to the budget. */
  void (*import_free)(ls_model* model, ls_import* import);
} ls_backend;

typedef const ls_backend* (*ls_backend_function)(void);

/* The least struct_size that a reader accepts: up to the last field of version 1.0. (With its own
 * sizeof, a reader would refuse all earlier minor versions.) */
#define LS_HOST_SIZE_1_0 (offsetof(ls_host, log) + sizeof(void*))
#define LS_MODEL_OPTIONS_SIZE_1_0 (offsetof(ls_model_options, host) + sizeof(void*))
#define LS_SAMPLING_SIZE_1_0 (offsetof(ls_sampling, num_bias) + sizeof(uint32_t))
#define LS_BATCH_SIZE_1_0 (offsetof(ls_batch, num_entries) + sizeof(uint32_t))
#define LS_BACKEND_SIZE_1_0 (offsetof(ls_backend, wait) + sizeof(void*))

/* The struct_size of a host that knows the fields of a later minor version. */
#define LS_SAMPLING_SIZE_1_4 (offsetof(ls_sampling, allowed) + sizeof(void*))

/* The struct_size that a table needs if it has the capabilities of a later minor version. */
#define LS_BACKEND_SIZE_1_2 (offsetof(ls_backend, model_set_budget) + sizeof(void*))
#define LS_BACKEND_SIZE_1_3 (offsetof(ls_backend, import_free) + sizeof(void*))

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LONGSTREAM_BACKENDS_API_BACKEND_H_ */

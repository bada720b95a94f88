/* The Longstream backend ABI: what a model backend (a shared library) and its host agree on.
 *
 * A backend exports exactly one symbol, LS_BACKEND_SYMBOL, a function that returns a pointer to a
 * constant ls_backend. The host checks abi_major and struct_size, then calls through the table.
 * The header is plain C11 and includes nothing but <stddef.h> and <stdint.h>: no C++ type, no
 * exception and no allocator crosses the border.
 *
 * Conventions, valid for every function unless it says otherwise
 *   Return value  an ls_code; LS_OK is 0. On any other code no output has been written and no
 *                 ownership has moved.
 *   Errors        `error` is a caller-owned buffer (may be NULL). On failure the backend writes one
 *                 sentence: what, where, expected and found. Truncation is not an error.
 *   Ownership     `const` inputs are borrowed for the duration of the call. Handles are created and
 *                 freed by the backend. A model outlives its sequences: the host frees every
 *                 sequence before it closes the model.
 *   Concurrency   Calls on one model, its sequences included, are made by one thread at a time;
 *                 which thread may change between calls. model_memory alone may be called at any
 *                 time from any thread. Different models are independent. probe and model_open
 *                 may run concurrently with anything.
 *   Forward compatibility  A structure that one side fills and the other reads begins with
 *                 struct_size = sizeof the structure as the filling side knows it. A minor version
 *                 only appends fields, behind any padding; a reader requires what version 1.0 has
 *                 (LS_..._SIZE_1_0) and uses the fields that struct_size covers. A structure
 *                 without struct_size (ls_error, ls_results, ls_writer, ls_reader, and those that
 *                 come in arrays: ls_layer_info, ls_token_count, ls_logit_bias, ls_batch_entry,
 *                 ls_top_token, ls_result) does not change within a major version.
 *   Absent features  A table entry whose capability bit is not set may be NULL.
 *
 * Determinism (the conformance kit checks it). For the same model, the same history of a sequence,
 * fed in the same turns (which tokens came as decode entries, where each prefill began and ended),
 * and the same sampling parameters, results are equal to the bit: whatever else is in the batch,
 * however many threads the host offers, and wherever the host cuts a prefill at absolute multiples
 * of prefill_grid. Any other cut agrees to rounding. So it is on all machines where
 * ls_model_info.kernels is the same: other instruction sets and devices round differently.
 */
#ifndef LONGSTREAM_BACKENDS_API_BACKEND_H_
#define LONGSTREAM_BACKENDS_API_BACKEND_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LS_ABI_MAJOR 1u
#define LS_ABI_MINOR 1u

/* The one exported symbol: `const ls_backend* longstream_backend(void)`. */
#define LS_BACKEND_SYMBOL "longstream_backend"

/* Result of a call. The numbers are gRPC's canonical ones, so that a code travels unchanged. */
typedef int32_t ls_code;
enum {
  LS_OK = 0,
  LS_INVALID_ARGUMENT = 3,    /* a value outside what the function accepts */
  LS_NOT_FOUND = 5,           /* a file or device that does not exist */
  LS_RESOURCE_EXHAUSTED = 8,  /* the byte budget has no room; try again after sequences are freed */
  LS_FAILED_PRECONDITION = 9, /* a snapshot of another model, a sequence that must be truncated */
  LS_UNIMPLEMENTED = 12,      /* well-formed, but this backend does not serve it */
  LS_INTERNAL = 13,           /* a defect: NaN logits, a device error, an exception caught */
  LS_UNAVAILABLE = 14,        /* the device is missing or lost; the host's writer gave up */
  LS_DATA_LOSS = 15           /* a damaged checkpoint file or snapshot */
};

/* Where a backend puts the sentence that explains a failure. Always NUL-terminated. */
typedef struct ls_error {
  char* text;      /* [capacity] bytes, owned by the caller */
  size_t capacity; /* in bytes, the NUL included; 0 is allowed */
} ls_error;

/* What a backend can do, ls_backend.capabilities. */
enum {
  LS_CAP_SNAPSHOT = 1u << 0, /* sequence_export, sequence_import */
  LS_CAP_FORK = 1u << 1,     /* sequence_fork */
  LS_CAP_SCORE = 1u << 2,    /* log-probabilities and logits of every row, not just the last */
  LS_CAP_QUANTISED_WEIGHTS = 1u << 3, /* option "weights" accepts int8 and int4 */
  LS_CAP_IN_FLIGHT_TOKENS = 1u << 4,  /* LS_TOKEN_FROM_PREVIOUS is accepted */
  /* Since 1.1, with LS_CAP_IN_FLIGHT_TOKENS. A step submitted before the one before it is waited
   * for costs nothing and gains the host's time between the two:
   *   - submit returns while its step runs;
   *   - where it turns out that a sequence should not have been in it, sequence_truncate by that
   *     one decode entry restores the position asked for. Only a sequence with recurrent states
   *     whose entry has reached a multiple of prefill_grid may go further back;
   *   - sequence_bytes may be asked of a sequence in flight. */
  LS_CAP_LOOK_AHEAD = 1u << 5
};

/* ---------------------------------------------------------------- host services */

/* What the host lends to a model. The table must outlive the model. */
typedef struct ls_host {
  uint32_t struct_size;
  void* context;        /* passed back as the first argument of each function */
  uint32_t num_threads; /* threads that parallel_run uses, the caller included; >= 1 */

  /* Calls task(argument, i) once for each i in [0, num_tasks), on up to num_threads threads, the
   * caller among them, and returns when all are done. Tasks run in any order. Thread-safe: several
   * models may call it at the same time. Not re-entrant: a task does not call parallel_run. */
  void (*parallel_run)(void* context, uint32_t num_tasks, void (*task)(void* argument, uint32_t i),
                       void* argument);

  /* One line of log text. severity: 0 debug, 1 info, 2 warning, 3 error. Thread-safe. */
  void (*log)(void* context, int32_t severity, const char* text);
} ls_host;

/* ---------------------------------------------------------------- models */

typedef struct ls_model ls_model;       /* an opened model: weights, pools, workspace */
typedef struct ls_sequence ls_sequence; /* the caches of one session on one model */

#define LS_MAX_BATCH_TOKENS 1048576u
#define LS_MAX_BATCH_SEQUENCES 65536u

typedef struct ls_model_options {
  uint32_t struct_size;
  const char* directory;        /* a Hugging Face model directory, UTF-8 path */
  const char* options;          /* a JSON object of load-time options; NULL means {} */
  const char* const* devices;   /* [num_devices] "cpu", "cuda:0", ..., or "cuda" for one of the
                                   backend's choice */
  uint32_t num_devices;         /* 1 today; a list, so that tensor parallelism fits */
  uint64_t cache_bytes_budget;  /* upper bound in bytes for all pages, rings, states and checkpoints
                                   of this model's sequences together; 0: the device's memory. A
                                   backend may enforce less: ls_memory.budget */
  uint32_t max_batch_tokens;    /* rows one submit may carry, all its sequences together; from 1 to
                                   LS_MAX_BATCH_TOKENS. Buffers are made for so many at open */
  uint32_t max_batch_sequences; /* entries one submit may carry; 1 ... LS_MAX_BATCH_SEQUENCES */
  const ls_host* host;          /* borrowed until model_close */
} ls_model_options;

/* What one layer keeps per session. */
enum {
  LS_LAYER_FULL = 0,     /* paged keys and values; grows with the position */
  LS_LAYER_WINDOW = 1,   /* a ring of keys and values; constant */
  LS_LAYER_RECURRENT = 2 /* a state matrix; constant */
};

typedef struct ls_layer_info {
  int32_t kind; /* LS_LAYER_* */
  /* "rope", "rerope", "leaky_rerope", "nope", "chunked_rope", "alibi", "none" */
  const char* position;
  uint64_t window;          /* keys a window or near ring reaches; 0 where there is none */
  uint64_t bytes_per_token; /* paged bytes per token of this layer */
  uint64_t bytes_fixed;     /* ring or state bytes per session of this layer */
} ls_layer_info;

/* Filled by model_info. Pointers stay valid until model_close. */
typedef struct ls_model_info {
  uint32_t struct_size;
  const char* architecture; /* the config's model_type */
  uint32_t vocabulary_size; /* token ids are 0 ... vocabulary_size - 1 */
  uint32_t num_layers;
  const ls_layer_info* layers; /* [num_layers] */
  uint64_t num_parameters;
  uint64_t context_limit;      /* positions are 0 ... context_limit - 1 */
  uint32_t prefill_grid;       /* tokens, at least 1; see Determinism */
  uint32_t page_tokens;        /* tokens per page of the paged store; 0 where no layer is paged */
  uint64_t kv_bytes_per_token; /* sum over layers of bytes_per_token */
  uint64_t window_bytes_per_sequence;     /* sum of the rings */
  uint64_t state_bytes_per_sequence;      /* sum of the states */
  uint64_t checkpoint_bytes_per_sequence; /* held besides while a reservation stands */
  uint64_t fingerprint; /* of weights, dtypes and cache layout: equal means snapshots fit */
  const char* kernels;  /* the implementation it computes with: "avx2", ...; see Determinism */
} ls_model_info;

/* Bytes a model holds right now, by kind. With no sequence alive all but weights, workspace and
 * budget are 0. */
typedef struct ls_memory {
  uint32_t struct_size;
  uint64_t weights;     /* packed weights and tables */
  uint64_t pages;       /* pages in use by sequences, shared pages counted once */
  uint64_t rings;       /* rings in use */
  uint64_t states;      /* recurrent states in use */
  uint64_t checkpoints; /* copies kept for truncate */
  uint64_t workspace;   /* activations and scratch */
  uint64_t budget;   /* what pages + rings + states + checkpoints may reach, as it is enforced: at
                        most cache_bytes_budget where that is not 0, and no more than the memory
                        there is where the backend knows how much that is (UINT64_MAX: it does not) */
  uint64_t reserved; /* of the budget: what sequences hold or were promised by reserve; what is
                        left for create, fork, import and reserve is budget - reserved, of which a
                        device with fixed pools may keep a part for pages or for rings and states */
} ls_memory;

/* Bytes one sequence holds, by kind; a page shared by a fork counts in each holder. */
typedef struct ls_sequence_bytes {
  uint32_t struct_size;
  uint64_t kv;         /* pages: ceil(position / page_tokens) * page_tokens * kv_bytes_per_token */
  uint64_t window;     /* rings */
  uint64_t state;      /* recurrent states */
  uint64_t checkpoint; /* copies kept for truncate while a reservation stands */
} ls_sequence_bytes;

/* ---------------------------------------------------------------- batches */

/* Stands for a token id as the first and only token of a decode entry: the token that the latest
 * ticket, not yet waited for, samples for the same sequence. Where that entry failed, this one
 * fails with LS_FAILED_PRECONDITION. Needs LS_CAP_IN_FLIGHT_TOKENS. */
#define LS_TOKEN_FROM_PREVIOUS (-1)

typedef struct ls_token_count {
  int32_t token;
  int32_t total;     /* occurrences in the whole history, prompt included */
  int32_t generated; /* occurrences among generated tokens */
} ls_token_count;

typedef struct ls_logit_bias {
  int32_t token;
  float
      bias; /* added to the logit; -INFINITY bans the token, other non-finite values are invalid */
} ls_logit_bias;

/* How a token is drawn from the logits z of the last row. Steps, in this order:
 *   1 repetition_penalty r over tokens with total > 0:  z > 0 ? z / r : z * r
 *   2 z -= presence_penalty * (generated > 0) + frequency_penalty * generated
 *   3 z += bias
 *   4 temperature 0: the argmax, ties to the lowest id. Otherwise z /= temperature, then
 *   5 top_k: the k largest stay (ties at the border: the lowest ids)
 *   6 top_p: of what is left, in falling order, the shortest prefix whose probability >= top_p
 *   7 min_p: of what is left, those with probability >= min_p * the largest
 *   8 argmax over what is left of z_i - log(-log(u_i)), u_i from Philox4x32-10 with the key `seed`
 *     and the counter (position of the new token, token id i); ties to the lowest id.
 * So a token depends on its own row, the seed and the position, never on the batch. */
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
  const ls_token_count* history; /* [num_history], each token once; read if a penalty is on */
  uint32_t num_history;
  const ls_logit_bias* bias; /* [num_bias], each token once */
  uint32_t num_bias;
} ls_sampling;

/* Rows of a batch entry that an output is wanted for. */
enum {
  LS_ROWS_NONE = 0,
  LS_ROWS_LAST = 1,
  LS_ROWS_ALL = 2 /* needs LS_CAP_SCORE */
};

/* One sequence's part of a step: its next tokens and what is wanted of them. */
typedef struct ls_batch_entry {
  ls_sequence* sequence;       /* at most once in a batch */
  const int32_t* tokens;       /* [num_tokens], at the positions that follow the sequence's */
  uint32_t num_tokens;         /* >= 1; within the reservation */
  uint32_t is_decode;          /* 1: one token, a decode row; 0: a piece of a prefill */
  const ls_sampling* sampling; /* NULL: nothing is sampled; else from the last row */
  int32_t log_prob_rows;       /* LS_ROWS_*: log-probability of `targets` and the top tokens */
  const int32_t* targets; /* [rows: num_tokens for LS_ROWS_ALL, 1 for LS_ROWS_LAST] token ids whose
                             log-probability is wanted; -1: none in that row; NULL: with `sampling`
                             the sampled token on the last row, else none */
  uint32_t num_top;       /* most probable tokens per such row; <= LS_MAX_TOP */
  int32_t logit_rows;     /* LS_ROWS_*: full raw logits */
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

/* One entry's outcome; unless code is LS_OK nothing was sampled and there are no rows.
 * Log-probabilities are natural logarithms of the softmax of the raw logits,
 * before penalties, bias, temperature and truncation. Pointers stay valid until the second submit
 * after the one that made the ticket, and no longer than the model. */
typedef struct ls_result {
  ls_code code;        /* LS_OK, or why this sequence failed; the others stand */
  const char* message; /* the sentence that goes with code; "" for LS_OK */
  int32_t sampled;     /* the sampled token, or -1 */
  uint32_t num_log_prob_rows;
  const float* log_probs;  /* [num_log_prob_rows] of the targets; NaN where none was asked */
  const ls_top_token* top; /* [num_log_prob_rows, num_top], falling; ties to the lowest id */
  uint32_t num_logit_rows;
  const float* logits; /* [num_logit_rows, vocabulary_size] */
} ls_result;

typedef struct ls_results {
  const ls_result* results; /* [num_results], in the order of the batch's entries */
  uint32_t num_results;
} ls_results;

/* A byte sink and source for snapshots. write and read return 0, or non-zero to abort. */
typedef struct ls_writer {
  void* context;
  int32_t (*write)(void* context, const void* data, size_t size);
} ls_writer;

typedef struct ls_reader {
  void* context;
  int32_t (*read)(void* context, void* data, size_t size); /* exactly size bytes, or non-zero */
} ls_reader;

/* ---------------------------------------------------------------- the table */

typedef struct ls_backend {
  uint32_t abi_major; /* LS_ABI_MAJOR the backend was built with; must equal the host's */
  uint32_t abi_minor;
  uint32_t struct_size;  /* sizeof(ls_backend) as the backend knows it */
  const char* name;      /* "dense"; what a configuration calls it */
  const char* device;    /* "cpu" or "cuda" */
  const char* version;   /* the backend's own, for people */
  uint64_t capabilities; /* LS_CAP_* */

  /* How well this backend serves the checkpoint in `directory`: *fit is 0 (not at all; the error
   * says why), 1 ... 99 (it can), 100 (the config names this backend's own kind). Reads config.json
   * only. Fails only where config.json cannot be read or parsed. */
  ls_code (*probe)(const char* directory, int32_t* fit, ls_error error);

  /* Reads the checkpoint, packs the weights and sizes the pools. *model is owned by the caller
   * until model_close.
   * LS_NOT_FOUND: a file or a device that does not exist. LS_UNAVAILABLE: a device that is there
   * but cannot be used: an unsupported architecture, a library that is missing.
   * LS_RESOURCE_EXHAUSTED: the device has no memory for weights or pools. LS_DATA_LOSS: a damaged
   * checkpoint file. LS_INVALID_ARGUMENT: options that are no JSON object, an unknown option or a
   * value outside its range (named), a config that lacks a key, a budget that does not hold one
   * sequence of one token. LS_UNIMPLEMENTED: a config whose mathematics this backend does not serve
   * (the key is named). */
  ls_code (*model_open)(const ls_model_options* options, ls_model** model, ls_error error);
  void (*model_close)(ls_model* model);
  /* The caller sets info->struct_size; the backend writes the fields that it covers. */
  ls_code (*model_info)(const ls_model* model, ls_model_info* info);
  /* The caller sets memory->struct_size. */
  ls_code (*model_memory)(const ls_model* model, ls_memory* memory);

  /* An empty sequence at position 0, with its rings and states taken from the budget.
   * LS_RESOURCE_EXHAUSTED where they do not fit. */
  ls_code (*sequence_create)(ls_model* model, ls_sequence** sequence, ls_error error);
  /* A second sequence with the same history: pages shared copy-on-write, rings and states copied.
   * The copy has no checkpoint and no reservation. LS_FAILED_PRECONDITION: the source is failed. */
  ls_code (*sequence_fork)(ls_model* model, ls_sequence* source, ls_sequence** sequence,
                           ls_error error);
  void (*sequence_free)(ls_model* model, ls_sequence* sequence);

  /* Promises room for `tokens` more tokens after the current position, and for the checkpoint's
   * copies; replaces the promise before it, so that 0 gives back whatever is unused together with
   * the checkpoint. The promise reaches up to an absolute position, which truncate does not change.
   * Besides create, fork and import the only call that may return LS_RESOURCE_EXHAUSTED; then the
   * promise before it stands. A step within it never runs out of what is promised.
   * LS_INVALID_ARGUMENT: position + tokens is past context_limit. */
  ls_code (*sequence_reserve)(ls_model* model, ls_sequence* sequence, uint64_t tokens,
                              ls_error error);
  /* Marks the current position as the one that truncate can reach exactly. Replaces the checkpoint
   * before it. LS_FAILED_PRECONDITION: no reservation stands, or the sequence is failed. */
  ls_code (*sequence_checkpoint)(ls_model* model, ls_sequence* sequence, ls_error error);
  /* Goes back to `position`, which is at least the checkpoint's (any position where the sequence
   * holds pages only) and at most the current one. *restored is where the sequence stands now: the
   * checkpoint's position <= *restored <= position; the host feeds the tokens in between again,
   * each as it was fed before (decode or prefill). The checkpoint and the reservation stand. A
   * failed sequence is usable again; one without a checkpoint, asked for its current position, may
   * be restored to 0. LS_INVALID_ARGUMENT: a position that cannot be reached. LS_INTERNAL: the
   * device failed; the sequence is failed until a truncate that succeeds. */
  ls_code (*sequence_truncate)(ls_model* model, ls_sequence* sequence, uint64_t position,
                               uint64_t* restored, ls_error error);
  /* Tokens in the caches, those of tickets in flight included. A failed sequence stands where it
   * stood before the step that failed. */
  uint64_t (*sequence_position)(const ls_sequence* sequence);
  /* The caller sets bytes->struct_size. */
  ls_code (*sequence_bytes)(const ls_model* model, const ls_sequence* sequence,
                            ls_sequence_bytes* bytes);
  /* Writes everything the sequence remembers, its checkpoint and reservation excepted. The bytes
   * carry the model's fingerprint and a checksum; the format is the backend's own.
   * LS_FAILED_PRECONDITION: the sequence is failed. LS_UNAVAILABLE: the writer gave up. */
  ls_code (*sequence_export)(ls_model* model, ls_sequence* sequence, const ls_writer* writer,
                             ls_error error);
  /* A new sequence from such bytes, read up to their end and no further; it has no checkpoint and
   * no reservation. LS_FAILED_PRECONDITION: another model's snapshot. LS_DATA_LOSS: damaged (any
   * bit of it), or the reader ends early. LS_RESOURCE_EXHAUSTED: no room. */
  ls_code (*sequence_import)(ls_model* model, const ls_reader* reader, ls_sequence** sequence,
                             ls_error error);

  /* Starts one step: every entry's tokens go through the model. At most two tickets are in flight;
   * tickets are waited for in the order of their submits. The batch is read before submit returns.
   * While a ticket is in flight, its sequences are only passed to submit and sequence_position, and
   * to sequence_bytes where LS_CAP_LOOK_AHEAD is set. The others are free.
   *
   * Fails as a whole only for a malformed batch, and then has changed nothing:
   * LS_INVALID_ARGUMENT: an empty or too large batch or entry, a sequence twice, a token, target,
   * history or bias id outside the vocabulary, a token twice in one history or bias,
   * LS_TOKEN_FROM_PREVIOUS where nothing is being
   * sampled for the sequence, a decode entry of several tokens, tokens past the reservation or the
   * context limit, a sampling value outside its range, NaN included. LS_UNIMPLEMENTED: what a
   * capability bit that is not set would serve. LS_FAILED_PRECONDITION: two tickets are in flight
   * already.
   *
   * What goes wrong with one sequence is in its result, and that sequence is failed: it refuses
   * further tokens (its result says LS_FAILED_PRECONDITION) until truncated. LS_INTERNAL: NaN
   * logits or a device's failure. LS_RESOURCE_EXHAUSTED: something else has left no memory for the
   * lists that penalties and bias bring, or for the host's part of a step. LS_UNAVAILABLE: the
   * device is lost, and every later step fails likewise; the model can only be closed.
   * LS_INVALID_ARGUMENT: bias bans every token, or penalties and bias turn the logits into NaN or
   * all of them into -infinity. */
  ls_code (*submit)(ls_model* model, const ls_batch* batch, uint64_t* ticket, ls_error error);
  /* Returns when the step is done. LS_INVALID_ARGUMENT: not the oldest ticket in flight. */
  ls_code (*wait)(ls_model* model, uint64_t ticket, ls_results* results, ls_error error);
} ls_backend;

typedef const ls_backend* (*ls_backend_function)(void);

/* What struct_size is at least: up to the last field of version 1.0. The sizeof of a reader would
 * be that of its own minor version, and refuse all before it. */
#define LS_HOST_SIZE_1_0 (offsetof(ls_host, log) + sizeof(void*))
#define LS_MODEL_OPTIONS_SIZE_1_0 (offsetof(ls_model_options, host) + sizeof(void*))
#define LS_SAMPLING_SIZE_1_0 (offsetof(ls_sampling, num_bias) + sizeof(uint32_t))
#define LS_BATCH_SIZE_1_0 (offsetof(ls_batch, num_entries) + sizeof(uint32_t))
#define LS_BACKEND_SIZE_1_0 (offsetof(ls_backend, wait) + sizeof(void*))

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LONGSTREAM_BACKENDS_API_BACKEND_H_ */

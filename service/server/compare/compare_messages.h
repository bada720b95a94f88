// Converts the results of a comparison to messages of the wire contract.
#ifndef LONGSTREAM_SERVICE_SERVER_COMPARE_COMPARE_MESSAGES_H_
#define LONGSTREAM_SERVICE_SERVER_COMPARE_COMPARE_MESSAGES_H_

#include <cstddef>
#include <cstdint>

#include "longstream/v1/longstream.pb.h"
#include "service/compare/row_join.h"
#include "service/server/compare/compare_plan.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream {

// Sums over the rows of one arm.
struct ArmTotals {
  uint64_t tokens = 0;
  double sum_log_prob = 0;
  uint64_t best_tokens = 0;
  uint64_t text_bytes = 0;  // of the bytes of scored tokens, or of the text of drawn ones
};

// The tokens that a row names, including those in `top`.
size_t NamedTokens(const ComparedRow& row);

void ToProto(const ComparePlan::Arm& arm, bool is_forced, v1::CompareArmStarted* message);

void ToProto(const ComparedPair& pair, v1::ComparePair* message);

// Adds the token to `totals`, too.
void ToProto(const ComparedToken& token, const Tokenizer& tokenizer, bool is_forced,
             ArmTotals* totals, v1::CompareToken* message);

void ToProto(size_t arm, const PairSummary& summary, v1::ComparePairSummary* message);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_COMPARE_COMPARE_MESSAGES_H_

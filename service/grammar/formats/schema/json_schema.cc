#include "service/grammar/formats/schema/json_schema.h"

#include "absl/status/status.h"
#include "service/grammar/formats/format_error.h"
#include "service/grammar/formats/schema/schema_compiler.h"

namespace longstream {

absl::StatusOr<GrammarBuilder::Expression> AddJsonSchema(GrammarBuilder& builder,
                                                         std::string_view schema_json) {
  try {
    const SchemaDocument document(schema_json);
    return SchemaCompiler(builder, document).Compile();
  } catch (const FormatError& error) {
    return absl::InvalidArgumentError(error.message);
  }
}

}  // namespace longstream

// Walks over the encoded fields and sets them by reflection. Memory is counted before it is
// allocated.
#include "service/wire/wire_decoder.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/tokenizer/text/utf8.h"
#include "service/wire/wire_reader.h"

namespace longstream {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// As in protobuf's parser.
constexpr int kMaxDepth = 100;

// The allocator's own bytes in a block, rounded up.
constexpr uint64_t kBlockBytes = 16;
// A list doubles its array of pointers when it is full. While it copies them, it has both arrays.
constexpr uint64_t kListEntryBytes = 3 * sizeof(void*);
// A node of a map without its key and value, and the entry's part of the table.
constexpr uint64_t kMapEntryBytes = 48;

uint64_t StringBytes(size_t size) {
  constexpr size_t kInlineBytes = 15;  // a std::string holds a short text itself
  return sizeof(std::string) + kBlockBytes + (size <= kInlineBytes ? 0 : size + 1 + kBlockBytes);
}

// A field, and the fields that it lies in.
struct Place {
  const Place* parent = nullptr;
  const FieldDescriptor* field = nullptr;
};

std::string PathOf(const Place* place) {
  if (place == nullptr) return "";
  const std::string parent = PathOf(place->parent);
  return absl::StrCat(parent, parent.empty() ? "" : ".", place->field->name());
}

WireType WireTypeOf(const FieldDescriptor& field) {
  switch (field.type()) {
    case FieldDescriptor::TYPE_DOUBLE:
    case FieldDescriptor::TYPE_FIXED64:
    case FieldDescriptor::TYPE_SFIXED64:
      return WireType::kFixed64;
    case FieldDescriptor::TYPE_FLOAT:
    case FieldDescriptor::TYPE_FIXED32:
    case FieldDescriptor::TYPE_SFIXED32:
      return WireType::kFixed32;
    case FieldDescriptor::TYPE_STRING:
    case FieldDescriptor::TYPE_BYTES:
    case FieldDescriptor::TYPE_MESSAGE:
      return WireType::kBytes;
    case FieldDescriptor::TYPE_GROUP:
      return WireType::kGroup;
    default:
      return WireType::kVarint;
  }
}

// Undoes the encoding of signed numbers in which small absolute values are short.
int64_t FromZigZag(uint64_t raw) { return static_cast<int64_t>((raw >> 1) ^ (~(raw & 1) + 1)); }

int32_t AsInt32(const FieldDescriptor& field, uint64_t raw) {
  const bool is_zig_zag = field.type() == FieldDescriptor::TYPE_SINT32;
  return static_cast<int32_t>(is_zig_zag ? FromZigZag(static_cast<uint32_t>(raw))
                                         : static_cast<int64_t>(raw));
}

int64_t AsInt64(const FieldDescriptor& field, uint64_t raw) {
  return field.type() == FieldDescriptor::TYPE_SINT64 ? FromZigZag(raw) : static_cast<int64_t>(raw);
}

float AsFloat(uint64_t raw) { return std::bit_cast<float>(static_cast<uint32_t>(raw)); }

uint64_t ElementBytes(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT64:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return 8;
    case FieldDescriptor::CPPTYPE_BOOL:
      return 1;
    default:
      return 4;
  }
}

class Decoder {
 public:
  // `bytes` is the whole encoded message.
  Decoder(std::string_view bytes, RequestCharge* charge) : bytes_(bytes), charge_(charge) {}

  // Decodes the fields of one message, which lies at `place`. `fields` is a part of bytes_.
  absl::Status ReadFields(std::string_view fields, const Place* place, int depth,
                          Message* message) {
    WireReader reader(fields);
    while (!reader.AtEnd()) {
      const size_t begin = reader.position();
      WireTag tag;
      if (!reader.ReadTag(&tag)) return Malformed(place, fields, begin, "no field begins here");
      const FieldDescriptor* field = message->GetDescriptor()->FindFieldByNumber(tag.number);
      absl::Status status;
      if (field == nullptr || !Matches(*field, tag.type)) {
        if (!reader.SkipValue(tag, depth)) {
          status = Malformed(place, fields, begin,
                             absl::StrCat("the value of unknown field ", tag.number,
                                          " is cut off or nested too deep"));
        }
      } else {
        const Place inner{place, field};
        status = field->is_map() ? ReadMapEntry(fields, begin, &reader, &inner, message)
                                 : ReadValue(fields, tag.type, &reader, &inner, depth, message);
      }
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  // A list of numbers may be encoded element by element or as one value of bytes.
  static bool Matches(const FieldDescriptor& field, WireType type) {
    return type == WireTypeOf(field) || (field.is_packable() && type == WireType::kBytes);
  }

  // `position` is an offset in `fields`.
  absl::Status Malformed(const Place* place, std::string_view fields, size_t position,
                         std::string_view what) const {
    const size_t offset = static_cast<size_t>(fields.data() - bytes_.data()) + position;
    const std::string path = PathOf(place);
    return absl::InvalidArgumentError(absl::StrCat(
        path, path.empty() ? "" : ": ", "malformed at byte ", offset, ": ", std::string(what)));
  }

  absl::Status Charge(const Place* place, uint64_t bytes) {
    absl::Status status = charge_->Add(bytes);
    if (status.ok()) return status;
    return absl::Status(status.code(), absl::StrCat(PathOf(place), ": ", status.message()));
  }

  // Reads the value of a field whose tag has been read.
  absl::Status ReadValue(std::string_view fields, WireType type, WireReader* reader,
                         const Place* place, int depth, Message* message) {
    const FieldDescriptor& field = *place->field;
    const size_t begin = reader->position();
    std::string_view value;
    if (type == WireType::kBytes && !reader->ReadBytes(&value)) {
      return Malformed(place, fields, begin, "the length exceeds the message");
    }
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (depth == 0) {
        return Malformed(place, fields, begin,
                         absl::StrCat("nested deeper than ", kMaxDepth, " levels"));
      }
      Message* inner = nullptr;
      if (absl::Status status = AddMessage(place, message, &inner); !status.ok()) return status;
      return ReadFields(value, place, depth - 1, inner);
    }
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      return SetString(fields, value, place, message);
    }
    if (type == WireType::kBytes) return AddPacked(value, place, message);
    if (field.is_repeated()) {
      if (absl::Status status = MakeRoom(place, 1, message); !status.ok()) return status;
    }
    return SetNumber(fields, reader, place, message);
  }

  absl::Status AddMessage(const Place* place, Message* message, Message** inner) {
    const FieldDescriptor& field = *place->field;
    const Reflection& reflection = *message->GetReflection();
    const bool is_new = field.is_repeated() || !reflection.HasField(*message, &field);
    *inner = field.is_repeated() ? reflection.AddMessage(message, &field)
                                 : reflection.MutableMessage(message, &field);
    if (!is_new) return absl::OkStatus();
    const uint64_t list_bytes = field.is_repeated() ? kListEntryBytes : 0;
    return Charge(place, (*inner)->SpaceUsedLong() + kBlockBytes + list_bytes);
  }

  absl::Status SetString(std::string_view fields, std::string_view value, const Place* place,
                         Message* message) {
    const FieldDescriptor& field = *place->field;
    if (field.type() == FieldDescriptor::TYPE_STRING) {
      if (const size_t valid = ValidUtf8Prefix(value); valid != value.size()) {
        const auto begin = static_cast<size_t>(value.data() - fields.data());
        return Malformed(place, fields, begin + valid, "the text is not UTF-8");
      }
    }
    const uint64_t list_bytes = field.is_repeated() ? kListEntryBytes : 0;
    absl::Status status = Charge(place, StringBytes(value.size()) + list_bytes);
    if (!status.ok()) return status;
    const Reflection& reflection = *message->GetReflection();
    if (field.is_repeated()) {
      reflection.AddString(message, &field, std::string(value));
    } else {
      reflection.SetString(message, &field, std::string(value));
    }
    return absl::OkStatus();
  }

  // Adds the numbers that `value` holds one after the other.
  absl::Status AddPacked(std::string_view value, const Place* place, Message* message) {
    size_t count = 0;
    switch (WireTypeOf(*place->field)) {
      case WireType::kFixed32:
        count = value.size() / 4;
        break;
      case WireType::kFixed64:
        count = value.size() / 8;
        break;
      default:  // the last byte of a varint is the only one below 128
        count = static_cast<size_t>(std::ranges::count_if(
            value, [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
    }
    if (absl::Status status = MakeRoom(place, count, message); !status.ok()) return status;
    WireReader reader(value);
    while (!reader.AtEnd()) {
      absl::Status status = SetNumber(value, &reader, place, message);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Makes room for `count` more numbers.
  absl::Status MakeRoom(const Place* place, size_t count, Message* message) {
    switch (place->field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return Reserve<int32_t>(place, count, message);
      case FieldDescriptor::CPPTYPE_UINT32:
        return Reserve<uint32_t>(place, count, message);
      case FieldDescriptor::CPPTYPE_INT64:
        return Reserve<int64_t>(place, count, message);
      case FieldDescriptor::CPPTYPE_UINT64:
        return Reserve<uint64_t>(place, count, message);
      case FieldDescriptor::CPPTYPE_FLOAT:
        return Reserve<float>(place, count, message);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return Reserve<double>(place, count, message);
      case FieldDescriptor::CPPTYPE_BOOL:
        return Reserve<bool>(place, count, message);
      default:  // an enum: protobuf gives no access to the list, which doubles when it is full
        return Charge(place, 3 * ElementBytes(*place->field) * count);
    }
  }

  template <typename T>
  absl::Status Reserve(const Place* place, size_t count, Message* message) {
#pragma GCC diagnostic push
// The class that protobuf recommends cannot reserve.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    google::protobuf::RepeatedField<T>* const list =
        message->GetReflection()->MutableRepeatedField<T>(message, place->field);
#pragma GCC diagnostic pop
    const auto capacity = static_cast<size_t>(list->Capacity());
    const size_t needed = static_cast<size_t>(list->size()) + count;
    if (needed <= capacity) return absl::OkStatus();
    // The old array stays counted, because both exist while its numbers are copied.
    const size_t grown = std::max(needed, 2 * capacity);
    absl::Status status = Charge(place, grown * sizeof(T) + kBlockBytes);
    if (status.ok()) list->Reserve(static_cast<int>(grown));
    return status;
  }

  // Reads one number. Sets it, or adds it to the list.
  absl::Status SetNumber(std::string_view fields, WireReader* reader, const Place* place,
                         Message* message) {
    const FieldDescriptor& field = *place->field;
    const size_t begin = reader->position();
    uint64_t raw = 0;
    const WireType type = WireTypeOf(field);
    const bool is_read = type == WireType::kVarint    ? reader->ReadVarint(&raw)
                         : type == WireType::kFixed32 ? reader->ReadFixed32(&raw)
                                                      : reader->ReadFixed64(&raw);
    if (!is_read) return Malformed(place, fields, begin, "the number is cut off");
    const Reflection& to = *message->GetReflection();
    const bool adds = field.is_repeated();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        adds ? to.AddInt32(message, &field, AsInt32(field, raw))
             : to.SetInt32(message, &field, AsInt32(field, raw));
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        adds ? to.AddInt64(message, &field, AsInt64(field, raw))
             : to.SetInt64(message, &field, AsInt64(field, raw));
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        adds ? to.AddUInt32(message, &field, static_cast<uint32_t>(raw))
             : to.SetUInt32(message, &field, static_cast<uint32_t>(raw));
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        adds ? to.AddUInt64(message, &field, raw) : to.SetUInt64(message, &field, raw);
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        adds ? to.AddBool(message, &field, raw != 0) : to.SetBool(message, &field, raw != 0);
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        adds ? to.AddFloat(message, &field, AsFloat(raw))
             : to.SetFloat(message, &field, AsFloat(raw));
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        adds ? to.AddDouble(message, &field, std::bit_cast<double>(raw))
             : to.SetDouble(message, &field, std::bit_cast<double>(raw));
        break;
      default:
        adds ? to.AddEnumValue(message, &field, static_cast<int32_t>(raw))
             : to.SetEnumValue(message, &field, static_cast<int32_t>(raw));
    }
    return absl::OkStatus();
  }

  // Reads an entry of a map, whose tag is at `begin`. Reflection would make a message for each
  // entry, so protobuf's parser reads the entry.
  absl::Status ReadMapEntry(std::string_view fields, size_t begin, WireReader* reader,
                            const Place* place, Message* message) {
    std::string_view entry;
    if (!reader->ReadBytes(&entry)) {
      return Malformed(place, fields, reader->position(), "the length exceeds the message");
    }
    uint64_t bytes = kMapEntryBytes;
    const google::protobuf::Descriptor& type = *place->field->message_type();
    for (const FieldDescriptor* part : {type.map_key(), type.map_value()}) {
      if (part->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        return Malformed(place, fields, begin, "a map of messages is not supported");
      }
      const bool is_text = part->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
      bytes += is_text ? StringBytes(entry.size()) : 8;
    }
    if (absl::Status status = Charge(place, bytes); !status.ok()) return status;
    const std::string_view field = fields.substr(begin, reader->position() - begin);
    google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(field.data()),
                                                 static_cast<int>(field.size()));
    if (message->MergePartialFromCodedStream(&input) && input.ConsumedEntireMessage()) {
      return absl::OkStatus();
    }
    return Malformed(place, fields, begin, "the entry is cut off or has a text that is not UTF-8");
  }

  const std::string_view bytes_;
  RequestCharge* const charge_;
};

}  // namespace

absl::Status DecodeMessage(std::string_view bytes, RequestCharge* charge, Message* message) {
  return Decoder(bytes, charge).ReadFields(bytes, nullptr, kMaxDepth, message);
}

}  // namespace longstream

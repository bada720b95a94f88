#include <google/protobuf/dynamic_message.h>

#include <cmath>
#include <limits>

#include "tests/e2e/hostile/remote_method.h"

namespace longstream {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kMaxDepth = 4;
constexpr const char* kModels[] = {"dense", "hwfa2", "hypenet"};

class Filler {
 public:
  explicit Filler(std::mt19937& random) : random_(random) {}

  void Fill(Message& message, int depth) {
    const Descriptor& type = *message.GetDescriptor();
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      if (!IsNeeded(field.name()) && random_() % 3 != 0) continue;
      const uint32_t times = field.is_repeated() ? random_() % 4 : 1;
      for (uint32_t time = 0; time < times; ++time) Set(message, field, depth);
    }
  }

 private:
  // Without these fields a request reaches no model, or its turn is long.
  static bool IsNeeded(const std::string& name) {
    return name == "session_id" || name == "model" || name == "name" || name == "input" ||
           name == "text" || name == "max_tokens";
  }

  std::string Text(const FieldDescriptor& field) {
    const std::string& name = field.name();
    if (random_() % 16 == 0) return std::string(random_() % 3000, 'a');
    if (name.ends_with("session_id")) return HostileSession(random_() % 8);
    if (name == "model" || name == "name") return kModels[random_() % 3];
    std::string text;
    for (uint32_t left = random_() % 40; left > 0; --left) {
      text += static_cast<char>(' ' + random_() % 95);
    }
    return text;
  }

  template <typename Number>
  Number Whole(const FieldDescriptor& field) {
    if (field.name() == "max_tokens") return static_cast<Number>(1 + random_() % 8);
    switch (random_() % 8) {
      case 0:
        return std::numeric_limits<Number>::max();
      case 1:
        return std::numeric_limits<Number>::min();
      default:
        return static_cast<Number>(random_() % 100);
    }
  }

  double Real() {
    switch (random_() % 8) {
      case 0:
        return std::numeric_limits<double>::infinity();
      case 1:
        return std::nan("");
      default:
        return static_cast<double>(random_() % 1000) / 500;
    }
  }

  // Sets the field, or adds a value if it is repeated.
  template <typename Value, typename SetValue, typename AddValue>
  static void Put(Message& message, const FieldDescriptor& field, const Value& value, SetValue set,
                  AddValue add) {
    const Reflection& fields = *message.GetReflection();
    if (field.is_repeated()) {
      (fields.*add)(&message, &field, value);
    } else {
      (fields.*set)(&message, &field, value);
    }
  }

  void Set(Message& message, const FieldDescriptor& field, int depth) {
    using R = Reflection;
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        if (depth == kMaxDepth) return;
        const R& fields = *message.GetReflection();
        Fill(field.is_repeated() ? *fields.AddMessage(&message, &field)
                                 : *fields.MutableMessage(&message, &field),
             depth + 1);
        return;
      }
      case FieldDescriptor::CPPTYPE_STRING:
        return Put(message, field, Text(field), &R::SetString, &R::AddString);
      case FieldDescriptor::CPPTYPE_BOOL:
        return Put(message, field, random_() % 2 == 0, &R::SetBool, &R::AddBool);
      case FieldDescriptor::CPPTYPE_ENUM:
        return Put(message, field, static_cast<int>(random_() % 5), &R::SetEnumValue,
                   &R::AddEnumValue);
      case FieldDescriptor::CPPTYPE_INT32:
        return Put(message, field, Whole<int32_t>(field), &R::SetInt32, &R::AddInt32);
      case FieldDescriptor::CPPTYPE_INT64:
        return Put(message, field, Whole<int64_t>(field), &R::SetInt64, &R::AddInt64);
      case FieldDescriptor::CPPTYPE_UINT32:
        return Put(message, field, Whole<uint32_t>(field), &R::SetUInt32, &R::AddUInt32);
      case FieldDescriptor::CPPTYPE_UINT64:
        return Put(message, field, Whole<uint64_t>(field), &R::SetUInt64, &R::AddUInt64);
      case FieldDescriptor::CPPTYPE_FLOAT:
        return Put(message, field, static_cast<float>(Real()), &R::SetFloat, &R::AddFloat);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return Put(message, field, Real(), &R::SetDouble, &R::AddDouble);
    }
  }

  std::mt19937& random_;
};

}  // namespace

std::string HostileSession(uint32_t number) {
  const std::string digits = std::to_string(number);
  return "bad" + std::string(29 - digits.size(), '0') + digits;
}

std::string RandomRequest(const Descriptor& type, std::mt19937& random) {
  // A factory per call: messages of a factory must not outlive it, and the calls stay independent.
  google::protobuf::DynamicMessageFactory factory;
  const std::unique_ptr<Message> message(factory.GetPrototype(&type)->New());
  Filler(random).Fill(*message, 0);
  return message->SerializeAsString();
}

}  // namespace longstream

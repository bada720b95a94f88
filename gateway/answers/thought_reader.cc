#include "gateway/answers/thought_reader.h"

#include <algorithm>
#include <utility>

#include "gateway/answers/marks.h"

namespace longstream::gateway {
namespace {

constexpr std::string_view kBlanks = " \n\r\t";

// The text without white space at its end.
std::string_view Trimmed(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

}  // namespace

void ThoughtReader::Begin(const v1::Thoughts& marks) {
  marks_ = marks;
  if (marks_.begin().empty() || marks_.end().empty()) return;
  place_ = marks_.begun() ? Place::kInside : Place::kBefore;
}

bool ThoughtReader::ReadBefore() {
  const size_t first = held_.find_first_not_of(kBlanks);
  if (first == std::string::npos) return false;
  const std::string_view rest = std::string_view(held_).substr(first);
  if (rest.starts_with(marks_.begin())) {
    held_.erase(0, first + marks_.begin().size());
    place_ = Place::kInside;
    return true;
  }
  if (marks_.begin().starts_with(rest)) return false;
  place_ = Place::kText;
  return true;
}

bool ThoughtReader::ReadInside(Piece* piece) {
  if (!has_thoughts_) {
    held_.erase(0, std::min(held_.find_first_not_of(kBlanks), held_.size()));
    has_thoughts_ = !held_.empty();
  }
  const size_t end = held_.find(marks_.end());
  const bool found = end != std::string::npos;
  const size_t size = found ? end : held_.size() - BeginningAtEnd(held_, marks_.end());
  const size_t certain = Trimmed(std::string_view(held_).substr(0, size)).size();
  piece->thoughts.append(held_, 0, certain);
  held_.erase(0, found ? end + marks_.end().size() : certain);
  if (found) place_ = Place::kBehind;
  return found;
}

bool ThoughtReader::ReadBehind() {
  held_.erase(0, std::min(held_.find_first_not_of(kBlanks), held_.size()));
  if (held_.empty()) return false;
  place_ = Place::kText;
  return true;
}

void ThoughtReader::Read(Piece* piece) {
  if (place_ == Place::kBefore && !ReadBefore()) return;
  if (place_ == Place::kInside && !ReadInside(piece)) return;
  if (place_ == Place::kBehind && !ReadBehind()) return;
  piece->text += std::exchange(held_, "");
}

ThoughtReader::Piece ThoughtReader::Add(std::string_view text) {
  Piece piece;
  held_.append(text);
  Read(&piece);
  return piece;
}

ThoughtReader::Piece ThoughtReader::End() {
  Piece piece;
  if (place_ == Place::kInside) {
    piece.thoughts = Trimmed(held_);
  } else if (place_ != Place::kBehind) {
    piece.text = held_;
  }
  held_.clear();
  return piece;
}

}  // namespace longstream::gateway

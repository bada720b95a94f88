// A file descriptor that has an owner.
#ifndef LONGSTREAM_SERVICE_CONNECTIONS_DESCRIPTOR_H_
#define LONGSTREAM_SERVICE_CONNECTIONS_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace longstream {

// Closes the descriptor when the object is destroyed. Not thread-safe.
class Descriptor {
 public:
  Descriptor() = default;
  // Takes ownership. A negative number stands for no descriptor.
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { Close(); }
  Descriptor(Descriptor&& other) noexcept : number_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      Close();
      number_ = other.Release();
    }
    return *this;
  }

  bool open() const { return number_ >= 0; }
  int number() const { return number_; }
  // Gives up ownership and returns the number.
  int Release() { return std::exchange(number_, -1); }
  void Close() {
    if (open()) close(Release());
  }

 private:
  int number_ = -1;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONNECTIONS_DESCRIPTOR_H_

// The caches of sessions on their way from one of two replicas to the other.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVING_FLEET_SENT_CACHES_H_
#define LONGSTREAM_TESTS_SERVICE_SERVING_FLEET_SENT_CACHES_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "tests/service/serving/fleet/replicas.h"

namespace longstream {

// Two replicas, and the caches of a session that one sends to the other.
class SentCaches : public Replicas {
 protected:
  using Replicas::Replicas;

  // By caches, snapshots and imports.
  static uint64_t HeldBytes(const Engine& engine) {
    const ls_memory memory = engine.model().backend().memory();
    return memory.pages + memory.rings + memory.states + memory.checkpoints;
  }
  static fleet::Fence At(const store::SessionRow& row) { return {row.key, row.epoch, row.version}; }
  static std::shared_ptr<fleet::CacheReader> Read(Replica& from, const fleet::Fence& at) {
    std::shared_ptr<fleet::CacheReader> reader;
    absl::Notification done;
    from.copies().ReadCaches(at, [&](ServedCopies::Reading ready) {
      reader = ready.value_or(nullptr);
      done.Notify();
    });
    done.WaitForNotification();
    return reader;
  }
  static absl::StatusOr<std::shared_ptr<fleet::CacheWriter>> Take(Replica& to,
                                                                  const std::string& header,
                                                                  const fleet::Fence& at) {
    absl::StatusOr<std::shared_ptr<fleet::CacheWriter>> writer = nullptr;
    absl::Notification done;
    to.copies().TakeCaches({"", kId}, header, at,
                           [&](absl::StatusOr<std::shared_ptr<fleet::CacheWriter>> ready) {
                             writer = std::move(ready);
                             done.Notify();
                           });
    done.WaitForNotification();
    return writer;
  }
  // Sends the caches of the session as it is now, in pieces of `size`, for the epoch and version
  // that follow.
  void Send(Replica& from, Replica& to, size_t size) {
    const fleet::Fence at = At(Row());
    ASSERT_TRUE(from.copies().FindCaches(at).ok());
    const std::shared_ptr<fleet::CacheReader> reader = Read(from, at);
    ASSERT_NE(reader, nullptr);
    const auto writer = Take(to, reader->header(), {at.key, at.epoch + 1, at.version + 1});
    ASSERT_TRUE(writer.ok()) << writer.status();
    WriteAll(*reader, **writer, size);
  }
  static void WriteAll(fleet::CacheReader& reader, fleet::CacheWriter& writer, size_t size) {
    uint64_t sent = 0;
    for (;;) {
      std::string bytes;
      ASSERT_TRUE(reader.Read(size, &bytes).ok());
      ASSERT_LE(bytes.size(), size);
      if (bytes.empty()) break;
      sent += bytes.size();
      ASSERT_TRUE(writer.Write(bytes).ok());
    }
    EXPECT_EQ(sent, reader.bytes());
    EXPECT_TRUE(writer.Finish().ok());
  }
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVING_FLEET_SENT_CACHES_H_

// The bytes of caches are counted, and everything is passed on.
#include "service/fleet/counted_caches.h"

#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <memory>
#include <string>
#include <string_view>

#include "tests/service/metric_value.h"

namespace longstream::fleet {
namespace {

class TwoPieces : public CacheReader {
 public:
  const std::string& header() const override { return header_; }
  uint64_t bytes() const override { return 5; }
  absl::Status Read(size_t /*size*/, std::string* bytes) override {
    if (read_ == 2) return absl::DataLossError("damaged");
    bytes->append(read_++ == 0 ? "abc" : "de");
    return absl::OkStatus();
  }

 private:
  const std::string header_ = "header";
  int read_ = 0;
};

class Collector : public CacheWriter {
 public:
  explicit Collector(std::string* bytes) : bytes_(*bytes) {}
  absl::Status Write(std::string_view bytes) override {
    if (bytes == "bad") return absl::ResourceExhaustedError("full");
    bytes_.append(bytes);
    return absl::OkStatus();
  }
  absl::Status Finish() override {
    return bytes_.empty() ? absl::DataLossError("nothing has come") : absl::OkStatus();
  }

 private:
  std::string& bytes_;
};

double Bytes(const prometheus::Registry& registry, const char* op) {
  return MetricValue(registry, "longstream_handover_bytes_total", {{"op", op}});
}
uint64_t Finished(const prometheus::Registry& registry) {
  return ObservedCount(registry, "longstream_handover_seconds", {{"part", "caches"}});
}

TEST(CountedCachesTest, AReaderCountsTheBytesThatItHasRead) {
  prometheus::Registry registry;
  FleetMetrics metrics(&registry);
  const auto reader = CountBytes(std::make_shared<TwoPieces>(), &metrics);
  EXPECT_EQ(reader->header(), "header");
  EXPECT_EQ(reader->bytes(), 5u);
  std::string bytes = "there already: ";
  EXPECT_TRUE(reader->Read(10, &bytes).ok());
  EXPECT_TRUE(reader->Read(10, &bytes).ok());
  EXPECT_EQ(Bytes(registry, "sent"), 5);
  EXPECT_TRUE(absl::IsDataLoss(reader->Read(10, &bytes)));
  EXPECT_EQ(bytes, "there already: abcde");
  EXPECT_EQ(Bytes(registry, "sent"), 5);
}

TEST(CountedCachesTest, AWriterCountsTheBytesThatWereTakenAndObservesTheTime) {
  prometheus::Registry registry;
  FleetMetrics metrics(&registry);
  std::string bytes;
  const auto writer = CountBytes(std::make_shared<Collector>(&bytes), &metrics);
  EXPECT_TRUE(absl::IsDataLoss(writer->Finish()));
  EXPECT_EQ(Finished(registry), 0u);
  EXPECT_TRUE(writer->Write("abc").ok());
  EXPECT_TRUE(absl::IsResourceExhausted(writer->Write("bad")));
  EXPECT_TRUE(writer->Finish().ok());
  EXPECT_EQ(bytes, "abc");
  EXPECT_EQ(Bytes(registry, "received"), 3);
  EXPECT_EQ(Finished(registry), 1u);
}

TEST(CountedCachesTest, NothingIsCountedWithoutCachesOrMetrics) {
  prometheus::Registry registry;
  FleetMetrics metrics(&registry);
  EXPECT_EQ(CountBytes(std::shared_ptr<CacheReader>(), &metrics), nullptr);
  EXPECT_EQ(CountBytes(std::shared_ptr<CacheWriter>(), &metrics), nullptr);
  const auto reader = std::make_shared<TwoPieces>();
  EXPECT_EQ(CountBytes(reader, nullptr), reader);
}

}  // namespace
}  // namespace longstream::fleet

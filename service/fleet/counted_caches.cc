// Readers and writers that pass everything on.
#include "service/fleet/counted_caches.h"

#include <utility>

#include "service/clock/monotonic_time.h"

namespace longstream::fleet {
namespace {

class CountedReader final : public CacheReader {
 public:
  CountedReader(std::shared_ptr<CacheReader> reader, FleetMetrics* metrics)
      : reader_(std::move(reader)), metrics_(metrics) {}

  const std::string& header() const override { return reader_->header(); }
  uint64_t bytes() const override { return reader_->bytes(); }
  absl::Status Read(size_t size, std::string* bytes) override {
    const size_t before = bytes->size();
    absl::Status status = reader_->Read(size, bytes);
    if (status.ok()) metrics_->CountSentBytes(bytes->size() - before);
    return status;
  }

 private:
  const std::shared_ptr<CacheReader> reader_;
  FleetMetrics* const metrics_;
};

class CountedWriter final : public CacheWriter {
 public:
  CountedWriter(std::shared_ptr<CacheWriter> writer, FleetMetrics* metrics)
      : writer_(std::move(writer)), metrics_(metrics), begin_(MonotonicTime::Now()) {}

  absl::Status Write(std::string_view bytes) override {
    absl::Status status = writer_->Write(bytes);
    if (status.ok()) metrics_->CountReceivedBytes(bytes.size());
    return status;
  }
  absl::Status Finish() override {
    absl::Status status = writer_->Finish();
    if (status.ok()) metrics_->ObserveCaches(MonotonicTime::Now() - begin_);
    return status;
  }

 private:
  const std::shared_ptr<CacheWriter> writer_;
  FleetMetrics* const metrics_;
  const MonotonicTime begin_;
};

}  // namespace

std::shared_ptr<CacheReader> CountBytes(std::shared_ptr<CacheReader> reader,
                                        FleetMetrics* metrics) {
  if (reader == nullptr || metrics == nullptr) return reader;
  return std::make_shared<CountedReader>(std::move(reader), metrics);
}

std::shared_ptr<CacheWriter> CountBytes(std::shared_ptr<CacheWriter> writer,
                                        FleetMetrics* metrics) {
  if (writer == nullptr || metrics == nullptr) return writer;
  return std::make_shared<CountedWriter>(std::move(writer), metrics);
}

}  // namespace longstream::fleet

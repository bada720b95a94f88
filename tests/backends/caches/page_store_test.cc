// Pages: promises, holders, lowest ids first, distinct memory.
#include "backends/caches/page_store.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "backends/caches/cache_store.h"
#include "backends/errors/error.h"
#include "tests/backends/caches/fake_ops.h"

namespace longstream {
namespace {

// Whether the mapping that contains `data` asks for huge pages.
bool AsksForHugePages(const void* data) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    uint64_t begin = 0, end = 0;
    char dash = 0;
    if (std::istringstream words(line); words >> std::hex >> begin >> dash >> end && dash == '-') {
      const auto address = reinterpret_cast<uintptr_t>(data);
      inside = begin <= address && address < end;
    } else if (inside && line.starts_with("VmFlags:")) {
      return (line + " ").find(" hg ") != std::string::npos;
    }
  }
  return false;
}

// In the large store, 64 tokens of 8 heads of width 128 are 128 KiB of bf16. In the small store, a
// page of the cache is less than one small page of memory.
TEST(PageStoreTest, LargePagesAreInHugePages) {
  LayerCacheLayout layer;
  layer.paged = PagedLayout{.num_kv_heads = 8, .head_dim = 128};
  const CacheLayout layout = PlaceCaches({layer}, DType::kBF16);
  CacheStore large(layout, 100 * layout.page_bytes);
  CacheStore small(LayoutOf("full"), 1 << 20);
  const bool kernel_has_them = std::filesystem::exists("/sys/kernel/mm/transparent_hugepage");
  EXPECT_EQ(AsksForHugePages(large.pages.keys(0, 0)), kernel_has_them);
  EXPECT_EQ(AsksForHugePages(large.pages.values(0, 0)), kernel_has_them);
  EXPECT_FALSE(AsksForHugePages(small.pages.keys(0, 0)));
}

TEST(PageStoreTest, PromisesEndAtTheBudget) {
  const CacheLayout layout = LayoutOf("full+full");
  CacheStore store(layout, 10 * layout.page_bytes + layout.page_bytes / 2);
  store.pages.Promise(7);
  try {
    store.pages.Promise(4);
    FAIL() << "a promise past the budget";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.code(), LS_RESOURCE_EXHAUSTED);
    // The sentence names the bytes needed, the bytes free and the budget. The first are checked.
    EXPECT_NE(std::string(error.what()).find(std::to_string(4 * layout.page_bytes)),
              std::string::npos)
        << error.what();
  }
  store.pages.Promise(3);
  EXPECT_EQ(store.budget.held(CacheKind::kPromised), 10 * layout.page_bytes);
  store.pages.TakeBackPromise(10);
  EXPECT_EQ(store.budget.reserved(), 0u);
}

TEST(PageStoreTest, HandsOutTheLowestFreePage) {
  CacheStore store(LayoutOf("full"), 0);
  store.pages.Promise(9);
  for (int32_t page = 0; page < 6; ++page) EXPECT_EQ(store.pages.Take(), page);
  store.pages.Release(4);
  store.pages.Release(1);
  EXPECT_EQ(store.pages.Take(), 1);
  EXPECT_EQ(store.pages.Take(), 4);
  EXPECT_EQ(store.pages.Take(), 6);
}

TEST(PageStoreTest, TheLastHolderFreesAPage) {
  CacheStore store(LayoutOf("full"), 0);
  store.pages.Promise(1);
  const int32_t page = store.pages.Take();
  store.pages.Share(page);
  store.pages.Share(page);
  store.pages.Release(page);
  EXPECT_TRUE(store.pages.IsShared(page));
  store.pages.Release(page);
  EXPECT_FALSE(store.pages.IsShared(page));
  EXPECT_EQ(store.budget.held(CacheKind::kPages), store.layout.page_bytes);
  store.pages.Release(page);
  EXPECT_EQ(store.budget.reserved(), 0u);
}

TEST(PageStoreTest, PagesHaveMemoryOfTheirOwnAndCopyInAllLayers) {
  CacheStore store(LayoutOf("full+window+full"), 0);
  store.pages.Promise(3);
  const auto bytes =
      static_cast<size_t>(store.layout.layers[0].paged->key_bytes(store.layout.page_type));
  for (int32_t page = 0; page < 3; ++page) {
    ASSERT_EQ(store.pages.Take(), page);
    for (const size_t layer : {0, 2}) {
      std::memset(store.pages.keys(layer, page), 10 * page + static_cast<int>(layer), bytes);
      std::memset(store.pages.values(layer, page), 10 * page + static_cast<int>(layer) + 1, bytes);
    }
  }
  store.pages.Copy(0, 2);
  for (int32_t page = 0; page < 3; ++page) {
    const int expected = page == 2 ? 0 : 10 * page;
    for (const size_t layer : {0, 2}) {
      const std::vector<std::byte> keys(bytes,
                                        static_cast<std::byte>(expected + static_cast<int>(layer)));
      EXPECT_EQ(std::memcmp(store.pages.keys(layer, page), keys.data(), bytes), 0);
      const std::vector<std::byte> values(
          bytes, static_cast<std::byte>(expected + static_cast<int>(layer) + 1));
      EXPECT_EQ(std::memcmp(store.pages.values(layer, page), values.data(), bytes), 0);
    }
  }
}

TEST(PageStoreTest, LayersSeeTheirStore) {
  CacheStore store(LayoutOf("full+rerope"), 0);
  store.pages.Promise(2);
  store.pages.Take();
  const int32_t page = store.pages.Take();
  const PagedCache layer = store.pages.layer(1);
  EXPECT_EQ(layer.page_tokens, kPageTokens);
  EXPECT_EQ(layer.num_kv_heads, 2);
  EXPECT_EQ(layer.head_dim, 3);
  const int64_t bytes = store.layout.layers[1].paged->key_bytes(store.layout.page_type);
  EXPECT_EQ(static_cast<std::byte*>(layer.keys) + page * bytes, store.pages.keys(1, page));
}

}  // namespace
}  // namespace longstream

// The flag --model, and sizes in bytes.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "service/config/server_config.h"
#include "service/config/yaml/yaml_reader.h"

namespace longstream {
namespace {

TEST(ParseBytesTest, NumbersAndUnits) {
  const std::pair<const char*, uint64_t> cases[] = {
      {"0", 0},
      {"4096", 4096},
      {"7B", 7},
      {"3kB", 3000},
      {"3 KB", 3000},
      {"2MB", 2000000},
      {"2GB", 2000000000},
      {"64KiB", 65536},
      {"64MiB", 64 << 20},
      {"64mib", 64 << 20},
      {"5GiB", uint64_t{5} << 30},
      {"18446744073709551615", std::numeric_limits<uint64_t>::max()},
      {"17179869183GiB", uint64_t{17179869183} << 30},
  };
  for (const auto& [text, bytes] : cases) {
    const absl::StatusOr<uint64_t> parsed = ParseBytes(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status();
    EXPECT_EQ(*parsed, bytes) << text;
  }
}

TEST(ParseBytesTest, RefusesWhatIsNoSize) {
  for (const char* text : {"", "B", "-1", "1.5GiB", "12TB", "0x10", "1 2", "MiB4"}) {
    const absl::StatusOr<uint64_t> parsed = ParseBytes(text);
    EXPECT_TRUE(absl::IsInvalidArgument(parsed.status())) << text;
    EXPECT_EQ(parsed.status().message(),
              "expected bytes such as 4096, 64MiB or 2GB, found '" + std::string(text) + "'");
  }
}

TEST(ParseBytesTest, NamesTheLimit) {
  for (const char* text : {"18446744073709551616", "17179869184GiB", "99999999999999999999999"}) {
    EXPECT_EQ(ParseBytes(text).status().message(),
              "expected at most 18446744073709551615 bytes, found '" + std::string(text) + "'");
  }
}

TEST(ModelFlagTest, NameAndDirectory) {
  ServerConfig config;
  ASSERT_TRUE(AddModelFlag("tiny=models/a=b", &config).ok());
  ASSERT_EQ(config.models.size(), 1u);
  EXPECT_EQ(config.models[0].name, "tiny");
  EXPECT_EQ(config.models[0].directory, "models/a=b");
  EXPECT_EQ(config.models[0].device, "auto");
  EXPECT_EQ(config.models[0].options_json, "{}");
}

TEST(ModelFlagTest, EveryKey) {
  ServerConfig config;
  const absl::Status status =
      AddModelFlag("a=d,backend=hwfa2,device=cuda:0,version=7,cache_bytes=64MiB", &config);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(config.models.size(), 1u);
  EXPECT_EQ(config.models[0].backend, "hwfa2");
  EXPECT_EQ(config.models[0].device, "cuda:0");
  EXPECT_EQ(config.models[0].version, "7");
  EXPECT_EQ(config.models[0].cache_bytes, uint64_t{64} << 20);
}

TEST(ModelFlagTest, OptionsHaveTheTypesOfJson) {
  const std::pair<const char*, const char*> cases[] = {
      {"options.n=256,options.f=0.5,options.t=true,options.z=null,options.s=int8,options.e=,"
       "options.q=say \"x\"",
       R"({"n":256,"f":0.5,"t":true,"z":null,"s":"int8","e":"","q":"say \"x\""})"},
      {"options.full_layers=[2,5],options.empty=[],options.mixed=[ 1, x,true ],options.n=1",
       R"({"full_layers":[2,5],"empty":[],"mixed":[1,"x",true],"n":1})"},
      {"options.rope_scaling={rope_type: linear, factor: 2.5, list: [1, 2]},options.m={}",
       R"({"rope_scaling":{"factor":2.5,"list":[1,2],"rope_type":"linear"},"m":{}})"},
      // A value that is not YAML is a text.
      {"options.bad={a: [},options.n=1", R"({"bad":"{a: [},options.n=1"})"},
  };
  for (const auto& [options, json] : cases) {
    SCOPED_TRACE(options);
    ServerConfig config;
    const absl::Status status = AddModelFlag(std::string("a=d,") + options, &config);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(config.models.at(0).options_json, json);
  }
}

TEST(ModelFlagTest, Devices) {
  for (const char* device : {"auto", "cpu", "cuda", "cuda:0", "cuda:15"}) {
    ServerConfig config;
    const absl::Status status = AddModelFlag(std::string("a=d,device=") + device, &config);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(config.models[0].device, device);
  }
}

TEST(ModelFlagTest, ReplacesTheModelOfThatName) {
  ServerConfig config;
  ASSERT_TRUE(AddModelFlag("a=old,backend=dense", &config).ok());
  ASSERT_TRUE(AddModelFlag("b=kept", &config).ok());
  ASSERT_TRUE(AddModelFlag("a=new", &config).ok());
  ASSERT_EQ(config.models.size(), 2u);
  EXPECT_EQ(config.models[0].directory, "kept");
  EXPECT_EQ(config.models[1].directory, "new");
  EXPECT_EQ(config.models[1].backend, "");
}

TEST(ModelFlagTest, ErrorsQuoteTheFlag) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "expected NAME=DIR[,key=value...]"},
      {"a", "expected NAME=DIR[,key=value...]"},
      {"=d", "expected NAME=DIR[,key=value...]"},
      {"a=", "expected NAME=DIR[,key=value...]"},
      {"a=d,backen=x",
       "unknown key 'backen'; expected one of: backend, cache_bytes, device, options.KEY, version"},
      {"a=d,",
       "unknown key ''; expected one of: backend, cache_bytes, device, options.KEY, version"},
      {"a=d,options=1",
       "unknown key 'options'; expected one of: backend, cache_bytes, device, options.KEY, "
       "version"},
      {"a=d,device=gpu",
       "device: expected auto, cpu, cuda or cuda:N with N from 0 to 4294967295, found 'gpu'"},
      {"a=d,device=cuda:",
       "device: expected auto, cpu, cuda or cuda:N with N from 0 to 4294967295, found 'cuda:'"},
      {"a=d,device=cuda:-1",
       "device: expected auto, cpu, cuda or cuda:N with N from 0 to 4294967295, found 'cuda:-1'"},
      {"a=d,device=",
       "device: expected auto, cpu, cuda or cuda:N with N from 0 to 4294967295, found ''"},
      {"a=d,cache_bytes=lots",
       "cache_bytes: expected bytes such as 4096, 64MiB or 2GB, found 'lots'"},
      {"a=d,cache_bytes=17179869184GiB",
       "cache_bytes: expected at most 18446744073709551615 bytes, found '17179869184GiB'"},
  };
  for (const auto& [flag, reason] : cases) {
    ServerConfig config;
    const absl::Status status = AddModelFlag(flag, &config);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << flag;
    EXPECT_EQ(status.message(), "--model " + std::string(flag) + ": " + reason);
    EXPECT_TRUE(config.models.empty()) << flag;
  }
}

TEST(ModelFlagsTest, ANameOccursOnce) {
  ServerConfig config;
  ASSERT_TRUE(ReadConfigText("models: [{name: a, directory: d}]", "server.yaml", &config).ok());
  ASSERT_TRUE(AddModelFlags({"a=x", "b=y"}, &config).ok());
  ASSERT_EQ(config.models.size(), 2u);
  EXPECT_EQ(config.models[0].directory, "x") << "a flag replaces the model of the file";

  const absl::Status status = AddModelFlags({"c=x", "a=y", "c=z,backend=dense"}, &config);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "--model c=z,backend=dense: an earlier flag has the same name: --model c=x");
  EXPECT_EQ(AddModelFlags({"=x"}, &config).message(),
            "--model =x: expected NAME=DIR[,key=value...]");
}

}  // namespace
}  // namespace longstream

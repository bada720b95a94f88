#include "tests/e2e/hostile/attack_threads.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <thread>

namespace longstream {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kThreads = 4;
constexpr int kLowestPriority = 19;

double ThreadSeconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

}  // namespace

int AttackCounts::total() const {
  return std::accumulate(attacks.begin(), attacks.end(), 0,
                         [](int sum, const auto& attack) { return sum + attack.second; });
}

AttackThreads::AttackThreads(const Target& target, uint32_t seed, double rate,
                             const std::string& only)
    : interval_(static_cast<int64_t>(1e9 * kThreads / rate)) {
  for (const Attack& attack : AllAttacks()) {
    if (std::string_view(attack.name).find(only) != std::string_view::npos)
      attacks_.push_back(attack);
  }
  if (attacks_.empty()) throw std::runtime_error("no attack is called " + only);
  for (uint32_t i = 0; i < kThreads; ++i) {
    std::seed_seq seeds{seed, i};
    threads_.push_back({.attacker = {.target = target,
                                     .random = std::mt19937(seeds),
                                     .held = {},
                                     .sent = 0,
                                     .request = i,
                                     .request_step = kThreads},
                        .counts = {}});
  }
}

void AttackThreads::Run(Clock::time_point until) {
  OnAllThreads([this, until](Thread& thread) { RunUntil(thread, until); });
}

void AttackThreads::RunEach(int times) {
  OnAllThreads([this, times](Thread& thread) {
    for (int time = 0; time < times; ++time) {
      for (const Attack& attack : attacks_) Make(attack, thread);
    }
  });
}

void AttackThreads::OnAllThreads(const std::function<void(Thread& thread)>& body) {
  std::vector<std::thread> running;
  running.reserve(threads_.size());
  for (Thread& thread : threads_) {
    running.emplace_back([&thread, &body] {
      setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowestPriority);
      body(thread);
      thread.attacker.DropHeld();
      thread.counts.processor_seconds += ThreadSeconds();
    });
  }
  for (std::thread& thread : running) thread.join();
  counts_ = {};
  for (const Thread& thread : threads_) {
    for (const auto& [name, count] : thread.counts.attacks) counts_.attacks[name] += count;
    counts_.sent += thread.attacker.sent;
    counts_.processor_seconds += thread.counts.processor_seconds;
    counts_.requests += thread.attacker.request / thread.attacker.request_step;
    counts_.failures += thread.counts.failures;
  }
}

std::vector<std::string> AttackThreads::Missing() const {
  std::vector<std::string> missing;
  for (const Attack& attack : attacks_) {
    if (!counts_.attacks.contains(attack.name)) missing.emplace_back(attack.name);
  }
  return missing;
}

void AttackThreads::RunUntil(Thread& thread, Clock::time_point until) const {
  for (Clock::time_point next = Clock::now(); next < until;) {
    std::this_thread::sleep_until(next);
    Make(Choose(thread.attacker.random), thread);
    // A thread that is late does not attack faster afterwards.
    next = std::max(next + interval_, Clock::now());
  }
}

void AttackThreads::Make(const Attack& attack, Thread& thread) {
  try {
    attack.run(thread.attacker);
    ++thread.counts.attacks[attack.name];
  } catch (const std::runtime_error& error) {
    std::printf("FAULT: %s: %s\n", attack.name, error.what());
    ++thread.counts.failures;
  }
}

const Attack& AttackThreads::Choose(std::mt19937& random) const {
  int all = 0;
  for (const Attack& attack : attacks_) all += attack.weight;
  int left = static_cast<int>(random() % static_cast<uint32_t>(all));
  for (const Attack& attack : attacks_) {
    left -= attack.weight;
    if (left < 0) return attack;
  }
  return attacks_.back();
}

}  // namespace longstream

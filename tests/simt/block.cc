// The scheduler of a block's fibers, its barriers and its warp operations.
#include "tests/simt/block.h"

#include <algorithm>
#include <array>
#include <boost/context/fiber.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/simt/executed_kernels.h"
#include "tests/simt/fiber_stack.h"

namespace longstream::simt {

Place place;

namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kMaxGridYZ = 65535;
constexpr size_t kMaxSharedBytes = 163 << 10;  // of sm_80, the least of what is compiled for
constexpr size_t kDefaultSharedBytes = 48 << 10;

enum class State { kReady, kBlockBarrier, kWarpOperation, kDone };
enum class Operation { kBarrier, kBallot, kShuffle, kGather };

constexpr const char* kOperationNames[] = {"__syncwarp", "a vote", "a shuffle", "an exchange"};

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
  size_t zeros;
  size_t group;  // commits before it
};

struct Thread {
  State state = State::kReady;
  uint3 index{};
  boost::context::fiber fiber;  // where it goes on
  boost::context::stack_context stack;
  StackSwitch stack_switch;
  int predicate = 0;
  // The warp operation it waits in.
  Operation operation = Operation::kBarrier;
  uint32_t mask = 0;
  int from = 0;
  std::array<std::byte, kGatherBytes> given{};
  std::array<std::byte, kGatherBytes> taken{};
  uint32_t ballot = 0;

  std::vector<Copy> copies;  // asked for and not yet done
  size_t commits = 0;
};

// In which order threads run and when copies are done.
class Order {
 public:
  explicit Order(size_t threads) : order_(threads) {
    const char* setting = std::getenv("LONGSTREAM_SIMT_ORDER");
    const std::string_view name = setting == nullptr ? "forward" : setting;
    std::iota(order_.begin(), order_.end(), size_t{0});
    if (name == "backward") {
      std::reverse(order_.begin(), order_.end());
      copies_at_once_ = true;
    } else if (name != "forward") {
      engine_.seed(std::strtoull(setting, nullptr, 10));
      shuffles_ = true;
    }
  }

  const std::vector<size_t>& Next() {
    if (shuffles_) std::shuffle(order_.begin(), order_.end(), engine_);
    return order_;
  }
  bool CopyAtOnce() { return shuffles_ ? engine_() % 2 == 0 : copies_at_once_; }

 private:
  std::vector<size_t> order_;
  bool copies_at_once_ = false;
  bool shuffles_ = false;
  std::mt19937_64 engine_;
};

struct AlignedDelete {
  void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{128}); }
};

class Block {
 public:
  Block(const Launch& launch, const std::function<void()>& body);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void RunAll();

  std::byte* shared() const { return shared_.get(); }
  void BarrierOfBlock(int predicate);
  Votes votes() const { return votes_; }
  // Waits until all lanes of the mask are there, then returns what the running thread got.
  Thread& Warp(Operation operation, uint32_t mask, int from, const void* value, size_t bytes);
  uint32_t Vote(uint32_t mask, int predicate);
  const std::byte* Gather(const void* value, size_t bytes);
  void CopyLater(const Copy& copy);
  void CommitCopies() { ++running_->commits; }
  void WaitForCopies(size_t groups);

  [[noreturn]] void Die(const std::string& problem) const;

 private:
  void StartFiber(Thread* thread);
  void Resume(Thread* thread);
  void Yield();
  void RunOne();
  bool CompleteWarp(const Thread& last);
  void ReportStuck() const;
  static void Do(const Copy& copy);

  const Launch launch_;
  const std::function<void()>& body_;
  std::vector<Thread> threads_;
  std::vector<std::array<std::byte, kGatherBytes>> gathered_;  // a slot a thread
  std::unique_ptr<std::byte, AlignedDelete> shared_;
  Order order_;
  Thread* running_ = nullptr;
  boost::context::fiber scheduler_;
  StackSwitch scheduler_switch_;
  const void* scheduler_stack_ = nullptr;
  size_t scheduler_stack_size_ = 0;
  size_t waiting_at_barrier_ = 0;
  Votes votes_;
  bool stop_ = false;
};

Block* current = nullptr;

[[noreturn]] void Fail(const std::string& sentence) {
  std::fprintf(stderr, "simt: %s\n", sentence.c_str());
  std::abort();
}

std::string NameOf(const uint3& index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " +
         std::to_string(index.z) + ")";
}

// Kernels with more than kDefaultSharedBytes of shared memory.
std::map<const void*, size_t>& AllowedSharedBytes() {
  static std::map<const void*, size_t> allowed;
  return allowed;
}

void CheckLaunch(const Launch& launch) {
  const dim3& block = launch.block;
  const unsigned threads = block.x * block.y * block.z;
  if (threads == 0 || threads > kMaxThreads) {
    Fail("a block of " + std::to_string(threads) + " threads; 1 to 1024 are possible");
  }
  if (launch.grid.x == 0 || launch.grid.y == 0 || launch.grid.z == 0 ||
      launch.grid.x > 0x7fffffffu || launch.grid.y > kMaxGridYZ || launch.grid.z > kMaxGridYZ) {
    Fail("a grid of " + NameOf({launch.grid.x, launch.grid.y, launch.grid.z}) + " blocks");
  }
  const auto found = AllowedSharedBytes().find(launch.kernel);
  const size_t allowed = found == AllowedSharedBytes().end() ? kDefaultSharedBytes : found->second;
  if (launch.shared_bytes > allowed) {
    Fail(std::to_string(launch.shared_bytes) + " bytes of shared memory; the kernel may have " +
         std::to_string(allowed));
  }
}

Block::Block(const Launch& launch, const std::function<void()>& body)
    : launch_(launch),
      body_(body),
      threads_(size_t{launch.block.x} * launch.block.y * launch.block.z),
      gathered_(threads_.size()),
      shared_(static_cast<std::byte*>(::operator new (launch.shared_bytes, std::align_val_t{128}))),
      order_(threads_.size()) {
  unsigned i = 0;
  for (Thread& thread : threads_) {
    thread.index = {i % launch.block.x, i / launch.block.x % launch.block.y,
                    i / (launch.block.x * launch.block.y)};
    ++i;
    StartFiber(&thread);
  }
}

Block::~Block() {
  stop_ = true;
  for (Thread& thread : threads_) Resume(&thread);
}

void Block::StartFiber(Thread* thread) {
  PooledStack stacks;
  thread->stack = stacks.allocate();
  const boost::context::preallocated memory(thread->stack.sp, thread->stack.size, thread->stack);
  thread->fiber = boost::context::fiber(
      std::allocator_arg, memory, stacks, [this, thread](boost::context::fiber&& scheduler) {
        scheduler_ = std::move(scheduler);
        thread->stack_switch.Arrive(&scheduler_stack_, &scheduler_stack_size_);
        while (!stop_) {
          body_();
          if (!thread->copies.empty()) Die("a thread ended with copies that it did not wait for");
          thread->state = State::kDone;
          Yield();
        }
        StackSwitch::LeaveForEver(scheduler_stack_, scheduler_stack_size_);
        return std::move(scheduler_);
      });
}

void Block::Resume(Thread* thread) {
  running_ = thread;
  place.thread = thread->index;
  const auto* top = static_cast<const std::byte*>(thread->stack.sp);
  scheduler_switch_.Leave(top - thread->stack.size, thread->stack.size);
  thread->fiber = std::move(thread->fiber).resume();
  const void* bottom = nullptr;
  size_t size = 0;
  scheduler_switch_.Arrive(&bottom, &size);
  running_ = nullptr;
}

// In a thread: on to the next one.
void Block::Yield() {
  Thread* thread = running_;
  thread->stack_switch.Leave(scheduler_stack_, scheduler_stack_size_);
  scheduler_ = std::move(scheduler_).resume();
  thread->stack_switch.Arrive(&scheduler_stack_, &scheduler_stack_size_);
}

void Block::RunAll() {
  place.block_size = launch_.block;
  place.grid_size = launch_.grid;
  for (unsigned z = 0; z < launch_.grid.z; ++z) {
    for (unsigned y = 0; y < launch_.grid.y; ++y) {
      for (unsigned x = 0; x < launch_.grid.x; ++x) {
        place.block = {x, y, z};
        RunOne();
      }
    }
  }
}

void Block::RunOne() {
  std::memset(shared_.get(), 0xff, launch_.shared_bytes);
  for (Thread& thread : threads_) {
    thread.state = State::kReady;
    thread.commits = 0;
  }
  size_t done = 0;
  while (done < threads_.size()) {
    bool progress = false;
    for (const size_t i : order_.Next()) {
      if (threads_[i].state != State::kReady) continue;
      progress = true;
      Resume(&threads_[i]);
      if (threads_[i].state == State::kDone) ++done;
    }
    if (!progress) ReportStuck();
  }
}

void Block::ReportStuck() const {
  size_t at_barrier = 0, in_warp = 0, done = 0;
  std::string example;
  for (const Thread& thread : threads_) {
    at_barrier += thread.state == State::kBlockBarrier ? 1 : 0;
    done += thread.state == State::kDone ? 1 : 0;
    if (thread.state != State::kWarpOperation) continue;
    if (in_warp++ > 0) continue;
    char mask[16];
    std::snprintf(mask, sizeof(mask), "%08x", thread.mask);
    example = ", thread " + NameOf(thread.index) + " at " +
              kOperationNames[static_cast<int>(thread.operation)] + " of lanes " + mask;
  }
  Die("no thread can go on: " + std::to_string(at_barrier) + " of " +
      std::to_string(threads_.size()) + " wait at __syncthreads, " + std::to_string(in_warp) +
      " for their warp, " + std::to_string(done) + " have returned" + example);
}

void Block::Die(const std::string& problem) const {
  std::string sentence = "block " + NameOf(place.block);
  if (running_ != nullptr) sentence += ", thread " + NameOf(running_->index);
  Fail(sentence + ": " + problem);
}

void Block::BarrierOfBlock(int predicate) {
  running_->predicate = predicate != 0 ? 1 : 0;
  running_->state = State::kBlockBarrier;
  if (++waiting_at_barrier_ < threads_.size()) return Yield();
  waiting_at_barrier_ = 0;
  Votes votes;
  for (Thread& thread : threads_) {
    votes.count += thread.predicate;
    thread.state = State::kReady;
  }
  votes.any = votes.count > 0 ? 1 : 0;
  votes.all = votes.count == static_cast<int>(threads_.size()) ? 1 : 0;
  votes_ = votes;
  // The others read the votes before any of them can come to the next barrier, which needs all.
}

Thread& Block::Warp(Operation operation, uint32_t mask, int from, const void* value, size_t bytes) {
  Thread& thread = *running_;
  const int lane = Lane();
  if ((mask >> lane & 1) == 0) Die("a warp operation of lanes that do not include its own");
  if (operation == Operation::kShuffle && (mask >> from & 1) == 0) {
    Die("a shuffle from lane " + std::to_string(from) + ", which is not in its mask");
  }
  thread.operation = operation;
  thread.mask = mask;
  thread.from = from;
  if (bytes > 0) std::memcpy(thread.given.data(), value, bytes);
  thread.state = State::kWarpOperation;
  if (!CompleteWarp(thread)) Yield();
  return thread;
}

uint32_t Block::Vote(uint32_t mask, int predicate) {
  running_->predicate = predicate != 0 ? 1 : 0;
  return Warp(Operation::kBallot, mask, Lane(), nullptr, 0).ballot;
}

const std::byte* Block::Gather(const void* value, size_t bytes) {
  const Thread& thread = Warp(Operation::kGather, ~uint32_t{0}, Lane(), value, bytes);
  return gathered_[static_cast<size_t>(&thread - threads_.data()) / kWarp * kWarp].data();
}

// Ends the operation for all lanes of the mask if all of them have come.
bool Block::CompleteWarp(const Thread& last) {
  const size_t first = static_cast<size_t>(&last - threads_.data()) / kWarp * kWarp;
  uint32_t ballot = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((last.mask >> lane & 1) == 0) continue;
    if (first + lane >= threads_.size()) Die("a mask with lanes that the block does not have");
    const Thread& thread = threads_[first + lane];
    if (thread.state != State::kWarpOperation || thread.mask != last.mask ||
        thread.operation != last.operation) {
      return false;
    }
    if (thread.predicate != 0) ballot |= 1u << lane;
  }
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((last.mask >> lane & 1) == 0) continue;
    Thread& thread = threads_[first + lane];
    if (last.operation == Operation::kGather) {
      gathered_[first + lane] = thread.given;
    } else {
      thread.taken = threads_[first + static_cast<unsigned>(thread.from)].given;
    }
    thread.ballot = ballot;
    thread.state = State::kReady;
  }
  return true;
}

void Block::Do(const Copy& copy) {
  auto* to = static_cast<std::byte*>(copy.to);
  const size_t read = copy.bytes - copy.zeros;
  if (read > 0) std::memcpy(to, copy.from, read);
  std::memset(to + read, 0, copy.zeros);
}

void Block::CopyLater(const Copy& copy) {
  const auto misaligned = [&copy](const void* address) {
    return reinterpret_cast<uintptr_t>(address) % copy.bytes != 0;
  };
  if ((copy.bytes != 4 && copy.bytes != 8 && copy.bytes != 16) || copy.zeros > copy.bytes) {
    Die("an asynchronous copy of " + std::to_string(copy.bytes) + " bytes");
  }
  if (misaligned(copy.to) || misaligned(copy.from)) {
    Die("an asynchronous copy of " + std::to_string(copy.bytes) + " bytes that is not aligned");
  }
  running_->copies.push_back(copy);
  running_->copies.back().group = running_->commits;
  // It may be done at once, but remains to be waited for.
  if (order_.CopyAtOnce()) Do(copy);
}

void Block::WaitForCopies(size_t groups) {
  std::vector<Copy>& copies = running_->copies;
  size_t kept = 0;
  for (const Copy& copy : copies) {
    if (copy.group + groups < running_->commits) {
      Do(copy);
    } else {
      copies[kept++] = copy;
    }
  }
  copies.resize(kept);
}

}  // namespace

void Run(const Launch& launch, const std::function<void()>& body) {
  static std::mutex one_at_a_time;
  const std::lock_guard<std::mutex> lock(one_at_a_time);
  CheckLaunch(launch);
  NoteExecuted(launch.kernel);
  Block block(launch, body);
  current = &block;
  block.RunAll();
  current = nullptr;
}

void AllowSharedBytes(const void* kernel, size_t bytes) {
  if (bytes > kMaxSharedBytes) {
    Fail(std::to_string(bytes) + " bytes of shared memory; a block has at most 166912");
  }
  AllowedSharedBytes()[kernel] = bytes;  // the last one counts
}

std::byte* SharedMemory() { return current->shared(); }

void BlockBarrier() { current->BarrierOfBlock(0); }

Votes BlockVote(int predicate) {
  current->BarrierOfBlock(predicate);
  return current->votes();
}

void WarpBarrier(uint32_t mask) { current->Warp(Operation::kBarrier, mask, Lane(), nullptr, 0); }

uint32_t Ballot(uint32_t mask, int predicate) { return current->Vote(mask, predicate); }

void ShuffleBytes(uint32_t mask, void* value, size_t bytes, int from) {
  const Thread& thread = current->Warp(Operation::kShuffle, mask, from, value, bytes);
  std::memcpy(value, thread.taken.data(), bytes);
}

const std::byte* GatherBytes(const void* value, size_t bytes) {
  return current->Gather(value, bytes);
}

void CopyLater(void* to, const void* from, size_t bytes, size_t zeros) {
  current->CopyLater({to, from, bytes, zeros, 0});
}
void CommitCopies() { current->CommitCopies(); }
void WaitForCopies(size_t groups) { current->WaitForCopies(groups); }

}  // namespace longstream::simt

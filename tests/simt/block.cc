// The scheduler of a block's fibers, its barriers and its warp operations.
#include "tests/simt/block.h"

#include <algorithm>
#include <array>
#include <boost/context/fiber.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tests/simt/copies.h"
#include "tests/simt/executed_kernels.h"
#include "tests/simt/fiber_stack.h"
#include "tests/simt/launch_limits.h"
#include "tests/simt/order.h"
#include "tests/simt/warpgroup.h"

namespace longstream::simt {

Place place;

namespace {

constexpr unsigned kWarp = 32;

enum class State { kReady, kBlockBarrier, kWarpOperation, kEarlierKernels, kDone };
enum class Operation {
  kBarrier,
  kBallot,
  kShuffle,
  kGather,
  // Of a warpgroup.
  kProduct,
  kProductFence,
  kProductCommit,
  kProductWait,
};

constexpr const char* kOperationNames[] = {"__syncwarp",     "a vote",      "a shuffle",
                                           "an exchange",    "a product",   "wgmma's fence",
                                           "wgmma's commit", "wgmma's wait"};

constexpr size_t kSharedAlignment = 1024;

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
  Product product;  // of its warpgroup

  Copies copies;
  bool has_awaited = false;        // the kernels before
  bool has_fenced_writes = false;  // since the last barrier
};

struct AlignedDelete {
  void operator()(std::byte* data) const {
    ::operator delete (data, std::align_val_t{kSharedAlignment});
  }
};

}  // namespace

// The blocks of a launch, one after the other.
class Block {
 public:
  Block(const Launch& launch, const std::function<void()>& body);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void Begin();
  void RunAll();

  std::byte* shared() const { return shared_.get(); }
  void BarrierOfBlock(int predicate);
  Votes votes() const { return votes_; }
  // Waits until all lanes of the mask are there, then returns what the running thread got.
  Thread& Warp(Operation operation, uint32_t mask, int from, const void* value, size_t bytes);
  uint32_t Vote(uint32_t mask, int predicate);
  const std::byte* Gather(const void* value, size_t bytes);
  // Waits until all threads of the warpgroup are there, then does `finish(products)` once.
  template <typename Finish>
  void Warpgroup(Operation operation, const Finish& finish);
  void IssueProduct(const Product& product);
  void FenceSharedWrites() { running_->has_fenced_writes = true; }
  void AwaitEarlierKernels();
  void CopyLater(const Copy& copy);
  void CommitCopies() { running_->copies.Commit(); }
  void WaitForCopies(size_t groups) { running_->copies.Wait(groups); }

  [[noreturn]] void Die(const std::string& problem) const;

 private:
  void StartFiber(Thread* thread);
  void Resume(Thread* thread);
  void Yield();
  void Reset();
  void RunReady();
  void RunOne();
  bool CompleteWarp(const Thread& last);
  void ReportStuck() const;

  const Launch launch_;
  const std::function<void()>& body_;
  std::vector<Thread> threads_;
  std::vector<std::array<std::byte, kGatherBytes>> gathered_;  // a slot a thread
  std::unique_ptr<std::byte, AlignedDelete> shared_;
  std::vector<Products> products_;  // a slot a warpgroup
  std::vector<std::byte> visible_;  // what products see of shared memory, after the first fence
  Order order_;
  Thread* running_ = nullptr;
  boost::context::fiber scheduler_;
  StackSwitch scheduler_switch_;
  const void* scheduler_stack_ = nullptr;
  size_t scheduler_stack_size_ = 0;
  size_t waiting_at_barrier_ = 0;
  Votes votes_;
  bool begins_early_ = false;  // threads stop where they await earlier kernels
  bool has_begun_ = false;     // the first block is where Begin has left it
  bool stop_ = false;
};

namespace {

Block* current = nullptr;

}  // namespace

Block::Block(const Launch& launch, const std::function<void()>& body)
    : launch_(launch),
      body_(body),
      threads_(size_t{launch.block.x} * launch.block.y * launch.block.z),
      gathered_(threads_.size()),
      shared_(static_cast<std::byte*>(
          ::operator new (launch.shared_bytes, std::align_val_t{kSharedAlignment}))),
      products_(threads_.size() / kWarpgroup),
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
          if (!thread->copies.all_awaited())
            Die("a thread ended with copies that it did not wait for");
          if (launch_.overlaps && !thread->has_awaited) {
            Die("a thread ended that had not awaited the kernels before, which may still run");
          }
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

void Block::Begin() {
  place.block_size = launch_.block;
  place.grid_size = launch_.grid;
  place.block = {0, 0, 0};
  Reset();
  begins_early_ = true;
  RunReady();
  begins_early_ = false;
  has_begun_ = true;
  for (Thread& thread : threads_) {
    if (thread.state == State::kEarlierKernels) thread.state = State::kReady;
  }
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

void Block::Reset() {
  std::memset(shared_.get(), 0xff, launch_.shared_bytes);
  for (Thread& thread : threads_) {
    thread.state = State::kReady;
    thread.has_awaited = false;
    thread.has_fenced_writes = false;
  }
  visible_.clear();
}

// Until no thread can go on.
void Block::RunReady() {
  for (bool progress = true; progress;) {
    progress = false;
    for (const size_t i : order_.Next()) {
      if (threads_[i].state != State::kReady) continue;
      progress = true;
      Resume(&threads_[i]);
    }
  }
}

void Block::RunOne() {
  if (!std::exchange(has_begun_, false)) Reset();
  RunReady();
  const bool done = std::all_of(threads_.begin(), threads_.end(),
                                [](const Thread& thread) { return thread.state == State::kDone; });
  if (!done) ReportStuck();
  for (const Products& products : products_) {
    if (!products.all_awaited()) Die("it ended with products that it did not wait for");
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
  bool all_fenced = true;
  for (Thread& thread : threads_) {
    votes.count += thread.predicate;
    thread.state = State::kReady;
    all_fenced &= std::exchange(thread.has_fenced_writes, false);
  }
  if (all_fenced) visible_.assign(shared(), shared() + launch_.shared_bytes);
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

template <typename Finish>
void Block::Warpgroup(Operation operation, const Finish& finish) {
  const auto number = static_cast<size_t>(running_ - threads_.data()) / kWarpgroup;
  if (number >= products_.size()) Die("a product in a warpgroup that is not full");
  running_->operation = operation;
  running_->state = State::kWarpOperation;
  Thread* const first = threads_.data() + number * kWarpgroup;
  for (const Thread* thread = first; thread < first + kWarpgroup; ++thread) {
    if (thread->state != State::kWarpOperation || thread->operation != operation) return Yield();
  }
  finish(products_[number], first);
  for (Thread* thread = first; thread < first + kWarpgroup; ++thread) {
    thread->state = State::kReady;
  }
}

void Block::IssueProduct(const Product& product) {
  running_->product = product;
  Warpgroup(Operation::kProduct, [this](Products& products, const Thread* first) {
    if (visible_.empty()) Die("a product before any write to shared memory was fenced");
    Products::Given given;
    for (Product& of_thread : given) of_thread = first++->product;
    products.Issue(given, shared(), visible_.data());
  });
}

void Block::AwaitEarlierKernels() {
  running_->has_awaited = true;
  if (!begins_early_) return;
  running_->state = State::kEarlierKernels;
  Yield();
}

void Block::CopyLater(const Copy& copy) {
  const std::string problem = Copies::ProblemOf(copy);
  if (!problem.empty()) Die(problem);
  running_->copies.Ask(copy, order_.CopyAtOnce());
}

namespace {

std::mutex& OneAtATime() {
  static std::mutex mutex;
  return mutex;
}

std::unique_ptr<Block> MakeBlock(const Launch& launch, const std::function<void()>& body) {
  CheckLaunch(launch);
  NoteExecuted(launch.kernel);
  return std::make_unique<Block>(launch, body);
}

}  // namespace

Running::Running(const Launch& launch, const std::function<void()>& body)
    : launch_(launch), body_(body) {}
Running::~Running() = default;

void Running::Begin() {
  const std::lock_guard<std::mutex> lock(OneAtATime());
  block_ = MakeBlock(launch_, body_);
  current = block_.get();
  block_->Begin();
  current = nullptr;
}

void Running::Finish() {
  const std::lock_guard<std::mutex> lock(OneAtATime());
  if (block_ == nullptr) block_ = MakeBlock(launch_, body_);
  current = block_.get();
  block_->RunAll();
  current = nullptr;
  block_ = nullptr;
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

void FenceSharedWrites() { current->FenceSharedWrites(); }

void FenceProducts() {
  current->Warpgroup(Operation::kProductFence,
                     [](Products& products, const Thread*) { products.Fence(); });
}

void Multiply(const Product& product) { current->IssueProduct(product); }

void CommitProducts() {
  current->Warpgroup(Operation::kProductCommit,
                     [](Products& products, const Thread*) { products.Commit(); });
}

void WaitForProducts(size_t groups) {
  current->Warpgroup(Operation::kProductWait,
                     [groups](Products& products, const Thread*) { products.Wait(groups); });
}

void AwaitEarlierKernels() { current->AwaitEarlierKernels(); }

void Prefetch(const void* address) {
  [[maybe_unused]] const volatile std::byte read = *static_cast<const std::byte*>(address);
}

void CopyLater(void* to, const void* from, size_t bytes, size_t zeros) {
  current->CopyLater({to, from, bytes, zeros});
}
void CommitCopies() { current->CommitCopies(); }
void WaitForCopies(size_t groups) { current->WaitForCopies(groups); }

}  // namespace longstream::simt

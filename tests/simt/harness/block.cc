// Schedules the fibers of a block, with its barriers and its warp operations.
#include "tests/simt/harness/block.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tests/simt/harness/executed_kernels.h"
#include "tests/simt/harness/fiber.h"
#include "tests/simt/harness/launch_limits.h"
#include "tests/simt/harness/order.h"
#include "tests/simt/harness/thread.h"
#include "tests/simt/harness/warpgroup.h"

namespace longstream::simt {

Place place;

namespace {

constexpr size_t kSharedAlignment = 1024;

struct AlignedDelete {
  void operator()(std::byte* data) const {
    ::operator delete (data, std::align_val_t{kSharedAlignment});
  }
};

}  // namespace

// Runs the blocks of a launch one after the other.
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
  int vote() const { return vote_; }
  // Waits until all lanes of the mask have come. Before the call, the running thread's Thread holds
  // the value that it gives; after the call, the value that it receives.
  void Warp(Operation operation, uint32_t mask);
  uint32_t Vote(uint32_t mask, int predicate);
  const ShuffledBytes& Shuffle(uint32_t mask, const ShuffledBytes& value, int from);
  const GatheredBytes* Gather(const GatheredBytes& value);
  // Waits until all threads of the warpgroup have come, then calls `finish(products)` once.
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
  Fiber* RunThread(Thread* thread);
  Thread* NextReady();
  void BeginRound();
  void GoOnFrom(Fiber* fiber);
  void Yield() { GoOnFrom(&running_->fiber); }
  void Reset();
  void RunReady();
  void RunOne();
  bool CompleteWarp(const Thread& last);
  void ReportStuck() const;

  const Launch launch_;
  const std::function<void()>& body_;
  std::vector<Thread> threads_;
  std::vector<GatheredBytes> gathered_;      // one for each thread
  std::vector<uint32_t> in_warp_operation_;  // for each warp: the lanes in a warp operation
  std::unique_ptr<std::byte, AlignedDelete> shared_;
  std::vector<Products> products_;  // one for each warpgroup
  std::vector<std::byte> visible_;  // the shared memory that products see, after the first fence
  Order order_;
  const std::vector<size_t>* round_ = nullptr;  // numbers of all threads in the order of this round
  size_t place_in_round_ = 0;
  bool has_progress_ = false;  // some thread of the round has run
  Thread* running_ = nullptr;
  Fiber scheduler_;  // not the fiber of a thread
  size_t waiting_at_barrier_ = 0;
  int vote_ = 0;               // whether any thread voted at the last barrier
  bool begins_early_ = false;  // threads stop when they await earlier kernels
  bool has_begun_ = false;     // Begin has already begun the first block
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
      in_warp_operation_((threads_.size() + kWarp - 1) / kWarp),
      shared_(static_cast<std::byte*>(
          ::operator new (launch.shared_bytes, std::align_val_t{kSharedAlignment}))),
      products_(threads_.size() / kWarpgroup),
      order_(threads_.size()) {
  unsigned i = 0;
  for (Thread& thread : threads_) {
    thread.index = {i % launch.block.x, i / launch.block.x % launch.block.y,
                    i / (launch.block.x * launch.block.y)};
    thread.number = i++;
    thread.fiber.Start([this, &thread] { return RunThread(&thread); });
  }
}

Block::~Block() {
  stop_ = true;
  for (Thread& thread : threads_) scheduler_.SwitchTo(&thread.fiber);
}

// The body of a fiber: runs its thread in one block after the other.
Fiber* Block::RunThread(Thread* thread) {
  while (!stop_) {
    body_();
    if (!thread->copies.all_awaited()) Die("a thread ended with copies that it did not wait for");
    if (launch_.overlaps && !thread->has_awaited) {
      Die("a thread ended that had not awaited the kernels before, which may still run");
    }
    thread->state = State::kDone;
    Yield();
  }
  return &scheduler_;
}

// The next thread of this round, or of a new one, that can run; nullptr: none can.
Thread* Block::NextReady() {
  for (;;) {
    while (place_in_round_ < round_->size()) {
      Thread& thread = threads_[(*round_)[place_in_round_++]];
      if (thread.state != State::kReady) continue;
      has_progress_ = true;
      return &thread;
    }
    if (!has_progress_) return nullptr;
    BeginRound();
  }
}

void Block::BeginRound() {
  round_ = &order_.Next();
  place_in_round_ = 0;
  has_progress_ = false;
}

// Switches from a thread or the scheduler to the next thread, or to the scheduler if there is none.
void Block::GoOnFrom(Fiber* fiber) {
  running_ = NextReady();
  if (running_ != nullptr) {
    place.thread = running_->index;
    place.lane = static_cast<int>(running_->number % kWarp);
  }
  Fiber* const next = running_ != nullptr ? &running_->fiber : &scheduler_;
  if (next != fiber) fiber->SwitchTo(next);
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

// Runs threads until none can run.
void Block::RunReady() {
  BeginRound();
  GoOnFrom(&scheduler_);
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
  vote_ = 0;
  bool all_fenced = true;
  for (Thread& thread : threads_) {
    vote_ |= thread.predicate;
    thread.state = State::kReady;
    all_fenced &= std::exchange(thread.has_fenced_writes, false);
  }
  if (all_fenced) visible_.assign(shared(), shared() + launch_.shared_bytes);
  // A later vote cannot change this vote before the other threads have read it, because all threads
  // must pass the next barrier first.
}

void Block::Warp(Operation operation, uint32_t mask) {
  Thread& thread = *running_;
  const unsigned lane = thread.number % kWarp, first = thread.number - lane;
  if ((mask >> lane & 1) == 0) Die("a warp operation of lanes that do not include its own");
  if (first + static_cast<unsigned>(std::bit_width(mask)) > threads_.size()) {
    Die("a mask with lanes that the block does not have");
  }
  thread.operation = operation;
  thread.mask = mask;
  thread.state = State::kWarpOperation;
  uint32_t& there = in_warp_operation_[first / kWarp];
  there |= 1u << lane;
  if ((there & mask) != mask || !CompleteWarp(thread)) Yield();
}

uint32_t Block::Vote(uint32_t mask, int predicate) {
  Thread& thread = *running_;
  thread.predicate = predicate != 0 ? 1 : 0;
  Warp(Operation::kBallot, mask);
  return thread.ballot;
}

const ShuffledBytes& Block::Shuffle(uint32_t mask, const ShuffledBytes& value, int from) {
  if ((mask >> from & 1) == 0) {
    Die("a shuffle from lane " + std::to_string(from) + ", which is not in its mask");
  }
  Thread& thread = *running_;
  thread.from = static_cast<unsigned>(from);
  thread.given = value;
  Warp(Operation::kShuffle, mask);
  return thread.taken;
}

const GatheredBytes* Block::Gather(const GatheredBytes& value) {
  Thread& thread = *running_;
  thread.gathered = value;
  Warp(Operation::kGather, ~uint32_t{0});
  return &gathered_[thread.number / kWarp * kWarp];
}

// Ends the operation for all lanes of the mask if all of them have come. REQUIRES: each lane of the
// mask is in an operation of the warp
bool Block::CompleteWarp(const Thread& last) {
  const unsigned first = last.number / kWarp * kWarp;
  Thread* const lanes = &threads_[first];
  uint32_t ballot = 0;
  for (uint32_t left = last.mask; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const Thread& thread = lanes[lane];
    if (thread.mask != last.mask || thread.operation != last.operation) return false;
    if (thread.predicate != 0) ballot |= 1u << lane;
  }
  for (uint32_t left = last.mask; left != 0; left &= left - 1) {
    Thread& thread = lanes[std::countr_zero(left)];
    if (last.operation == Operation::kGather) {
      gathered_[thread.number] = thread.gathered;
    } else if (last.operation == Operation::kShuffle) {
      thread.taken = lanes[thread.from].given;
    }
    thread.ballot = ballot;
    thread.state = State::kReady;
  }
  in_warp_operation_[first / kWarp] &= ~last.mask;
  return true;
}

template <typename Finish>
void Block::Warpgroup(Operation operation, const Finish& finish) {
  const size_t number = running_->number / kWarpgroup;
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

int BlockVote(int predicate) {
  current->BarrierOfBlock(predicate);
  return current->vote();
}

void WarpBarrier(uint32_t mask) { current->Warp(Operation::kBarrier, mask); }

uint32_t Ballot(uint32_t mask, int predicate) { return current->Vote(mask, predicate); }

ShuffledBytes ShuffleBytes(uint32_t mask, const ShuffledBytes& value, int from) {
  return current->Shuffle(mask, value, from);
}

const GatheredBytes* GatherBytes(const GatheredBytes& value) { return current->Gather(value); }

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

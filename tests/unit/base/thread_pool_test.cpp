#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "base/run_balanced.h"

namespace phidias {
namespace {

struct Share {
  size_t begin;
  size_t end;
  size_t thread;
};

std::vector<Share> shares_of(ThreadPool& pool, size_t count, size_t grain) {
  std::mutex mutex;
  std::vector<Share> shares;
  pool.run(count, grain, [&](size_t begin, size_t end, size_t thread) {
    const std::lock_guard lock(mutex);
    shares.push_back({begin, end, thread});
  });
  std::sort(shares.begin(), shares.end(),
            [](const Share& a, const Share& b) { return a.begin < b.begin; });
  return shares;
}

TEST(ThreadPool, SharesCoverEveryItemOnceInUnitsOfTheGrain) {
  for (const size_t threads : {1U, 2U, 3U, 7U}) {
    ThreadPool pool(threads);
    ASSERT_EQ(pool.threads(), threads);
    for (const size_t count : {1U, 2U, 5U, 16U, 100U, 1000U}) {
      for (const size_t grain : {0U, 1U, 4U, 16U, 2000U}) {
        size_t next = 0;
        for (const Share& share : shares_of(pool, count, grain)) {
          ASSERT_EQ(share.begin, next);
          ASSERT_LT(share.begin, share.end);
          ASSERT_LT(share.thread, threads);
          if (share.end != count) {
            ASSERT_EQ(share.end % std::max<size_t>(grain, 1), 0U);
          }
          next = share.end;
        }
        ASSERT_EQ(next, count);
      }
    }
  }
}

TEST(ThreadPool, ASingleUnitIsDoneByTheCaller) {
  ThreadPool pool(3);
  std::thread::id worker;
  pool.run(5, 8, [&](size_t begin, size_t end, size_t thread) {
    EXPECT_EQ(begin, 0U);
    EXPECT_EQ(end, 5U);
    EXPECT_EQ(thread, 0U);
    worker = std::this_thread::get_id();
  });
  EXPECT_EQ(worker, std::this_thread::get_id());
}

TEST(ThreadPool, BalancedSharesCoverEveryItemOnceInUnitsOfTheGrain) {
  for (const size_t threads : {1U, 2U, 3U, 7U}) {
    ThreadPool pool(threads);
    for (const size_t count : {1U, 5U, 16U, 100U, 1000U}) {
      for (const size_t grain : {1U, 4U, 16U, 2000U}) {
        std::vector<std::atomic<int>> visits(count);
        run_balanced(pool, count, grain, [&](size_t begin, size_t end, size_t thread) {
          EXPECT_LT(begin, end);
          EXPECT_LT(thread, threads);
          EXPECT_EQ(begin % grain, 0U);
          for (size_t i = begin; i < end; ++i) ++visits[i];
        });
        for (const auto& visit : visits) ASSERT_EQ(visit, 1);
      }
    }
  }
}

TEST(ThreadPool, SharesAreAFunctionOfTheCountAlone) {
  ThreadPool pool(3);
  const std::vector<Share> first = shares_of(pool, 1000, 8);
  for (int round = 0; round < 20; ++round) {
    const std::vector<Share> again = shares_of(pool, 1000, 8);
    ASSERT_EQ(again.size(), first.size());
    for (size_t i = 0; i < first.size(); ++i) {
      ASSERT_EQ(again[i].end, first[i].end);
      ASSERT_EQ(again[i].thread, first[i].thread);
    }
  }
}

TEST(ThreadPool, NothingIsCalledForNoItems) {
  ThreadPool pool(2);
  pool.run(0, 1, [](size_t, size_t, size_t) { FAIL(); });
}

TEST(ThreadPool, ZeroThreadsAreOne) {
  ThreadPool pool(0);
  EXPECT_EQ(pool.threads(), 1U);
  EXPECT_EQ(shares_of(pool, 10, 1).size(), 1U);
}

TEST(ThreadPool, TheCallerTakesShareZero) {
  ThreadPool pool(2);
  std::thread::id ran;
  pool.run(2, 1, [&](size_t, size_t, size_t thread) {
    if (thread == 0) ran = std::this_thread::get_id();
  });
  EXPECT_EQ(ran, std::this_thread::get_id());
}

// Plain writes and reads: under ThreadSanitizer this shows that run() orders them.
TEST(ThreadPool, WhatTheBodiesWroteIsVisibleToTheCallerAndToTheNextRun) {
  ThreadPool pool(4);
  std::vector<size_t> values(1000, 0), mirrored(1000, 0);
  for (size_t round = 1; round <= 300; ++round) {
    pool.run(values.size(), 1, [&](size_t begin, size_t end, size_t) {
      for (size_t i = begin; i < end; ++i) values[i] = round + i;
    });
    // Each share reads what another has written.
    pool.run(values.size(), 7, [&](size_t begin, size_t end, size_t) {
      for (size_t i = begin; i < end; ++i) mirrored[i] = values[values.size() - 1 - i];
    });
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(mirrored[i], round + values.size() - 1 - i);
    }
  }
}

TEST(ThreadPool, WorkersThatSleepWakeUpForTheNextRun) {
  ThreadPool pool(3);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // well beyond the spin
    std::atomic<size_t> sum = 0;
    pool.run(90, 1, [&](size_t begin, size_t end, size_t) { sum += end - begin; });
    ASSERT_EQ(sum.load(), 90U);
  }
}

TEST(ThreadPool, ACallerThatFinishesEarlyWaitsForSlowWorkers) {
  ThreadPool pool(3);
  std::atomic<int> done = 0;
  pool.run(3, 1, [&](size_t, size_t, size_t thread) {
    if (thread != 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    ++done;
  });
  EXPECT_EQ(done.load(), 3);
}

TEST(ThreadPool, CallersFromSeveralThreadsTakeTurns) {
  ThreadPool pool(2);
  size_t inside = 0;  // plain on purpose: only one run may be at work
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        pool.run(1, 1, [&](size_t, size_t, size_t) { ++inside; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(inside, 800U);
}

TEST(ThreadPool, APoolCanRunInsideABodyOfAnother) {
  ThreadPool outer(2), first(2), second(2);
  std::atomic<size_t> sum = 0;
  outer.run(2, 1, [&](size_t begin, size_t end, size_t) {
    for (size_t i = begin; i < end; ++i) {
      (i == 0 ? first : second).run(50, 1, [&](size_t b, size_t e, size_t) { sum += e - b; });
    }
  });
  EXPECT_EQ(sum.load(), 100U);
}

TEST(ThreadPool, APoolThatWasNeverUsedEnds) {
  for (int i = 0; i < 20; ++i) ThreadPool pool(4);
}

}  // namespace
}  // namespace phidias

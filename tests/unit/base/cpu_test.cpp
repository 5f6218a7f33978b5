#include "base/cpu.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/thread_pool.h"
#include "support/temporary_folder.h"

namespace phidias {
namespace {

TEST(CpuFeatures, CoversWhatItHasAndNoMore) {
  const CpuFeatures some = {.avx2 = true, .avx512 = true};
  EXPECT_TRUE(some.covers({}));
  EXPECT_TRUE(some.covers({.avx2 = true}));
  EXPECT_TRUE(some.covers(some));
  EXPECT_FALSE(some.covers({.avx512_vnni = true}));
  EXPECT_FALSE(some.covers({.avx2 = true, .neon_i8mm = true}));
}

TEST(CpuFeatures, WiderVectorsImplyNarrowerOnes) {
  const CpuFeatures& here = cpu_features();
  if (here.avx512) {
    EXPECT_TRUE(here.avx2);
  }
  if (here.avx512_vnni || here.avx512_bf16) {
    EXPECT_TRUE(here.avx512);
  }
  EXPECT_FALSE(here.avx2 && here.neon_dotprod);
}

TEST(CpuFeatures, TheCpuHasAName) { EXPECT_FALSE(cpu_name().empty()); }

TEST(CpuFeatures, AnArmCpuIsNamedByItsNumbers) {
  const test::TemporaryFolder proc;
  EXPECT_EQ(cpu_name(proc.path().c_str()), "unknown CPU");
  proc.write("cpuinfo", std::string_view("processor\t: 0\nBogoMIPS\t: 50.00\n"
                                         "CPU implementer\t: 0x41\nCPU architecture: 8\n"
                                         "CPU variant\t: 0x3\nCPU part\t: 0xd0c\n"));
  EXPECT_EQ(cpu_name(proc.path().c_str()), "Arm, implementer 0x41, part 0xd0c");
}

// A machine as /proc and /sys/fs/cgroup would show it.
class FakeMachine {
 public:
  // `cpus` CPUs, `threads_per_core` neighbours on a core; all may be used.
  explicit FakeMachine(size_t cpus, size_t threads_per_core = 1, bool with_topology = true) {
    std::string text;
    for (size_t cpu = 0; cpu < cpus; ++cpu) {
      text += "processor\t: " + std::to_string(cpu) + "\nmodel name\t: Some CPU\n";
      if (with_topology) {
        text += "physical id\t: 0\ncore id\t\t: " + std::to_string(cpu / threads_per_core) + "\n";
      }
      text += "\n";
    }
    write("proc/cpuinfo", text);
    allow("0-" + std::to_string(cpus - 1));
    groups("0::/\n");
  }
  void allow(const std::string& list) {
    write("proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t" + list + "\n");
  }
  void groups(const std::string& lines) { write("proc/self/cgroup", lines); }
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    folder_.write(name, std::string_view(text));
  }
  size_t usable() const {
    return usable_cores((folder_.path() / "cgroup").c_str(), (folder_.path() / "proc").c_str());
  }

 private:
  test::TemporaryFolder folder_;
};

TEST(UsableCores, WithoutLimitsAreThePhysicalCores) {
  EXPECT_EQ(FakeMachine(96).usable(), 96U);
  EXPECT_EQ(FakeMachine(96, 2).usable(), 48U);
  EXPECT_EQ(FakeMachine(8, 1, false).usable(), 8U);
}

TEST(UsableCores, TwoPackagesWithTheSameCoreNumbersAreTwoCores) {
  FakeMachine machine(2);
  machine.write("proc/cpuinfo",
                "processor\t: 0\nphysical id\t: 0\ncore id\t: 0\n\n"
                "processor\t: 1\nphysical id\t: 1\ncore id\t: 0\n");
  EXPECT_EQ(machine.usable(), 2U);
}

TEST(UsableCores, AQuotaIsRoundedDown) {
  FakeMachine v2(96);
  v2.write("cgroup/cpu.max", "765000 100000\n");
  EXPECT_EQ(v2.usable(), 7U);
  FakeMachine v1(96);
  v1.groups("4:cpu,cpuacct:/\n");
  v1.write("cgroup/cpu,cpuacct/cpu.cfs_quota_us", "765000\n");
  v1.write("cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(v1.usable(), 7U);
}

TEST(UsableCores, NoQuotaLeavesAllCores) {
  FakeMachine v2(96);
  v2.write("cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(v2.usable(), 96U);
  FakeMachine v1(96);
  v1.write("cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  v1.write("cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(v1.usable(), 96U);
}

TEST(UsableCores, AQuotaBelowOneCoreIsOne) {
  FakeMachine machine(8);
  machine.write("cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(machine.usable(), 1U);
}

TEST(UsableCores, TheSmallestQuotaOnTheWayToTheRootCounts) {
  FakeMachine machine(32);
  machine.groups("0::/outer/inner\n");
  machine.write("cgroup/outer/cpu.max", "400000 100000\n");
  machine.write("cgroup/outer/inner/cpu.max", "900000 100000\n");
  EXPECT_EQ(machine.usable(), 4U);
}

TEST(UsableCores, AnAffinityMaskCounts) {
  FakeMachine machine(16, 2);
  machine.allow("0-3,8");
  EXPECT_EQ(machine.usable(), 3U);  // cores 0, 1 and 4
}

TEST(UsableCores, UnreadableOrBrokenFilesLeaveAtLeastOne) {
  EXPECT_GE(usable_cores("/nonexistent", "/nonexistent"), 1U);
  FakeMachine machine(4);
  machine.allow("0-99999999999,-,x");
  machine.groups("nonsense\n0:\n::::\n");
  machine.write("cgroup/cpu.max", "lots of\n");
  EXPECT_EQ(machine.usable(), 4U);
}

TEST(UsableCores, OfThisMachineAreAtLeastOne) { EXPECT_GE(usable_cores(), 1U); }

}  // namespace
}  // namespace phidias

// How much memory this process may still take.
#pragma once

#include <cstdint>

namespace phidias {

// The smaller of what the system calls available and what the process's memory group (cgroup v2 or
// v1) has left, in bytes. The roots exist for tests. Where neither can be read: 1 GiB.
uint64_t available_memory(const char* proc_root = "/proc",
                          const char* cgroup_root = "/sys/fs/cgroup");

}  // namespace phidias

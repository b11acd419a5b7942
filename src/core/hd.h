#pragma once
// MINITE_HD marks functions that run on the host and on the device. On the host they are always inline: code
// of files compiled for one instruction set must not be merged by the linker into files for another.
#ifdef __CUDACC__
#define MINITE_HD __host__ __device__
#else
#define MINITE_HD [[gnu::always_inline]]
#endif

// SPDX-License-Identifier: Apache-2.0 OR MIT
// Fields of vectors with an element for each hart, in what Verilator makes of ports.

#pragma once

#include <cstddef>
#include <cstdint>

#include "verilated.h"

namespace {

// Ports of up to 64 bits are integers, wider ones arrays of 32-bit words.
template <typename T>
void put(T &port, unsigned low, unsigned width, uint64_t value) {
    uint64_t mask = width == 64 ? ~0ull : ((1ull << width) - 1);
    port = T((uint64_t(port) & ~(mask << low)) | ((value & mask) << low));
}

template <std::size_t N>
void put(VlWide<N> &port, unsigned low, unsigned width, uint64_t value) {
    if (width == 64 && low % 32 == 0) {
        port[low / 32] = uint32_t(value);
        port[low / 32 + 1] = uint32_t(value >> 32);
        return;
    }
    for (unsigned i = 0; i < width; ++i) {
        uint32_t bit = 1u << ((low + i) % 32);
        uint32_t &word = port[(low + i) / 32];
        word = (value >> i & 1) ? word | bit : word & ~bit;
    }
}

template <typename T>
uint64_t get(const T &port, unsigned low, unsigned width) {
    uint64_t mask = width == 64 ? ~0ull : ((1ull << width) - 1);
    return uint64_t(port) >> low & mask;
}

template <std::size_t N>
uint64_t get(const VlWide<N> &port, unsigned low, unsigned width) {
    if (width == 64 && low % 32 == 0)
        return port[low / 32] | uint64_t(port[low / 32 + 1]) << 32;
    uint64_t value = 0;
    for (unsigned i = 0; i < width; ++i)
        value |= uint64_t(port[(low + i) / 32] >> ((low + i) % 32) & 1) << i;
    return value;
}

}  // namespace

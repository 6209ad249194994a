// SPDX-License-Identifier: Apache-2.0 OR MIT
// Xvei as C functions. build.rs includes this once for each number of harts, with the class that
// Verilator made as TOP and the number as HARTS.

#include "XveiAlu.h"
#include "ports.h"

namespace {

// The same as in xvei/bench.rs.
struct HartIn {
    uint64_t operand, ppn;
    uint16_t csr, offset;
    uint8_t reset, req_valid, page, op, mode, width, withdraw;
};

struct In {
    uint64_t mem_rdata;
    uint8_t reset, mem_ack, mem_err;
    HartIn harts[8];
};

struct HartOut {
    uint64_t data;
    uint8_t rsp_valid, fault, retry, irq;
};

struct Out {
    uint64_t mem_addr, mem_value, mem_mask, mem_wdata;
    uint8_t mem_req, mem_op, mem_hart, job_busy;
    HartOut harts[8];
};

struct Circuit {
    VerilatedContext context;
    TOP top{&context};
    XveiAlu alu{&context};
};

void *make(int seed) {
    auto *circuit = new Circuit;
    circuit->context.randReset(2);
    circuit->context.randSeed(seed);
    return circuit;
}

void destroy(void *circuit) { delete static_cast<Circuit *>(circuit); }

// One cycle: the inputs, a rising edge, and the outputs that follow it.
void cycle(void *circuit, const In *in, Out *out) {
    TOP &top = static_cast<Circuit *>(circuit)->top;
    XveiAlu &alu = static_cast<Circuit *>(circuit)->alu;
    top.reset = in->reset;
    top.mem_ack = in->mem_ack;
    top.mem_err = in->mem_err;
    top.mem_rdata = in->mem_rdata;
    for (unsigned h = 0; h < HARTS; ++h) {
        const HartIn &hart = in->harts[h];
        put(top.hart_reset, h, 1, hart.reset);
        put(top.req_valid, h, 1, hart.req_valid);
        put(top.req_page, h, 1, hart.page);
        put(top.req_csr, 12 * h, 12, hart.csr);
        put(top.req_op, 3 * h, 3, hart.op);
        put(top.req_mode, 3 * h, 3, hart.mode);
        put(top.req_operand, 64 * h, 64, hart.operand);
        put(top.req_ppn, 44 * h, 44, hart.ppn);
        put(top.req_offset, 12 * h, 12, hart.offset);
        put(top.req_width, 2 * h, 2, hart.width);
        put(top.withdraw, h, 1, hart.withdraw);
    }
    top.clk = 0;
    top.eval();
    if (in->mem_ack) {
        alu.op = top.mem_op;
        alu.old = in->mem_rdata;
        alu.mask = top.mem_mask;
        alu.wdata = top.mem_wdata;
        alu.eval();
        out->mem_value = alu.value;
    }
    top.clk = 1;
    top.eval();
    out->mem_req = top.mem_req;
    out->mem_op = top.mem_op;
    out->mem_hart = top.mem_hart;
    out->mem_addr = uint64_t(top.mem_addr) << 3;
    out->mem_mask = top.mem_mask;
    out->mem_wdata = top.mem_wdata;
    out->job_busy = top.job_busy;
    for (unsigned h = 0; h < HARTS; ++h) {
        HartOut &hart = out->harts[h];
        hart.rsp_valid = get(top.rsp_valid, h, 1);
        hart.fault = get(top.rsp_fault, 2 * h, 2);
        hart.retry = get(top.rsp_retry, h, 1);
        hart.data = hart.rsp_valid ? get(top.rsp_data, 64 * h, 64) : 0;
        hart.irq = get(top.irq, h, 1);
    }
}

}  // namespace

// What xvei/bench.rs finds the functions by.
struct Functions {
    void *(*make)(int);
    void (*destroy)(void *);
    void (*cycle)(void *, const In *, Out *);
};

extern "C" const Functions SYMBOL = {make, destroy, cycle};
